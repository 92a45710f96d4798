//! Syncs that act as an account of the cluster, judged by the RBAC of a real API server.

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, DEPLOYMENTS};
use crate::fixtures::{config_map, deployment, file, manual};
use crate::world::{Setup, World, conditions, merge, result_of};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ENABLED: &str = "application.sync.impersonation.enabled";
const ENFORCED: &str = "application.sync.impersonation.enforced";

/// An account of the namespace that may write these kinds there, and read nothing.
async fn account(world: &World, ns: &str, rules: &Value) {
    let named = json!({"name": "deployer", "namespace": ns});
    let make = |api: &str, kind: &str, rest: &Value| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": named});
        merge(&mut object, rest);
        object
    };
    world.api.apply("v1/serviceaccounts", &make("v1", "ServiceAccount", &json!({}))).await;
    let role = make(RBAC, "Role", &json!({"rules": rules}));
    world.api.apply(&format!("{RBAC}/roles"), &role).await;
    let binding = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "namespace": ns, "name": "deployer"}]});
    world.api.apply(&format!("{RBAC}/rolebindings"), &make(RBAC, "RoleBinding", &binding)).await;
}

/// REP-190..193: a sync, a prune and a cascade act as the account of the project; what it may not do fails on that object
/// in the API server's own words; without an account nothing is written, unless that is allowed.
#[tokio::test]
async fn rep_193_a_sync_has_the_rights_of_its_account() {
    let setup = Setup { settings: vec![(ENABLED, "true")], ..Setup::default() };
    let Some(mut world) = World::start_with("account", setup).await else { return };
    let ns = world.namespace("ns").await;
    let other = world.namespace("other").await;
    let verbs = ["create", "update", "patch", "delete"];
    account(&world, &ns, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])).await;
    let team = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "destinationServiceAccounts": [{"server": "*", "namespace": ns, "defaultServiceAccount": "deployer"}]});
    world.project("team", &team).await;
    let files = file(&[config_map("cm", "1"), config_map("old", "1")]);
    let repo = world.repo("app", &[("cm.yaml", &files), ("web.yaml", &file(&[deployment("web", 1)]))]).await;
    let mut change = manual();
    merge(
        &mut change,
        &json!({"spec": {"project": "team"},
        "metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}),
    );

    let app = world.create("app", &repo, ".", &ns, &change).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Failed", "{state:#}");
    assert_eq!(result_of(&state, "ConfigMap", "cm")["status"], "Synced", "{state:#}");
    let refused = result_of(&state, "Deployment", "web");
    let message = refused["message"].as_str().unwrap_or_default();
    let user = format!("User \"system:serviceaccount:{ns}:deployer\" cannot create resource \"deployments\"");
    assert!(message.contains("deployments.apps is forbidden") && message.contains(&user), "{refused:#}");
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await && !world.exists(DEPLOYMENTS, &ns, "web").await);

    // A change and a prune are in its rights.
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "2")])), ("web.yaml", "")]).await;
    let state = world.sync(&app, &json!({"prune": true})).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    let changed = world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap();
    assert!(changed["data"]["key"] == "2" && !world.exists(CONFIG_MAPS, &ns, "old").await);

    // Nobody is named for the other namespace.
    let nobody = world.create("nobody", &repo, ".", &other, &change).await;
    let state = world.sync(&nobody, &json!({})).await;
    let expected = format!(
        "no matching service account found for destination server https://kubernetes.default.svc and namespace {other}"
    );
    assert_eq!((&state["phase"], &state["message"]), (&json!("Error"), &json!(expected)), "{state:#}");
    assert!(!world.exists(CONFIG_MAPS, &other, "cm").await);
    world.settings(&json!({ENABLED: "true", ENFORCED: "false"})).await;
    let look = || async { world.sync(&nobody, &json!({})).await };
    world.until("it is the controller that writes", look, |state| state["phase"] == "Succeeded").await;
    assert!(world.exists(CONFIG_MAPS, &other, "cm").await);

    // A cascade that the account may not do waits, and says why.
    let reading = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    account(&world, &ns, &reading).await;
    world.api.delete(APPS, &world.cp, &app).await;
    let says = |app: &Value| {
        let texts = conditions(app, "DeletionError");
        texts.iter().any(|text| text.contains("is forbidden") && text.contains("cannot delete"))
    };
    world.until_app(&app, "the deletion is refused", says).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);
    account(&world, &ns, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])).await;
    world.until_gone(APPS, &world.cp, &app).await;
    world.until_gone(CONFIG_MAPS, &ns, "cm").await;
    world.finish().await;
}
