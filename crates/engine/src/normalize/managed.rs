//! Ignoring what other field managers changed (ENG-70).
//!
//! A live object says who owns which of its fields. For listed managers, each field that such a manager owns and
//! that differs between live and target is taken out of both, or, before an apply, given to the target. Fields
//! of one side only are left alone. The walk follows the record, so it needs no schema: items of keyed lists are
//! found by their keys, everything below a leaf of the record is one value.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use tiphys_object::access;

use crate::diff::is_equal;

/// Nesting of the record that is followed.
const DEPTH_MAX: usize = tiphys_go::nesting::DEPTH_MAX;
/// Different sets of keys that a record of one list may have; a list has one. Items of further ones are compared.
const KEY_SETS_MAX: usize = 16;

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
        let below = owned_below(below);
        let ("f", Value::Object(target), Value::Object(live)) = (kind, &mut *target, &mut *live) else {
            continue;
        };
        let (Some(desired), Some(found)) = (target.get_mut(name), live.get_mut(name)) else { continue };
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
    if let (Value::Array(target), Value::Array(live)) = (target, live) {
        for (at_target, at_live, below) in items(record, target, live) {
            if let (Some(desired), Some(found)) = (target.get_mut(at_target), live.get_mut(at_live)) {
                walk(below, treatment, desired, found, depth);
            }
        }
    }
}

/// The values of an item's keys, and what is owned below it.
type OwnedItem<'a> = (Vec<Value>, &'a Map<String, Value>);

/// The items of both lists of which the record owns something: where they are, and what is owned below. Records and
/// lists are long at the same time, so each list is looked through once for each set of keys.
fn items<'a>(
    record: &'a Map<String, Value>,
    target: &[Value],
    live: &[Value],
) -> Vec<(usize, usize, &'a Map<String, Value>)> {
    let mut by_keys: BTreeMap<Vec<String>, Vec<OwnedItem<'a>>> = BTreeMap::new();
    for (step, below) in record {
        let Some(name) = step.strip_prefix("k:") else { continue };
        let Some(below) = owned_below(below) else { continue };
        let Ok(Value::Object(keys)) = serde_json::from_str(name) else { continue };
        let (names, values) = keys.into_iter().unzip();
        if by_keys.len() < KEY_SETS_MAX || by_keys.contains_key(&names) {
            by_keys.entry(names).or_default().push((values, below));
        }
    }
    let mut found = Vec::new();
    for (names, steps) in &by_keys {
        let (in_target, in_live) = (places(names, target), places(names, live));
        for (values, below) in steps {
            let values: Vec<&Value> = values.iter().collect();
            if let (Some(at_target), Some(at_live)) = (in_target.get(&values), in_live.get(&values)) {
                found.push((*at_target, *at_live, *below));
            }
        }
    }
    found
}

/// Where the first item with each combination of keys is.
fn places<'a>(names: &[String], items: &'a [Value]) -> HashMap<Vec<&'a Value>, usize> {
    let mut places = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        if let Some(values) = names.iter().map(|name| item.get(name)).collect::<Option<Vec<_>>>() {
            places.entry(values).or_insert(place);
        }
    }
    places
}

/// What a record owns below a field, when that is more than the field itself.
fn owned_below(below: &Value) -> Option<&Map<String, Value>> {
    below.as_object().filter(|below| below.keys().any(|key| key != "."))
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

    /// A record that owns something of each item of a long list: two searches through the list for each.
    #[test]
    fn sec_07_a_long_record_of_a_long_list_is_looked_up() {
        const MANY: usize = 100_000;
        let items = |image: &str| -> Vec<Value> {
            (0..MANY).map(|name| json!({"name": format!("c{name}"), "image": image})).collect()
        };
        let owned: Map<String, Value> =
            (0..MANY).map(|name| (format!("k:{{\"name\":\"c{name}\"}}"), json!({"f:image": {}}))).collect();
        let (mut target, mut live) = pair();
        target["spec"] = json!({"list": items("1")});
        live["spec"] = json!({"list": items("2")});
        live["metadata"]["managedFields"] =
            json!([{"manager": "scaler", "fieldsV1": {"f:spec": {"f:list": owned}}}]);
        rules().remove_managed(&mut target, &mut live);
        assert_eq!(target["spec"], live["spec"]);
        assert_eq!(target["spec"]["list"][MANY - 1], json!({"name": format!("c{}", MANY - 1)}));
    }

    /// A list has one set of keys. A record that invents one for each item does not make it search as often.
    #[test]
    fn sec_07_a_list_is_searched_for_few_sets_of_keys() {
        let owned: Map<String, Value> =
            (0..20_000).map(|name| (format!("k:{{\"x{name:05}\":1}}"), json!({"f:image": {}}))).collect();
        let (mut target, mut live) = pair();
        let items: Vec<Value> =
            (0..20_000).map(|name| json!({(format!("x{name:05}")): 1, "image": 1})).collect();
        target["spec"] = json!({"list": items});
        live["spec"] = json!({"list": items});
        live["spec"]["list"][0]["image"] = json!(2);
        live["spec"]["list"][19_999]["image"] = json!(2);
        live["metadata"]["managedFields"] =
            json!([{"manager": "scaler", "fieldsV1": {"f:spec": {"f:list": owned}}}]);
        rules().remove_managed(&mut target, &mut live);
        assert_eq!(target["spec"]["list"][0].get("image"), None);
        assert_eq!(target["spec"]["list"][19_999]["image"], json!(1), "the rest is compared");
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
