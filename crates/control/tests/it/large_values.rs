//! Applications whose inline values, texts or specs are nearly as large as an object may be (CTL-36).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::world::{URL, World};

const MOMENT: Duration = Duration::from_secs(10);
/// Object size that the database accepts.
const OBJECT_BYTES_MAX: usize = 1_572_864;

/// Commits a chart with one `ConfigMap` that holds `.Values.value`.
fn commit_chart(world: &World, template: &str) {
    let object =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shop}}\ndata:\n  value: {template}\n");
    let files = BTreeMap::from([
        ("shop/Chart.yaml".to_owned(), Bytes::from_static(b"apiVersion: v2\nname: shop\nversion: 1.0.0\n")),
        ("shop/templates/shop.yaml".to_owned(), Bytes::from(object)),
    ]);
    world.servers.commit(URL, "main", files, 0).unwrap();
}

/// Values of this many bytes.
fn values(value: &str, bytes: usize) -> Value {
    let text = format!("value: {value}\nfiller: {}\n", "x".repeat(bytes));
    json!({"spec": {"source": {"helm": {"values": text}}}})
}

fn bytes_of(value: &Value) -> usize {
    value.to_string().len()
}

/// B11: inline values are not stored in every copy, so new ones are synced however often, and `status.resources` stays.
#[tokio::test(start_paused = true)]
async fn ctl_36_large_inline_values_are_synced_again_and_again() {
    let world = World::start().await;
    commit_chart(&world, "{{ .Values.value }}");
    for round in 0..14 {
        let bytes = if round == 13 { 1_200_000 } else { 150_000 };
        world.create_with(&values(&format!("v{round}"), bytes));
        world.pass(MOMENT).await;
        assert_eq!(world.value(), format!("v{round}"));
        let app = world.app();
        assert_eq!(app["status"]["sync"]["status"], "Synced", "round {round}");
        assert_eq!(app["status"]["resources"].as_array().map(Vec::len), Some(1), "round {round}");
        assert!(bytes_of(&app) < OBJECT_BYTES_MAX, "{}", bytes_of(&app));
    }
    let history = world.app()["status"]["history"].as_array().cloned().unwrap_or_default();
    assert_eq!(history.len(), 10);
    let is_digest = |entry: &Value| {
        entry["source"]["helm"]["values"].as_str().is_some_and(|text| text.starts_with("tiphys.dev/omitted"))
    };
    assert!(is_digest(&history[0]) && is_digest(&history[9]), "the oldest, and the one that never fits");
    assert!(!is_digest(&history[8]), "the newest that fits can be rolled back to");
}

/// INV-5: a status with digests is stable.
#[tokio::test(start_paused = true)]
async fn inv_5_an_application_with_large_values_settles() {
    let world = World::start().await;
    commit_chart(&world, "{{ .Values.value }}");
    world.create_with(&values("v", 200_000));
    world.pass(Duration::from_mins(1)).await;
    let version = |app: &Value| app["metadata"]["resourceVersion"].clone();
    let before = version(&world.app());
    world.pass(Duration::from_mins(30)).await;
    assert_eq!(version(&world.app()), before);
}

/// INV-15: where no status fits beside the spec, a minimal one reports this.
#[tokio::test(start_paused = true)]
async fn ctl_36_a_spec_without_room_gets_a_minimal_status() {
    let world = World::start().await;
    commit_chart(&world, "{{ .Values.value }}");
    world.create_with(&values("v", 1_000));
    world.pass(MOMENT).await;
    assert_eq!(world.app()["status"]["sync"]["status"], "Synced");
    world.create_with(&values("w", 1_499_000));
    world.pass(MOMENT).await;
    let app = world.app();
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    assert_eq!(app["status"]["health"]["status"], "Unknown");
    let conditions = app["status"]["conditions"].to_string();
    assert!(conditions.contains("too large to be stored"), "{conditions}");
    assert_eq!(world.value(), "w", "it is synced all the same");
}

/// SEC-48: texts from repositories end at 8 KiB.
#[tokio::test(start_paused = true)]
async fn ctl_36_texts_from_repositories_are_bounded() {
    let world = World::start().await;
    commit_chart(&world, "{{ fail (repeat 300000 \"é\") }}");
    world.create();
    world.pass(MOMENT).await;
    let app = world.app();
    let text = app["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(text.contains("é") && text.len() <= 8_192, "{}", text.len());
}
