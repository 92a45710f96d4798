use serde_json::json;

use super::*;

fn state() -> (State, KindId) {
    let claim = |metadata: &Metadata| metadata.annotations.get("track").cloned().into_iter().collect();
    let claims = Claims { keys: vec!["track".into()], claim: Arc::new(claim), ways: vec![1] };
    let derive = |value: &serde_json::Value| Derived {
        health: value["status"]["phase"].as_str().map(|phase| (phase.into(), String::new())),
        node: None,
        host: value["spec"]["nodeName"].as_str().map(|node| {
            let asks = Amounts { cpu: value["spec"]["cpu"].as_i64().unwrap_or(0), ..Amounts::default() };
            Box::new(Host::Guest { node: node.into(), asks })
        }),
    };
    let mut state = State::new(claims, Arc::new(derive));
    let kind = watched(&mut state, "", "ConfigMap");
    (state, kind)
}

fn watched(state: &mut State, group: &str, kind: &str) -> KindId {
    let id = state.intern_kind(&GroupKind::new(group, kind));
    let store = state.store_mut(id).unwrap();
    store.version = "v1".into();
    store.watches.insert(SmolStr::default(), WatchRecord::new());
    id
}

fn upsert(state: &mut State, kind: KindId, object: &serde_json::Value) -> Option<Change> {
    let text = object.to_string();
    let head: Head<'_> = serde_json::from_str(&text).unwrap();
    state.upsert(kind, "", &head, text.as_bytes(), Form::Object)
}

fn object(name: &str, version: &str, track: &str) -> serde_json::Value {
    let mut object = json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"),
        "resourceVersion": version, "managedFields": [{"manager": "m"}]}});
    if !track.is_empty() {
        object["metadata"]["annotations"] = json!({"track": track});
    }
    object
}

fn owned(name: &str, owner_kind: &str, owner: &str, phase: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": phase,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": format!("uid-{owner}")}]},
        "status": {"phase": phase}})
}

fn names(state: &State, kind: KindId) -> Vec<String> {
    state.store(kind).unwrap().objects.keys().map(|(_, name)| name.to_string()).collect()
}

#[test]
fn b16_an_untracked_object_makes_no_event_and_keeps_no_text() {
    let (mut state, kind) = state();
    assert_eq!(upsert(&mut state, kind, &object("a", "1", "")), None);
    assert_eq!(upsert(&mut state, kind, &object("a", "2", "")), None);
    let slot = state.slot(&ResourceKey::new("", "ConfigMap", "n", "a")).unwrap();
    assert!(state.record(&slot).unwrap().is_plain());
}

#[test]
fn eng_24_a_tracked_object_is_kept_without_managed_fields() {
    let (mut state, kind) = state();
    let change = upsert(&mut state, kind, &object("a", "1", "app")).unwrap();
    assert!(change.is_managed && change.applications.contains("app"));
    let slot = state.slot(&change.key).unwrap();
    let text = String::from_utf8(state.record(&slot).unwrap().object().unwrap().raw().to_vec()).unwrap();
    assert!(!text.contains("managedFields") && text.contains(r#""kind":"ConfigMap""#), "{text}");
}

#[test]
fn trk_30_a_change_of_owner_tells_both_applications() {
    let (mut state, kind) = state();
    upsert(&mut state, kind, &object("a", "1", "one"));
    let change = upsert(&mut state, kind, &object("a", "2", "two")).unwrap();
    let applications: Vec<&str> = change.applications.iter().map(SmolStr::as_str).collect();
    assert_eq!(applications, ["one", "two"]);
    assert!(!state.claimed.contains_key("one"));
    let lost = upsert(&mut state, kind, &object("a", "3", "")).unwrap();
    assert!(
        lost.applications.contains("two") && lost.is_managed,
        "the application that managed it is compared"
    );
    assert_eq!(upsert(&mut state, kind, &object("a", "4", "")), None, "it is nobody's now");
}

#[test]
fn trk_30_an_owner_that_is_added_tells_the_application_that_managed_the_object() {
    let (mut state, kind) = state();
    upsert(&mut state, kind, &object("a", "1", "app"));
    let mut owned = object("a", "2", "app");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}]);
    let change = upsert(&mut state, kind, &owned).unwrap();
    assert!(change.applications.contains("app") && change.is_managed, "{change:?}");
    let again = upsert(&mut state, kind, &object("a", "3", "app")).unwrap();
    assert!(again.is_managed);
}

#[test]
fn eng_30_the_owner_decides_whatever_came_first() {
    let (mut state, _) = state();
    let pods = watched(&mut state, "", "Pod");
    let sets = watched(&mut state, "apps", "ReplicaSet");
    let deployments = watched(&mut state, "apps", "Deployment");
    assert_eq!(upsert(&mut state, pods, &owned("p", "ReplicaSet", "r", "Running")), None);
    assert_eq!(upsert(&mut state, sets, &owned("r", "Deployment", "d", "x")), None);
    upsert(&mut state, deployments, &object("d", "1", "app"));
    let change = upsert(&mut state, pods, &owned("p", "ReplicaSet", "r", "Failed")).unwrap();
    assert!(change.applications.contains("app") && change.health_changed && !change.is_managed);
}

