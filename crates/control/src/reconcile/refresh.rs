//! A refresh: compare, decide whether that starts an automatic sync, and write both in one patch (CTL-26..35, CTL-57).

use jiff::{SignedDuration, Timestamp};
use tiphys_api::Application;
use tiphys_api::application::Condition;
use tiphys_api::codes::ConditionType;
use tiphys_api::names::annotation;
use tiphys_engine::deletion::is_deletion_hook;
use tiphys_engine::tracking::{Previous, setting};
use tiphys_lifecycle::attempt::{begin, is_outdated_retry, synced_revisions};
use tiphys_lifecycle::brake::{BrakeFacts, tracking_brake};
use tiphys_lifecycle::refresh::{Level, Reason, Refresh};
use tiphys_lifecycle::refresh_status::{show_condition, show_failure, show_invalid_spec, unknown_health};
use tiphys_lifecycle::status_patch::PatchOptions;
use tiphys_lifecycle::{autosync, finalizers};

use super::compare::{self, Compared, Subject};
use super::desired::{Unavailable, Wanted};
use super::load::AppContext;
use super::orphans;
use super::record::{self, Written};
use super::resolve::{Resolved, Unresolved, resolve};
use crate::events::Note;
use crate::memory::Targets;
use crate::metrics::ReconcileLabels;
use crate::queue::Priority;
use crate::rendering;
use crate::scheduler::Requeue;

/// Time until a cluster that is not listed yet is looked at again.
const READY_AGAIN: SignedDuration = SignedDuration::from_millis(500);
/// Time until what could not be known is asked for again; nothing else may wake the application.
const UNKNOWN_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// Time until a status that could not be written is written again.
const WRITE_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// What a refresh leads to.
pub(super) struct Refreshed {
    /// The comparison, when there is one and it is stored.
    pub(super) compared: Option<Compared>,
    /// When to look again.
    pub(super) requeue: Requeue,
}

/// Somebody else changed the object during the refresh: start again.
pub(super) struct Conflict;

/// A comparison with what follows from it.
struct Found {
    compared: Option<Compared>,
    starts_operation: bool,
    writes_finalizers: bool,
    requeue: Requeue,
}

impl Found {
    fn nothing() -> Self {
        Self { compared: None, starts_operation: false, writes_finalizers: false, requeue: Requeue::Done }
    }
}

/// Compares and writes what was found; may start an automatic operation in the same write.
pub(super) async fn refresh(cx: &mut AppContext<'_>, refresh: Refresh) -> Result<Refreshed, Conflict> {
    let controller = cx.controller;
    tell_method(cx);
    let started = controller.clock.elapsed();
    let now = controller.clock.now();
    let mut new = cx.app.clone();
    let found = match compare(cx, &mut new, refresh, now).await {
        Ok(found) => found,
        Err(requeue) => return Ok(Refreshed { compared: None, requeue }),
    };
    if refresh.level >= Level::Latest {
        cx.memory.lock().reconciled = Some(now);
    }
    let options = PatchOptions {
        refreshed: true,
        normalized: true,
        patient: refresh.reason != Reason::Requested,
        operation: found.starts_operation,
        exclusive: found.starts_operation,
        finalizers: found.writes_finalizers,
        profile: false,
        requests: false,
    };
    let written = record::write(cx, new, options).await;
    measure(cx, refresh, started);
    let Found { compared, requeue, .. } = found;
    match written {
        Written::Stored | Written::Waits => {
            if let Some(compared) = compared.as_ref().filter(|_| found.starts_operation) {
                cx.begin_marking();
                let revisions = compared.targets.revisions.join(", ");
                let text = format!("Initiated automated sync to '{revisions}'");
                cx.note(&Note::normal("OperationStarted", text));
            }
            Ok(Refreshed { compared, requeue })
        }
        Written::Conflict => Err(Conflict),
        Written::Gone => Ok(Refreshed { compared: None, requeue: Requeue::Done }),
        Written::Failed(error) => {
            tracing::warn!(application = %cx.key, error, "the status could not be written");
            Ok(Refreshed { compared: None, requeue: look_again(cx, WRITE_AGAIN) })
        }
    }
}

