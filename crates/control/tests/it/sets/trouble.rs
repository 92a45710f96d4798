//! What must not go wrong quietly: fields that are dropped, services that are asked too often, writes that do not succeed.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tiphys_control::services::{Plugins, Services};
use tiphys_sim::Sim;

use super::installation::{
    APPLICATIONS, Installation, MOMENT, SETS, Said, TIERS, URL, elements, push, rolling, spec,
};
use crate::support::{HOME, ask};

/// Exchanges the definition of sets by one that lacks fields, as an older version installed it.
fn without_fields(sim: &Sim, paths: &[&str]) {
    let mut definitions = tiphys_api::crd::manifests();
    let is_it = |definition: &&mut Value| definition["spec"]["names"]["kind"] == "ApplicationSet";
    let definition = definitions.iter_mut().find(is_it).unwrap();
    for path in paths {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let schema = format!("/spec/versions/0/schema/openAPIV3Schema{parent}");
        let parent = definition.pointer_mut(&schema).unwrap();
        parent["properties"].as_object_mut().unwrap().remove(field).unwrap();
        if let Some(required) = parent.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name != field);
        }
    }
    let name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/applicationsets.argoproj.io";
    let stored = ask(sim, Method::GET, name, &Value::Null);
    definition["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    ask(sim, Method::PUT, name, definition);
}

/// ASET-286: a set whose project the API server dropped does not become one without a project.
#[tokio::test(start_paused = true)]
async fn aset_286_a_set_that_lost_its_project_makes_nothing() {
    let mut world = Installation::start(&[]).await;
    world.commit(&["db"], "one");
    without_fields(&world.sim, &["/properties/spec/project"]);
    let mut spec = spec(&elements(&[("db", "db")]));
    spec["project"] = json!("default");
    let applied = json!({"spec": spec}).to_string();
    let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "spec": spec,
        "metadata": {"name": "all", "namespace": "argocd",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}});
    ask(&world.sim, Method::POST, SETS, &set);
    world.until("it is told", |world| world.condition("ErrorOccurred").0 == "True").await;
    let (_, reason, message) = world.condition("ErrorOccurred");
    assert_eq!(reason, "ApplicationSetProjectError", "{message}");
    assert!(message.contains("dropped spec.project") && message.contains("install"), "{message}");
    tokio::time::sleep(MOMENT).await;
    assert_eq!(world.names().len(), 0);
    assert!(world.writes() < 10, "{}", world.writes());
    without_fields(&world.sim, &[]);
    world.change(&json!({"spec": {"project": "default"}}));
    world.until("it goes on", |world| world.names() == ["db"]).await;
}

/// ASET-5, ASET-217: a roll-out whose bookkeeping is not kept is told, and does not begin anew for ever.
#[tokio::test(start_paused = true)]
async fn aset_217_a_roll_out_that_is_not_kept_is_not_begun() {
    let mut world = Installation::start(&[("enable.progressive.syncs", "true")]).await;
    world.commit(&["db", "config", "frontend"], "one");
    without_fields(&world.sim, &["/properties/status/properties/applicationStatus/items/targetRevisions"]);
    let mut spec = spec(&elements(&TIERS));
    spec["strategy"] = rolling(&["config", "db", "frontend"]);
    world.create(&spec);
    world
        .until("it is told", |world| world.condition("ErrorOccurred").1 == "ApplicationSetRolloutError")
        .await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(world.writes() < 100, "{}", world.writes());
    without_fields(&world.sim, &[]);
    world.until("it goes on by itself", |world| world.value("frontend") == "one").await;
}

/// ASET-145: a dry run does not ask for a look by writing to the set.
#[tokio::test(start_paused = true)]
async fn aset_145_a_push_writes_nothing_in_a_dry_run() {
    let mut world = Installation::start(&[("dryrun", "true")]).await;
    world.commit(&["db"], "one");
    let git = json!([{"git": {"repoURL": URL, "revision": "main", "directories": [{"path": "apps/*"}]}}]);
    let mut spec = spec(&git);
    spec["template"]["metadata"] = json!({"name": "{{ .path.basename }}"});
    world.create(&spec);
    tokio::time::sleep(MOMENT).await;
    push(&world, "https://git.example/tiers");
    tokio::time::sleep(MOMENT).await;
    assert_eq!(world.writes(), 0);
}

/// ASET-27: news of Applications do not ask plugins and providers again, however many there are.
#[tokio::test(start_paused = true)]
async fn aset_27_a_service_is_asked_when_it_is_time() {
    let said = Arc::new(Said::default());
    *said.answer.lock() =
        Some((200, json!({"output": {"parameters": [{"name": "a", "tier": "x"}]}}).to_string()));
    let plugins: Arc<dyn Plugins> = Arc::<Said>::clone(&said);
    let services = Services { plugins, ..Services::of_network() };
    let mut world = Installation::start_with(&[], services, |_| {}).await;
    world.commit(&["a"], "one");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plugin"},
        "data": {"baseUrl": "http://plugin.example/", "token": "$plugin-token:token"}});
    ask(&world.sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &map);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plugin-token",
            "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "stringData": {"token": "strong"}});
    ask(&world.sim, Method::POST, "/api/v1/namespaces/argocd/secrets", &secret);
    world.create(&spec(&json!([{"plugin": {"configMapRef": {"name": "plugin"}}}])));
    world.until("it is synced", |world| world.value("a") == "one").await;
    tokio::time::sleep(MOMENT).await;
    let asked = said.calls.lock().len();
    for number in 0..5 {
        let label = json!({"metadata": {"labels": {"number": number.to_string()}}});
        ask(&world.sim, Method::PATCH, &format!("{APPLICATIONS}/a"), &label);
        tokio::time::sleep(Duration::from_mins(1)).await;
        let app = world.apps().remove("a").unwrap();
        assert_eq!(app["metadata"]["labels"], json!({"tier": "x"}), "the set was looked at");
    }
    assert_eq!(said.calls.lock().len(), asked);
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(said.calls.lock().len(), asked + 1);
}

/// ASET-133, ASET-141: what belongs to somebody else is left alone and told; the others go on.
#[tokio::test(start_paused = true)]
async fn aset_141_an_application_that_cannot_be_written_is_told() {
    let mut world = Installation::start(&[]).await;
    world.commit(&["db"], "one");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    let owner = ask(&world.sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &owner);
    let foreign = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "db", "namespace": "argocd", "ownerReferences": [{"apiVersion": "v1",
            "kind": "ConfigMap", "name": "other", "uid": owner["metadata"]["uid"], "controller": true}]},
        "spec": {"project": "default", "source": {"repoURL": URL, "path": "x"}, "destination": {"server": HOME}}});
    ask(&world.sim, Method::POST, APPLICATIONS, &foreign);
    world.create(&spec(&elements(&TIERS)));
    world.until("the others are there", |world| world.names().len() == 3).await;
    world.until("it is told", |world| world.condition("ErrorOccurred").1 == "UpdateApplicationError").await;
    let (_, _, message) = world.condition("ErrorOccurred");
    assert_eq!(message, "Object argocd/db is already owned by another ConfigMap controller other");
    assert_eq!(world.apps()["db"]["spec"]["source"]["path"], "x");
}
