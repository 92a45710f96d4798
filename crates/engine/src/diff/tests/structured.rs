//! Pairs that are applied server-side.

use super::*;
use crate::diff::DiffError;

const SERVER_SIDE: DiffSettings = DiffSettings { ignore_aggregated_roles: false, server_side_apply: true };

/// Compares with both functions, which must agree.
fn compared(settings: DiffSettings, target: &Value, live: &Value) -> DiffResult {
    let ignore = IgnoreRules::default();
    let options = DiffOptions { ignore: &ignore, settings };
    let result = diff(Some(target), Some(live), &options).unwrap();
    let quick = is_modified(target.clone(), live.clone(), &options).unwrap();
    assert_eq!(quick, result.modified, "the quick answer differs: {:?}\n{target}", result.paths());
    result
}

fn paths(target: &Value, live: &Value) -> Vec<String> {
    compared(SERVER_SIDE, target, live).paths()
}

fn owned_by(manager: &str, operation: &str, api_version: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn with_books(mut live: Value, entries: &[Value]) -> Value {
    live["metadata"]["managedFields"] = Value::from(entries.to_vec());
    live
}

#[test]
fn eng_54_sync_options_choose_structured_merge() {
    let live = with_books(
        config_map(&json!({"a": "1", "b": "2"})),
        &[owned_by("argocd-controller", "Apply", "v1", &json!({"f:data": {"f:a": {}, "f:b": {}}}))],
    );
    let target = config_map(&json!({"a": "1"}));
    let with = |option: &str| {
        let mut target = target.clone();
        access::set_annotation(&mut target, annotation::SYNC_OPTIONS, option);
        target
    };
    let live_with = |option: &str| {
        let mut live = live.clone();
        access::set_annotation(&mut live, annotation::SYNC_OPTIONS, option);
        live
    };
    let none = DiffSettings::default();
    assert!(!compared(none, &target, &live).modified);
    let chosen =
        none.for_application(&["CreateNamespace=true".to_owned(), "ServerSideApply=true".to_owned()]);
    assert_eq!(compared(chosen, &target, &live).paths(), ["/data/b"]);
    let own = compared(
        none,
        &with("Prune=false, ServerSideApply=true"),
        &live_with("Prune=false, ServerSideApply=true"),
    );
    assert_eq!(own.paths(), ["/data/b"]);
    let off = compared(chosen, &with("ServerSideApply=false"), &live_with("ServerSideApply=false"));
    assert!(!off.modified, "ENG-87: it is applied client-side, so it is compared so");
}

#[test]
fn eng_85_a_field_that_only_we_owned_goes() {
    let books = [owned_by("argocd-controller", "Apply", "v1", &json!({"f:data": {"f:a": {}, "f:b": {}}}))];
    let live = with_books(config_map(&json!({"a": "1", "b": "2", "c": "3"})), &books);
    let result = compared(SERVER_SIDE, &config_map(&json!({"a": "1"})), &live);
    assert_eq!(result.paths(), ["/data/b"]);
    assert_eq!(result.predicted_live["data"], json!({"a": "1", "c": "3"}));
    assert_eq!(result.predicted_live["metadata"], live["metadata"], "the books stay as they are");
}

#[test]
fn eng_85_a_field_that_others_own_stays() {
    for operation in ["Apply", "Update"] {
        let books = [
            owned_by("argocd-controller", "Apply", "v1", &json!({"f:data": {"f:a": {}, "f:b": {}}})),
            owned_by("other", operation, "v1", &json!({"f:data": {"f:b": {}}})),
        ];
        let live = with_books(config_map(&json!({"a": "1", "b": "2"})), &books);
        assert_eq!(paths(&config_map(&json!({"a": "1"})), &live), [""; 0]);
        assert_eq!(paths(&config_map(&json!({"a": "2"})), &live), ["/data/a"]);
    }
    let updated = [owned_by("argocd-controller", "Update", "v1", &json!({"f:data": {"f:b": {}}}))];
    let live = with_books(config_map(&json!({"a": "1", "b": "2"})), &updated);
    assert_eq!(paths(&config_map(&json!({"a": "1"})), &live), [""; 0], "only what was applied is taken back");
}

#[test]
fn eng_85_the_last_applied_record_says_nothing() {
    let mut live = config_map(&json!({"a": "1", "b": "2"}));
    let record = config_map(&json!({"a": "1", "b": "2"})).to_string();
    access::set_annotation(&mut live, LAST_APPLIED, &record);
    let result = compared(SERVER_SIDE, &config_map(&json!({"a": "1"})), &live);
    assert!(!result.modified);
    assert_eq!(access::annotation(&result.normalized_live, LAST_APPLIED), None);
    let changed = compared(SERVER_SIDE, &config_map(&json!({"a": "2"})), &live);
    assert_eq!(changed.paths(), ["/data/a"]);
}

#[test]
fn eng_85_both_sides_get_defaults() {
    let builtin = |(target, _): &(Value, Value)| tiphys_object::builtin::is_builtin(&Gvk::of(target));
    for (target, live) in served::pairs().into_iter().filter(builtin) {
        assert_eq!(paths(&target, &live), [""; 0], "{target}");
        let own = owned_by("argocd-controller", "Apply", live["apiVersion"].as_str().unwrap(), &json!({}));
        assert_eq!(paths(&target, &with_books(live, &[own])), [""; 0], "{target}");
    }
}

#[test]
fn eng_209_ports_are_told_apart_by_number_and_protocol() {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    let live = service(
        json!([{"name": "t", "port": 53, "protocol": "TCP", "targetPort": 53}, {"name": "u", "port": 53, "protocol": "UDP", "targetPort": 53}]),
    );
    let target = |name: &str| {
        service(json!([{"name": name, "port": 53, "protocol": "UDP"}, {"name": "t", "port": 53}]))
    };
    assert_eq!(
        paths(&target("x"), &live),
        ["/spec/ports/0/name", "/spec/ports/0/protocol", "/spec/ports/1/name", "/spec/ports/1/protocol"],
        "the order is that of the config"
    );
    let same = service(json!([{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]));
    assert_eq!(paths(&same, &live), [""; 0]);
    let fewer = service(json!([{"name": "u", "port": 53, "protocol": "UDP"}]));
    assert_eq!(paths(&fewer, &live), [""; 0], "nobody owns the other port");
    let applied = owned_by(
        "argocd-controller",
        "Apply",
        "v1",
        &json!({"f:spec": {"f:ports": {"k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}}}),
    );
    assert_eq!(paths(&fewer, &with_books(live, &[applied])), ["/spec/ports"]);
}

#[test]
fn eng_86_kinds_without_a_schema_have_a_deduced_one() {
    let queue = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
    let live = queue(json!({"a": 1, "m": {"x": 1, "y": 2}, "l": [{"x": 1, "y": 2}]}));
    assert_eq!(paths(&queue(json!({"m": {"x": 1}})), &live), [""; 0]);
    assert_eq!(paths(&queue(json!({"l": [{"x": 1}]})), &live), ["/spec/l/0/y"], "a list is one value");
    let books = [owned_by(
        "argocd-controller",
        "Apply",
        "acme.test/v1",
        &json!({"f:spec": {".": {}, "f:a": {}, "f:m": {"f:x": {}}}}),
    )];
    assert_eq!(paths(&queue(json!({"m": {"x": 1}})), &with_books(live, &books)), ["/spec/a"]);
}

#[test]
fn eng_86_members_of_newer_servers_are_no_error() {
    let deployment = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
    let live = deployment(json!({"replicas": 1, "newField": {"a": 1}}));
    assert_eq!(paths(&deployment(json!({"replicas": 1})), &live), [""; 0]);
    assert_eq!(paths(&deployment(json!({"replicas": 1, "newField": {"a": 2}})), &live), ["/spec/newField/a"]);
}

#[test]
fn eng_85_what_no_server_would_apply_is_an_error() {
    let ignore = IgnoreRules::default();
    let options = DiffOptions { ignore: &ignore, settings: SERVER_SIDE };
    let pod = |containers: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});
    let twice = pod(json!([{"name": "a"}, {"name": "a"}]));
    let live = pod(json!([{"name": "a"}]));
    let error = diff(Some(&twice), Some(&live), &options).unwrap_err();
    assert!(matches!(error, DiffError::Apply { .. }), "{error}");
    assert!(is_modified(twice, live, &options).is_err());
}

#[test]
fn eng_86_the_books_say_which_lists_are_keyed() {
    let gateway = |listeners: Value| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"},
        "spec": {"listeners": listeners}})
    };
    let fields = json!({"f:spec": {"f:listeners": {
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:port": {}}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:port": {}}}}});
    let books = [owned_by("argocd-controller", "Apply", "gateway.networking.k8s.io/v1", &fields)];
    let live = with_books(
        gateway(
            json!([{"name": "a", "port": 80, "routes": "Same"}, {"name": "b", "port": 81, "routes": "Same"}]),
        ),
        &books,
    );
    let same = gateway(json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]));
    assert_eq!(paths(&same, &live), [""; 0], "what the server filled in is no difference");
    assert_eq!(paths(&gateway(json!([{"name": "a", "port": 80}])), &live), ["/spec/listeners"]);
    let changed = gateway(json!([{"name": "a", "port": 80}, {"name": "b", "port": 82}]));
    assert_eq!(paths(&changed, &live), ["/spec/listeners/1/port"]);
    let nameless = gateway(json!([{"port": 80}]));
    assert_eq!(paths(&nameless, &live), ["/spec/listeners"], "the records are a hint only");
}

