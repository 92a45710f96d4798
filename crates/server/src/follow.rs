//! Follows what the API server shows and decides by: settings, Secrets, projects and Applications of the installation.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use smol_str::SmolStr;
use tiphys_api::names::{self, GROUP, VERSION};
use tiphys_cluster::{
    ApiError, Connection, Discovery, Jitter, Kinds, ObjectEvent, ObjectQuery, Served, error_chain,
    watch_objects,
};
use tiphys_installation::{DataEvent, DataKind, InstallationData};
use tiphys_object::Gvk;
use tiphys_service::installation_watch::{InstallationWatch, Next, SNAPSHOT_DELAY, apply, read, take};
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

/// What is followed, from the first complete lists on.
pub struct Following {
    known: Known,
    watch: InstallationWatch,
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
        let open = |kind: DataKind| {
            follow(home, &kinds, &kind.gvk(), home.namespace.as_str().into(), (tracker, cancel))
        };
        let mut watch = InstallationWatch::open(open)?;
        let data = InstallationData {
            env: home.env.clone(),
            namespace: home.namespace.clone(),
            ..InstallationData::default()
        };
        let mut known = Known { seen: Seen { data, secrets: BTreeMap::new() }, revoked: None };
        let first = watch.first(|kind, event| {
            known.take(kind, event);
        });
        first.await.map_err(FollowError::Cluster)?;
        Ok(Self { known, watch, kinds })
    }

    /// The installation as the first lists show it.
    pub fn world(&self) -> World {
        let world = World::build(&self.known.seen, None);
        for warning in world.warnings() {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        world
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
            if let Some(revoked) = self.known.revoked.take() {
                sessions.take_revoked(revoked);
            }
            match self.watch.next(due).await {
                Next::Due => {
                    due = None;
                    self.swap(&world);
                }
                Next::Event(kind, event) => {
                    if self.known.take(kind, event) && due.is_none() {
                        due = Some(Instant::now() + SNAPSHOT_DELAY);
                    }
                }
                Next::Ended => return,
            }
        }
    }

    fn swap(&self, world: &ArcSwap<World>) {
        let old = world.load_full();
        let new = World::build(&self.known.seen, Some(&old));
        let known: Vec<&String> = old.warnings().collect();
        for warning in new.warnings().filter(|warning| !known.contains(warning)) {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        world.store(Arc::new(new));
        world.load().announce();
    }
}

/// What is known of the installation.
struct Known {
    seen: Seen,
    /// What is new about tokens that were given back.
    revoked: Option<Result<Revoked, Unreadable>>,
}

impl Known {
    /// Takes an event; says whether another snapshot is due.
    fn take(&mut self, kind: DataKind, event: ObjectEvent) -> bool {
        if kind != DataKind::Secret {
            return take(&mut self.seen.data, kind, event);
        }
        let Some(event) = read(&event) else { return false };
        if event.name() == REVOKED_SECRET {
            self.revoked = Some(revoked(event));
            return false;
        }
        let is_referable = self.refer(&event);
        apply(&mut self.seen.data, kind, event) || is_referable
    }

    /// Keeps a Secret that settings may refer to (API-60), and that of the port's certificate; whether it is or was one.
    fn refer(&mut self, event: &DataEvent) -> bool {
        let name = event.name();
        match event {
            DataEvent::Upsert(object)
                if object.label(names::PART_OF_LABEL) == Some(names::PART_OF)
                    || name == crate::world::TLS_SECRET =>
            {
                self.seen.secrets.insert(name.to_owned(), Arc::clone(object));
                true
            }
            DataEvent::Upsert(_) => self.seen.secrets.remove(name).is_some(),
            // Its last content stays in force.
            DataEvent::Unreadable { .. } => false,
            DataEvent::Delete { .. } => name != names::SECRET && self.seen.secrets.remove(name).is_some(),
        }
    }
}

/// What an event says of the tokens that were given back. Without the Secret, what this process knows is all there is.
fn revoked(event: DataEvent) -> Result<Revoked, Unreadable> {
    match event {
        DataEvent::Upsert(object) => Revoked::read(Some(&object)),
        DataEvent::Unreadable { reason, .. } => Err(Unreadable(reason)),
        DataEvent::Delete { .. } => Ok(Revoked::default()),
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
