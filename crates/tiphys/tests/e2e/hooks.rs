//! Hooks: phases, delete policies, failures.

use serde_json::{Value, json};

use crate::api::{CONFIG_MAPS, JOBS};
use crate::births::Births;
use crate::fixtures::{annotated, automated, config_map, file, hook, job, manual, simulated};
use crate::world::{World, is_synced, result_of};

const POLICY: &str = "argocd.argoproj.io/hook-delete-policy";

fn position(names: &[String], name: &str) -> usize {
    names.iter().position(|found| found == name).unwrap_or_else(|| panic!("{name} is not in {names:?}"))
}

#[tokio::test]
async fn eng_143_hooks_run_in_their_phases() {
    let Some(mut world) = World::start("hooks").await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[JOBS, CONFIG_MAPS]).await;
    let hooks = [
        annotated(hook("before", "PreSync"), &[(POLICY, "HookSucceeded")]),
        hook("after", "PostSync"),
        hook("failed", "SyncFail"),
        annotated(job("helm"), &[("helm.sh/hook", "pre-install,pre-upgrade"), ("helm.sh/hook-weight", "-5")]),
        hook("never", "Skip"),
    ];
    let repo = world
        .repo("app", &[("hooks.yaml", &file(&hooks)), ("cm.yaml", &file(&[config_map("cm", "1")]))])
        .await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    let done =
        |app: &Value| app["status"]["operationState"]["phase"] == "Succeeded" && app["operation"].is_null();
    let synced = world.until_app(&app, "synced", done).await;
    let state = &synced["status"]["operationState"];
    assert_eq!(result_of(state, "Job", "before")["hookType"], "PreSync", "{state:#}");
    assert_eq!(result_of(state, "Job", "before")["hookPhase"], "Succeeded", "{state:#}");
    assert_eq!(result_of(state, "Job", "helm")["hookType"], "PreSync", "{state:#}");
    assert_eq!(result_of(state, "Job", "after")["syncPhase"], "PostSync", "{state:#}");
    assert_eq!(result_of(state, "ConfigMap", "cm")["status"], "Synced", "{state:#}");

    world.until_gone(JOBS, &ns, "before").await;
    let after = world.api.get(JOBS, &ns, "after").await.unwrap();
    let finalizers = after["metadata"]["finalizers"].to_string();
    assert!(!finalizers.contains("hook-finalizer"), "{finalizers}");
    let order = births.created();
    assert!(position(&order, "helm") < position(&order, "before"), "{order:?}");
    assert!(position(&order, "before") < position(&order, "cm"), "{order:?}");
    assert!(position(&order, "cm") < position(&order, "after"), "{order:?}");
    assert!(!order.contains(&"failed".to_owned()) && !order.contains(&"never".to_owned()), "{order:?}");

    // The next sync makes them anew, once.
    let commit = world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "2")]))]).await;
    let again =
        |app: &Value| done(app) && app["status"]["operationState"]["syncResult"]["revision"] == commit;
    world.until_app(&app, "synced again", again).await;
    assert_eq!((births.times("before"), births.times("after"), births.times("cm")), (2, 2, 1));
    assert!(births.times("helm") == 2 && births.times("failed") == 0);
    world.finish().await;
}

#[tokio::test]
async fn eng_184_failed_hooks_start_those_of_sync_fail() {
    let Some(mut world) = World::start("syncfail").await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[JOBS]).await;
    let hooks = [
        annotated(simulated(hook("before", "PreSync"), "fail"), &[(POLICY, "HookFailed")]),
        hook("after", "PostSync"),
        hook("cleanup", "SyncFail"),
        config_map("cm", "1"),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&hooks))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let state = world.sync(&app, &json!({"prune": true})).await;
    assert_eq!(state["phase"], "Failed", "{state:#}");
    let message = state["message"].as_str().unwrap();
    assert!(message.starts_with("one or more synchronization tasks completed unsuccessfully"), "{message}");
    assert_eq!(result_of(&state, "Job", "before")["hookPhase"], "Failed", "{state:#}");
    assert_eq!(result_of(&state, "Job", "cleanup")["hookPhase"], "Succeeded", "{state:#}");
    world.until_gone(JOBS, &ns, "before").await;
    assert_eq!((births.times("before"), births.times("cleanup"), births.times("after")), (1, 1, 0));
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.finish().await;
}

#[tokio::test]
async fn eng_149_hooks_named_by_their_operation() {
    let Some(mut world) = World::start("gen").await else { return };
    let ns = world.namespace("ns").await;
    let mut migrate = hook("x", "PreSync");
    migrate["metadata"].as_object_mut().unwrap().remove("name");
    migrate["metadata"]["generateName"] = json!("migrate-");
    let repo = world.repo("app", &[("all.yaml", &file(&[migrate, config_map("cm", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let jobs = world.api.list(JOBS, &ns).await;
    let commit = repo.head().await;
    let prefix = format!("migrate-{}-presync-", commit.get(..7).unwrap());
    assert_eq!(jobs.len(), 1);
    assert!(jobs[0]["metadata"]["name"].as_str().unwrap().starts_with(&prefix), "{}", jobs[0]["metadata"]);
    // A hook is no reason to be out of sync.
    assert!(is_synced(&world.refresh(&app, "normal").await));
    world.finish().await;
}

#[tokio::test]
async fn eng_187_termination_ends_hooks() {
    let Some(mut world) = World::start("terminate").await else { return };
    let ns = world.namespace("ns").await;
    let endless = simulated(hook("endless", "PreSync"), "never-ready");
    let repo = world.repo("app", &[("all.yaml", &file(&[endless, config_map("cm", "1")]))]).await;
    let other = world.repo("other", &[("cm.yaml", &file(&[config_map("other", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let number = world.ask_sync(&app, &json!({}), &Value::Null).await;
    let waiting = |app: &Value| {
        app["status"]["operationState"]["message"] == "waiting for completion of hook batch/Job/endless"
    };
    world.until_app(&app, "waits for the hook", waiting).await;
    // Nobody else waits.
    let bystander = world.create("other", &other, ".", &ns, &automated()).await;
    world.until_synced(&bystander).await;

    world.patch_app(&app, &json!({"status": {"operationState": {"phase": "Terminating"}}})).await;
    let state = world.until_operation(&app, &number).await;
    assert_eq!(state["phase"], "Failed", "{state:#}");
    assert_eq!(state["message"], "Operation terminated", "{state:#}");
    world.until_gone(JOBS, &ns, "endless").await;
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.finish().await;
}
