//! An application shows, streams and changes only objects that its project permits and that belong to it. Matching labels
//! and a forged status prove nothing (INV-6, REP-153).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tiphys_cluster::{Connection, ExecQuery, LogQuery, PatchKind, Removal};
use tiphys_control::{AskedPair, ShowError};
use tiphys_object::ResourceKey;
use tiphys_sim::Sim;
use tiphys_source::Trouble;

use crate::support::{HOME, control_plane};
use crate::world::{URL, World};

const APP: (&str, &str) = ("argocd", "shop");
const MOMENT: Duration = Duration::from_secs(20);
/// Content of a foreign object that no answer may contain.
const CANARY: &str = "canary-of-team-b";

/// The application `shop` of the project `a`, which may use namespace `team-a` alone, and objects of another team in
/// namespace `team-b`.
async fn tenants(change: &Value) -> World {
    let world = World::start().await;
    prepare(&world, &json!({})).await;
    world.create_with(change);
    world.pass(MOMENT).await;
    world
}

async fn prepare(world: &World, project: &Value) {
    for name in ["team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.ask(Method::POST, "/api/v1/namespaces", &namespace);
    }
    let mut spec = json!({"sourceRepos": ["*"], "destinations": [{"server": HOME, "namespace": "team-a"}]});
    spec.as_object_mut().unwrap().extend(project.as_object().unwrap().clone());
    world.project("a", &spec);
    world.pass(MOMENT).await;
    world.commit_with_job(&json!({"name": "worker"}), "one");
}

