use super::*;
use serde_json::{Map, json};
use std::collections::BTreeMap;

mod served;
mod structured;

fn rules(application: &[Value]) -> IgnoreRules {
    let application: Vec<_> =
        application.iter().map(|rule| serde_json::from_value(rule.clone()).unwrap()).collect();
    IgnoreRules::compile(&application, &BTreeMap::new()).unwrap()
}

/// Compares with both functions, which must agree.
fn compared_with(ignore: &IgnoreRules, target: &Value, live: &Value) -> DiffResult {
    let options = DiffOptions { ignore, settings: DiffSettings::default() };
    let result = diff(Some(target), Some(live), &options).unwrap();
    let quick = is_modified(target.clone(), live.clone(), &options).unwrap();
    assert_eq!(quick, result.modified, "the quick answer differs: {:?}\n{target}", result.paths());
    result
}

/// Some broken objects have no patch; then there is nothing to agree on.
fn compare_if_possible(ignore: &IgnoreRules, target: &Value, live: &Value) {
    let options = DiffOptions { ignore, settings: DiffSettings::default() };
    if diff(Some(target), Some(live), &options).is_ok() {
        compared_with(ignore, target, live);
    }
}

fn changed_paths(target: &Value, live: &Value) -> Vec<String> {
    compared_with(&rules(&[]), target, live).paths()
}

#[track_caller]
fn assert_synced(target: &Value, live: &Value) {
    assert_eq!(changed_paths(target, live), [""; 0]);
}

/// `live` as it would be after `kubectl apply` of `applied`.
fn applied_before(mut live: Value, applied: &Value) -> Value {
    access::set_annotation(&mut live, LAST_APPLIED, &applied.to_string());
    live
}

#[test]
fn eng_54_a_missing_side_is_decided_without_a_diff() {
    let ignore = rules(&[]);
    let options = DiffOptions { ignore: &ignore, settings: DiffSettings::default() };
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let extra = diff(None, Some(&object), &options).unwrap();
    assert_eq!(
        (extra.modified, &extra.predicted_live, &extra.normalized_live),
        (false, &Value::Null, &object)
    );
    let missing = diff(Some(&object), None, &options).unwrap();
    assert_eq!(
        (missing.modified, &missing.predicted_live, &missing.normalized_live),
        (true, &object, &Value::Null)
    );
    assert_eq!(missing.paths(), [""]);
}

#[test]
fn eval_601_a_changed_value_is_named() {
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": value}});
    assert_eq!(changed_paths(&map("2"), &map("1")), ["/data/k"]);
    assert_synced(&map("1"), &map("1"));
}

#[test]
fn eng_72_ignored_replicas_are_no_difference() {
    let deployment = |replicas: u32| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": {}}})
    };
    assert_eq!(changed_paths(&deployment(3), &deployment(7)), ["/spec/replicas"]);
    let rule = json!({"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]});
    assert!(!compared_with(&rules(&[rule]), &deployment(3), &deployment(7)).modified);
}

#[test]
fn eng_80_custom_resources_keep_what_the_server_added() {
    let object = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
    let live = object(json!({"a": 1, "list": [{"x": 1, "y": "default"}], "b": 2}));
    assert_synced(&object(json!({"a": 1, "list": [{"x": 1}]})), &live);
    assert_eq!(changed_paths(&object(json!({"a": 1, "list": [{"x": 1}, {"x": 2}]})), &live), ["/spec/list"]);
    assert_eq!(changed_paths(&object(json!({"a": 2, "list": [{"x": 1}]})), &live), ["/spec/a"]);
}

#[test]
fn eng_79_custom_resources_lose_what_is_no_longer_said() {
    let object = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
    let live = applied_before(object(json!({"a": 1, "b": 2, "c": 3})), &object(json!({"a": 1, "b": 2})));
    assert_eq!(changed_paths(&object(json!({"a": 1})), &live), ["/spec/b"]);
    assert_synced(&object(json!({"a": 1, "b": 2})), &live);
}

#[test]
fn eng_81_dropped_replicas_fall_back_to_the_default() {
    let deployment = |replicas: Option<u32>| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}});
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = json!(replicas);
        }
        object
    };
    let was_three = applied_before(deployment(Some(3)), &deployment(Some(3)));
    assert_eq!(changed_paths(&deployment(None), &was_three), ["/spec/replicas"]);
    let is_one = applied_before(deployment(Some(1)), &deployment(Some(3)));
    assert_synced(&deployment(None), &is_one);
}

