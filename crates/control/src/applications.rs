//! The role that works on Applications: what it follows, and its workers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt;
use smol_str::SmolStr;
use tiphys_api::cluster::ClusterKey;
use tiphys_api::codes::SyncStatusCode;
use tiphys_cluster::{IndexEvent, KindState, ObjectEvent, Received};
use tiphys_lifecycle::refresh::Level;
use tiphys_object::Object;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::affected::Affected;
use crate::app_key::AppKey;
use crate::cluster_labels;
use crate::clusters::{ClusterEvent, Pool, Ways};
use crate::context::{Context, Progress};
use crate::control_plane::{ControlPlane, StartError, WATCH_EVENTS_MAX};
use crate::event_writer::{self, EVENTS_MAX};
use crate::events::Event;
use crate::gate::{Gates, Limits};
use crate::hydration::{self, Hydrations};
use crate::metrics::Metrics;
use crate::monitors::Monitors;
use crate::projects;
use crate::push_looks;
use crate::pushes::Pushes;
use crate::queue::Priority;
use crate::reconcile::reconcile;
use crate::rendering::Renders;
use crate::scheduler::{Requeue, Scheduler};
use crate::settings_watch::SettingsWatch;
use crate::store::{AppEntry, AppStore, Change};
use crate::trickle::{self, Trickle};
use crate::world::World;

/// Pause of an application after changes of its live objects, so that a burst is one comparison.
const LIVE_CHANGE_DELAY: Duration = Duration::from_millis(40);
/// Changes of trees that a watch may be behind before it looks once for all of them.
const TREES_MAX: usize = 256;
/// Pause after an object came or went that is nobody's: the number of orphans is no hurry.
const STRANGER_DELAY: Duration = Duration::from_secs(2);
/// Time until an application whose round ended unexpectedly gets another one.
const PANIC_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// Processors of one kind: each is a task, and more than these make nothing faster.
const PROCESSORS_MAX: usize = 1_000;

/// How many processors of a kind there are for a setting, which the log says when it is too large.
pub(crate) fn processors(kind: &str, asked: usize) -> usize {
    if asked > PROCESSORS_MAX {
        tracing::warn!(
            "controller.{kind}.processors is {asked}; {PROCESSORS_MAX} are started, the most there are"
        );
    }
    asked.clamp(1, PROCESSORS_MAX)
}

/// What the role needs besides the control plane.
pub(crate) struct Options {
    /// Directory of the git cache.
    pub(crate) cache_dir: PathBuf,
    /// Further folders of the installation: no repository of anybody (REP-60).
    pub(crate) own_dirs: Vec<PathBuf>,
    /// Number of workers; 0 takes twice the settings' number of status processors.
    pub(crate) workers: usize,
}

/// The role before anything follows or works.
pub(crate) struct Prepared {
    pub(crate) context: Arc<Context>,
    workers: usize,
    clusters: mpsc::Receiver<ClusterEvent>,
    events: mpsc::Receiver<Event>,
}

/// Builds what the rounds share.
pub(crate) fn prepare(
    plane: &ControlPlane,
    settings: &SettingsWatch,
    options: Options,
) -> Result<Prepared, StartError> {
    let surroundings = &plane.surroundings;
    let world = settings.world();
    let metrics = Metrics::new(plane.kubernetes.clone());
    let observer = Arc::new(metrics.sources.clone());
    let directories = (options.cache_dir.as_path(), options.own_dirs);
    let sources = settings.sources(&world, surroundings, directories, observer)?;
    let workers = match options.workers {
        // So many may be busy with one cluster, and as many are there for all others (CTL-141).
        0 => processors("status", world.settings.controller().status_processors).saturating_mul(2),
        workers => workers,
    };
    let (event_sender, event_receiver) = mpsc::channel(EVENTS_MAX);
    let (cluster_sender, cluster_receiver) = mpsc::channel(WATCH_EVENTS_MAX);
    let clock = surroundings.clock.clone();
    let scheduler = Scheduler::new(clock.clone());
    let gates = Gates::new(Limits::of(workers), scheduler.clone());
    let ways = Ways {
        home: plane.connection.clone(),
        given: surroundings.clusters.clone(),
        fence: plane.fence.clone(),
        observer: Arc::new(plane.kubernetes.clone()),
    };
    let (tracker, cancel) = (plane.tracker.clone(), plane.cancel.clone());
    let jitter = surroundings.random.jitter();
    let context = Arc::new(Context {
        namespace: plane.namespace.to_string(),
        store: AppStore::new(&world.tracking),
        scheduler,
        clusters: Arc::new(Pool::new(ways, cluster_sender, tracker, cancel, &world, Arc::clone(&jitter))),
        world: ArcSwap::from_pointee(world),
        sources,
        renders: Renders::new(
            gates.clone(),
            surroundings.compute.clone(),
            clock.clone(),
            surroundings.interpreters.evaluator(crate::scripts::JSONNET_DEADLINE),
            metrics.renders.clone(),
        ),
        gates,
        home: plane.home.clone(),
        clock,
        compute: surroundings.compute.clone(),
        interpreters: surroundings.interpreters.clone(),
        metrics,
        events: event_sender,
        read_only: plane.read_only,
        progress: Progress::default(),
        hydrations: Hydrations::default(),
        trickle: Trickle::default(),
        pushes: Pushes::default(),
        monitors: Monitors::default(),
        jitter,
        cluster_news: Notify::new(),
        world_news: Notify::new(),
        trees: tokio::sync::broadcast::channel(TREES_MAX).0,
    });
    Ok(Prepared { context, workers, clusters: cluster_receiver, events: event_receiver })
}

