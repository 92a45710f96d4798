//! Sync options, as the documentation shows them.

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, DEPLOYMENTS, NAMESPACES};
use crate::births::Births;
use crate::fixtures::{automated, automated_with, config_map, deployment, file, manual, sync_options};
use crate::world::{World, merge, result_of};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[tokio::test]
async fn eng_157_namespaces_are_made_with_metadata() {
    let Some(mut world) = World::start("createns").await else { return };
    let ns = world.later_namespace("ns");
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let mut change = automated_with(&["CreateNamespace=true"]);
    let metadata = json!({"labels": {"team": "a", "gone": "later"}, "annotations": {"note": "x"}});
    change["spec"]["syncPolicy"]["managedNamespaceMetadata"] = metadata;
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let synced = world.until_synced(&app).await;
    let space = world.api.get(NAMESPACES, "", &ns).await.unwrap();
    assert_eq!(space["metadata"]["labels"]["team"], "a");
    assert_eq!(space["metadata"]["annotations"]["note"], "x");
    // It is no part of the application.
    let tracked = &space["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"];
    assert!(tracked.is_null(), "{tracked}");
    assert_eq!(synced["status"]["resources"].as_array().unwrap().len(), 1);

    world.api.patch(NAMESPACES, "", &ns, &json!({"metadata": {"labels": {"foreign": "stays"}}})).await;
    let metadata = json!({"labels": {"team": "b", "gone": null}});
    world.patch_app(&app, &json!({"spec": {"syncPolicy": {"managedNamespaceMetadata": metadata}}})).await;
    let changed = |space: &Value| {
        let labels = &space["metadata"]["labels"];
        labels["team"] == "b" && labels["gone"].is_null() && labels["foreign"] == "stays"
    };
    world.until_object(NAMESPACES, "", &ns, "has the new labels", changed).await;
    world.until_synced(&app).await;
    world.finish().await;
}

