//! Ignoring what other field managers changed (ENG-70).
//!
//! A live object says who owns which of its fields. For listed managers, each field that such a manager owns and
//! that differs between live and target is taken out of both, or, before an apply, given to the target. Fields
//! of one side only are left alone. The walk follows the record, so it needs no schema: items of keyed lists are
//! found by their keys, everything below a leaf of the record is one value.

use serde_json::{Map, Value};
use tiphys_object::access;

use crate::diff::is_equal;

/// Nesting of the record that is followed.
const DEPTH_MAX: usize = tiphys_go::nesting::DEPTH_MAX;

/// What happens to a field that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It goes from both sides.
    Remove,
    /// The target takes the live value.
    Restore,
}

/// Treats every differing field that one of the managers owns, whatever the operation or subresource.
pub(super) fn treat(managers: &[&str], treatment: Treatment, target: &mut Value, live: &mut Value) {
    let entries = access::at(live, &["metadata", "managedFields"]).and_then(Value::as_array);
    let records: Vec<Value> = entries
        .into_iter()
        .flatten()
        .filter(|entry| managers.contains(&access::text(entry, "manager")))
        .filter_map(|entry| entry.get("fieldsV1").cloned())
        .collect();
    for record in records.iter().filter_map(Value::as_object) {
        walk(record, treatment, target, live, DEPTH_MAX);
    }
}

fn walk(
    record: &Map<String, Value>,
    treatment: Treatment,
    target: &mut Value,
    live: &mut Value,
    depth: usize,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for (step, below) in record {
        let Some((kind, name)) = step.split_once(':') else { continue };
        let below = below.as_object().filter(|below| below.keys().any(|key| key != "."));
        match (kind, &mut *target, &mut *live) {
            ("f", Value::Object(target), Value::Object(live)) => {
                let (Some(desired), Some(found)) = (target.get_mut(name), live.get_mut(name)) else {
                    continue;
                };
                if let Some(below) = below {
                    walk(below, treatment, desired, found, depth);
                } else if !is_equal(desired, found) {
                    match treatment {
                        Treatment::Restore => *desired = found.clone(),
                        Treatment::Remove => {
                            target.remove(name);
                            live.remove(name);
                        }
                    }
                }
            }
            ("k", Value::Array(target), Value::Array(live)) => {
                let Ok(Value::Object(keys)) = serde_json::from_str(name) else { continue };
                let has_keys =
                    |item: &&mut Value| keys.iter().all(|(key, value)| item.get(key) == Some(value));
                let (desired, found) = (target.iter_mut().find(has_keys), live.iter_mut().find(has_keys));
                if let (Some(desired), Some(found), Some(below)) = (desired, found, below) {
                    walk(below, treatment, desired, found, depth);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::IgnoreRules;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn rules() -> IgnoreRules {
        let rule = json!({"group": "apps", "kind": "Deployment", "managedFieldsManagers": ["scaler"]});
        IgnoreRules::compile(&[serde_json::from_value(rule).unwrap()], &BTreeMap::new()).unwrap()
    }

    fn pair() -> (Value, Value) {
        let object = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
        let target = object(
            json!({"replicas": 3, "paused": true, "list": [{"name": "a", "image": "1", "tty": true}]}),
        );
        let mut live = object(
            json!({"replicas": 7, "paused": false, "extra": 1, "list": [{"name": "x"}, {"name": "a", "image": "2", "tty": false}]}),
        );
        live["metadata"]["managedFields"] = json!([
            {"manager": "scaler", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {".": {}, "f:replicas": {},
                "f:extra": {}, "f:list": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}}}},
            {"manager": "someone", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}}]);
        (target, live)
    }

    #[test]
    fn eng_70_fields_of_listed_managers_go_from_both_sides() {
        let (mut target, mut live) = pair();
        rules().remove_managed(&mut target, &mut live);
        assert_eq!(target["spec"], json!({"paused": true, "list": [{"name": "a", "tty": true}]}));
        assert_eq!(
            live["spec"],
            json!({"paused": false, "extra": 1, "list": [{"name": "x"}, {"name": "a", "tty": false}]})
        );
    }

    #[test]
    fn eng_181_fields_of_listed_managers_carry_live_values() {
        let (mut target, live) = pair();
        rules().restore_ignored(&mut target, &live);
        assert_eq!(
            target["spec"],
            json!({"replicas": 7, "paused": true, "list": [{"name": "a", "image": "2", "tty": true}]})
        );
    }

    #[test]
    fn eng_71_core_kinds_have_system_managers_too() {
        let settings = BTreeMap::from([(
            "resource.customizations.ignoreDifferences.ConfigMap".to_owned(),
            r#"{"managedFieldsManagers": ["m"]}"#.to_owned(),
        )]);
        let rules = IgnoreRules::compile(&[], &settings).unwrap();
        let mut target = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}});
        let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"},
            "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:data": {"f:k": {}}}}]}});
        rules.remove_managed(&mut target, &mut live);
        assert_eq!((&target["data"], &live["data"]), (&json!({}), &json!({})));
    }

    #[test]
    fn eng_70_a_broken_record_is_skipped() {
        let (mut target, mut live) = pair();
        live["metadata"]["managedFields"] = json!([{"manager": "scaler", "fieldsV1": {"f:spec": 1, "nonsense": {}, "f:x:y": {},
            "k:{": {"f:a": {}}}}, 7]);
        let before = target.clone();
        live["spec"] = target["spec"].clone();
        rules().remove_managed(&mut target, &mut live);
        assert_eq!(target, before);
    }
}
