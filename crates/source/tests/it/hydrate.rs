//! Commits of manifests against real servers of git: pushed over HTTP and SSH, read back with the git program.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use tiphys_render::TreePath;
use tiphys_source::{
    Freshness, Hydrated, HydratedDirectory, Hydration, Pushed, Repository, Secret, SourceError,
};

use crate::git_http::{Auth, Behaviour, GitServer};
use crate::ssh_server::SshServer;
use crate::world::World;

fn hydration(manifests: &[(&str, &str)], sha: &str) -> Hydration {
    let directory = |(path, text): &(&str, &str)| {
        let beside = BTreeMap::from([
            ("README.md".to_owned(), format!("of {sha}\n")),
            ("hydrator.metadata".to_owned(), format!("{{\"drySha\": \"{sha}\"}}\n")),
        ]);
        (TreePath::parse(path).unwrap(), HydratedDirectory { manifest: (*text).to_owned(), beside })
    };
    Hydration {
        sync_branch: "env/dev".to_owned(),
        target_branch: "env/dev".to_owned(),
        directories: manifests.iter().map(directory).collect(),
        root: BTreeMap::from([("hydrator.metadata".to_owned(), format!("{{\"drySha\": \"{sha}\"}}\n"))]),
        manifest: "manifest.yaml",
        metadata: "hydrator.metadata",
        is_stale: None,
        is_shared: false,
        as_default_branch: None,
        message: format!("{sha}: text\n"),
        note: format!("{{\"drySha\":\"{sha}\"}}"),
        author: ("Argo CD".to_owned(), "argo-cd@example.com".to_owned()),
    }
}

/// An origin that takes pushes.
async fn origin() -> World {
    let world = World::with(&[("dry/a.yaml", "1")]).await;
    world.git(&["config", "http.receivepack", "true"]).await;
    world
}

async fn show(world: &World, what: &str) -> String {
    world.git(&["show", what]).await
}

async fn note(world: &World, commit: &str) -> String {
    world.git(&["notes", "--ref=hydrator.metadata", "show", commit]).await
}

async fn files(world: &World, branch: &str) -> Vec<String> {
    let text = world.git(&["ls-tree", "-r", "--name-only", branch]).await;
    text.lines().map(str::to_owned).collect()
}

fn with_password(server: &GitServer) -> Repository {
    let password = Secret::from("hunter2");
    Repository { username: "ada".to_owned(), password, ..Repository::anonymous(&server.url("repo")) }
}

/// CTL-114, CTL-115: the first run begins the branch, the next ones write what changed, and the note says from what.
#[tokio::test]
async fn ctl_114_ctl_115_manifests_are_pushed_over_http() {
    let world = origin().await;
    let server = GitServer::start(&world.root(), Auth::Basic("ada", "hunter2")).await;
    let repository = with_password(&server);
    let run = async |wanted: &Hydration| world.sources.hydrate(&repository, wanted).await.unwrap();

    let first = run(&hydration(&[("apps/a", "kind: A\n"), ("apps/b", "kind: B\n")], "sha1")).await;
    assert_eq!(first.pushed, Pushed::Commit);
    assert_eq!(world.git(&["rev-parse", "env/dev"]).await, first.commit);
    assert_eq!(world.git(&["rev-list", "--count", "env/dev"]).await, "1");
    let of_directory =
        |path: &str| ["README.md", "hydrator.metadata", "manifest.yaml"].map(|name| format!("{path}/{name}"));
    let mut expected = [of_directory("apps/a"), of_directory("apps/b")].concat();
    expected.push("hydrator.metadata".to_owned());
    assert_eq!(files(&world, "env/dev").await, expected);
    assert_eq!(note(&world, &first.commit).await, "{\"drySha\":\"sha1\"}");
    let who = world.git(&["log", "-1", "--format=%an <%ae> %cn %s", "env/dev"]).await;
    assert_eq!(who, "Argo CD <argo-cd@example.com> Argo CD sha1: text");
    // What was pushed is what whoever asks sees, without waiting for the listing to grow old.
    let seen = world.sources.resolve(&repository, "env/dev", Freshness::Cached).await;
    assert_eq!(seen.as_ref(), Ok(&first.commit));

    let again = run(&hydration(&[("apps/a", "kind: A\n"), ("apps/b", "kind: B\n")], "sha1")).await;
    assert_eq!(again, Hydrated { commit: first.commit.clone(), pushed: Pushed::Nothing });
    let noted = run(&hydration(&[("apps/a", "kind: A\n")], "sha2")).await;
    assert_eq!(noted, Hydrated { commit: first.commit.clone(), pushed: Pushed::Note });
    assert_eq!(note(&world, &first.commit).await, "{\"drySha\":\"sha2\"}");

    let changed = run(&hydration(&[("apps/a", "kind: A2\n"), ("apps/b", "kind: B\n")], "sha3")).await;
    assert_eq!(changed.pushed, Pushed::Commit);
    assert_eq!(show(&world, "env/dev:apps/a/manifest.yaml").await, "kind: A2");
    assert_eq!(show(&world, "env/dev:apps/a/README.md").await, "of sha3");
    assert_eq!(show(&world, "env/dev:apps/b/README.md").await, "of sha1");
    assert_eq!(note(&world, &changed.commit).await, "{\"drySha\":\"sha3\"}");
    assert_eq!(world.git(&["rev-parse", "env/dev~1"]).await, first.commit);
    assert_eq!(world.git(&["fsck", "--strict"]).await, "");
    // Nothing is left of the repositories of the runs.
    assert_eq!(fs::read_dir(world.path().join("cache/hydrations")).unwrap().count(), 0);
}

