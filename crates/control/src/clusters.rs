//! The destination clusters in use: one connection, index and writer each, started when first needed
//! (ENG-19).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_api::cluster::Cluster;
use tiphys_api::names::{IN_CLUSTER_SERVER, annotation};
use tiphys_cluster::{
    Claims, ClusterIndex, Connection, Derived, Discovery, IndexEvent, IndexOptions, ResourceFilter, Writer,
};
use tiphys_engine::health;
use tiphys_object::{GroupKind, Metadata};
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::World;

/// Events of one index that may wait; when full, its watches stall, which is the backpressure we want.
const EVENTS_MAX: usize = 4096;
/// Time an application waits for a cluster's first lists.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// One destination cluster in use.
pub(crate) struct Destination {
    /// The cluster, as configured.
    pub(crate) cluster: Cluster,
    /// What it holds.
    pub(crate) index: ClusterIndex,
    /// The way to change it.
    pub(crate) writer: Writer,
    filter: ResourceFilter,
    cancel: CancellationToken,
}

impl Destination {
    /// Whether the settings exclude a kind on this cluster (ENG-7).
    pub(crate) fn is_excluded(&self, group_kind: &GroupKind) -> bool {
        !self.filter.is_included(group_kind, &self.cluster.server)
    }

    /// Whether a kind is served but not watched.
    pub(crate) fn is_unwatched(&self, group_kind: &GroupKind) -> bool {
        self.index.kind_state(group_kind).is_none()
    }
}

/// An event of one cluster's index.
#[derive(Debug)]
pub(crate) struct ClusterEvent {
    /// Server of the cluster, as configured.
    pub(crate) server: SmolStr,
    /// What happened.
    pub(crate) event: IndexEvent,
}

type Slot = Arc<OnceCell<Arc<Destination>>>;

/// All destination clusters. Cheap to share behind `Arc`.
pub(crate) struct Pool {
    home: Connection,
    slots: Mutex<HashMap<String, (Cluster, Slot)>>,
    events: mpsc::Sender<ClusterEvent>,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Pool {
    /// An empty pool; the local cluster is reached through `home`.
    pub(crate) fn new(
        home: Connection,
        events: mpsc::Sender<ClusterEvent>,
        tracker: TaskTracker,
        cancel: CancellationToken,
    ) -> Self {
        Self { home, slots: Mutex::default(), events, tracker, cancel }
    }

    /// The destination for a cluster, started now when it was not in use. A changed configuration starts it
    /// anew (ENG-18). Waits for the first lists, at most a minute.
    ///
    /// # Errors
    /// With the text of the condition.
    pub(crate) async fn get(&self, cluster: &Cluster, world: &World) -> Result<Arc<Destination>, String> {
        let slot = self.slot(cluster);
        let destination = slot.get_or_try_init(|| self.start(cluster, world)).await?;
        match tokio::time::timeout(READY_TIMEOUT, destination.index.ready()).await {
            Ok(Ok(())) => Ok(Arc::clone(destination)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(format!("the cluster {} was not listed within {} s", cluster.name, READY_TIMEOUT.as_secs())),
        }
    }

    /// Takes new settings into use on all clusters: claims, exclusions, and clusters that changed or left.
    pub(crate) fn reconfigure(&self, world: &World, old: &World) {
        let mut slots = self.slots.lock();
        slots.retain(|server, (cluster, slot)| {
            let keep = world.clusters.by_server(server).is_ok_and(|known| known == cluster);
            if !keep && let Some(destination) = slot.get() {
                destination.cancel.cancel();
            }
            keep
        });
        for (_, slot) in slots.values() {
            let Some(destination) = slot.get() else { continue };
            if world.tracking != old.tracking {
                destination.index.set_claims(claims(world));
            }
            let changed = |key: &str| world.settings.cm().get(key) != old.settings.cm().get(key);
            if changed("resource.exclusions") || changed("resource.inclusions") {
                destination.index.set_filter(filter(world));
            }
        }
    }

    /// All destinations in use, by server.
    pub(crate) fn in_use(&self) -> Vec<Arc<Destination>> {
        let slots = self.slots.lock();
        let mut all: Vec<_> = slots.values().filter_map(|(_, slot)| slot.get().cloned()).collect();
        all.sort_by(|a, b| a.cluster.server.cmp(&b.cluster.server));
        all
    }

    fn slot(&self, cluster: &Cluster) -> Slot {
        let mut slots = self.slots.lock();
        match slots.get(&cluster.server) {
            Some((known, slot)) if known == cluster => Arc::clone(slot),
            known => {
                if let Some(destination) = known.and_then(|(_, slot)| slot.get()) {
                    destination.cancel.cancel();
                }
                let slot = Slot::default();
                slots.insert(cluster.server.clone(), (cluster.clone(), Arc::clone(&slot)));
                slot
            }
        }
    }

    async fn start(&self, cluster: &Cluster, world: &World) -> Result<Arc<Destination>, String> {
        let config = cluster.config.expose();
        let connection = if cluster.server == IN_CLUSTER_SERVER && config.trim().is_empty() {
            self.home.clone()
        } else {
            Connection::from_cluster_secret(&cluster.server, config).await.map_err(|error| chain(&error))?
        };
        let discovery = Discovery::new(connection.clone());
        let overrides = Arc::clone(&world.health);
        let derive = Arc::new(move |value: &serde_json::Value| Derived {
            health: health::assess(value, &overrides).map(|h| (SmolStr::new(h.status.as_str()), h.message)),
            ..Derived::default()
        });
        let mut options = IndexOptions::new(&cluster.server, claims(world), derive, jitter());
        let filter = filter(world);
        options.filter = filter.clone();
        options.namespaces = cluster.namespaces.iter().map(SmolStr::new).collect();
        options.cluster_resources = cluster.namespaces.is_empty() || cluster.cluster_resources;
        let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
        let cancel = self.cancel.child_token();
        let index = ClusterIndex::start(
            connection.clone(),
            discovery.clone(),
            options,
            sender,
            &self.tracker,
            cancel.clone(),
        );
        let (events, server) = (self.events.clone(), SmolStr::new(&cluster.server));
        self.tracker.spawn(async move {
            while let Some(event) = receiver.recv().await {
                if events.send(ClusterEvent { server: server.clone(), event }).await.is_err() {
                    return;
                }
            }
        });
        let writer = Writer::new(connection, discovery);
        Ok(Arc::new(Destination { cluster: cluster.clone(), index, writer, filter, cancel }))
    }
}

fn claims(world: &World) -> Claims {
    let tracking = world.tracking.clone();
    let keys = vec![
        SmolStr::new_static(annotation::TRACKING_ID),
        SmolStr::new_static(annotation::INSTALLATION_ID),
        tracking.label_key.clone(),
    ];
    Claims { keys, claim: Arc::new(move |metadata: &Metadata| tracking.claim(metadata)) }
}

fn filter(world: &World) -> ResourceFilter {
    let settings = &world.settings;
    ResourceFilter::parse(settings.resource_exclusions(), settings.resource_inclusions()).unwrap_or_else(|error| {
        tracing::error!(%error, "resource exclusions or inclusions cannot be read and are ignored");
        ResourceFilter::default()
    })
}

/// A number from 0 to 1 out of the hasher's random keys; spreads waits, decides nothing.
pub(crate) fn jitter() -> Arc<dyn Fn() -> f64 + Send + Sync> {
    use std::hash::{BuildHasher, RandomState};
    Arc::new(|| {
        let bits = RandomState::new().hash_one(0_u8) >> 32;
        f64::from(u32::try_from(bits).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
    })
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