/// An application of that project.
fn of_project(metadata: &Value, spec: &Value) -> Value {
    let mut change = json!({"metadata": metadata,
        "spec": {"project": "a", "destination": {"namespace": "team-a"}, "syncPolicy": {"automated": {"selfHeal": false}}}});
    change["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    change
}

fn make(world: &World, kind: &str, namespace: &str, (name, metadata): (&str, &Value), body: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    world.ask(Method::POST, &format!("/api/v1/namespaces/{namespace}/{}s", kind.to_lowercase()), &object)
}

fn pod(image: &str) -> Value {
    json!({"spec": {"nodeName": "n", "containers": [{"name": "c", "image": image}]}})
}

/// Objects of a Helm release called `shop`: a Secret, a `ConfigMap` and a Pod with its label.
fn release(world: &World, namespace: &str) {
    let labels =
        json!({"labels": {"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "Helm"}});
    let data = json!({"data": {"key": CANARY}});
    make(world, "ConfigMap", namespace, ("db", &labels), &data);
    make(world, "Secret", namespace, ("db", &labels), &json!({"stringData": {"key": CANARY}}));
    make(world, "Pod", namespace, ("db-0", &labels), &pod(&format!("{CANARY}:1")));
}

fn foreign(kind: &str, name: &str) -> ResourceKey {
    ResourceKey::new("", kind, "team-b", name)
}

/// Results of every read and change of one object.
async fn answers(world: &World, key: &ResourceKey) -> Vec<ShowError> {
    let controller = world.controller();
    let ResourceKey { kind, namespace, name, .. } = key;
    let mut refused = vec![
        controller.resource(APP, key).await.map(drop).unwrap_err(),
        controller.available_actions(APP, key).await.map(drop).unwrap_err(),
        controller.run_action(APP, key, ("restart", &BTreeMap::new())).await.map(drop).unwrap_err(),
    ];
    let patch = json!({"metadata": {"labels": {"taken": "yes"}}});
    refused
        .push(controller.patch_resource(APP, key, (PatchKind::Merge, &patch)).await.map(drop).unwrap_err());
    refused.push(controller.delete_resource(APP, key, Removal::default()).await.unwrap_err());
    let live = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    for target in [None, Some(live.clone())] {
        let pair = AskedPair { key: key.clone(), live: Some(live.clone()), target };
        refused.push(controller.server_side_diff(APP, &[pair]).await.map(drop).unwrap_err());
    }
    let path = format!("/api/v1/namespaces/{namespace}/{}s/{name}", kind.to_lowercase());
    let stored = world.get(&path);
    let uid = stored.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or("none");
    refused.push(controller.resource_events(APP, (namespace, name, uid)).await.map(drop).unwrap_err());
    refused
        .push(controller.pod_log(APP, (namespace, name), &LogQuery::default()).await.map(drop).unwrap_err());
    let query = ExecQuery {
        namespace: namespace.to_string(),
        pod: name.to_string(),
        container: "c".to_owned(),
        command: vec!["sh".to_owned()],
    };
    refused.push(controller.exec(APP, &query).await.map(drop).unwrap_err());
    let below = ResourceKey::new("", "", namespace, name);
    assert_eq!(controller.pods(APP, &below).await.unwrap(), [], "{key}");
    assert_eq!(controller.is_visible(APP, key).await, Ok(false), "{key}");
    let health = controller.resource_health(APP.0, APP.1).await;
    assert!(health.iter().all(|(known, _)| known != key), "{key}: {health:?}");
    refused
}

/// Asserts that every read and change of one object refuses a foreign object like a missing one (SEC-25).
async fn assert_hidden(world: &World, keys: &[ResourceKey]) {
    let controller = world.controller();
    for key in keys {
        let absent = ResourceKey { name: "absent".into(), ..key.clone() };
        let text = |answers: Vec<ShowError>, name: &str| -> Vec<String> {
            let kind = |error: &ShowError| matches!(error, ShowError::NotFound(_) | ShowError::Denied(_));
            assert!(answers.iter().all(kind), "{answers:?}");
            answers.iter().map(|error| format!("{error:?}").replace(name, "NAME")).collect()
        };
        let missing = text(answers(world, &absent).await, "absent");
        assert_eq!(text(answers(world, key).await, &key.name), missing, "{key}");
        let path = format!("/api/v1/namespaces/{}/{}s/{}", key.namespace, key.kind.to_lowercase(), key.name);
        let stored = world.get(&path);
        assert!(
            stored.pointer("/metadata/labels/taken").is_none() && stored["metadata"]["uid"].is_string(),
            "{stored}"
        );
    }
    assert_eq!(controller.pods(APP, &ResourceKey::new("", "", "team-b", "")).await.unwrap(), []);
    let shown = controller.resource_tree(APP.0, APP.1).await.unwrap().to_string();
    assert!(!shown.contains("team-b") && !shown.contains(CANARY), "{shown}");
    let shown = json!(controller.managed(APP.0, APP.1).await.unwrap()).to_string();
    assert!(!shown.contains("team-b") && !shown.contains(CANARY), "{shown}");
}

/// A1: an application that is tracked by label and named like a foreign Helm release.
#[tokio::test(start_paused = true)]
async fn inv_6_a_forged_label_shows_no_foreign_object() {
    let tracked = json!({"annotations": {"argocd.argoproj.io/tracking-method": "label"}});
    let world = tenants(&of_project(&tracked, &json!({}))).await;
    release(&world, "team-b");
    world.pass(MOMENT).await;
    assert_hidden(&world, &[foreign("Secret", "db"), foreign("ConfigMap", "db"), foreign("Pod", "db-0")])
        .await;
    // Its own objects are there.
    let own = ResourceKey::new("", "ConfigMap", "team-a", "shop");
    assert_eq!(world.controller().resource(APP, &own).await.unwrap()["data"]["value"], "one");
    let app = world.app();
    assert!(!app["status"].to_string().contains(CANARY), "images: {:#}", app["status"]["summary"]);
}

/// INV-15: while the sources cannot be read, the health of an application is that of the objects that it may see.
#[tokio::test(start_paused = true)]
async fn inv_15_health_without_sources_counts_visible_objects_only() {
    let tracked = json!({"annotations": {"argocd.argoproj.io/tracking-method": "label"}});
    let world = tenants(&of_project(&tracked, &json!({}))).await;
    let labels = json!({"labels": {"app.kubernetes.io/instance": "shop"}});
    let claim = make(
        &world,
        "PersistentVolumeClaim",
        "team-b",
        ("db", &labels),
        &json!({"spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    world.ask(Method::PUT, "/api/v1/namespaces/team-b/persistentvolumeclaims/db/status", &{
        let mut lost = claim;
        lost["status"] = json!({"phase": "Lost"});
        lost
    });
    world.servers.set_trouble(URL, Trouble { failure: Some("no".to_owned()), ..Trouble::default() });
    world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}}));
    world.pass(Duration::from_mins(6)).await;
    let status = world.app()["status"].clone();
    assert_eq!(status["sync"]["status"], "Unknown", "{status:#}");
    assert_eq!(status["health"]["status"], "Healthy", "{:#}", status["health"]);
}

/// Status entries forged by a user who may write Applications.
fn listed(keys: &[ResourceKey]) -> Value {
    let entry = |key: &ResourceKey| {
        json!({"group": key.group, "version": "v1", "kind": key.kind, "namespace": key.namespace, "name": key.name,
            "status": "Synced"})
    };
    json!({"status": {"resources": keys.iter().map(entry).collect::<Vec<_>>(), "resourceHealthSource": "appTree"}})
}

/// A1: an application with `skip-reconcile` and a forged status.
#[tokio::test(start_paused = true)]
async fn inv_6_a_forged_status_shows_no_foreign_object() {
    let skipped = json!({"annotations": {"argocd.argoproj.io/skip-reconcile": "true"}});
    let world = tenants(&of_project(&skipped, &json!({}))).await;
    let none = json!({});
    make(&world, "ConfigMap", "team-b", ("db", &none), &json!({"data": {"key": CANARY}}));
    make(&world, "Secret", "team-b", ("db", &none), &json!({"stringData": {"key": CANARY}}));
    make(&world, "Pod", "team-b", ("db-0", &none), &pod("db:1"));
    // One that the project permits, and that is not the application's either.
    make(&world, "ConfigMap", "team-a", ("stranger", &none), &json!({"data": {"key": CANARY}}));
    let stranger = ResourceKey::new("", "ConfigMap", "team-a", "stranger");
    let absent = ResourceKey::new("", "ConfigMap", "team-a", "absent");
    let keys = [foreign("Secret", "db"), foreign("ConfigMap", "db"), foreign("Pod", "db-0"), stranger];
    world.change(&listed(&[&keys[..], &[absent, foreign("ConfigMap", "absent")]].concat()));
    world.pass(MOMENT).await;
    assert_eq!(world.app()["status"]["resources"].as_array().unwrap().len(), 6, "{:#}", world.app());
    assert_hidden(&world, &keys).await;
    let health = world.controller().resource_health(APP.0, APP.1).await;
    assert!(health.is_empty(), "whether an object exists is not reported either: {health:?}");
}

/// The declared objects of an application are its own before it was ever synced, and where it is not reconciled.
#[tokio::test(start_paused = true)]
async fn api_139_a_declared_object_is_shown_before_the_first_sync() {
    for annotations in [json!({}), json!({"argocd.argoproj.io/skip-reconcile": "true"})] {
        let manual = json!({"syncPolicy": {"automated": null}});
        let world = tenants(&of_project(&json!({"annotations": annotations}), &manual)).await;
        make(&world, "ConfigMap", "team-a", ("shop", &json!({})), &json!({"data": {"value": "by hand"}}));
        world.pass(MOMENT).await;
        let own = ResourceKey::new("", "ConfigMap", "team-a", "shop");
        let shown = world.controller().resource(APP, &own).await.unwrap();
        assert_eq!(shown["data"]["value"], "by hand", "{annotations}");
        let uid = shown["metadata"]["uid"].as_str().unwrap();
        world.controller().resource_events(APP, ("team-a", "shop", uid)).await.unwrap();
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop", "namespace": "team-a"}});
        let pair = AskedPair { key: own, live: Some(live), target: None };
        let compared = world.controller().server_side_diff(APP, &[pair]).await.unwrap();
        assert!(compared[0]["liveState"].as_str().unwrap().contains("by hand"), "{compared:?}");
    }
}

/// REP-153: what is below an object of the application needs permission of its own, by kind and by namespace.
#[tokio::test(start_paused = true)]
async fn rep_153_what_is_below_an_object_needs_permission_of_its_own() {
    let world = World::start().await;
    let whitelist = json!([{"group": "rbac.authorization.k8s.io", "kind": "ClusterRole"}]);
    let blacklist = json!([{"group": "", "kind": "Pod"}]);
    prepare(&world, &json!({"clusterResourceWhitelist": whitelist, "namespaceResourceBlacklist": blacklist}))
        .await;
    world.create_with(&of_project(&json!({}), &json!({})));
    world.pass(MOMENT).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
        "metadata": {"name": "shop", "annotations": {"argocd.argoproj.io/tracking-id":
            "shop:rbac.authorization.k8s.io/ClusterRole:team-a/shop"}}});
    let role = world.ask(Method::POST, roles, &role);
    let owner = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "shop",
        "uid": role["metadata"]["uid"]}]);
    let owned = json!({"ownerReferences": owner});
    make(&world, "ConfigMap", "team-b", ("below", &owned), &json!({"data": {"key": CANARY}}));
    make(&world, "Pod", "team-b", ("below", &owned), &pod(&format!("{CANARY}:1")));
    make(&world, "Pod", "team-a", ("below", &owned), &pod(&format!("{CANARY}:2")));
    let inside = make(&world, "ConfigMap", "team-a", ("inside", &owned), &json!({"data": {"key": "own"}}));
    // Below one that is not shown.
    let hidden = json!([{"apiVersion": "v1", "kind": "Pod", "name": "below",
        "uid": world.get("/api/v1/namespaces/team-a/pods/below")["metadata"]["uid"]}]);
    make(
        &world,
        "ConfigMap",
        "team-a",
        ("deep", &json!({"ownerReferences": hidden})),
        &json!({"data": {"key": CANARY}}),
    );
    world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(MOMENT).await;
    let of_team_a = |kind: &str, name: &str| ResourceKey::new("", kind, "team-a", name);
    let keys = [
        foreign("ConfigMap", "below"),
        foreign("Pod", "below"),
        of_team_a("Pod", "below"),
        of_team_a("ConfigMap", "deep"),
    ];
    assert_hidden(&world, &keys).await;
    let controller = world.controller();
    let tree = controller.resource_tree(APP.0, APP.1).await.unwrap();
    let nodes = tree["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["name"] == "inside"), "{tree:#}");
    assert!(!nodes.iter().any(|node| node["kind"] == "Pod" || node["name"] == "deep"), "{tree:#}");
    let shown = controller.resource(APP, &of_team_a("ConfigMap", "inside")).await.unwrap();
    assert_eq!(shown["metadata"]["uid"], inside["metadata"]["uid"]);
    assert!(controller.pods(APP, &ResourceKey::new("", "", "", "")).await.unwrap().is_empty());
    let summary = world.app()["status"]["summary"].to_string();
    assert!(!summary.contains(CANARY), "{summary}");
}

/// A project that does not permit a Node sees neither its details nor the requests of other Pods on it.
#[tokio::test(start_paused = true)]
async fn eng_203_a_node_needs_permission_like_any_object() {
    for (whitelist, is_shown) in [(json!([]), false), (json!([{"group": "", "kind": "Node"}]), true)] {
        let world = World::start().await;
        prepare(&world, &json!({"clusterResourceWhitelist": whitelist})).await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"},
                "nodeInfo": {"kernelVersion": CANARY}}});
        world.ask(Method::POST, "/api/v1/nodes", &node);
        world.ask(Method::PATCH, "/api/v1/nodes/n/status", &json!({"status": node["status"]}));
        world.create_with(&of_project(&json!({}), &json!({})));
        world.pass(MOMENT).await;
        let mark = json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:/Pod:team-a/own"}});
        let asks = |cpu: &str| {
            json!({"spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i:1",
                "resources": {"requests": {"cpu": cpu}}}]}, "status": {"phase": "Running"}})
        };
        make(&world, "Pod", "team-a", ("own", &mark), &asks("1"));
        make(&world, "Pod", "team-b", ("other", &json!({})), &asks("2"));
        world.pass(MOMENT).await;
        let tree = world.controller().resource_tree(APP.0, APP.1).await.unwrap();
        let host = tree["hosts"][0].clone();
        assert_eq!(host["name"], "n", "{tree:#}");
        assert_eq!(host.to_string().contains(CANARY), is_shown, "{host:#}");
        let cpu = host["resourcesInfo"].as_array().unwrap().iter().find(|it| it["resourceName"] == "cpu");
        assert_eq!(
            cpu.map(|cpu| cpu["requestedByNeighbors"].clone()),
            is_shown.then(|| json!(2_000)),
            "{host:#}"
        );
    }
}

