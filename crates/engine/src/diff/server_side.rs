//! Comparing the live object with what the API server said an apply would make of it (ENG-88, ENG-89).
//!
//! The prediction is the answer to a dry run. What admission webhooks put into it is no wish of ours: of what our
//! manager does not own, the live object is right. The record of owners says where lists have items with an identity,
//! so that no schema is needed.

use serde_json::{Map, Value};
use tiphys_api::names::{FIELD_MANAGER, LAST_APPLIED};
use tiphys_object::access;

use super::equal::is_equal;
use super::prepare::prepare;
use super::{DiffOptions, DiffResult};

/// Nesting of the record that is followed; below it the prediction counts.
const DEPTH_MAX: usize = tiphys_go::nesting::DEPTH_MAX;

/// The prediction does not say what our manager owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer to the dry run does not say which fields {FIELD_MANAGER} owns")]
pub struct NoRecord;

/// Compares a live object with the answer to a dry run of a server-side apply; `keeps_webhooks` is the compare option
/// `IncludeMutationWebhook=true`.
///
/// # Errors
/// When the answer has no record of our manager (ENG-89).
pub fn diff_predicted(
    predicted: Value,
    live: Value,
    keeps_webhooks: bool,
    options: &DiffOptions<'_>,
) -> Result<DiffResult, NoRecord> {
    let mut predicted = predicted;
    if !keeps_webhooks {
        let record = record(&predicted).ok_or(NoRecord)?;
        // The record itself is one of the fields that nobody owns.
        revert(&record, &mut predicted, &live, DEPTH_MAX);
    }
    let documents = [live, predicted].map(|value| served(prepare(value, options)));
    let [normalized_live, predicted_live] = documents;
    let modified = !is_equal(&normalized_live, &predicted_live);
    Ok(DiffResult { modified, normalized_live, predicted_live })
}

/// A document without what every write changes, and what client-side applies remember.
fn served(mut value: Value) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    access::remove_annotation(&mut value, LAST_APPLIED);
    value
}

/// What all entries of our manager own, in one record.
fn record(predicted: &Value) -> Option<Map<String, Value>> {
    let entries = access::at(predicted, &["metadata", "managedFields"]).and_then(Value::as_array)?;
    let ours = entries.iter().filter(|entry| access::text(entry, "manager") == FIELD_MANAGER);
    ours.filter_map(|entry| entry.get("fieldsV1").and_then(Value::as_object)).fold(None, |all, fields| {
        let mut all = all.unwrap_or_default();
        unite(&mut all, fields, DEPTH_MAX);
        Some(all)
    })
}

fn unite(all: &mut Map<String, Value>, fields: &Map<String, Value>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for (step, below) in fields {
        match (all.get_mut(step).and_then(Value::as_object_mut), below.as_object()) {
            (Some(known), Some(below)) => unite(known, below, depth),
            _ => {
                all.insert(step.clone(), below.clone());
            }
        }
    }
}

/// What is owned below a step of the record; `None` where the value itself is.
fn below(owned: &Value) -> Option<&Map<String, Value>> {
    let members = owned.as_object()?;
    members.keys().any(|step| step != ".").then_some(members)
}

/// Gives the prediction the live value of what is not owned. What the apply took away stays away.
fn revert(record: &Map<String, Value>, predicted: &mut Value, live: &Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match (predicted, live) {
        (Value::Object(predicted), Value::Object(live)) => {
            predicted.retain(|name, value| {
                let found = live.get(name);
                match record.get(&format!("f:{name}")) {
                    Some(owned) => {
                        if let Some(below) = below(owned) {
                            // Beside what is owned, nothing is wanted that is not there.
                            let nothing = empty_like(value);
                            revert(below, value, found.unwrap_or(&nothing), depth);
                        }
                        true
                    }
                    None => found.map(|found| value.clone_from(found)).is_some(),
                }
            });
        }
        (Value::Array(predicted), Value::Array(live)) => revert_items(record, predicted, live, depth),
        _ => {}
    }
}

fn empty_like(value: &Value) -> Value {
    if value.is_array() { Value::Array(Vec::new()) } else { Value::Object(Map::new()) }
}

fn revert_items(record: &Map<String, Value>, predicted: &mut Vec<Value>, live: &[Value], depth: usize) {
    let steps: Vec<(Step, &Value)> =
        record.iter().filter_map(|(step, owned)| Some((Step::read(step)?, owned))).collect();
    // Identities of items that nobody of ours owns are those of the items that are owned.
    let names: Vec<&str> = steps.iter().find_map(|(step, _)| step.names()).unwrap_or_default();
    predicted.retain_mut(|item| {
        let found = live.iter().find(|other| is_same_item(item, other, &names));
        match steps.iter().find(|(step, _)| step.is(item)) {
            Some((step, owned)) => {
                if let Some(below) = below(owned) {
                    // The keys of an item are always kept (ENG-89).
                    let keys = step.keys();
                    revert(below, item, found.unwrap_or(&keys), depth);
                    restore(item, &keys);
                }
                true
            }
            None => found.map(|found| item.clone_from(found)).is_some(),
        }
    });
}