/// CTL-114: a branch that is proposed begins where the one that is synced is; both begin together.
#[tokio::test]
async fn ctl_114_a_target_branch_begins_at_the_sync_branch() {
    let world = origin().await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let mut wanted = hydration(&[("apps/a", "kind: A\n")], "sha1");
    wanted.target_branch = "env/dev-next".to_owned();
    let first = world.sources.hydrate(&repository, &wanted).await.unwrap();
    assert_eq!(world.git(&["rev-parse", "env/dev-next"]).await, first.commit);
    let begin = world.git(&["rev-parse", "env/dev"]).await;
    assert_eq!(world.git(&["rev-parse", "env/dev-next~1"]).await, begin);
    assert!(files(&world, "env/dev").await.is_empty());

    world.git(&["update-ref", "refs/heads/env/dev", &first.commit]).await;
    world.git(&["update-ref", "-d", "refs/heads/env/dev-next"]).await;
    let second = hydration(&[("apps/a", "kind: A2\n")], "sha2");
    let second = Hydration { target_branch: "env/dev-next".to_owned(), ..second };
    world.sources.hydrate(&repository, &second).await.unwrap();
    assert_eq!(world.git(&["rev-parse", "env/dev-next~1"]).await, first.commit);
    assert_eq!(world.git(&["rev-parse", "env/dev"]).await, first.commit);
}

/// CTL-115, CTL-116, CTL-119: other files stay, links are not followed, and only what is stale goes.
#[tokio::test]
async fn ctl_116_links_of_the_branch_lead_nowhere() {
    let world = origin().await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    world.git(&["checkout", "-q", "-b", "env/dev"]).await;
    fs::create_dir_all(world.origin().join("apps/a")).unwrap();
    std::os::unix::fs::symlink("/tmp", world.origin().join("apps/out")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", world.origin().join("apps/a/manifest.yaml")).unwrap();
    world
        .commit(
            "hand",
            &[("apps/own.txt", "kept"), ("gone/hydrator.metadata", "ours"), ("gone/manifest.yaml", "x")],
        )
        .await;
    world.git(&["checkout", "-q", "main"]).await;

    let through = world.sources.hydrate(&repository, &hydration(&[("apps/out/x", "kind: A\n")], "s")).await;
    let error = through.unwrap_err().to_string();
    assert!(error.contains("a link or a file stands where a directory belongs"), "{error}");
    assert!(!std::path::Path::new("/tmp/x/manifest.yaml").exists());

    let mut wanted = hydration(&[("apps/a", "kind: A\n")], "sha1");
    wanted.is_stale = Some(Arc::new(|_, metadata| metadata == "ours"));
    world.sources.hydrate(&repository, &wanted).await.unwrap();
    assert_eq!(show(&world, "env/dev:apps/a/manifest.yaml").await, "kind: A");
    let kinds = world.git(&["ls-tree", "env/dev", "apps/a/manifest.yaml", "apps/out"]).await;
    assert!(kinds.starts_with("100644 blob") && kinds.contains("120000 blob"), "{kinds}");
    assert_eq!(show(&world, "env/dev:apps/own.txt").await, "kept");
    assert!(!files(&world, "env/dev").await.iter().any(|file| file.starts_with("gone/")));
}

/// CTL-114: what others push meanwhile stays, and notes of several runs at once are all there.
#[tokio::test]
async fn ctl_114_concurrent_pushes_lose_nothing() {
    let world = origin().await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let one = |branch: &str, path: &str, sha: &str| {
        let branch = branch.to_owned();
        Hydration {
            sync_branch: branch.clone(),
            target_branch: branch,
            ..hydration(&[(path, "kind: A\n")], sha)
        }
    };
    let all = [one("env/a", "apps/a", "s1"), one("env/a", "apps/b", "s2"), one("env/b", "apps/a", "s3")];
    let runs = all.iter().map(|wanted| world.sources.hydrate(&repository, wanted));
    let done: Vec<Hydrated> = futures::future::try_join_all(runs).await.unwrap();
    let of_a = files(&world, "env/a").await;
    assert!(
        ["apps/a/manifest.yaml", "apps/b/manifest.yaml"]
            .iter()
            .all(|name| of_a.contains(&(*name).to_owned()))
    );
    for (hydrated, sha) in done.iter().zip(["s1", "s2", "s3"]) {
        assert_eq!(note(&world, &hydrated.commit).await, format!("{{\"drySha\":\"{sha}\"}}"));
    }
}

/// CTL-113, REP-60: who may not push is told so, without secrets; directories of this machine are not pushed to.
#[tokio::test]
async fn ctl_113_a_refused_push_is_an_error() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ada", "hunter2")).await;
    let wanted = hydration(&[("apps/a", "kind: A\n")], "sha1");
    // The server gives, and takes nothing: `http.receivepack` is off.
    world.git(&["config", "http.receivepack", "false"]).await;
    let error = world.sources.hydrate(&with_password(&server), &wanted).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let stranger = Repository::anonymous(&server.url("repo"));
    let error = world.sources.hydrate(&stranger, &wanted).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
    server.behave(Behaviour { forbids: true, ..Behaviour::default() });
    assert!(world.sources.hydrate(&with_password(&server), &wanted).await.is_err());

    let error = world.sources.hydrate(&world.local(), &wanted).await.unwrap_err();
    assert!(matches!(error, SourceError::InvalidRepository { .. }), "{error:?}");
    let bad = Hydration { target_branch: "a:b".to_owned(), ..wanted };
    let error = world.sources.hydrate(&stranger, &bad).await.unwrap_err();
    assert!(matches!(error, SourceError::InvalidRevision { .. }), "{error:?}");
}

