//! JSON merge patches (RFC 7386) and their three-way form for types without patch metadata.
//!
//! Follows evanphx/json-patch; golden family `merge-patch`. One deviation from the standard comes from there:
//! null members of objects inside a list are dropped when the list does not replace an object.

use serde_json::{Map, Value};

/// The documents of a patch are neither objects nor null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a merge patch is made from JSON objects")]
pub struct NotObjects;

/// Applies a merge patch. Total: a patch that is no object replaces the document.
///
/// ```
/// # use serde_json::json;
/// # use tiphys_object::merge_patch::apply;
/// assert_eq!(apply(json!({"a": 1, "b": 2}), &json!({"a": null, "c": 3})), json!({"b": 2, "c": 3}));
/// ```
pub fn apply(document: Value, patch: &Value) -> Value {
    if patch.is_array() { without_nulls(patch) } else { merge(document, patch) }
}

/// A document or patch that is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NullDocument {
    /// The document.
    #[error("Invalid JSON Document")]
    Document,
    /// The patch.
    #[error("Invalid JSON Patch")]
    Patch,
}

/// Applies a merge patch to a document that somebody handed in, as the original does: null is neither.
///
/// # Errors
/// When one of them is null.
pub fn apply_to(document: Value, patch: &Value) -> Result<Value, NullDocument> {
    if document.is_null() {
        return Err(NullDocument::Document);
    }
    if patch.is_null() {
        return Err(NullDocument::Patch);
    }
    Ok(apply(document, patch))
}

fn merge(document: Value, patch: &Value) -> Value {
    match (document, patch) {
        (Value::Object(mut members), Value::Object(changes)) => {
            for (name, change) in changes {
                if change.is_null() {
                    members.remove(name);
                } else {
                    let before = members.remove(name).unwrap_or(Value::Null);
                    members.insert(name.clone(), merge(before, change));
                }
            }
            Value::Object(members)
        }
        (Value::Object(_), other) => other.clone(),
        (_, other) => without_nulls(other),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(name, member)| (name.clone(), without_nulls(member))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// The merge patch that turns `original` into `modified`. Null stands for an empty object.
///
/// Of two lists of the same length the patches of their members are a list.
///
/// # Errors
/// When one document is neither an object nor null, and they are not two such lists.
pub fn create(original: &Value, modified: &Value) -> Result<Value, NotObjects> {
    if let (Value::Array(original), Value::Array(modified)) = (original, modified) {
        if original.len() != modified.len() {
            return Err(NotObjects);
        }
        let patches =
            original.iter().zip(modified).map(|(original, modified)| create_one(original, modified));
        return Ok(Value::Array(patches.collect::<Result<_, _>>()?));
    }
    create_one(original, modified)
}

fn create_one(original: &Value, modified: &Value) -> Result<Value, NotObjects> {
    let empty = Map::new();
    let original = members_of(original)?.unwrap_or(&empty);
    let modified = members_of(modified)?.unwrap_or(&empty);
    Ok(Value::Object(difference(original, modified)))
}

/// The patch for `current`: what `modified` has and `current` has not or has otherwise, and null for what
/// `original` has and `modified` has not (ENG-79). A null in `modified` counts as absent.
///
/// Documents that are no objects count as empty ones.
pub fn three_way(original: &Value, modified: &Value, current: &Value) -> Value {
    let empty = Map::new();
    let [original, modified, current] =
        [original, modified, current].map(|document| document.as_object().unwrap_or(&empty));
    let additions = filter_nulls(difference(current, modified), Nulls::Drop);
    let deletions = filter_nulls(difference(original, modified), Nulls::KeepOnly);
    apply(Value::Object(deletions), &Value::Object(additions))
}

fn members_of(document: &Value) -> Result<Option<&Map<String, Value>>, NotObjects> {
    match document {
        Value::Object(members) => Ok(Some(members)),
        Value::Null => Ok(None),
        _ => Err(NotObjects),
    }
}

fn difference(original: &Map<String, Value>, modified: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, after) in modified {
        match (original.get(name), after) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let inner = difference(before, after);
                if !inner.is_empty() {
                    patch.insert(name.clone(), Value::Object(inner));
                }
            }
            (Some(before), after) if before == after => {}
            (_, after) => {
                patch.insert(name.clone(), after.clone());
            }
        }
    }
    let deleted = original.keys().filter(|name| !modified.contains_key(*name));
    patch.extend(deleted.map(|name| (name.clone(), Value::Null)));
    patch
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Drop,
    KeepOnly,
}

/// The part of a patch that adds and changes, or the part that deletes. An empty object in a patch is a value.
fn filter_nulls(patch: Map<String, Value>, nulls: Nulls) -> Map<String, Value> {
    let kept = patch.into_iter().filter_map(|(name, value)| match value {
        Value::Null => (nulls == Nulls::KeepOnly).then_some((name, Value::Null)),
        Value::Object(members) if !members.is_empty() => {
            let inner = filter_nulls(members, nulls);
            (!inner.is_empty()).then_some((name, Value::Object(inner)))
        }
        value => (nulls == Nulls::Drop).then_some((name, value)),
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn eval_767_null_is_no_document() {
        assert_eq!(apply_to(json!(null), &json!({"a": 1})), Err(NullDocument::Document));
        assert_eq!(apply_to(json!({"a": 1}), &json!(null)), Err(NullDocument::Patch));
        assert_eq!(apply_to(json!({"a": 1}), &json!({"a": null})), Ok(json!({})));
    }

    #[test]
    fn eng_79_three_way_adds_changes_and_deletes() {
        let original = json!({"spec": {"a": 1, "gone": true, "list": [1]}});
        let modified = json!({"spec": {"a": 2, "list": [1, 2], "new": {}}});
        let current = json!({"spec": {"a": 1, "gone": true, "list": [1], "default": "x"}, "status": {}});
        let patch = three_way(&original, &modified, &current);
        assert_eq!(patch, json!({"spec": {"a": 2, "gone": null, "list": [1, 2], "new": {}}}));
        let wanted = json!({"spec": {"a": 2, "list": [1, 2], "new": {}, "default": "x"}, "status": {}});
        assert_eq!(apply(current, &patch), wanted);
    }

    #[test]
    fn eng_79_nothing_to_do_is_an_empty_patch() {
        let modified = json!({"a": {"b": [1]}, "n": null});
        let current = json!({"a": {"b": [1], "c": 2}, "n": 3});
        assert_eq!(three_way(&modified, &modified, &current), json!({}));
    }
}
