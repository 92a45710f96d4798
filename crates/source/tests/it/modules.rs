//! Submodules, from real servers (RND-45, REP-76).

use std::fs;

use tiphys_api::repository::Reach;
use tiphys_api::settings::ProjectMatching;
use tiphys_render::{EntryKind, TreeError, TreePath};
use tiphys_source::{Freshness, Repository, Secret, Sources, Trust};

use crate::git_http::{Auth, GitServer};
use crate::world::World;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// A commit of a library beside the origin, whose file says this.
async fn library(world: &World, text: &str) -> String {
    let folder = world.root().join("lib");
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    world.git(&["init", "-q", "-b", "main", folder]).await;
    fs::write(world.root().join("lib/file"), text).unwrap();
    world.git(&["-C", folder, "add", "-A"]).await;
    world.git(&["-C", folder, "commit", "-q", "-m", text]).await;
    world.git(&["-C", folder, "rev-parse", "HEAD"]).await
}

/// A commit of the origin with submodules: path, URL and commit.
async fn refer(world: &World, modules: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for (path, url, commit) in modules {
        text += "[submodule \"";
        text += &[path, "\"]\n\tpath = ", path, "\n\turl = ", url, "\n"].concat();
        world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]).await;
    }
    fs::write(world.origin().join(".gitmodules"), text).unwrap();
    world.git(&["add", ".gitmodules"]).await;
    world.git(&["commit", "-q", "-m", "modules"]).await;
    world.git(&["rev-parse", "HEAD"]).await
}

