//! What people do to single resources of an application beyond its rounds (API-139..149, ENG-139..141).

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use http::Method;
use serde_json::{Value, json};
use tiphys_cluster::Removal;
use tiphys_cluster::{LogQuery, PatchKind};
use tiphys_control::{AskedPair, ShowError};
use tiphys_object::ResourceKey;

use crate::world::World;

const APP: (&str, &str) = ("argocd", "shop");
const MOMENT: Duration = Duration::from_secs(20);

fn key(group: &str, kind: &str, name: &str) -> ResourceKey {
    ResourceKey::new(group, kind, "default", name)
}

/// An application with a Job, which has a pod, and nothing that heals.
async fn with_job() -> World {
    let world = World::start().await;
    world.commit_with_job(&json!({"name": "worker"}), "one");
    world.create_with(&json!({"spec": {"syncPolicy": {"automated": {"selfHeal": false}}}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    world
}

/// The same in a project that forbids what the application declares.
async fn forbidden() -> World {
    let world = with_job().await;
    world.project(
        "strict",
        &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "ConfigMap"}]}),
    );
    world.create_with(&json!({"spec": {"project": "strict"}}));
    world.pass(MOMENT).await;
    world
}

#[tokio::test(start_paused = true)]
async fn api_140_a_resource_is_patched_and_deleted_as_one_of_the_application() {
    let world = with_job().await;
    let controller = world.controller();
    let patch = json!({"data": {"value": "by hand"}});
    let changed =
        controller.patch_resource(APP, &key("", "ConfigMap", "shop"), (PatchKind::Merge, &patch)).await;
    assert_eq!(changed.unwrap()["data"]["value"], "by hand");
    assert_eq!(world.value(), "by hand");
    // Somebody else's object is none of the application's, whatever the project permits.
    let stranger = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stranger"}});
    world.ask(Method::POST, "/api/v1/namespaces/default/configmaps", &stranger);
    world.pass(MOMENT).await;
    let named = key("", "ConfigMap", "stranger");
    let refused = controller.patch_resource(APP, &named, (PatchKind::Merge, &patch)).await.unwrap_err();
    let expected = "ConfigMap  stranger not found as part of application shop";
    assert_eq!(refused, ShowError::NotFound(expected.to_owned()));
    assert!(controller.delete_resource(APP, &named, Removal::default()).await.is_err());
    let removal = Removal { force: true, orphan: false };
    controller.delete_resource(APP, &key("batch", "Job", "worker"), removal).await.unwrap();
    world.pass(Duration::from_secs(2)).await;
    let job = world.get("/apis/batch/v1/namespaces/default/jobs/worker");
    assert!(job.pointer("/metadata/uid").is_none(), "{job}");
}

/// SEC-24: nobody reaches by the hand of an application what its project does not permit.
#[tokio::test(start_paused = true)]
async fn inv_6_what_the_project_forbids_is_not_changed_by_hand_either() {
    let world = forbidden().await;
    let controller = world.controller();
    let named = key("", "ConfigMap", "shop");
    let patch = json!({"data": {"value": "by hand"}});
    let refused = controller.patch_resource(APP, &named, (PatchKind::Merge, &patch)).await.unwrap_err();
    assert_eq!(
        refused,
        ShowError::Denied("resource :ConfigMap is not permitted in project strict".to_owned())
    );
    let refused = controller.delete_resource(APP, &named, Removal::default()).await.unwrap_err();
    assert!(matches!(refused, ShowError::Denied(_)), "{refused}");
    assert_eq!(world.value(), "one");
}

#[tokio::test(start_paused = true)]
async fn eng_140_an_action_changes_the_live_object_and_its_status_apart() {
    let world = with_job().await;
    let controller = world.controller();
    let job = key("batch", "Job", "worker");
    let none = BTreeMap::new();
    let actions = controller.available_actions(APP, &job).await.unwrap();
    let names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
    assert_eq!(names, ["resume", "suspend", "terminate"]);
    controller.run_action(APP, &job, ("suspend", &none)).await.unwrap();
    let read = || world.get("/apis/batch/v1/namespaces/default/jobs/worker");
    assert_eq!(read()["spec"]["suspend"], true);
    controller.run_action(APP, &job, ("terminate", &none)).await.unwrap();
    let has_condition = |job: &Value| {
        let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
        conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "ManuallyTerminated"))
    };
    assert!(has_condition(&read()), "{}", read());
    let unknown = controller.run_action(APP, &job, ("fly", &none)).await.unwrap_err();
    assert!(matches!(&unknown, ShowError::Failed(text) if text.contains("fly")), "{unknown}");
}

