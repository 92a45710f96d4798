//! Projects with credentials of their own for one repository.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS};
use crate::fixtures::{automated, config_map, file};
use crate::git::Repo;
use crate::sshd::Sshd;
use crate::world::{Setup, World, conditions, merge};

/// Failures of repositories are told at once.
const IMPATIENT: (&str, &str) = ("ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS", "0");

/// Passwords that nothing but a Secret and the Git server may ever show.
const CANARIES: [&str; 2] = ["canary-of-one", "canary-of-two"];

fn secret(world: &World, name: &str, url: &str, project: &str, login: (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": world.cp, "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"url": url, "project": project, "username": login.0, "password": login.1}})
}

/// REP-20, REP-21, REP-60..64, SEC-37: two projects have different credentials for one private URL; each application uses its
/// own, the one without a credential is refused, and nobody sees the credentials of another.
#[tokio::test]
async fn rep_20_projects_use_their_own_credentials_for_one_url() {
    let setup = Setup { env: vec![IMPATIENT], ..Setup::default() };
    let Some(mut world) = World::start_with("tenants", setup).await else { return };
    let repo = world.repo("private", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    world.git.require("private", &[("one", CANARIES[0]), ("two", CANARIES[1])]);
    let project = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    for name in ["one", "two", "three"] {
        world.project(name, &project).await;
    }
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        let secret = secret(&world, &format!("repo-{name}"), &repo.url, name, (name, CANARIES[number]));
        world.api.apply("v1/secrets", &secret).await;
    }
    let mut names = Vec::new();
    for name in ["one", "two", "three"] {
        let ns = world.namespace(&format!("ns-{name}")).await;
        let mut change = automated();
        merge(&mut change, &json!({"spec": {"project": name}}));
        names.push((world.create(name, &repo, ".", &ns, &change).await, ns));
    }
    for (app, ns) in &names[..2] {
        world.until_synced(app).await;
        assert!(world.exists(CONFIG_MAPS, ns, "cm").await);
    }
    let (refused, refused_ns) = &names[2];
    let failed = |app: &Value| !conditions(app, "ComparisonError").is_empty();
    let app = world.until_app(refused, "is refused", failed).await;
    assert_eq!(app["status"]["sync"]["status"], "Unknown", "{:#}", app["status"]);
    assert!(!world.exists(CONFIG_MAPS, refused_ns, "cm").await);
    let mut seen = world.git.logins("private");
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["one", "two"], "who has logged in");

    // A credential that becomes wrong is one project's matter.
    let wrong = secret(&world, "repo-one", &repo.url, "one", ("one", "wrong"));
    world.api.apply("v1/secrets", &wrong).await;
    world.until_app(&names[0].0, "is refused", failed).await;
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "2")]))]).await;
    let (other, other_ns) = &names[1];
    let is_new = |cm: &Value| cm["data"]["key"] == "2";
    world.until_object(CONFIG_MAPS, other_ns, "cm", "follows", is_new).await;
    world.refresh(&names[0].0, "hard").await;
    world.until_app(&names[0].0, "is refused", failed).await;
    let kept = world.api.get(CONFIG_MAPS, &names[0].1, "cm").await.unwrap();
    assert_eq!(kept["data"]["key"], "1", "what is not rendered is not touched");
    world.until_synced(other).await;

    let mut shown = world.program.log();
    shown.push_str(&world.metrics().await);
    for kind in [APPS, "v1/events"] {
        shown.push_str(&json!(world.api.list(kind, &world.cp).await).to_string());
    }
    for canary in CANARIES {
        assert!(!shown.contains(canary), "{canary} is shown");
    }
    world.finish().await;
}

/// A repository Secret with a key of its own.
fn key_secret(world: &World, project: &str, url: &str, key: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": format!("repo-{project}"), "namespace": world.cp,
            "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"url": url, "project": project, "sshPrivateKey": key}})
}

