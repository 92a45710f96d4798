//! Waves: what waits for what, in which order objects go.

use serde_json::{Value, json};

use crate::api::{CONFIG_MAPS, DEPLOYMENTS};
use crate::births::Births;
use crate::fixtures::{
    automated, automated_with, config_map, deployment, file, manual, simulated, sync_options, wave,
};
use crate::world::{World, result_of};

#[tokio::test]
async fn eng_168_a_wave_waits_for_health() {
    let Some(mut world) = World::start("waves").await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[DEPLOYMENTS, CONFIG_MAPS]).await;
    let files = [
        wave(simulated(deployment("first", 2), "ready-after=2s"), -1),
        deployment("second", 1),
        wave(config_map("third", "1"), 1),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&files))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    let waiting = |app: &Value| {
        app["status"]["operationState"]["message"] == "waiting for healthy state of apps/Deployment/first"
    };
    world.until_app(&app, "waits for the first wave", waiting).await;
    assert!(!world.exists(DEPLOYMENTS, &ns, "second").await);
    world.until_synced(&app).await;
    let mut order = births.created();
    order.retain(|name| name != "kube-root-ca.crt");
    assert_eq!(order, ["first", "second", "third"]);
    let available = |deployment: &Value| {
        let conditions = deployment["status"]["conditions"].as_array().unwrap().clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == "Available").unwrap();
        found["lastTransitionTime"].as_str().unwrap().to_owned()
    };
    let first = world.api.get(DEPLOYMENTS, &ns, "first").await.unwrap();
    let second = world.api.get(DEPLOYMENTS, &ns, "second").await.unwrap();
    let third = world.api.get(CONFIG_MAPS, &ns, "third").await.unwrap();
    assert!(available(&first).as_str() <= second["metadata"]["creationTimestamp"].as_str().unwrap());
    assert!(available(&second).as_str() <= third["metadata"]["creationTimestamp"].as_str().unwrap());
    world.finish().await;
}

#[tokio::test]
async fn eng_154_prunes_run_in_reverse() {
    let Some(mut world) = World::start("prunes").await else { return };
    let ns = world.namespace("ns").await;
    let objects: Vec<Value> = [(-1, "low"), (0, "middle"), (5, "high")]
        .into_iter()
        .map(|(number, name)| wave(config_map(name, "1"), number))
        .collect();
    let keep = file(&[config_map("keep", "1")]);
    let repo = world.repo("app", &[("old.yaml", &file(&objects)), ("keep.yaml", &keep)]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let births = Births::watch(&world.api, &ns, &[CONFIG_MAPS]).await;
    world.push(&repo, &[("old.yaml", "")]).await;
    world.until_gone(CONFIG_MAPS, &ns, "low").await;
    world.until_synced(&app).await;
    assert_eq!(births.deleted(), ["high", "middle", "low"]);
    world.finish().await;
}

#[tokio::test]
async fn eng_154_prune_last() {
    let Some(mut world) = World::start("prunelast").await else { return };
    let ns = world.namespace("ns").await;
    let old = [sync_options(config_map("old", "1"), "PruneLast=true"), config_map("early", "1")];
    let repo = world
        .repo("app", &[("old.yaml", &file(&old)), ("keep.yaml", &file(&[config_map("keep", "1")]))])
        .await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let births = Births::watch(&world.api, &ns, &[CONFIG_MAPS]).await;
    let slow = wave(simulated(deployment("slow", 1), "ready-after=2s"), 3);
    world.push(&repo, &[("old.yaml", ""), ("new.yaml", &file(&[slow]))]).await;
    world.until_object(DEPLOYMENTS, &ns, "slow", "exists", |_| true).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await);
    assert!(!world.exists(CONFIG_MAPS, &ns, "early").await);
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.until_synced(&app).await;
    assert_eq!(births.deleted(), ["early", "old"]);
    world.finish().await;
}

#[tokio::test]
async fn eng_152_namespaces_and_definitions_come_first() {
    let Some(mut world) = World::start("order").await else { return };
    let ns = world.later_namespace("ns");
    let group = format!("{}.test", world.name("g"));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("sails.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "sails", "singular": "sail", "kind": "Sail", "listKind": "SailList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let sail = json!({"apiVersion": format!("{group}/v1"), "kind": "Sail", "metadata": {"name": "main"},
        "spec": {"area": 12}});
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
    // In the order of their names each would come too early.
    let files = [
        ("a.yaml", file(&[wave(sail, -1)])),
        ("b.yaml", file(&[wave(definition, 2)])),
        ("c.yaml", file(&[wave(space, 1)])),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let repo = world.repo("app", &files).await;
    let app =
        world.create("app", &repo, ".", &ns, &automated_with(&["SkipDryRunOnMissingResource=true"])).await;
    world.until_synced(&app).await;
    let kind = format!("{group}/v1/sails");
    let live = world.api.get(&kind, &ns, "main").await.unwrap();
    assert_eq!(live["spec"]["area"], 12);
    // The kind is followed from now on: edits are healed.
    world.api.patch(&kind, &ns, "main", &json!({"spec": {"area": 1}})).await;
    world.until_object(&kind, &ns, "main", "is healed", |sail| sail["spec"]["area"] == 12).await;
    let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
    world.kill().await;
    world.api.delete(definitions, "", &format!("sails.{group}")).await;
    world.restart().await;
    world.finish().await;
}

#[tokio::test]
async fn eng_168_a_degraded_wave_fails_the_sync() {
    let Some(mut world) = World::start("degraded").await else { return };
    let ns = world.namespace("ns").await;
    let mut bad = deployment("bad", 1);
    bad["spec"]["progressDeadlineSeconds"] = json!(2);
    let files = [simulated(bad, "never-ready"), wave(config_map("later", "1"), 1)];
    let repo = world.repo("app", &[("all.yaml", &file(&files))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Failed", "{state:#}");
    assert_eq!(result_of(&state, "Deployment", "bad")["hookPhase"], "Failed", "{state:#}");
    assert!(!world.exists(CONFIG_MAPS, &ns, "later").await);
    world.until_app(&app, "Degraded", |app| app["status"]["health"]["status"] == "Degraded").await;
    world.finish().await;
}
