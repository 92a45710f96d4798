//! What the status becomes: conditions, and the patch that writes it.

use serde_json::{Map, Value};
use tiphys_api::application::{ApplicationStatus, Condition};
use tiphys_api::codes::ConditionType;
use tiphys_api::printable;

use crate::fit::{CONDITIONS_MAX, TEXT_BYTES_MAX};

/// Replaces the conditions of the evaluated types, keeps the others and the transition times of unchanged
/// ones, and sorts by type and message (CTL-17, CTL-18). Long texts are shortened first, so that they are recognised.
pub fn merge_conditions(
    old: &[Condition],
    evaluated: &[ConditionType],
    found: Vec<Condition>,
    now: &str,
) -> Vec<Condition> {
    let kept = old.iter().filter(|c| !evaluated.iter().any(|kind| c.r#type == *kind)).cloned();
    let fresh = bounded(found).into_iter().map(|mut condition| {
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

/// At most [`CONDITIONS_MAX`] conditions of each type, with texts that end at [`TEXT_BYTES_MAX`]; what is missing is
/// counted in one more.
fn bounded(mut found: Vec<Condition>) -> Vec<Condition> {
    for condition in &mut found {
        printable::cut(&mut condition.message, TEXT_BYTES_MAX);
    }
    found.sort_by(|a, b| (&a.r#type, &a.message).cmp(&(&b.r#type, &b.message)));
    let mut all = Vec::with_capacity(found.len());
    for same in found.chunk_by(|a, b| a.r#type == b.r#type) {
        all.extend(same.iter().take(CONDITIONS_MAX).cloned());
        let more = same.len().saturating_sub(CONDITIONS_MAX);
        if let Some(first) = same.first().filter(|_| more > 0) {
            let message = format!("{more} more conditions of this type are not listed");
            all.push(Condition { r#type: first.r#type.clone(), message, ..Condition::default() });
        }
    }
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

    /// CTL-36, INV-5: conditions are bounded in number and length before they are compared with those that are stored.
    #[test]
    fn ctl_36_conditions_are_bounded_and_recognised() {
        let kind = ConditionType::SharedResourceWarning;
        let found = || {
            let long = Condition::new(kind, "x".repeat(100_000));
            (0..CONDITIONS_MAX + 5).map(|at| Condition::new(kind, format!("{at:04}"))).chain([long]).collect()
        };
        let merged = merge_conditions(&[], &[kind], found(), "t0");
        assert_eq!(merged.len(), CONDITIONS_MAX + 1);
        assert!(merged.iter().any(|c| c.message == "6 more conditions of this type are not listed"));
        assert_eq!(merge_conditions(&merged, &[kind], found(), "t1"), merged);
        let one = |time| merge_conditions(&[], &[kind], vec![Condition::new(kind, "é".repeat(9_000))], time);
        assert!(one("t0")[0].message.len() <= TEXT_BYTES_MAX);
        let again = vec![Condition::new(kind, "é".repeat(9_000))];
        assert_eq!(merge_conditions(&one("t0"), &[kind], again, "t1"), one("t0"));
    }

    #[test]
    fn ctl_35_equal_statuses_make_no_patch() {
        let a = json!({"x": {"y": 1, "z": [1]}, "gone": true});
        assert_eq!(merge_patch(&a, &a), None);
        let b = json!({"x": {"y": 1, "z": [2]}});
        assert_eq!(merge_patch(&a, &b), Some(json!({"gone": null, "x": {"z": [2]}})));
    }
}