/// The clones in the cache that hold a commit.
async fn clones_with(world: &World, commit: &str) -> Vec<PathBuf> {
    let mut left = vec![world.directory().join("cache")];
    let mut found = Vec::new();
    while let Some(directory) = left.pop() {
        if directory.join("HEAD").is_file() && directory.join("objects").is_dir() {
            let asked = tokio::process::Command::new("git")
                .arg("-C")
                .arg(&directory)
                .args(["-c", "safe.directory=*", "cat-file", "-e", commit])
                .output();
            if asked.await.unwrap().status.success() {
                found.push(directory);
            }
            continue;
        }
        // Files of a fetch come and go.
        let members = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        left.extend(members.map(|member| member.path()).filter(|path| path.is_dir()));
    }
    found
}

/// Every file of the cache, as text, but for those that a command of this moment reads its key from.
fn cache_text(directory: &Path) -> String {
    let mut text = String::new();
    for member in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = member.path();
        if path.ends_with("cache/secrets") {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "others may read keys");
        } else if path.is_dir() {
            text.push_str(&cache_text(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()));
        }
    }
    text
}

/// Two projects, each with a key of its own; what stands behind the one URL depends on the key.
struct Keys {
    world: World,
    sshd: Sshd,
    url: String,
    /// What the keys lead to.
    repos: Vec<Repo>,
    private: Vec<String>,
}

/// What each of them declares, and nobody else may see.
const CONTENT: [&str; 2] = ["content-of-one", "content-of-two"];

impl Keys {
    async fn start() -> Option<Self> {
        let setup = Setup { env: vec![IMPATIENT], ..Setup::default() };
        let world = World::start_with("tenants-ssh", setup).await?;
        let sshd = match Sshd::start(&world.directory().join("sshd")).await {
            Ok(sshd) => sshd,
            Err(reason) => return skip(world, &reason).await,
        };
        let mut given =
            Self { url: sshd.url("private"), world, sshd, repos: Vec::new(), private: Vec::new() };
        let known = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-ssh-known-hosts-cm", "namespace": given.world.cp,
                "labels": {"app.kubernetes.io/part-of": "argocd"}},
            "data": {"ssh_known_hosts": given.sshd.known_host()}});
        given.world.api.apply(CONFIG_MAPS, &known).await;
        let project = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
        for (name, content) in [("one", CONTENT[0]), ("two", CONTENT[1])] {
            given
                .repos
                .push(given.world.repo(name, &[("cm.yaml", &file(&[config_map("cm", content)]))]).await);
            given.private.push(given.sshd.key(name).await);
            given.sshd.allow(name, &given.world.directory().join("git").join(format!("{name}.git")));
        }
        if let Err(reason) = given.sshd.admits("one").await {
            return skip(given.world, &reason).await;
        }
        for name in ["one", "two", "three"] {
            given.world.project(name, &project).await;
        }
        for (name, key) in ["one", "two"].into_iter().zip(&given.private) {
            given.world.api.apply("v1/secrets", &key_secret(&given.world, name, &given.url, key)).await;
        }
        Some(given)
    }

    /// An application of a project; returns its name and its namespace.
    async fn app(&mut self, name: &str, project: &str, revision: &str) -> (String, String) {
        let ns = self.world.namespace(&format!("ns-{name}")).await;
        let mut change = automated();
        let source = json!({"repoURL": self.url, "targetRevision": revision});
        merge(&mut change, &json!({"spec": {"project": project, "source": source}}));
        (self.world.create(name, &self.repos[0], ".", &ns, &change).await, ns)
    }

    async fn until_refused(&self, app: &str) -> Value {
        let failed = |app: &Value| !conditions(app, "ComparisonError").is_empty();
        self.world.until_app(app, "is refused", failed).await
    }

    async fn until_content(&self, ns: &str, content: &str) {
        let is_there = |cm: &Value| cm["data"]["key"] == content;
        self.world.until_object(CONFIG_MAPS, ns, "cm", content, is_there).await;
    }
}

