//! Changes at a destination are made as the account that the project names (REP-190..193).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use tiphys_cluster::Connection;

use crate::support::{HOME, control_plane};
use crate::world::World;

const MOMENT: Duration = Duration::from_secs(20);
const ACCOUNT: &str = "system:serviceaccount:default:deployer";
const ENABLED: &str = "application.sync.impersonation.enabled";
const ENFORCED: &str = "application.sync.impersonation.enforced";

/// Changes of the destination's namespace with the user that made them; empty for the controller itself.
type Changes = Arc<Mutex<Vec<(String, String)>>>;

/// A controller of which all requests are seen.
async fn observed() -> (World, Changes) {
    let sim = control_plane();
    let changes = Changes::default();
    let (server, seen) = (sim.clone(), Arc::clone(&changes));
    let connection = Connection::over(HOME, move |request: Request<Bytes>| {
        let user = request.headers().get("impersonate-user").map(|user| user.to_str().unwrap().to_owned());
        let path = request.uri().path();
        let is_reading = request.method() == Method::GET;
        assert!(!is_reading || user.is_none(), "reading is the controller's own: {path}");
        if !is_reading && path.contains("/namespaces/default/") && !path.ends_with("/events") {
            let change = format!("{} {path}", request.method());
            seen.lock().unwrap().push((change, user.unwrap_or_default()));
        } else {
            assert!(is_reading || user.is_none(), "what is the installation's own: {path}");
        }
        let server = server.clone();
        async move { Ok(server.call(request).await) }
    });
    (World::start_on(sim, connection, |_| {}).await, changes)
}

/// A project whose applications act as the account in namespace `default`.
fn team(world: &World, accounts: &Value) {
    world.project(
        "team",
        &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "destinationServiceAccounts": accounts}),
    );
}

fn deployer() -> Value {
    json!([{"server": HOME, "namespace": "default", "defaultServiceAccount": "deployer"}])
}

/// Lets the account do this in the namespace.
fn grant(world: &World, rules: &Value) {
    let base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let api = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": api, "kind": "Role",
        "metadata": {"name": "deployer", "namespace": "default"}, "rules": rules});
    world.ask(Method::POST, &format!("{base}/roles"), &role);
    let binding = json!({"apiVersion": api, "kind": "RoleBinding",
        "metadata": {"name": "deployer", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "deployer"}]});
    world.ask(Method::POST, &format!("{base}/rolebindings"), &binding);
}

fn state(world: &World) -> Value {
    world.app().pointer("/status/operationState").cloned().unwrap_or_default()
}

fn rules(resources: &[(&str, &str)]) -> Value {
    let rule = |(group, resource): &(&str, &str)| {
        json!({"apiGroups": [group], "resources": [resource],
        "verbs": ["create", "update", "patch", "delete"]})
    };
    resources.iter().map(rule).collect()
}

