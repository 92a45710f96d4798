//! The other scenarios show what they promise.

use rustix::process::Signal;
use serde_json::Value;

use crate::api::{DEPLOYMENTS, JOBS};
use crate::process::{Demo, Place};

fn condition<'a>(app: &'a Value, kind: &str) -> &'a str {
    let found = app["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {app:#}"))["message"].as_str().unwrap()
}

#[tokio::test]
async fn cli_1002_waves_come_one_after_the_other() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &["--scenario", "waves"]).await;
    demo.until_app("waves", "Synced", "Healthy").await;
    let over = |app: &Value| app["status"]["operationState"]["phase"] == "Succeeded";
    demo.until(crate::api::APPS, "argocd", "waves", "succeeded", over).await;
    let mut born = Vec::new();
    for (kind, name) in [
        (JOBS, "migrate"),
        (crate::api::CONFIG_MAPS, "settings"),
        ("apps/v1/statefulsets", "database"),
        (DEPLOYMENTS, "api"),
        (DEPLOYMENTS, "web"),
    ] {
        let object = demo.api.get(kind, "waves", name).await.unwrap_or_else(|| panic!("no {name}"));
        born.push((object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned(), name));
    }
    assert!(born.is_sorted_by_key(|(time, _)| time), "{born:?}");
    assert!(born[0].0 < born[4].0, "{born:?}");
    demo.until(JOBS, "waves", "announce", "went", Value::is_null).await;
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1002_drift_is_healed_where_self_heal_is_on_and_shown_where_it_is_off() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &["--scenario", "drift"]).await;
    demo.until_app("watched", "OutOfSync", "Healthy").await;
    let five = demo.api.get(DEPLOYMENTS, "watched", "watched").await.unwrap();
    assert_eq!(five["spec"]["replicas"], 5);
    demo.until_app("healed", "Synced", "Healthy").await;
    let said = place.verb(&["fix", "watched"]).await;
    assert!(said.starts_with("asked for a sync"), "{said}");
    demo.until_app("watched", "Synced", "Healthy").await;
    let said = place.verb(&["drift", "healed"]).await;
    assert!(said.contains("self-heal is on"), "{said}");
    let two = |seen: &Value| seen["spec"]["replicas"] == 2;
    demo.until(DEPLOYMENTS, "healed", "healed", "healed", two).await;
    let said = place.verb(&["drift", "watched"]).await;
    assert!(said.contains("demo fix watched"), "{said}");
    demo.until_app("watched", "OutOfSync", "Healthy").await;
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1002_failures_are_shown_and_can_be_fixed() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &["--scenario", "failures"]).await;
    demo.until_app("crashing", "Synced", "Degraded").await;
    let failed = |app: &Value| app["status"]["operationState"]["phase"] == "Failed";
    demo.until(crate::api::APPS, "argocd", "hooked", "failed", failed).await;
    assert!(demo.api.get(DEPLOYMENTS, "hooked", "hooked").await.is_none(), "the hook is before it");
    let app = demo.until(crate::api::APPS, "argocd", "unreadable", "unknown", |app| {
        app["status"]["sync"]["status"] == "Unknown"
    });
    let app = app.await;
    assert!(condition(&app, "ComparisonError").contains("\"settings.yaml\""), "{app:#}");
    let refused =
        |app: &Value| app["status"]["operationState"]["phase"].as_str().is_some_and(|p| p == "Failed");
    let app = demo.until(crate::api::APPS, "argocd", "unknown-kind", "refused", refused).await;
    let said = app["status"]["operationState"].to_string();
    assert!(said.contains("Make sure the \\\"Database\\\" CRD is installed"), "{said}");
    for name in ["crashing", "hooked", "unknown-kind", "unreadable"] {
        place.verb(&["fix", name]).await;
    }
    for name in ["crashing", "hooked", "unknown-kind", "unreadable"] {
        demo.until_app(name, "Synced", "Healthy").await;
    }
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1002_progressive_tells_of_a_roll_out_and_of_a_deletion_in_reverse() {
    let place = Place::new().await;
    let mut demo = Demo::start(&place, &["--scenario", "progressive"]).await;
    let told = demo.told_until("          kubectl delete").await;
    let of = |text: &str| -> Vec<&str> {
        let lines = told.iter().filter(|line| line.contains(text));
        let mut names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(1)).collect();
        // An application that was just made may be asked once more, when its revision is known. What comes and goes
        // between two looks is not told, so becoming healthy is what counts: that stays.
        names.dedup();
        names
    };
    let tiers = ["config", "db", "frontend"];
    // The first version, the second one, and the set that was made again.
    assert_eq!(of("the next step may begin"), [tiers, tiers, tiers].concat(), "{told:#?}");
    assert_eq!(of("is being deleted"), ["frontend", "db", "config"], "{told:#?}");
    assert_eq!(of("gone, with everything"), ["frontend", "db", "config"], "{told:#?}");
    for name in tiers {
        demo.until_app(name, "Synced", "Healthy").await;
    }
    // What the last lines promise.
    place.verb(&["break", "db"]).await;
    demo.until_app("db", "Synced", "Degraded").await;
    place.verb(&["fix", "db"]).await;
    demo.until_app("db", "Synced", "Healthy").await;
    demo.until_app("frontend", "Synced", "Healthy").await;
    demo.stop(Signal::TERM).await;
}
