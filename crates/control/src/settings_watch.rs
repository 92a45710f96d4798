//! Follows what an installation is set up with: `ConfigMaps`, Secrets and projects of the control plane. A change makes a
//! new snapshot, and the roles act on the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use smol_str::SmolStr;
use tiphys_api::names;
use tiphys_cluster::{ObjectEvent, next_of_first_list};
use tiphys_installation::{InstallationData, objects};
use tiphys_object::{Gvk, Metadata, ResourceKey};
use tiphys_source::{AzureIdentity, SourceOptions, Sources, TokenUse};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::context::Context;
use crate::control_plane::{ControlPlane, StartError, project_gvk};
use crate::installation_id::{self, Home};
use crate::store::is_news;
use crate::surroundings::{Random, Surroundings};
use crate::world::World;

/// What a role does about a change, with the new snapshot and the old one.
pub(crate) type Changed = for<'a> fn(&'a Context, &'a World, &'a World) -> BoxFuture<'a, ()>;

/// Settings changes within this time make one snapshot.
const WORLD_DELAY: Duration = Duration::from_millis(50);
/// Time until an installation ID that could not be stored is stored again.
const ID_AGAIN: Duration = Duration::from_secs(10);

/// The objects settings are made of.
pub(crate) struct SettingsWatch {
    config_maps: mpsc::Receiver<ObjectEvent>,
    secrets: mpsc::Receiver<ObjectEvent>,
    projects: mpsc::Receiver<ObjectEvent>,
    data: InstallationData,
    random: Random,
    /// The version of the settings that the log tells of.
    told: Option<SmolStr>,
}

#[derive(Clone, Copy)]
enum Kind {
    ConfigMap,
    Secret,
    Project,
}

