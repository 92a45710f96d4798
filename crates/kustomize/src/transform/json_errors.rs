//! Why an operation of a JSON patch does not apply, in the words of the library that kustomize uses.

use serde_json::Value;
use tiphys_object::json_patch;

/// Longer patches are not carried out again to find the operation.
const OPERATIONS_MAX: usize = 200;
const MISSING: &str = "missing value";
const INVALID_INDEX: &str = "invalid index referenced";

/// The text about the first operation that fails; `None` when it is not found.
pub(super) fn explain(mut document: Value, operations: &[Value]) -> Option<String> {
    if operations.len() > OPERATIONS_MAX {
        return None;
    }
    for operation in operations {
        match json_patch::apply(document.clone(), &Value::Array(vec![operation.clone()])) {
            Ok(patched) => document = patched,
            Err(_) => return reason(document, operation),
        }
    }
    None
}

fn reason(mut document: Value, operation: &Value) -> Option<String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let name = text("op").unwrap_or("unknown");
    let Some(path) = text("path") else {
        return Some(match name {
            "add" | "remove" | "copy" => format!("{name} operation failed to decode path: {MISSING}"),
            _ => format!("{name} operation failed to decode path: operation missing path field: {MISSING}"),
        });
    };
    match name {
        "add" => match parent(&document, path) {
            None => Some(format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")),
            Some((container, key)) => {
                Some(format!("error in add for path: '{path}': {}", cannot_add(container, &key)?))
            }
        },
        "remove" => match parent(&document, path) {
            None => {
                Some(format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"))
            }
            Some((container, key)) => {
                Some(format!("error in remove for path: '{path}': {}", cannot_remove(container, &key)?))
            }
        },
        "replace" => Some(match parent(&document, path) {
            None => format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"),
            Some(_) => format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"),
        }),
        "test" => match parent(&document, path) {
            None if !path.is_empty() => {
                Some(format!("test operation does not apply: is missing path: {path}: {MISSING}"))
            }
            Some((container, key)) if cannot_get(container, &key).is_some() => {
                Some(format!("error in test for path: '{path}': {}", cannot_get(container, &key)?))
            }
            _ => Some(format!("testing value {path} failed: test failed")),
        },
        "move" | "copy" => {
            let Some(from) = text("from") else {
                return Some(format!(
                    "{name} operation failed to decode from: operation, missing from field: {MISSING}"
                ));
            };
            let Some((container, key)) = parent(&document, from) else {
                return Some(format!(
                    "{name} operation does not apply: doc is missing from path: {from}: {MISSING}"
                ));
            };
            let of_source = cannot_get(container, &key);
            if name == "copy" {
                if let Some(why) = of_source {
                    return Some(format!("error in copy for from: '{from}': {why}"));
                }
            } else {
                if let Some(why) = of_source.or_else(|| cannot_remove(container, &key)) {
                    return Some(format!("error in move for path: '{key}': {why}"));
                }
                let removal = serde_json::json!([{"op": "remove", "path": from}]);
                document = json_patch::apply(document, &removal).ok()?;
            }
            match parent(&document, path) {
                None => Some(format!(
                    "{name} operation does not apply: doc is missing destination path: {path}: {MISSING}"
                )),
                Some((container, key)) if name == "copy" => {
                    Some(format!("error while adding value during copy: {}", cannot_add(container, &key)?))
                }
                Some((container, key)) => {
                    Some(format!("error in move for path: '{path}': {}", cannot_add(container, &key)?))
                }
            }
        }
        other => Some(format!("Unexpected kind: {other}")),
    }
}

/// The container that holds what a path names, and the name in it.
fn parent<'d>(document: &'d Value, path: &str) -> Option<(&'d Value, String)> {
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let (containers, key) = path
        .split_once('/')?
        .1
        .rsplit_once('/')
        .map_or((None, path.split_once('/')?.1), |(c, k)| (Some(c), k));
    let mut found = document;
    for part in containers.into_iter().flat_map(|parts| parts.split('/')) {
        found = match found {
            Value::Object(map) => map.get(&unescape(part))?,
            Value::Array(items) => items.get(position(part, items.len()).ok()?)?,
            _ => return None,
        };
    }
    (found.is_object() || found.is_array()).then(|| (found, unescape(key)))
}

/// Position of an item of a list; negative ones count from its end.
fn position(key: &str, length: usize) -> Result<usize, String> {
    let number: i64 =
        key.parse().map_err(|_wrong| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let position = if number < 0 { number + length } else { number };
    let invalid = || format!("Unable to access invalid index: {number}: {INVALID_INDEX}");
    if position >= length { Err(invalid()) } else { usize::try_from(position).map_err(|_wrong| invalid()) }
}

fn cannot_get(container: &Value, key: &str) -> Option<String> {
    container.as_array().and_then(|items| position(key, items.len()).err())
}

fn cannot_remove(container: &Value, key: &str) -> Option<String> {
    match container {
        Value::Object(map) if map.contains_key(key) => None,
        Value::Object(_) => Some(format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        container => cannot_get(container, key),
    }
}

fn cannot_add(container: &Value, key: &str) -> Option<String> {
    let items = container.as_array().filter(|_| key != "-")?;
    position(key, items.len() + 1).err().map(|why| {
        if why.starts_with("strconv") {
            format!("value was not a proper array index: '{key}': {why}")
        } else {
            why
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_227_failing_operations_are_explained() {
        let document = || json!({"a": [1], "o": {}});
        for (operation, expected) in [
            (
                json!({"op": "add", "path": "/x/y"}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "/a/5"}),
                "error in add for path: '/a/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                json!({"op": "remove", "path": "/o/k"}),
                "error in remove for path: '/o/k': Unable to remove nonexistent key: k: missing value",
            ),
            (
                json!({"op": "replace", "path": "/a/5", "value": 1}),
                "replace operation does not apply: doc is missing key: /a/5: missing value",
            ),
            (
                json!({"op": "test", "path": "/a/-", "value": 1}),
                "error in test for path: '/a/-': strconv.Atoi: parsing \"-\": invalid syntax",
            ),
            (json!({"op": "test", "path": "/o", "value": 1}), "testing value /o failed: test failed"),
            (
                json!({"op": "move", "from": "/o/k", "path": "/z"}),
                "error in move for path: 'k': Unable to remove nonexistent key: k: missing value",
            ),
            (
                json!({"op": "copy", "from": "/o", "path": "/z/z"}),
                "copy operation does not apply: doc is missing destination path: /z/z: missing value",
            ),
            (json!({"op": "grow", "path": "/z"}), "Unexpected kind: grow"),
        ] {
            let patch = [json!({"op": "add", "path": "/n", "value": 1}), operation];
            assert_eq!(explain(document(), &patch).as_deref(), Some(expected));
        }
    }
}
