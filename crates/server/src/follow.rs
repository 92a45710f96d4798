//! Follows what the API server shows and decides by: settings, Secrets, projects and Applications of the installation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use smol_str::SmolStr;
use tiphys_api::names::{self, GROUP, VERSION};
use tiphys_cluster::{
    ApiError, Connection, Discovery, Jitter, Kinds, ObjectEvent, ObjectQuery, Served, error_chain,
    next_of_first_list, watch_objects,
};
use tiphys_installation::InstallationData;
use tiphys_object::{Gvk, Object};
use tiphys_service::revoked::{REVOKED_SECRET, Revoked, Unreadable};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::{AppKey, Catalog};
use crate::session::Sessions;
use crate::sets::SetCatalog;
use crate::world::{Seen, World};

/// Objects of a watch that may wait; when full, the watch stalls, which is the backpressure we want.
const EVENTS_MAX: usize = 1_024;
/// Changes of settings within this time make one snapshot.
const WORLD_DELAY: Duration = Duration::from_millis(50);

/// Why the installation cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The API server cannot be used.
    #[error("cannot reach the cluster: {0}")]
    Cluster(String),
    /// The CRDs are not installed.
    #[error("the custom resource {0} is not installed in the cluster")]
    MissingDefinition(String),
}

impl From<ApiError> for FollowError {
    fn from(error: ApiError) -> Self {
        Self::Cluster(error_chain(&error))
    }
}

/// The way to the installation.
pub struct Home {
    /// To its cluster.
    pub connection: Connection,
    /// Its namespace.
    pub namespace: String,
    /// Environment variables, read once at start.
    pub env: BTreeMap<String, String>,
    /// Spreads attempts.
    pub jitter: Jitter,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    ConfigMap,
    Secret,
    Project,
}

/// What is followed, from the first complete lists on.
pub struct Following {
    seen: Seen,
    /// What is new about tokens that were given back.
    revoked: Option<Result<Revoked, Unreadable>>,
    config_maps: mpsc::Receiver<ObjectEvent>,
    secrets: mpsc::Receiver<ObjectEvent>,
    projects: mpsc::Receiver<ObjectEvent>,
    kinds: Arc<Kinds>,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Following")
    }
}

impl Following {
    /// Takes the first complete list of everything that decisions depend on.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or lacks our kinds.
    pub async fn start(
        home: &Home,
        tracker: &TaskTracker,
        cancel: &CancellationToken,
    ) -> Result<Self, FollowError> {
        let kinds = Discovery::new(home.connection.clone()).kinds().await?;
        let follow = |gvk: &Gvk| follow(home, &kinds, gvk, home.namespace.as_str().into(), (tracker, cancel));
        let mut following = Self {
            seen: Seen {
                data: InstallationData {
                    env: home.env.clone(),
                    namespace: home.namespace.clone(),
                    ..InstallationData::default()
                },
                secrets: BTreeMap::new(),
            },
            revoked: None,
            config_maps: follow(&Gvk::new("", "v1", "ConfigMap"))?,
            secrets: follow(&Gvk::new("", "v1", "Secret"))?,
            projects: follow(&Gvk::new(GROUP, VERSION, "AppProject"))?,
            kinds: Arc::clone(&kinds),
        };
        following.first().await.map_err(FollowError::Cluster)?;
        Ok(following)
    }

