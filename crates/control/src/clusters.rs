//! The destination clusters in use: one connection, index and writer each, started when first needed
//! (ENG-19).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_api::cluster::{Cluster, ClusterKey, Clusters};
use tiphys_api::names::IN_CLUSTER_SERVER;
use tiphys_api::settings::ClientRate;
use tiphys_cluster::{
    Claims, ClusterIndex, Connection, Derive, Derived, Discovery, Fence, IndexEvent, IndexOptions, Jitter,
    Kinds, Observer, PluginPolicy, ResourceFilter, Writer, error_chain,
};
use tiphys_engine::health::{self, HealthOverrides};
use tiphys_engine::tracking::Readings;
use tiphys_engine::tree::{self, node_info};
use tiphys_object::{GroupKind, Metadata};
use tiphys_render::plan::ClusterFacts;
use tokio::sync::{OnceCell, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::AppStore;
use crate::world::World;

/// Events of one index that may wait; when full, its watches stall, which is the backpressure we want.
const EVENTS_MAX: usize = 4096;
/// Time an application waits, holding a worker, for the first lists of a cluster that was just started.
const READY_WAIT: Duration = Duration::from_secs(2);

/// One destination cluster in use.
pub(crate) struct Destination {
    /// The cluster, as configured.
    pub(crate) cluster: Cluster,
    /// What it holds.
    pub(crate) index: ClusterIndex,
    /// The way to change it.
    pub(crate) writer: Writer,
    started: Instant,
    cancel: CancellationToken,
    /// What the renderings may depend on, of the kinds it was made of.
    facts: Mutex<Option<(Arc<Kinds>, ClusterFacts)>>,
    /// How the index reads marks.
    readings: Arc<Mutex<Arc<Readings>>>,
}

impl Destination {
    /// Lets the index read marks as the rules say.
    fn read_by(&self, rules: &Rules) {
        let mut readings = self.readings.lock();
        let is_same = Arc::ptr_eq(&readings, &rules.readings) || *readings == rules.readings;
        *readings = Arc::clone(&rules.readings);
        if !is_same {
            self.index.set_claims(rules.claims());
        }
    }

    /// The same connection and index under another description.
    fn described_by(&self, cluster: Cluster) -> Self {
        Self {
            cluster,
            index: self.index.clone(),
            writer: self.writer.clone(),
            started: self.started,
            cancel: self.cancel.clone(),
            facts: Mutex::default(),
            readings: Arc::clone(&self.readings),
        }
    }

    /// What manifests may depend on about the cluster (RND-4); made anew when it was discovered anew.
    pub(crate) fn facts(&self) -> ClusterFacts {
        let Some(kinds) = self.index.discovery().snapshot() else { return ClusterFacts::default() };
        let mut known = self.facts.lock();
        match &*known {
            Some((of, facts)) if Arc::ptr_eq(of, &kinds) => facts.clone(),
            _ => {
                let facts = ClusterFacts::new(kinds.server_version(), kinds.api_versions());
                *known = Some((kinds, facts.clone()));
                facts
            }
        }
    }

    /// Whether the configuration of the cluster changed, so that this index watches no more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Whether a kind is served but not watched.
    pub(crate) fn is_unwatched(&self, group_kind: &GroupKind) -> bool {
        self.index.kind_state(group_kind).is_none()
    }
}

/// An event of one cluster's index.
#[derive(Debug)]
pub(crate) struct ClusterEvent {
    /// Which entry of a cluster.
    pub(crate) cluster: ClusterKey,
    /// What happened.
    pub(crate) event: IndexEvent,
}

/// Why a destination cannot be used now.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// Its first lists are not complete; come back soon.
    NotReady,
    /// It cannot be reached or configured, with the text of the condition.
    Failed(String),
}

/// A place for a destination, which is started by whoever needs it first.
struct Slot {
    cell: OnceCell<Arc<Destination>>,
    /// Ends what was started here, and what is being started.
    cancel: CancellationToken,
}

/// Clusters by their identity: entries of different projects with the same server share neither a connection nor an
/// index. Only [`Pool::reconfigure`] changes what is configured, so that a round with an older
/// snapshot cannot bring an older configuration back.
struct Slots {
    configured: Clusters,
    rules: Rules,
    used: BTreeMap<ClusterKey, Arc<Slot>>,
}

