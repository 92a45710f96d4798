//! A cache on disk that somebody else has written to.

use std::fs;
use std::path::{Path, PathBuf};

use tiphys_render::TreePath;
use tiphys_source::Freshness;

use crate::world::World;

fn loose(objects: &Path, id: &str) -> PathBuf {
    objects.join(&id[..2]).join(&id[2..])
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// SEC-57, F19: what lies on the disk is bound to its name: another object in its place is never rendered.
#[tokio::test]
async fn sec_57_an_object_that_is_not_what_its_name_says_is_not_believed() {
    let world = World::with(&[("a", "1")]).await;
    let (sources, repository) = (&world.sources, world.local());
    let commit = sources.resolve(&repository, "HEAD", Freshness::Cached).await.unwrap();
    sources.tree(&repository, &commit).await.unwrap();
    world.commit("second", &[("a", "2")]).await;
    let honest = world.git(&["rev-parse", &format!("{commit}:a")]).await;
    let other = world.git(&["rev-parse", "HEAD:a"]).await;

    let objects = world.generations()[0].join("objects");
    let origin = world.origin().join(".git/objects");
    fs::remove_dir_all(&objects).unwrap();
    copy(&origin, &objects);
    let place = loose(&objects, &honest);
    fs::remove_file(&place).unwrap();
    fs::copy(loose(&origin, &other), &place).unwrap();

    let again = world.restarted(|_| {});
    let path = TreePath::parse("a").unwrap();
    let mut read = None;
    for _ in 0..2 {
        // The first look may be what finds the damage.
        if let Ok(tree) = again.tree(&repository, &commit).await
            && let Ok(content) = tree.read(&path, 10)
        {
            read = Some(content);
        }
        assert!(read.as_ref().is_none_or(|content| *content == "1"), "{read:?}");
    }
    assert!(read.is_some(), "fetched again");
}
