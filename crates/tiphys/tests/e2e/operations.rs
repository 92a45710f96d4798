//! Operations: manual and automatic, their retries and what they leave behind.

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, JOBS, NAMESPACES};
use crate::fixtures::{automated, automated_with, config_map, deployment, file, hook, manual, wave};
use crate::world::{World, conditions, is_synced, merge, result_of};

#[tokio::test]
async fn eng_191_a_dry_run_changes_nothing() {
    let Some(mut world) = World::start("dryrun").await else { return };
    let ns = world.namespace("ns").await;
    let absent = world.later_namespace("absent");
    let objects = [hook("before", "PreSync"), config_map("cm", "1"), wave(deployment("web", 1), 1)];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let state = world.sync(&app, &json!({"dryRun": true, "prune": true})).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    assert_eq!(result_of(&state, "ConfigMap", "cm")["status"], "Synced", "{state:#}");
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await);
    assert!(world.api.list(JOBS, &ns).await.is_empty());
    assert!(world.app(&app).await["status"]["history"].is_null());

    let other = world.create("absent", &repo, ".", &absent, &manual()).await;
    let sync = json!({"dryRun": true, "syncOptions": ["CreateNamespace=true"]});
    world.sync(&other, &sync).await;
    assert!(!world.exists(NAMESPACES, "", &absent).await);

    // Nor do prunes happen.
    world.sync(&app, &json!({})).await;
    world.push(&repo, &[("all.yaml", &file(&[config_map("new", "1")]))]).await;
    world.until_app(&app, "OutOfSync", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    let state = world.sync(&app, &json!({"dryRun": true, "prune": true})).await;
    assert_eq!(result_of(&state, "ConfigMap", "cm")["message"], "pruned (dry run)", "{state:#}");
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.finish().await;
}

#[tokio::test]
async fn eng_155_selective_sync() {
    let Some(mut world) = World::start("selective").await else { return };
    let ns = world.namespace("ns").await;
    let objects = [hook("before", "PreSync"), config_map("a", "1"), config_map("b", "1")];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let sync = json!({"resources": [{"group": "", "kind": "ConfigMap", "name": "a"}]});
    let state = world.sync(&app, &sync).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    assert!(world.exists(CONFIG_MAPS, &ns, "a").await);
    assert!(!world.exists(CONFIG_MAPS, &ns, "b").await);
    assert!(world.api.list(JOBS, &ns).await.is_empty());
    let partly =
        world.until_app(&app, "OutOfSync", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    assert!(partly["status"]["history"].is_null());
    world.finish().await;
}

#[tokio::test]
async fn ctl_48_retries_with_back_off() {
    let Some(mut world) = World::start("retry").await else { return };
    let ns = world.later_namespace("later");
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let mut change = automated();
    let backoff = json!({"limit": 5, "backoff": {"duration": "1s", "factor": 2, "maxDuration": "3s"}});
    change["spec"]["syncPolicy"]["retry"] = backoff;
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let retrying = |app: &Value| {
        let state = &app["status"]["operationState"];
        let message = state["message"].as_str().unwrap_or("");
        state["retryCount"].as_i64() >= Some(1) && message.contains(". Retrying attempt #")
    };
    let seen = world.until_app(&app, "retries", retrying).await;
    assert_eq!(seen["status"]["operationState"]["phase"], "Running");
    world
        .api
        .apply(NAMESPACES, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}}))
        .await;
    let synced = world.until_synced(&app).await;
    let state = &synced["status"]["operationState"];
    assert_eq!(state["phase"], "Succeeded");
    assert!(state["message"].as_str().unwrap().contains(" (retried "), "{}", state["message"]);

    // Without the namespace and with a limit it ends, and the condition says so; a new commit is tried again.
    let gone = world.name("gone");
    let mut change = automated();
    let backoff = json!({"limit": 1, "backoff": {"duration": "1s", "factor": 1}});
    change["spec"]["syncPolicy"]["retry"] = backoff;
    let failing = world.create("gone", &repo, ".", &gone, &change).await;
    let failed = |app: &Value| !conditions(app, "SyncError").is_empty();
    let failed = world.until_app(&failing, "fails", failed).await;
    let text = format!("Failed last sync attempt to [{}]: ", repo.head().await);
    assert!(conditions(&failed, "SyncError")[0].starts_with(&text), "{:?}", conditions(&failed, "SyncError"));
    world.finish().await;
}

