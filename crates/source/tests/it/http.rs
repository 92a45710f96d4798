//! Smart HTTP: credentials, refusals, old servers.

use std::fs;

use tiphys_api::repo_url::RepoUrl;
use tiphys_source::{Freshness, Repository, Secret, SourceError};

use crate::git_http::{Auth, Behaviour, GitServer};
use crate::world::World;

async fn fetches(world: &World, repository: &Repository) -> Result<String, SourceError> {
    let commit = world.sources.resolve(repository, "main", Freshness::Cached).await?;
    world.sources.tree(repository, &commit).await.map(|tree| tree.id().to_owned())
}

#[tokio::test]
async fn rep_71_basic_credentials() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ada", "pa$$ 'w\"ord")).await;
    let right = Repository {
        username: "ada".to_owned(),
        password: Secret::from("pa$$ 'w\"ord"),
        ..Repository::anonymous(&server.url("repo"))
    };
    fetches(&world, &right).await.unwrap();
    fetches(&world, &Repository { force_http_basic_auth: true, ..right.clone() }).await.unwrap();

    let wrong = Repository { password: Secret::from("hunter2"), ..right.clone() };
    let error = fetches(&world, &wrong).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
    assert!(!error.to_string().contains("hunter2"), "{error}");

    let url = server.url("repo").replace("http://", "http://ada:hunter2@");
    let error = fetches(&world, &Repository::anonymous(&url)).await.unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let url = server.url("repo").replace("http://", "http://ada:pa$$%20'w%22ord@");
    fetches(&world, &Repository { url: RepoUrl::new(url), ..Repository::default() }).await.unwrap();
}

#[tokio::test]
async fn rnd_27_no_credentials() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("u", "p")).await;
    let url = server.url("repo");
    let error = fetches(&world, &Repository::anonymous(&url)).await.unwrap_err();
    let start = format!(
        "failed to authenticate to git repository \"{url}\": no credentials matched this URL: `git ls-remote "
    );
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn rep_63_cached_content_needs_valid_credentials() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("u", "p")).await;
    let url = server.url("repo");
    let right =
        Repository { username: "u".to_owned(), password: Secret::from("p"), ..Repository::anonymous(&url) };
    let commit = world.sources.resolve(&right, "HEAD", Freshness::Cached).await.unwrap();
    world.sources.tree(&right, &commit).await.unwrap();
    let stranger = Repository::anonymous(&url);
    assert!(matches!(world.sources.tree(&stranger, &commit).await, Err(SourceError::Denied { .. })));
}

#[tokio::test]
async fn rep_71_bearer_tokens() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Bearer("t0ken")).await;
    let repository =
        Repository { bearer_token: Secret::from("t0ken"), ..Repository::anonymous(&server.url("repo")) };
    fetches(&world, &repository).await.unwrap();
}

#[tokio::test]
async fn rnd_35_redirects_are_not_followed() {
    let world = World::with(&[("a", "1")]).await;
    let behaviour = Behaviour { redirects: true, ..Behaviour::default() };
    let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    let error = fetches(&world, &Repository::anonymous(&server.url("repo"))).await.unwrap_err();
    assert!(error.to_string().contains("ls-remote"), "{error}");
}

#[tokio::test]
async fn rnd_42_servers_that_give_out_tips_only() {
    let world = World::with(&[("a", "1")]).await;
    let first = world.git(&["rev-parse", "HEAD"]).await;
    world.commit("second", &[("a", "2")]).await;
    let behaviour = Behaviour { is_old: true, ..Behaviour::default() };
    let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    let repository = Repository::anonymous(&server.url("repo"));
    fetches(&world, &repository).await.unwrap();
    world.sources.tree(&repository, &first).await.unwrap();
    let missing = "1234567890123456789012345678901234567890";
    let error = world.sources.tree(&repository, missing).await.map(drop).unwrap_err();
    assert!(matches!(error, SourceError::RevisionNotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn rnd_42_a_commit_the_server_lacks() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let missing = "1234567890123456789012345678901234567890";
    let error = world.sources.tree(&repository, missing).await.map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("unable to resolve '{missing}' to a commit SHA: revision not found")
    );
}

/// SEC-38: a server that repeats the credentials, and a proxy whose password has a slash, do not get them into an
/// error.
#[tokio::test]
async fn sec_38_errors_of_git_show_no_credentials() {
    let world = World::with(&[("a", "1")]).await;
    let behaviour = Behaviour { echoes: true, ..Behaviour::default() };
    let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    // A variable that names a proxy for nothing makes git ask.
    let by_git = world.restarted(|options| {
        options.proxy_environment = vec![("ftp_proxy".to_owned(), "http://127.0.0.1:1".to_owned())];
    });
    let plain = Repository {
        username: "ada".to_owned(),
        password: Secret::from("canary/1@x"),
        ..Repository::anonymous(&server.url("repo"))
    };
    let forced = Repository { force_http_basic_auth: true, ..plain.clone() };
    let bearer =
        Repository { bearer_token: Secret::from("canary"), ..Repository::anonymous(&server.url("repo")) };
    let proxied = Repository { proxy: Secret::from("http://u:canary/1@127.0.0.1:1"), ..plain.clone() };
    for repository in [plain, forced, bearer, proxied] {
        for sources in [&world.sources, &by_git] {
            let error = sources.test(&repository).await.unwrap_err().to_string();
            // The password, and `ada:canary` in base64.
            for secret in ["canary", "1@x", "YWRhOmNhbmFye", "You sent"] {
                assert!(!error.contains(secret), "{error}");
            }
            assert!(error.starts_with("`git ls-remote "), "{error}");
        }
    }
}

/// SEC-58: no credential helper is asked, whatever a configuration names: it would be told what a URL says, and run as
/// a program.
#[tokio::test]
async fn sec_58_no_credential_helper_is_asked() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("u", "p")).await;
    let repository = Repository {
        username: "u".to_owned(),
        password: Secret::from("p"),
        ..Repository::anonymous(&server.url("repo"))
    };
    // A variable that names a proxy for nothing makes git ask.
    let sources = world.restarted(|options| {
        options.proxy_environment = vec![("ftp_proxy".to_owned(), "http://127.0.0.1:1".to_owned())];
    });
    let first = sources.resolve(&repository, "main", Freshness::Fetch).await.unwrap();
    sources.tree(&repository, &first).await.unwrap();
    let mark = world.path().join("asked");
    let config = world.generations()[0].join("config");
    let helper = format!("[credential]\n\thelper = \"!touch {}; true\"\n", mark.display());
    fs::write(&config, format!("{}{helper}", fs::read_to_string(&config).unwrap())).unwrap();
    let next = world.commit("next", &[("a", "2")]).await;
    sources.tree(&repository, &next).await.unwrap();
    assert!(!mark.exists(), "the helper ran");
}