#[tokio::test]
async fn eng_175_server_side_apply() {
    let Some(mut world) = World::start("ssa").await else { return };
    let ns = world.namespace("ns").await;
    // Far more than an annotation can hold.
    let big = "x".repeat(400_000);
    let repo =
        world.repo("app", &[("cm.yaml", &file(&[config_map("cm", &big), deployment("web", 1)]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated_with(&["ServerSideApply=true"])).await;
    world.until_synced(&app).await;
    let live = world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap();
    assert!(live["metadata"]["annotations"][LAST_APPLIED].is_null());
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    let ours = |entry: &Value| entry["manager"] == "argocd-controller" && entry["operation"] == "Apply";
    assert!(managers.iter().any(ours), "{managers:?}");
    // What others own stays; what is ours is taken back.
    let hands = json!({"data": {"key": "mine", "other": "kept"}});
    world.api.patch(CONFIG_MAPS, &ns, "cm", &hands).await;
    let healed = |cm: &Value| cm["data"]["key"] == big && cm["data"]["other"] == "kept";
    world.until_object(CONFIG_MAPS, &ns, "cm", "is healed", healed).await;
    world.until_synced(&app).await;
    world.finish().await;
}

#[tokio::test]
async fn eng_175_without_server_side_apply_the_annotation_is_too_large() {
    let Some(mut world) = World::start("toolarge").await else { return };
    let ns = world.namespace("ns").await;
    let big = "x".repeat(400_000);
    let repo =
        world.repo("app", &[("cm.yaml", &file(&[config_map("cm", &big), config_map("small", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Failed", "{}", state["message"]);
    let message = result_of(&state, "ConfigMap", "cm")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Too long") && message.len() < 2000, "{message}");
    world.finish().await;
}

#[tokio::test]
async fn eng_175_replace_and_force() {
    let Some(mut world) = World::start("replace").await else { return };
    let ns = world.namespace("ns").await;
    let mut fixed = deployment("web", 1);
    let selector = json!({"matchLabels": {"app": "web"}});
    let objects = [
        sync_options(config_map("cm", "1"), "Replace=true"),
        sync_options(fixed.clone(), "Force=true,Replace=true"),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let births = Births::watch(&world.api, &ns, &[DEPLOYMENTS, CONFIG_MAPS]).await;
    world.api.patch(CONFIG_MAPS, &ns, "cm", &json!({"data": {"foreign": "goes"}})).await;
    // A selector cannot be changed; the object is made anew.
    assert_eq!(fixed["spec"]["selector"], selector);
    let labels = json!({"app": "web", "generation": "two"});
    merge(
        &mut fixed,
        &json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}),
    );
    let objects =
        [sync_options(config_map("cm", "2"), "Replace=true"), sync_options(fixed, "Force=true,Replace=true")];
    world.push(&repo, &[("all.yaml", &file(&objects))]).await;
    let replaced = |cm: &Value| cm["data"] == json!({"key": "2"});
    world.until_object(CONFIG_MAPS, &ns, "cm", "is replaced", replaced).await;
    let anew = |web: &Value| web["spec"]["selector"]["matchLabels"]["generation"] == "two";
    world.until_object(DEPLOYMENTS, &ns, "web", "is made anew", anew).await;
    world.until_synced(&app).await;
    assert_eq!((births.times("web"), births.times("cm")), (1, 0), "{:?}", births.created());
    world.finish().await;
}

#[tokio::test]
async fn eng_174_objects_that_are_not_pruned() {
    let Some(mut world) = World::start("noprune").await else { return };
    let ns = world.namespace("ns").await;
    let old = [sync_options(config_map("kept", "1"), "Prune=false"), config_map("old", "1")];
    let keep = file(&[config_map("keep", "1")]);
    let repo = world.repo("app", &[("old.yaml", &file(&old)), ("keep.yaml", &keep)]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    assert_eq!(world.sync(&app, &json!({})).await["phase"], "Succeeded");
    world.push(&repo, &[("old.yaml", "")]).await;
    world.until_app(&app, "OutOfSync", |app| app["status"]["sync"]["status"] == "OutOfSync").await;

    let state = world.sync(&app, &json!({})).await;
    assert_eq!(result_of(&state, "ConfigMap", "old")["message"], "ignored (requires pruning)", "{state:#}");
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await);

    let state = world.sync(&app, &json!({"prune": true})).await;
    assert_eq!(result_of(&state, "ConfigMap", "old")["status"], "Pruned", "{state:#}");
    assert_eq!(result_of(&state, "ConfigMap", "kept")["message"], "ignored (no prune)", "{state:#}");
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    assert!(world.exists(CONFIG_MAPS, &ns, "kept").await);
    world.finish().await;
}

#[tokio::test]
async fn eng_173_prunes_that_need_confirmation() {
    let Some(mut world) = World::start("confirm").await else { return };
    let ns = world.namespace("ns").await;
    let old = file(&[sync_options(config_map("old", "1"), "Prune=confirm")]);
    let keep = file(&[config_map("keep", "1")]);
    let repo = world.repo("app", &[("old.yaml", &old), ("keep.yaml", &keep)]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    world.push(&repo, &[("old.yaml", "")]).await;
    let asks = |app: &Value| {
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or("");
        message == "waiting for pruning confirmation of /ConfigMap/old"
    };
    let waiting = world.until_app(&app, "asks for the confirmation", asks).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await);
    // An old confirmation is none.
    let annotation = "argocd.argoproj.io/deletion-approved";
    let approve = |time: &str| json!({"metadata": {"annotations": {annotation: time}}});
    world.patch_app(&app, &approve("2020-01-01T00:00:00Z")).await;
    world.until_app(&app, "still asks", asks).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await);
    let started = waiting["status"]["operationState"]["startedAt"].as_str().unwrap();
    world.patch_app(&app, &approve(started)).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.until_synced(&app).await;
    world.finish().await;
}

#[tokio::test]
async fn ctl_78_deletions_that_need_confirmation() {
    let Some(mut world) = World::start("confirmdel").await else { return };
    let ns = world.namespace("ns").await;
    let objects = [
        sync_options(config_map("asks", "1"), "Delete=confirm"),
        sync_options(config_map("stays", "1"), "Delete=false"),
        config_map("goes", "1"),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let mut change = automated();
    change["metadata"] = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    world.api.delete(APPS, &world.cp, &app).await;
    let going =
        world.until_app(&app, "is going", |app| app["metadata"]["deletionTimestamp"].is_string()).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for name in ["asks", "stays", "goes"] {
        assert!(world.exists(CONFIG_MAPS, &ns, name).await, "{name}");
    }
    let time = going["metadata"]["deletionTimestamp"].as_str().unwrap();
    let approved = json!({"metadata": {"annotations": {"argocd.argoproj.io/deletion-approved": time}}});
    world.patch_app(&app, &approved).await;
    world.until_gone(APPS, &world.cp, &app).await;
    world.until_gone(CONFIG_MAPS, &ns, "asks").await;
    world.until_gone(CONFIG_MAPS, &ns, "goes").await;
    assert!(world.exists(CONFIG_MAPS, &ns, "stays").await);
    world.finish().await;
}

#[tokio::test]
async fn eng_165_only_what_is_out_of_sync_is_applied() {
    let Some(mut world) = World::start("onlyoos").await else { return };
    let ns = world.namespace("ns").await;
    let objects = |value: &str| file(&[config_map("a", value), config_map("b", "1")]);
    let repo = world.repo("app", &[("all.yaml", &objects("1"))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated_with(&["ApplyOutOfSyncOnly=true"])).await;
    world.until_synced(&app).await;
    let commit = world.push(&repo, &[("all.yaml", &objects("2"))]).await;
    let done = |app: &Value| {
        let state = &app["status"]["operationState"];
        state["syncResult"]["revision"] == commit && state["phase"] == "Succeeded"
    };
    let synced = world.until_app(&app, "synced", done).await;
    let results = synced["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap().clone();
    let names: Vec<_> = results.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a"]);
    world.until_synced(&app).await;
    world.finish().await;
}
