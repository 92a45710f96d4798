//! `kill -9` at chosen points of a sync: the next process takes it up, no hook runs twice, nothing is lost.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{APPS, CONFIG_MAPS, DEPLOYMENTS, JOBS};
use crate::births::Births;
use crate::fixtures::{annotated, automated, config_map, deployment, file, hook, simulated, wave};
use crate::world::{World, is_synced};

/// Looks at an object every few milliseconds, and returns when it satisfies the test.
async fn catch(world: &World, kind: &str, ns: &str, name: &str, holds: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + crate::world::PATIENCE;
    loop {
        let seen = world.api.get(kind, ns, name).await.unwrap_or(Value::Null);
        if !seen.is_null() && holds(&seen) {
            return;
        }
        assert!(Instant::now() < deadline, "{kind} {name} never came to the point; last seen: {seen:#}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

enum Point {
    Operation,
    Object(&'static str, &'static str, fn(&Value) -> bool),
}

fn exists(_: &Value) -> bool {
    true
}

fn finished(job: &Value) -> bool {
    job["status"]["succeeded"] == 1
}

fn available(deployment: &Value) -> bool {
    deployment["status"]["availableReplicas"] == 1
}

/// A sync with hooks, waves and deployments, killed at one point.
async fn killed_at(test: &str, point: Point) {
    let Some(mut world) = World::start(test).await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[JOBS, DEPLOYMENTS, CONFIG_MAPS]).await;
    let objects = [
        simulated(hook("before", "PreSync"), "ready-after=1s"),
        config_map("settings", "1"),
        simulated(deployment("first", 1), "ready-after=1s"),
        wave(deployment("second", 1), 1),
        simulated(hook("after", "PostSync"), "ready-after=1s"),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    match point {
        Point::Operation => catch(&world, APPS, &world.cp, &app, |app| !app["operation"].is_null()).await,
        Point::Object(kind, name, holds) => catch(&world, kind, &ns, name, holds).await,
    }
    world.kill().await;
    let at = world.app(&app).await;
    assert!(!at["operation"].is_null(), "the operation was over before the kill");
    world.restart().await;
    let done = world.until_synced(&app).await;
    assert_eq!(done["status"]["operationState"]["phase"], "Succeeded", "{done:#}");
    assert_eq!(done["status"]["history"].as_array().map(Vec::len), Some(1), "{done:#}");
    // It is the same operation, at the same commit.
    assert_eq!(
        done["status"]["operationState"]["syncResult"]["revision"],
        at["status"]["operationState"]["syncResult"]["revision"]
    );
    for name in ["before", "settings", "first", "second", "after"] {
        assert_eq!(births.times(name), 1, "{name}: {:?}", births.created());
    }
    for job in world.api.list(JOBS, &ns).await {
        let finalizers = job["metadata"]["finalizers"].to_string();
        assert!(!finalizers.contains("hook-finalizer"), "{finalizers}");
        assert!(finished(&job), "{job:#}");
    }
    world.assert_quiet(Duration::from_secs(3)).await;
    assert_eq!((births.times("before"), births.times("after")), (1, 1));
    world.finish().await;
}

#[tokio::test]
async fn inv_9_killed_when_the_operation_is_written() {
    killed_at("kill1", Point::Operation).await;
}

#[tokio::test]
async fn inv_9_killed_when_a_hook_is_created() {
    killed_at("kill2", Point::Object(JOBS, "before", exists)).await;
}

#[tokio::test]
async fn inv_9_killed_when_a_hook_is_finished() {
    killed_at("kill3", Point::Object(JOBS, "before", finished)).await;
}

#[tokio::test]
async fn inv_9_killed_when_the_first_wave_is_applied() {
    killed_at("kill4", Point::Object(DEPLOYMENTS, "first", exists)).await;
}

#[tokio::test]
async fn inv_9_killed_when_the_first_wave_is_healthy() {
    killed_at("kill5", Point::Object(DEPLOYMENTS, "first", available)).await;
}

#[tokio::test]
async fn inv_9_killed_when_the_second_wave_is_applied() {
    killed_at("kill6", Point::Object(DEPLOYMENTS, "second", exists)).await;
}

#[tokio::test]
async fn inv_9_killed_when_the_last_hook_is_created() {
    killed_at("kill7", Point::Object(JOBS, "after", exists)).await;
}

/// The last hook is done, its result is not recorded yet: kwok needs a second, the program far less.
#[tokio::test]
async fn inv_9_killed_while_the_last_hook_runs() {
    let active = |job: &Value| job["status"]["active"] == 1 && job["status"]["ready"] != 1;
    killed_at("kill8", Point::Object(JOBS, "after", active)).await;
}

#[tokio::test]
async fn inv_9_killed_during_a_prune() {
    let Some(mut world) = World::start("kill9").await else { return };
    let ns = world.namespace("ns").await;
    let mut held = wave(config_map("held", "1"), 1);
    held["metadata"]["finalizers"] = json!(["e2e.tiphys.dev/hold"]);
    let old = file(&[held, config_map("old", "1")]);
    let repo =
        world.repo("app", &[("old.yaml", &old), ("keep.yaml", &file(&[config_map("keep", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let births = Births::watch(&world.api, &ns, &[JOBS]).await;
    let after = simulated(hook("after", "PostSync"), "ready-after=1s");
    world.push(&repo, &[("old.yaml", ""), ("after.yaml", &file(&[after]))]).await;
    catch(&world, CONFIG_MAPS, &ns, "held", |cm| cm["metadata"]["deletionTimestamp"].is_string()).await;
    world.kill().await;
    world.restart().await;
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await, "the next wave does not go before this one");
    world.api.patch(CONFIG_MAPS, &ns, "held", &json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    let done =
        world.until_app(&app, "the hook ran", |app| is_synced(app) && births.times("after") == 1).await;
    assert_eq!(done["status"]["operationState"]["phase"], "Succeeded");
    assert_eq!(done["status"]["history"].as_array().map(Vec::len), Some(2));
    assert!(world.exists(CONFIG_MAPS, &ns, "keep").await);
    world.assert_quiet(Duration::from_secs(3)).await;
    assert_eq!(births.times("after"), 1);
    world.finish().await;
}

#[tokio::test]
async fn inv_9_killed_during_a_deletion() {
    let Some(mut world) = World::start("kill10").await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[JOBS]).await;
    let goodbye = simulated(hook("goodbye", "PreDelete"), "ready-after=1s");
    let policy = [("argocd.argoproj.io/hook-delete-policy", "HookSucceeded")];
    let mut held = wave(config_map("held", "1"), 1);
    held["metadata"]["finalizers"] = json!(["e2e.tiphys.dev/hold"]);
    let objects = [annotated(goodbye, &policy), held, config_map("cm", "1"), deployment("web", 1)];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let finalizer = json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}});
    let mut change = automated();
    crate::world::merge(&mut change, &finalizer);
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    assert_eq!(births.times("goodbye"), 0);
    world.api.delete(APPS, &world.cp, &app).await;
    catch(&world, JOBS, &ns, "goodbye", exists).await;
    world.kill().await;
    world.restart().await;
    catch(&world, CONFIG_MAPS, &ns, "held", |cm| cm["metadata"]["deletionTimestamp"].is_string()).await;
    world.kill().await;
    world.restart().await;
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await, "the next wave does not go before this one");
    world.api.patch(CONFIG_MAPS, &ns, "held", &json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(APPS, &world.cp, &app).await;
    for (kind, name) in [(CONFIG_MAPS, "cm"), (CONFIG_MAPS, "held"), (DEPLOYMENTS, "web"), (JOBS, "goodbye")]
    {
        world.until_gone(kind, &ns, name).await;
    }
    assert_eq!(births.times("goodbye"), 1);
    world.finish().await;
}
