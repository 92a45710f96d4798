//! What the Secret of a cluster says besides how to reach it (REP-103, CTL-89).

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::fleet::{Fleet, names, value};
use crate::support::ask;

const SECRET: &str = "/api/v1/namespaces/argocd/secrets/remote";
const MOMENT: Duration = Duration::from_secs(20);

fn change(fleet: &Fleet, patch: &Value) {
    ask(&fleet.home, Method::PATCH, SECRET, patch);
}

fn skip(fleet: &Fleet, text: &Value) {
    change(fleet, &json!({"metadata": {"annotations": {"argocd.argoproj.io/skip-reconcile": text}}}));
}

/// REP-103, CTL-20, CTL-89: of a cluster that is to be skipped nothing is read, and nothing is done for its applications,
/// not even a deletion; when the annotation goes everything goes on.
#[tokio::test(start_paused = true)]
async fn rep_103_a_cluster_that_is_skipped_is_left_alone() {
    let mut fleet = Fleet::start(2).await;
    skip(&fleet, &json!("true"));
    tokio::time::sleep(MOMENT).await;
    let compared = fleet.comparisons("remote.example");
    let names = names(2);
    fleet.commit(&names, "two");
    fleet.push();
    fleet.refresh("far-0");
    fleet.delete_app("far-1");
    fleet.until("the near one follows", |fleet| value(&fleet.home, "near") == "two").await;
    tokio::time::sleep(MOMENT).await;
    assert_eq!(fleet.comparisons("remote.example"), compared);
    for name in ["far-0", "far-1"] {
        assert_eq!(value(&fleet.remote, name), "one", "{name}");
    }
    assert!(fleet.app("far-1")["metadata"]["deletionTimestamp"].is_string());
    assert!(
        !fleet.controller.metrics().contains("argocd_cluster_info{k8s_version=\"1.36.1\",name=\"remote\"")
    );

    // What is no boolean says nothing.
    skip(&fleet, &json!("maybe"));
    fleet.until("it goes on", |fleet| value(&fleet.remote, "far-0") == "two").await;
    fleet.until("the deleted one goes", |fleet| fleet.app("far-1")["metadata"]["uid"].is_null()).await;
    assert_eq!(value(&fleet.remote, "far-1"), Value::Null);
}

fn version(fleet: &Fleet) -> Value {
    let secret = ask(&fleet.home, Method::GET, SECRET, &Value::Null);
    secret["metadata"]["labels"]["argocd.argoproj.io/kubernetes-version"].clone()
}

/// REP-103: the version of a cluster is a label of its Secret, where the Secret asks for it; that is no reason to compare.
#[tokio::test(start_paused = true)]
async fn rep_103_the_version_of_a_cluster_is_kept_in_a_label() {
    let fleet = Fleet::start(2).await;
    tokio::time::sleep(MOMENT).await;
    assert_eq!(version(&fleet), Value::Null, "nobody asked");
    let compared = fleet.comparisons("remote.example");
    let label = |key: &str, text: Value| json!({"metadata": {"labels": {key: text}}});
    change(&fleet, &label("argocd.argoproj.io/auto-label-cluster-info", json!("true")));
    fleet.until("the label is there", |fleet| version(fleet).is_string()).await;
    let first = version(&fleet);
    assert!(first.as_str().unwrap().starts_with("v1."), "{first}");
    change(&fleet, &label("argocd.argoproj.io/kubernetes-version", json!("v0.0.1")));
    fleet.until("it is right again", |fleet| version(fleet) == first).await;
    tokio::time::sleep(MOMENT).await;
    assert_eq!(fleet.comparisons("remote.example"), compared, "labels change nothing about applications");
}