/// Starts following Applications and clusters, and working.
pub(crate) fn start(
    plane: &ControlPlane,
    settings: SettingsWatch,
    options: Options,
) -> Result<Arc<Context>, StartError> {
    let Prepared { context, workers, clusters, events } = prepare(plane, &settings, options)?;
    let is_everywhere = {
        let settings = &context.world.load().settings;
        // Sets have to see what they made, also where nobody works on it.
        let of_sets = &settings.application_sets().namespaces;
        settings.application_namespaces().iter().chain(of_sets).any(|namespace| !namespace.is_empty())
    };
    let namespace = if is_everywhere { SmolStr::default() } else { plane.namespace.clone() };
    let applications = plane.follow(&Context::application_gvk(), namespace, "")?;
    plane.spawn(follow_applications(Arc::clone(&context), applications));
    plane.spawn(follow_clusters(Arc::clone(&context), clusters, plane.cancel.clone()));
    // It writes where an installation ID was lost.
    plane.spawn_writing(
        settings.follow(Arc::clone(&context), |context, world, old| {
            Box::pin(settings_changed(context, world, old))
        }),
    );
    plane.spawn_writing(trickle::run(Arc::clone(&context), plane.cancel.clone()));
    plane.spawn_writing(push_looks::follow(Arc::clone(&context), plane.cancel.clone()));
    plane.spawn_writing(cluster_labels::follow(Arc::clone(&context), plane.cancel.clone()));
    plane.spawn_writing(event_writer::write(Arc::clone(&context), events, plane.cancel.clone()));
    hydration::start(plane, &context);
    for _ in 0..workers {
        plane.spawn_writing(work(Arc::clone(&context)));
    }
    Ok(context)
}

/// Looks at those whom a change of settings, projects, clusters or credentials concerns.
async fn settings_changed(context: &Context, world: &World, old: &World) {
    if world.tracking != old.tracking {
        // Before the indexes tell of objects by these marks.
        context.store.mark_anew(&world.tracking);
    }
    context.clusters.reconfigure(world, old, &context.store);
    let mut affected = Affected::between(old, world);
    let keys = if affected.is_nothing() { Vec::new() } else { context.store.keys() };
    for key in keys {
        let level = context.store.get(&key).and_then(|entry| affected.level(&entry.declared));
        if let Some(level) = level {
            context.request(&key, level, Priority::Routine);
        }
    }
    context.cluster_news.notify_one();
    context.world_news.notify_one();
    projects::release(context).await;
}

/// Takes Applications into the store and wakes the workers.
async fn follow_applications(context: Arc<Context>, mut events: mpsc::Receiver<ObjectEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            ObjectEvent::Upsert(received) => application_received(&context, &received),
            ObjectEvent::Delete(key) => {
                let key = AppKey::new(&key.namespace, &key.name);
                context.store.remove(&key);
                context.scheduler.forget(&key);
                context.monitors.set(&key, None);
                context.hydrations.forget(&key);
                context.metrics.applications.gone(&key);
                projects::release(&context).await;
            }
            ObjectEvent::Synced => {
                context.store.listed();
                projects::release(&context).await;
            }
            ObjectEvent::Failed(reason) => {
                tracing::warn!(reason, "Applications cannot be watched at the moment");
            }
        }
    }
}

fn application_received(context: &Context, received: &Received) {
    let key = AppKey::new(&received.key().namespace, &received.key().name);
    // Most of what a watch tells is what our own writes were answered with.
    if !context.store.is_news(&key, received.uid(), received.version()) {
        return;
    }
    match received.read() {
        Ok(object) => application_changed(context, object),
        Err(bad) => hold(context, key, bad.reason),
    }
}

fn application_changed(context: &Context, object: Arc<Object>) {
    let key = AppKey::new(object.namespace(), object.name());
    let old = context.store.get(&key);
    let change = context.store.upsert(object);
    context.tree_changed(&key);
    // Before anybody works on the application.
    context.look_for_marks();
    match change {
        Ok(Change::Declared) => match old {
            // Live objects may have changed while nobody looked.
            None => context.request(&key, Level::Recent, Priority::Urgent),
            Some(old) if !old.declared.is_automated && is_automated(context, &key) => {
                context.request(&key, Level::Latest, Priority::Urgent);
            }
            Some(_) => context.scheduler.enqueue(key, Priority::Urgent),
        },
        Ok(Change::StatusOnly | Change::None) => {}
        Err(error) => hold(context, key, error.to_string()),
    }
}