#[tokio::test]
async fn ctl_54_history_is_limited() {
    let Some(mut world) = World::start("history").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "0")]))]).await;
    let mut change = automated();
    change["spec"]["revisionHistoryLimit"] = json!(2);
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    let mut commits = vec![repo.head().await];
    for value in ["1", "2"] {
        commits.push(world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", value)]))]).await);
        let at = commits.last().unwrap().clone();
        world
            .until_app(&app, "at the commit", |app| is_synced(app) && app["status"]["sync"]["revision"] == at)
            .await;
    }
    let app = world.app(&app).await;
    let history = app["status"]["history"].as_array().unwrap();
    let found: Vec<_> =
        history.iter().map(|entry| (entry["id"].as_i64().unwrap(), &entry["revision"])).collect();
    assert_eq!(found, [(1, &json!(commits[1])), (2, &json!(commits[2]))]);
    assert_eq!(history[0]["initiatedBy"]["automated"], true);
    assert!(history[0]["deployedAt"].is_string() && history[0]["deployStartedAt"].is_string());
    assert_eq!(history[0]["source"]["path"], ".");
    world.finish().await;
}

#[tokio::test]
async fn ctl_55_rollback_to_an_older_revision() {
    let Some(mut world) = World::start("rollback").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "0")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    world.sync(&app, &json!({})).await;
    let first = repo.head().await;
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    world.sync(&app, &json!({})).await;
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap()["data"]["key"], "1");
    let state = world.sync(&app, &json!({"revision": first})).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    assert_eq!(state["syncResult"]["revision"], first);
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap()["data"]["key"], "0");
    world.until_app(&app, "OutOfSync", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    world.finish().await;
}

#[tokio::test]
async fn ctl_60_automatic_syncs_do_not_wipe_out() {
    let Some(mut world) = World::start("wipeout").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("app/cm.yaml", &file(&[config_map("cm", "1")])), ("app/x", "x")]).await;
    let app = world.create("app", &repo, "app", &ns, &automated()).await;
    world.until_synced(&app).await;
    let commit = world.push(&repo, &[("app/cm.yaml", "")]).await;
    let refused = |app: &Value| !conditions(app, "SyncError").is_empty();
    let seen = world.until_app(&app, "refused", refused).await;
    let text = format!("Skipping sync attempt to [{commit}]: auto-sync will wipe out all resources");
    assert_eq!(conditions(&seen, "SyncError"), [text]);
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);

    let allow = json!({"spec": {"syncPolicy": {"automated": {"allowEmpty": true}}}});
    world.patch_app(&app, &allow).await;
    world.refresh(&app, "normal").await;
    world.until_gone(CONFIG_MAPS, &ns, "cm").await;
    let empty = world.until_synced(&app).await;
    assert!(conditions(&empty, "SyncError").is_empty());
    world.finish().await;
}

#[tokio::test]
async fn ctl_57_automatic_syncs_that_do_not_happen() {
    let Some(mut world) = World::start("noauto").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world
        .repo(
            "app",
            &[("a.yaml", &file(&[config_map("a", "1")])), ("b.yaml", &file(&[config_map("b", "1")]))],
        )
        .await;
    // Neither prune nor self-heal.
    let change = json!({"spec": {"syncPolicy": {"automated": {}}}});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    world.api.patch(CONFIG_MAPS, &ns, "a", &json!({"data": {"key": "hand-made"}})).await;
    let out = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync" && app["operation"].is_null();
    world.until_app(&app, "OutOfSync", out).await;
    world.refresh(&app, "hard").await;
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "a").await.unwrap()["data"]["key"], "hand-made");
    world.api.patch(CONFIG_MAPS, &ns, "a", &json!({"data": {"key": "1"}})).await;
    world.until_synced(&app).await;
    world.push(&repo, &[("b.yaml", "")]).await;
    world.until_app(&app, "OutOfSync", out).await;
    world.refresh(&app, "hard").await;
    assert!(world.exists(CONFIG_MAPS, &ns, "b").await);
    assert_eq!(world.app(&app).await["status"]["history"].as_array().map(Vec::len), Some(1));

    // Switched off, even new commits wait.
    world.patch_app(&app, &json!({"spec": {"syncPolicy": {"automated": {"enabled": false}}}})).await;
    let commit = world.push(&repo, &[("a.yaml", &file(&[config_map("a", "2")]))]).await;
    world.until_app(&app, "knows the commit", |app| app["status"]["sync"]["revision"] == commit).await;
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "a").await.unwrap()["data"]["key"], "1");
    world.finish().await;
}

