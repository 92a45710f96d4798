//! JSON patches (RFC 6902) as the API server and kustomize apply them.
//!
//! Follows evanphx/json-patch 4.13; golden family `json-patch`. It is more lenient than the standard: indexes
//! may be negative, `replace` of an absent object member adds it, `add` without a value adds null, and `test`
//! and `copy` take an absent object member for null.

use serde_json::Value;
use tiphys_go::nesting::{self, DEPTH_MAX};
use tiphys_go::steps::{Steps, TooManySteps};

/// Operations of one patch; API servers have the same limit.
pub const OPERATIONS_MAX: usize = 10_000;
/// Bytes, roughly, that all copies of one patch take: of few operations each may double the document.
const COPIED_MAX: u64 = 32 << 20;
/// Items that the operations of one patch shift in lists, and values they move.
const SHIFTED_MAX: u64 = 100_000_000;

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
    /// The patch has more operations than [`OPERATIONS_MAX`].
    #[error("the patch has more than {OPERATIONS_MAX} operations")]
    TooMany,
    /// The operations make more of the document than they say.
    #[error("{operation} operation does not apply: the patch copies or shifts too much at {path:?}")]
    TooMuch {
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
    let operations = patch.as_array().ok_or(JsonPatchError::NotAPatch)?;
    if operations.len() > OPERATIONS_MAX {
        return Err(JsonPatchError::TooMany);
    }
    let (mut copied, mut shifted) = (Steps::new(COPIED_MAX), Steps::new(SHIFTED_MAX));
    for (index, operation) in operations.iter().enumerate() {
        let members = operation.as_object().ok_or(JsonPatchError::NotAPatch)?;
        let text = |member: &'static str| {
            members.get(member).and_then(Value::as_str).ok_or(JsonPatchError::Member { index, member })
        };
        let name = text("op").unwrap_or("unknown");
        let value = || members.get("value").cloned().unwrap_or(Value::Null);
        let path = text("path")?;
        let nowhere = |path: &str| JsonPatchError::Path { operation: name.to_owned(), path: path.to_owned() };
        let too_much = |_exceeded: TooManySteps| JsonPatchError::TooMuch {
            operation: name.to_owned(),
            path: path.to_owned(),
        };
        // Step by step a patch nests as deep as it has operations.
        let fitting = |value: Value| {
            if path.matches('/').count() + nesting::levels(&value) <= DEPTH_MAX {
                Ok(value)
            } else {
                Err(JsonPatchError::TooDeep { operation: name.to_owned(), path: path.to_owned() })
            }
        };
        match name {
            "add" => {
                let value = fitting(value())?;
                let found = add(&mut document, path, value, &mut shifted).map_err(too_much)?;
                found.ok_or_else(|| nowhere(path))?;
            }
            "remove" => {
                let found = remove(&mut document, path, &mut shifted).map_err(too_much)?;
                found.ok_or_else(|| nowhere(path))?;
            }
            "replace" => replace(&mut document, path, fitting(value())?).ok_or_else(|| nowhere(path))?,
            "move" => {
                let from = text("from")?;
                let moved = remove(&mut document, from, &mut shifted).map_err(too_much)?;
                let moved = moved.ok_or_else(|| nowhere(from))?;
                shifted.spend(weight(&moved)).map_err(too_much)?;
                let found = add(&mut document, path, fitting(moved)?, &mut shifted).map_err(too_much)?;
                found.ok_or_else(|| nowhere(path))?;
            }
            "copy" => {
                let from = text("from")?;
                let original = find(&document, from).ok_or_else(|| nowhere(from))?;
                copied.spend(weight(original)).map_err(too_much)?;
                let copy = fitting(original.clone())?;
                let found = add(&mut document, path, copy, &mut shifted).map_err(too_much)?;
                found.ok_or_else(|| nowhere(path))?;
            }
            "test" => {
                let found = if path.is_empty() { Some(&document) } else { find(&document, path) };
                if found.ok_or_else(|| nowhere(path))? != members.get("value").unwrap_or(&Value::Null) {
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

/// The value at a path; null for an absent member of the last object.
fn find<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let mut segments = path.split_once('/')?.1.split('/').map(unescape).peekable();
    let mut found = document;
    while let Some(key) = segments.next() {
        let is_last = segments.peek().is_none();
        found = match found {
            Value::Object(members) => match members.get(&key) {
                None if is_last => &Value::Null,
                member => member?,
            },
            Value::Array(items) => items.get(index(&key, items.len())?)?,
            _ => return None,
        };
    }
    Some(found)
}

/// What a value takes, roughly in bytes.
fn weight(value: &Value) -> usize {
    const NODE: usize = 32;
    match value {
        Value::String(text) => NODE + text.len(),
        Value::Array(items) => NODE + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            NODE + members.iter().map(|(name, member)| NODE + name.len() + weight(member)).sum::<usize>()
        }
        _ => NODE,
    }
}

/// Adds a value; `None` when the path leads nowhere.
fn add(
    document: &mut Value,
    path: &str,
    value: Value,
    shifted: &mut Steps,
) -> Result<Option<()>, TooManySteps> {
    let Some((parent, key)) = parent(document, path) else { return Ok(None) };
    match parent {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(items) => {
            let at = if key == "-" { Some(items.len()) } else { index(&key, items.len() + 1) };
            let Some(at) = at.filter(|at| *at <= items.len()) else { return Ok(None) };
            shifted.spend(items.len() - at)?;
            items.insert(at, value);
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

/// Takes a value out; `None` when the path leads nowhere.
fn remove(document: &mut Value, path: &str, shifted: &mut Steps) -> Result<Option<Value>, TooManySteps> {
    let Some((parent, key)) = parent(document, path) else { return Ok(None) };
    match parent {
        Value::Object(members) => Ok(members.remove(&key)),
        Value::Array(items) => {
            let at = index(&key, items.len()).filter(|at| *at < items.len());
            let Some(at) = at else { return Ok(None) };
            shifted.spend(items.len() - at)?;
            Ok(Some(items.remove(at)))
        }
        _ => Ok(None),
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

    /// SEC-07: sixty operations that each put a copy of an object into itself are 2⁶⁰ members.
    #[test]
    fn sec_07_copies_do_not_double_without_end() {
        let copies: Vec<Value> =
            (0..60).map(|step| json!({"op": "copy", "from": "/a", "path": format!("/a/k{step}")})).collect();
        let refused = apply(json!({"a": {"text": "x"}}), &Value::Array(copies.clone()));
        assert!(matches!(refused, Err(JsonPatchError::TooMuch { .. })), "{:?}", refused.map(|_| ()));
        assert!(apply(json!({"a": {"text": "x"}}), &json!(copies[..10])).is_ok());
    }

    #[test]
    fn sec_07_operations_do_not_shift_a_long_list_for_ever() {
        let document = || json!({"l": vec![0; 300_000]});
        let first = |count: usize| vec![json!({"op": "add", "path": "/l/0", "value": 1}); count];
        let refused = apply(document(), &json!(first(10_000)));
        assert!(matches!(refused, Err(JsonPatchError::TooMuch { .. })));
        assert_eq!(apply(document(), &json!(first(10_001))).unwrap_err(), JsonPatchError::TooMany);
        assert_eq!(apply(document(), &json!(first(300))).unwrap()["l"].as_array().unwrap().len(), 300_300);
        let whole = document();
        let tests = vec![json!({"op": "test", "path": "/l/7", "value": 0}); 10_000];
        assert_eq!(apply(whole.clone(), &json!(tests)).unwrap(), whole);
    }

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
