//! The role that works on `ApplicationSets` (ASET): what it follows, and its workers.
//!
//! ```text
//! watches, settings, deliveries ─▶ queue ─▶ look at one set ─▶ writes, events, status
//!                                              │
//!                                   living: pass    going: ending
//! ```
//!
//! What to do is decided in `tiphys-appset`, its questions are answered in `tiphys-generation`; here decisions are
//! carried out ([`carry_out`] writes Applications, [`record`] the set). Applications, projects, clusters and repositories are those that the other role follows: the store tells which sets there is news for.

mod backoff;
mod carry_out;
mod deliveries;
mod ending;
mod live;
mod lost;
mod pass;
mod preview;
mod record;
mod store;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_api::ApplicationSet;
use tiphys_api::applicationset::ApplicationSetStatus;
use tiphys_api::codes::SetConditionType;
use tiphys_api::settings::ApplicationSets;
use tiphys_appset::generator::{self, Kind};
use tiphys_appset::rollout;
use tiphys_cluster::{ApiResource, ObjectEvent, Received};
use tiphys_generation::{Answerer, FromHome, Outside};
use tiphys_lifecycle::webhook::SetEvent;
use tiphys_object::Object;
use tiphys_policy::pattern;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app_key::SetKey;
use crate::context::Context;
use crate::control_plane::{ControlPlane, StartError, set_gvk};
use crate::events::Event;
use crate::metrics::{SetInfo, SetLabels};
use crate::queue::{Measures, Priority, Queue};
use crate::store::SetNews;
use crate::surroundings::Random;
use crate::world::World;
use record::SetContext;
use store::{Difference, SetStore, Shown};

/// Pause of a set after its Applications changed, so that many changes are one look.
const NEWS_DELAY: Duration = Duration::from_millis(100);
/// Applications of one namespace that a set can be told apart from.
const APPLICATIONS_MAX: usize = 1_000_000;
/// Time until a set whose look ended unexpectedly gets another one.
const PANIC_AGAIN: Duration = Duration::from_secs(30);
/// Time until a set is tried again whose project has its share of the workers.
const CROWDED_AGAIN: Duration = Duration::from_secs(1);

/// What a look at a set wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Nothing: an event brings it back.
    Done,
    /// Another look at once.
    Now,
    /// A look after this long, unless an event comes first.
    After(Duration),
    /// Another try, later each time.
    Backoff,
    /// Another try soon: its project has its share of the workers.
    Crowded,
}

/// What all looks share.
pub(crate) struct Sets {
    shared: Arc<Context>,
    store: SetStore,
    queue: Queue<SetKey>,
    turns: backoff::Turns,
    places: Places,
    /// Answers what generators ask.
    answerer: Answerer,
    /// How Applications are served.
    applications: Arc<ApiResource>,
    random: Random,
    /// Time of the last event.
    last_event: Mutex<Timestamp>,
    /// Ends what may end at any time.
    cancel: CancellationToken,
    deliveries: mpsc::Sender<SetEvent>,
}