/// Actions of Jobs and of Applications as users define them.
fn defined(scripts: &[(&str, &str)]) -> Value {
    let definitions: Vec<Value> =
        scripts.iter().map(|(name, script)| json!({"name": name, "action.lua": script})).collect();
    let text = json!({"discovery.lua": "return {mark = {displayName = 'Mark', params = {{name = 'with'}}}}",
        "definitions": definitions})
    .to_string();
    json!({"resource.customizations.actions.batch_Job": text,
        "resource.customizations.actions.argoproj.io_Application": text})
}

const MARK: &str = "obj.metadata.annotations = {mark = actionParams.with} return obj";

#[tokio::test(start_paused = true)]
async fn eng_135_actions_of_users_are_their_scripts() {
    let world = with_job().await;
    let controller = world.controller();
    let job = key("batch", "Job", "worker");
    let make = "local new = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'made'}, data = {a = 'b'}}
        local other = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'shop'}, data = {by = 'script'}}
        return {{operation = 'create', resource = new}, {operation = 'patch', resource = other}}";
    world.settings(&defined(&[
        ("mark", MARK),
        ("make", make),
        ("nothing", ""),
        ("endless", "while true do end"),
    ]));
    world.pass(MOMENT).await;
    let actions = controller.available_actions(APP, &job).await.unwrap();
    let shown: Vec<_> = actions.iter().map(|action| (&*action.name, &*action.display_name)).collect();
    assert_eq!(shown, [("mark", "Mark")], "theirs alone");
    let with = BTreeMap::from([("with".to_owned(), "care".to_owned())]);
    controller.run_action(APP, &job, ("mark", &with)).await.unwrap();
    let read = || world.get("/apis/batch/v1/namespaces/default/jobs/worker");
    assert_eq!(read()["metadata"]["annotations"]["mark"], "care");
    // What names no namespace is beside the object; what another object has besides stays.
    controller.run_action(APP, &job, ("make", &with)).await.unwrap();
    let map = |name: &str| world.get(&format!("/api/v1/namespaces/default/configmaps/{name}"));
    assert_eq!(map("made")["data"], json!({"a": "b"}));
    assert_eq!(map("shop")["data"], json!({"value": "one", "by": "script"}));
    let version = read()["metadata"]["resourceVersion"].clone();
    for (name, text) in [
        ("make", "already exists"),
        ("endless", "context deadline exceeded"),
        ("nothing", "no action.lua"),
        ("suspend", "suspend"),
    ] {
        let refused = controller.run_action(APP, &job, (name, &with)).await.unwrap_err();
        assert!(matches!(&refused, ShowError::Failed(it) if it.contains(text)), "{name}: {refused}");
    }
    assert_eq!(read()["metadata"]["resourceVersion"], version);
}

/// ENG-139: nothing is written when the project forbids a part of it, or a dry run fails.
#[tokio::test(start_paused = true)]
async fn eng_139_an_action_writes_what_the_project_permits_or_nothing() {
    let world = forbidden().await;
    let controller = world.controller();
    let job = key("batch", "Job", "worker");
    let make = |kind: &str, name: &str| {
        format!(
            "local new = {{apiVersion = 'v1', kind = '{kind}', metadata = {{name = '{name}'}}}}
             obj.metadata.annotations = {{mark = 'x'}}
             return {{{{operation = 'patch', resource = obj}}, {{operation = 'create', resource = new}}}}"
        )
    };
    let (map, wide, wrong) = (make("ConfigMap", "new"), make("Namespace", "new"), make("Secret", "No Name"));
    world.settings(&defined(&[("map", &map), ("wide", &wide), ("wrong", &wrong)]));
    world.pass(MOMENT).await;
    let none = BTreeMap::new();
    for (name, text) in [
        ("map", "application is not permitted to manage /ConfigMap/new in default"),
        ("wide", "application is not permitted to manage /Namespace/new in "),
    ] {
        let refused = controller.run_action(APP, &job, (name, &none)).await.unwrap_err();
        assert_eq!(refused, ShowError::Denied(text.to_owned()));
    }
    let refused = controller.run_action(APP, &job, ("wrong", &none)).await.unwrap_err();
    assert!(matches!(refused, ShowError::Failed(_)), "{refused}");
    let job = world.get("/apis/batch/v1/namespaces/default/jobs/worker");
    assert!(job.pointer("/metadata/annotations/mark").is_none(), "{job}");
}