async fn read(sources: &Sources, repository: &Repository, file: &str) -> Result<String, TreeError> {
    sources.invalidate(repository.url.expose());
    let commit = sources.resolve(repository, "main", Freshness::Cached).await.unwrap();
    let tree = sources.tree(repository, &commit).await.unwrap();
    tree.read(&path(file), 100).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn rnd_45_submodules_of_the_same_server_are_fetched_with_the_credentials_of_the_parent() {
    let world = World::with(&[("app/a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    let repository = Repository {
        username: "ci".to_owned(),
        password: Secret::from("s3cret"),
        ..Repository::anonymous(&server.url("repo"))
    };
    let first = library(&world, "one").await;
    let absolute = server.url("lib");
    refer(&world, &[("app/lib", "../lib", &first), ("other", &absolute, &first)]).await;
    for file in ["app/lib/file", "other/file"] {
        assert_eq!(read(&world.sources, &repository, file).await.as_deref(), Ok("one"), "{file}");
    }
    assert_eq!(read(&world.sources, &repository, "app/a").await.as_deref(), Ok("1"));

    let commit = world.git(&["rev-parse", "HEAD"]).await;
    let tree = world.sources.tree(&repository, &commit).await.unwrap();
    let before = (tree.id().to_owned(), tree.subtree_id(&path("app")).unwrap());
    assert!(tree.entry(&path("app/lib")).unwrap().unwrap().is_directory());
    assert_eq!(world.sources.tree(&repository, &commit).await.unwrap().id(), before.0);

    let second = library(&world, "two").await;
    let next = refer(&world, &[("app/lib", "../lib", &second), ("other", &absolute, &first)]).await;
    assert_eq!(read(&world.sources, &repository, "app/lib/file").await.as_deref(), Ok("two"));
    let tree = world.sources.tree(&repository, &next).await.unwrap();
    assert_ne!((tree.id().to_owned(), tree.subtree_id(&path("app")).unwrap()), before);
    // What is different inside of it is not known, so it is not said that nothing is.
    let changed = world.sources.changed_files(&repository, &commit, &next).await;
    assert!(changed.unwrap_err().to_string().starts_with("a submodule changed"));
}

#[tokio::test]
async fn rep_76_other_servers_get_no_credentials_and_harm_nothing_else() {
    let world = World::with(&[("app/a", "1")]).await;
    let ours = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    // It would let the same password in.
    let theirs = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    let open = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository {
        username: "ci".to_owned(),
        password: Secret::from("s3cret"),
        force_http_basic_auth: true,
        ..Repository::anonymous(&ours.url("repo"))
    };
    let commit = library(&world, "one").await;
    refer(&world, &[("theirs", &theirs.url("lib"), &commit), ("open", &open.url("lib"), &commit)]).await;
    // SEC-50: another port of this machine is named by an operator only.
    let strict = world.restarted(|_| {});
    let error = read(&strict, &repository, "open/file").await.unwrap_err().to_string();
    assert!(error.contains("tiphys.renderer.localAddresses"), "{error}");
    world.sources.set_trust(Trust { local_addresses: true, ..Trust::default() });
    let error = read(&world.sources, &repository, "theirs/file").await.unwrap_err().to_string();
    assert!(error.starts_with("theirs is a git submodule, and its content is not known: "), "{error}");
    assert!(error.contains("no credentials matched this URL") && !error.contains("s3cret"), "{error}");
    assert_eq!(read(&world.sources, &repository, "open/file").await.as_deref(), Ok("one"));
    assert_eq!(read(&world.sources, &repository, "app/a").await.as_deref(), Ok("1"));
}

/// A3: whoever may commit names any repository of the server; shared credentials read what the project may read.
#[tokio::test]
async fn rep_76_shared_credentials_read_what_the_project_may_read() {
    let world = World::with(&[("app/a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    let of = |rules: Vec<String>| Repository {
        username: "ci".to_owned(),
        password: Secret::from("s3cret"),
        reach: Some(Reach { source_repos: rules.into(), matching: ProjectMatching::Compat }),
        ..Repository::anonymous(&server.url("repo"))
    };
    let commit = library(&world, "one").await;
    refer(&world, &[("lib", "../lib", &commit)]).await;
    let both = of(vec![server.url("repo"), server.url("lib")]);
    let alone = of(vec![server.url("repo")]);
    assert_eq!(read(&world.sources, &both, "lib/file").await.as_deref(), Ok("one"));
    // What others fetched before changes nothing.
    let error = read(&world.sources, &alone, "lib/file").await.unwrap_err().to_string();
    assert!(error.ends_with("does not permit it, so it is read without credentials"), "{error}");
    assert_eq!(read(&world.sources, &alone, "app/a").await.as_deref(), Ok("1"));
}

#[tokio::test]
async fn rep_76_urls_of_submodules_that_nobody_may_ask() {
    let world = World::with(&[("app/a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let commit = library(&world, "one").await;
    let mark = world.path().join("mark");
    let lib = world.root().join("lib");
    let outside = format!("file://{}", lib.display());
    let program = format!("\"ext::sh -c touch% {}\"", mark.display());
    refer(
        &world,
        &[
            ("file", &outside, &commit),
            ("path", lib.to_str().unwrap(), &commit),
            ("program", &program, &commit),
            ("option", "--upload-pack=touch", &commit),
            ("above", "../../lib", &commit),
        ],
    )
    .await;
    for name in ["file", "path", "program", "option", "above"] {
        let error = read(&world.sources, &repository, &format!("{name}/file")).await.unwrap_err();
        assert!(matches!(error, TreeError::Submodule { .. }), "{name}: {error}");
    }
    assert!(!mark.exists());
    assert_eq!(read(&world.sources, &repository, "app/a").await.as_deref(), Ok("1"));
    // A repository of this machine may have one beside it, in the folders that are open.
    refer(&world, &[("file", &outside, &commit), ("above", "../lib", &commit)]).await;
    for name in ["file", "above"] {
        let found = read(&world.sources, &world.local(), &format!("{name}/file")).await;
        assert_eq!(found.as_deref(), Ok("one"), "{name}");
    }
}

#[tokio::test]
async fn rep_76_submodules_may_be_switched_off() {
    let world = World::with(&[("app/a", "1")]).await;
    let commit = library(&world, "one").await;
    refer(&world, &[("lib", "../lib", &commit)]).await;
    let without = world.restarted(|options| options.submodules = false);
    let error = read(&without, &world.local(), "lib/file").await.unwrap_err().to_string();
    assert!(error.ends_with("submodules are switched off (ARGOCD_GIT_MODULES_ENABLED)"), "{error}");
    assert_eq!(read(&world.sources, &world.local(), "lib/file").await.as_deref(), Ok("one"));
    let head = world.git(&["rev-parse", "HEAD"]).await;
    let entry = without.tree(&world.local(), &head).await.unwrap().entry(&path("lib")).unwrap();
    assert_eq!(entry.unwrap().kind, EntryKind::Submodule, "it never passes for an empty directory");
}

/// INV-10: each commit holds the one before it.
#[tokio::test]
async fn rep_76_submodules_inside_of_each_other_end() {
    let world = World::with(&[("a", "1")]).await;
    let mut commit = world.git(&["rev-parse", "HEAD"]).await;
    for _ in 0..10 {
        commit = refer(&world, &[("m", "../repo", &commit)]).await;
    }
    let deep = |levels: usize| format!("{}a", "m/".repeat(levels));
    assert_eq!(read(&world.sources, &world.local(), &deep(7)).await.as_deref(), Ok("1"));
    let error = read(&world.sources, &world.local(), &deep(10)).await.unwrap_err().to_string();
    assert!(error.contains("more than 8 levels inside of each other"), "{error}");
}
