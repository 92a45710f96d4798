//! The end of a pass, and of the operation when it has ended: results, history and the comparison after it, in one
//! patch (CTL-48..54).

use jiff::SignedDuration;
use tiphys_api::Application;
use tiphys_api::application::{Operation, OperationState, SyncResult};
use tiphys_api::codes::OperationPhase;
use tiphys_api::names::annotation;
use tiphys_engine::sync::PassEnd;
use tiphys_lifecycle::attempt;
use tiphys_lifecycle::fit::are_same_results;
use tiphys_lifecycle::operation::{Ending, end_pass, extend_history, shown};
use tiphys_lifecycle::refresh::Level;
use tiphys_lifecycle::status_patch::{PatchOptions, is_awaited};
use tiphys_object::ResourceKey;

use super::state::{LOOK_AGAIN, Next, keep_ledger, save};
use crate::events::Note;
use crate::memory::SourcesId;
use crate::metrics::CountedApp;
use crate::queue::Priority;
use crate::reconcile::compare::{self, Compared, Subject};
use crate::reconcile::load::AppContext;
use crate::reconcile::resolve::Resolved;
use crate::scheduler::Requeue;

/// What a pass was about.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) resolved: &'a Resolved,
    pub(super) operation: &'a Operation,
    pub(super) compared: &'a Compared,
    pub(super) ending: Ending,
}

/// Records the end of a pass.
pub(super) async fn record(
    cx: &mut AppContext<'_>,
    attempt: Attempt<'_>,
    mut result: SyncResult,
    ended: PassEnd,
) -> Next {
    let now = cx.controller.clock.now();
    let has_progressed = !are_same_results(&result.resources, &ended.results);
    result.resources = ended.results;
    let mut new = cx.app.clone();
    let mut state = new.status.operation_state.clone().unwrap_or_default();
    keep_ledger(cx, &state, &result.resources);
    state.sync_result = Some(result);
    let is_last = attempt.ending.terminate || cx.app.metadata.deletion_timestamp.is_some();
    let ending = Ending { terminate: is_last, ..attempt.ending };
    if end_pass(&mut state, ended.phase, &ended.message, ending, now) {
        return Box::pin(finish(cx, state, Some(attempt))).await;
    }
    let is_retried = state.finished_at.is_some();
    new.status.operation_state = Some(state);
    if let Err(next) = save(cx, new, PatchOptions::default()).await {
        return next;
    }
    if is_retried {
        return Next::Again;
    }
    if ended.wave_delay {
        let delay = cx.world.settings.controller().sync_wave_delay;
        let delay = SignedDuration::try_from(delay).unwrap_or(LOOK_AGAIN);
        // Changes of live objects wake the application earlier; the next wave waits all the same.
        cx.memory.lock().not_before = cx.controller.clock.now().checked_add(delay).ok();
        return Next::wait(delay);
    }
    if has_progressed { Next::Again } else { Next::wait(LOOK_AGAIN) }
}

/// Ends an operation with a phase and a message; retries apply.
pub(super) async fn end(
    cx: &mut AppContext<'_>,
    phase: OperationPhase,
    message: &str,
    ending: Ending,
) -> Next {
    let now = cx.controller.clock.now();
    let mut state = cx.app.status.operation_state.clone().unwrap_or_else(|| {
        Box::new(OperationState {
            operation: cx.app.operation.as_deref().cloned().unwrap_or_default(),
            started_at: shown(now),
            ..OperationState::default()
        })
    });
    // An application that is being deleted waits for this end, and not for a retry.
    let is_deleted = cx.app.metadata.deletion_timestamp.is_some();
    let is_last = ending.terminate || state.phase == OperationPhase::Terminating || is_deleted;
    if end_pass(&mut state, phase, message, Ending { terminate: is_last, ..ending }, now) {
        return finish(cx, state, None).await;
    }
    let mut new = cx.app.clone();
    new.status.operation_state = Some(state);
    match save(cx, new, PatchOptions::default()).await {
        Ok(()) => Next::Again,
        Err(next) => next,
    }
}

