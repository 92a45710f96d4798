//! How often sources are rendered.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::world::{URL, World};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const APPS: usize = 5;

/// Commits an object for each application, and a text that is none of theirs; returns the commit.
fn commit(world: &World, text: &str) -> String {
    let mut files = BTreeMap::from([("readme".to_owned(), Bytes::from(text.to_owned()))]);
    for app in 0..APPS {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c-{app}")}});
        files.insert(format!("app-{app}/all.json"), Bytes::from(object.to_string()));
    }
    world.servers.commit(URL, "main", files, 0).unwrap()
}

fn revisions(world: &World) -> Vec<String> {
    let apps = world.get(APPLICATIONS);
    let apps = apps["items"].as_array().cloned().unwrap_or_default();
    apps.iter().map(|app| app["status"]["sync"]["revision"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn until_all_show(world: &World, commit: &str) {
    let mut looks = 0;
    while revisions(world) != vec![commit; APPS] {
        looks += 1;
        assert!(looks < 1_000, "{:?}, not {commit}", revisions(world));
        world.pass(Duration::from_secs(1)).await;
    }
}

/// What the targets of applications hold is found again without a bound, and nothing is in memory twice.
#[tokio::test(start_paused = true)]
async fn inv_10_applications_hold_what_was_rendered_for_them() {
    let world = World::start().await;
    let first = commit(&world, "one");
    for app in 0..APPS {
        let path = format!("app-{app}");
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": path, "namespace": "argocd"},
            "spec": {"project": "default",
                "source": {"repoURL": URL, "path": path, "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}}});
        world.ask(Method::POST, APPLICATIONS, &app);
    }
    until_all_show(&world, &first).await;
    let sizes = world.sizes();
    assert_eq!((world.renderings(), sizes.renderings, sizes.released_bytes), (APPS as u64, APPS, 0));
    let second = commit(&world, "two");
    let asked = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    for app in 0..APPS {
        world.ask(Method::PATCH, &format!("{APPLICATIONS}/app-{app}"), &asked);
    }
    until_all_show(&world, &second).await;
    let sizes = world.sizes();
    assert_eq!((world.renderings(), sizes.renderings, sizes.released_bytes), (APPS as u64, APPS, 0));
    world.ask(Method::DELETE, &format!("{APPLICATIONS}/app-0"), &Value::Null);
    world.pass(Duration::from_secs(30)).await;
    assert_eq!(world.sizes().renderings, APPS - 1);
}
