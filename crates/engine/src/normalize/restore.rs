//! Giving a desired object the live values of ignored paths (ENG-181).

use std::collections::BTreeMap;

use serde_json::Value;

use super::jq::{PathStep, at_mut, delete};
use super::rules::Rule;
use crate::scripts::Paths;

/// A path whose list positions are replaced by the items' names, where they have one: the same item stands at
/// different positions in the desired and the live list.
type NamedPath = Vec<Named>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Member(String),
    Item(usize),
    ItemOf(String),
}

/// `paths` says what an expression names in a document.
pub(super) fn restore(
    rule: &Rule,
    target: &mut Value,
    live: &Value,
    paths: impl Fn(&str, &Value) -> Option<Paths>,
) {
    for pointer in rule.pointers.iter().filter(|pointer| !pointer.is_status()) {
        pointer.copy(live, target);
    }
    for expression in &rule.jq {
        if let (Some(desired), Some(found)) = (paths(expression, target), paths(expression, live)) {
            restore_paths(&desired, &found, target, live);
        }
    }
}

fn restore_paths(desired_paths: &Paths, live_paths: &Paths, target: &mut Value, live: &Value) {
    let is_status = |path: &[PathStep]| path.first() == Some(&PathStep::Member("status".to_owned()));
    let mut wanted: BTreeMap<NamedPath, &Value> = BTreeMap::new();
    for path in live_paths.iter().filter(|path| !is_status(path)) {
        if let Some((named, value)) = named(live, path) {
            wanted.insert(named, value);
        }
    }
    let mut gone = Vec::new();
    for path in desired_paths.iter().filter(|path| !is_status(path)) {
        let Some(value) = named(target, path).and_then(|(named, _)| wanted.remove(&named)) else {
            gone.push(path);
            continue;
        };
        if let Some(place) = at_mut(target, path) {
            *place = value.clone();
        }
    }
    for (path, value) in wanted {
        insert(target, &path, value);
    }
    for path in gone.into_iter().rev() {
        delete(target, path);
    }
}

fn named<'a>(document: &'a Value, path: &[PathStep]) -> Option<(NamedPath, &'a Value)> {
    let mut value = document;
    let mut named = Vec::with_capacity(path.len());
    for step in path {
        match step {
            PathStep::Member(key) => {
                value = value.get(key)?;
                named.push(Named::Member(key.clone()));
            }
            PathStep::Item(index) => {
                value = value.get(index)?;
                named.push(match value.get("name").and_then(Value::as_str) {
                    Some(name) => Named::ItemOf(name.to_owned()),
                    None => Named::Item(*index),
                });
            }
        }
    }
    Some((named, value))
}

/// Sets a path that only live has, unless an item on the way is missing: lists are not made longer.
fn insert(target: &mut Value, path: &[Named], value: &Value) {
    let mut place = target;
    for step in path {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        let next = match (place, step) {
            (Value::Object(map), Named::Member(key)) => Some(map.entry(key.as_str()).or_insert(Value::Null)),
            (Value::Array(items), Named::Item(index)) => items.get_mut(*index),
            (Value::Array(items), Named::ItemOf(name)) => {
                items.iter_mut().find(|item| item.get("name").and_then(Value::as_str) == Some(name))
            }
            _ => None,
        };
        let Some(next) = next else { return };
        place = next;
    }
    *place = value.clone();
}

#[cfg(test)]
mod tests {
    use crate::normalize::IgnoreRules;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn restored(rule: Value, mut target: Value, live: &Value) -> Value {
        let rule = serde_json::from_value(rule).unwrap();
        let rules = IgnoreRules::compile(&[rule], &BTreeMap::new()).unwrap();
        rules.restore_ignored(&mut target, live);
        target
    }

    fn deployment(spec: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    }

    #[test]
    fn eng_181_pointers_carry_live_values() {
        let rule = json!({"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas", "/spec/x/y", "/spec/gone"]});
        let target = deployment(&json!({"replicas": 3, "gone": 1, "paused": true}));
        let live = deployment(&json!({"replicas": 7, "x": {"y": 1, "z": 2}, "paused": false}));
        assert_eq!(
            restored(rule, target, &live)["spec"],
            json!({"replicas": 7, "x": {"y": 1}, "paused": true})
        );
    }

    #[test]
    fn eng_181_siblings_inside_lists_stay_as_desired() {
        let rule = json!({"group": "apps", "kind": "Deployment",
            "jqPathExpressions": [".spec.containers[] | select(.name == \"app\") | .image"]});
        let target = deployment(
            &json!({"containers": [{"name": "app", "image": "a:1", "args": ["new"]}, {"name": "x", "image": "x:2"}]}),
        );
        let live = deployment(
            &json!({"containers": [{"name": "injected"}, {"name": "app", "image": "a:9", "args": ["old"]}]}),
        );
        assert_eq!(
            restored(rule, target, &live)["spec"],
            json!({"containers": [{"name": "app", "image": "a:9", "args": ["new"]}, {"name": "x", "image": "x:2"}]})
        );
    }

    #[test]
    fn eng_181_status_is_left_alone() {
        let target = json!({"kind": "X", "status": {"a": 1}});
        assert_eq!(
            restored(json!({"kind": "X"}), target.clone(), &json!({"kind": "X", "status": {"a": 2}})),
            target
        );
    }
}