/// What every index is made with besides its cluster.
#[derive(Clone)]
struct Rules {
    readings: Arc<Readings>,
    filter: ResourceFilter,
    /// Why nobody knows the filter; then nothing is started.
    unfiltered: Option<String>,
    health: Arc<HealthOverrides>,
    /// Labels that nodes show.
    labels: Arc<[String]>,
    plugins: PluginPolicy,
    /// How fast each cluster is asked (REP-108).
    rate: Option<ClientRate>,
}

impl Rules {
    fn of(world: &World, readings: Arc<Readings>) -> Self {
        Self {
            readings,
            filter: world.filter.clone(),
            unfiltered: world.unfiltered.clone(),
            health: Arc::clone(&world.health),
            labels: custom_labels(world).into(),
            plugins: world.plugins.clone(),
            rate: world.settings.controller().client_rate,
        }
    }

    fn derive(&self) -> Derive {
        let (overrides, labels) = (Arc::clone(&self.health), Arc::clone(&self.labels));
        Arc::new(move |value: &serde_json::Value| Derived {
            health: health_of_descendant(value, &overrides),
            node: node_info(value, &labels).packed(),
            host: tree::host(value).map(Box::new),
        })
    }

    fn claims(&self) -> Claims {
        let readings = Arc::clone(&self.readings);
        let (keys, ways) = (readings.keys(), readings.ids());
        Claims { keys, claim: Arc::new(move |metadata: &Metadata| readings.marks(metadata)), ways }
    }
}

/// How clusters are reached.
pub(crate) struct Ways {
    /// The way to the local one.
    pub(crate) home: Connection,
    /// Ways that are given, by server; others are as their Secrets say.
    pub(crate) given: BTreeMap<String, Connection>,
    /// Who may write.
    pub(crate) fence: Option<Fence>,
    /// Who is told of requests to other clusters; of those to the local one somebody is told already.
    pub(crate) observer: Arc<dyn Observer>,
}

/// All destination clusters. Cheap to share behind `Arc`.
pub(crate) struct Pool {
    ways: Ways,
    slots: Mutex<Slots>,
    events: mpsc::Sender<ClusterEvent>,
    tracker: TaskTracker,
    cancel: CancellationToken,
    jitter: Jitter,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(
        ways: Ways,
        events: mpsc::Sender<ClusterEvent>,
        tracker: TaskTracker,
        cancel: CancellationToken,
        world: &World,
        jitter: Jitter,
    ) -> Self {
        let rules = Rules::of(world, Arc::new(Readings::of(&world.tracking)));
        let slots = Slots { configured: world.clusters.clone(), rules, used: BTreeMap::new() };
        let slots = Mutex::new(slots);
        Self { ways, slots, events, tracker, cancel, jitter }
    }

    /// The destination of this identity, started now when it was not in use (ENG-19). One that was just
    /// started gets a moment for its first lists; later callers do not wait.
    ///
    /// # Errors
    /// When it is not ready, or cannot be used.
    pub(crate) async fn get(&self, key: &ClusterKey) -> Result<Arc<Destination>, Unusable> {
        let slot = self.slot(key).map_err(Unusable::Failed)?;
        let starting = slot.cell.get_or_try_init(|| self.start(key, &slot.cancel));
        let destination = starting.await.map_err(Unusable::Failed)?;
        if destination.is_stopped() {
            // The settings changed while it was started.
            return Err(Unusable::NotReady);
        }
        // A way of marking that was brought while it was started is looked for too.
        destination.read_by(&self.slots.lock().rules);
        // Whoever needs it is woken when it answers again; until then nobody waits (CTL-141).
        if let Some(reason) = destination.index.unreachable() {
            return Err(Unusable::Failed(format!("cannot reach the API server: {reason}")));
        }
        first_lists(destination).await?;
        Ok(Arc::clone(destination))
    }

