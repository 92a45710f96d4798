//! JSON patches (RFC 6902) as the API server and kustomize apply them.
//!
//! Follows evanphx/json-patch 4.13; golden family `json-patch`. It is more lenient than the standard: indexes
//! may be negative, `replace` of an absent object member adds it, `add` without a value adds null, and `test`
//! and `copy` take an absent object member for null.

use serde_json::Value;
use tiphys_go::nesting::{self, DEPTH_MAX};

/// Why a patch was not applied. The document is lost then; nobody wants half of a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonPatchError {
    /// The patch is no list of objects.
    #[error("a JSON patch is a list of operations")]
    NotAPatch,
    /// An operation has no such member, or one of another type.
    #[error("operation {index} has no text {member:?}")]
    Member {
        /// Position of the operation.
        index: usize,
        /// Member that is missing.
        member: &'static str,
    },
    /// An operation is none of the six.
    #[error("unexpected operation {0:?}")]
    Operation(String),
    /// A path leads nowhere.
    #[error("{operation} operation does not apply: no such path {path:?}")]
    Path {
        /// Operation as written.
        operation: String,
        /// Path as written.
        path: String,
    },
    /// The document would be nested deeper than anything is read.
    #[error("{operation} operation does not apply: {path:?} would be nested too deep")]
    TooDeep {
        /// Operation as written.
        operation: String,
        /// Path as written.
        path: String,
    },
    /// A `test` found something else.
    #[error("testing value at {0:?} failed")]
    Test(String),
}

/// Applies a JSON patch.
///
/// ```
/// # use serde_json::json;
/// # use tiphys_object::json_patch::apply;
/// let patch = json!([{"op": "add", "path": "/a/-", "value": 2}]);
/// assert_eq!(apply(json!({"a": [1]}), &patch).unwrap(), json!({"a": [1, 2]}));
/// ```
///
/// # Errors
/// When the patch is malformed or one operation does not apply.
pub fn apply(mut document: Value, patch: &Value) -> Result<Value, JsonPatchError> {
    for (index, operation) in patch.as_array().ok_or(JsonPatchError::NotAPatch)?.iter().enumerate() {
        let members = operation.as_object().ok_or(JsonPatchError::NotAPatch)?;
        let text = |member: &'static str| {
            members.get(member).and_then(Value::as_str).ok_or(JsonPatchError::Member { index, member })
        };
        let name = text("op").unwrap_or("unknown");
        let value = || members.get("value").cloned().unwrap_or(Value::Null);
        let path = text("path")?;
        let nowhere = |path: &str| JsonPatchError::Path { operation: name.to_owned(), path: path.to_owned() };
        // Step by step a patch nests as deep as it has operations.
        let fitting = |value: Value| {
            if path.matches('/').count() + nesting::levels(&value) <= DEPTH_MAX {
                Ok(value)
            } else {
                Err(JsonPatchError::TooDeep { operation: name.to_owned(), path: path.to_owned() })
            }
        };
        match name {
            "add" => add(&mut document, path, fitting(value())?).ok_or_else(|| nowhere(path))?,
            "remove" => drop(remove(&mut document, path).ok_or_else(|| nowhere(path))?),
            "replace" => replace(&mut document, path, fitting(value())?).ok_or_else(|| nowhere(path))?,
            "move" => {
                let from = text("from")?;
                let moved = remove(&mut document, from).ok_or_else(|| nowhere(from))?;
                add(&mut document, path, fitting(moved)?).ok_or_else(|| nowhere(path))?;
            }
            "copy" => {
                let from = text("from")?;
                let copied = find(&mut document, from).ok_or_else(|| nowhere(from))?;
                add(&mut document, path, fitting(copied)?).ok_or_else(|| nowhere(path))?;
            }
            "test" => {
                let found = if path.is_empty() { Some(document.clone()) } else { find(&mut document, path) };
                if found.ok_or_else(|| nowhere(path))? != value() {
                    return Err(JsonPatchError::Test(path.to_owned()));
                }
            }
            other => return Err(JsonPatchError::Operation(other.to_owned())),
        }
    }
    Ok(document)
}

/// The container that holds the last segment of a path, and that segment unescaped. What stands before the
/// first slash does not count, as in the original.
fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut segments = path.split_once('/')?.1.split('/').map(unescape);
    let mut key = segments.next()?;
    let mut container = document;
    for next in segments {
        container = child(container, &key)?;
        key = next;
    }
    (container.is_object() || container.is_array()).then_some((container, key))
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

fn child<'a>(container: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match container {
        Value::Object(members) => members.get_mut(key),
        Value::Array(items) => {
            let at = index(key, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

/// Position that a path segment names in a list of this length; negative ones count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let at: isize = key.parse().ok()?;
    if at >= 0 { usize::try_from(at).ok() } else { length.checked_sub(at.unsigned_abs()) }
}

/// The value at a path; null for an absent object member.
fn find(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(members) => Some(members.get(&key).cloned().unwrap_or(Value::Null)),
        container => child(container, &key).cloned(),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(items) => {
            let at = if key == "-" { items.len() } else { index(&key, items.len() + 1)? };
            if at > items.len() {
                return None;
            }
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(members) => members.remove(&key),
        Value::Array(items) => {
            let at = index(&key, items.len()).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() && (value.is_object() || value.is_array()) {
        *document = value;
        return Some(());
    }
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(members) => {
            members.insert(key, value);
        }
        container => *child(container, &key)? = value,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn eval_766_a_failing_operation_fails_the_patch() {
        let document = json!({"a": [1, 2]});
        let patch = |operation| apply(document.clone(), &json!([operation]));
        assert_eq!(patch(json!({"op": "remove", "path": "/a/-1"})), Ok(json!({"a": [1]})));
        assert_eq!(
            patch(json!({"op": "test", "path": "/a/0", "value": 2})),
            Err(JsonPatchError::Test("/a/0".into()))
        );
        assert!(patch(json!({"op": "add", "path": "/a/5", "value": 2})).is_err());
        assert!(patch(json!({"op": "add", "value": 2})).is_err());
    }
}
