//! Applications that are rendered into a branch and synced from it: from a push to the cluster, with a real git server.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::api::CONFIG_MAPS;
use crate::fixtures::automated;
use crate::git::git;
use crate::rendered::is;
use crate::world::{Setup, World, merge};

const CHART: [(&str, &str); 3] = [
    ("chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
    ("chart/values.yaml", "text: one\n"),
    (
        "chart/templates/cm.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\ndata: {text: {{ required \"text!\" .Values.text }}}\n",
    ),
];
/// The branch that is written.
const BRANCH: &str = "env/dev";

fn bare(world: &World) -> PathBuf {
    world.directory().join("git/app.git")
}

async fn logins(world: &World, kind: &str, url: &str, login: (&str, &str)) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": kind, "namespace": world.cp,
        "labels": {"argocd.argoproj.io/secret-type": kind}},
        "stringData": {"url": url, "username": login.0, "password": login.1}});
    world.api.apply("v1/secrets", &secret).await;
}

/// CTL-106..115: a chart becomes a commit by the credentials for writing, and the commit goes live; a process that ends in
/// the middle of a run, and a chart that cannot be rendered, leave a branch that is whole.
#[tokio::test]
async fn ctl_106_a_chart_goes_live_by_way_of_a_branch() {
    let setup = Setup { env: vec![("ARGOCD_HYDRATOR_ENABLED", "true")], ..Setup::default() };
    let Some(mut world) = World::start_with("hydrated", setup).await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &CHART).await;
    let bare = bare(&world);
    git(&bare, &["config", "http.receivepack", "true"]).await;
    world.git.require("app", &[("reader", "r-secret"), ("writer", "w-secret")]);
    logins(&world, "repository", &repo.url, ("reader", "r-secret")).await;
    logins(&world, "repository-write", &repo.url, ("writer", "w-secret")).await;
    let mut change = automated();
    merge(
        &mut change,
        &json!({"spec": {"source": null, "sourceHydrator": {
            "drySource": {"repoURL": repo.url, "targetRevision": "main", "path": "chart"},
            "syncSource": {"targetBranch": BRANCH, "path": "apps/shop"}}}}),
    );
    let app = world.create("app", &repo, "chart", &ns, &change).await;
    world.until_object(CONFIG_MAPS, &ns, "shop", "is there", is("one")).await;
    assert!(world.git.logins("app").iter().any(|user| user == "writer"), "it was pushed by the writer");
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sync"]["revision"], git(&bare, &["rev-parse", BRANCH]).await);

    // A process that ends while it may be rendering or pushing.
    let second = world.push(&repo, &[("chart/values.yaml", "text: two\n")]).await;
    world.kill().await;
    world.restart().await;
    world.until_object(CONFIG_MAPS, &ns, "shop", "follows", is("two")).await;
    assert_eq!(git(&bare, &["rev-list", "--count", BRANCH]).await, "2", "each change is one commit");
    let note = git(&bare, &["notes", "--ref", "hydrator.metadata", "show", BRANCH]).await;
    assert_eq!(note, format!("{{\"drySha\":\"{second}\"}}"));
    // RND-2, CTL-115: what makes the same is told beside the manifests.
    for file in ["README.md", "hydrator.metadata"] {
        let text = git(&bare, &["show", &format!("{BRANCH}:apps/shop/{file}")]).await;
        assert!(text.contains("helm template . --name-template "), "{file}: {text}");
    }

    // Nothing is committed, and nothing taken away, when a rendering fails.
    let head = git(&bare, &["rev-parse", BRANCH]).await;
    world.push(&repo, &[("chart/values.yaml", "other: x\n")]).await;
    let state = |app: &Value| app["status"]["sourceHydrator"]["currentOperation"].clone();
    let seen = world.until_app(&app, "fails", |app| state(app)["phase"] == "Failed").await;
    let message = state(&seen)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("Failed to hydrate: ") && message.contains("text!"), "{message}");
    assert_eq!(git(&bare, &["rev-parse", BRANCH]).await, head);
    world.push(&repo, &[("chart/values.yaml", "text: three\n")]).await;
    world.until_object(CONFIG_MAPS, &ns, "shop", "is mended", is("three")).await;
    world.finish().await;
}
