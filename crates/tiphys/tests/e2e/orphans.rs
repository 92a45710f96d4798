//! Objects beside an application that nobody declares.

use serde_json::{Value, json};

use crate::api::{CONFIG_MAPS, DEPLOYMENTS};
use crate::fixtures::{automated, config_map, deployment, file};
use crate::world::{World, conditions, merge};

/// REP-195..197, TRK-135: what somebody left in the namespace is counted with everything it made; what the application and
/// its neighbour declare, what their controllers make of it, and what every namespace has is not.
#[tokio::test]
async fn rep_195_leftovers_are_counted() {
    let Some(mut world) = World::start("orphans").await else { return };
    let ns = world.namespace("ns").await;
    let team = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "orphanedResources": {"warn": true, "ignore": [{"group": "", "kind": "ConfigMap", "name": "ignored"}]}});
    world.project("team", &team).await;
    let repo = world.repo("app", &[("web.yaml", &file(&[deployment("web", 1)]))]).await;
    let other = world.repo("other", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let mut change = automated();
    merge(&mut change, &json!({"spec": {"project": "team"}}));
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let neighbour = world.create("neighbour", &other, ".", &ns, &change).await;
    world.until_synced(&app).await;
    world.until_synced(&neighbour).await;
    let seen = world.refresh(&app, "normal").await;
    assert_eq!(conditions(&seen, "OrphanedResourceWarning"), Vec::<String>::new());

    for mut left in [deployment("left", 1), config_map("ignored", "1")] {
        left["metadata"]["namespace"] = json!(ns);
        let kind = if left["kind"] == "Deployment" { DEPLOYMENTS } else { CONFIG_MAPS };
        world.api.apply(kind, &left).await;
    }
    // The Deployment, its ReplicaSet and its Pod; a watch may be a moment late.
    let look = || world.refresh(&app, "normal");
    let says = |text: &'static str| move |app: &Value| conditions(app, "OrphanedResourceWarning") == [text];
    world.until("three are counted", look, says("Application has 3 orphaned resources")).await;
    world.until_synced(&app).await;
    world.api.delete(DEPLOYMENTS, &ns, "left").await;
    let is_over = |app: &Value| conditions(app, "OrphanedResourceWarning").is_empty();
    world.until("none is left", look, is_over).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "ignored").await && world.exists(DEPLOYMENTS, &ns, "web").await);
    world.finish().await;
}
