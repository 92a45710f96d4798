//! Two destination clusters: what happens to one is no matter of the other's applications.

use std::path::PathBuf;

use http::Method;
use serde_json::{Value, json};

use crate::api::{CONFIG_MAPS, NAMESPACES};
use crate::births::Births;
use crate::fixtures::{automated_with, config_map, file};
use crate::git::Repo;
use crate::second::{Second, Way};
use crate::world::{Setup, World, conditions, is_synced, merge};

/// Applications of the second cluster: more than there are workers.
const FAR: usize = 5;
/// The account that `cluster add` makes.
const ACCOUNT: &str = "argocd-manager";

/// An installation with one application near, and several on another cluster.
struct Clusters {
    world: World,
    second: Second,
    kubeconfig: PathBuf,
    near_repo: Repo,
    far_repo: Repo,
    near: String,
    near_ns: String,
    far: Vec<String>,
    far_ns: String,
    births: Births,
    commits: u32,
}

impl Clusters {
    async fn start(test: &str) -> Option<Self> {
        // With few workers those who wait would be noticed at once.
        let workers = ("ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS", "2");
        let setup = Setup { env: vec![workers], ..Setup::default() };
        let mut world = World::start_with(test, setup).await?;
        let Some(second) = Second::start().await else {
            world.finish().await;
            return None;
        };
        let near_ns = world.namespace("near").await;
        let far_ns = world.name("far");
        let kubeconfig = second.kubeconfig_with(&world);
        let files = |value: &str| file(&[config_map("cm", value), config_map("other", value)]);
        let near_repo = world.repo("near", &[("cm.yaml", &files("0"))]).await;
        let far_repo = world.repo("far", &[("cm.yaml", &files("0"))]).await;
        let near = world.create("near", &near_repo, ".", &near_ns, &automated_with(&[])).await;
        let names = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": far_ns}});
        second.api.apply(NAMESPACES, &names).await;
        let births = Births::watch(&second.api, &far_ns, &[CONFIG_MAPS]).await;
        let mut clusters = Self {
            world,
            second,
            kubeconfig,
            near_repo,
            far_repo,
            near,
            near_ns,
            far: Vec::new(),
            far_ns,
            births,
            commits: 0,
        };
        clusters.add().await;
        for number in 0..FAR {
            clusters.create_far(number).await;
        }
        clusters.all_is_well().await;
        Some(clusters)
    }

    /// `cluster …` in core mode, which has to succeed.
    async fn cluster(&self, words: &[&str]) -> String {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_tiphys"))
            .arg("cluster")
            .args(words)
            .arg("--core")
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "cluster {words:?}: {printed}");
        printed
    }

    async fn add(&self) {
        let printed = self.cluster(&["add", "second", "-y"]).await;
        assert_eq!(printed, format!("Cluster '{}' added\n", self.second.server()));
    }

    /// Each has a folder and an object of its own; the first one has those that are pushed.
    async fn create_far(&mut self, number: usize) {
        let mut change = automated_with(&[]);
        merge(&mut change, &json!({"spec": {"destination": {"server": "", "name": "second"}}}));
        let name = format!("far-{number}");
        let path = if number == 0 { "." } else { &name };
        if number > 0 {
            let manifests = file(&[config_map(&name, "0")]);
            self.far_repo.commit(&[(&format!("{name}/cm.yaml"), &manifests)]).await;
        }
        self.far.push(self.world.create(&name, &self.far_repo, path, &self.far_ns, &change).await);
    }

    /// Commits to a repository of one of the clusters, and announces it; the first one loses or gets an object.
    async fn push(&mut self, is_near: bool) -> String {
        self.commits += 1;
        let value = self.commits.to_string();
        let manifests = file(&[config_map("cm", &value), config_map("other", &value)]);
        let repo = if is_near { &self.near_repo } else { &self.far_repo };
        self.world.push(repo, &[("cm.yaml", &manifests)]).await;
        value
    }

    /// The near application follows a push to its end.
    async fn near_follows(&mut self) {
        let value = self.push(true).await;
        let is_new = |cm: &Value| cm["data"]["key"] == value.as_str();
        self.world.until_object(CONFIG_MAPS, &self.near_ns, "cm", "follows", is_new).await;
        self.world.until_app(&self.near, "is done", is_synced).await;
    }

    /// The far ones follow a push to its end.
    async fn far_follows(&mut self) {
        let value = self.push(false).await;
        self.until_far(&value).await;
        self.all_is_well().await;
    }

    async fn until_far(&self, value: &str) {
        let look =
            || async { self.second.api.get(CONFIG_MAPS, &self.far_ns, "cm").await.unwrap_or(Value::Null) };
        self.world.until("the far one follows", look, |cm| cm["data"]["key"] == value).await;
    }

    async fn all_is_well(&self) {
        for app in self.far.iter().chain([&self.near]) {
            let is_well = |app: &Value| {
                is_synced(app) && app["status"]["conditions"].as_array().is_none_or(Vec::is_empty)
            };
            self.world.until_app(app, "is well", is_well).await;
        }
    }

    /// All far ones say why nothing goes on when they are looked at, in a condition of this type with these words.
    async fn until_far_says(&self, kind: &str, words: &str) {
        for app in &self.far {
            let look = || self.world.refresh(app, "normal");
            let says = |app: &Value| conditions(app, kind).iter().any(|text| text.contains(words));
            self.world.until(&format!("{app}: {kind} {words:?}"), look, says).await;
        }
    }

    fn nothing_was_deleted(&self) {
        assert_eq!(self.births.deleted(), Vec::<String>::new());
    }

    async fn finish(self) {
        self.nothing_was_deleted();
        self.world.finish().await;
    }
}

