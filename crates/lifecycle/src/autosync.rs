//! Automatic sync: whether a comparison starts an operation, and which (CTL-57..63).

use jiff::Timestamp;
use tiphys_api::Application;
use tiphys_api::application::{
    Operation, OperationInitiator, ResourceStatus, RetryStrategy, SyncOperation, SyncResource, are_copies,
};
use tiphys_api::codes::{OperationPhase, SyncStatusCode};
use tiphys_api::settings::SelfHeal;

use crate::fit::{COPY_BYTES_MAX, json_bytes};
use crate::operation::UNREACHED;

/// Objects that one self-heal applies; the next one heals the others. The list is stored in `.operation`.
const HEALED_MAX: usize = 5_000;

/// What the comparison found.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// Sync status of the application.
    pub status: SyncStatusCode,
    /// Resolved revisions, one per source.
    pub revisions: &'a [String],
    /// Resources of the application.
    pub resources: &'a [ResourceStatus],
    /// False only when the resolved revisions are known to bring no change since the last sync (CTL-39).
    pub may_have_changes: bool,
}

/// The answer, with its reason (CTL-142).
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing to do.
    Skip(&'static str),
    /// Not now; the condition says why.
    Refuse {
        /// Text of the `SyncError` condition.
        condition: String,
    },
    /// A self-heal is due later.
    Wait {
        /// When.
        until: Timestamp,
    },
    /// Start this operation.
    Start(Box<Operation>),
}

/// Decides about an automatic sync (CTL-57..61).
pub fn decide(app: &Application, compared: &Compared<'_>, heal: &SelfHeal, now: Timestamp) -> Decision {
    let Some(policy) = app.automated() else { return Decision::Skip("automated sync is off") };
    if app.operation.is_some() {
        return Decision::Skip("another operation is in progress");
    }
    if app.metadata.deletion_timestamp.is_some() {
        return Decision::Skip("the application is being deleted");
    }
    if compared.status != SyncStatusCode::OutOfSync {
        return Decision::Skip("the application is not out of sync");
    }
    let prunes_only =
        || compared.resources.iter().all(|r| r.status == SyncStatusCode::Synced || r.requires_pruning);
    if !policy.prune && prunes_only() {
        return Decision::Skip("only pruning would help, and automated pruning is off");
    }
    let shown = format!("[{}]", compared.revisions.join(" "));
    let mut sync = SyncOperation {
        prune: policy.prune,
        sync_options: app.sync_options().to_vec(),
        ..SyncOperation::default()
    };
    // Large sources are those of the spec, without a copy of their own (CTL-36).
    let is_copied = json_bytes(&app.sources()) <= COPY_BYTES_MAX;
    if app.is_multi_source() {
        sync.sources = if is_copied { app.spec.sources.clone() } else { Vec::new() };
        sync.revisions = compared.revisions.to_vec();
    } else {
        sync.source = app.single_source().filter(|_| is_copied).cloned();
        sync.revision = compared.revisions.first().cloned().unwrap_or_default();
    }
    match attempted(app, compared) {
        Attempted::No => {}
        Attempted::Failed { message } => {
            let condition = format!("Failed last sync attempt to {shown}: {message}");
            return Decision::Refuse { condition };
        }
        Attempted::Succeeded { heals, finished } => {
            if !policy.self_heal {
                return Decision::Skip("already synced to this revision, and self-heal is off");
            }
            if let Some(until) = finished.and_then(|at| at.checked_add(heal.wait(heals)).ok())
                && until > now
            {
                return Decision::Wait { until };
            }
            sync.auto_heal_attempts_count = heals.saturating_add(1);
            sync.resources = unsynced(compared.resources);
            let is_nameless =
                |r: &ResourceStatus| r.status != SyncStatusCode::Synced && !r.hook && r.name.is_empty();
            if sync.resources.is_empty() && compared.resources.iter().any(is_nameless) {
                // An empty list is a sync of everything, as the metadata of a managed namespace asks for (ENG-51).
                return Decision::Skip("nothing that differs has a name of its own");
            }
        }
    }
    if policy.prune && !policy.allow_empty && compared.resources.iter().all(|r| r.requires_pruning) {
        let condition = format!("Skipping sync attempt to {shown}: auto-sync will wipe out all resources");
        return Decision::Refuse { condition };
    }
    let retry = app.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone());
    Decision::Start(Box::new(Operation {
        sync: Some(sync),
        initiated_by: OperationInitiator { automated: true, ..OperationInitiator::default() },
        retry: retry.unwrap_or(RetryStrategy { limit: 5, ..RetryStrategy::default() }),
        ..Operation::default()
    }))
}