/// Finds out what is, and puts it into the new state. `Err` leaves everything as it was.
async fn compare(
    cx: &AppContext<'_>,
    new: &mut Application,
    refresh: Refresh,
    now: Timestamp,
) -> Result<Found, Requeue> {
    let persist = cx.world.settings.controller().persist_resource_health;
    let resolved = match resolve(cx).await {
        Ok(resolved) => resolved,
        Err(Unresolved::NotReady) => return Err(not_ready(cx, refresh.level)),
        Err(Unresolved::Unreachable(error)) => {
            let text = format!("Failed to load live state: {error}");
            show_failure(new, text, unknown_health(), persist, rendering::is_same_failure, now);
            return Ok(Found::nothing());
        }
        Err(Unresolved::Invalid(conditions)) => {
            show_invalid_spec(new, conditions, now);
            return Ok(Found::nothing());
        }
    };
    let wanted = Wanted { refresh, sources: None, revisions: &[] };
    match compare::application(cx, &resolved, wanted).await {
        Ok(compared) => Ok(decide(cx, new, compared, &resolved, refresh.level, now)),
        Err(Unavailable::NotReady) => Err(not_ready(cx, refresh.level)),
        Err(Unavailable::Silent) => {
            let requeue = look_again(cx, UNKNOWN_AGAIN);
            if cx.app.annotation(annotation::REFRESH).is_none() {
                return Err(requeue);
            }
            Ok(Found { requeue, ..Found::nothing() })
        }
        Err(Unavailable::Busy) => {
            // The gate brings the application back when there is room.
            cx.memory.lock().request(refresh.level);
            Err(Requeue::Done)
        }
        Err(Unavailable::Failed(error)) => {
            let health = compare::health_of_live(Subject { cx, resolved: &resolved }).await;
            show_failure(new, error, health, persist, rendering::is_same_failure, now);
            Ok(Found::nothing())
        }
    }
}

/// The live objects cannot be asked for yet: what was asked for is asked for again.
fn not_ready(cx: &AppContext<'_>, level: Level) -> Requeue {
    cx.memory.lock().request(level);
    Requeue::After(READY_AGAIN)
}

/// What follows from a comparison: the status, the finalizers, and perhaps an automatic sync.
fn decide(
    cx: &AppContext<'_>,
    new: &mut Application,
    mut compared: Compared,
    resolved: &Resolved,
    level: Level,
    now: Timestamp,
) -> Found {
    let brake = brake(cx, &compared);
    let is_braked = brake.is_some();
    compared.conditions.extend(brake);
    compared.show(cx, new, level, now);
    orphans::show(Subject { cx, resolved }, new, &compared, now);
    let is_known = compared.comparison.failed.is_none();
    let mut found = Found::nothing();
    if is_known && cx.app.metadata.deletion_timestamp.is_none() {
        found.writes_finalizers = true;
        new.metadata.finalizers = finalizers::with_hooks(&cx.app.metadata.finalizers, |hook| {
            compared.targets.objects.iter().any(|object| is_deletion_hook(object, hook))
        });
    }
    if !is_known {
        found.requeue = look_again(cx, UNKNOWN_AGAIN);
    }
    if level < Level::Latest && is_outdated(cx, &compared) {
        // Something else was synced since these revisions were resolved: what the branch means now is asked first, or
        // the application would go back to an older commit (INV-3).
        cx.memory.lock().request(Level::Latest);
        found.requeue = Requeue::Now(Priority::Routine);
    } else if !cx.controller.read_only && is_known && !is_braked && !compared.comparison.incomplete {
        match auto_sync(cx, new, &compared, resolved, now) {
            AutoSync::None => {}
            AutoSync::Started => found.starts_operation = true,
            AutoSync::Later(until) => found.requeue = look_at(cx, until),
        }
    }
    found.compared = Some(compared);
    found
}

/// Says once that a tracking method was asked for in vain (TRK-110).
fn tell_method(cx: &AppContext<'_>) {
    let wanted = cx.app.annotation(annotation::TRACKING_METHOD);
    let refused = wanted.filter(|wanted| *wanted != cx.tracking.method.as_str());
    if cx.memory.lock().told_method.as_deref() == refused {
        return;
    }
    cx.memory.lock().told_method = refused.map(str::to_owned);
    if let Some(wanted) = refused {
        let text = format!(
            "annotation {}: {wanted:?} is no tracking method that {} allows; {:?} is in force",
            annotation::TRACKING_METHOD,
            setting::OVERRIDES,
            cx.tracking.method.as_str()
        );
        cx.note(&Note::warning("InvalidTrackingMethod", text));
    }
}

