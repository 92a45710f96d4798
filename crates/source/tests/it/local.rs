//! Repositories on disk: revisions, trees, changes.

use std::fs;

use tiphys_api::application::DirectorySource;
use tiphys_render::{
    Budget, EntryKind, Inputs, KnownDirectory, RenderRequest, TreeError, TreePath, WalkLimit, render_offline,
};
use tiphys_source::{Freshness, Repository, SourceError};

use crate::world::World;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

#[tokio::test]
async fn rnd_30_revisions_resolve_to_commits() {
    let world = World::with(&[("a.yaml", "kind: A\n")]).await;
    let first = world.git(&["rev-parse", "HEAD"]).await;
    world.git(&["tag", "-a", "v1.0.0", "-m", "one"]).await;
    let second = world.commit("second", &[("a.yaml", "kind: B\n")]).await;
    world.git(&["tag", "v1.1.0"]).await;
    world.git(&["update-ref", "refs/pull/7/head", &first]).await;
    for repository in [
        world.local(),
        Repository::anonymous(&format!("file://{}", world.origin().display())),
        Repository::anonymous(&world.origin().join(".git").to_string_lossy()),
    ] {
        for (revision, expected) in [
            ("", &second),
            ("HEAD", &second),
            ("main", &second),
            ("refs/heads/main", &second),
            ("v1.0.0", &first),
            ("1.x", &second),
            ("pull/7/head", &first),
            (&first[..9], &first),
            (&first, &first),
        ] {
            let resolved = world.sources.resolve(&repository, revision, Freshness::Cached).await;
            assert_eq!(resolved.as_ref(), Ok(expected), "{revision} of {repository:?}");
        }
    }
    let error = world.sources.resolve(&world.local(), "nope", Freshness::Cached).await.unwrap_err();
    assert_eq!(error.to_string(), "unable to resolve 'nope' to a commit SHA: revision not found");
    let error = world.sources.resolve(&world.local(), "0000000", Freshness::Cached).await.unwrap_err();
    assert_eq!(error.to_string(), "unable to resolve '0000000' to a commit SHA: revision not found");
}