/// CTL-114: the same over SSH.
#[tokio::test]
async fn ctl_114_manifests_are_pushed_over_ssh() {
    let world = origin().await;
    let server = SshServer::start(&world.root()).await;
    fs::write(world.path().join("known_hosts"), server.known_host()).unwrap();
    let url = format!("ssh://git@127.0.0.1:{}/repo", server.port());
    let key = Secret::from(server.client_key());
    let repository = Repository { ssh_private_key: key, ..Repository::anonymous(&url) };
    let wanted = hydration(&[("apps/a", "kind: A\n")], "sha1");
    let pushed = world.sources.hydrate(&repository, &wanted).await.unwrap();
    assert_eq!(world.git(&["rev-parse", "env/dev"]).await, pushed.commit);
    assert_eq!(note(&world, &pushed.commit).await, "{\"drySha\":\"sha1\"}");
}

/// INV-16: the default branch is not written where that is refused, whichever branch it is; another one is.
#[tokio::test]
async fn inv_16_refused_default_branch_is_not_written() {
    let world = origin().await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let before = world.git(&["rev-parse", "main"]).await;
    let wanted = |branch: &str| Hydration {
        sync_branch: branch.to_owned(),
        target_branch: branch.to_owned(),
        as_default_branch: Some("the branch is read".to_owned()),
        ..hydration(&[("apps/a", "kind: A\n")], "sha1")
    };
    let error = world.sources.hydrate(&repository, &wanted("main")).await.unwrap_err();
    assert_eq!(error, SourceError::Denied { text: "the branch is read".to_owned() });
    assert_eq!(world.git(&["rev-parse", "main"]).await, before);
    world.sources.hydrate(&repository, &wanted("env/dev")).await.unwrap();
    // Another branch at the same commit is not the default branch.
    world.git(&["branch", "same", "main"]).await;
    for branch in ["main", "same"] {
        assert_eq!(
            world.sources.is_default_branch(&repository, branch).await,
            Ok(branch == "main"),
            "{branch}"
        );
    }
    world.sources.hydrate(&repository, &wanted("same")).await.unwrap();
}

/// INV-16, CTL-114: a run that changes nothing leaves the note of others who write to the branch.
#[tokio::test]
async fn inv_16_notes_of_a_shared_branch_stay() {
    let world = origin().await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let shared =
        |path: &str, sha: &str| Hydration { is_shared: true, ..hydration(&[(path, "kind: A\n")], sha) };
    world.sources.hydrate(&repository, &shared("apps/a", "sha1")).await.unwrap();
    let theirs = world.sources.hydrate(&repository, &shared("apps/b", "sha2")).await.unwrap();
    let again = world.sources.hydrate(&repository, &shared("apps/a", "sha3")).await.unwrap();
    assert_eq!(again, Hydrated { commit: theirs.commit.clone(), pushed: Pushed::Nothing });
    assert_eq!(note(&world, &theirs.commit).await, "{\"drySha\":\"sha2\"}");
}
