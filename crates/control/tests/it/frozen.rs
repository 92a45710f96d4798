//! A cluster that takes requests and never answers holds up nobody else (CTL-141, INV-13, INV-16).

use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, WORKERS, names, value};

/// Applications in the cluster that freezes.
const APPS: usize = 60;

/// CTL-141, INV-16: the cluster freezes under sixty syncs, and the other one is healed as if nothing had happened.
#[tokio::test(start_paused = true)]
async fn ctl_141_a_cluster_that_freezes_under_syncs_does_not_delay_the_others() {
    let mut fleet = Fleet::start(APPS).await;
    let far = names(APPS);
    let far: Vec<String> = far.into_iter().filter(|name| name != "near").collect();
    fleet.commit(&far, "two");
    fleet.freeze(true);
    for name in &far {
        fleet.refresh(name);
    }
    // Long enough for every worker to meet the frozen cluster.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(fleet.controller.sizes().busiest_cluster <= WORKERS / 2, "{:?}", fleet.controller.sizes());
    fleet.drift();
    let took = fleet.until("near is healed", |fleet| value(&fleet.home, "near") == "one").await;
    assert!(took <= Duration::from_secs(3), "it took {took:?}");

    // Nobody waits there any more; what was asked for is not forgotten.
    fleet.until("no worker is held", |fleet| fleet.controller.sizes().busiest_cluster == 0).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(fleet.controller.sizes().busiest_cluster, 0);
    fleet.freeze(false);
    for name in &far {
        fleet.until("it goes on", |fleet| fleet.is_synced(name)).await;
        assert_eq!(value(&fleet.remote, name), "two");
    }
}

/// The same with deletions under way.
#[tokio::test(start_paused = true)]
async fn ctl_141_a_cluster_that_freezes_under_deletions_does_not_delay_the_others() {
    let fleet = Fleet::start(APPS).await;
    fleet.freeze(true);
    for number in 0..APPS {
        fleet.delete_app(&format!("far-{number}"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(fleet.controller.sizes().busiest_cluster <= WORKERS / 2, "{:?}", fleet.controller.sizes());
    fleet.drift();
    let took = fleet.until("near is healed", |fleet| value(&fleet.home, "near") == "one").await;
    assert!(took <= Duration::from_secs(3), "it took {took:?}");
    fleet.freeze(false);
    for number in 0..APPS {
        let name = format!("far-{number}");
        fleet.until("it is gone", |fleet| fleet.app(&name)["kind"] == "Status").await;
        assert_eq!(value(&fleet.remote, &name), json!(null));
    }
}

const FAR: &str = "far-0";
const UNREACHED: &str = "Failed to get destination cluster: cannot reach the API server: ";

/// A fleet in which an operation runs that cannot reach its cluster.
async fn stuck() -> Fleet {
    let mut fleet = Fleet::start(1).await;
    let far = [FAR.to_owned()];
    fleet.commit(&far, "two");
    fleet.freeze(true);
    // The first request finds out, and ends its operation.
    fleet.sync(FAR);
    fleet.until("the first one is over", |fleet| fleet.app(FAR)["operation"].is_null()).await;
    fleet.sync(FAR);
    let waits = |fleet: &Fleet| fleet.operation(FAR).1.starts_with("waiting for the destination cluster: ");
    fleet.until("the operation waits", waits).await;
    fleet
}

/// CTL-46: an operation whose cluster does not answer ends, and says why.
#[tokio::test(start_paused = true)]
async fn ctl_46_an_operation_ends_when_its_cluster_does_not_answer() {
    let fleet = stuck().await;
    let took = fleet.until("it ends", |fleet| fleet.app(FAR)["operation"].is_null()).await;
    let (phase, message) = fleet.operation(FAR);
    assert!(phase == "Error" && message.starts_with(UNREACHED), "{phase}: {message}");
    assert!(took <= Duration::from_mins(2), "{took:?}");
    // Nobody says anything of objects that nobody saw (INV-15).
    fleet.refresh(FAR);
    fleet.until("unknown", |fleet| fleet.app(FAR)["status"]["sync"]["status"] == "Unknown").await;
    // What could not be reached is tried again when it can, without anybody asking (F13).
    fleet.freeze(false);
    fleet.until("it goes on", |fleet| value(&fleet.remote, FAR) == "two").await;
    fleet.until("it is synced", |fleet| fleet.is_synced(FAR)).await;
}

/// CTL-48: retries are counted, and they end.
#[tokio::test(start_paused = true)]
async fn ctl_48_retries_of_an_operation_whose_cluster_does_not_answer_are_bounded() {
    let fleet = stuck().await;
    fleet.until("it ends", |fleet| fleet.app(FAR)["operation"].is_null()).await;
    fleet.patch_app(FAR, &json!({"operation": {"sync": {}, "retry": {"limit": 2}}}));
    let retried = |fleet: &Fleet| fleet.operation(FAR).1.ends_with("(retried 2 times).");
    fleet.until("it ends after its retries", retried).await;
    assert!(fleet.app(FAR)["operation"].is_null());
}

/// CTL-51: it can be terminated.
#[tokio::test(start_paused = true)]
async fn ctl_51_an_operation_whose_cluster_does_not_answer_can_be_terminated() {
    let fleet = stuck().await;
    fleet.patch_app(FAR, &json!({"status": {"operationState": {"phase": "Terminating"}}}));
    let took = fleet.until("it ends", |fleet| fleet.app(FAR)["operation"].is_null()).await;
    let (phase, message) = fleet.operation(FAR);
    assert!(phase == "Failed" && message.starts_with("Operation terminated; "), "{phase}: {message}");
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

/// CTL-78, INV-1: a deletion does not wait for the operation; what nobody sees is not called deleted, and the
/// application goes when the cluster is no longer configured.
#[tokio::test(start_paused = true)]
async fn ctl_78_an_application_of_a_cluster_that_does_not_answer_can_be_deleted() {
    let fleet = stuck().await;
    fleet.delete_app(FAR);
    let says = |fleet: &Fleet| {
        let conditions = fleet.app(FAR)["status"]["conditions"].clone();
        let errors = conditions.as_array().cloned().unwrap_or_default();
        let is_error = |c: &serde_json::Value| c["type"] == "DeletionError";
        errors.iter().any(|c| is_error(c) && c["message"].as_str().unwrap().contains("remove the finalizers"))
    };
    let took = fleet.until("it says what to do", says).await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(fleet.app(FAR)["metadata"]["name"], FAR);
    fleet.forget_remote();
    fleet.until("it is gone", |fleet| fleet.app(FAR)["kind"] == "Status").await;
    assert_eq!(value(&fleet.remote, FAR), "one");
}

/// INV-17: when the cluster answers again, the deletion goes on by itself and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn inv_17_a_deletion_goes_on_when_the_cluster_answers_again() {
    let fleet = stuck().await;
    fleet.delete_app(FAR);
    tokio::time::sleep(Duration::from_mins(10)).await;
    fleet.freeze(false);
    fleet.until("it is gone", |fleet| fleet.app(FAR)["kind"] == "Status").await;
    assert_eq!(value(&fleet.remote, FAR), json!(null));
}