#[tokio::test]
async fn rnd_34_names_from_outside_are_no_options() {
    let world = World::with(&[("a", "")]).await;
    let marker = world.path().join("touched");
    for revision in ["--upload-pack=touch touched", "-x", "a\nb"] {
        let result = world.sources.resolve(&world.local(), revision, Freshness::Fetch).await;
        assert!(matches!(result, Err(SourceError::InvalidRevision { .. })), "{revision:?}");
    }
    for url in
        ["ext::sh -c 'touch touched'", "--upload-pack=touch touched", "ssh://-oProxyCommand=touch touched/x"]
    {
        let result = world.sources.resolve(&Repository::anonymous(url), "HEAD", Freshness::Fetch).await;
        assert!(matches!(result, Err(SourceError::InvalidRepository { .. })), "{url:?}");
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn sty_112_trees_are_read_from_the_bare_repository() {
    let world = World::with(&[("apps/a/x.yaml", "kind: A\n"), ("apps/b/y.yaml", "kind: B\n")]).await;
    std::os::unix::fs::symlink("../a/x.yaml", world.origin().join("apps/b/link.yaml")).unwrap();
    fs::write(world.origin().join("run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(world.origin().join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let one = world.commit("link", &[]).await;
    let two = world.commit("change", &[("apps/a/x.yaml", "kind: C\n")]).await;
    let repository = world.local();
    let before = world.sources.tree(&repository, &one).await.unwrap();
    let after = world.sources.tree(&repository, &two).await.unwrap();

    let names: Vec<String> =
        before.list(&path("apps/b")).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["link.yaml", "y.yaml"]);
    assert_eq!(before.read(&path("apps/a/x.yaml"), 100).unwrap(), "kind: A\n");
    assert_eq!(after.read(&path("apps/a/x.yaml"), 100).unwrap(), "kind: C\n");
    let too_large = TreeError::TooLarge { path: path("apps/a/x.yaml"), limit: 3 };
    assert_eq!(before.read(&path("apps/a/x.yaml"), 3), Err(too_large));
    assert_eq!(before.read(&path("nope"), 3), Err(TreeError::NotFound { path: path("nope") }));
    let link = before.entry(&path("apps/b/link.yaml")).unwrap().unwrap();
    assert_eq!(link.kind, EntryKind::Symlink { target: "../a/x.yaml".to_owned() });
    let run = before.entry(&path("run")).unwrap().unwrap();
    assert_eq!(run.kind, EntryKind::File { executable: true });

    assert_ne!(before.id(), after.id());
    assert_eq!(before.subtree_id(&path("apps/b")), after.subtree_id(&path("apps/b")));
    assert_ne!(before.subtree_id(&path("apps/a")), after.subtree_id(&path("apps/a")));
    assert_eq!(before.subtree_id(&path("run")), Ok(None));

    let mut request = RenderRequest::default();
    request.source.path = "apps/b".to_owned();
    let rendered = render_offline(&request, &Inputs::of(&*after), &Budget::default()).unwrap();
    let kinds: Vec<&str> = rendered.objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["C", "B"]);
}

#[tokio::test]
async fn rnd_54_escaping_links_are_found_by_commit() {
    let world = World::with(&[("apps/a/x.yaml", "kind: A\n")]).await;
    let clean = world.git(&["rev-parse", "HEAD"]).await;
    std::os::unix::fs::symlink("../../up", world.origin().join("apps/a/inside")).unwrap();
    let inside = world.commit("inside", &[]).await;
    std::os::unix::fs::symlink("../../../up", world.origin().join("apps/a/outside")).unwrap();
    let outside = world.commit("outside", &[]).await;
    for (commit, expected) in [(clean, None), (inside, None), (outside, Some(path("apps/a/outside")))] {
        let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
        assert_eq!(tree.escaping_link(&mut WalkLimit::new(100, None)), Ok(expected));
    }
}

/// A commit of ten thousand applications is looked at for each of them: what was read once is known, without a thread
/// that may block. Nothing is known before it was read.
#[tokio::test]
async fn rnd_141_what_was_read_of_a_commit_is_known() {
    let world = World::with(&[("apps/a/x.yaml", "kind: A\n"), ("apps/b", "a file")]).await;
    let commit = world.git(&["rev-parse", "HEAD"]).await;
    let tree = || async { world.sources.tree(&world.local(), &commit).await.unwrap() };
    let first = tree().await;
    let id = first.subtree_id(&path("apps/a")).unwrap();
    assert!(id.is_some());
    assert_eq!(first.known(&path("apps/a")), None, "nobody has looked for links yet");
    assert_eq!(first.escaping_link(&mut WalkLimit::new(100, None)), Ok(None));
    let again = tree().await;
    let known = |name: &str| again.known(&path(name)).unwrap();
    assert_eq!(known("apps/a"), KnownDirectory { id, is_clean: true });
    for missing in ["apps/b", "apps/c", "apps/b/c"] {
        assert_eq!(known(missing), KnownDirectory { id: None, is_clean: true }, "{missing}");
    }
    std::os::unix::fs::symlink("../../../up", world.origin().join("apps/a/outside")).unwrap();
    let outside = world.commit("outside", &[]).await;
    let tree = world.sources.tree(&world.local(), &outside).await.unwrap();
    assert_eq!(tree.known(&path("apps/a")), None, "another root directory");
    assert!(tree.escaping_link(&mut WalkLimit::new(100, None)).unwrap().is_some());
    assert!(tree.known(&path("apps/a")).is_some_and(|known| !known.is_clean && known.id.is_some()));
}

/// C15, INV-1: what a submodule holds is not known; it was listed as an empty directory.
#[tokio::test]
async fn inv_1_a_submodule_is_not_an_empty_directory() {
    let world = World::with(&[("apps/x.yaml", "kind: A\n")]).await;
    let head = world.git(&["rev-parse", "HEAD"]).await;
    let link = format!("160000,{head},apps/lib");
    world.git(&["update-index", "--add", "--cacheinfo", &link]).await;
    world.git(&["commit", "-q", "-m", "submodule"]).await;
    let commit = world.git(&["rev-parse", "HEAD"]).await;
    let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
    assert_eq!(tree.entry(&path("apps/lib")).unwrap().unwrap().kind, EntryKind::Submodule);
    assert!(tree.list(&path("apps/lib")).is_err());
    for (app, recurse, right) in [("apps", false, true), ("apps", true, false), ("apps/lib", false, false)] {
        let mut request = RenderRequest::default();
        request.source.path = app.to_owned();
        let options = DirectorySource { recurse, ..DirectorySource::default() };
        request.source.directory = Some(options);
        assert_eq!(
            render_offline(&request, &Inputs::of(&*tree), &Budget::default()).is_ok(),
            right,
            "{app} {recurse}"
        );
    }
}

/// Bytes of a directory object with these members.
fn directory(members: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (mode, name, id) in members {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        for digits in id.as_bytes().chunks(2) {
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap());
        }
    }
    bytes
}

/// Stores an object; gives its id.
async fn store(world: &World, kind: &str, content: &[u8]) -> String {
    let file = world.path().join("object");
    fs::write(&file, content).unwrap();
    world.git(&["hash-object", "-w", "-t", kind, &file.to_string_lossy()]).await
}

/// Levels of directories with ten equal members each: a few hundred bytes, and ten times more paths per level.
async fn pyramid(world: &World, foot: &str, levels: usize) -> String {
    let mut id = foot.to_owned();
    for _ in 0..levels {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let members = names.map(|name| ("40000", name, id.as_str()));
        id = store(world, "tree", &directory(&members)).await;
    }
    id
}

/// Commits a directory to `main`.
async fn commit_directory(world: &World, id: &str) -> String {
    let commit = world.git(&["commit-tree", id, "-m", "x"]).await;
    world.git(&["update-ref", "refs/heads/main", &commit]).await;
    commit
}

/// A2, SEC-07: 10¹² paths before the one link that leaves the root. The path that is shown was looked for by
/// walking all of them.
#[tokio::test]
async fn sec_07_one_escaping_link_behind_a_million_million_paths_is_found_at_once() {
    let world = World::with(&[("a.yaml", "kind: A\n")]).await;
    let file = store(&world, "blob", b"kind: A\n").await;
    let foot = store(&world, "tree", &directory(&[("100644", "a.yaml", &file)])).await;
    let top = pyramid(&world, &foot, 12).await;
    let link = store(&world, "blob", b"../x").await;
    let inside = store(&world, "blob", b"../../up").await;
    let near = store(&world, "tree", &directory(&[("120000", "inside", &inside)])).await;
    let deep = store(&world, "tree", &directory(&[("40000", "near", &near)])).await;
    let members = [("40000", "app", deep.as_str()), ("40000", "top", &top), ("120000", "zz", &link)];
    let root = store(&world, "tree", &directory(&members)).await;
    let commit = commit_directory(&world, &root).await;
    let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
    let error =
        render_offline(&RenderRequest::default(), &Inputs::of(&*tree), &Budget::default()).unwrap_err();
    assert_eq!(error.message, "repository contains out-of-bounds symlinks. file: zz");
}

/// A2, SEC-07: a walk that has to enter all paths ends at its bound.
#[tokio::test]
async fn sec_07_a_recursive_source_with_a_million_million_paths_ends_at_the_bound() {
    let world = World::with(&[("a.yaml", "kind: A\n")]).await;
    let file = store(&world, "blob", b"kind: A\n").await;
    let foot = store(&world, "tree", &directory(&[("100644", "a.yaml", &file)])).await;
    let commit = commit_directory(&world, &pyramid(&world, &foot, 12).await).await;
    let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
    let mut request = RenderRequest::default();
    request.source.directory = Some(DirectorySource { recurse: true, ..DirectorySource::default() });
    let small = Budget { files: 5_000, ..Budget::default() };
    let error = render_offline(&request, &Inputs::of(&*tree), &small).unwrap_err();
    assert_eq!(error.message, "the directory has more than 5000 files");
    let short = Budget { path_bytes: 10_000, ..Budget::default() };
    let error = render_offline(&request, &Inputs::of(&*tree), &short).unwrap_err();
    assert_eq!(error.message, "the paths of the directory's files have more than 10000 bytes");
}

/// A2, SEC-07: directories without files at 10¹² paths differ in no file, so files did not bound the comparison.
#[tokio::test]
async fn sec_07_a_comparison_of_commits_ends_without_files_too() {
    let world = World::with(&[("a.yaml", "kind: A\n")]).await;
    let before = world.git(&["rev-parse", "HEAD"]).await;
    let empty = store(&world, "tree", b"").await;
    let after = commit_directory(&world, &pyramid(&world, &empty, 12).await).await;
    let changed = world.sources.changed_files(&world.local(), &before, &after).await;
    assert!(matches!(changed, Err(SourceError::Exhausted { .. })), "{changed:?}");
}

#[tokio::test]
async fn rnd_47_moved_and_oddly_named_files_are_changes() {
    let world = World::with(&[("watched/a.yaml", "same\n"), ("b.yaml", "1\n"), ("d/x", "1")]).await;
    let before = world.git(&["rev-parse", "HEAD"]).await;
    fs::rename(world.origin().join("watched/a.yaml"), world.origin().join("moved.yaml")).unwrap();
    fs::remove_dir_all(world.origin().join("d")).unwrap();
    let after = world.commit("move", &[("d", "a file now"), ("größe/ä.yaml", "new\n")]).await;
    let changed = world.sources.changed_files(&world.local(), &before, &after).await.unwrap();
    assert_eq!(changed, ["d", "d/x", "größe/ä.yaml", "moved.yaml", "watched/a.yaml"]);
    assert_eq!(world.sources.changed_files(&world.local(), &after, &after).await, Ok(vec![]));
}

#[tokio::test]
async fn rnd_151_metadata_of_a_commit() {
    let world = World::with(&[("a", "1")]).await;
    let commit = world.commit("Subject\n\nBody line", &[("a", "2")]).await;
    world.git(&["tag", "-a", "v1", "-m", "x"]).await;
    world.git(&["tag", "light"]).await;
    let metadata = world.sources.revision_metadata(&world.local(), &commit).await.unwrap();
    assert_eq!(metadata.author, "Ada <ada@example.test>");
    assert_eq!(metadata.date.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(metadata.message, "Subject\n\nBody line");
    assert_eq!(metadata.tags, ["light", "v1"]);
    let error = world.sources.revision_metadata(&world.local(), "main").await.unwrap_err();
    assert_eq!(error.to_string(), "revision main must be resolved");
}

#[tokio::test]
async fn sty_56_a_missing_repository_shows_no_path_of_the_cache() {
    let world = World::with(&[("a", "1")]).await;
    let empty = tempfile::tempdir().unwrap();
    let sources = world.restarted(|options| options.local_roots = vec![empty.path().to_owned()]);
    let missing = Repository::anonymous(&empty.path().to_string_lossy());
    let error = sources.resolve(&missing, "HEAD", Freshness::Cached).await.unwrap_err();
    assert!(error.is_transient());
    assert!(error.to_string().contains("failed exit status 128"), "{error}");
    assert!(!error.to_string().contains(&world.path().display().to_string()), "{error}");
}

/// B11: a project that may use every repository does not read the disk of the machine.
#[tokio::test]
async fn rep_60_local_repositories_are_read_only_below_named_roots() {
    let world = World::with(&[("a", "")]).await;
    let commit = world.git(&["rev-parse", "HEAD"]).await;
    world.sources.tree(&world.local(), &commit).await.unwrap();
    let cached = world.generations().pop().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), world.root().join("link")).unwrap();
    let spelled =
        |path: &std::path::Path| [format!("{}", path.display()), format!("file://{}", path.display())];
    let check = async |sources: &tiphys_source::Sources, path: &std::path::Path, allowed: bool| {
        for url in spelled(path) {
            let repository = Repository::anonymous(&url);
            for revision in ["HEAD", &commit] {
                let asked = sources.resolve(&repository, revision, Freshness::Fetch).await;
                let refused = matches!(&asked, Err(SourceError::InvalidRepository { .. }));
                assert_eq!(!refused, allowed, "{url} {revision}: {asked:?}");
            }
            let refused = matches!(
                sources.tree(&repository, &commit).await,
                Err(SourceError::InvalidRepository { .. })
            );
            assert_eq!(!refused, allowed, "{url}");
        }
    };
    let none = world.restarted(|options| options.local_roots = Vec::new());
    check(&none, &world.origin(), false).await;
    let root = world.restarted(|options| options.local_roots = vec![world.root()]);
    check(&root, &world.origin(), true).await;
    check(&root, &world.origin().join(".git"), true).await;
    check(&root, &world.root().join("link"), false).await;
    check(&root, &world.root().join("absent"), false).await;
    check(&root, &world.path().join("originals"), false).await;
    // Our own folders are nobody's repositories, whatever the operator names.
    let all = world.restarted(|options| options.local_roots = vec!["/".into()]);
    check(&all, &world.origin(), true).await;
    check(&all, &cached, false).await;
    let own = world.restarted(|options| {
        options.local_roots = vec!["/".into()];
        options.own_dirs = vec![world.root()];
    });
    check(&own, &world.origin(), false).await;
    // What the operator takes back is refused at once.
    all.set_local_roots(Vec::new());
    check(&all, &world.origin(), false).await;
}