    /// Takes new settings into use on all clusters: claims, exclusions, and clusters that changed or left
    /// (ENG-18). `store` is asked how marks are read while nobody else can bring an older answer.
    pub(crate) fn reconfigure(&self, world: &World, old: &World, store: &AppStore) {
        let mut slots = self.slots.lock();
        let Slots { configured, rules, used } = &mut *slots;
        let readings = store.readings();
        let changed = |key: &str| world.settings.cm().get(key) != old.settings.cm().get(key);
        let is_filter_new = changed("resource.exclusions") || changed("resource.inclusions");
        let is_derived_anew =
            health_settings(world) != health_settings(old) || changed("resource.customLabels");
        let is_tracking_new = rules.readings != readings;
        let are_plugins_new = world.plugins != old.plugins;
        let is_rate_new = rules.rate != world.settings.controller().client_rate;
        let is_new = is_filter_new
            || is_derived_anew
            || is_tracking_new
            || are_plugins_new
            || is_rate_new
            || *configured != world.clusters;
        let changes = Changes { any: is_new, plugins: are_plugins_new, rate: is_rate_new };
        used.retain(|key, slot| keeps(slot, configured, &world.clusters, key, changes));
        *configured = world.clusters.clone();
        *rules = Rules::of(world, readings);
        for slot in used.values() {
            let Some(destination) = slot.cell.get() else { continue };
            destination.read_by(rules);
            if is_derived_anew {
                destination.index.set_derive(rules.derive());
            }
            if is_filter_new {
                destination.index.set_filter(rules.filter.clone());
            }
        }
    }

    /// Takes further ways of reading marks into use (TRK-91). Workers and the watch come here at once: the store is asked
    /// under the lock, so that nobody puts an older answer over a newer one.
    pub(crate) fn read_by(&self, store: &AppStore) {
        let mut slots = self.slots.lock();
        let readings = store.readings();
        if Arc::ptr_eq(&slots.rules.readings, &readings) || slots.rules.readings == readings {
            return;
        }
        slots.rules.readings = readings;
        for destination in slots.used.values().filter_map(|slot| slot.cell.get()) {
            destination.read_by(&slots.rules);
        }
    }

    /// All destinations in use, by their identity.
    pub(crate) fn in_use(&self) -> Vec<Arc<Destination>> {
        let slots = self.slots.lock();
        slots.used.values().filter_map(|slot| slot.cell.get().cloned()).collect()
    }

    /// The destination of this identity, where it is in use.
    pub(crate) fn used(&self, key: &ClusterKey) -> Option<Arc<Destination>> {
        self.slots.lock().used.get(key)?.cell.get().cloned()
    }

    fn slot(&self, key: &ClusterKey) -> Result<Arc<Slot>, String> {
        let mut slots = self.slots.lock();
        let Slots { configured, rules, used } = &mut *slots;
        configured.entry(key).map_err(|error| error.to_string())?;
        if let Some(reason) = &rules.unfiltered {
            return Err(reason.clone());
        }
        if let Some(slot) = used.get(key) {
            return Ok(Arc::clone(slot));
        }
        let slot = Arc::new(Slot { cell: OnceCell::new(), cancel: self.cancel.child_token() });
        used.insert(key.clone(), Arc::clone(&slot));
        Ok(slot)
    }

    async fn start(&self, key: &ClusterKey, cancel: &CancellationToken) -> Result<Arc<Destination>, String> {
        let (cluster, rules) = {
            let slots = self.slots.lock();
            let cluster = slots.configured.entry(key).map_err(|error| error.to_string())?;
            (cluster.clone(), slots.rules.clone())
        };
        let config = cluster.config.expose();
        let connection = if cluster.server == IN_CLUSTER_SERVER && config.trim().is_empty() {
            self.ways.home.clone()
        } else if let Some(given) = self.ways.given.get(&cluster.server) {
            given.observed(Arc::clone(&self.ways.observer))
        } else {
            Connection::from_cluster_secret(&cluster.server, config, &rules.plugins)
                .await
                .map_err(|error| error_chain(&error))?
                .observed(Arc::clone(&self.ways.observer))
        };
        let connection = match &self.ways.fence {
            Some(fence) => connection.fenced(fence),
            None => connection,
        };
        let connection = match rules.rate {
            Some(rate) => connection.paced(rate),
            None => connection,
        };
        let discovery = Discovery::new(connection.clone());
        let mut options =
            IndexOptions::new(&cluster.server, rules.claims(), rules.derive(), Arc::clone(&self.jitter));
        options.filter = rules.filter.clone();
        options.namespaces = cluster.namespaces.iter().map(SmolStr::new).collect();
        options.cluster_resources = cluster.namespaces.is_empty() || cluster.cluster_resources;
        let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
        let writer = Writer::new(connection.clone(), discovery.clone())
            .within(&options.namespaces, options.cluster_resources);
        let cancel = cancel.clone();
        let index =
            ClusterIndex::start(connection, discovery, options, sender, &self.tracker, cancel.clone());
        let (events, key) = (self.events.clone(), key.clone());
        let stop = cancel.clone();
        self.tracker.spawn(async move {
            // Both branches are cancel-safe; what is not forwarded when a cluster stops concerns nobody.
            while let Some(event) = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                event = receiver.recv() => event,
            } {
                if events.send(ClusterEvent { cluster: key.clone(), event }).await.is_err() {
                    return;
                }
            }
        });
        Ok(Arc::new(Destination {
            cluster: cluster.clone(),
            index,
            writer,
            started: Instant::now(),
            cancel,
            facts: Mutex::default(),
            readings: Arc::new(Mutex::new(rules.readings)),
        }))
    }
}

