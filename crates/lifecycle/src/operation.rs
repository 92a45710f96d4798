//! The life of an operation: start, resume, retry, end (CTL-44..54).

use jiff::{SignedDuration, Timestamp};
use tiphys_api::Application;
use tiphys_api::application::{Backoff, HistoryEntry, OperationState, RetryStrategy};
use tiphys_api::codes::OperationPhase;

use crate::attempt;

/// Begins the message of an operation whose destination did not answer (CTL-46).
pub const UNREACHED: &str = "Failed to get destination cluster: ";

/// How a pass ends an operation that is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The pass ends the operation instead of doing a step, and nothing is retried.
    pub terminate: bool,
    /// The controller's time-out is the reason.
    pub timed_out: bool,
}

/// What to do with an application whose `.operation` is set (CTL-44).
#[derive(Clone, Debug, PartialEq)]
pub enum NextMove {
    /// Begin a new operation.
    Begin,
    /// Go on with the running one.
    Continue(Ending),
    /// A retry is due: clear the results, show this message, and go on.
    Retry {
        /// Message of the state.
        message: String,
        /// Whether revisions are resolved anew.
        refresh: bool,
    },
    /// A retry is not due yet.
    WaitUntil(Timestamp),
    /// The operation cannot be carried out.
    Invalid {
        /// Message of the `Error` phase.
        message: String,
    },
}

/// Decides how an application's operation goes on; `sync_timeout` zero means none (CTL-44).
pub fn decide(app: &Application, sync_timeout: SignedDuration, now: Timestamp) -> Option<NextMove> {
    let operation = app.operation.as_ref()?;
    let is_over = |state: &OperationState| {
        OperationPhase::parse(&state.phase).is_some_and(OperationPhase::is_completed)
    };
    let Some(state) = app.status.operation_state.as_ref().filter(|state| !is_over(state)) else {
        return Some(NextMove::Begin);
    };
    if state.phase == OperationPhase::Terminating {
        return Some(NextMove::Continue(Ending { terminate: true, timed_out: false }));
    }
    let started = state.started_at.parse::<Timestamp>().unwrap_or(now);
    if sync_timeout > SignedDuration::ZERO && now.duration_since(started) > sync_timeout {
        return Some(NextMove::Continue(Ending { terminate: true, timed_out: true }));
    }
    let Some(finished) = state.finished_at.as_deref() else {
        return Some(NextMove::Continue(Ending::default()));
    };
    if app.metadata.deletion_timestamp.is_some() {
        // The deletion waits for the end of the operation, and nobody waits for a retry any more.
        let message = format!("not retried, because the application is being deleted: {}", state.message);
        return Some(NextMove::Invalid { message });
    }
    let finished = finished.parse::<Timestamp>().unwrap_or(now);
    Some(match retry_at(&operation.retry, finished, state.retry_count) {
        Err(message) => NextMove::Invalid { message },
        Ok(at) if at > now => NextMove::WaitUntil(at),
        Ok(_) => {
            let how = if operation.retry.refresh { "operation with latest revisions" } else { "operation" };
            NextMove::Retry {
                message: format!("Retrying {how}. Attempt #{}", state.retry_count),
                refresh: operation.retry.refresh,
            }
        }
    })
}

/// The time of the next attempt after one that ended at `finished` (CTL-49).
///
/// # Errors
/// When a duration of the strategy does not parse.
pub fn retry_at(strategy: &RetryStrategy, finished: Timestamp, retries: i64) -> Result<Timestamp, String> {
    let backoff = strategy.backoff.clone().unwrap_or_default();
    let Backoff { duration, factor, max_duration, .. } = backoff;
    let initial = parse_duration(&duration, SignedDuration::from_secs(5))?;
    let cap = parse_duration(&max_duration, SignedDuration::from_secs(180))?;
    let factor = i32::try_from(factor.unwrap_or(2).clamp(1, 1_000)).unwrap_or(2);
    let mut wait = initial;
    for _ in 0..retries.clamp(0, 64) {
        wait = wait.checked_mul(factor).unwrap_or(SignedDuration::from_hours(24 * 365));
        if !cap.is_zero() && wait >= cap {
            wait = cap;
            break;
        }
    }
    if !cap.is_zero() {
        wait = wait.min(cap);
    }
    finished.checked_add(wait).map_err(|_error| format!("unable to parse {duration} as a duration"))
}

/// A Go duration or a plain number of seconds; empty means the default.
fn parse_duration(text: &str, default: SignedDuration) -> Result<SignedDuration, String> {
    if text.is_empty() {
        return Ok(default);
    }
    if let Ok(seconds) = text.parse::<i64>() {
        return Ok(SignedDuration::from_secs(seconds));
    }
    tiphys_go::duration::parse(text).map_err(|_error| format!("unable to parse {text} as a duration"))
}

