//! A project is asked about the sources that are really rendered (REP-137, INV-6).

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{URL, World};

const MOMENT: Duration = Duration::from_secs(10);
const OTHER: &str = "https://git.example/other.git";

/// The application `shop` of a project that permits one repository only.
async fn restricted(source: &Value) -> World {
    let world = World::start().await;
    world.commit("own");
    world.commit_to(OTHER, "foreign");
    world
        .project("team", &json!({"sourceRepos": [URL], "destinations": [{"server": "*", "namespace": "*"}]}));
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "own");
    world.operate(&json!({"sync": source}));
    world.pass(MOMENT).await;
    world
}

/// B10: an operation brings sources of its own.
#[tokio::test(start_paused = true)]
async fn rep_137_an_operation_cannot_bring_a_source_that_the_project_forbids() {
    let other = json!({"repoURL": OTHER, "path": "shop", "targetRevision": "main"});
    let own = json!({"repoURL": URL, "path": "shop", "targetRevision": "main"});
    for source in [json!({"source": other}), json!({"sources": [own, other]})] {
        let world = restricted(&source).await;
        assert_eq!(world.value(), "own", "{source}");
        let state = world.app().pointer("/status/operationState").cloned().unwrap();
        assert_eq!(state["phase"], "Error", "{state}");
        let message = state["message"].as_str().unwrap();
        let expected = format!("application repo {OTHER} is not permitted in project 'team'");
        assert!(message.contains(&expected), "{message}");
    }
}

/// B10: the sources beside a hydrator are rendered, so they are asked for.
#[tokio::test(start_paused = true)]
async fn rep_137_a_hydrator_does_not_hide_the_source_that_is_rendered() {
    let world = World::start().await;
    world.commit_to(OTHER, "foreign");
    world
        .project("team", &json!({"sourceRepos": [URL], "destinations": [{"server": "*", "namespace": "*"}]}));
    world.create_with(&json!({"spec": {"project": "team", "source": {"repoURL": OTHER},
        "sourceHydrator": {"drySource": {"repoURL": URL, "path": "dry", "targetRevision": "main"},
            "syncSource": {"targetBranch": "main", "path": "shop"}}}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    let expected = format!("application repo {OTHER} is not permitted in project 'team'");
    assert!(conditions.to_string().contains(&expected), "{conditions}");
}

/// B11: the disk of the machine is nobody's repository, unless the operator says so; the error shows at once.
#[tokio::test(start_paused = true)]
async fn rep_60_a_local_path_is_a_comparison_error_at_once() {
    for url in ["file:///etc", "/etc", "https://git.example/a/../shop.git"] {
        let world = World::start().await;
        world.commit("own");
        world.create();
        world.pass(MOMENT).await;
        world.create_with(&json!({"spec": {"source": {"repoURL": url}}}));
        world.pass(MOMENT).await;
        let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
        assert!(conditions.to_string().contains("Error"), "{url}: {conditions}");
        assert_eq!(world.value(), "own", "{url}");
    }
}

/// B12: rules that this version cannot follow refuse the application, and say so.
#[tokio::test(start_paused = true)]
async fn rep_200_a_project_with_signature_rules_is_refused() {
    let world = World::start().await;
    world.commit("unsigned");
    world.project(
        "team",
        &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]}),
    );
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(conditions.to_string().contains("ComparisonError"), "{conditions}");
    assert!(conditions.to_string().contains("wants signatures"), "{conditions}");
}

/// B12, REP-202: manifests that come with an operation carry no signature, so they are no way around the rule.
#[tokio::test(start_paused = true)]
async fn rep_202_local_manifests_are_refused_where_signatures_are_wanted() {
    let local = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
        "data": {"value": "local"}});
    for (keys, expected) in [(json!([]), "local"), (json!([{"keyID": "4AEE18F83AFDEB23"}]), "")] {
        let world = World::start().await;
        world.commit("unsigned");
        world.project(
            "team",
            &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "signatureKeys": keys}),
        );
        world.create_with(&json!({"spec": {"project": "team", "syncPolicy": {"automated": null}}}));
        world.pass(MOMENT).await;
        world.operate(&json!({"sync": {"manifests": [local.to_string()]}}));
        world.pass(MOMENT).await;
        let state = world.app().pointer("/status/operationState").cloned().unwrap();
        assert_eq!(world.value(), expected, "{state}");
        let is_refused = state.to_string().contains("Cannot use local manifests");
        assert_eq!(is_refused, expected.is_empty(), "{state}");
    }
}

/// B12: a sync that should have few rights is not made with all of them, nor a deletion.
#[tokio::test(start_paused = true)]
async fn rep_193_impersonation_is_refused_for_syncs_and_deletions() {
    let world = World::start().await;
    world.commit("one");
    world.create_with(&json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    world.settings(&json!({"application.sync.impersonation.enabled": "true"}));
    world.pass(MOMENT).await;
    world.commit("two");
    world.sync("");
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(conditions.to_string().contains("no matching service account found"), "{conditions}");
    world.delete();
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    world.settings(&json!({"application.sync.impersonation.enabled": "false"}));
    world.pass(Duration::from_mins(1)).await;
    assert_eq!(world.value(), "");
}

/// C21: the finalizer of a project goes with its last application, not before.
#[tokio::test(start_paused = true)]
async fn rep_123_a_deleted_project_ends_with_its_last_application() {
    let world = World::start().await;
    world.commit("one");
    let open = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    world.project("team", &open);
    world.project("idle", &open);
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    world.delete_project("team");
    world.delete_project("idle");
    world.pass(MOMENT).await;
    assert!(world.has_project("team"));
    assert!(!world.has_project("idle"));
    world.delete();
    world.pass(MOMENT).await;
    assert!(!world.has_project("team"));
}

/// B12: an annotation that asks in vain makes a warning, which goes with it.
#[tokio::test(start_paused = true)]
async fn ctl_17_an_annotation_without_effect_is_a_warning() {
    let world = World::start().await;
    world.commit("one");
    let asks =
        |value: &Value| json!({"metadata": {"annotations": {"argocd.argoproj.io/compare-options": value}}});
    world.create_with(&asks(&json!("ServerSideDiff=true")));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(conditions.to_string().contains("UnsupportedOptionWarning"), "{conditions}");
    world.create_with(&asks(&Value::Null));
    world.create_with(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(MOMENT).await;
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(!conditions.to_string().contains("UnsupportedOptionWarning"), "{conditions}");
}
