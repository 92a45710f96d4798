//! Deletion hooks that name what is not the application's to touch.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::world::{URL, World};

const APPLICATION: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop";
const VAULT: &str = "/api/v1/namespaces/vault/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// Long enough for a comparison, a sync and several passes of a deletion.
const LONG: Duration = Duration::from_mins(3);

fn config_map(hook: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "treasure", "namespace": "vault"}, "data": {}});
    if !hook.is_empty() {
        object["metadata"]["annotations"] = json!({"argocd.argoproj.io/hook": hook});
    }
    object
}

fn role(hook: &str) -> Value {
    let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "treasure"}, "rules": []});
    if !hook.is_empty() {
        object["metadata"]["annotations"] = json!({"argocd.argoproj.io/hook": hook});
    }
    object
}

/// Deletes an application of a project that is bound to one namespace, with this hook, where these objects of
/// somebody else exist. What the deletion says, and the names of what lives afterwards.
async fn deleted(hook: &Value, existing: &[(&str, Value)]) -> (String, Vec<String>) {
    let world = World::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vault"}});
    world.ask(Method::POST, "/api/v1/namespaces", &namespace);
    for (collection, object) in existing {
        world.ask(Method::POST, collection, object);
    }
    let allowed = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "default"}]});
    world.project("tenant", &allowed);
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {}});
    let files = BTreeMap::from([
        ("shop/shop.yaml".to_owned(), Bytes::from(own.to_string())),
        ("shop/hook.yaml".to_owned(), Bytes::from(hook.to_string())),
    ]);
    world.servers.commit(URL, "main", files, 0).unwrap();
    world.create_with(&json!({"spec": {"project": "tenant"}}));
    world.pass(LONG).await;
    world.ask(Method::DELETE, APPLICATION, &Value::Null);
    world.pass(LONG).await;
    let app = world.app();
    let conditions = app.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let said = conditions.iter().find(|condition| condition["type"] == "DeletionError");
    let said = said.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned();
    let mut left = Vec::new();
    for collection in [VAULT, ROLES] {
        let list = world.get(collection);
        let items = list.pointer("/items").and_then(Value::as_array).cloned().unwrap_or_default();
        let names =
            items.iter().filter_map(|item| item.pointer("/metadata/name")?.as_str().map(str::to_owned));
        left.extend(names.filter(|name| name == "treasure"));
    }
    (said, left)
}

/// SEC-25, SEC-26: the text is the same whether the object of somebody else exists or not, for kinds and namespaces
/// that the project does not permit.
#[tokio::test(start_paused = true)]
async fn sec_25_sec_26_a_deletion_hook_does_not_tell_whether_an_object_exists() {
    for hook_type in ["PreDelete", "PostDelete"] {
        let hooks = [(config_map(hook_type), VAULT, config_map("")), (role(hook_type), ROLES, role(""))];
        for (hook, collection, object) in hooks {
            let (absent, _) = deleted(&hook, &[]).await;
            let (present, left) = deleted(&hook, &[(collection, object)]).await;
            assert_eq!(absent, present, "{hook_type}");
            assert!(absent.contains("is not permitted in project"), "{absent}");
            assert_eq!(left, ["treasure"], "it is left alone");
        }
    }
}

/// SEC-53: deletion hooks pass the project's checks of destination and kind before anything is made.
#[tokio::test(start_paused = true)]
async fn sec_53_deletion_hooks_are_made_only_where_the_project_permits() {
    for hook_type in ["PreDelete", "PostDelete"] {
        for hook in [config_map(hook_type), role(hook_type)] {
            let (said, left) = deleted(&hook, &[]).await;
            assert!(said.contains("is not permitted in project"), "{said}");
            assert!(left.is_empty(), "{left:?}");
        }
    }
}