#[test]
fn eng_86_the_books_know_defaults_of_keys_and_whole_maps() {
    let queue = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec});
    let fields = json!({"f:spec": {"f:whole": {}, "f:loose": {"f:p": {}}, "f:empty": {}, "f:ports": {
        "k:{\"name\":\"a\",\"protocol\":\"TCP\"}": {".": {}, "f:name": {}},
        "k:{\"name\":\"b\",\"protocol\":\"UDP\"}": {".": {}, "f:name": {}, "f:protocol": {}}}}});
    let live = with_books(
        queue(json!({"whole": {"p": "1", "q": "2"}, "loose": {"p": "1", "q": "2"}, "empty": {"default": 1},
            "ports": [{"name": "a", "protocol": "TCP", "n": 1}, {"name": "b", "protocol": "UDP", "n": 1}]})),
        &[owned_by("argocd-controller", "Apply", "acme.test/v1", &fields)],
    );
    let ports = json!([{"name": "a"}, {"name": "b", "protocol": "UDP"}]);
    let target =
        |whole: Value| queue(json!({"whole": whole, "loose": {"p": "1"}, "empty": {}, "ports": ports}));
    assert_eq!(paths(&target(json!({"p": "1", "q": "2"})), &live), [""; 0]);
    assert_eq!(paths(&target(json!({"p": "1"})), &live), ["/spec/whole/q"]);
}

/// SEC-07: what the items of a long list leave out is looked up in what was recorded, not searched for.
#[test]
fn sec_07_long_records_say_once_what_items_leave_out() {
    const MANY: usize = 20_000;
    let object = |ports: Vec<Value>| json!({"apiVersion": "acme.test/v1", "kind": "Mesh", "metadata": {"name": "m"}, "spec": {"ports": ports}});
    let target = object((0..MANY).map(|port| json!({"port": port})).collect());
    let live = object((0..MANY).map(|port| json!({"port": port, "protocol": "TCP"})).collect());
    let records: Map<String, Value> = (0..MANY)
        .map(|port| (format!("k:{{\"port\":{port},\"protocol\":\"TCP\"}}"), json!({".": {}, "f:port": {}})))
        .collect();
    let books =
        [owned_by("argocd-controller", "Apply", "acme.test/v1", &json!({"f:spec": {"f:ports": records}}))];
    assert_eq!(paths(&target, &with_books(live, &books)), [""; 0]);
}