async fn skip<T>(world: World, reason: &str) -> Option<T> {
    println!("skipped: no SSH server can be had here: {reason}");
    world.finish().await;
    None
}

/// REP-20, REP-60..63, REP-72, SEC-37: over SSH, with a real server, a project reads with its own key what that key
/// shows it, and never what another project fetched from the same URL; a key that is replaced concerns one project.
#[tokio::test]
async fn rep_20_projects_use_their_own_keys_for_one_url_over_ssh() {
    let Some(mut given) = Keys::start().await else { return };
    let (one, one_ns) = given.app("one", "one", "main").await;
    let (two, two_ns) = given.app("two", "two", "main").await;
    let (three, three_ns) = given.app("three", "three", "main").await;
    for (app, ns, content) in [(&one, &one_ns, CONTENT[0]), (&two, &two_ns, CONTENT[1])] {
        given.until_content(ns, content).await;
        given.world.until_synced(app).await;
    }
    let refused = given.until_refused(&three).await;
    assert_eq!(refused["status"]["sync"]["status"], "Unknown", "{:#}", refused["status"]);
    // A commit that another project fetched is named in full; nobody needs to be asked what it is.
    let heads = [given.repos[0].head().await, given.repos[1].head().await];
    let (thief, thief_ns) = given.app("thief", "one", &heads[1]).await;
    given.until_refused(&thief).await;
    for ns in [&three_ns, &thief_ns] {
        assert!(!given.world.exists(CONFIG_MAPS, ns, "cm").await, "{ns}");
    }
    let clones = [clones_with(&given.world, &heads[0]).await, clones_with(&given.world, &heads[1]).await];
    assert!(clones.iter().all(|clones| clones.len() == 1) && clones[0] != clones[1], "{clones:?}");

    // A key that becomes wrong is one project's matter, and so is a right one.
    let wrong = given.sshd.key("wrong").await;
    let world = &given.world;
    world.api.apply("v1/secrets", &key_secret(world, "one", &given.url, &wrong)).await;
    given.until_refused(&one).await;
    for repo in &given.repos {
        repo.commit(&[("cm.yaml", &file(&[config_map("cm", "later")]))]).await;
    }
    world.refresh(&one, "hard").await;
    given.until_refused(&one).await;
    world.refresh(&two, "hard").await;
    given.until_content(&two_ns, "later").await;
    world.until_synced(&two).await;
    let kept = world.api.get(CONFIG_MAPS, &one_ns, "cm").await.unwrap();
    assert_eq!(kept["data"]["key"], CONTENT[0], "what is not rendered is not touched");
    world.api.apply("v1/secrets", &key_secret(world, "one", &given.url, &given.private[0])).await;
    world.until_app(&one, "reads again", |app| conditions(app, "ComparisonError").is_empty()).await;
    world.refresh(&one, "hard").await;
    given.until_content(&one_ns, "later").await;
    world.until_synced(&one).await;

    nothing_is_shown(&given, &wrong, &one, &heads[1]).await;
    given.world.finish().await;
}

/// SEC-37: no key and no content stands where somebody else may read it.
async fn nothing_is_shown(given: &Keys, wrong: &str, one: &str, head_of_two: &str) {
    let world = &given.world;
    let mut shown = world.program.log() + &world.metrics().await;
    for kind in [APPS, "v1/events"] {
        shown.push_str(&json!(world.api.list(kind, &world.cp).await).to_string());
    }
    for content in CONTENT {
        assert!(!shown.contains(content), "{content} is shown");
    }
    shown.push_str(&cache_text(&world.directory().join("cache")));
    for key in given.private.iter().map(String::as_str).chain([wrong]) {
        let line = key.lines().nth(2).unwrap();
        assert!(!shown.contains(line), "a private key is shown");
    }
    let of_one = world.app(one).await.to_string();
    assert!(!of_one.contains(head_of_two), "{of_one}");
}
