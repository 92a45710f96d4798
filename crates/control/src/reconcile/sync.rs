//! Carrying an operation on: one engine pass after another, its actions executed, its results recorded
//! (CTL-44..56).
//!
//! The state in the Application is written before the first action and after every pass; everything a restart
//! needs is in it and on the hooks (INV-9).

mod end;
mod pass;
mod state;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tiphys_api::application::{Condition, Operation, OperationState, SyncOperation, SyncResult};
use tiphys_api::codes::{ConditionType, OperationPhase};
use tiphys_engine::compare::{SharedResource, fail_on_shared};
use tiphys_engine::sync::message::TERMINATED;
use tiphys_lifecycle::attempt;
use tiphys_lifecycle::operation::{Ending, NextMove, UNREACHED, decide};
use tiphys_lifecycle::refresh::{Level, Reason, Refresh, RefreshKind};
use tiphys_lifecycle::status_patch::PatchOptions;

use super::compare::{self, Compared};
use super::desired::{Unavailable, Wanted};
use super::load::AppContext;
use super::resolve::{Resolved, Unresolved, resolve};
use super::settle::settle;
use crate::memory::SourcesId;
use crate::queue::Priority;
use crate::scheduler::Requeue;
use end::{Attempt, end, record};
use state::{LOOK_AGAIN, Next, confirm, restore_ledger, save, save_message};

/// Steps made in a row before other applications get their turn (CTL-141).
const STEPS_IN_A_ROW: usize = 64;
/// How long an operation waits for a destination that does not answer, before it ends or is retried (F12).
const UNREACHED_MAX: Duration = Duration::from_secs(30);
/// Time until a cluster that is not listed yet is looked at again.
const READY_AGAIN: SignedDuration = SignedDuration::from_millis(500);

/// A comparison that was made before the operation was looked at.
pub(super) struct Made {
    pub(super) compared: Compared,
    /// Whether its revisions are those of the branches when the operation was there already.
    pub(super) is_newest: bool,
}

/// Carries the operation of an application on as far as it goes without waiting.
pub(super) async fn carry_on(cx: &mut AppContext<'_>, compared: Option<Made>) -> Requeue {
    let mut compared = compared;
    for _ in 0..STEPS_IN_A_ROW {
        match step(cx, compared.take()).await {
            Next::Again => {}
            Next::Stop(requeue) => return requeue,
        }
    }
    Requeue::Now(Priority::Routine)
}

async fn step(cx: &mut AppContext<'_>, compared: Option<Made>) -> Next {
    let now = cx.controller.clock.now();
    let timeout = cx.world.settings.controller().sync_timeout.unwrap_or_default();
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let Some(next) = decide(&cx.app, timeout, now) else { return Next::Stop(Requeue::Done) };
    let Some(operation) = cx.app.operation.clone() else { return Next::Stop(Requeue::Done) };
    match next {
        NextMove::WaitUntil(at) => Next::wait(at.duration_since(now)),
        NextMove::Invalid { message } => end(cx, OperationPhase::Error, &message, Ending::default()).await,
        NextMove::Begin => Box::pin(start(cx, &operation, compared)).await,
        NextMove::Retry { message, refresh } => {
            let new = attempt::retried(&cx.app, message, refresh);
            let options = PatchOptions { operation: refresh, ..PatchOptions::default() };
            match save(cx, new, options).await {
                Ok(()) => Next::Again,
                Err(next) => next,
            }
        }
        NextMove::Continue(ending) => {
            let not_before = cx.memory.lock().not_before;
            let left = not_before.map(|at| at.duration_since(now)).filter(SignedDuration::is_positive);
            if let Some(left) = left.filter(|_| !ending.terminate) {
                return Next::wait(left);
            }
            if let Err(next) = confirm(cx).await {
                return next;
            }
            Box::pin(one_pass(cx, &operation, compared, ending)).await
        }
    }
}

/// Resolves what the operation is about and writes its first state, before anything is changed.
async fn start(cx: &mut AppContext<'_>, operation: &Operation, compared: Option<Made>) -> Next {
    let now = cx.controller.clock.now();
    if operation.sync.as_ref().is_some_and(attempt::names_revision) {
        cx.memory.lock().named_at = Some(cx.controller.clock.elapsed());
    }
    // What is seen here may be old: another operation may have begun since (INV-4, F3).
    let first = PatchOptions { exclusive: true, ..PatchOptions::default() };
    let mut new = cx.app.clone();
    let fits = |made: &Made| fits(cx, operation, made, None);
    // What the state of the operation before this one recorded says nothing about this one.
    let compared = compared.filter(fits);
    let state = match &compared {
        Some(made) => attempt::begin(&cx.app, operation, &made.compared.targets.revisions, now),
        None => OperationState {
            operation: operation.clone(),
            phase: OperationPhase::Running.into(),
            started_at: attempt::start_time(&cx.app, now),
            ..OperationState::default()
        },
    };
    new.status.operation_state = Some(Box::new(state));
    if let Err(next) = save(cx, new, first).await {
        return next;
    }
    cx.begin_marking();
    if operation.sync.is_none() {
        let message = "Invalid operation request: no operation specified";
        return end(cx, OperationPhase::Error, message, Ending::default()).await;
    }
    match compared {
        Some(compared) => Box::pin(one_pass(cx, operation, Some(compared), Ending::default())).await,
        None => Next::Again,
    }
}

