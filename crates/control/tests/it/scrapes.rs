//! What a scrape tells of an application, from its first sync to its end.

use std::time::Duration;

use serde_json::json;

use crate::world::World;

const MOMENT: Duration = Duration::from_secs(10);
const SERVER: &str = "https://kubernetes.default.svc";

/// CTL-120, CTL-121, CTL-126, RND-249: what happens is counted, what the settings ask for is shown, and nothing is left of what
/// is gone.
#[tokio::test(start_paused = true)]
async fn ctl_120_a_scrape_tells_of_an_application_as_long_as_it_is_there() {
    let world = World::start_with(|options| {
        for (name, value) in [
            ("APPLICATION_LABELS", "team,tier"),
            ("APPLICATION_CONDITIONS", "ComparisonError"),
            ("CACHE_EXPIRATION", "1h"),
        ] {
            let name = format!("ARGOCD_APPLICATION_CONTROLLER_METRICS_{name}");
            options.env.insert(name, value.to_owned());
        }
    })
    .await;
    world.commit("one");
    world.create_with(&json!({"metadata": {"labels": {"team": "a"}}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let body = world.metrics();
    let app = "namespace=\"argocd\",name=\"shop\",project=\"default\"";
    for part in [
        "argocd_app_labels{name=\"shop\",namespace=\"argocd\",project=\"default\",label_team=\"a\",label_tier=\"\"} 1\n"
            .to_owned(),
        format!("argocd_app_sync_total{{{app},dest_server=\"{SERVER}\",phase=\"Succeeded\",dry_run=\"false\"}} 1\n"),
        format!("argocd_app_sync_duration_seconds_total{{{app},dest_server=\"{SERVER}\"}} "),
        format!(
            "argocd_app_k8s_request_total{{{app},server=\"{SERVER}\",response_code=\"201\",verb=\"Create\",\
             resource_kind=\"ConfigMap\",resource_namespace=\"default\",dry_run=\"false\"}} 1\n"
        ),
        "tiphys_render_cache_total{result=\"miss\"} 1\n".to_owned(),
        "tiphys_render_duration_seconds_count{renderer=\"native\",tool=\"directory\"} 1\n".to_owned(),
        "workqueue_work_duration_seconds_count{controller=\"application\",name=\"app_reconciliation_queue\"} "
            .to_owned(),
        format!("argocd_cluster_events_total{{server=\"{SERVER}\",group=\"\",kind=\"ConfigMap\"}} "),
        format!("argocd_cluster_cache_age_seconds{{server=\"{SERVER}\"}} "),
        format!("argocd_resource_events_processed_in_batch{{server=\"{SERVER}\"}} "),
        ",method=\"PATCH\",code=\"200\"} ".to_owned(),
        "# TYPE argocd_redis_request counter\n".to_owned(),
    ] {
        assert!(body.contains(&part), "{part}: {body}");
    }
    assert!(!body.contains("argocd_app_condition{"), "{body}");
    let ends = body.matches("# EOF").count();
    assert_eq!(ends, 1, "{body}");
    // A family is told of once, or the scrape is refused as a whole.
    let mut families: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all);

    world.change(&json!({"spec": {"source": {"path": "nowhere"}}}));
    world.until(|conditions, _| conditions.contains("ComparisonError")).await;
    let condition = "argocd_app_condition{name=\"shop\",namespace=\"argocd\",project=\"default\",condition=\"ComparisonError\"} 1\n";
    assert!(world.metrics().contains(condition), "{}", world.metrics());
    world.pass(Duration::from_hours(1)).await;
    let body = world.metrics();
    assert!(!body.contains("argocd_app_sync_total{"), "its time is over: {body}");
    assert!(body.contains("argocd_app_info{"), "{body}");

    world.sync("");
    world.pass(MOMENT).await;
    assert!(world.metrics().contains("argocd_app_sync_total{"), "{}", world.metrics());
    world.delete();
    world.pass(MOMENT).await;
    assert!(!world.metrics().contains("name=\"shop\""), "{}", world.metrics());
}
