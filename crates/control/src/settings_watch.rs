//! Follows what an installation is set up with: `ConfigMaps`, Secrets and projects of the control plane. A change makes a
//! new snapshot, and the roles act on the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use smol_str::SmolStr;
use tiphys_api::names;
use tiphys_installation::{DataKind, InstallationData};
use tiphys_plugin::PluginOptions;
use tiphys_service::installation_watch::{InstallationWatch, Next, SNAPSHOT_DELAY, take};
use tiphys_source::{AzureIdentity, Observer, SourceOptions, Sources, TokenUse};
use tokio::time::Instant;

use crate::context::Context;
use crate::control_plane::{ControlPlane, StartError};
use crate::installation_id::{self, Home};
use crate::surroundings::{Random, Surroundings};
use crate::world::World;

/// What a role does about a change, with the new snapshot and the old one.
pub(crate) type Changed = for<'a> fn(&'a Context, &'a World, &'a World) -> BoxFuture<'a, ()>;

/// What `ConfigMaps` with settings carry.
const SETTINGS_LABEL: &str = "app.kubernetes.io/part-of=argocd";
/// Time until an installation ID that could not be stored is stored again.
const ID_AGAIN: Duration = Duration::from_secs(10);

/// The objects settings are made of.
pub(crate) struct SettingsWatch {
    watch: InstallationWatch,
    data: InstallationData,
    random: Random,
    /// The version of the settings that the log tells of.
    told: Option<SmolStr>,
}

impl SettingsWatch {
    /// Takes the first complete list of everything; what it says is in force from the first round on.
    pub(crate) async fn start(
        plane: &ControlPlane,
        env: BTreeMap<String, String>,
    ) -> Result<Self, StartError> {
        let open = |kind: DataKind| {
            let labels = if kind == DataKind::ConfigMap { SETTINGS_LABEL } else { "" };
            plane.follow(&kind.gvk(), plane.namespace.clone(), labels)
        };
        let mut inputs = Self {
            watch: InstallationWatch::open(open)?,
            data: InstallationData {
                env,
                namespace: plane.namespace.to_string(),
                ..InstallationData::default()
            },
            random: plane.surroundings.random.clone(),
            told: None,
        };
        let data = &mut inputs.data;
        let first = inputs.watch.first(|kind, event| {
            take(data, kind, event);
        });
        first.await.map_err(StartError::Cluster)?;
        if !plane.read_only {
            let home =
                Home { writer: &plane.home, namespace: &plane.namespace, random: &plane.surroundings.random };
            // Before anybody writes to a cluster (TRK-67).
            installation_id::ensure(home, &mut inputs.data, None)
                .await
                .map_err(StartError::InstallationId)?;
        }
        inputs.tell();
        Ok(inputs)
    }

