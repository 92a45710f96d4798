//! The application of a round, with everything the round works on.

use std::sync::Arc;

use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_engine::tracking::{
    Neighbours, Ownership, Previous, TrackingMethod, TrackingSettings, split_instance_name,
};
use tiphys_object::Object;

use crate::app_key::AppKey;
use crate::context::Context;
use crate::events::Note;
use crate::memory::AppMemory;
use crate::queue::Priority;
use crate::scheduler::Requeue;
use crate::scripts::Programs;
use crate::store::AppStore;
use crate::world::World;

/// One application during one round.
pub(crate) struct AppContext<'a> {
    /// What all rounds share.
    pub(crate) controller: &'a Context,
    pub(crate) key: AppKey,
    /// How urgent the round is.
    pub(crate) priority: Priority,
    /// The stored object …
    pub(crate) object: Arc<Object>,
    /// … and the same, read.
    pub(crate) app: Application,
    pub(crate) instance: String,
    pub(crate) memory: Arc<Mutex<AppMemory>>,
    /// Settings, projects and clusters as they were when the round began.
    pub(crate) world: Arc<World>,
    pub(crate) tracking: Arc<TrackingSettings>,
    /// The other applications.
    pub(crate) others: Others<'a>,
    pub(crate) programs: Programs,
    /// Whether an answer showed a change of somebody else that this round has not looked at.
    pub(crate) is_behind: bool,
}

/// Reads an application from the store. `None` when it is gone; one that cannot be read is set aside and comes back, so
/// that its status says so.
pub(super) fn load<'a>(
    controller: &'a Context,
    key: &AppKey,
    priority: Priority,
) -> Result<Option<AppContext<'a>>, Requeue> {
    let Some(entry) = controller.store.get(key) else { return Ok(None) };
    let world = controller.world.load_full();
    let app = match entry.parse() {
        Ok(app) => app,
        Err(error) => {
            tracing::warn!(application = %key, %error, "the application cannot be read");
            controller.store.hold(key.clone(), error.to_string());
            return Err(Requeue::Now(Priority::Urgent));
        }
    };
    let tracking = Arc::new(world.tracking_of(&app));
    let has_jq = app.spec.ignore_differences.iter().any(|rule| !rule.jq_path_expressions.is_empty());
    let interpreters = &controller.interpreters;
    let runner = interpreters.runner(&entry.instance, world.settings.controller().jq_timeout);
    let scripted = (app.project(), world.scripted || has_jq);
    let programs = Programs::new(interpreters, &controller.compute, scripted, runner);
    Ok(Some(AppContext {
        controller,
        key: key.clone(),
        priority,
        object: entry.object,
        app,
        instance: entry.instance.to_string(),
        memory: entry.memory,
        others: Others::of(controller, &world),
        world,
        tracking,
        programs,
        is_behind: false,
    }))
}

/// The applications of the installation, as their marks name them.
pub(crate) struct Others<'a> {
    store: &'a AppStore,
    /// The control plane's namespace.
    namespace: SmolStr,
}

impl<'a> Others<'a> {
    pub(super) fn of(controller: &'a Context, world: &World) -> Self {
        Self { store: &controller.store, namespace: world.tracking.control_plane_namespace.clone() }
    }
}

impl Neighbours for Others<'_> {
    fn method_of(&self, instance: &str) -> Option<TrackingMethod> {
        let (namespace, name) = split_instance_name(instance, &self.namespace);
        self.store.get(&AppKey::new(namespace, name)).map(|entry| entry.method)
    }

    fn named_by(&self, mark: &str) -> Option<SmolStr> {
        self.store.instance_of(mark)
    }
}

impl AppContext<'_> {
    /// Under which settings the application was synced last.
    pub(super) fn previous(&self) -> Previous {
        let mut previous = self.world.previous_tracking_of(&self.app, &self.tracking);
        if let Previous::Unknown(recorded) = &mut previous {
            recorded.extend(self.memory.lock().recognised.iter().cloned());
        }
        previous
    }

    /// All that decides what the application owns.
    pub(super) fn ownership<'b>(&'b self, previous: &'b Previous) -> Ownership<'b> {
        Ownership { current: &self.tracking, previous, instance: &self.instance, others: &self.others }
    }

    /// The ways in which marks of the application are to be looked for before anything is said about what it has: the one in
    /// force, and the former one unless there are too many of those already. That hides objects, and nothing is pruned
    /// because of it.
    pub(super) fn ways_read(&self, ownership: &Ownership<'_>) -> Vec<u64> {
        let (current, readings) = (ownership.current_way(), self.controller.store.readings());
        ownership.ways().into_iter().filter(|way| *way == current || readings.has(*way)).collect()
    }

    /// An operation has begun: all that it marks, it marks by the settings of this round (TRK-102).
    pub(super) fn begin_marking(&self) {
        self.memory.lock().marks_by = Some(self.tracking.profile());
    }

    /// Sends an event about the application; never waits.
    pub(super) fn note(&self, note: &Note) {
        self.controller.note(&self.object, &self.app, note);
    }
}