/// Takes the answer to a write of this process: what the watch shows of it later is no news. One that is gone does not
/// come back.
pub(crate) fn application_written(context: &Context, object: Arc<Object>) {
    let known = context.store.get(&AppKey::new(object.namespace(), object.name()));
    if known.is_some_and(|known| known.object.metadata().uid == object.metadata().uid) {
        application_changed(context, object);
    }
}

/// An application that cannot be read is not worked on. Its status says so, and the others go on (INV-15, INV-16).
fn hold(context: &Context, key: AppKey, reason: String) {
    tracing::warn!(application = %key, reason, "the application cannot be read");
    context.metrics.worked("application-unreadable");
    context.store.hold(key.clone(), reason);
    context.scheduler.enqueue(key, Priority::Urgent);
}

fn is_automated(context: &Context, key: &AppKey) -> bool {
    context.store.get(key).is_some_and(|entry| entry.declared.is_automated)
}

/// Turns changes of live objects into requests of exactly the applications they belong to.
async fn follow_clusters(
    context: Arc<Context>,
    mut events: mpsc::Receiver<ClusterEvent>,
    cancel: CancellationToken,
) {
    // Both branches are cancel-safe.
    while let Some(event) = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        event = events.recv() => event,
    } {
        match event.event {
            IndexEvent::Changed { key: object, applications, is_managed, is_deleted, .. } => {
                let mut is_strange = !object.namespace.is_empty();
                for instance in &applications {
                    let Some(key) = context.store.by_mark(instance) else { continue };
                    is_strange = false;
                    let Some(entry) = context.store.get(&key) else { continue };
                    if !entry.declared.may_be_on(&event.cluster) {
                        continue;
                    }
                    context.tree_changed(&key);
                    let deleting = entry.declared.is_deleting;
                    // Descendants only matter to a deletion that waits for them.
                    if is_managed || deleting {
                        let mut memory = entry.memory.lock();
                        let is_noted = !deleting && !is_deleted && memory.changes.note(&object);
                        if is_deleted {
                            memory.changes.forget(&object);
                        }
                        if !is_noted {
                            memory.request(Level::Recent);
                        }
                        drop(memory);
                        context.scheduler.enqueue_after(key, LIVE_CHANGE_DELAY);
                    }
                }
                if is_strange {
                    stranger_changed(&context, &event.cluster, &object.namespace);
                }
            }
            IndexEvent::KindChanged { .. } => {
                let destination = context.clusters.used(&event.cluster);
                let is_pending = destination.is_some_and(|destination| {
                    destination.index.kind_states().values().any(|state| *state == KindState::Pending)
                });
                if !is_pending {
                    wake_unknown(&context, &event.cluster);
                }
            }
            IndexEvent::KindsChanged | IndexEvent::Reachable => {
                context.cluster_news.notify_one();
                wake_unknown(&context, &event.cluster);
            }
        }
    }
}

/// An object that is no application's came or went: whoever counts the orphans of its namespace counts again (TRK-90).
fn stranger_changed(context: &Context, cluster: &ClusterKey, namespace: &SmolStr) {
    let place = (cluster.clone(), namespace.clone());
    let counting = context.monitors.of(&place);
    if counting.is_empty()
        && let Some(destination) = context.clusters.used(cluster)
    {
        destination.index.observe_no_more(namespace);
    }
    for key in counting {
        let Some(entry) = context.store.get(&key) else { continue };
        context.tree_changed(&key);
        entry.memory.lock().request(Level::Recent);
        context.scheduler.enqueue_after(key, STRANGER_DELAY);
    }
}

/// Applications of a cluster that are not known to be in sync, or wait for it, are compared again.
fn wake_unknown(context: &Context, cluster: &ClusterKey) {
    let world = context.world.load();
    for key in context.store.keys() {
        let waits = |entry: &AppEntry| {
            let declared = &entry.declared;
            SyncStatusCode::parse(&entry.sync_status) != Some(SyncStatusCode::Synced)
                || declared.has_operation
                || declared.is_deleting
        };
        let Some(entry) = context.store.get(&key).filter(waits) else { continue };
        if world.declared_cluster(&entry.declared).is_ok_and(|found| found.key() == *cluster) {
            context.request(&key, Level::Recent, Priority::Routine);
        }
    }
}

/// One worker: takes keys and works on them, whatever happens (CTL-37).
async fn work(context: Arc<Context>) {
    loop {
        let Some(lease) = context.scheduler.next().await else { return };
        let key = lease.key().clone();
        let round = std::panic::AssertUnwindSafe(reconcile(&context, &key, lease.priority()));
        let requeue = round.catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(application = %key, "a round ended unexpectedly; this is a bug");
            context.metrics.worked("panic");
            Requeue::After(PANIC_AGAIN)
        });
        context.scheduler.requeue(&key, requeue);
        context.progress.beat();
        drop(lease);
        // A round that waited for nothing must not keep the thread from sockets and signals.
        tokio::task::yield_now().await;
    }
}
