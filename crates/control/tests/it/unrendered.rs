//! What cannot be rendered is not empty: its objects stay, and the status says that nothing is known (INV-1,
//! INV-15).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::world::{URL, World};

const MOMENT: Duration = Duration::from_secs(30);

const OTHER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n";

fn files(shop: &str) -> BTreeMap<String, Bytes> {
    let file = |name: &str, text: &str| (name.to_owned(), Bytes::copy_from_slice(text.as_bytes()));
    BTreeMap::from([file("shop/shop.yaml", shop), file("shop/other.yaml", OTHER)])
}

/// An application that has synced two objects, whose file or spec is then changed.
async fn synced() -> World {
    let world = World::start().await;
    let shop = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\ndata: {value: old}\n";
    world.servers.commit(URL, "main", files(shop), 0).unwrap();
    world.create();
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "old");
    world
}

fn is_unknown_because(world: &World, why: &str) {
    let app = world.app();
    let conditions = app.pointer("/status/conditions").unwrap_or(&Value::Null).to_string();
    assert_eq!(app.pointer("/status/sync/status"), Some(&json!("Unknown")), "{conditions}");
    assert!(conditions.contains(why), "{conditions}");
}

/// A sync of the newest revision that prunes, as a user asks for it.
async fn sync_and_prune(world: &World) {
    world.change(&json!({"operation": {"sync": {"revision": "", "prune": true}}}));
    world.pass(MOMENT).await;
}

async fn keeps_when_file_becomes(shop: &str, why: &str) {
    let world = synced().await;
    world.servers.commit(URL, "main", files(shop), 1).unwrap();
    world.pass(Duration::from_mins(6)).await;
    is_unknown_because(&world, why);
    sync_and_prune(&world).await;
    assert_eq!(world.value(), "old");
}

/// C15: the pointer is no manifest, so the object was pruned.
#[tokio::test(start_paused = true)]
async fn inv_1_a_manifest_that_becomes_an_lfs_pointer_keeps_its_object() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n";
    keeps_when_file_becomes(pointer, "Git LFS").await;
}

/// C15, RND-76: a file that lost `metadata:` with its second half was ignored, and its object pruned.
#[tokio::test(start_paused = true)]
async fn rnd_76_a_manifest_that_is_broken_half_way_keeps_its_object() {
    keeps_when_file_becomes("apiVersion: v1\nkind: ConfigMap\nmeta", "Failed to unmarshal").await;
}

const ALLOW_EMPTY: &str = r#"{"source": null,
    "syncPolicy": {"automated": {"prune": true, "selfHeal": true, "allowEmpty": true}}}"#;

fn spec(sources: &Value) -> Value {
    let mut spec = serde_json::from_str::<Value>(ALLOW_EMPTY).unwrap();
    spec.as_object_mut().unwrap().extend(sources.as_object().unwrap().clone());
    json!({"spec": spec})
}

/// C15: an application with nothing but a hydrator had no targets, and everything was prunable. A branch that nobody has
/// written yet says nothing about what is wanted.
#[tokio::test(start_paused = true)]
async fn inv_1_an_application_with_only_a_hydrator_keeps_its_objects() {
    let hydrator = json!({"drySource": {"repoURL": URL, "path": "dry", "targetRevision": "main"},
        "syncSource": {"targetBranch": "env", "path": "shop"}});
    let source = json!({"repoURL": URL, "path": "shop", "targetRevision": "main"});
    for beside in [Value::Null, source] {
        let world = synced().await;
        world.change(&spec(&json!({"sourceHydrator": hydrator, "source": beside})));
        world.pass(Duration::from_mins(6)).await;
        is_unknown_because(&world, "unable to resolve 'env'");
        is_unknown_because(&world, "hydrator.enabled is not");
        sync_and_prune(&world).await;
        assert_eq!(world.value(), "old");
    }
}

/// C16: the root of the repository was rendered, and what lay there created.
#[tokio::test(start_paused = true)]
async fn ctl_136_a_lone_ref_source_renders_nothing() {
    let world = World::start().await;
    let root = BTreeMap::from([("other.yaml".to_owned(), Bytes::from_static(OTHER.as_bytes()))]);
    world.servers.commit(URL, "main", root, 0).unwrap();
    world.create();
    world.change(&spec(&json!({"sources": [{"repoURL": URL, "ref": "values", "targetRevision": "main"}]})));
    world.pass(MOMENT).await;
    let app = world.app();
    assert_eq!(app["status"]["sync"]["status"], "Synced", "{app}");
    assert_eq!(app["status"]["resources"].as_array().map_or(0, Vec::len), 0);
    assert!(world.get("/api/v1/namespaces/default/configmaps/other")["data"].is_null());
    assert_eq!(world.get("/api/v1/namespaces/default/configmaps/other")["kind"], "Status");
}

/// C16: where nothing is rendered, nothing says that an object is not wanted any more.
#[tokio::test(start_paused = true)]
async fn inv_1_a_lone_ref_source_prunes_nothing() {
    let world = synced().await;
    world.change(&spec(&json!({"sources": [{"repoURL": URL, "ref": "values", "targetRevision": "main"}]})));
    world.pass(MOMENT).await;
    is_unknown_because(&world, "no source of the application renders manifests");
    sync_and_prune(&world).await;
    assert_eq!(world.value(), "old");
}

/// SEC-08, INV-1: a chart that cannot be had is not a chart without objects: the application says so, and keeps what it
/// has.
#[tokio::test(start_paused = true)]
async fn sec_08_a_chart_that_cannot_be_had_prunes_nothing() {
    let world = synced().await;
    world.create_with(&json!({"spec": {"source":
        {"repoURL": "https://charts.example", "chart": "shop", "path": null, "targetRevision": "1.0.0"}}}));
    world.pass(Duration::from_mins(6)).await;
    is_unknown_because(&world, "charts and artifacts cannot be had from repositories in memory");
    sync_and_prune(&world).await;
    assert_eq!(world.value(), "old");
}