/// Writes the end of an operation: state, history, and the comparison after it.
async fn finish(cx: &mut AppContext<'_>, state: Box<OperationState>, attempt: Option<Attempt<'_>>) -> Next {
    let now = cx.controller.clock.now();
    let mut new = cx.app.clone();
    let is_marked_alike = {
        let mut memory = cx.memory.lock();
        memory.ledger = None;
        memory.not_before = None;
        memory.unreached_since = None;
        memory.marks_by.take().is_some()
    };
    let has_succeeded = state.phase == OperationPhase::Succeeded;
    let is_dry_run = state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run);
    new.status.history = extend_history(&cx.app, &state, now);
    new.status.operation_state = Some(state.clone());
    new.operation = None;
    attempt::remember_synced(&mut new);
    let mut released = Vec::new();
    let profile = cx.tracking.profile();
    let is_profile_stored = cx.app.annotation(annotation::TRACKING_PROFILE) == Some(profile.as_str());
    if let Some(Attempt { resolved, operation, compared, .. }) = attempt.filter(|_| !is_dry_run) {
        let sync = operation.sync.as_ref();
        let is_whole = has_succeeded && sync.is_some_and(|sync| sync.resources.is_empty());
        if is_whole {
            cx.memory.lock().synced_ids = Some(compared.targets.ids().collect());
        }
        let is_of_spec = sync.is_some_and(|sync| sync.manifests.is_empty())
            && compared.targets.sources == SourcesId::of(cx.app.sources());
        let is_shown = is_of_spec && pinned_is_current(cx, compared);
        let after = if is_shown || (has_succeeded && !is_profile_stored) {
            compare::with_targets(Subject { cx, resolved }, compared.targets.clone()).await.ok()
        } else {
            None
        };
        let after = after.filter(|after| after.comparison.failed.is_none());
        let is_marked_anew = is_marked_anew((is_whole, is_marked_alike), after.as_ref());
        if has_succeeded && is_marked_anew && !is_profile_stored {
            released = mark_as_synced(cx, (&mut new, profile), after.as_ref());
        }
        if let Some(after) = after.filter(|_| is_shown) {
            // Not a look at the branch: syncs that follow each other must not put that off (INV-13).
            after.show(cx, &mut new, Level::Recent, now);
        }
    }
    let options = PatchOptions { operation: true, profile: true, ..PatchOptions::default() };
    if let Err(next) = save(cx, new, options).await {
        return next;
    }
    if !released.is_empty() {
        let text = format!(
            "the tracking settings changed, and the sync did not prune {}; they stay in the cluster and belong to no \
             application",
            listed(&released)
        );
        cx.note(&Note::warning("TrackingReleased", text));
    }
    announce(cx, &state, is_dry_run);
    if is_dry_run {
        return Next::Stop(Requeue::Done);
    }
    // What was compared above is what the operation knew; whether the branch moved meanwhile is another question, asked
    // soon. Clients that wait for the operation wait for its answer, unless there is one of the same second.
    let is_recent = attempt.is_some() && has_succeeded && !is_awaited(&cx.app);
    let level = if is_recent { Level::Recent } else { Level::Latest };
    cx.memory.lock().request(level);
    Next::Stop(Requeue::Now(Priority::Urgent))
}

/// Whether all objects of the application bear the marks of the settings in force. A whole sync that marked all of them alike
/// is believed, whether the watch shows it already or not. Where the settings changed meanwhile it has to be seen, and after
/// a sync of some objects also that nothing is left to release.
fn is_marked_anew((is_whole, is_alike): (bool, bool), after: Option<&Compared>) -> bool {
    let is_seen = |after: &Compared| {
        let resources = &after.comparison.resources;
        resources.iter().all(|r| !r.is_marked_otherwise)
            && (is_whole || resources.iter().all(|r| !r.is_released_next))
    };
    (is_whole && is_alike) || after.is_some_and(is_seen)
}

/// Remembers under which tracking settings all objects of the application are marked now (TRK-102); the answer are those
/// that were the application's only under the ones before (TRK-106).
fn mark_as_synced(
    cx: &AppContext<'_>,
    (new, profile): (&mut Application, String),
    after: Option<&Compared>,
) -> Vec<ResourceKey> {
    new.metadata.annotations.insert(annotation::TRACKING_PROFILE.to_owned(), profile);
    cx.memory.lock().recognised.clear();
    let resources = after.into_iter().flat_map(|after| &after.comparison.resources);
    resources.filter(|r| r.is_released_next).map(|r| r.key.clone()).collect()
}

/// The first of some objects, and how many more there are.
fn listed(keys: &[ResourceKey]) -> String {
    const SHOWN_MAX: usize = 20;
    let shown: Vec<String> = keys.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    match keys.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether the revisions of the operation are those of the last comparison: then the comparison after the sync
/// may stand in the status.
fn pinned_is_current(cx: &AppContext<'_>, compared: &Compared) -> bool {
    let sync = &cx.app.status.sync;
    if cx.app.is_multi_source() {
        sync.revisions == compared.targets.revisions
    } else {
        Some(&sync.revision) == compared.targets.revisions.first()
    }
}

fn announce(cx: &AppContext<'_>, state: &OperationState, is_dry_run: bool) {
    let is_partial = state.operation.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty());
    let what = if is_partial { "Partial sync operation" } else { "Sync operation" };
    let result = state.sync_result.as_ref();
    let to = result.map_or_else(String::new, |result| format!(" to {}", result.revision));
    let note = if state.phase == OperationPhase::Succeeded {
        Note::normal("OperationCompleted", format!("{what}{to} succeeded"))
    } else {
        Note::warning("OperationCompleted", format!("{what}{to} failed: {}", state.message))
    };
    cx.note(&note);
    let counted =
        CountedApp { key: &cx.key, project: cx.app.project(), server: &cx.app.spec.destination.server };
    let now = cx.controller.clock.now();
    let started = state.started_at.parse().unwrap_or(now);
    // A clock that was set back makes no time.
    let took = now.duration_since(started).max(SignedDuration::ZERO).unsigned_abs();
    cx.controller.metrics.applications.synced(counted, (&state.phase, is_dry_run), took);
}
