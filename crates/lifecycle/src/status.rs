//! What the status becomes: conditions, resources within a size bound, and the patch that writes it.

use serde_json::{Map, Value};
use tiphys_api::application::{ApplicationStatus, Condition};
use tiphys_api::codes::{ConditionType, OperationPhase, ResultCode, SyncStatusCode};

/// Replaces the conditions of the evaluated types, keeps the others and the transition times of unchanged
/// ones, and sorts by type and message (CTL-17, CTL-18).
pub fn merge_conditions(
    old: &[Condition],
    evaluated: &[ConditionType],
    found: Vec<Condition>,
    now: &str,
) -> Vec<Condition> {
    let kept = old.iter().filter(|c| !evaluated.iter().any(|kind| c.r#type == *kind)).cloned();
    let fresh = found.into_iter().map(|mut condition| {
        let same = old.iter().find(|c| c.r#type == condition.r#type && c.message == condition.message);
        condition.last_transition_time =
            same.and_then(|c| c.last_transition_time.clone()).or_else(|| Some(now.to_owned()));
        condition
    });
    let mut all: Vec<Condition> = kept.chain(fresh).collect();
    all.sort_by(|a, b| (&a.r#type, &a.message).cmp(&(&b.r#type, &b.message)));
    all.dedup_by(|a, b| a.r#type == b.r#type && a.message == b.message);
    all
}

/// The JSON merge patch from one value to another; `None` when they are equal (RFC 7386).
///
/// Objects are walked; every other value is replaced as a whole.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, wanted) in to {
        match from.get(key) {
            Some(found) => {
                if let Some(change) = merge_patch(found, wanted) {
                    patch.insert(key.clone(), change);
                }
            }
            None => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Bytes of status that one Application may carry: well below the 1.5 MB an object may have in etcd, with room
/// for the spec, the history and managed fields (B7: below 1 MB with 10,000 resources).
pub const STATUS_BYTES_MAX: usize = 900_000;

/// Cuts the lists of a status that is too large, most telling entries first.
///
/// While an operation runs its whole ledger is in the controller's memory; what is cut here is only what a restart
/// would do once more. Results of the last operation that say nothing but success go first, then the resources that are in sync and
/// healthy. Hooks, failures and everything that is not in sync stay. Says how many entries were left out.
pub fn bound(status: &mut ApplicationStatus) -> usize {
    let size = |status: &ApplicationStatus| serde_json::to_vec(status).map_or(0, |bytes| bytes.len());
    let mut bytes = size(status);
    let mut cut = 0;
    if bytes <= STATUS_BYTES_MAX {
        return 0;
    }
    if let Some(result) = status.operation_state.as_mut().and_then(|state| state.sync_result.as_mut()) {
        let before = result.resources.len();
        let telling = |phase: &str, status: &str, hook: &str| {
            let is_done = matches!(ResultCode::parse(status), Some(ResultCode::Synced | ResultCode::Pruned));
            let is_well = matches!(
                OperationPhase::parse(phase),
                Some(OperationPhase::Succeeded | OperationPhase::Running)
            );
            let as_wanted = is_done && is_well;
            !hook.is_empty() || !as_wanted
        };
        result.resources.retain(|r| telling(&r.hook_phase, &r.status, &r.hook_type));
        cut += before - result.resources.len();
        if cut > 0 {
            bytes = size(status);
        }
    }
    if bytes > STATUS_BYTES_MAX {
        let total = status.resources.len();
        // The average entry decides how many fit; entries of one application are much alike.
        let list_bytes = serde_json::to_vec(&status.resources).map_or(0, |bytes| bytes.len());
        let each = list_bytes.checked_div(total).unwrap_or(1).max(1);
        let room = STATUS_BYTES_MAX.saturating_sub(bytes.saturating_sub(list_bytes)) / each;
        let (mut telling, quiet): (Vec<_>, Vec<_>) = status
            .resources
            .drain(..)
            .partition(|r| r.status != SyncStatusCode::Synced || r.requires_pruning || r.hook);
        telling.truncate(room);
        let fill = room.saturating_sub(telling.len());
        telling.extend(quiet.into_iter().take(fill));
        telling.sort_by(|a, b| key(a).cmp(&key(b)));
        cut += total - telling.len();
        status.resources = telling;
    }
    cut
}

fn key(r: &tiphys_api::application::ResourceStatus) -> (&str, &str, &str, &str) {
    (&r.group, &r.kind, &r.namespace, &r.name)
}

/// The merge patch from one status to the next; `None` when they are equal. Only members that differ become trees: most
/// writes change one or two, and the lists are long.
pub fn change(from: &ApplicationStatus, to: &ApplicationStatus) -> Option<Value> {
    let (mut was, mut is) = (ApplicationStatus::default(), ApplicationStatus::default());
    macro_rules! differing {
        ($($member:ident),*) => {
            // Without `..`, so that no member is forgotten.
            let ApplicationStatus { $($member),* } = to;
            $(if from.$member != *$member {
                was.$member.clone_from(&from.$member);
                is.$member.clone_from($member);
            })*
        };
    }
    differing!(
        resources,
        sync,
        health,
        history,
        conditions,
        reconciled_at,
        observed_at,
        operation_state,
        source_type,
        summary,
        resource_health_source,
        source_types,
        controller_namespace,
        source_hydrator,
        unknown
    );
    let tree = |status: &ApplicationStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    merge_patch(&tree(&was), &tree(&is))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn timed(kind: ConditionType, message: &str, time: &str) -> Condition {
        Condition { last_transition_time: Some(time.into()), ..Condition::new(kind, message) }
    }

    #[test]
    fn ctl_17_only_evaluated_types_are_replaced() {
        let old =
            [timed(ConditionType::SyncError, "s", "t0"), timed(ConditionType::ComparisonError, "old", "t0")];
        let merged = merge_conditions(
            &old,
            &[ConditionType::ComparisonError],
            vec![Condition::new(ConditionType::ComparisonError, "new")],
            "t1",
        );
        assert_eq!(
            merged,
            [timed(ConditionType::ComparisonError, "new", "t1"), timed(ConditionType::SyncError, "s", "t0")]
        );
    }

    #[test]
    fn ctl_18_an_unchanged_condition_keeps_its_time() {
        let old = [
            timed(ConditionType::SharedResourceWarning, "b", "t0"),
            timed(ConditionType::SharedResourceWarning, "a", "t0"),
        ];
        let found = vec![
            Condition::new(ConditionType::SharedResourceWarning, "a"),
            Condition::new(ConditionType::SharedResourceWarning, "c"),
        ];
        let merged = merge_conditions(&old, &[ConditionType::SharedResourceWarning], found, "t1");
        assert_eq!(
            merged,
            [
                timed(ConditionType::SharedResourceWarning, "a", "t0"),
                timed(ConditionType::SharedResourceWarning, "c", "t1")
            ]
        );
    }

    #[test]
    fn ctl_35_equal_statuses_make_no_patch() {
        let a = json!({"x": {"y": 1, "z": [1]}, "gone": true});
        assert_eq!(merge_patch(&a, &a), None);
        let b = json!({"x": {"y": 1, "z": [2]}});
        assert_eq!(merge_patch(&a, &b), Some(json!({"gone": null, "x": {"z": [2]}})));
    }

    #[test]
    fn b7_a_status_of_20000_resources_stays_below_its_bound() {
        let entry = |i: usize| {
            json!({"kind": "ConfigMap", "version": "v1", "name": format!("c-{i:05}"), "namespace": "bench",
                "status": if i == 7 { "OutOfSync" } else { "Synced" }})
        };
        let results: Vec<Value> = (0..20_000)
            .map(|i| {
                json!({"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "bench",
                "name": format!("c-{i:05}"), "status": "Synced", "hookPhase": "Running",
                "message": format!("configmap/c-{i:05} created")})
            })
            .collect();
        let resources: Vec<Value> = (0..20_000).map(entry).collect();
        let mut status: ApplicationStatus = serde_json::from_value(json!({"resources": resources,
            "operationState": {"phase": "Running", "startedAt": "", "operation": {},
                "syncResult": {"revision": "r", "resources": results}}}))
        .unwrap();
        assert!(bound(&mut status) > 20_000);
        assert!(serde_json::to_vec(&status).unwrap().len() <= STATUS_BYTES_MAX + 10_000);
        assert!(status.resources.iter().any(|r| r.status == "OutOfSync"));
    }
}