// Deviation (CTL-63): the list names the namespace, so that equal names in two namespaces are not both synced.
fn unsynced(resources: &[ResourceStatus]) -> Vec<SyncResource> {
    let item = |r: &ResourceStatus| SyncResource {
        group: r.group.clone(),
        kind: r.kind.clone(),
        name: r.name.clone(),
        namespace: r.namespace.clone(),
        ..SyncResource::default()
    };
    // An object that the server names is never found again: it is made by a sync of a revision, and to heal it would
    // make one more each time.
    resources
        .iter()
        .filter(|r| r.status != SyncStatusCode::Synced && !r.hook && !r.name.is_empty())
        .map(item)
        .take(HEALED_MAX)
        .collect()
}

enum Attempted {
    No,
    Failed { message: String },
    Succeeded { heals: i64, finished: Option<Timestamp> },
}

/// Whether the last operation already tried this very state (CTL-58).
fn attempted(app: &Application, compared: &Compared<'_>) -> Attempted {
    let Some(state) = &app.status.operation_state else { return Attempted::No };
    let completed = OperationPhase::parse(&state.phase).is_some_and(OperationPhase::is_completed);
    let same = match &state.sync_result {
        None => completed,
        Some(result) => {
            let same_source = if app.is_multi_source() {
                are_copies(&result.sources, &app.spec.sources)
            } else {
                are_copies(result.source.as_slice(), app.single_source().map_or(&[], std::slice::from_ref))
            };
            let same_revision = if app.is_multi_source() {
                result.revisions == compared.revisions
            } else {
                Some(&result.revision) == compared.revisions.first()
            };
            same_source && (same_revision || !compared.may_have_changes)
        }
    };
    // What did not even reach the cluster was no attempt; it is made when the cluster answers again (F13).
    let unreached = state.phase == OperationPhase::Error && state.message.starts_with(UNREACHED);
    if !same || unreached {
        return Attempted::No;
    }
    if state.phase != OperationPhase::Succeeded {
        return Attempted::Failed { message: state.message.clone() };
    }
    let heals = state.operation.sync.as_ref().map_or(0, |sync| sync.auto_heal_attempts_count);
    let finished = state.finished_at.as_deref().and_then(|text| text.parse().ok());
    Attempted::Succeeded { heals, finished }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tiphys_api::settings::Settings;

    fn app(automated: &Value, state: &Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"},
            "spec": {"project": "default", "source": {"repoURL": "r"}, "destination": {"server": "s"},
                "syncPolicy": {"automated": automated}},
            "status": {"sync": {"status": "OutOfSync"}, "health": {}, "operationState": state}}))
        .unwrap()
    }

    fn resource(status: &str, requires_pruning: bool) -> ResourceStatus {
        ResourceStatus {
            kind: "ConfigMap".into(),
            name: "c".into(),
            namespace: "n".into(),
            status: status.into(),
            requires_pruning,
            ..ResourceStatus::default()
        }
    }

    fn run(app: &Application, resources: &[ResourceStatus]) -> Decision {
        let revisions = ["r1".to_owned()];
        let compared = Compared {
            status: SyncStatusCode::OutOfSync,
            revisions: &revisions,
            resources,
            may_have_changes: true,
        };
        decide(
            app,
            &compared,
            &Settings::default().controller().self_heal,
            "2026-01-01T00:00:10Z".parse().unwrap(),
        )
    }

    /// CTL-36: large sources are not copied into the operation, and their attempt is recognised by its digest.
    #[test]
    fn ctl_36_large_sources_are_not_copied_and_are_recognised() {
        let values = json!({"repoURL": "r", "helm": {"values": "x".repeat(100_000)}});
        let with = |state: &Value| {
            let mut app = app(&json!({}), state);
            app.spec.source = serde_json::from_value(values.clone()).unwrap();
            app
        };
        let new = with(&Value::Null);
        let Decision::Start(operation) = run(&new, &[resource("OutOfSync", false)]) else { panic!() };
        let sync = operation.sync.unwrap();
        assert_eq!((sync.source, sync.revision.as_str()), (None, "r1"));
        let mut state = done("r1", "Succeeded", 0, "2026-01-01T00:00:01Z");
        state["syncResult"]["source"] = serde_json::to_value(new.spec.source.unwrap().abridged()).unwrap();
        let again = run(&with(&state), &[resource("OutOfSync", false)]);
        assert_eq!(again, Decision::Skip("already synced to this revision, and self-heal is off"));
    }

    #[test]
    fn ctl_63_a_self_heal_applies_a_bounded_list() {
        let automated = json!({"selfHeal": true});
        let app = app(&automated, &done("r1", "Succeeded", 0, "2026-01-01T00:00:01Z"));
        let Decision::Start(operation) = run(&app, &vec![resource("OutOfSync", false); 6_000]) else {
            panic!()
        };
        assert_eq!(operation.sync.unwrap().resources.len(), HEALED_MAX);
    }

    fn done(revision: &str, phase: &str, heals: i64, finished: &str) -> Value {
        json!({"phase": phase, "message": "boom", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": finished,
            "operation": {"sync": {"autoHealAttemptsCount": heals}},
            "syncResult": {"revision": revision, "source": {"repoURL": "r"}}})
    }

    #[test]
    fn ctl_61_a_new_revision_is_synced_with_the_policy_of_the_spec() {
        let Decision::Start(operation) =
            run(&app(&json!({"prune": true}), &Value::Null), &[resource("OutOfSync", false)])
        else {
            panic!("expected a start")
        };
        let sync = operation.sync.unwrap();
        assert_eq!((sync.revision.as_str(), sync.prune, operation.retry.limit), ("r1", true, 5));
        assert!(operation.initiated_by.automated && sync.resources.is_empty());
    }

    #[test]
    fn ctl_58_a_failed_attempt_is_not_repeated_at_the_same_revision() {
        let app = app(&json!({}), &done("r1", "Failed", 0, "2026-01-01T00:00:01Z"));
        let expected = Decision::Refuse { condition: "Failed last sync attempt to [r1]: boom".into() };
        assert_eq!(run(&app, &[resource("OutOfSync", false)]), expected);
    }

    #[test]
    fn ctl_62_self_heal_is_a_partial_sync_after_its_wait() {
        let state = done("r1", "Succeeded", 1, "2026-01-01T00:00:09Z");
        let waiting = run(&app(&json!({"selfHeal": true}), &state), &[resource("OutOfSync", false)]);
        assert_eq!(waiting, Decision::Wait { until: "2026-01-01T00:00:11Z".parse().unwrap() });
        let state = done("r1", "Succeeded", 1, "2026-01-01T00:00:08Z");
        let Decision::Start(operation) =
            run(&app(&json!({"selfHeal": true}), &state), &[resource("OutOfSync", false)])
        else {
            panic!("expected a start")
        };
        let sync = operation.sync.unwrap();
        assert_eq!((sync.auto_heal_attempts_count, sync.resources.len()), (2, 1));
        assert_eq!(sync.resources[0].namespace, "n");
    }

    /// INV-5: an installation with an object that the server names comes to rest.
    #[test]
    fn inv_5_self_heal_makes_no_further_object_that_the_server_names() {
        let state = done("r1", "Succeeded", 0, "2026-01-01T00:00:01Z");
        let app = app(&json!({"selfHeal": true, "prune": true}), &state);
        let nameless = ResourceStatus { name: String::new(), ..resource("OutOfSync", false) };
        assert!(matches!(run(&app, std::slice::from_ref(&nameless)), Decision::Skip(_)));
        let Decision::Start(whole) = run(&app, &[resource("Synced", false)]) else {
            panic!("expected a start")
        };
        assert!(whole.sync.unwrap().resources.is_empty(), "the managed namespace alone differs");
        let Decision::Start(operation) = run(&app, &[nameless, resource("OutOfSync", false)]) else {
            panic!("expected a start")
        };
        let names: Vec<String> = operation.sync.unwrap().resources.into_iter().map(|r| r.name).collect();
        assert_eq!(names, ["c"]);
    }

    #[test]
    fn ctl_60_wiping_out_everything_needs_allow_empty() {
        let pruned = [resource("OutOfSync", true)];
        let Decision::Refuse { condition } = run(&app(&json!({"prune": true}), &Value::Null), &pruned) else {
            panic!("expected a refusal")
        };
        assert_eq!(condition, "Skipping sync attempt to [r1]: auto-sync will wipe out all resources");
        let allowed = run(&app(&json!({"prune": true, "allowEmpty": true}), &Value::Null), &pruned);
        assert!(matches!(allowed, Decision::Start(_)));
    }

    #[test]
    fn ctl_57_pruning_alone_does_not_start_a_sync_without_prune() {
        assert!(matches!(
            run(&app(&json!({}), &Value::Null), &[resource("OutOfSync", true)]),
            Decision::Skip(_)
        ));
    }
}
