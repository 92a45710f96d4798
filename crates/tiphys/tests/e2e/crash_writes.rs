//! `kill -9` around every single write of a sync: before it reached the API server, and after it did but
//! before the program could know.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use tokio::sync::Notify;

use crate::api::{APPS, CONFIG_MAPS, JOBS};
use crate::births::Births;
use crate::fixtures::{annotated, automated, config_map, file, hook, wave};
use crate::proxy::{Fault, Proxy, behind_proxy};
use crate::world::{World, merge};

/// More writes than the sync and the deletion of these tests make.
const WRITES_MAX: usize = 60;

fn is_write(method: &Method, path: &str) -> bool {
    method != Method::GET && !path.contains("/events") && !path.contains("/selfsubject")
}

/// Kills the process at the n-th write from now on; `false` when there were fewer until `over` came true.
async fn kill_at(
    world: &mut World,
    proxy: &Proxy,
    number: usize,
    fault: Fault,
    over: impl AsyncFn(&World),
) -> bool {
    let (count, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let signal = Arc::clone(&reached);
    proxy.fault(move |method, path| {
        if is_write(method, path) && count.fetch_add(1, Ordering::SeqCst) + 1 == number {
            signal.notify_one();
            return fault;
        }
        Fault::None
    });
    let killed = tokio::select! {
        () = reached.notified() => true,
        () = over(world) => false,
    };
    proxy.fault(|_, _| Fault::None);
    if killed {
        // What is to reach the API server reaches it.
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        world.kill().await;
        world.restart().await;
    }
    killed
}

async fn every_write(test: &str, fault: Fault) {
    let Some((mut world, proxy)) = behind_proxy(test).await else { return };
    let succeeded = [("argocd.argoproj.io/hook-delete-policy", "HookSucceeded")];
    let objects = [
        annotated(hook("before", "PreSync"), &succeeded),
        config_map("cm", "1"),
        wave(config_map("work", "1"), 1),
        annotated(config_map("after", "1"), &[("argocd.argoproj.io/hook", "PostSync")]),
        annotated(config_map("goodbye", "1"), &[("argocd.argoproj.io/hook", "PreDelete"), succeeded[0]]),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let mut change = automated();
    merge(
        &mut change,
        &serde_json::json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}),
    );
    let mut kills = (0, 0);
    // The state after one write is that before the next, so that every other one is enough for both tests.
    for number in (1..WRITES_MAX).step_by(2) {
        let ns = world.namespace(&number.to_string()).await;
        let births = Births::watch(&world.api, &ns, &[JOBS, CONFIG_MAPS]).await;
        let name = world.name(&number.to_string());
        let application = world.application(&name, &repo, ".", &ns, &change);
        let api = world.api.clone();
        let created = tokio::spawn(async move { api.apply(APPS, &application).await });
        let done = async |world: &World| {
            world.until_synced(&name).await;
        };
        let killed = kill_at(&mut world, &proxy, number, fault, done).await;
        created.await.unwrap();
        let synced = world.until_synced(&name).await;
        assert_eq!(synced["status"]["operationState"]["phase"], "Succeeded", "{number}: {synced:#}");
        assert_eq!(synced["status"]["history"].as_array().map(Vec::len), Some(1), "{number}: {synced:#}");
        for object in ["before", "cm", "work", "after"] {
            assert_eq!(births.times(object), 1, "kill at write {number}: {object} in {:?}", births.created());
        }
        world.until_gone(JOBS, &ns, "before").await;

        // The same with its deletion.
        world.api.delete(APPS, &world.cp, &name).await;
        let gone = async |world: &World| world.until_gone(APPS, &world.cp, &name).await;
        let killed_again = kill_at(&mut world, &proxy, number, fault, gone).await;
        world.until_gone(APPS, &world.cp, &name).await;
        for (kind, object) in [(CONFIG_MAPS, "cm"), (CONFIG_MAPS, "work"), (CONFIG_MAPS, "goodbye")] {
            world.until_gone(kind, &ns, object).await;
        }
        assert_eq!(births.times("goodbye"), 1, "kill at write {number}: {:?}", births.created());
        if killed {
            kills.0 = number;
        }
        if killed_again {
            kills.1 = number;
        }
        if !killed && !killed_again {
            break;
        }
    }
    println!("killed at {} writes of a sync, at {} of a deletion", kills.0, kills.1);
    assert!((6..WRITES_MAX - 1).contains(&kills.0) && (4..WRITES_MAX - 1).contains(&kills.1), "{kills:?}");
    world.finish().await;
}

#[tokio::test]
async fn inv_9_killed_before_every_write() {
    every_write("before", Fault::Hang).await;
}

#[tokio::test]
async fn inv_9_killed_after_every_write() {
    every_write("after", Fault::Lose).await;
}