/// Whether a comparison was made for exactly the sources and revisions of an operation. One that names no revision means
/// what its branch is now: a comparison at revisions that were found earlier may be of an older commit than the one that
/// was synced last (INV-3).
fn fits(cx: &AppContext<'_>, operation: &Operation, made: &Made, recorded: Option<&SyncResult>) -> bool {
    let compared = &made.compared;
    let Some(sync) = &operation.sync else { return false };
    if !sync.manifests.is_empty() || compared.comparison.failed.is_some() {
        return false;
    }
    let (sources, is_multi) = attempt::sources_of(&cx.app, operation);
    let wanted = attempt::wanted_revisions(sync, is_multi, recorded);
    let is_at_wanted = if wanted.is_empty() { made.is_newest } else { wanted == compared.targets.revisions };
    compared.targets.sources == SourcesId::of(&sources) && is_at_wanted
}

/// One pass of the engine.
async fn one_pass(
    cx: &mut AppContext<'_>,
    operation: &Operation,
    compared: Option<Made>,
    ending: Ending,
) -> Next {
    let resolved = match resolve(cx).await {
        Ok(resolved) => resolved,
        Err(Unresolved::Invalid(conditions)) => {
            let texts: Vec<String> =
                conditions.iter().map(|c| format!("{}: {}", c.r#type, c.message)).collect();
            return end(cx, OperationPhase::Error, &texts.join(";"), ending).await;
        }
        // Not to know the cluster yet is no result of the operation.
        Err(Unresolved::NotReady) => return Next::wait(READY_AGAIN),
        Err(Unresolved::Unreachable(error)) => return unreached(cx, &error, ending).await,
    };
    {
        let mut memory = cx.memory.lock();
        memory.unreached_since = None;
        memory.marks_by = memory.marks_by.take().filter(|profile| *profile == cx.tracking.profile());
    }
    // Nothing is written with other rights than the project says (REP-191).
    if let Err(error) = &resolved.account {
        return end(cx, OperationPhase::Error, &error.to_string(), ending).await;
    }
    let Some(sync) = operation.sync.clone() else { return Next::Stop(Requeue::Done) };
    let state = cx.app.status.operation_state.clone().unwrap_or_default();
    let now = cx.controller.clock.now();
    let started = state.started_at.parse::<Timestamp>().unwrap_or(now);
    if !ending.terminate {
        let is_manual = !operation.initiated_by.automated;
        let verdict = resolved.windows(cx, is_manual, Some(started), now);
        if !verdict.allowed {
            let mut message = "Sync operation blocked by sync window".to_owned();
            if let Some(error) = verdict.message {
                message = format!("{message}: {error}");
            }
            return save_message(cx, message).await;
        }
    }
    let fitting = compared.filter(|made| fits(cx, operation, made, state.sync_result.as_ref()));
    let compared = match fitting {
        Some(made) => made.compared,
        None => match compare(cx, &resolved, operation, &sync).await {
            Ok(compared) => compared,
            Err(Unavailable::NotReady) => return Next::wait(READY_AGAIN),
            // The gate brings the application back; the look after half a minute is for safety.
            Err(Unavailable::Busy) => return Next::wait(LOOK_AGAIN),
            Err(error) => {
                let message = format!("ComparisonError: {error}");
                return end(cx, OperationPhase::Error, &message, ending).await;
            }
        },
    };
    if !ending.terminate
        && let Some((phase, text)) =
            refusal(&compared.conditions, &sync.sync_options, &compared.comparison.shared)
    {
        return end(cx, phase, &text, ending).await;
    }
    let mut result = if let Some(result) = &state.sync_result {
        result.clone()
    } else {
        // Revisions and sources are on record before anything is written (INV-2).
        let result = attempt::result_of(&cx.app, operation, &compared.targets.revisions);
        let mut new = cx.app.clone();
        if let Some(state) = new.status.operation_state.as_mut() {
            state.sync_result = Some(result.clone());
        }
        if let Err(next) = save(cx, new, PatchOptions::default()).await {
            return next;
        }
        result
    };
    restore_ledger(cx, &state, &mut result);
    let objects = compared.comparison.resources.len();
    let about =
        pass::About { sync: &sync, state: &state, result: &result, started, terminate: ending.terminate };
    let facts = match cx.programs.compute(objects, || pass::facts(cx, &compared, about)).await {
        Ok(facts) => facts,
        Err(stopped) => return end(cx, OperationPhase::Error, &stopped, ending).await,
    };
    let (mut ended, written) = match pass::drive(cx, &resolved, facts).await {
        Ok(driven) => driven,
        Err(next) => return next,
    };
    pass::explain(&resolved, &mut ended);
    settle(&resolved, written).await;
    let attempt = Attempt { resolved: &resolved, operation, compared: &compared, ending };
    record(cx, attempt, result, ended).await
}

/// Why a sync does not begin because of what its comparison found. Whether shared objects are in its way is said before
/// anything else (TRK-133).
fn refusal(
    conditions: &[Condition],
    sync_options: &[String],
    shared: &[SharedResource],
) -> Option<(OperationPhase, String)> {
    let is_error = |kind: &str| {
        let kind = ConditionType::parse(kind);
        matches!(kind, Some(ConditionType::ComparisonError | ConditionType::InvalidSpecError))
    };
    let errors = conditions.iter().filter(|c| is_error(&c.r#type));
    let errors: Vec<String> = errors.map(|c| format!("{}: {}", c.r#type, c.message)).collect();
    if errors.is_empty() {
        // The pass itself says it, with its results on record.
        return None;
    }
    let of_shared = fail_on_shared(sync_options, shared).map(|text| (OperationPhase::Failed, text));
    Some(of_shared.unwrap_or_else(|| (OperationPhase::Error, errors.join(";"))))
}

/// The destination does not answer. An operation waits a while for it and ends then; one that nobody waits for
/// any more ends now (CTL-46, CTL-51).
async fn unreached(cx: &mut AppContext<'_>, error: &str, ending: Ending) -> Next {
    let text = format!("{UNREACHED}{error}");
    if ending.terminate {
        let message = format!("{TERMINATED}; hooks that run in the cluster were not stopped: {text}");
        return end(cx, OperationPhase::Failed, &message, ending).await;
    }
    let now = cx.controller.clock.elapsed();
    let since = *cx.memory.lock().unreached_since.get_or_insert(now);
    let left = UNREACHED_MAX.saturating_sub(now.saturating_sub(since));
    if left.is_zero() || cx.app.metadata.deletion_timestamp.is_some() {
        return end(cx, OperationPhase::Error, &text, ending).await;
    }
    match save_message(cx, format!("waiting for the destination cluster: {error}")).await {
        Next::Stop(requeue) => {
            let left = Requeue::After(SignedDuration::try_from(left).unwrap_or(LOOK_AGAIN));
            Next::Stop(requeue.soonest(left, cx.controller.clock.now()))
        }
        Next::Again => Next::Again,
    }
}

/// Compares for an operation: with its manifests, its sources, or those of the spec at its revisions.
async fn compare(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    operation: &Operation,
    sync: &SyncOperation,
) -> Result<Compared, Unavailable> {
    let (sources, is_multi) = attempt::sources_of(&cx.app, operation);
    let recorded = cx.app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let revisions = attempt::wanted_revisions(sync, is_multi, recorded);
    if !sync.manifests.is_empty() {
        return compare::local(cx, resolved, &sync.manifests, &revisions).await;
    }
    let refresh = Refresh { level: Level::ForceLatest, kind: RefreshKind::Normal, reason: Reason::Internal };
    let is_of_spec = sources == cx.app.sources();
    let sources = (!is_of_spec).then_some(sources.as_slice());
    compare::application(cx, resolved, Wanted { refresh, sources, revisions: &revisions }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_133_shared_objects_are_told_before_errors_of_the_comparison() {
        let condition = |kind: &str| Condition {
            r#type: kind.to_owned(),
            message: "m".to_owned(),
            ..Condition::default()
        };
        let shared = [SharedResource { message: "x".to_owned(), owner_exists: false }];
        let refuses = |kinds: &[&str], option: &str| {
            let conditions: Vec<_> = kinds.iter().map(|kind| condition(kind)).collect();
            refusal(&conditions, &[option.to_owned()], &shared)
        };
        let both = ["ComparisonError", "SharedResourceWarning", "InvalidSpecError"];
        let errors = (OperationPhase::Error, "ComparisonError: m;InvalidSpecError: m".to_owned());
        let of_shared = (OperationPhase::Failed, "Shared resource found: x".to_owned());
        assert_eq!(refuses(&both, "FailOnSharedResource=true"), Some(of_shared));
        assert_eq!(refuses(&both, "FailOnSharedResource=existing"), Some(errors.clone()));
        assert_eq!(refuses(&both, ""), Some(errors));
        assert_eq!(
            refuses(&["SharedResourceWarning"], "FailOnSharedResource=true"),
            None,
            "the pass says it"
        );
    }
}
