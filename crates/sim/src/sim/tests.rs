//! The server as its callers see it.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{Options, Sim, SimError};
use crate::clock::Clock;

fn options() -> Options {
    Options { clock: Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap()), ..Options::default() }
}

async fn call(sim: &Sim, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = sim.handle(request.body(bytes).unwrap());
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available_on_the_virtual_clock() {
    let sim = Sim::new(options()).unwrap();
    let labels = json!({"app": "web"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(call(&sim, Method::POST, path, &deployment).await.0, 201);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let (_, found) = call(&sim, Method::GET, &format!("{path}/web"), &Value::Null).await;
    assert_eq!(found["status"]["availableReplicas"], 2, "{found:#}");
    let (_, pods) = call(&sim, Method::GET, "/api/v1/namespaces/default/pods", &Value::Null).await;
    assert_eq!(pods["items"].as_array().unwrap().len(), 2);
    // Deleted in the background: everything it owns goes too.
    assert_eq!(call(&sim, Method::DELETE, &format!("{path}/web"), &Value::Null).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let (_, pods) = call(&sim, Method::GET, "/api/v1/namespaces/default/pods", &Value::Null).await;
    assert_eq!(pods["items"].as_array().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_server_writes_nothing() {
    let sim = Sim::new(options()).unwrap();
    // Something that waits for somebody else is no reason to be busy.
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    let path = "/api/v1/persistentvolumes";
    assert_eq!(call(&sim, Method::POST, path, &volume).await.0, 201);
    assert_eq!(call(&sim, Method::DELETE, &format!("{path}/held"), &Value::Null).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let before = sim.version();
    tokio::time::sleep(std::time::Duration::from_hours(10)).await;
    assert_eq!(sim.version(), before);
}

#[tokio::test]
async fn a_data_directory_is_read_back_and_versions_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { data: Some(directory.path().to_owned()), ..Options::default() };
    let sim = Sim::new(options()).unwrap();
    assert_eq!(call(&sim, Method::POST, MAPS, &config_map("kept")).await.0, 201);
    assert_eq!(call(&sim, Method::POST, MAPS, &config_map("gone")).await.0, 201);
    call(&sim, Method::DELETE, &format!("{MAPS}/gone"), &Value::Null).await;
    let version = sim.version();
    assert!(matches!(Sim::new(options()).unwrap_err(), SimError::Data(_)), "two servers share a directory");
    drop(sim);
    let sim = Sim::new(options()).unwrap();
    assert_eq!(call(&sim, Method::GET, &format!("{MAPS}/kept"), &Value::Null).await.0, 200);
    assert_eq!(call(&sim, Method::GET, &format!("{MAPS}/gone"), &Value::Null).await.0, 404);
    assert!(sim.version() >= version);
}

#[tokio::test]
async fn a_damaged_data_directory_is_refused_and_a_torn_last_line_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { data: Some(directory.path().to_owned()), ..Options::default() };
    let sim = Sim::new(options()).unwrap();
    assert_eq!(call(&sim, Method::POST, MAPS, &config_map("kept")).await.0, 201);
    drop(sim);
    let path = directory.path().join("cluster.journal");
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn.extend_from_slice(b"0123456789abcdef {\"gro");
    std::fs::write(&path, &torn).unwrap();
    let sim = Sim::new(options()).unwrap();
    assert_eq!(call(&sim, Method::GET, &format!("{MAPS}/kept"), &Value::Null).await.0, 200);
    drop(sim);
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    let refused = Sim::new(options()).unwrap_err().to_string();
    assert!(refused.contains("damaged") && refused.contains("--reset"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), flipped, "a refused directory is not touched");
}

/// F19: what a server accepted it can read back; what it could not read back it refuses, as a real one does.
#[tokio::test]
async fn a_body_that_is_nested_too_deep_is_refused_and_the_journal_survives() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { data: Some(directory.path().to_owned()), ..Options::default() };
    let sim = Sim::new(options()).unwrap();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box"}, "versions": [{"name": "v1",
                "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&sim, Method::POST, definitions, &definition).await.0, 201);
    let boxes = "/apis/example.com/v1/namespaces/default/boxes";
    let nested = |levels: usize| {
        let mut deep = json!({});
        for _ in 0..levels {
            deep = json!({"a": deep});
        }
        json!({"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": format!("b{levels}")}, "spec": deep})
    };
    for levels in [98, 99, 130, 500] {
        let (code, answer) = call(&sim, Method::POST, boxes, &nested(levels)).await;
        match code {
            201 => {
                let (_, found) = call(&sim, Method::GET, &format!("{boxes}/b{levels}"), &Value::Null).await;
                assert_eq!(found["spec"], nested(levels)["spec"], "{levels}");
            }
            code => assert_eq!((code, levels >= 99), (400, true), "{levels}: {answer}"),
        }
    }
    // Neither do patches lead to what could not be read.
    let shallow =
        json!({"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "p"}, "spec": {}});
    assert_eq!(call(&sim, Method::POST, boxes, &shallow).await.0, 201);
    let mut path = "/spec".to_owned();
    let mut steps = Vec::new();
    for _ in 0..150 {
        path.push_str("/a");
        steps.push(json!({"op": "add", "path": path, "value": {}}));
    }
    let request = Request::patch(format!("{boxes}/p")).header("content-type", "application/json-patch+json");
    let response = sim.handle(request.body(Bytes::from(Value::from(steps).to_string())).unwrap());
    assert_eq!(response.status(), 422);
    drop(sim);
    let sim = Sim::new(options()).unwrap();
    assert_eq!(call(&sim, Method::GET, &format!("{boxes}/b98"), &Value::Null).await.0, 200);
}