/// ENG-203: what Pods ask of their nodes is added up as they come, change and go, whoever they belong to.
#[test]
fn eng_203_what_a_node_is_asked_for_follows_its_pods() {
    let (mut state, _) = state();
    let pods = watched(&mut state, "", "Pod");
    let pod = |name: &str, version: &str, node: &str, cpu: i64| {
        let mut pod = object(name, version, "");
        pod["spec"] = json!({"nodeName": node, "cpu": cpu});
        pod
    };
    let cpu = |state: &State, node: &str| state.asked.get(node).map(|sum| sum.cpu);
    upsert(&mut state, pods, &pod("a", "1", "n1", 100));
    upsert(&mut state, pods, &pod("b", "2", "n1", 200));
    upsert(&mut state, pods, &pod("c", "3", "n2", 50));
    assert_eq!((cpu(&state, "n1"), cpu(&state, "n2")), (Some(300), Some(50)));
    upsert(&mut state, pods, &pod("a", "4", "n2", 70));
    assert_eq!((cpu(&state, "n1"), cpu(&state, "n2")), (Some(200), Some(120)));
    for name in ["a", "b", "c"] {
        let slot = state.intern_slot(&ResourceKey::new("", "Pod", "n", name));
        state.remove(&slot);
    }
    assert!(state.asked.is_empty(), "{:?}", state.asked);
}

#[test]
fn eng_30_cycles_yield_none() {
    let (mut state, _) = state();
    let sets = watched(&mut state, "apps", "ReplicaSet");
    upsert(&mut state, sets, &owned("a", "ReplicaSet", "b", "x"));
    assert_eq!(upsert(&mut state, sets, &owned("b", "ReplicaSet", "a", "x")), None);
}

#[test]
fn eng_13_what_a_round_did_not_show_is_gone() {
    let (mut state, kind) = state();
    state.begin(kind, "");
    upsert(&mut state, kind, &object("a", "1", "app"));
    upsert(&mut state, kind, &object("b", "1", ""));
    state.end(kind, "", "9", Witness::First);
    state.begin(kind, "");
    assert_eq!(upsert(&mut state, kind, &object("b", "1", "")), None);
    let (verdict, changes) = state.end(kind, "", "10", Witness::First);
    assert_eq!(verdict, Verdict::Accepted);
    assert!(changes.len() == 1 && changes[0].is_deleted && changes[0].applications.contains("app"));
    assert_eq!(names(&state, kind), ["b"]);
}

#[test]
fn f7_an_empty_list_after_many_objects_needs_a_second_witness() {
    let (mut state, kind) = state();
    state.begin(kind, "");
    for number in 0..20 {
        upsert(&mut state, kind, &object(&format!("o{number:02}"), "1", "app"));
    }
    state.end(kind, "", "9", Witness::First);
    state.begin(kind, "");
    let (verdict, changes) = state.end(kind, "", "10", Witness::First);
    assert_eq!((verdict, changes.len()), (Verdict::Doubted, 0));
    assert_eq!(names(&state, kind).len(), 20);
    state.begin(kind, "");
    let (verdict, changes) = state.end(kind, "", "11", Witness::Second);
    assert_eq!((verdict, changes.len()), (Verdict::Accepted, 20));
}

#[test]
fn trk_10_new_rules_reach_unchanged_objects() {
    let (mut state, kind) = state();
    upsert(&mut state, kind, &object("a", "1", "app"));
    let claim = |_: &Metadata| [SmolStr::new("other")].into();
    state.claims = Claims { keys: vec!["track".into()], claim: Arc::new(claim), ways: vec![1] };
    state.renew();
    let change = upsert(&mut state, kind, &object("a", "1", "app")).unwrap();
    assert!(change.applications.contains("other"));
}

#[test]
fn eng_27_endpoints_belong_to_the_service_of_their_name() {
    let (mut state, _) = state();
    let services = watched(&mut state, "", "Service");
    let endpoints = watched(&mut state, "", "Endpoints");
    upsert(&mut state, services, &object("web", "1", "app"));
    let change = upsert(&mut state, endpoints, &object("web", "1", "")).unwrap();
    assert!(change.applications.contains("app"));
}

/// INV-10: what was asked for once is not kept for ever, and what is asked for now finds room.
#[test]
fn inv_10_the_oldest_kept_object_makes_room() {
    let (mut state, kind) = state();
    state.kept_max = 2;
    let mut slots = Vec::new();
    for name in ["a", "b", "c"] {
        upsert(&mut state, kind, &object(name, "1", ""));
        let slot = state.slot(&ResourceKey::new("", "ConfigMap", "n", name)).unwrap();
        let full = Object::from_value(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "n"}}));
        let record = state.record_mut(&slot).unwrap();
        record.extra.get_or_insert_default().object = Some(Arc::new(full.unwrap()));
        state.keep(slot.clone());
        state.keep(slot.clone());
        slots.push(slot);
    }
    let full = |slot: &Slot| state.record(slot).unwrap().object().is_some();
    assert_eq!(slots.iter().map(full).collect::<Vec<_>>(), [false, true, true]);
}