impl SettingsWatch {
    /// Takes the first complete list of everything; what it says is in force from the first round on.
    pub(crate) async fn start(
        plane: &ControlPlane,
        env: BTreeMap<String, String>,
    ) -> Result<Self, StartError> {
        let follow =
            |kind: &str, labels| plane.follow(&Gvk::new("", "v1", kind), plane.namespace.clone(), labels);
        let mut inputs = Self {
            config_maps: follow("ConfigMap", "app.kubernetes.io/part-of=argocd")?,
            secrets: follow("Secret", "")?,
            projects: plane.follow(&project_gvk(), plane.namespace.clone(), "")?,
            data: InstallationData {
                env,
                namespace: plane.namespace.to_string(),
                ..InstallationData::default()
            },
            random: plane.surroundings.random.clone(),
            told: None,
        };
        inputs.first().await.map_err(StartError::Cluster)?;
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
        cache_dir: &Path,
        own_dirs: Vec<PathBuf>,
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
            clock: surroundings.clock.clone(),
            ..SourceOptions::new(cache_dir)
        };
        let options =
            options.with_environment(|name| self.data.env.get(name)).map_err(StartError::Environment)?;
        let sources = match &surroundings.repositories {
            Some(repositories) => Ok(Sources::in_memory(options, repositories.clone())),
            None => Sources::new(options),
        };
        let sources = sources.map_err(|error| StartError::Cache(error.to_string()))?;
        sources.set_trust(world.trust());
        Ok(sources)
    }

    /// Takes the first complete list of each kind.
    async fn first(&mut self) -> Result<(), String> {
        for kind in [Kind::ConfigMap, Kind::Secret, Kind::Project] {
            while let Some(event) = next_of_first_list(self.receiver(kind)).await? {
                take(&mut self.data, kind, event);
            }
        }
        Ok(())
    }

    fn receiver(&mut self, kind: Kind) -> &mut mpsc::Receiver<ObjectEvent> {
        match kind {
            Kind::ConfigMap => &mut self.config_maps,
            Kind::Secret => &mut self.secrets,
            Kind::Project => &mut self.projects,
        }
    }

    /// Follows changes and swaps new snapshots in.
    pub(crate) async fn follow(mut self, context: Arc<Context>, changed: Changed) {
        let mut due: Option<Instant> = None;
        loop {
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Every branch is cancel-safe: receiving from a channel and sleeping. The wait comes first, so that
            // no flood of events holds a snapshot back.
            let (kind, event) = tokio::select! {
                biased;
                () = wait => {
                    let has_all = self.swap(&context, changed).await;
                    due = (!has_all).then(|| Instant::now() + ID_AGAIN);
                    continue;
                }
                event = self.config_maps.recv() => (Kind::ConfigMap, event),
                event = self.secrets.recv() => (Kind::Secret, event),
                event = self.projects.recv() => (Kind::Project, event),
            };
            let Some(event) = event else { return };
            if take(&mut self.data, kind, event) && due.is_none() {
                due = Some(Instant::now() + WORLD_DELAY);
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

/// Takes an event; says whether anything changed.
fn take(data: &mut InstallationData, kind: Kind, event: ObjectEvent) -> bool {
    match event {
        ObjectEvent::Upsert(received)
            if !is_news(known(data, kind, received.key()), received.uid(), received.version()) =>
        {
            false
        }
        ObjectEvent::Upsert(received) => match received.read() {
            Ok(object) => data.take(object),
            // What a project permits cannot be told any more. Settings stay as they were (law 2).
            Err(bad) if matches!(kind, Kind::Project) => {
                tracing::error!(%bad, "the project's applications are not worked on");
                data.projects.remove(bad.key.name.as_str());
                data.bad_projects.insert(bad.key.name.to_string(), bad.reason);
                true
            }
            Err(bad) => {
                tracing::error!(%bad, "settings cannot be read; their last content stays in force");
                // One that was never read may be a cluster's.
                let is_unknown = matches!(kind, Kind::Secret) && known(data, kind, &bad.key).is_none();
                let name = bad.key.name.as_str();
                let unread = objects::unread_cluster(name, received.text(), bad.reason);
                let Some(unread) = unread.filter(|_| is_unknown) else {
                    return data.bad_secrets.remove(name).is_some();
                };
                data.bad_secrets.insert(name.to_owned(), unread.clone()) != Some(unread)
            }
        },
        // Without them fewer servers and signatures are trusted, and nothing else changes.
        ObjectEvent::Delete(key) if matches!(kind, Kind::ConfigMap) && is_trust(&key.name) => {
            tracing::warn!(name = %key.name, "a ConfigMap with certificates or keys is gone");
            data.config_maps.remove(key.name.as_str()).is_some()
        }
        // Settings that vanish, or lose their label, do not fall back to defaults: another installation's objects
        // could become ours (law 2).
        ObjectEvent::Delete(key) if matches!(kind, Kind::ConfigMap) => {
            tracing::error!(name = %key.name, "a settings ConfigMap is gone; its last content stays in force");
            false
        }
        ObjectEvent::Delete(key) => {
            data.bad_projects.remove(key.name.as_str());
            if matches!(kind, Kind::Secret) && data.bad_secrets.remove(key.name.as_str()).is_some() {
                return true;
            }
            let map = if matches!(kind, Kind::Project) { &mut data.projects } else { &mut data.secrets };
            map.remove(key.name.as_str()).is_some()
        }
        ObjectEvent::Synced | ObjectEvent::Failed(_) => false,
    }
}

/// What is known of an object: what a watch showed, or the answer to a write of our own.
fn known<'a>(data: &'a InstallationData, kind: Kind, key: &ResourceKey) -> Option<&'a Metadata> {
    let known = match kind {
        Kind::ConfigMap => &data.config_maps,
        Kind::Secret => &data.secrets,
        Kind::Project => &data.projects,
    };
    known.get(key.name.as_str()).map(|object| object.metadata())
}

/// Whether a `ConfigMap` says whom the installation trusts (REP A9).
fn is_trust(name: &str) -> bool {
    [names::TLS_CERTS_CONFIG_MAP, names::KNOWN_HOSTS_CONFIG_MAP, names::GPG_KEYS_CONFIG_MAP].contains(&name)
}

/// How long a listing of references is used: a little less than the refresh interval, so that every periodic
/// refresh looks at the repository, and all applications of one share the look (RND-36).
fn revision_ttl(world: &World) -> Duration {
    let soft = world.settings.refresh_timeouts().soft;
    if soft.is_zero() { Duration::from_mins(3) } else { soft * 9 / 10 }
}
