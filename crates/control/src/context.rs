//! What all workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::SignedDuration;
use tiphys_api::Application;
use tiphys_api::settings::Webhooks;
use tiphys_cluster::{Jitter, Writer};
use tiphys_go::fnv::fnv1a_64;
use tiphys_lifecycle::refresh::{Intervals, Level};
use tiphys_object::{Gvk, Object};
use tiphys_source::{Clock, Sources};
use tokio::sync::{Notify, broadcast, mpsc};

use crate::app_key::AppKey;
use crate::clusters::Pool;
use crate::events::{Event, Note};
use crate::gate::Gates;
use crate::hydration::Hydrations;
use crate::metrics::Metrics;
use crate::monitors::Monitors;
use crate::pushes::Pushes;
use crate::queue::Priority;
use crate::rendering::Renders;
use crate::scheduler::Scheduler;
use crate::scripts::Interpreters;
use crate::store::AppStore;
use crate::surroundings::Compute;
use crate::trickle::Trickle;
use crate::world::World;

/// Shared state of one controller.
pub(crate) struct Context {
    pub(crate) namespace: String,
    pub(crate) store: AppStore,
    pub(crate) scheduler: Scheduler,
    pub(crate) world: ArcSwap<World>,
    pub(crate) sources: Sources,
    pub(crate) renders: Renders,
    pub(crate) gates: Gates,
    pub(crate) clusters: Arc<Pool>,
    pub(crate) home: Writer,
    pub(crate) clock: Clock,
    pub(crate) compute: Compute,
    pub(crate) interpreters: Interpreters,
    pub(crate) metrics: Metrics,
    /// Full: the event is dropped and counted; events are best effort.
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) read_only: bool,
    pub(crate) progress: Progress,
    /// What waits to be hydrated.
    pub(crate) hydrations: Hydrations,
    /// Who waits to show nothing but a new revision.
    pub(crate) trickle: Trickle,
    /// References whose followers by directory are still to be asked.
    pub(crate) pushes: Pushes,
    /// Who looks for orphans, and where.
    pub(crate) monitors: Monitors,
    /// Spreads what would be done at once: a number from 0 to 1.
    pub(crate) jitter: Jitter,
    /// Told when there may be news about clusters themselves.
    pub(crate) cluster_news: Notify,
    /// Told when another snapshot is in force.
    pub(crate) world_news: Notify,
    /// Told of applications in whose trees something changed (API-137). Full: whoever is behind looks once more.
    pub(crate) trees: broadcast::Sender<AppKey>,
}

/// Proof of life for the health endpoint: grows whenever a worker finishes an item or finds nothing to do.
#[derive(Default)]
pub(crate) struct Progress {
    beats: AtomicU64,
}

impl Progress {
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }
}

impl Context {
    /// The Gvk of Applications.
    pub(crate) fn application_gvk() -> Gvk {
        Gvk::new(tiphys_api::names::GROUP, tiphys_api::names::VERSION, "Application")
    }

    /// Asks for a comparison of an application.
    pub(crate) fn request(&self, key: &AppKey, level: Level, priority: Priority) {
        if let Some(entry) = self.store.get(key) {
            entry.memory.lock().request(level);
            self.scheduler.enqueue(key.clone(), priority);
        }
    }

    /// The same for those that one push or tag concerns: where these are more than `webhook.refresh.jitter.threshold`, each
    /// further one waits for a random time below `webhook.refresh.jitter` (API-210), unless something else asks for it.
    pub(crate) fn request_all<'a>(&self, keys: impl IntoIterator<Item = &'a AppKey>, level: Level) {
        let Webhooks { jitter, jitter_threshold, .. } = self.world.load().settings.webhooks();
        for (nth, key) in keys.into_iter().enumerate() {
            if nth < jitter_threshold || jitter.is_zero() {
                self.request(key, level, Priority::Urgent);
            } else if let Some(entry) = self.store.get(key) {
                entry.memory.lock().request(level);
                self.scheduler.enqueue_after(key.clone(), jitter.mul_f64((self.jitter)()));
            }
        }
    }

    /// Lets the indexes look for every mark that objects of the applications may bear (TRK-91): one that was just taken in
    /// may have brought a further way.
    pub(crate) fn look_for_marks(&self) {
        self.clusters.read_by(&self.store);
    }

    /// Tells whoever watches the tree of an application that it may be another.
    pub(crate) fn tree_changed(&self, key: &AppKey) {
        if self.trees.receiver_count() > 0 {
            drop(self.trees.send(key.clone()));
        }
    }

    /// Sends an event about an application; never waits.
    pub(crate) fn note(&self, object: &Object, app: &Application, note: &Note) {
        let destination = (app.spec.destination.server.as_str(), app.spec.destination.namespace.as_str());
        tracing::info!(
            application = %app.metadata.name,
            app_namespace = %app.metadata.namespace,
            reason = note.reason,
            message = %note.message,
            "event"
        );
        if !self.world.load().settings.has_events(note.reason) {
            return;
        }
        let event = Event::new(object, note, destination, self.clock.now());
        if self.events.try_send(event).is_err() {
            self.metrics.worked("event-dropped");
        }
    }

    /// Refresh intervals of an application: the jitter is spread by its name (CTL-28).
    pub(crate) fn intervals(world: &World, key: &AppKey) -> Intervals {
        let timeouts = world.settings.refresh_timeouts();
        let duration = |d: std::time::Duration| SignedDuration::try_from(d).unwrap_or(SignedDuration::MAX);
        let share = u32::try_from(fnv1a_64(&key.to_string()) % 1000).unwrap_or(0);
        let soft =
            (!timeouts.soft.is_zero()).then(|| duration(timeouts.soft + timeouts.jitter * share / 1000));
        let hard = (!timeouts.hard.is_zero()).then(|| duration(timeouts.hard));
        Intervals { soft, hard }
    }
}
