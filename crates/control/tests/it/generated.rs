//! Objects whose names the server makes, with and without a hook.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::world::World;

const APPLICATION: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/shop";
/// Long enough for several comparisons and self-heals.
const LONG: Duration = Duration::from_mins(10);

/// A Job without a name, and a `ConfigMap` that holds a value.
fn commit(world: &World, annotations: &Value, value: &str) {
    world.commit_with_job(&json!({"generateName": "migrate-", "annotations": annotations}), value);
}

fn jobs(world: &World) -> usize {
    world.get(JOBS).pointer("/items").and_then(Value::as_array).map_or(0, Vec::len)
}

/// INV-5: what the server names is made once per revision; a self-heal of something else, or of nothing, makes no
/// further one.
#[tokio::test(start_paused = true)]
async fn inv_5_an_object_that_the_server_names_is_made_once_per_revision() {
    let world = World::start().await;
    let replaced = json!({"argocd.argoproj.io/sync-options": "Replace=true"});
    commit(&world, &replaced, "one");
    world.create();
    world.pass(LONG).await;
    assert_eq!((jobs(&world), world.value().as_str()), (1, "one"));
    for _ in 0..3 {
        world.ask(Method::DELETE, CONFIG_MAP, &Value::Null);
        world.pass(LONG).await;
        assert_eq!((jobs(&world), world.value().as_str()), (1, "one"));
    }
    commit(&world, &replaced, "two");
    world.pass(LONG).await;
    assert_eq!((jobs(&world), world.value().as_str()), (2, "two"));
}

/// ENG-175: what would be applied needs a name, as `kubectl` has it; nothing is made, now or later.
#[tokio::test(start_paused = true)]
async fn eng_175_an_object_without_a_name_is_not_applied() {
    let world = World::start().await;
    commit(&world, &json!({}), "one");
    world.create();
    world.pass(LONG).await;
    assert_eq!((jobs(&world), world.value().as_str()), (0, ""));
    let app = world.get(APPLICATION);
    let state = app.pointer("/status/operationState").map(Value::to_string).unwrap_or_default();
    assert!(state.contains("from migrate-: cannot use generate name with apply"), "{state}");
}

/// INV-17: a cascade takes along the hooks whose names were made from `generateName`.
#[tokio::test(start_paused = true)]
async fn inv_17_hooks_with_generated_names_go_with_the_application() {
    let world = World::start().await;
    commit(&world, &json!({"argocd.argoproj.io/hook": "PreSync"}), "one");
    world.create();
    let finalizers = json!(["resources-finalizer.argocd.argoproj.io"]);
    world.ask(Method::PATCH, APPLICATION, &json!({"metadata": {"finalizers": finalizers}}));
    world.pass(LONG).await;
    assert_eq!((jobs(&world), world.value().as_str()), (1, "one"));
    world.ask(Method::DELETE, APPLICATION, &Value::Null);
    world.pass(LONG).await;
    assert_eq!(world.get(APPLICATION).pointer("/reason"), Some(&json!("NotFound")));
    assert_eq!((jobs(&world), world.value().as_str()), (0, ""));
}
