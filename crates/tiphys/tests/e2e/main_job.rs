//! The main job: what is pushed is there, what is edited is healed, what is removed is pruned, and what is
//! broken harms nothing.

use serde_json::json;

use crate::api::{CONFIG_MAPS, DEPLOYMENTS};
use crate::fixtures::{automated, config_map, deployment, file};
use crate::world::{World, conditions, is_synced};

#[tokio::test]
async fn ctl_32_the_main_job() {
    let Some(mut world) = World::start("main").await else { return };
    let ns = world.namespace("ns").await;
    let web = file(&[deployment("web", 1)]);
    let files = [
        ("web/web.yaml", web.as_str()),
        ("web/a.yaml", &file(&[config_map("a", "1")])),
        ("web/b.yaml", &file(&[config_map("b", "1")])),
    ];
    let repo = world.repo("app", &files).await;
    let app = world.create("web", &repo, "web", &ns, &automated()).await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sync"]["revision"], repo.head().await);
    assert_eq!(synced["status"]["operationState"]["phase"], "Succeeded");
    assert_eq!(synced["status"]["operationState"]["operation"]["initiatedBy"]["automated"], true);
    let live = world.api.get(CONFIG_MAPS, &ns, "a").await.unwrap();
    let id = format!("{app}:/ConfigMap:{ns}/a");
    assert_eq!(live["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"], id);

    // A push is live, because it is announced: the interval is two minutes.
    let commit = world.push(&repo, &[("web/a.yaml", &file(&[config_map("a", "2")]))]).await;
    world.until_object(CONFIG_MAPS, &ns, "a", "has the new value", |cm| cm["data"]["key"] == "2").await;
    let of_commit = |app: &serde_json::Value| is_synced(app) && app["status"]["sync"]["revision"] == commit;
    world.until_app(&app, "at the new commit", of_commit).await;

    // Live edits are healed.
    world.api.patch(CONFIG_MAPS, &ns, "a", &json!({"data": {"key": "hand-made", "other": "x"}})).await;
    world.until_object(CONFIG_MAPS, &ns, "a", "is healed", |cm| cm["data"]["key"] == "2").await;
    world.api.patch(DEPLOYMENTS, &ns, "web", &json!({"spec": {"replicas": 3}})).await;
    world.until_object(DEPLOYMENTS, &ns, "web", "is healed", |d| d["spec"]["replicas"] == 1).await;
    world.api.delete(CONFIG_MAPS, &ns, "b").await;
    world.until_object(CONFIG_MAPS, &ns, "b", "is back", |_| true).await;
    world.until_synced(&app).await;

    // A file that goes takes its object along.
    world.push(&repo, &[("web/b.yaml", "")]).await;
    world.until_gone(CONFIG_MAPS, &ns, "b").await;
    world.until_synced(&app).await;

    // What cannot be read shows its error; nothing is lost.
    let before = world.versions().await;
    world.push(&repo, &[("web/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n")]).await;
    let broken = world.until_app(&app, "unknown", |app| app["status"]["sync"]["status"] == "Unknown").await;
    let texts = conditions(&broken, "ComparisonError");
    assert!(texts.iter().any(|text| text.starts_with("Failed to load target state: ")), "{texts:?}");
    assert_eq!(broken["status"]["health"]["status"], "Healthy");
    let mut after = world.versions().await;
    after.retain(|key, _| !key.contains("/applications "));
    assert!(before.iter().filter(|(key, _)| !key.contains("/applications ")).eq(after.iter()));

    // And it is repaired.
    world.push(&repo, &[("web/a.yaml", &file(&[config_map("a", "3")]))]).await;
    world.until_object(CONFIG_MAPS, &ns, "a", "is repaired", |cm| cm["data"]["key"] == "3").await;
    let repaired = world.until_synced(&app).await;
    assert!(conditions(&repaired, "ComparisonError").is_empty());
    assert!(world.metrics().await.contains("argocd_app_info"));
    world.finish().await;
}
