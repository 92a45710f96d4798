//! The source hydrator (CTL-106..119): renders dry sources into branches that applications sync from.
//!
//! Two queues, each key of which is one worker's at a time: `checks` has applications and decides whether anything is to
//! be hydrated ([`check`]); `groups` has what is written by one commit ([`run`]). Both ask first whether the application
//! may, and whether its directory is its own ([`standing`]). Rounds over applications ask for checks;
//! nothing here compares or syncs: a run ends by asking for refreshes of its applications, as anybody else would.
//! The only writer of their status is [`record`].

mod check;
mod record;
mod run;
mod standing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tiphys_api::Application;
use tiphys_lifecycle::hydration::group::GroupKey;
use tiphys_lifecycle::hydration::record::Request;
use tiphys_source::on_behalf_of;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::app_key::AppKey;
use crate::applications;
use crate::context::Context;
use crate::control_plane::ControlPlane;
use crate::queue::{Measures, Priority, Queue};
pub(crate) use standing::foreign_directory;

/// Time until a group whose run ended unexpectedly gets another one.
const PANIC_AGAIN: Duration = Duration::from_secs(30);

/// Who waits for a check, and what waits for a run.
#[derive(Default)]
pub(crate) struct Hydrations {
    checks: Queue<AppKey>,
    groups: Queue<GroupKey>,
    /// Groups that are worked on in this process. A run that is recorded and not among them was lost with another one.
    running: Mutex<HashSet<GroupKey>>,
    /// Applications that were asked for because of a push: remembered references do not count.
    pushed: Mutex<HashSet<AppKey>>,
    /// Held while a claim of a directory is decided and stored.
    claims: tokio::sync::Mutex<()>,
    /// Claims whose signatures were verified: they count until they are signed anew when the key is changed.
    signed: Mutex<HashMap<AppKey, standing::Signed>>,
}

impl Hydrations {
    /// Asks for a look at an application.
    pub(crate) fn ask(&self, key: &AppKey) {
        self.checks.add(key.clone(), Priority::Routine);
    }

    /// The same after a push to its dry source.
    pub(crate) fn pushed(&self, key: &AppKey) {
        self.pushed.lock().insert(key.clone());
        self.checks.add(key.clone(), Priority::Urgent);
    }

    /// An application is gone.
    pub(crate) fn forget(&self, key: &AppKey) {
        self.checks.cancel_timer(key);
        self.pushed.lock().remove(key);
        self.signed.lock().remove(key);
    }

    /// Nothing is handed out any more.
    pub(crate) fn close(&self) {
        self.checks.close();
        self.groups.close();
    }

    /// How the queues of checks and of runs do.
    pub(crate) fn measures(&self) -> (Measures, Measures) {
        (self.checks.measures(), self.groups.measures())
    }

    fn is_running(&self, group: &GroupKey) -> bool {
        self.running.lock().contains(group)
    }
}

/// Starts the workers. They are there whether or not anything is hydrated, as that may change.
pub(crate) fn start(plane: &ControlPlane, context: &Arc<Context>) {
    if context.read_only {
        return;
    }
    let processors = context.world.load().settings.controller().hydration_processors;
    for _ in 0..applications::processors("hydration", processors) {
        plane.spawn_writing(work_checks(Arc::clone(context), plane.cancel.clone()));
        plane.spawn_writing(work_groups(Arc::clone(context), plane.cancel.clone()));
    }
}

/// Whether a look at an application is due: it is hydrated here, or somebody asks for that.
pub(crate) fn concerns(context: &Context, app: &Application) -> bool {
    let is_enabled = || context.world.load().settings.controller().hydrator_enabled;
    let is_hydrated = || app.spec.source_hydrator.is_some() && is_enabled();
    !context.read_only && (!Request::of(app).is_none() || is_hydrated())
}

async fn work_checks(context: Arc<Context>, cancel: CancellationToken) {
    // An Application that is not known yet would have no directory, and read none (INV-16).
    if cancel.run_until_cancelled(context.store.until_listed()).await.is_none() {
        return;
    }
    while let Some(lease) = cancel.run_until_cancelled(context.hydrations.checks.next()).await.flatten() {
        let key = lease.key().clone();
        let look = std::panic::AssertUnwindSafe(Box::pin(check::look(&context, &key))).catch_unwind().await;
        let again = look.unwrap_or_else(|_| {
            tracing::error!(application = %key, "a look at what to hydrate ended unexpectedly; this is a bug");
            context.metrics.worked("panic");
            Some(PANIC_AGAIN)
        });
        if let Some(wait) = again {
            context.hydrations.checks.add_at(key, Instant::now() + wait);
        }
        drop(lease);
        tokio::task::yield_now().await;
    }
}

async fn work_groups(context: Arc<Context>, cancel: CancellationToken) {
    // An Application that is not known yet would have no directory, and read none (INV-16).
    if cancel.run_until_cancelled(context.store.until_listed()).await.is_none() {
        return;
    }
    while let Some(lease) = cancel.run_until_cancelled(context.hydrations.groups.next()).await.flatten() {
        let group = lease.key().clone();
        context.hydrations.running.lock().insert(group.clone());
        let run = on_behalf_of(&group.project, Box::pin(run::run(&context, &group)));
        let run = std::panic::AssertUnwindSafe(run).catch_unwind().await;
        context.hydrations.running.lock().remove(&group);
        if run.is_err() {
            tracing::error!(repository = %group.repository, branch = %group.branch,
                "a hydration ended unexpectedly; this is a bug");
            context.metrics.worked("panic");
            context.hydrations.groups.add_at(group, Instant::now() + PANIC_AGAIN);
        }
        drop(lease);
        tokio::task::yield_now().await;
    }
}