/// REP-193: applies, patches, prunes, hooks with their finalizers, and the cascade are all made as the account;
/// reading, the Application and its events are the controller's own.
#[tokio::test(start_paused = true)]
async fn rep_193_every_change_of_a_destination_is_made_as_the_account() {
    let (world, changes) = observed().await;
    world.settings(&json!({ENABLED: "true"}));
    team(&world, &deployer());
    grant(&world, &rules(&[("", "configmaps"), ("batch", "jobs")]));
    // Until the controller has seen that it is on.
    world.pass(MOMENT).await;
    let hook = json!({"name": "migrate", "annotations": {"argocd.argoproj.io/hook": "PreSync",
        "argocd.argoproj.io/hook-delete-policy": "HookSucceeded"}});
    world.commit_with_job(&hook, "one");
    world.create_with(&json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one", "{}", state(&world));
    // A hook, a change, and an object that leaves Git.
    world.commit_with_job(&json!({"name": "worker"}), "two");
    world.pass(Duration::from_mins(4)).await;
    world.commit("three");
    world.sync("");
    world.pass(MOMENT).await;
    world.operate(&json!({"sync": {"prune": true}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "three", "{}", state(&world));
    let job = "/apis/batch/v1/namespaces/default/jobs/worker";
    assert!(world.get(job).pointer("/metadata/uid").is_none(), "it was pruned: {}", state(&world));
    world.delete();
    world.pass(Duration::from_mins(1)).await;
    assert_eq!(world.value(), "", "{}", world.app());
    let changes = std::mem::take(&mut *changes.lock().unwrap());
    for word in ["POST", "PATCH", "DELETE"] {
        assert!(changes.iter().any(|(change, _)| change.starts_with(word)), "{word}: {changes:?}");
    }
    let others: Vec<_> = changes.iter().filter(|(_, user)| user != ACCOUNT).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// REP-193: what the account may not do fails on that object, in the words of the API server; the rest is done.
#[tokio::test(start_paused = true)]
async fn rep_193_an_account_without_rights_fails_on_that_object() {
    let (world, _) = observed().await;
    world.settings(&json!({ENABLED: "true"}));
    team(&world, &deployer());
    grant(&world, &rules(&[("", "configmaps")]));
    world.commit_with_job(&json!({"name": "worker"}), "one");
    world.create_with(&json!({"spec": {"project": "team", "syncPolicy": {"automated": null}}}));
    world.pass(MOMENT).await;
    world.sync("");
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let state = state(&world);
    let results = state["syncResult"]["resources"].as_array().cloned().unwrap_or_default();
    let of = |kind: &str| results.iter().find(|result| result["kind"] == kind).cloned().unwrap_or_default();
    assert_eq!(
        (&state["phase"], &of("ConfigMap")["status"]),
        (&json!("Failed"), &json!("Synced")),
        "{state}"
    );
    assert_eq!(of("Job")["status"], "SyncFailed", "{state}");
    let message = of("Job")["message"].as_str().unwrap_or_default().to_owned();
    let expected = format!("jobs.batch is forbidden: User \"{ACCOUNT}\" cannot create resource \"jobs\"");
    assert!(message.contains(&expected), "{message}");
}

/// REP-191: where an account has to be named and none is, the operation says so and nothing is written, by a deletion
/// neither; comparing goes on. What is not enforced is done as the controller.
#[tokio::test(start_paused = true)]
async fn rep_191_without_an_account_nothing_is_written_unless_that_is_allowed() {
    for (accounts, error) in [
        (json!([]), "no matching service account found for destination server"),
        (
            json!([{"server": "*", "namespace": "default", "defaultServiceAccount": "de*"}]),
            "default service account contains invalid chars 'de*'",
        ),
        (
            json!([{"server": "[", "namespace": "default", "defaultServiceAccount": "deployer"}]),
            "invalid glob pattern for destination server",
        ),
        (
            json!([{"server": "*", "namespace": "default", "defaultServiceAccount": "de\nployer"}]),
            "cannot act as \"system:serviceaccount:default:de\\nployer\"",
        ),
    ] {
        let (world, changes) = observed().await;
        world.settings(&json!({ENABLED: "true"}));
        team(&world, &accounts);
        world.commit("one");
        world.create_with(&json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": {"project": "team", "syncPolicy": {"automated": null}}}));
        world.pass(MOMENT).await;
        world.sync("");
        world.pass(MOMENT).await;
        let state = state(&world);
        assert!(
            state.to_string().replace("\\\\", "\\").replace("\\\"", "\"").contains(error),
            "{error}: {state}"
        );
        assert!(["Error", "Failed"].contains(&state["phase"].as_str().unwrap()), "{state}");
        assert_eq!(world.app().pointer("/status/sync/status"), Some(&json!("OutOfSync")), "{}", world.app());
        let changes = std::mem::take(&mut *changes.lock().unwrap());
        assert!(changes.is_empty(), "{changes:?}");
    }
    let (world, changes) = observed().await;
    world.settings(&json!({ENABLED: "true", ENFORCED: "false"}));
    team(&world, &json!([]));
    world.commit("one");
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    assert!(changes.lock().unwrap().iter().all(|(_, user)| user.is_empty()));
}

/// REP-193: a deletion needs the account as a sync does; what was deployed stays until there is one, and it says so.
#[tokio::test(start_paused = true)]
async fn rep_193_a_deletion_without_an_account_waits_for_one() {
    let (world, changes) = observed().await;
    world.commit("one");
    world.create_with(&json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    changes.lock().unwrap().clear();
    world.settings(&json!({ENABLED: "true"}));
    world.pass(MOMENT).await;
    world.delete();
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(conditions.to_string().contains("no matching service account found"), "{conditions}");
    assert!(changes.lock().unwrap().is_empty());
    world.settings(&json!({ENABLED: "false"}));
    world.pass(Duration::from_mins(1)).await;
    assert_eq!(world.value(), "");
}