#[test]
fn eng_75_the_namespace_and_empty_annotations_say_nothing() {
    let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n", "annotations": {}}});
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    assert_synced(&target, &live);
    let custom = json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "c", "namespace": "n", "annotations": null}});
    assert_synced(
        &custom,
        &json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "c"}}),
    );
}

#[test]
fn eng_60_secrets_compare_their_data() {
    let secret = |member: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", member: {"k": value}});
    assert_synced(&secret("stringData", "v"), &secret("data", "dg=="));
    assert_eq!(changed_paths(&secret("stringData", "w"), &secret("data", "dg==")), ["/data/k"]);
}

#[test]
fn eng_83_floats_equal_integers_and_texts_do_not() {
    let object = |value: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"n": value}});
    assert_synced(&object(json!(2.0)), &object(json!(2)));
    assert_eq!(changed_paths(&object(json!("2")), &object(json!(2))), ["/spec/n"]);
}

#[test]
fn eng_54_an_unreadable_record_means_two_way() {
    let object = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
    let mut live = object(json!({"a": 1, "b": 2}));
    access::set_annotation(&mut live, LAST_APPLIED, "{");
    assert_synced(&object(json!({"a": 1})), &live);
    access::set_annotation(&mut live, LAST_APPLIED, "[]");
    assert_synced(&object(json!({"a": 1})), &live);
}

#[test]
fn eng_69_ignored_parts_of_the_record_delete_nothing() {
    let object = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
    let live = applied_before(object(json!({"a": 1, "b": 2})), &object(json!({"a": 1, "b": 2})));
    let rule = json!({"group": "acme.test", "kind": "Queue", "jsonPointers": ["/spec/b"]});
    assert!(!compared_with(&rules(&[rule]), &object(json!({"a": 1})), &live).modified);
}

/// Every single change of a pair gets the same answer from both functions; `compared_with` checks.
#[test]
fn eng_54_the_quick_answer_agrees_with_the_full_one() {
    let ignore = rules(&[]);
    let pairs = served::pairs();
    assert!(pairs.len() > 3);
    for (target, live) in pairs {
        let recorded = applied_before(live.clone(), &target);
        for (index, pointer) in served::pointers(&target).into_iter().enumerate() {
            let live = if index % 2 == 0 { &live } else { &recorded };
            let changes = [Value::Null, json!("changed"), json!(17), json!([]), json!({})];
            let mut changed = target.clone();
            *changed.pointer_mut(&pointer).unwrap() = changes[index % changes.len()].clone();
            if changed["apiVersion"] == live["apiVersion"] && changed["kind"] == live["kind"] {
                compare_if_possible(&ignore, &changed, live);
            }
            let mut without = target.clone();
            let (parent, last) = pointer.rsplit_once('/').unwrap();
            if let Some(parent) = without.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(&last.replace("~1", "/").replace("~0", "~"));
            }
            if without["apiVersion"] == live["apiVersion"] && without["kind"] == live["kind"] {
                compare_if_possible(&ignore, &without, live);
            }
        }
    }
}

/// SEC-07: with each item compared with those before it, and once more for each that somebody owns, these took hours.
#[test]
fn sec_07_long_lists_are_compared_once() {
    let env = |many: usize, values: &str| -> Vec<Value> {
        (0..many).map(|name| json!({"name": format!("E{name}"), "value": values})).collect()
    };
    let pod = |env: Vec<Value>| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a", "image": "b", "env": env}]}})
    };
    let options = DiffOptions { ignore: &rules(&[]), settings: DiffSettings::default() };
    assert!(!is_modified(pod(env(100_000, "1")), pod(env(100_000, "1")), &options).unwrap());
    assert!(is_modified(pod(env(20_000, "1")), pod(env(20_000, "2")), &options).unwrap());
}

/// SEC-07: names that the patch keeps are looked up.
#[test]
fn sec_07_many_members_to_keep_are_looked_up() {
    let members: Map<String, Value> = (0..100_000).map(|name| (format!("m{name}"), json!(1))).collect();
    let deployment = |strategy: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"strategy": strategy}});
    let options = DiffOptions { ignore: &rules(&[]), settings: DiffSettings::default() };
    let target = deployment(Value::Object(members));
    assert!(is_modified(target, deployment(json!({"type": "Recreate"})), &options).unwrap());
}
