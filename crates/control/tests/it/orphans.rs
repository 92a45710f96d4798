//! Objects beside an application that nobody declares (REP-195..197, TRK-135, CTL-74).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use tiphys_cluster::Connection;

use crate::support::{HOME, control_plane};
use crate::world::World;

const MOMENT: Duration = Duration::from_secs(20);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn project(world: &World, orphaned: &Value) {
    world.project(
        "team",
        &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}], "orphanedResources": orphaned}),
    );
}

fn make(world: &World, kind: &str, metadata: &Value) -> Value {
    let target = format!("/api/v1/namespaces/default/{}s", kind.to_lowercase());
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    object["metadata"]["namespace"] = json!("default");
    world.ask(Method::POST, &target, &object)
}

/// What the condition says, after another look.
async fn warning(world: &World) -> Option<String> {
    world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(MOMENT).await;
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    let all = conditions.as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == "OrphanedResourceWarning")?;
    found["message"].as_str().map(str::to_owned)
}

fn says(count: usize) -> String {
    format!("Application has {count} orphaned resources")
}

/// REP-195..197, TRK-135: what nobody declares is counted with what is below it; what another application declares, the
/// project forbids or ignores, or every namespace has, is not.
#[tokio::test(start_paused = true)]
async fn rep_195_what_nobody_declares_is_counted() {
    let world = World::start().await;
    world.commit("one");
    project(&world, &json!({"warn": true, "ignore": [{"kind": "ConfigMap", "name": "ignored-*"}]}));
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    assert_eq!(warning(&world).await, None);

    let parent = make(&world, "ConfigMap", &json!({"name": "old"}));
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "old", "uid": parent["metadata"]["uid"]}]);
    make(&world, "ConfigMap", &json!({"name": "below", "ownerReferences": owner}));
    make(&world, "ConfigMap", &json!({"name": "ignored-1"}));
    make(&world, "Secret", &json!({"name": "forbidden"}));
    let mark = |app: &str, name: &str| {
        json!({"name": name, "annotations":
            {"argocd.argoproj.io/tracking-id": format!("{app}:/ConfigMap:default/{name}")}})
    };
    make(&world, "ConfigMap", &mark("gone", "of-gone"));
    make(&world, "ConfigMap", &mark("shop", "of-shop"));
    assert_eq!(
        warning(&world).await,
        Some(says(3)),
        "old, what is below it, and what was an application's that is gone"
    );
    let gauge = "argocd_app_orphaned_resources_count{name=\"shop\",namespace=\"argocd\",project=\"team\"} 3";
    assert!(world.metrics().contains(gauge), "{}", world.metrics());
    let gauge = "tiphys_tracking_objects{cluster=\"https://kubernetes.default.svc\",method=\"annotation\",state=\"owned\"} ";
    assert!(world.metrics().contains(gauge), "{}", world.metrics());

    world.ask(Method::DELETE, &format!("{CONFIG_MAPS}/of-gone"), &Value::Null);
    assert_eq!(warning(&world).await, Some(says(2)));
    for (orphaned, expected) in
        [(json!({"warn": null}), None), (json!({"warn": true}), Some(says(2))), (Value::Null, None)]
    {
        let target = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects/team";
        world.ask(Method::PATCH, target, &json!({"spec": {"orphanedResources": orphaned}}));
        world.pass(MOMENT).await;
        assert_eq!(warning(&world).await, expected, "{orphaned}");
    }
    assert_eq!(world.get(&format!("{CONFIG_MAPS}/old"))["metadata"]["name"], "old", "nothing is deleted");
}

/// INV-15: where a kind cannot be listed nothing is claimed: no number, and not that there are none.
#[tokio::test(start_paused = true)]
async fn rep_197_what_is_not_listed_makes_no_claim() {
    let sim = control_plane();
    let fails = Arc::new(AtomicBool::new(true));
    let (server, failing) = (sim.clone(), Arc::clone(&fails));
    let connection = Connection::over(HOME, move |request: Request<Bytes>| {
        let server = server.clone();
        let is_refused = request.uri().path() == "/api/v1/services" && failing.load(Ordering::Relaxed);
        async move { if is_refused { Err("connection reset".into()) } else { Ok(server.call(request).await) } }
    });
    let world = World::start_on(sim, connection, |_| {}).await;
    world.commit("one");
    project(&world, &json!({"warn": true}));
    make(&world, "ConfigMap", &json!({"name": "old"}));
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!((warning(&world).await, world.value().as_str()), (None, "one"));
    fails.store(false, Ordering::Relaxed);
    world.pass(Duration::from_mins(2)).await;
    assert_eq!(warning(&world).await, Some(says(1)));
}

/// The condition as it stands, without another look.
fn shown(world: &World) -> Option<String> {
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    let all = conditions.as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == "OrphanedResourceWarning")?;
    found["message"].as_str().map(str::to_owned)
}

/// TRK-90: an object that is nobody's comes and goes, and those who look for orphans in its namespace are told; nobody else
/// is, and a change of what is there already tells nobody.
#[tokio::test(start_paused = true)]
async fn trk_90_an_orphan_that_comes_or_goes_is_noticed() {
    let world = World::start().await;
    world.commit("one");
    project(&world, &json!({"warn": true}));
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(shown(&world), None);
    make(&world, "ConfigMap", &json!({"name": "old"}));
    world.pass(MOMENT).await;
    assert_eq!(shown(&world), Some(says(1)));

    let before = world.comparisons();
    world.change_object(&format!("{CONFIG_MAPS}/old"), &json!({"data": {"a": "b"}}));
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "argocd"}});
    world.ask(Method::POST, "/api/v1/namespaces/argocd/configmaps", &elsewhere);
    world.pass(MOMENT).await;
    assert_eq!(world.comparisons(), before);

    // One that was an application's which does not exist any more.
    let mark = json!({"argocd.argoproj.io/tracking-id": "gone:/ConfigMap:default/of-gone"});
    make(&world, "ConfigMap", &json!({"name": "of-gone", "annotations": mark}));
    world.pass(MOMENT).await;
    assert_eq!(shown(&world), Some(says(2)));
    for (name, left) in [("old", Some(says(1))), ("of-gone", None)] {
        world.ask(Method::DELETE, &format!("{CONFIG_MAPS}/{name}"), &Value::Null);
        world.pass(MOMENT).await;
        assert_eq!(shown(&world), left, "{name}");
    }

    // Who stops looking is told no more.
    let target = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects/team";
    world.ask(Method::PATCH, target, &json!({"spec": {"orphanedResources": null}}));
    world.pass(MOMENT).await;
    let before = world.comparisons();
    make(&world, "ConfigMap", &json!({"name": "later"}));
    world.pass(MOMENT).await;
    assert_eq!(world.comparisons(), before);
}