/// CTL-141, INV-16, REP-111: a cluster that refuses connections, then one that swallows everything, holds nobody up
/// but its own applications, which say so; afterwards they go on where they were, and nothing was deleted.
#[tokio::test]
async fn ctl_141_an_unreachable_cluster_holds_up_nobody_else() {
    let Some(mut clusters) = Clusters::start("apart").await else { return };
    for way in [Way::Refused, Way::Silent] {
        clusters.second.link.set(way).await;
        let mut value = String::new();
        if way == Way::Silent {
            // Whoever wants to write finds out; watches are silent most of the time.
            value = clusters.push(false).await;
        }
        clusters.near_follows().await;
        clusters.until_far_says("ComparisonError", "cannot reach the API server").await;
        clusters.near_follows().await;
        if way == Way::Refused {
            // What is pushed meanwhile is there when the cluster is.
            value = clusters.push(false).await;
            clusters.near_follows().await;
        }
        clusters.second.link.set(Way::Open).await;
        clusters.until_far(&value).await;
        clusters.all_is_well().await;
        clusters.nothing_was_deleted();
    }
    clusters.finish().await;
}

/// REP-112..114, CLI-812, CLI-814: the token of a cluster is renewed by the command and the old one is worth nothing
/// any more; one that is wrong, and a cluster that is taken out, concern its own applications only; nothing is pruned.
#[tokio::test]
async fn rep_114_a_cluster_gets_a_new_token_a_wrong_one_and_is_taken_out() {
    let Some(mut clusters) = Clusters::start("rotated").await else { return };
    let before = secret(&clusters).await;
    assert_eq!(clusters.cluster(&["rotate-auth", "second"]).await, "Cluster 'second' rotated auth\n");
    let after = secret(&clusters).await;
    assert_ne!(token(&before), token(&after));
    until_worthless(&clusters, &token(&before)).await;
    clusters.near_follows().await;
    clusters.far_follows().await;

    // Somebody stores a token that the cluster does not know.
    store(&clusters, &after, "not-a-token").await;
    clusters.until_far_says("ComparisonError", "Unauthorized").await;
    clusters.near_follows().await;
    store(&clusters, &after, &token(&after)).await;
    clusters.far_follows().await;

    // Its entry goes, and its account; both come back.
    let removed = clusters.cluster(&["rm", "second", "-y"]).await;
    assert_eq!(removed, "Cluster 'second' removed\n");
    let account = clusters.second.api.get("v1/serviceaccounts", "kube-system", ACCOUNT).await;
    assert!(account.is_none(), "{account:?}");
    clusters.until_far_says("InvalidSpecError", "there are no clusters with this name: second").await;
    clusters.near_follows().await;
    clusters.push(false).await;
    clusters.nothing_was_deleted();
    clusters.add().await;
    clusters.far_follows().await;
    clusters.finish().await;
}

async fn secret(clusters: &Clusters) -> Value {
    let all = clusters.world.api.list("v1/secrets", &clusters.world.cp).await;
    let label = "argocd.argoproj.io/secret-type";
    all.into_iter().find(|secret| secret["metadata"]["labels"][label] == "cluster").unwrap()
}

fn config(secret: &Value) -> Value {
    use base64::Engine as _;
    let text = secret["data"]["config"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn token(secret: &Value) -> String {
    config(secret)["bearerToken"].as_str().unwrap().to_owned()
}

/// Stores another token for the cluster.
async fn store(clusters: &Clusters, secret: &Value, token: &str) {
    let mut config = config(secret);
    config["bearerToken"] = json!(token);
    let name = secret["metadata"]["name"].as_str().unwrap();
    let patch = json!({"stringData": {"config": config.to_string()}});
    clusters.world.api.patch("v1/secrets", &clusters.world.cp, name, &patch).await;
}

/// Waits until the cluster takes a token no more; it remembers good ones for some seconds.
async fn until_worthless(clusters: &Clusters, token: &str) {
    let (header, url) = (format!("Bearer {token}"), format!("{}/api", clusters.second.server()));
    let look = || async {
        let headers = [("authorization", header.as_str())];
        let answer = clusters.second.api.send(Method::GET, &url, &headers, "").await;
        answer.map_or(Value::Null, |answer| json!(answer.status().as_u16()))
    };
    clusters.world.until("the old token is refused", look, |status| *status == 401).await;
}
