//! Files of Git LFS, from servers on the loopback (RND-44).

use std::fs;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tiphys_render::TreePath;
use tiphys_source::{Freshness, Repository, Secret, SourceError, Sources, Trust};

use crate::git_http::{Auth, GitServer};
use crate::world::World;

const TEXT: &str = "kind: ConfigMap\n";

/// The file's name at the server, and the pointer to it.
fn pointer(content: &str) -> (String, String) {
    let digest = Sha256::digest(content.as_bytes());
    let oid = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let size = content.len();
    let text = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n");
    (oid, text)
}

/// A repository with one kept file, which the servers of its directory have.
async fn world(more: &[(&str, &str)]) -> World {
    let (oid, text) = pointer(TEXT);
    let mut files = vec![(".gitattributes", "*.yaml filter=lfs\n"), ("app/cm.yaml", text.as_str())];
    files.extend(more);
    let world = World::with(&files).await;
    fs::create_dir(world.root().join("files")).unwrap();
    fs::write(world.root().join("files").join(oid), TEXT).unwrap();
    world
}

fn with_lfs(url: &str) -> Repository {
    Repository {
        lfs: true,
        username: "ci".to_owned(),
        password: Secret::from("s3cret"),
        ..Repository::anonymous(url)
    }
}

async fn read(sources: &Sources, repository: &Repository) -> Result<Bytes, SourceError> {
    sources.invalidate(repository.url.expose());
    let commit = sources.resolve(repository, "main", Freshness::Cached).await?;
    let tree = sources.tree(repository, &commit).await?;
    Ok(tree.read(&TreePath::parse("app/cm.yaml").unwrap(), 1 << 20).unwrap())
}

#[tokio::test]
async fn rnd_44_files_take_the_place_of_pointers_where_the_repository_asks_for_them() {
    let world = world(&[]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    let repository = with_lfs(&server.url("repo"));
    assert_eq!(read(&world.sources, &repository).await.unwrap(), TEXT);
    let plain = Repository { lfs: false, ..repository.clone() };
    assert!(read(&world.sources, &plain).await.unwrap().starts_with(b"version "));

    // They are kept, also over a restart; a damaged one is fetched again.
    let (oid, _) = pointer(TEXT);
    let file = world.root().join("files").join(&oid);
    fs::remove_file(&file).unwrap();
    let sources = world.restarted(|_| {});
    assert_eq!(read(&sources, &repository).await.unwrap(), TEXT);
    let store = fs::read_dir(world.path().join("cache/lfs")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(store.join(&oid)).unwrap();
    let error = read(&sources, &repository).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("does not have the file"), "{error}");
    fs::write(&file, TEXT.replace("Map", "Mop")).unwrap();
    let error = read(&sources, &repository).await.unwrap_err();
    assert!(error.to_string().contains("is something else"), "{error}");
    fs::write(&file, TEXT).unwrap();
    assert_eq!(read(&sources, &repository).await.unwrap(), TEXT);
}

/// REP-60: another project has its own copy, for which it has to be let in by itself.
#[tokio::test]
async fn rep_60_projects_do_not_see_each_others_files() {
    let world = world(&[]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    let of = |project: &str| Repository { project: project.to_owned(), ..with_lfs(&server.url("repo")) };
    read(&world.sources, &of("one")).await.unwrap();
    read(&world.sources, &of("two")).await.unwrap();
    assert_eq!(fs::read_dir(world.path().join("cache/lfs")).unwrap().count(), 2);
}

/// REP-76: whoever may commit writes `.lfsconfig`; credentials do not follow it to another server.
#[tokio::test]
async fn rep_76_credentials_do_not_go_where_the_repository_says_that_files_are() {
    let place = world(&[]).await;
    let elsewhere = GitServer::start(&place.root(), Auth::Basic("ci", "s3cret")).await;
    let open = GitServer::start(&place.root(), Auth::None).await;
    let config = |server: &GitServer| format!("[lfs]\n\turl = {}/info/lfs\n", server.url("x.git"));
    let world = world(&[(".lfsconfig", &config(&elsewhere))]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ci", "s3cret")).await;
    let repository = with_lfs(&server.url("repo"));
    // SEC-50: another port of this machine is named by an operator only.
    let error = read(&world.sources, &repository).await.unwrap_err();
    assert!(error.to_string().contains("tiphys.renderer.localAddresses"), "{error}");
    world.sources.set_trust(Trust { local_addresses: true, ..Trust::default() });
    let error = read(&world.sources, &repository).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error}");

    world.commit("open", &[(".lfsconfig", &config(&open))]).await;
    assert_eq!(read(&world.sources, &repository).await.unwrap(), TEXT);
    let (_, other) = pointer("other");
    world.commit("inside", &[(".lfsconfig", "[lfs]\n\turl = file:///etc\n"), ("app/cm.yaml", &other)]).await;
    let error = read(&world.sources, &repository).await.unwrap_err();
    assert!(matches!(error, SourceError::InvalidRepository { .. }), "{error}");
}

/// Many applications of one repository ask at the same time; the files are fetched once.
#[tokio::test]
async fn rnd_44_what_many_ask_for_at_once_is_fetched_once() {
    let world = world(&[]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = with_lfs(&server.url("repo"));
    let plain = Repository { lfs: false, ..repository.clone() };
    read(&world.sources, &plain).await.unwrap();
    let commit = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    let before = server.requests();
    let asked = (0..20).map(|_| world.sources.tree(&repository, &commit));
    for tree in futures::future::join_all(asked).await {
        tree.unwrap();
    }
    assert_eq!(server.requests() - before, 2, "one question where the file is, and the file");
}