    /// The installation as the first lists show it.
    pub(crate) fn world(&self) -> World {
        let world = World::build(&self.data, None);
        for warning in &world.warnings {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        world
    }

    /// The objects that the snapshot was made from.
    #[cfg(test)]
    pub(crate) fn data(&self) -> InstallationData {
        self.data.clone()
    }

    /// The repositories that all roles read.
    pub(crate) fn sources(
        &self,
        world: &World,
        surroundings: &Surroundings,
        (cache_dir, own_dirs): (&Path, Vec<PathBuf>),
        observer: Arc<dyn Observer>,
    ) -> Result<Sources, StartError> {
        let options = SourceOptions {
            // Who is trusted is read from the installation; a directory counts where somebody names one.
            tls_dir: self.data.env.get("ARGOCD_TLS_DATA_PATH").map(PathBuf::from),
            path: self.data.env.get("PATH").cloned().unwrap_or_default(),
            revision_ttl: revision_ttl(world),
            submodules: self.data.env.get("ARGOCD_GIT_MODULES_ENABLED").is_none_or(|text| text != "false"),
            local_roots: world.settings.local_repositories().to_vec(),
            own_dirs,
            token_use: TokenUse::of(|name| self.data.env.get(name)),
            azure_identity: AzureIdentity::of(|name| self.data.env.get(name)),
            observer: Some(observer),
            clock: surroundings.clock.clone(),
            ..SourceOptions::new(cache_dir)
        };
        let options =
            options.with_environment(|name| self.data.env.get(name)).map_err(StartError::Environment)?;
        let options = match &surroundings.repositories {
            // What is in memory reads nothing of this machine that it was not told of.
            Some(_) if !self.data.env.contains_key("ARGOCD_PLUGINSOCKFILEPATH") => {
                SourceOptions { plugins: PluginOptions::default(), ..options }
            }
            _ => options,
        };
        let sources = match &surroundings.repositories {
            Some(repositories) => Ok(Sources::in_memory(options, repositories.clone())),
            None => Sources::new(options),
        };
        let sources = sources.map_err(|error| StartError::Cache(error.to_string()))?;
        sources.set_trust(world.trust());
        Ok(sources)
    }

    /// Follows changes and swaps new snapshots in.
    pub(crate) async fn follow(mut self, context: Arc<Context>, changed: Changed) {
        let mut due: Option<Instant> = None;
        loop {
            match self.watch.next(due).await {
                Next::Due => {
                    let has_all = self.swap(&context, changed).await;
                    due = (!has_all).then(|| Instant::now() + ID_AGAIN);
                }
                Next::Event(kind, event) => {
                    if take(&mut self.data, kind, event) && due.is_none() {
                        due = Some(Instant::now() + SNAPSHOT_DELAY);
                    }
                }
                Next::Ended => return,
            }
        }
    }

    /// Puts a lost ID back before anything is decided without it: every object would be a stranger (TRK-69). Makes one where
    /// the settings have come to ask for it: until then, the objects of an installation that has one could be taken for
    /// ours (TRK-62).
    ///
    /// Whether there is nothing left to try.
    async fn keep_id(&mut self, context: &Context) -> bool {
        let in_use = context.world.load().tracking.installation_id.clone();
        let known = Some(in_use.as_str()).filter(|id| !id.is_empty());
        if !installation_id::is_due(&self.data, known) || (context.read_only && known.is_none()) {
            return true;
        }
        let home = Home { writer: &context.home, namespace: &context.namespace, random: &self.random };
        let stored = if context.read_only {
            Err("this process only reads".to_owned())
        } else {
            installation_id::ensure(home, &mut self.data, known).await
        };
        match (stored, known) {
            (Ok(()), _) => true,
            (Err(error), Some(id)) => {
                tracing::error!(id, error, "the installation ID was lost from argocd-cm; it stays in force");
                installation_id::keep_in_force(&mut self.data, id);
                true
            }
            (Err(error), None) => {
                tracing::error!(error, "the installation has no ID yet, which its settings ask for");
                false
            }
        }
    }

    /// Whether there is nothing left to try.
    async fn swap(&mut self, context: &Context, changed: Changed) -> bool {
        let has_all = self.keep_id(context).await;
        let world = Arc::new(World::build(&self.data, Some(&context.world.load_full())));
        let old = context.world.swap(Arc::clone(&world));
        for warning in world.warnings.iter().filter(|warning| !old.warnings.contains(warning)) {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        context.sources.set_trust(world.trust());
        if world.settings.local_repositories() != old.settings.local_repositories() {
            context.sources.set_local_roots(world.settings.local_repositories().to_vec());
        }
        context.sources.set_revision_ttl(revision_ttl(&world));
        changed(context, &world, &old).await;
        self.tell();
        has_all
    }

    /// Says in the log which version of the settings is in force, once for each.
    fn tell(&mut self) {
        let settings = self.data.config_maps.get(names::SETTINGS_CONFIG_MAP);
        let version = settings.map(|settings| settings.metadata().resource_version.clone());
        if let Some(version) = version.filter(|version| self.told.as_ref() != Some(version)) {
            tracing::info!(version = %version, "argocd-cm is in force");
            self.told = Some(version);
        }
    }
}

/// How long a listing of references is used: a little less than the refresh interval, so that every periodic
/// refresh looks at the repository, and all applications of one share the look (RND-36).
fn revision_ttl(world: &World) -> Duration {
    let soft = world.settings.refresh_timeouts().soft;
    if soft.is_zero() { Duration::from_mins(3) } else { soft * 9 / 10 }
}
