//! Settings that cannot be read, and settings that change while the controller runs.

use std::time::Duration;

use crate::install::{Prepared, World};

const MOMENT: Duration = Duration::from_secs(10);

/// ENG-7, INV-1: exclusions that cannot be read at the start are unknown, and nothing is pruned for want of them.
#[tokio::test(start_paused = true)]
async fn eng_7_nothing_is_pruned_while_nobody_knows_which_kinds_are_managed() {
    let world = World::prepare();
    world.set("resource.exclusions", "{");
    // An object that looks like a leftover of ours.
    world.leftover("old");
    let world = world.run().await;
    world.commit("one");
    world.create();
    world.pass(Duration::from_mins(10)).await;
    assert_eq!(world.object("old")["metadata"]["name"], "old");
    let app = world.app();
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    let text = app["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("resource.exclusions"), "{text}");
    world.set("resource.exclusions", "- kinds: [ConfigMap]\n  apiGroups: ['']\n");
    world.pass(Duration::from_mins(10)).await;
    assert_eq!(world.object("old")["metadata"]["name"], "old");
    assert_eq!(world.object("shop")["kind"], "Status");
    world.set("resource.exclusions", "");
    world.pass(Duration::from_mins(10)).await;
    assert_eq!(world.value(), "one");
    assert_eq!(world.object("old")["kind"], "Status");
}

/// CTL-133: a shorter interval is used at once, also for how long a listing of references is believed.
#[tokio::test(start_paused = true)]
async fn ctl_133_a_shorter_refresh_interval_is_used_at_once() {
    let world = World::prepare();
    world.set("timeout.reconciliation", "2h");
    world.set("timeout.reconciliation.jitter", "0s");
    let world = world.run().await;
    world.commit("one");
    world.create();
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    world.commit("two");
    world.set("timeout.reconciliation", "1m");
    world.pass(Duration::from_mins(4)).await;
    assert_eq!(world.value(), "two");
}

/// CTL-120: what a scrape shows comes from what is known, and is right.
#[tokio::test(start_paused = true)]
async fn ctl_120_a_scrape_shows_sync_and_health() {
    let world = World::prepare().run().await;
    world.commit("one");
    world.create();
    world.pass(MOMENT).await;
    let text = world.metrics();
    let line = text.lines().find(|line| line.starts_with("argocd_app_info{")).unwrap_or_default().to_owned();
    assert!(line.contains("sync_status=\"Synced\"") && line.contains("health_status=\"Healthy\""), "{line}");
}

/// TRK-67, TRK-62: settings that come to ask for an installation ID get one at once: without it, the objects of an
/// installation that has one could be taken for ours.
#[tokio::test(start_paused = true)]
async fn trk_67_an_id_is_made_when_the_settings_come_to_ask_for_it() {
    let world = World::prepare().run().await;
    world.commit("one");
    world.create();
    world.pass(MOMENT).await;
    assert_eq!(world.setting("installationID"), "");
    world.set("installationID.autoGenerate", "true");
    world.pass(MOMENT).await;
    let id = world.setting("installationID");
    assert_eq!(id.len(), 36, "{id}");
    world.pass(MOMENT).await;
    assert_eq!(world.setting("installationID"), id, "it is made once");
    world.commit("two");
    world.pass(Duration::from_mins(4)).await;
    assert_eq!(world.value(), "two");
    assert_eq!(world.object("shop")["metadata"]["annotations"]["argocd.argoproj.io/installation-id"], id);
}

/// API-89: settings that lose their label or are deleted while the controller runs stay in effect, and the metrics show it.
#[tokio::test(start_paused = true)]
async fn api_89_lost_settings_stay_in_effect_and_are_shown() {
    let world = World::prepare();
    world.set("resource.exclusions", "- kinds: [ConfigMap]\n  apiGroups: ['']\n");
    let world = world.run().await;
    world.commit("one");
    world.create();
    world.pass(MOMENT).await;
    let line = "\ntiphys_settings_problem{object=\"argocd-cm\"} 1\n";
    assert!(!world.metrics().contains(line));
    for lose in [Prepared::unlabel_settings, Prepared::delete_settings] {
        lose(&world);
        world.pass(Duration::from_mins(10)).await;
        assert_eq!(world.object("shop")["kind"], "Status", "the excluded kind is not managed");
        assert!(world.metrics().contains(line), "{}", world.metrics());
    }
}