/// Applies the end of a pass to the state: retry, completion, or going on (CTL-48).
///
/// `phase` and `message` are what the engine said. Returns whether the operation has ended.
pub fn end_pass(
    state: &mut OperationState,
    phase: OperationPhase,
    message: &str,
    ending: Ending,
    now: Timestamp,
) -> bool {
    state.phase = phase.into();
    message.clone_into(&mut state.message);
    if !phase.is_completed() {
        return false;
    }
    let retry = &state.operation.retry;
    let failed = phase != OperationPhase::Succeeded;
    if failed && !ending.terminate && (state.retry_count < retry.limit || retry.limit < 0) {
        state.phase = OperationPhase::Running.into();
        state.finished_at = Some(shown(now));
        state.retry_count = state.retry_count.saturating_add(1);
        // Deviation (CTL-49): the announced time is the one that will be used.
        match retry_at(retry, now, state.retry_count) {
            Ok(at) => {
                let at = at.strftime("%-I:%M%p");
                // Hints end with a stop of their own.
                let message = message.trim_end_matches('.');
                state.message = format!("{message}. Retrying attempt #{} at {at}.", state.retry_count);
                return false;
            }
            Err(message) => {
                state.phase = OperationPhase::Error.into();
                state.message = message;
            }
        }
    }
    if ending.timed_out {
        state.message.push_str(", triggered by controller sync timeout");
    }
    if state.retry_count > 0 {
        state.message = format!("{} (retried {} times).", state.message, state.retry_count);
    }
    state.finished_at = Some(shown(now));
    true
}