/// Whether a change of the tracking settings would have too much pruned (TRK-142).
fn brake(cx: &AppContext<'_>, compared: &Compared) -> Option<Condition> {
    let sync = &cx.app.status.sync;
    let shown =
        if cx.app.is_multi_source() { &sync.revisions[..] } else { std::slice::from_ref(&sync.revision) };
    let facts = BrakeFacts {
        is_migrating: cx.previous() != Previous::Same,
        is_revision_same: compared.targets.revisions == shown,
        resources: &compared.resources,
    };
    tracking_brake(&cx.app, &facts)
}

enum AutoSync {
    None,
    Started,
    Later(Timestamp),
}

/// Decides about an automatic sync and puts it into the new state (CTL-57).
fn auto_sync(
    cx: &AppContext<'_>,
    new: &mut Application,
    compared: &Compared,
    resolved: &Resolved,
    now: Timestamp,
) -> AutoSync {
    if !resolved.windows(cx, false, None, now).allowed {
        return AutoSync::None;
    }
    let revisions = &compared.targets.revisions;
    let facts = autosync::Compared {
        status: compared.comparison.status,
        revisions,
        resources: &compared.resources,
        may_have_changes: may_have_changes(cx, compared),
    };
    let heal = cx.world.settings.controller().self_heal;
    let decision = if is_outdated_retry(&cx.app, revisions) {
        // A newer commit wins over the retries of an older one (INV-11).
        let free = Application { operation: None, ..cx.app.clone() };
        autosync::decide(&free, &facts, &heal, now)
    } else {
        autosync::decide(&cx.app, &facts, &heal, now)
    };
    let (error, outcome) = match decision {
        autosync::Decision::Skip(reason) => {
            tracing::trace!(application = %cx.key, reason, "no automated sync");
            (None, AutoSync::None)
        }
        autosync::Decision::Refuse { condition } => (Some(condition), AutoSync::None),
        autosync::Decision::Wait { until } => (None, AutoSync::Later(until)),
        autosync::Decision::Start(operation) => {
            let state = begin(&cx.app, &operation, revisions, now);
            new.operation = Some(operation);
            new.status.operation_state = Some(Box::new(state));
            (None, AutoSync::Started)
        }
    };
    show_condition(new, ConditionType::SyncError, error, now);
    outcome
}

/// Whether the last sync, if there was one, was to other revisions than those of a comparison.
fn is_outdated(cx: &AppContext<'_>, compared: &Compared) -> bool {
    let state = cx.app.status.operation_state.as_ref();
    let Some(result) = state.and_then(|state| state.sync_result.as_ref()) else { return false };
    !synced_revisions(result).eq(compared.targets.revisions.iter())
}

/// False only when the manifests are known to be those of the last sync (CTL-39).
fn may_have_changes(cx: &AppContext<'_>, compared: &Compared) -> bool {
    let state = cx.app.status.operation_state.as_ref();
    let Some(result) = state.and_then(|state| state.sync_result.as_ref()) else { return true };
    let same_revisions = synced_revisions(result).eq(compared.targets.revisions.iter());
    !same_revisions && !same_manifests(cx, &compared.targets)
}

/// Whether the targets are, rendering by rendering, those that were synced last.
fn same_manifests(cx: &AppContext<'_>, targets: &Targets) -> bool {
    let memory = cx.memory.lock();
    memory.synced_ids.as_ref().is_some_and(|ids| ids.iter().copied().eq(targets.ids()))
}

/// Another look, at what the sources mean then.
fn look_again(cx: &AppContext<'_>, wait: SignedDuration) -> Requeue {
    cx.memory.lock().request(Level::Latest);
    Requeue::After(wait)
}

fn look_at(cx: &AppContext<'_>, at: Timestamp) -> Requeue {
    cx.memory.lock().request(Level::Latest);
    Requeue::At(at)
}

fn measure(cx: &AppContext<'_>, refresh: Refresh, started: std::time::Duration) {
    let labels = ReconcileLabels {
        namespace: cx.key.namespace.to_string(),
        dest_server: cx.app.spec.destination.server.clone(),
    };
    let took = cx.controller.clock.elapsed().saturating_sub(started);
    cx.controller.metrics.reconciled(&labels, took.as_secs_f64());
    tracing::debug!(
        application = %cx.app.metadata.name,
        app_namespace = %cx.key.namespace,
        project = %cx.app.project(),
        reason = ?refresh.reason,
        comparison_level = ?refresh.level,
        time_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "Reconciliation completed"
    );
}
