//! An API server that drops, lags, refuses and answers empty: nothing is pruned, nothing stalls for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, DEPLOYMENTS, JOBS};
use crate::births::Births;
use crate::fixtures::{automated, config_map, deployment, file, hook, wave};
use crate::proxy::{Fault, behind_proxy};
use crate::world::{conditions, is_synced};

/// Whether a request lists a kind, or watches it.
fn is_list(method: &Method, path: &str, kind: &str) -> bool {
    method == Method::GET && path.starts_with(&format!("{kind}?"))
}

/// Whether it asks for everything that exists, as a list or as the start of a watch.
fn begins(path: &str) -> bool {
    !path.contains("watch=") || path.contains("sendInitialEvents")
}

/// Writes to objects of the destination, by what the proxy saw.
fn harm(writes: &[String], ns: &str) -> Vec<String> {
    writes.iter().filter(|write| write.contains(ns) && !write.contains("/events")).cloned().collect()
}

/// F6: one kind cannot be listed.
async fn refused_kind(test: &str, code: u16) {
    let Some((mut world, proxy)) = behind_proxy(test).await else { return };
    let ns = world.namespace("ns").await;
    let repo = world
        .repo(
            "app",
            &[
                ("cm.yaml", &file(&[config_map("cm", "1")])),
                ("old.yaml", &file(&[config_map("old", "1")])),
                ("web.yaml", &file(&[deployment("web", 1)])),
            ],
        )
        .await;
    let other = world.repo("other", &[("web.yaml", &file(&[deployment("other", 1)]))]).await;
    let same = world.repo("same", &[("same.yaml", &file(&[config_map("same", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    let bystander = world.create("other", &other, ".", &ns, &automated()).await;
    let unchanged = world.create("same", &same, ".", &ns, &automated()).await;
    for app in [&app, &bystander, &unchanged] {
        world.until_synced(app).await;
    }
    world.kill().await;
    proxy.fault(
        move |method, path| {
            if is_list(method, path, "/api/v1/configmaps") { Fault::Refuse(code) } else { Fault::None }
        },
    );
    let births = Births::watch(&world.api, &ns, &[CONFIG_MAPS]).await;
    proxy.take_writes();
    world.restart().await;
    world.push(&repo, &[("old.yaml", "")]).await;
    world.push(&other, &[("web.yaml", &file(&[deployment("other", 2)]))]).await;
    world.until_object(DEPLOYMENTS, &ns, "other", "is synced", |web| web["spec"]["replicas"] == 2).await;
    world.until_synced(&bystander).await;
    world.refresh(&app, "normal").await;
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await && world.exists(CONFIG_MAPS, &ns, "cm").await);
    let deletions = harm(&proxy.take_writes(), &ns).into_iter().filter(|write| write.starts_with("DELETE"));
    assert_eq!(deletions.collect::<Vec<_>>(), Vec::<String>::new());
    // INV-15: that nothing is left over cannot be seen. What can be read is called what it is.
    let is_doubted = |app: &Value| app["status"]["sync"]["status"] == "Unknown";
    let seen = world.until_app(&unchanged, "doubted", is_doubted).await;
    let told = conditions(&seen, "ComparisonError");
    assert!(told.iter().any(|text| text.starts_with("Failed to look for objects")), "{told:?}");
    assert_eq!(seen["status"]["resources"][0]["status"], "Synced");
    assert_eq!(seen["status"]["health"]["status"], "Healthy");
    proxy.fault(|_, _| Fault::None);
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.until_synced(&app).await;
    world.until_synced(&unchanged).await;
    assert_eq!(births.deleted(), ["old"]);
    world.finish().await;
}

/// What the status says of a kind that cannot be listed is all that is known of it.
#[tokio::test]
async fn f6_objects_of_an_unknown_kind_stay_known() {
    let Some((mut world, proxy)) = behind_proxy("known").await else { return };
    let ns = world.namespace("ns").await;
    let files = [("old.yaml", file(&[config_map("old", "1")])), ("web.yaml", file(&[deployment("web", 1)]))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let repo = world.repo("app", &files).await;
    let mut change = automated();
    change["metadata"] = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    world.kill().await;
    proxy.fault(
        |method, path| {
            if is_list(method, path, "/api/v1/configmaps") { Fault::Refuse(403) } else { Fault::None }
        },
    );
    world.restart().await;
    world.push(&repo, &[("old.yaml", "")]).await;
    world.refresh(&app, "normal").await;
    let seen = world.app(&app).await;
    assert!(!is_synced(&seen), "nobody can know that: {:#}", seen["status"]);
    // A cascade must not be over before the kind could be listed.
    world.api.delete(APPS, &world.cp, &app).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(world.exists(APPS, &world.cp, &app).await);
    proxy.fault(|_, _| Fault::None);
    world.until_gone(APPS, &world.cp, &app).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.finish().await;
}

#[tokio::test]
async fn f6_a_kind_is_forbidden() {
    refused_kind("forbidden", 403).await;
}

#[tokio::test]
async fn f6_a_kind_cannot_be_listed() {
    refused_kind("internal", 500).await;
}

#[tokio::test]
async fn f10_a_kind_is_throttled() {
    refused_kind("throttled", 429).await;
}

/// F7: a list comes back empty, once, after there was something.
#[tokio::test]
async fn f7_a_list_is_empty_once() {
    let Some((mut world, proxy)) = behind_proxy("empty").await else { return };
    let ns = world.namespace("ns").await;
    let many: Vec<Value> = (0..30).map(|number| config_map(&format!("cm{number}"), "1")).collect();
    let repo = world.repo("app", &[("all.yaml", &file(&many))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let births = Births::watch(&world.api, &ns, &[CONFIG_MAPS]).await;
    let (lists, watches) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let count = Arc::clone(&lists);
    proxy.fault(move |method, path| {
        if !is_list(method, path, "/api/v1/configmaps") {
            return Fault::None;
        }
        if !begins(path) {
            // The watch is too old, so that everything is listed again.
            let first = watches.fetch_add(1, Ordering::SeqCst) == 0;
            return if first { Fault::Refuse(410) } else { Fault::None };
        }
        if count.fetch_add(1, Ordering::SeqCst) == 0 { Fault::Empty } else { Fault::None }
    });
    proxy.take_writes();
    proxy.cut();
    let look = || async { json!(lists.load(Ordering::SeqCst)) };
    world.until("listed again", look, |count| count.as_u64() >= Some(2)).await;
    world.refresh(&app, "hard").await;
    world.until_synced(&app).await;
    world.push(&repo, &[("all.yaml", &file(&many[1..]))]).await;
    world.until_gone(CONFIG_MAPS, &ns, "cm0").await;
    world.until_synced(&app).await;
    assert_eq!((births.created(), births.deleted()), (Vec::new(), vec!["cm0".to_owned()]));
    world.finish().await;
}

/// F7, at the start of a process, when nothing is known that could raise a doubt.
#[tokio::test]
async fn f7_the_first_list_is_empty() {
    let Some((mut world, proxy)) = behind_proxy("emptyfirst").await else { return };
    let ns = world.namespace("ns").await;
    let many: Vec<Value> = (0..12).map(|number| config_map(&format!("cm{number}"), "1")).collect();
    let repo = world.repo("app", &[("all.yaml", &file(&many))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let births = Births::watch(&world.api, &ns, &[CONFIG_MAPS]).await;
    world.kill().await;
    let lists = AtomicUsize::new(0);
    proxy.fault(move |method, path| {
        let list = is_list(method, path, "/api/v1/configmaps") && begins(path);
        if list && lists.fetch_add(1, Ordering::SeqCst) == 0 { Fault::Empty } else { Fault::None }
    });
    world.restart().await;
    world.refresh(&app, "hard").await;
    world.until_synced(&app).await;
    assert_eq!((births.created(), births.deleted()), (Vec::new(), Vec::new()));
    world.finish().await;
}

/// F7, for an application that was deleted while nobody looked: its deletion does not end early, and has that
/// one kind listed again.
#[tokio::test]
async fn f7_a_deletion_meets_an_empty_list() {
    const POLICIES: &str = "networking.k8s.io/v1/networkpolicies";
    let Some((mut world, proxy)) = behind_proxy("emptydel").await else { return };
    let ns = world.namespace("ns").await;
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "np"},
        "spec": {"podSelector": {}},
    });
    let repo = world.repo("app", &[("all.yaml", &file(&[policy, config_map("cm", "1")]))]).await;
    let mut change = automated();
    change["metadata"] = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    world.kill().await;
    world.api.delete(APPS, &world.cp, &app).await;
    let lists = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let count = Arc::clone(&lists);
    proxy.fault(move |method, path| {
        let is_first_of = |kind: &str, lists: &AtomicUsize| {
            is_list(method, path, kind) && begins(path) && lists.fetch_add(1, Ordering::SeqCst) == 0
        };
        is_first_of("/api/v1/configmaps", &count.1);
        let is_first = is_first_of("/apis/networking.k8s.io/v1/networkpolicies", &count.0);
        if is_first { Fault::Empty } else { Fault::None }
    });
    world.restart().await;
    world.until_gone(APPS, &world.cp, &app).await;
    assert!(!world.exists(POLICIES, &ns, "np").await && !world.exists(CONFIG_MAPS, &ns, "cm").await);
    assert_eq!(lists.0.load(Ordering::SeqCst), 2, "the lists of network policies");
    assert_eq!(lists.1.load(Ordering::SeqCst), 1, "the lists of config maps");
    world.finish().await;
}

/// F10, F11: every third request is refused, others are late.
#[tokio::test]
async fn f10_a_sync_through_a_bad_connection() {
    let Some((mut world, proxy)) = behind_proxy("flaky").await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[JOBS]).await;
    let count = AtomicU32::new(0);
    proxy.fault(move |method, _| {
        // Of every twelve requests about two fail, in an order without a period: one that divides the
        // number of requests of an attempt would fail every attempt at the same place.
        let number = count.fetch_add(1, Ordering::SeqCst);
        match ((number.wrapping_mul(0x9E37_79B9) >> 16) % 12, method == Method::GET) {
            (0, _) => Fault::Refuse(500),
            (3, _) => Fault::Refuse(429),
            (_, false) => Fault::Delay(Duration::from_millis(200)),
            _ => Fault::None,
        }
    });
    let objects = [
        hook("before", "PreSync"),
        config_map("cm", "1"),
        wave(deployment("web", 1), 1),
        hook("after", "PostSync"),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let mut change = automated();
    change["spec"]["syncPolicy"]["retry"] =
        json!({"limit": -1, "backoff": {"duration": "1s", "maxDuration": "1s"}});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    proxy.fault(|_, _| Fault::None);
    world.until_synced(&app).await;
    // Attempts run their hooks; within an attempt each runs once.
    let attempts = world.app(&app).await["status"]["operationState"]["retryCount"].as_u64().unwrap_or(0) + 1;
    assert!(
        births.times("before") as u64 <= attempts && births.times("after") == 1,
        "{:?}",
        births.created()
    );
    world.assert_quiet(Duration::from_secs(5)).await;
    world.finish().await;
}

/// F13: the API server is away for a while.
#[tokio::test]
async fn f13_the_api_server_is_away() {
    let Some((mut world, proxy)) = behind_proxy("away").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world
        .repo(
            "app",
            &[("cm.yaml", &file(&[config_map("cm", "1")])), ("old.yaml", &file(&[config_map("old", "1")]))],
        )
        .await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let memory = world.program.memory();
    proxy.fault(|_, _| Fault::Refuse(503));
    proxy.cut();
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "2")])), ("old.yaml", "")]).await;
    world.api.patch(CONFIG_MAPS, &ns, "cm", &json!({"data": {"key": "hand-made"}})).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(world.program.ended(), None);
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await);
    proxy.fault(|_, _| Fault::None);
    world.until_object(CONFIG_MAPS, &ns, "cm", "is synced", |cm| cm["data"]["key"] == "2").await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.until_synced(&app).await;
    let grown = world.program.memory().saturating_sub(memory) >> 20;
    assert!(grown < 100, "memory grew by {grown} MiB");
    // INV-5.
    world.assert_quiet(Duration::from_secs(20)).await;
    world.finish().await;
}

/// Requests that hang are given up.
#[tokio::test]
async fn f12_an_answer_never_comes() {
    let Some((mut world, proxy)) = behind_proxy("hangs").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let other = world.repo("other", &[("cm.yaml", &file(&[config_map("other", "1")]))]).await;
    let bystander_ns = world.namespace("other").await;
    let target = ns.clone();
    proxy.fault(move |method, path| {
        if method != Method::GET && path.contains(&format!("/{target}/")) { Fault::Hang } else { Fault::None }
    });
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    let bystander = world.create("other", &other, ".", &bystander_ns, &automated()).await;
    world.until_synced(&bystander).await;
    world.push(&other, &[("cm.yaml", &file(&[config_map("other", "2")]))]).await;
    world.until_object(CONFIG_MAPS, &bystander_ns, "other", "is synced", |cm| cm["data"]["key"] == "2").await;
    proxy.fault(|_, _| Fault::None);
    proxy.cut();
    // The request that hangs ends with its process.
    world.kill().await;
    world.restart().await;
    world.until_synced(&app).await;
    world.finish().await;
}
