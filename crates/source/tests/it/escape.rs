//! Nothing outside of an application's own repository is read, and no error repeats what a file holds.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tiphys_render::{Budget, Inputs, RenderRequest, Tree, TreePath, render_offline};

use crate::world::World;

const CANARY: &str = "canary-7f3a";

fn rendered(tree: &dyn Tree, path: &str, allow_links: bool) -> Result<String, String> {
    let mut request = RenderRequest { allow_out_of_bounds_links: allow_links, ..RenderRequest::default() };
    path.clone_into(&mut request.source.path);
    let found =
        render_offline(&request, &Inputs::of(tree), &Budget::default()).map_err(|error| error.to_string())?;
    Ok(format!("{:?}", found.objects))
}

/// A repository whose `app` has one link, beside a file outside of the repository that nobody may see.
async fn with_link(name: &str, target: &str) -> (World, String) {
    let world = World::with(&[("app/a.yaml", "kind: A\napiVersion: v1\n")]).await;
    fs::write(world.path().join("secret.yaml"), format!("kind: {CANARY}\n")).unwrap();
    symlink(target.replace("WORLD", &world.path().to_string_lossy()), world.origin().join(name)).unwrap();
    let commit = world.commit("link", &[]).await;
    (world, commit)
}

/// SEC-04, SEC-05: links out of the repository, direct, over each other and to a directory, are refused, and where
/// the settings allow them to exist they are not followed.
#[tokio::test]
async fn sec_04_sec_05_links_out_of_the_repository_are_not_followed() {
    for (name, target, path) in [
        ("app/secret.yaml", "../../../secret.yaml", "app"),
        ("app/secret.yaml", "WORLD/secret.yaml", "app"),
        ("app/passwd.yaml", "/etc/passwd", "app"),
        ("app/deep", "../../..", "app/deep"),
        ("app/root", "/", "app/root/etc"),
        ("outside", "..", "outside"),
    ] {
        let (world, commit) = with_link(name, target).await;
        let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
        let error = rendered(&*tree, path, false).unwrap_err();
        assert!(error.contains("contains out-of-bounds symlinks"), "{name} -> {target}: {error}");
        let found = rendered(&*tree, path, true);
        let text = format!("{found:?}");
        assert!(!text.contains(CANARY) && !text.contains("root:"), "{name} -> {target}: {text}");
        assert!(found.is_err(), "{name} -> {target}: {text}");
        let read = tree.read(&TreePath::parse(name).unwrap(), 1000);
        assert!(read.is_err(), "{name} -> {target}");
    }
}

/// SEC-06: a path that climbs, is absolute or is somebody else's is refused before anything is read.
#[tokio::test]
async fn sec_06_paths_do_not_leave_the_repository() {
    let world = World::with(&[("app/a.yaml", "kind: A\napiVersion: v1\n")]).await;
    fs::create_dir_all(world.root().join("other")).unwrap();
    fs::write(world.root().join("other/a.yaml"), format!("kind: {CANARY}\n")).unwrap();
    let commit = world.git(&["rev-parse", "HEAD"]).await;
    let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
    let absolute = world.root().join("other").to_string_lossy().into_owned();
    for (path, expected) in [
        ("../other", "outside root"),
        ("app/../../other", "outside root"),
        ("./app/.././../other", "outside root"),
        (absolute.as_str(), "absolute"),
        ("app/..\\..\\other", "does not exist"),
        ("app/%2e%2e/%2e%2e/other", "does not exist"),
        ("app\0/../../other", ""),
    ] {
        let error = rendered(&*tree, path, false).unwrap_err();
        assert!(error.contains(expected) && !error.contains(CANARY), "{path:?}: {error}");
    }
    assert!(TreePath::parse("../other").is_err());
}

/// SEC-04: an error about a file that is no manifest does not repeat what it holds.
#[tokio::test]
async fn sec_04_errors_do_not_repeat_content() {
    for content in
        ["kind: A\napiVersion: v1\nx: [CANARY\n", "{\"kind\": \"A\", \"x\": CANARY", "kind: A\nCANARY\n"]
    {
        let content = content.replace("CANARY", CANARY);
        let world = World::with(&[("app/a.yaml", &content), ("app/b.json", &content)]).await;
        let commit = world.git(&["rev-parse", "HEAD"]).await;
        let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
        let text = format!("{:?}", rendered(&*tree, "app", false));
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// SEC-09: archives stay closed, and no file of a repository lies on the disk, where its mode could keep anybody from
/// removing it or its name could lead elsewhere.
#[tokio::test]
async fn sec_09_archives_stay_closed_and_no_file_is_unpacked() {
    let manifest = "kind: A\napiVersion: v1\nmetadata: {name: a}\n";
    let chart = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
    let world = World::with(&[
        ("app/manifest.yaml", manifest),
        ("app/bomb.tgz", CANARY),
        ("app/bomb.tar", CANARY),
        ("app/bomb.zip", CANARY),
        ("chart/Chart.yaml", chart),
        ("chart/charts/bomb.tgz", CANARY),
    ])
    .await;
    fs::set_permissions(world.origin().join("app/bomb.tar"), fs::Permissions::from_mode(0o555)).unwrap();
    let commit = world.commit("modes", &[]).await;
    let tree = world.sources.tree(&world.local(), &commit).await.unwrap();
    let found = rendered(&*tree, "app", false).unwrap();
    assert!(found.contains("\"A\"") && !found.contains(CANARY), "{found}");
    let error = rendered(&*tree, "chart", false).unwrap_err();
    assert!(error.contains("error unpacking subchart") && !error.contains(CANARY), "{error}");

    let mut pending = vec![world.path().join("cache")];
    let mut seen = 0;
    while let Some(directory) = pending.pop() {
        for member in fs::read_dir(directory).unwrap() {
            let path = member.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(!name.contains("bomb") && !name.contains("yaml"), "{}", path.display());
            seen += 1;
            if path.is_dir() {
                pending.push(path);
            }
        }
    }
    assert!(seen > 5, "{seen}");
}