/// Starts following sets, and working on them. `None` where the cluster does not know the kind: that is said, and
/// everything else goes on.
pub(crate) fn start(plane: &ControlPlane, context: &Arc<Context>) -> Result<Option<Arc<Sets>>, StartError> {
    let world = context.world.load_full();
    let settings = world.settings.application_sets();
    let namespace = if settings.namespaces.is_empty() { plane.namespace.clone() } else { SmolStr::default() };
    let events = match plane.follow(&set_gvk(), namespace, "") {
        Ok(events) => events,
        Err(StartError::MissingDefinition(kind)) => {
            tracing::warn!(kind, "ApplicationSets are not worked on: the cluster does not know the kind");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if let Some(refusal) = &settings.refusal {
        tracing::error!(refusal, "no ApplicationSet is worked on");
    }
    let (sender, deliveries) = mpsc::channel(deliveries::DELIVERIES_MAX);
    let sets = Arc::new(Sets {
        shared: Arc::clone(context),
        store: SetStore::default(),
        queue: Queue::new(),
        turns: backoff::Turns::default(),
        places: Places::of(settings.concurrent_reconciliations.clamp(1, WORKERS_MAX)),
        answerer: Answerer::new(Outside {
            services: plane.surroundings.services.clone(),
            objects: Arc::new(FromHome(plane.home.clone())),
            observer: Some(Arc::new(context.metrics.github.clone())),
            environment: Arc::new(world.plugins.environment.clone()),
            sources: context.sources.clone(),
            namespace: context.namespace.clone(),
            compute: context.compute.clone(),
            connection: plane.connection.clone(),
            discovery: plane.discovery.clone(),
            jitter: plane.surroundings.random.jitter(),
            cancel: plane.cancel.clone(),
        }),
        applications: plane.resource(&Context::application_gvk())?,
        random: plane.surroundings.random.clone(),
        last_event: Mutex::new(Timestamp::MIN),
        cancel: plane.cancel.clone(),
        deliveries: sender,
    });
    plane.spawn(follow_sets(Arc::clone(&sets), events));
    plane.spawn(follow_applications(Arc::clone(&sets)));
    plane.spawn(follow_world(Arc::clone(&sets)));
    plane.spawn_writing(deliveries::follow(Arc::clone(&sets), deliveries));
    if !plane.read_only {
        plane.spawn(lost::tell(Arc::clone(&sets)));
    }
    for _ in 0..settings.concurrent_reconciliations.clamp(1, WORKERS_MAX) {
        plane.spawn_writing(work(Arc::clone(&sets)));
    }
    Ok(Some(sets))
}

/// Sets at once, whatever the settings say.
const WORKERS_MAX: usize = 1_000;

impl Sets {
    /// No further look is begun.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Sets that wait.
    pub(crate) fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// How the queue does.
    pub(crate) fn measures(&self) -> Measures {
        self.queue.measures()
    }

    /// Sets known, and keys and timers of the queue.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.store.len(), self.queue.size())
    }

    /// Takes what a webhook told; `false` when too much waits already.
    pub(crate) fn delivered(&self, event: SetEvent) -> bool {
        self.deliveries.try_send(event).is_ok()
    }

    /// What metrics show, of the sets that are worked on (ASET-311).
    pub(crate) fn infos(&self) -> Vec<SetInfo> {
        let world = self.shared.world.load_full();
        let wanted = &world.settings.application_sets().metrics_labels;
        let enabled = self.store.keys().into_iter().filter(|key| self.is_enabled(&world, key));
        let info = |key: SetKey| {
            let entry = self.store.get(&key)?;
            let Shown { status, owned, step } = entry.memory.lock().shown.clone();
            let label = |name: &String| {
                let value = entry.object.metadata().labels.get(name).map(SmolStr::to_string);
                (name.clone(), value.unwrap_or_default())
            };
            Some(SetInfo {
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                status,
                owned,
                step,
                labels: wanted.iter().map(label).collect(),
            })
        };
        enabled.filter_map(info).collect()
    }

    /// Sends an event about a set; never waits.
    fn note(&self, set: &Object, event: &tiphys_appset::events::Event) {
        tracing::info!(
            set = set.name(),
            namespace = set.namespace(),
            reason = event.reason,
            message = event.message,
            "event"
        );
        let at = {
            // Events are named by their time.
            let mut last = self.last_event.lock();
            let next = last.checked_add(jiff::SignedDuration::from_nanos(1)).unwrap_or(*last);
            *last = self.shared.clock.now().max(next);
            *last
        };
        let event = Event::of_set(set, event, at);
        if self.shared.events.try_send(event).is_err() {
            self.shared.metrics.worked("event-dropped");
        }
    }

    /// Whether sets of a namespace are worked on (ASET-290).
    fn is_enabled(&self, world: &World, key: &SetKey) -> bool {
        let settings = world.settings.application_sets();
        key.namespace == self.shared.namespace || pattern::regex_list(&settings.namespaces, &key.namespace)
    }

    /// Whether nothing may be written (ASET-145).
    fn is_dry(&self) -> bool {
        self.shared.read_only || self.shared.world.load().settings.application_sets().dry_run
    }

    /// Asks for a look that asks services again.
    fn wake(&self, key: &SetKey, priority: Priority) {
        if let Some(entry) = self.store.get(key) {
            entry.memory.lock().asks_again = true;
            self.queue.add(key.clone(), priority);
        }
    }
}

/// Workers by the project whose sets they work on: none has more than half of them (INV-16).
struct Places {
    share: usize,
    inside: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// A worker's place; dropping it gives it back.
struct Place {
    project: String,
    inside: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Places {
    fn of(workers: usize) -> Self {
        Self { share: (workers / 2).max(1), inside: Arc::default() }
    }

    fn enter(&self, project: &str) -> Option<Place> {
        let mut inside = self.inside.lock();
        let count = inside.entry(project.to_owned()).or_default();
        if *count >= self.share {
            return None;
        }
        *count += 1;
        Some(Place { project: project.to_owned(), inside: Arc::clone(&self.inside) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.inside.lock();
        if let Some(count) = inside.get_mut(&self.project) {
            *count -= 1;
            if *count == 0 {
                inside.remove(&self.project);
            }
        }
    }
}

/// Takes sets into the store and wakes the workers.
async fn follow_sets(sets: Arc<Sets>, mut events: mpsc::Receiver<ObjectEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            ObjectEvent::Upsert(received) => set_received(&sets, &received),
            ObjectEvent::Delete(key) => {
                let key = SetKey::new(&key.namespace, &key.name);
                sets.store.remove(&key);
                sets.queue.cancel_timer(&key);
                sets.shared.metrics.set_gone(&SetLabels::of(&key));
            }
            ObjectEvent::Synced => {}
            ObjectEvent::Failed(reason) => {
                tracing::warn!(reason, "ApplicationSets cannot be watched at the moment");
            }
        }
    }
}

fn set_received(sets: &Sets, received: &Received) {
    let key = SetKey::new(&received.key().namespace, &received.key().name);
    if !sets.store.is_news(&key, received.uid(), received.version()) {
        return;
    }
    let object = match received.read() {
        Ok(object) => object,
        Err(bad) => {
            // What it was is worked on no longer; nothing it made is touched (INV-15).
            tracing::warn!(set = %key, reason = bad.reason, "the ApplicationSet cannot be read");
            sets.store.remove(&key);
            return;
        }
    };
    let old = sets.store.upsert(Arc::clone(&object));
    let difference = old.as_ref().map(|old| Difference::between(&old.object, &object));
    let Some(entry) = sets.store.get(&key) else { return };
    if old.is_none() {
        entry.memory.lock().shown = entry.parse().map(|set| shown(&set.status)).unwrap_or_default();
    }
    match difference {
        None => sets.wake(&key, Priority::Urgent),
        Some(difference) if difference.declared => sets.wake(&key, Priority::Urgent),
        Some(difference) if difference.rollout => sets.queue.add(key, Priority::Routine),
        Some(_) => {}
    }
}

/// Wakes the sets whose Applications changed (ASET-180).
async fn follow_applications(sets: Arc<Sets>) {
    let follows = async {
        loop {
            for (key, SetNews { declared, .. }) in sets.shared.store.sets.next().await {
                let rolls = || sets.shared.world.load().settings.application_sets().progressive_syncs;
                if sets.store.get(&key).is_some() && (declared || rolls()) {
                    sets.queue.add_at(key, Instant::now() + NEWS_DELAY);
                }
            }
        }
    };
    // Cancel-safe: what is lost is lost with the process.
    sets.cancel.run_until_cancelled(follows).await;
}

/// Wakes the sets that a change of settings, clusters or projects concerns.
async fn follow_world(sets: Arc<Sets>) {
    let follows = async {
        let mut old = sets.shared.world.load_full();
        loop {
            sets.shared.world_news.notified().await;
            let new = sets.shared.world.load_full();
            world_changed(&sets, &old, &new);
            old = new;
        }
    };
    sets.cancel.run_until_cancelled(follows).await;
}

fn world_changed(sets: &Sets, old: &World, new: &World) {
    let (before, after): (&ApplicationSets, &ApplicationSets) =
        (old.settings.application_sets(), new.settings.application_sets());
    let settings = before != after;
    let clusters = old.clusters != new.clusters;
    let projects: BTreeSet<&String> = (old.projects.keys().chain(new.projects.keys()))
        .filter(|name| old.projects.get(*name) != new.projects.get(*name))
        .collect();
    if !settings && !clusters && projects.is_empty() {
        return;
    }
    if let Some(refusal) = after.refusal.as_ref().filter(|_| before.refusal != after.refusal) {
        tracing::error!(refusal, "no ApplicationSet is worked on");
    }
    for key in sets.store.keys() {
        let Some(Ok(set)) = sets.store.get(&key).map(|entry| entry.parse()) else { continue };
        if settings || (clusters && reads_clusters(&set)) || names_project(&set, &projects) {
            sets.wake(&key, Priority::Routine);
        }
    }
}

/// Whether clusters that come or go change what a set generates (ASET-180).
fn reads_clusters(set: &ApplicationSet) -> bool {
    generator::uses(set, |kind| matches!(kind, Kind::Clusters | Kind::ClusterDecisionResource))
}

fn names_project(set: &ApplicationSet, projects: &BTreeSet<&String>) -> bool {
    let of_template = set.template_project();
    let is_open = of_template.contains("{{") && set.spec.project.is_empty();
    !projects.is_empty()
        && (is_open || projects.iter().any(|name| **name == set.spec.project || name.as_str() == of_template))
}

/// One worker: takes sets and works on them, whatever happens (ASET-16).
async fn work(sets: Arc<Sets>) {
    // What is not known to exist would be made, and what is not known would count as gone.
    sets.shared.store.until_listed().boxed().await;
    loop {
        let Some(lease) = sets.queue.next().await else { return };
        let key = lease.key().clone();
        let look = std::panic::AssertUnwindSafe(look(&sets, &key));
        let wish = look.catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(set = %key, "a look ended unexpectedly; this is a bug");
            sets.shared.metrics.worked("panic");
            Wish::After(PANIC_AGAIN)
        });
        requeue(&sets, &key, wish);
        sets.shared.progress.beat();
        drop(lease);
        tokio::task::yield_now().await;
    }
}

fn requeue(sets: &Sets, key: &SetKey, wish: Wish) {
    let Some(entry) = sets.store.get(key) else { return };
    if wish == Wish::Crowded {
        sets.queue.add_at(key.clone(), Instant::now() + CROWDED_AGAIN);
        return;
    }
    let mut memory = entry.memory.lock();
    if wish == Wish::Backoff {
        memory.failures = memory.failures.saturating_add(1);
    } else {
        (memory.failures, memory.conflicts) = (0, 0);
    }
    let now = Instant::now();
    let at = match wish {
        Wish::Done | Wish::Crowded => return,
        Wish::Now => {
            drop(memory);
            sets.queue.add(key.clone(), Priority::Routine);
            return;
        }
        Wish::After(wait) => memory.due(now + wait, now),
        Wish::Backoff => now + backoff::after(memory.failures).max(sets.turns.take(now)),
    };
    drop(memory);
    sets.queue.add_at(key.clone(), at);
}

/// Looks at one set.
async fn look(sets: &Arc<Sets>, key: &SetKey) -> Wish {
    let Some(entry) = sets.store.get(key) else { return Wish::Done };
    let world = sets.shared.world.load_full();
    if !sets.is_enabled(&world, key) {
        return Wish::Done;
    }
    let set = match entry.parse() {
        Ok(set) => Arc::new(set),
        Err(error) => {
            tracing::warn!(set = %key, %error, "the ApplicationSet cannot be read");
            return Wish::Done;
        }
    };
    let Some(_place) = sets.places.enter(set.rbac_project()) else { return Wish::Crowded };
    let began = Instant::now();
    let mut cx = SetContext {
        sets,
        key: key.clone(),
        object: Arc::clone(&entry.object),
        asked: set.metadata.annotations.get(tiphys_api::names::annotation::SET_REFRESH).cloned(),
        set,
        is_behind: false,
    };
    let owner = cx.set.rbac_project().to_owned();
    let pass = if cx.set.metadata.deletion_timestamp.is_some() {
        ending::pass(&mut cx, &world).boxed()
    } else {
        pass::pass(&mut cx, &world).boxed()
    };
    let wish = tiphys_source::on_behalf_of(&owner, pass).await;
    let labels = SetLabels::of(key);
    sets.shared.metrics.set_reconciled(&labels, began.elapsed().as_secs_f64());
    // Our own write showed somebody else's change, which the watch will not show as new.
    if cx.is_behind { Wish::Now } else { wish }
}

/// What metrics show of a status (ASET-311, ASET-312).
fn shown(status: &ApplicationSetStatus) -> Shown {
    let is = |kind: SetConditionType| {
        move |condition: &&tiphys_api::applicationset::ApplicationSetCondition| condition.r#type == kind
    };
    let up_to_date = status.conditions.iter().find(is(SetConditionType::ResourcesUpToDate));
    let listed = i64::try_from(status.resources.len()).unwrap_or(i64::MAX);
    Shown {
        status: up_to_date.map_or_else(|| "Unknown".to_owned(), |condition| condition.reason.clone()),
        owned: status.resources_count.unwrap_or(listed),
        step: rollout::step_in_progress(&status.application_status).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_16_a_project_has_half_of_the_workers_at_most() {
        let places = Places::of(10);
        let mut held: Vec<_> = (0..20).filter_map(|_| places.enter("greedy")).collect();
        assert_eq!(held.len(), 5);
        assert!(places.enter("other").is_some());
        held.pop();
        assert!(places.enter("greedy").is_some());
        drop(held);
        assert!(places.inside.lock().is_empty());
        assert!(Places::of(1).enter("one").is_some());
    }
}