/// API-142: the application itself may be what an action is run on.
#[tokio::test(start_paused = true)]
async fn api_142_an_action_changes_the_application_itself() {
    let world = with_job().await;
    let controller = world.controller();
    let own = ResourceKey::new("argoproj.io", "Application", "argocd", "shop");
    let none = BTreeMap::new();
    let shown = controller.available_actions(APP, &own).await.unwrap();
    assert_eq!(shown[0].display_name, "Disable Auto-Sync");
    controller.run_action(APP, &own, ("toggle-auto-sync", &none)).await.unwrap();
    assert_eq!(world.app()["spec"]["syncPolicy"]["automated"]["enabled"], false);
    let other = ResourceKey::new("argoproj.io", "Application", "argocd", "other");
    assert!(matches!(controller.available_actions(APP, &other).await, Err(ShowError::NotFound(_))));
    world.settings(&defined(&[("mark", MARK)]));
    world.pass(MOMENT).await;
    let with = BTreeMap::from([("with".to_owned(), "care".to_owned())]);
    controller.run_action(APP, &own, ("mark", &with)).await.unwrap();
    assert_eq!(world.app()["metadata"]["annotations"]["mark"], "care");
}

#[tokio::test(start_paused = true)]
async fn api_144_api_149_pods_below_a_resource_have_logs_and_events() {
    let world = with_job().await;
    let controller = world.controller();
    let below = ResourceKey::new("", "Job", "", "worker");
    let pods = controller.pods(APP, &below).await.unwrap();
    assert_eq!(pods.len(), 1, "{pods:?}");
    let other = ResourceKey::new("", "ConfigMap", "", "");
    assert!(controller.pods(APP, &other).await.unwrap().is_empty());
    let (namespace, pod) = &pods[0];
    let query = LogQuery { tail_lines: 2, ..LogQuery::default() };
    let mut lines = controller.pod_log(APP, (namespace, pod), &query).await.unwrap();
    let mut read = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        read.push(String::from_utf8(line.to_vec()).unwrap());
    }
    assert!((1..=2).contains(&read.len()) && read[0].starts_with("20"), "each with its time: {read:?}");
    let object = world.get(&format!("/api/v1/namespaces/default/pods/{pod}"));
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": "default", "uid": uid}, "reason": "Seen"});
    world.ask(Method::POST, "/api/v1/namespaces/default/events", &event);
    let events = controller.resource_events(APP, ("default", pod, uid)).await.unwrap();
    assert!(events.iter().any(|event| event["reason"] == "Seen"), "{events:?}");
    let wrong = controller.resource_events(APP, ("default", pod, "other")).await.unwrap_err();
    assert!(matches!(wrong, ShowError::NotFound(_)), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn api_118_health_of_resources_is_that_of_the_last_comparison() {
    let world = with_job().await;
    let health = async |name: &str| {
        let all = world.controller().resource_health("argocd", "shop").await;
        let found = all.into_iter().find(|(key, _)| key.name == name);
        found.map(|(_, health)| health.status.as_str().to_owned())
    };
    assert_eq!(health("worker").await.as_deref(), Some("Healthy"), "{}", world.app());
    assert_eq!(health("shop").await, None, "a ConfigMap has none");
    let tree = world.controller().resource_tree("argocd", "shop").await.unwrap();
    let root = tree["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "worker").unwrap();
    assert_eq!(root["health"]["status"], "Healthy", "API-137: also where the status leaves it out: {tree}");
    world.ask(Method::DELETE, "/apis/batch/v1/namespaces/default/jobs/worker", &Value::Null);
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(health("worker").await.as_deref(), Some("Missing"));
}

/// ENG-197, ENG-199, ENG-200, ENG-202: the manifest of a Pod is not kept, but what it says about itself, with labels that
/// the settings want to see.
#[tokio::test(start_paused = true)]
async fn eng_199_descendants_say_what_they_are_and_which_images_they_run() {
    let world = with_job().await;
    let pod = async || {
        let tree = world.controller().resource_tree("argocd", "shop").await.unwrap();
        tree["nodes"].as_array().unwrap().iter().find(|node| node["kind"] == "Pod").unwrap().clone()
    };
    let shown = pod().await;
    let names: Vec<&str> =
        shown["info"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Status Reason", "Node", "Containers"], "{shown}");
    assert_eq!(shown["networkingInfo"]["labels"]["job-name"], "worker", "{shown}");
    assert_eq!(shown["images"], json!(["c:1"]), "{shown}");
    let tree = world.controller().resource_tree("argocd", "shop").await.unwrap();
    assert!(tree.get("hosts").is_none(), "a Pod that has ended asks nothing of its node: {tree}");
    // Another image than that of the template, as webhooks add containers.
    let at = format!("/api/v1/namespaces/default/pods/{}", shown["name"].as_str().unwrap());
    let mut object = world.get(&at);
    object["spec"]["containers"][0]["image"] = "mesh:2".into();
    world.ask(Method::PUT, &at, &object);
    world.pass(MOMENT).await;
    world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(MOMENT).await;
    assert_eq!(world.app()["status"]["summary"]["images"], json!(["c:1", "mesh:2"]), "{}", world.app());
    world.settings(&json!({"resource.customLabels": "job-name"}));
    world.pass(Duration::from_secs(30)).await;
    let items = pod().await["info"].clone();
    assert!(items.as_array().unwrap().contains(&json!({"name": "job-name", "value": "worker"})), "{items}");
}

fn pair(named: &ResourceKey, live: &Value, target: &Value) -> AskedPair {
    let given = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
    AskedPair { key: named.clone(), live: given(live), target: given(target) }
}

#[tokio::test(start_paused = true)]
async fn api_145_a_dry_run_tells_what_an_apply_would_make_and_writes_nothing() {
    let world = with_job().await;
    let controller = world.controller();
    let named = key("", "ConfigMap", "shop");
    let target = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop", "namespace": "default"},
            "data": {"value": value}})
    };
    let live = target("what the caller saw");
    let asked = [
        pair(&named, &live, &target("one")),
        pair(&named, &live, &target("two")),
        pair(&named, &Value::Null, &target("two")),
        pair(&named, &live, &Value::Null),
    ];
    let shown = controller.server_side_diff(APP, &asked).await.unwrap();
    let modified: Vec<&Value> = shown.iter().map(|item| &item["modified"]).collect();
    assert_eq!(modified, [&json!(false), &json!(true), &json!(true), &json!(false)], "{shown:#?}");
    let state = |nth: usize, member: &str| -> Value {
        serde_json::from_str(shown[nth][member].as_str().unwrap()).unwrap()
    };
    assert_eq!(
        (&state(1, "liveState")["data"]["value"], &state(1, "targetState")["data"]["value"]),
        (&json!("one"), &json!("two"))
    );
    assert!(state(1, "targetState").pointer("/metadata/managedFields").is_none());
    assert_eq!((state(2, "liveState"), state(3, "targetState")), (Value::Null, Value::Null));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one", "nothing was written");
    // What is none of the application's is not read, whatever manifest is sent along.
    let stranger = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stranger"}, "data": {"a": "b"}});
    world.ask(Method::POST, "/api/v1/namespaces/default/configmaps", &stranger);
    world.pass(MOMENT).await;
    let asked = [pair(&key("", "ConfigMap", "stranger"), &stranger, &stranger)];
    let refused = controller.server_side_diff(APP, &asked).await.unwrap_err();
    assert!(matches!(&refused, ShowError::Denied(text) if text.contains("is not managed")), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn inv_6_a_dry_run_asks_the_project() {
    let world = forbidden().await;
    let named = key("", "ConfigMap", "shop");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop", "namespace": "default"}});
    let refused =
        world.controller().server_side_diff(APP, &[pair(&named, &object, &object)]).await.unwrap_err();
    assert_eq!(
        refused,
        ShowError::Denied("resource :ConfigMap is not permitted in project strict".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn api_137_whoever_follows_a_tree_is_told_of_changes_below_its_objects() {
    let world = with_job().await;
    let mut changes = world.controller().tree_changes(APP.0, APP.1);
    let mut others = world.controller().tree_changes(APP.0, "other");
    let (_, pod) = world.controller().pods(APP, &key("batch", "Job", "worker")).await.unwrap().remove(0);
    world.ask(Method::DELETE, &format!("/api/v1/namespaces/default/pods/{pod}"), &Value::Null);
    world.pass(MOMENT).await;
    assert_eq!(tokio::time::timeout(MOMENT, changes.next()).await, Ok(Some(())));
    assert!(tokio::time::timeout(MOMENT, others.next()).await.is_err(), "nobody else's");
}

/// `tar.gz`: a `ConfigMap` and a Secret in `shop/sent.yaml`.
const SENT: &str = "H4sIAAAAAAACA+3SsU7DMBDGcc9+Cr9AIIlShqywMiF1P1E3tUjsyHZaIZR3x5SKAZURFv6/5U6fdXeL0yHMt8n6fPMq06h+RV3c\
    dd25Ft9r3XbtV3/Om3qzaZSp1R9YUpZYzqv/SWa3tTG54HtzbPSL87ve3Ae/d8OjzHqyWXaSpTdvXibbm4+vsupLdJRxKZmMwQ+r\
    rqpKX133ZJ+jzT/tSjk6Pzx8PsyS0inEMnRYfLaxXbUCAAAAAAAAAAAAAAAAAFzxDs7+AJcAKAAA";
/// The same file as `../sent.yaml`.
const OUTSIDE: &str = "H4sIAAAAAAACA+3SsU7DMBDGcc9+Cr9AghMihqywdkJiP1ETLBInsp1WFcq7YwpiQGWEhf9vudNn3d3iur5KLuT6JNOofoktbrru\
    XIvv1bZd+9Wf88ba5loZq/7AmrLEcl79T7L4BxeTn0NvDo1+8WHfm9s5PPlhJ4ueXJa9ZOnNa5DJ9eb9s2z6MzrIuJZMxjkMm66q\
    Sl9cd+8eo8s/7Uo5+jDcfTwsktJxjmXoeQ3ZxXbTCgAAAAAAAAAAAAAAAABwwRsP1HdMACgAAA==";
/// A link from `shop/sent.yaml` to `../../etc/passwd`.
const LEADS_OUT: &str = "H4sIAAAAAAACA+3OQQrCMBQE0BzFEyRWS+4TtOBCbWki4u0NLnXdhfAeA/N3f+plXlKd7i2+yu0aNrHv8jh+uvvu33s4DjmH3SHG\
    1DO1U1pKrc/zFuMetZW1vw8AAAAAAAAAAADwP97wOic4ACgAAA==";

#[tokio::test(start_paused = true)]
async fn api_147_files_that_are_sent_along_are_rendered_instead_of_the_repository() {
    let world = with_job().await;
    let controller = world.controller();
    let send = async |packed: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
        controller.manifests_with_files(APP, bytes.into(), false).await
    };
    let shown = send(SENT).await.unwrap();
    let kinds: Vec<&str> = shown.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"]);
    assert_eq!(shown[0]["metadata"]["name"], "sent");
    assert_eq!(shown[1]["data"]["password"], "++++++++");
    for (packed, text) in
        [(OUTSIDE, "illegal filepath"), (LEADS_OUT, "illegal filepath"), ("YWJj", "archive")]
    {
        let refused = send(packed).await.unwrap_err();
        assert!(matches!(&refused, ShowError::Failed(it) if it.contains(text)), "{text}: {refused}");
    }
    // Nothing of it is remembered: the application is what its repository says.
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let stored = controller.manifests(APP, &[]).await.unwrap();
    assert!(stored.iter().all(|object| object["metadata"]["name"] != "sent"), "{stored:?}");
}