    /// The installation as the first lists show it.
    pub fn world(&self) -> World {
        let world = World::build(&self.seen, None);
        for warning in world.warnings() {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        world
    }

    async fn first(&mut self) -> Result<(), String> {
        for kind in [Kind::ConfigMap, Kind::Secret, Kind::Project] {
            while let Some(event) = next_of_first_list(self.receiver(kind)).await? {
                self.take(kind, event);
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

    /// Follows Applications into the catalog: those of the installation's namespace, or of all where others are
    /// enabled.
    ///
    /// # Errors
    /// When the kind is not served.
    pub fn applications(
        &self,
        home: &Home,
        catalog: Arc<Catalog>,
        world: &World,
        (tracker, cancel): (&TaskTracker, &CancellationToken),
    ) -> Result<(), FollowError> {
        let is_everywhere =
            world.installation.settings.application_namespaces().iter().any(|name| !name.is_empty());
        let namespace = if is_everywhere { SmolStr::default() } else { home.namespace.as_str().into() };
        let gvk = Gvk::new(GROUP, VERSION, "Application");
        let mut events = follow(home, &self.kinds, &gvk, namespace, (tracker, cancel))?;
        tracker.spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    ObjectEvent::Upsert(received) => match received.read() {
                        Ok(object) => catalog.take(&object),
                        Err(bad) => tracing::error!(%bad, "an Application cannot be read"),
                    },
                    ObjectEvent::Delete(key) => catalog.remove(&AppKey::new(&key.namespace, &key.name)),
                    ObjectEvent::Synced => catalog.listed(),
                    ObjectEvent::Failed(reason) => {
                        tracing::warn!(reason, "Applications cannot be watched at the moment");
                    }
                }
            }
        });
        Ok(())
    }