/// Waits for the first lists of a cluster, at most two seconds from its start: the one wait of a round besides `settle`.
///
/// It is not a requeue, because at a start thousands of applications of one cluster ask at once. Those few that have a
/// worker wait here, and the others for a worker; requeued, each would be read twice a second to find nothing.
async fn first_lists(destination: &Destination) -> Result<(), Unusable> {
    let wait = READY_WAIT.saturating_sub(destination.started.elapsed());
    match tokio::time::timeout(wait, destination.index.ready()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Unusable::Failed(error)),
        Err(_) => Err(Unusable::NotReady),
    }
}

/// What tells that the health of an object below ours changed. Scripts do not run here, where every object of the
/// cluster passes: of an object that a script judges, any change is one of its health.
fn health_of_descendant(value: &serde_json::Value, overrides: &HealthOverrides) -> Option<(SmolStr, String)> {
    if health::is_scripted(value, overrides) {
        let version = value.pointer("/metadata/resourceVersion").and_then(serde_json::Value::as_str);
        return Some((SmolStr::new_static("Unknown"), version.unwrap_or_default().to_owned()));
    }
    health::assess(value, overrides).map(|found| (SmolStr::new(found.status.as_str()), found.message))
}

/// Labels that nodes show (`resource.customLabels`, ENG-199).
pub(crate) fn custom_labels(world: &World) -> Vec<String> {
    let text = world.settings.cm().get("resource.customLabels").map_or("", String::as_str);
    text.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

/// Which settings changed.
#[derive(Clone, Copy)]
struct Changes {
    any: bool,
    /// Which credential plugins run.
    plugins: bool,
    /// How fast clusters are asked.
    rate: bool,
}

/// Decides about a place when settings changed; what goes is stopped. A cluster whose connection and index can stay
/// gets its new name, project, labels and so on.
fn keeps(slot: &mut Arc<Slot>, was: &Clusters, is: &Clusters, key: &ClusterKey, changes: Changes) -> bool {
    let now = match (was.entry(key), is.entry(key)) {
        // Of a cluster that nobody works on nobody needs to know anything (REP-103).
        (Ok(_), Ok(now)) if now.skip_reconcile => None,
        (Ok(_), Ok(_)) if changes.rate => None,
        (Ok(was), Ok(now)) if is_same_connection(was, now) && !(changes.plugins && has_plugin(now)) => {
            Some(now)
        }
        _ => None,
    };
    match (now, slot.cell.get()) {
        (Some(now), Some(destination)) => {
            if destination.cluster != *now {
                let renewed = Arc::new(destination.described_by(now.clone()));
                let cell = OnceCell::new_with(Some(renewed));
                *slot = Arc::new(Slot { cell, cancel: slot.cancel.clone() });
            }
            true
        }
        // Whoever starts it now does so with what was configured before.
        (Some(_), None) if !changes.any => true,
        _ => {
            slot.cancel.cancel();
            false
        }
    }
}

/// The settings that decide about health.
fn health_settings(world: &World) -> BTreeMap<&String, &String> {
    let all = world.settings.cm().iter();
    all.filter(|(key, _)| key.starts_with("resource.customizations")).collect()
}

/// Whether two configurations of a cluster need the same connection and index.
fn is_same_connection(a: &Cluster, b: &Cluster) -> bool {
    a.config == b.config
        && a.namespaces == b.namespaces
        && a.cluster_resources == b.cluster_resources
        && a.refresh_requested_at == b.refresh_requested_at
}

/// Whether a plugin gives the credentials of a cluster.
fn has_plugin(cluster: &Cluster) -> bool {
    let config = cluster.parse_config().unwrap_or_default();
    config.exec_provider_config.is_some() || config.aws_auth_config.is_some()
}

#[cfg(test)]
mod tests;