fn restore(item: &mut Value, keys: &Value) {
    if let (Some(item), Some(keys)) = (item.as_object_mut(), keys.as_object()) {
        for (name, value) in keys {
            item.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn is_same_item(a: &Value, b: &Value, names: &[&str]) -> bool {
    if names.is_empty() { is_equal(a, b) } else { names.iter().all(|name| a.get(*name) == b.get(*name)) }
}

/// How the record names an item of a list.
enum Step {
    /// By some of its members.
    Keys(Map<String, Value>),
    /// By its value.
    Value(Value),
}

impl Step {
    fn read(text: &str) -> Option<Self> {
        let (kind, value) = text.split_once(':')?;
        match (kind, serde_json::from_str(value).ok()?) {
            ("k", Value::Object(keys)) => Some(Self::Keys(keys)),
            ("v", value) => Some(Self::Value(value)),
            _ => None,
        }
    }

    fn is(&self, item: &Value) -> bool {
        match self {
            Self::Keys(keys) => keys.iter().all(|(name, value)| item.get(name) == Some(value)),
            Self::Value(value) => is_equal(item, value),
        }
    }

    fn names(&self) -> Option<Vec<&str>> {
        match self {
            Self::Keys(keys) => Some(keys.keys().map(String::as_str).collect()),
            Self::Value(_) => None,
        }
    }

    fn keys(&self) -> Value {
        match self {
            Self::Keys(keys) => Value::Object(keys.clone()),
            Self::Value(_) => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::DiffSettings;
    use crate::normalize::IgnoreRules;

    fn compared(predicted: Value, live: Value, keeps_webhooks: bool) -> Result<DiffResult, NoRecord> {
        let ignore = IgnoreRules::default();
        let options = DiffOptions { ignore: &ignore, settings: DiffSettings::default() };
        diff_predicted(predicted, live, keeps_webhooks, &options)
    }

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn object(metadata: Value, spec: Value) -> Value {
        json!({"apiVersion": "x/v1", "kind": "X", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn eng_88_versions_records_and_last_applied_are_no_difference() {
        let live = object(
            json!({"name": "a", "resourceVersion": "1", "annotations": {LAST_APPLIED: "{}", "a": "b"}}),
            json!({"n": 1}),
        );
        let predicted = object(
            json!({"name": "a", "resourceVersion": "1", "annotations": {"a": "b"}, "managedFields": []}),
            json!({"n": 1}),
        );
        let result = compared(predicted, live, true).unwrap();
        assert!(!result.modified, "{result:?}");
        assert_eq!(result.predicted_live["metadata"], json!({"name": "a", "annotations": {"a": "b"}}));
    }

    #[test]
    fn eng_89_what_webhooks_change_is_no_difference_and_what_we_change_is_one() {
        let owned = json!({"f:spec": {"f:n": {}, "f:list": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}}},
            "f:whole": {}}});
        let metadata = |entries: Value| json!({"name": "a", "managedFields": entries});
        let entries = json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": owned},
            {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {"f:x": {}}}}]);
        let live = json!({"n": 1, "x": 1, "gone": 1, "list": [{"name": "a", "image": "1", "seen": 1}, {"name": "c", "image": "1"}]});
        let predicted = json!({"n": 2, "x": 2, "hooked": 1, "whole": {"a": 1},
            "list": [{"name": "a", "image": "2", "seen": 2, "hooked": 1}, {"name": "b"}, {"name": "c", "image": "9"}]});
        let expected = json!({"n": 2, "x": 1, "whole": {"a": 1},
            "list": [{"name": "a", "image": "2", "seen": 1}, {"name": "c", "image": "1"}]});
        let (live, predicted) = (object(json!({"name": "a"}), live), object(metadata(entries), predicted));
        let result = compared(predicted.clone(), live.clone(), false).unwrap();
        assert_eq!((result.modified, &result.predicted_live["spec"]), (true, &expected));
        assert_eq!(compared(predicted, live, true).unwrap().predicted_live["spec"]["hooked"], 1);
    }

    #[test]
    fn eng_89_an_answer_without_a_record_of_ours_cannot_be_compared() {
        let foreign = json!([{"manager": "other", "fieldsV1": {"f:spec": {}}}]);
        for metadata in [json!({"name": "a"}), json!({"name": "a", "managedFields": foreign})] {
            assert_eq!(
                compared(object(metadata, json!({})), object(json!({}), json!({})), false),
                Err(NoRecord)
            );
        }
    }

    #[test]
    fn eng_89_a_list_of_values_and_a_record_that_is_odd_are_followed() {
        let owned = json!({"f:spec": {"f:set": {"v:\"a\"": {}, "odd": {}, "k:[": {}}}});
        let entries = json!([{"manager": FIELD_MANAGER, "fieldsV1": owned}]);
        let predicted =
            object(json!({"name": "a", "managedFields": entries}), json!({"set": ["a", "hooked", "b"]}));
        let live = object(json!({"name": "a"}), json!({"set": ["b"]}));
        let result = compared(predicted, live, false).unwrap();
        assert_eq!(result.predicted_live["spec"], json!({"set": ["a", "b"]}));
    }
}
