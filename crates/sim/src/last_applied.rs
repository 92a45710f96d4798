//! From client-side to server-side apply: what `kubectl apply` wrote down about itself.
//!
//! The manager called `kubectl` takes over, without a conflict, the fields that its annotation names, and keeps
//! the annotation up to date as long as there is one.

use serde_json::Value;
use tiphys_object::LAST_APPLIED;
use tiphys_object::access;
use tiphys_object::structured::Conflict;

/// The manager whose applies are meant.
const MANAGER: &str = "kubectl";

/// Whether all conflicts are about fields that the annotation of the live object names.
pub(crate) fn allows(manager: &str, live: Option<&Value>, conflicts: &[Conflict]) -> bool {
    if manager != MANAGER {
        return false;
    }
    let text = live.and_then(|live| access::annotation(live, LAST_APPLIED));
    let Some(said) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return false };
    conflicts.iter().all(|conflict| has(&said, &conflict.field))
}

/// Writes the annotation anew where there is one.
pub(crate) fn renew(manager: &str, live: Option<&Value>, config: &Value, merged: &mut Value) {
    if manager != MANAGER || live.and_then(|live| access::annotation(live, LAST_APPLIED)).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    access::set_annotation(merged, LAST_APPLIED, &format!("{config}\n"));
}

/// Whether a tree has the field of a path such as `.spec.containers[name="web"].image`.
fn has(tree: &Value, path: &str) -> bool {
    if path.is_empty() {
        return true;
    }
    if let Some(rest) = path.strip_prefix('.') {
        // Names of members may contain dots themselves.
        let Some(members) = tree.as_object() else { return false };
        return members.iter().any(|(name, member)| {
            rest.strip_prefix(name.as_str())
                .is_some_and(|rest| (rest.is_empty() || rest.starts_with(['.', '['])) && has(member, rest))
        });
    }
    let Some((step, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
        return false;
    };
    let Some(items) = tree.as_array() else { return false };
    if let Some(text) = step.strip_prefix('=') {
        return items.iter().any(|item| is_written(item, text));
    }
    let keys: Vec<(&str, &str)> = step.split(',').filter_map(|pair| pair.split_once('=')).collect();
    items.iter().any(|item| {
        let is_meant = |(key, text): &(&str, &str)| match item.get(*key) {
            Some(value) => is_written(value, text),
            // What defaults fill in is not there yet.
            None => *text == "\"TCP\"",
        };
        keys.iter().all(is_meant) && has(item, rest)
    })
}

/// Whether a value is written so in a path.
fn is_written(value: &Value, text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|written| written == *value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::has;

    #[test]
    fn paths_of_conflicts_are_found_in_trees() {
        let tree = json!({"metadata": {"labels": {"example.com/a": "b"}}, "spec": {"containers": [
            {"name": "web", "image": "a", "ports": [{"containerPort": 80}]}], "finalizers": ["x"]}});
        for path in [
            ".metadata.labels.example.com/a",
            ".spec.containers[name=\"web\"].image",
            ".spec.containers[name=\"web\"].ports[containerPort=80,protocol=\"TCP\"].containerPort",
            ".spec.finalizers[=\"x\"]",
        ] {
            assert!(has(&tree, path), "{path}");
        }
        for path in [".metadata.labels.example", ".spec.containers[name=\"api\"].image", ".spec.replicas"] {
            assert!(!has(&tree, path), "{path}");
        }
    }
}
