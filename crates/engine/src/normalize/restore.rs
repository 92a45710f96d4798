//! Giving a desired object the live values of ignored paths (ENG-181).

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::jq::{PathStep, at_mut, delete_paths};
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
    let mut gone = Paths::new();
    for path in desired_paths.iter().filter(|path| !is_status(path)) {
        let Some(value) = named(target, path).and_then(|(named, _)| wanted.remove(&named)) else {
            gone.insert(path.clone());
            continue;
        };
        if let Some(place) = at_mut(target, path) {
            *place = value.clone();
        }
    }
    let wanted: Vec<(&[Named], &Value)> =
        wanted.iter().map(|(path, value)| (path.as_slice(), *value)).collect();
    insert(target, &wanted);
    delete_paths(target, &gone);
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

/// Sets paths that only live has, unless an item on the way is missing: lists are not made longer. The paths are
/// sorted, so that those through one item stand together; there may be as many as the list has items.
fn insert(place: &mut Value, paths: &[(&[Named], &Value)]) {
    let mut names: Option<HashMap<String, usize>> = None;
    let mut rest = paths;
    while let Some(((path, value), after)) = rest.split_first() {
        let Some(step) = path.first() else {
            *place = (*value).clone();
            rest = after;
            continue;
        };
        let length = rest.iter().take_while(|(path, _)| path.first() == Some(step)).count();
        let (group, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        rest = after;
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        let next = match (&mut *place, step) {
            (Value::Object(map), Named::Member(key)) => Some(map.entry(key.as_str()).or_insert(Value::Null)),
            (Value::Array(items), Named::Item(index)) => items.get_mut(*index),
            (Value::Array(items), Named::ItemOf(name)) => {
                let place = names.get_or_insert_with(|| by_name(items)).get(name).copied();
                place.and_then(|place| items.get_mut(place))
            }
            _ => None,
        };
        if let Some(next) = next {
            let below: Vec<(&[Named], &Value)> = group
                .iter()
                .filter_map(|(path, value)| path.split_first().map(|(_, below)| (below, *value)))
                .collect();
            insert(next, &below);
        }
    }
}

/// Where the first item of each name is.
fn by_name(items: &[Value]) -> HashMap<String, usize> {
    let mut places = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        if let Some(name) = item.get("name").and_then(Value::as_str) {
            places.entry(name.to_owned()).or_insert(place);
        }
    }
    places
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

    /// SEC-07: an expression may name each of many items, and each was searched for.
    #[test]
    fn sec_07_items_are_found_by_name_at_once() {
        use super::{PathStep, restore_paths};
        const MANY: usize = 100_000;
        let member = |name: &str| PathStep::Member(name.to_owned());
        let object =
            |item: fn(usize) -> Value| deployment(&json!({"list": (0..MANY).map(item).collect::<Vec<_>>()}));
        let mut target = object(|name| json!({"name": format!("c{name}")}));
        let live = object(|name| json!({"name": format!("c{}", MANY - name), "image": name}));
        let paths = (0..MANY)
            .map(|item| vec![member("spec"), member("list"), PathStep::Item(item), member("image")])
            .collect();
        restore_paths(&super::Paths::new(), &paths, &mut target, &live);
        assert_eq!(target["spec"]["list"][7], json!({"name": "c7", "image": MANY - 7}));
        assert_eq!(target["spec"]["list"][0], json!({"name": "c0"}), "live has no such item");
        let all = (0..MANY).map(|item| vec![member("spec"), member("list"), PathStep::Item(item)]).collect();
        restore_paths(&all, &super::Paths::new(), &mut target, &deployment(&json!({})));
        assert_eq!(target["spec"]["list"], json!([]));
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