#[tokio::test]
async fn ctl_38_several_sources() {
    let Some(mut world) = World::start("sources").await else { return };
    let ns = world.namespace("ns").await;
    let one =
        world.repo("one", &[("x/a.yaml", &file(&[config_map("a", "1"), config_map("both", "one")]))]).await;
    let two =
        world.repo("two", &[("b.yaml", &file(&[config_map("b", "1"), config_map("both", "two")]))]).await;
    let mut change = automated();
    let sources = json!([
        {"repoURL": one.url, "targetRevision": "main", "path": "x"},
        {"repoURL": two.url, "targetRevision": "HEAD", "path": "."},
    ]);
    merge(&mut change, &json!({"spec": {"source": null, "sources": sources}}));
    let name = world.name("app");
    let mut application = world.application(&name, &one, "x", &ns, &change);
    application["spec"].as_object_mut().unwrap().remove("source");
    world.api.apply(APPS, &application).await;
    let synced = world.until_synced(&name).await;
    let (first, second) = (one.head().await, two.head().await);
    assert_eq!(synced["status"]["sync"]["revisions"], json!([first, second]));
    assert_eq!(synced["status"]["history"][0]["revisions"], json!([first, second]));
    assert_eq!(synced["status"]["sourceTypes"], json!(["Directory", "Directory"]));
    // The last source wins, and says so.
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "both").await.unwrap()["data"]["key"], "two");
    assert_eq!(
        conditions(&synced, "RepeatedResourceWarning").len(),
        1,
        "{:#}",
        synced["status"]["conditions"]
    );
    // A push to one of them is enough.
    world.push(&two, &[("b.yaml", &file(&[config_map("b", "2"), config_map("both", "two")]))]).await;
    world.until_object(CONFIG_MAPS, &ns, "b", "has the new value", |cm| cm["data"]["key"] == "2").await;
    world.until_synced(&name).await;
    world.finish().await;
}

#[tokio::test]
async fn ctl_47_an_operation_uses_its_own_options() {
    let Some(mut world) = World::start("opoptions").await else { return };
    let ns = world.later_namespace("ns");
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let mut change = automated_with(&["CreateNamespace=true"]);
    change["spec"]["syncPolicy"].as_object_mut().unwrap().remove("automated");
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Failed", "{state:#}");
    let state = world.sync(&app, &json!({"syncOptions": ["CreateNamespace=true"]})).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.finish().await;
}

#[tokio::test]
async fn ctl_24_turning_automatic_sync_on() {
    let Some(mut world) = World::start("turnon").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    world.until_app(&app, "OutOfSync", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    world.patch_app(&app, &automated()).await;
    world.until_synced(&app).await;
    world.finish().await;
}

/// A comparison that was made for a refresh is none for an operation at another revision.
#[tokio::test]
async fn ctl_46_a_refresh_and_an_operation_at_once() {
    let Some(mut world) = World::start("atonce").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "0")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    world.sync(&app, &json!({})).await;
    let first = repo.head().await;
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    world.sync(&app, &json!({})).await;
    let both = json!({
        "metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}},
        "operation": {"sync": {"revision": first}, "info": [{"name": "number", "value": "both"}]},
    });
    world.patch_app(&app, &both).await;
    let state = world.until_operation(&app, "both").await;
    assert_eq!(state["syncResult"]["revision"], first, "{state:#}");
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap()["data"]["key"], "0");
    world.finish().await;
}
