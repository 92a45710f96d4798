//! Changes of settings, clusters and repositories cost those whom they concern, and nobody else.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::fleet::{Fleet, names};
use crate::support::ask;
use crate::world::{URL, World};

const MOMENT: Duration = Duration::from_secs(10);
const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";

/// How often something was compared during a moment after a change.
async fn comparisons(world: &World, change: impl FnOnce(&World)) -> u64 {
    let before = world.comparisons();
    change(world);
    world.pass(MOMENT).await;
    world.comparisons() - before
}

/// Colours of a web page are no reason to compare ten thousand applications.
#[tokio::test(start_paused = true)]
async fn ctl_132_a_setting_without_effect_on_comparisons_compares_nothing() {
    let world = World::settled().await;
    let banner = json!({"ui.bannercontent": "maintenance", "accounts.alice": "login"});
    assert_eq!(comparisons(&world, |world| world.settings(&banner)).await, 0);
    let ignored = json!({"resource.customizations.ignoreDifferences.all": "jsonPointers: [/data/none]"});
    assert_eq!(comparisons(&world, |world| world.settings(&ignored)).await, 1);
}

fn repository(name: &str, url: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"url": url, "username": "u", "password": name}})
}

/// REP-20: whoever reaches a repository in a new way looks at once; others do not.
#[tokio::test(start_paused = true)]
async fn rep_20_new_credentials_concern_those_who_use_them() {
    let world = World::settled().await;
    let add = |name: &'static str, url: &'static str| {
        move |world: &World| drop(world.ask(Method::POST, SECRETS, &repository(name, url)))
    };
    assert_eq!(comparisons(&world, add("other", "https://git.example/other.git")).await, 0);
    assert_eq!(comparisons(&world, add("own", URL)).await, 1);
}

/// REP-111: a change of one cluster concerns the applications that deploy to it.
#[tokio::test(start_paused = true)]
async fn rep_111_a_changed_cluster_concerns_its_own_applications() {
    let fleet = Fleet::start(2).await;
    let (near, far) = (fleet.comparisons("kubernetes.default.svc"), fleet.comparisons("remote.example"));
    let named = json!({"stringData": {"name": "other-name"}});
    ask(&fleet.home, Method::PATCH, &format!("{SECRETS}/remote"), &named);
    tokio::time::sleep(MOMENT).await;
    assert_eq!(fleet.comparisons("kubernetes.default.svc"), near);
    assert_eq!(fleet.comparisons("remote.example"), far + 2);
    assert!(names(2).iter().all(|name| fleet.is_synced(name)));
}
