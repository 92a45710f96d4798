//! The command line in core mode renders what the controller renders.

use serde_json::{Value, json};

use crate::api::CONFIG_MAPS;
use crate::fixtures::{config_map, file, manual};
use crate::world::{World, conditions, merge};

/// `app manifests` of an application: whether it succeeded, and what it printed.
async fn manifests(world: &World, app: &str) -> (bool, String) {
    world.command(&["app", "manifests", app, "-N", &world.cp]).await
}

/// CTL-136, RND-15: a source that is only referenced gives no manifests, alone neither.
/// REP-200: where a project wants signatures, nothing unsigned is rendered.
#[tokio::test]
async fn ctl_136_rep_200_core_mode_renders_what_the_controller_renders() {
    let Some(mut world) = World::start("core-mode").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let plain = world.create("plain", &repo, ".", &ns, &manual()).await;
    let mut lone = manual();
    merge(&mut lone, &json!({"spec": {"source": {"ref": "values"}}}));
    let lone = world.create("lone", &repo, "", &ns, &lone).await;
    let keys = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]});
    world.project("signed", &keys).await;
    let mut signed = manual();
    merge(&mut signed, &json!({"spec": {"project": "signed"}}));
    let signed = world.create("signed", &repo, ".", &ns, &signed).await;

    let is_compared = |app: &Value| app.pointer("/status/reconciledAt").is_some_and(Value::is_string);
    world.until_app(&plain, "compared", is_compared).await;
    let seen = world.until_app(&lone, "compared", is_compared).await;
    assert!(seen["status"]["resources"].as_array().is_none_or(Vec::is_empty), "{seen}");
    let refusal =
        |app: &Value| conditions(app, "ComparisonError").iter().any(|c| c.contains(": unsigned (key_id=)"));
    world.until_app(&signed, "refused", refusal).await;

    let (is_done, printed) = manifests(&world, &plain).await;
    assert!(is_done && printed.contains("kind: ConfigMap"), "{printed}");
    let (is_done, printed) = manifests(&world, &lone).await;
    assert!(is_done && !printed.contains("ConfigMap"), "{printed}");
    let (is_done, printed) = manifests(&world, &signed).await;
    assert!(
        !is_done && printed.contains(": unsigned (key_id=)") && !printed.contains("kind: ConfigMap"),
        "{printed}"
    );
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await, "nothing was synced");
    world.finish().await;
}
