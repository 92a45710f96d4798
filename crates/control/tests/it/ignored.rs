//! Differences that somebody else is to make: rules that name field managers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::world::{URL, World};

const APPLICATION: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
/// Long enough for an event, a comparison and a sync.
const SOON: Duration = Duration::from_mins(1);

fn commit(world: &World, image: &str) {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]}}}});
    let files = BTreeMap::from([("shop/web.yaml".to_owned(), Bytes::from(deployment.to_string()))]);
    world.servers.commit(URL, "main", files, 0).unwrap();
}

fn change(world: &World, patch: &Value) {
    world.ask(Method::PATCH, APPLICATION, patch);
}

/// An autoscaler sets the replicas as the real one does.
fn scale(world: &World, replicas: u64) {
    let patch = json!({"spec": {"replicas": replicas}});
    world.ask(Method::PATCH, &format!("{DEPLOYMENT}/scale?fieldManager=autoscaler"), &patch);
}

fn replicas(world: &World) -> Value {
    world.get(DEPLOYMENT).pointer("/spec/replicas").cloned().unwrap_or_default()
}

fn sync_status(world: &World) -> Value {
    world.get(APPLICATION).pointer("/status/sync/status").cloned().unwrap_or_default()
}

fn rule() -> Value {
    json!([{"group": "apps", "kind": "Deployment", "managedFieldsManagers": ["autoscaler"]}])
}

/// ENG-70: on objects that were applied client-side too, what a named manager owns is no difference, now and after
/// every later change, and nobody else's change is ignored.
#[tokio::test(start_paused = true)]
async fn eng_70_what_a_named_manager_owns_is_no_difference() {
    let world = World::start().await;
    commit(&world, "shop:1");
    world.create();
    world.pass(SOON).await;
    change(&world, &json!({"spec": {"ignoreDifferences": rule()}}));
    scale(&world, 7);
    world.pass(SOON).await;
    assert_eq!(sync_status(&world), "Synced");
    assert_eq!(replicas(&world), 7, "self-heal leaves the autoscaler alone");
    scale(&world, 9);
    world.pass(SOON).await;
    assert_eq!((sync_status(&world), replicas(&world)), (json!("Synced"), json!(9)));

    // Somebody else's change of another field is still one.
    change(&world, &json!({"spec": {"syncPolicy": {"automated": null}}}));
    let paused =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "shop:other"}]}}}});
    world.ask(Method::PATCH, &format!("{DEPLOYMENT}?fieldManager=somebody"), &paused);
    world.pass(SOON).await;
    assert_eq!(sync_status(&world), "OutOfSync");
}

/// ENG-181: with `RespectIgnoreDifferences=true` a sync of something else leaves what the manager owns.
#[tokio::test(start_paused = true)]
async fn eng_181_a_sync_leaves_what_a_named_manager_owns() {
    let world = World::start().await;
    commit(&world, "shop:1");
    world.create();
    let options = json!(["RespectIgnoreDifferences=true"]);
    change(&world, &json!({"spec": {"ignoreDifferences": rule(), "syncPolicy": {"syncOptions": options}}}));
    world.pass(SOON).await;
    scale(&world, 7);
    world.pass(SOON).await;
    commit(&world, "shop:2");
    world.pass(Duration::from_mins(10)).await;
    let live = world.get(DEPLOYMENT);
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "shop:2");
    assert_eq!(live["spec"]["replicas"], 7);
    assert_eq!(sync_status(&world), "Synced");
}
