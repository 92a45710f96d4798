//! Changes of live objects from which nothing follows.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::world::{URL, World};

const APPLICATION: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop";
const CONFIG_MAPS: &str = "/api/v1/namespaces/argocd/configmaps";
const SERVICE: &str = "/api/v1/namespaces/default/services/shop";
/// Long enough for an event, a comparison and a sync, shorter than the periodic comparison.
const SOON: Duration = Duration::from_secs(2);

/// An application with one Service, synced and at rest; self-heal is off, so that drift stays visible.
async fn settled(settings: &Value) -> World {
    let world = World::start().await;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": settings,
        "metadata": {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
    world.ask(Method::POST, CONFIG_MAPS, &settings);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "shop"}}});
    let files = BTreeMap::from([("shop/shop.yaml".to_owned(), Bytes::from(service.to_string()))]);
    world.servers.commit(URL, "main", files, 0).unwrap();
    world.create();
    world.ask(
        Method::PATCH,
        APPLICATION,
        &json!({"spec": {"syncPolicy": {"automated": {"selfHeal": false}}}}),
    );
    world.pass(Duration::from_secs(30)).await;
    world
}

/// Forty changes of the status and nothing else; the number of comparisons they cause.
async fn heartbeats(world: &World) -> u64 {
    let before = world.comparisons();
    for beat in 0..40 {
        let condition = json!([{"type": "Beat", "status": "True", "reason": format!("N{beat}"), "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        world.ask(Method::PATCH, &format!("{SERVICE}/status"), &json!({"status": {"conditions": condition}}));
        world.pass(SOON).await;
    }
    world.comparisons() - before
}

fn sync_status(world: &World) -> Value {
    world.get(APPLICATION).pointer("/status/sync/status").cloned().unwrap_or_default()
}

/// CTL-95: what is no difference is no reason to compare either; what may be one is seen at once.
#[tokio::test(start_paused = true)]
async fn ctl_95_forty_heartbeats_cause_no_comparison() {
    let world = settled(&json!({})).await;
    assert_eq!(sync_status(&world), "Synced");
    // The first change of an object is looked at: nobody knows what it was before.
    let caused = heartbeats(&world).await;
    assert!(caused <= 1, "{caused} comparisons");
    world.ask(Method::PATCH, SERVICE, &json!({"spec": {"selector": {"app": "other"}}}));
    world.pass(SOON).await;
    assert_eq!(sync_status(&world), "OutOfSync");
    world.ask(Method::PATCH, SERVICE, &json!({"spec": {"selector": {"app": "shop"}}}));
    world.pass(SOON).await;
    assert_eq!(sync_status(&world), "Synced");
}

/// CTL-95: the switch turns it off.
#[tokio::test(start_paused = true)]
async fn ctl_95_every_change_is_a_reason_where_the_settings_say_so() {
    let world = settled(&json!({"resource.ignoreResourceUpdatesEnabled": "false"})).await;
    assert!(heartbeats(&world).await >= 40);
}

/// CTL-95, CTL-96: `ignoreResourceUpdates` names further fields, here an annotation that no rule of differences
/// names.
#[tokio::test(start_paused = true)]
async fn ctl_95_named_fields_are_no_reason() {
    let beat = |world: &World, text: &str| {
        world.ask(Method::PATCH, SERVICE, &json!({"metadata": {"annotations": {"beat": text}}}));
    };
    let rules = "jsonPointers:\n- /metadata/annotations/beat\n";
    for (settings, expected) in [
        (json!({"resource.customizations.ignoreResourceUpdates.Service": rules}), 0),
        (json!({"resource.customizations.ignoreResourceUpdates.all": rules}), 0),
        (json!({"resource.customizations.ignoreResourceUpdates.apps_Deployment": rules}), 5),
    ] {
        let world = settled(&settings).await;
        beat(&world, "first");
        world.pass(SOON).await;
        let before = world.comparisons();
        for n in 0..5 {
            beat(&world, &n.to_string());
            world.pass(SOON).await;
        }
        assert_eq!(world.comparisons() - before, expected, "{settings}");
    }
}