    /// Follows `ApplicationSets` into their catalog, which stays unknown where the cluster does not have the kind.
    pub fn application_sets(
        &self,
        home: &Home,
        sets: Arc<SetCatalog>,
        world: &World,
        (tracker, cancel): (&TaskTracker, &CancellationToken),
    ) {
        let is_everywhere = !world.installation.settings.application_sets().namespaces.is_empty();
        let namespace = if is_everywhere { SmolStr::default() } else { home.namespace.as_str().into() };
        let gvk = Gvk::new(GROUP, VERSION, "ApplicationSet");
        let mut events = match follow(home, &self.kinds, &gvk, namespace, (tracker, cancel)) {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(%error, "ApplicationSets are not served");
                return;
            }
        };
        tracker.spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    ObjectEvent::Upsert(received) => match received.read() {
                        Ok(object) => sets.take(object),
                        Err(bad) => tracing::error!(%bad, "an ApplicationSet cannot be read"),
                    },
                    ObjectEvent::Delete(key) => sets.remove(&AppKey::new(&key.namespace, &key.name)),
                    ObjectEvent::Synced => sets.listed(),
                    ObjectEvent::Failed(reason) => {
                        tracing::warn!(reason, "ApplicationSets cannot be watched at the moment");
                    }
                }
            }
        });
    }

    /// Follows changes and swaps new snapshots in, until the watches end.
    pub async fn run(mut self, world: Arc<ArcSwap<World>>, sessions: Arc<Sessions>) {
        let mut due: Option<Instant> = None;
        loop {
            if let Some(revoked) = self.revoked.take() {
                sessions.take_revoked(revoked);
            }
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Every branch is cancel-safe: receiving from a channel and sleeping.
            let (kind, event) = tokio::select! {
                biased;
                () = wait => {
                    due = None;
                    self.swap(&world);
                    continue;
                }
                event = self.config_maps.recv() => (Kind::ConfigMap, event),
                event = self.secrets.recv() => (Kind::Secret, event),
                event = self.projects.recv() => (Kind::Project, event),
            };
            let Some(event) = event else { return };
            if self.take(kind, event) && due.is_none() {
                due = Some(Instant::now() + WORLD_DELAY);
            }
        }
    }

    fn swap(&self, world: &ArcSwap<World>) {
        let old = world.load_full();
        let new = World::build(&self.seen, Some(&old));
        let known: Vec<&String> = old.warnings().collect();
        for warning in new.warnings().filter(|warning| !known.contains(warning)) {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        world.store(Arc::new(new));
        world.load().announce();
    }

    /// Takes an event; says whether anything changed.
    fn take(&mut self, kind: Kind, event: ObjectEvent) -> bool {
        match event {
            ObjectEvent::Upsert(received) => match received.read() {
                Ok(object) => self.upsert(kind, object),
                Err(bad) if matches!(kind, Kind::Project) => {
                    tracing::error!(%bad, "the project's applications cannot be worked with");
                    self.seen.data.projects.remove(bad.key.name.as_str());
                    self.seen.data.bad_projects.insert(bad.key.name.to_string(), bad.reason);
                    true
                }
                Err(bad) if matches!(kind, Kind::Secret) && bad.key.name == REVOKED_SECRET => {
                    self.revoked = Some(Err(Unreadable(bad.reason)));
                    false
                }
                Err(bad) => {
                    tracing::error!(%bad, "settings cannot be read; their last content stays in force");
                    false
                }
            },
            ObjectEvent::Delete(key) => self.delete(kind, &key.name),
            ObjectEvent::Synced | ObjectEvent::Failed(_) => false,
        }
    }

    fn upsert(&mut self, kind: Kind, object: Arc<Object>) -> bool {
        let name = object.name().to_owned();
        let is_ours = object.label(names::PART_OF_LABEL) == Some(names::PART_OF);
        match kind {
            // The policy needs no label (API-89, API-228).
            Kind::ConfigMap if is_ours || name == names::RBAC_CONFIG_MAP => self.seen.data.take(object),
            Kind::ConfigMap => false,
            Kind::Secret if name == REVOKED_SECRET => {
                self.revoked = Some(Revoked::read(Some(&object)));
                false
            }
            Kind::Secret => {
                let is_referable = is_ours || name == crate::world::TLS_SECRET;
                if is_referable {
                    self.seen.secrets.insert(name, Arc::clone(&object));
                }
                self.seen.data.take(object) || is_referable
            }
            Kind::Project => self.seen.data.take(object),
        }
    }

    fn delete(&mut self, kind: Kind, name: &str) -> bool {
        match kind {
            // Deviation (API-89): the reference does not notice.
            Kind::ConfigMap if name == names::RBAC_CONFIG_MAP => {
                self.seen.data.config_maps.remove(name).is_some()
            }
            Kind::ConfigMap => {
                if self.seen.data.config_maps.contains_key(name) {
                    tracing::error!(name, "a settings ConfigMap is gone; its last content stays in force");
                }
                false
            }
            Kind::Secret if name == names::SECRET => {
                tracing::error!(name, "the installation's Secret is gone; its last content stays in force");
                false
            }
            // Without it, what this process knows is all there is.
            Kind::Secret if name == REVOKED_SECRET => {
                self.revoked = Some(Ok(Revoked::default()));
                false
            }
            Kind::Secret => {
                let was_seen = self.seen.secrets.remove(name).is_some();
                self.seen.data.secrets.remove(name).is_some() || was_seen
            }
            Kind::Project => {
                self.seen.data.bad_projects.remove(name);
                self.seen.data.projects.remove(name).is_some()
            }
        }
    }
}

/// Follows the objects of a kind; an empty namespace means all of them.
fn follow(
    home: &Home,
    kinds: &Kinds,
    gvk: &Gvk,
    namespace: SmolStr,
    (tracker, cancel): (&TaskTracker, &CancellationToken),
) -> Result<mpsc::Receiver<ObjectEvent>, FollowError> {
    let resource = match kinds.served(gvk) {
        Served::Yes(resource) => resource,
        Served::No | Served::Unknown => {
            return Err(FollowError::MissingDefinition(format!("{} ({})", gvk.kind, gvk.api_version())));
        }
    };
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let query =
        ObjectQuery { resource, namespace, label_selector: String::new(), field_selector: String::new() };
    let (connection, jitter) = (home.connection.clone(), Arc::clone(&home.jitter));
    tracker.spawn(watch_objects(connection, query, sender, jitter, cancel.clone()));
    Ok(receiver)
}