/// The object that is read has to be the one that was looked up: a replacement may belong to another tenant.
#[tokio::test(start_paused = true)]
async fn inv_6_a_replaced_object_is_not_the_one_looked_up() {
    let sim = control_plane();
    let other = |text: &str| {
        let mut pod: Value = serde_json::from_str(text).unwrap();
        pod["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
        pod.to_string()
    };
    let connection = altered(&sim, "/pods/worker", other);
    let world = World::start_on(sim, connection, |_| {}).await;
    prepare(&world, &json!({})).await;
    world.create_with(&of_project(&json!({}), &json!({})));
    world.pass(MOMENT).await;
    let controller = world.controller();
    let (namespace, name) =
        controller.pods(APP, &ResourceKey::new("", "Job", "", "worker")).await.unwrap().remove(0);
    let key = ResourceKey::new("", "Pod", &namespace, &name);
    let read = controller.resource(APP, &key).await;
    assert!(matches!(read, Err(ShowError::NotFound(_))), "{read:?}");
    let query = ExecQuery { namespace, pod: name, container: "c".to_owned(), command: vec!["sh".to_owned()] };
    let opened = controller.exec(APP, &query).await.map(drop).unwrap_err();
    assert_eq!(opened, ShowError::NotFound("Pod doesn't belong to specified app".to_owned()));
    let log = controller.pod_log(APP, (&key.namespace, &key.name), &LogQuery::default()).await;
    assert!(matches!(log.map(drop), Err(ShowError::NotFound(_))));
}

/// The object that is changed has to be the one that was read: one that was replaced in between is missing, and its
/// replacement stays as it is.
#[tokio::test(start_paused = true)]
async fn inv_6_a_replaced_object_is_not_changed() {
    let sim = control_plane();
    let is_stale = Arc::new(AtomicBool::new(true));
    let world = World::start_on(sim.clone(), replaced(&sim, &is_stale), |_| {}).await;
    prepare(&world, &json!({})).await;
    world.create_with(&of_project(&json!({}), &json!({})));
    world.pass(MOMENT).await;
    let controller = world.controller();
    let (key, path) =
        (ResourceKey::new("", "ConfigMap", "team-a", "shop"), "/api/v1/namespaces/team-a/configmaps/shop");
    let before = world.get(path);
    let merge = json!({"data": {"value": "taken"}});
    let json = json!([{"op": "replace", "path": "/data/value", "value": "taken"}]);
    for (kind, patch) in
        [(PatchKind::Merge, &merge), (PatchKind::Strategic, &merge), (PatchKind::Json, &json)]
    {
        is_stale.store(true, Ordering::SeqCst);
        let refused = controller.patch_resource(APP, &key, (kind, patch)).await.unwrap_err();
        assert!(
            matches!(&refused, ShowError::NotFound(text) if text.contains("not found as part")),
            "{refused:?}"
        );
        assert_eq!(world.get(path), before);
    }
    let (key, path) = (
        ResourceKey::new("batch", "Job", "team-a", "worker"),
        "/apis/batch/v1/namespaces/team-a/jobs/worker",
    );
    let before = world.get(path)["spec"].clone();
    is_stale.store(true, Ordering::SeqCst);
    let refused = controller.run_action(APP, &key, ("suspend", &BTreeMap::new())).await.unwrap_err();
    assert!(matches!(&refused, ShowError::NotFound(_)), "{refused:?}");
    assert_eq!(world.get(path)["spec"], before);
}

/// A connection on which Jobs and `ConfigMaps` have the uids of others, which the server does not have any more, until
/// something is sent that names one.
fn replaced(sim: &Sim, is_stale: &Arc<AtomicBool>) -> Connection {
    let (server, is_stale) = (sim.clone(), Arc::clone(is_stale));
    Connection::over(HOME, move |request: Request<Bytes>| {
        let (server, is_stale) = (server.clone(), Arc::clone(&is_stale));
        let path = request.uri().path();
        let is_meant =
            request.method() == Method::GET && (path.contains("/jobs") || path.contains("/configmaps"));
        if request.method() == Method::PATCH && request.body().windows(3).any(|part| part == b"uid") {
            is_stale.store(false, Ordering::SeqCst);
        }
        async move {
            let answer = server.call(request).await;
            if !is_meant || !is_stale.load(Ordering::SeqCst) {
                return Ok(answer);
            }
            let changed = move |bytes: Bytes| {
                let text = std::str::from_utf8(&bytes).unwrap();
                Bytes::from(text.replace("\"uid\":\"", "\"uid\":\"f"))
            };
            Ok(answer.map(|body| body.map_frame(move |frame| frame.map_data(changed)).boxed_unsync()))
        }
    })
}

/// A connection to an API server whose answers to requests for one path are changed, piece by piece.
fn altered(sim: &Sim, path: &'static str, change: fn(&str) -> String) -> Connection {
    let server = sim.clone();
    Connection::over(HOME, move |request: Request<Bytes>| {
        let server = server.clone();
        let is_meant = request.method() == Method::GET && request.uri().path().contains(path);
        async move {
            let answer = server.call(request).await;
            if !is_meant || !answer.status().is_success() {
                return Ok(answer);
            }
            let changed = move |bytes: Bytes| Bytes::from(change(std::str::from_utf8(&bytes).unwrap()));
            Ok(answer.map(|body| body.map_frame(move |frame| frame.map_data(changed)).boxed_unsync()))
        }
    })
}

/// An unreadable object of another project with the application's tracking metadata blocks nothing and is not named in
/// conditions.
#[tokio::test(start_paused = true)]
async fn inv_16_a_foreign_unreadable_object_stalls_nothing() {
    let sim = control_plane();
    let deep = |text: &str| text.replace("\"too-deep\"", &format!("{}{}", "[".repeat(300), "]".repeat(300)));
    let world = World::start_on(sim.clone(), altered(&sim, "/configmaps", deep), |_| {}).await;
    prepare(&world, &json!({})).await;
    let mark = json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:team-b/deep"}});
    make(&world, "ConfigMap", "team-b", ("deep", &mark), &json!({"data": {"key": "too-deep"}}));
    let finalizers = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    // The cluster is listed when the first application asks for it.
    world.create_with(&of_project(&finalizers, &json!({})));
    world.pass(Duration::from_mins(1)).await;
    let app = world.app();
    assert!(!app["status"].to_string().contains("team-b"), "{:#}", app["status"]["conditions"]);
    let own = world.get("/api/v1/namespaces/team-a/configmaps/shop");
    assert_eq!(own["data"]["value"], "one", "{:#}", app["status"]["conditions"]);
    world.delete();
    world.pass(Duration::from_mins(1)).await;
    assert!(world.app().pointer("/metadata/uid").is_none(), "{:#}", world.app());
}