/// A time as the status shows it: RFC 3339 in UTC, whole seconds.
pub fn shown(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The history after a successful operation, oldest first, cut to the limit (CTL-54).
pub fn extend_history(app: &Application, state: &OperationState, now: Timestamp) -> Vec<HistoryEntry> {
    let mut history = app.status.history.clone();
    let sync = state.operation.sync.as_ref();
    let records = state.phase == OperationPhase::Succeeded
        && sync.is_some_and(|sync| !sync.dry_run && sync.resources.is_empty());
    if let Some(result) = state.sync_result.as_ref().filter(|_| records) {
        let multi = !result.sources.is_empty();
        let sources = attempt::deployed_sources(app, state);
        history.push(HistoryEntry {
            id: history.last().map_or(0, |entry| entry.id.saturating_add(1)),
            revision: if multi { String::new() } else { result.revision.clone() },
            revisions: if multi { result.revisions.clone() } else { Vec::new() },
            source: sources.first().cloned().filter(|_| !multi),
            sources: if multi { sources } else { Vec::new() },
            deployed_at: shown(now),
            deploy_started_at: Some(state.started_at.clone()),
            initiated_by: state.operation.initiated_by.clone(),
            ..HistoryEntry::default()
        });
    }
    let limit = app.spec.revision_history_limit.unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    let surplus = history.len().saturating_sub(limit);
    history.drain(..surplus);
    history
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::operated as app;
    use serde_json::{Value, json};
    use tiphys_api::application::ApplicationSource;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn running(retry: &Value) -> OperationState {
        serde_json::from_value(json!({"operation": {"sync": {}, "retry": retry}, "phase": "Running",
            "startedAt": "2026-01-01T00:00:00Z"}))
        .unwrap()
    }

    #[test]
    fn ctl_44_states_lead_to_moves() {
        let now = at("2026-01-01T00:01:00Z");
        let moved = |state| decide(&app(&json!({"sync": {}}), &state), SignedDuration::ZERO, now);
        assert_eq!(moved(Value::Null), Some(NextMove::Begin));
        assert_eq!(moved(json!({"phase": "Succeeded", "startedAt": "x"})), Some(NextMove::Begin));
        let running = json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"});
        assert_eq!(moved(running), Some(NextMove::Continue(Ending::default())));
        let ending = json!({"phase": "Terminating", "startedAt": "2026-01-01T00:00:00Z"});
        assert_eq!(moved(ending), Some(NextMove::Continue(Ending { terminate: true, timed_out: false })));
        assert_eq!(decide(&Application::default(), SignedDuration::ZERO, now), None);
    }

    #[test]
    fn ctl_44_an_operation_over_its_time_out_is_terminated() {
        let app =
            app(&json!({"sync": {}}), &json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}));
        let decided = decide(&app, SignedDuration::from_secs(30), at("2026-01-01T00:01:00Z"));
        assert_eq!(decided, Some(NextMove::Continue(Ending { terminate: true, timed_out: true })));
    }

    #[test]
    fn ctl_78_an_application_that_is_being_deleted_does_not_wait_for_a_retry() {
        let state = json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:01Z", "retryCount": 1, "message": "boom"});
        let mut app = app(&json!({"sync": {}, "retry": {"limit": 5}}), &state);
        let now = at("2026-01-01T00:00:02Z");
        assert!(matches!(decide(&app, SignedDuration::ZERO, now), Some(NextMove::WaitUntil(_))));
        app.metadata.deletion_timestamp = Some("2026-01-01T00:00:02Z".to_owned());
        let message = "not retried, because the application is being deleted: boom".to_owned();
        assert_eq!(decide(&app, SignedDuration::ZERO, now), Some(NextMove::Invalid { message }));
    }

    #[test]
    fn ctl_49_waits_grow_and_are_capped() {
        let start = at("2026-01-01T00:00:00Z");
        let wait = |strategy: Value, n| {
            let strategy: RetryStrategy = serde_json::from_value(strategy).unwrap();
            retry_at(&strategy, start, n).map(|at| at.duration_since(start).as_secs())
        };
        assert_eq!(wait(json!({}), 1), Ok(10));
        assert_eq!(wait(json!({}), 2), Ok(20));
        assert_eq!(wait(json!({}), 30), Ok(180));
        assert_eq!(wait(json!({"backoff": {"duration": "7", "factor": 3}}), 1), Ok(21));
        assert_eq!(
            wait(json!({"backoff": {"duration": "7x"}}), 1),
            Err("unable to parse 7x as a duration".into())
        );
    }

    #[test]
    fn ctl_48_a_failure_is_retried_until_the_limit() {
        let now = at("2026-01-01T00:00:00Z");
        let mut state = running(&json!({"limit": 1}));
        assert!(!end_pass(&mut state, OperationPhase::Failed, "boom", Ending::default(), now));
        assert_eq!((state.phase.as_str(), state.retry_count), ("Running", 1));
        assert_eq!(state.message, "boom. Retrying attempt #1 at 12:00AM.");
        let mut hinted = running(&json!({"limit": 1}));
        assert!(!end_pass(
            &mut hinted,
            OperationPhase::Failed,
            "Make sure it is installed.",
            Ending::default(),
            now
        ));
        assert_eq!(hinted.message, "Make sure it is installed. Retrying attempt #1 at 12:00AM.");
        assert!(end_pass(&mut state, OperationPhase::Failed, "boom", Ending::default(), now));
        assert_eq!(state.message, "boom (retried 1 times).");
    }

    /// CTL-36: the history has the values that were deployed, also where the stored result has a digest of them.
    #[test]
    fn ctl_36_history_restores_values_from_the_source() {
        let mut state = running(&json!({}));
        state.phase = "Succeeded".into();
        let mut app = app(&json!({"sync": {}}), &Value::Null);
        let values = json!({"repoURL": "r", "helm": {"values": "x".repeat(100_000)}});
        app.spec.source = serde_json::from_value(values).unwrap();
        state.sync_result = Some(serde_json::from_value(json!({"revision": "r"})).unwrap());
        let recorded = app.spec.source.as_ref().map(ApplicationSource::abridged);
        state.sync_result.as_mut().unwrap().source.clone_from(&recorded);
        let now = at("2026-01-01T00:00:00Z");
        assert_eq!(extend_history(&app, &state, now)[0].source, app.spec.source);
        app.spec.source = serde_json::from_value(json!({"repoURL": "r"})).unwrap();
        assert_eq!(extend_history(&app, &state, now)[0].source, recorded, "the values are gone");
    }

    #[test]
    fn ctl_54_history_is_cut_to_its_limit_and_skips_partial_syncs() {
        let now = at("2026-01-01T00:00:00Z");
        let mut state = running(&json!({}));
        state.phase = "Succeeded".into();
        state.sync_result = Some(serde_json::from_value(json!({"revision": "r"})).unwrap());
        let mut app = app(&json!({}), &Value::Null);
        app.spec.revision_history_limit = Some(2);
        for _ in 0..4 {
            app.status.history = extend_history(&app, &state, now);
        }
        assert_eq!(app.status.history.iter().map(|entry| entry.id).collect::<Vec<_>>(), [2, 3]);
        state.operation.sync =
            Some(serde_json::from_value(json!({"resources": [{"kind": "A", "name": "b"}]})).unwrap());
        assert_eq!(extend_history(&app, &state, now).len(), 2);
    }
}
