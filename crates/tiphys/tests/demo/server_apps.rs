//! What the command line does to applications by way of the API server beyond the round of every day: options that are
//! taken back, sources, an editor, logs, trees, and what is compared or synced from files (CLI-421..425, CLI-447, CLI-453,
//! CLI-504, CLI-512, CLI-517, CLI-540).

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::api::{CONFIG_MAPS, PROJECTS};
use crate::person::Person;
use crate::process::{Demo, Place};

const APP: &str = "made";

/// A directory of manifests of a person.
fn files(place: &Place, text: &str) -> String {
    let folder = place.path().join("files");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.yaml"), text).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn config_map(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: mine, labels: {{a: b}}}}\ndata: {{value: {value}}}\n"
    )
}

/// An editor that runs a command of `sed` over the file.
fn editor(place: &Place, command: &str) -> String {
    let path = place.path().join("editor");
    std::fs::write(&path, format!("#!/bin/sh\nexec sed -i '{command}' \"$1\"\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn create(person: &Person<'_>, demo: &Demo) {
    let git = demo.git();
    let create = ["app", "create", APP, "--repo", &git, "--path", "guestbook", "--dest-namespace", "made"];
    let options =
        ["--dest-server", "https://kubernetes.default.svc", "--sync-option", "CreateNamespace=true"];
    person.does(&[&create[..], &options].concat()).await;
    person.does(&["app", "sync", APP, "-o", "tree"]).await;
    person.does(&["app", "wait", APP, "--timeout", "60"]).await;
}

#[tokio::test]
async fn cli_421_a_person_edits_and_looks_by_way_of_the_server() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let person = Person::new(&place, "person");
    person.log_in(&demo).await;
    create(&person, &demo).await;

    let url = format!("URL:                http://127.0.0.1:{}/applications/{APP}\n", demo.port());
    let tree = person.does(&["app", "get", APP, "-o", "tree"]).await;
    assert!(tree.contains(&url), "{tree}");
    let root = tree.find("\nDeployment/guestbook  ").expect("the root");
    let child = tree.find("\n└─ReplicaSet/guestbook-").expect("what it owns");
    assert!(root < child && tree.contains("─Pod/guestbook-"), "{tree}");
    let detailed = person.does(&["app", "get", APP, "-o", "tree=detailed"]).await;
    assert!(detailed.contains("KIND/NAME") && detailed.contains("AGE"), "{detailed}");
    let core = ["app", "get", APP, "-o", "tree", "--core", "--kubeconfig"];
    let kubeconfig = demo.directory().join("kubeconfig").to_str().unwrap().to_owned();
    let same = person.does(&[&core[..], &[kubeconfig.as_str()]].concat()).await;
    assert!(same.contains("\n└─ReplicaSet/guestbook-") && same.contains("─Pod/guestbook-"), "{same}");

    person.does(&["app", "set", APP, "--nameprefix", "x-", "--validate=false"]).await;
    assert_eq!(person.does(&["app", "unset", APP, "--nameprefix"]).await, "");
    let spec = demo.app(APP).await["spec"].clone();
    assert_eq!(spec["source"].get("kustomize"), None, "{spec}");
    assert_eq!(person.says(&["app", "unset", APP]).await.code, Some(1), "nothing is named");
    assert_eq!(person.does(&["app", "unset", APP, "--nameprefix"]).await, "", "nothing changes");

    let with = |command: &str| Person::with_editor(&place, "person", editor(&place, command));
    let text = with("").refused(20, &["app", "edit", APP]).await;
    assert_eq!(text, "edit cancelled, no valid changes were saved");
    with("s/^project: default$/&\\ninfo: [{name: a, value: b}]/").does(&["app", "edit", APP]).await;
    assert_eq!(demo.app(APP).await["spec"]["info"][0]["value"], "b");
    // A project that does not exist is refused, and the text is shown again with why; then it stays as it is.
    let text = with("s/^project: .*/project: nosuch/").refused(20, &["app", "edit", APP]).await;
    assert_eq!(text, "edit cancelled, no valid changes were saved");

    let pods = ["app", "logs", APP, "--kind", "Pod"];
    let logs = person.does(&[&pods[..], &["--tail", "2"]].concat()).await;
    assert!(!logs.is_empty(), "two pods have logs");
    assert_eq!(person.does(&[&pods[..], &["--filter", "no such words"]].concat()).await, "");
    let timed = person.does(&[&pods[..], &["--timestamps", "--tail", "1"]].concat()).await;
    assert!(timed.starts_with("20"), "{timed}");
    let text = person.refused(1, &["app", "logs", "nosuch"]).await;
    assert_eq!(text, "stream read failed: rpc error: code = PermissionDenied desc = permission denied");

    let (git, add) = (demo.git(), ["app", "add-source", APP, "--path", "shop", "--repo"]);
    let text = person.refused(20, &[&add[..], &[git.as_str()]].concat()).await;
    assert_eq!(text, format!("Cannot add source: application {APP} does not have spec.sources defined"));
    let text = person.refused(20, &["app", "remove-source", APP, "--source-position", "1"]).await;
    assert_eq!(text, "Application does not have multiple sources configured");
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn cli_504_files_are_compared_and_synced_by_way_of_the_server() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let person = Person::new(&place, "person");
    person.log_in(&demo).await;
    create(&person, &demo).await;

    let local = files(&place, &config_map("one"));
    let diff = ["app", "diff", APP, "--local", &local];
    let here = person.says(&diff).await;
    assert_eq!(here.code, Some(1), "{here:?}");
    assert!(here.stderr.contains("local diff without --server-side-generate is deprecated"), "{here:?}");
    assert!(here.stdout.contains("===== /ConfigMap made/mine ======"), "{here:?}");
    assert!(here.stdout.contains("===== apps/Deployment made/guestbook ======"), "{here:?}");
    assert!(!here.stdout.contains("metadata: {}"), "a missing side is empty: {here:?}");
    let there = person.says(&[&diff[..], &["--server-side-generate"]].concat()).await;
    assert_eq!(
        (there.code, &there.stdout),
        (Some(1), &here.stdout),
        "the server makes the same of them: {there:?}"
    );
    assert_eq!(person.says(&["app", "diff", APP, "--revision", "main"]).await.code, Some(0));
    let text = person.does(&["app", "manifests", APP, "--local", &local]).await;
    assert!(text.contains("value: one") && !text.contains("Deployment"), "{text}");

    let sync = ["app", "sync", APP, "--local", &local];
    let preview =
        person.does(&[&sync[..], &["--preview-changes", "--assumeYes", "--dry-run"]].concat()).await;
    assert!(preview.contains("===== /ConfigMap made/mine ======"), "{preview}");
    let synced = person.says(&sync).await;
    assert!(synced.stdout.contains("configmap/mine created"), "{synced:?}");
    assert!(
        synced.stderr.contains("2 resources require pruning"),
        "what is not among the files stays: {synced:?}"
    );
    assert!(
        person
            .does(&["app", "diff", APP, "--local", &local, "--exit-code=false"])
            .await
            .contains("Deployment")
    );
    let text = person.refused(1, &["app", "sync", APP, "--label", "nosuch=label"]).await;
    assert_eq!(text, "No matching resources found for labels: [nosuch=label]");
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn cli_540_orphans_and_several_sources_by_way_of_the_server() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let person = Person::new(&place, "person");
    person.log_in(&demo).await;
    let git = demo.git();
    let source = |path: &str| serde_json::json!({"repoURL": git, "path": path, "targetRevision": "main"});
    let app = serde_json::json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": APP},
        "spec": {"project": "default", "sources": [source("guestbook"), source("shop/cart")],
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "made"},
            "syncPolicy": {"syncOptions": ["CreateNamespace=true"]}}});
    let file = place.path().join("app.json");
    std::fs::write(&file, app.to_string()).unwrap();
    person.does(&["app", "create", "-f", file.to_str().unwrap()]).await;
    let synced = person.does(&["app", "sync", APP, "--revisions", "main", "--source-positions", "1"]).await;
    assert!(synced.contains("Phase:              Succeeded"), "{synced}");
    let history = person.does(&["app", "history", APP]).await;
    assert!(history.starts_with(&format!("SOURCE  {git}\n")), "{history}");
    assert_eq!(history.matches("\n0  ").count(), 2, "one row for each source: {history}");
    let manifests = ["app", "manifests", APP, "--revisions", "main", "--source-positions", "2"];
    assert!(person.does(&manifests).await.contains("name: cart"));
    let updated = format!("Application '{APP}' updated successfully\n");
    let add = ["app", "add-source", APP, "--repo", &git, "--path", "shop/web", "--source-name", "web"];
    assert_eq!(person.does(&add).await, updated);
    assert_eq!(person.does(&["app", "remove-source", APP, "--source-name", "web"]).await, updated);
    let spec: Value = demo.app(APP).await["spec"].clone();
    assert_eq!(spec["sources"].as_array().unwrap().len(), 2, "{spec}");

    let resources = ["app", "resources", APP];
    let none = person.does(&[&resources[..], &["--orphaned"]].concat()).await;
    assert_eq!(none.lines().count(), 1, "nobody looks for orphans yet: {none}");
    let watch = serde_json::json!({"spec": {"orphanedResources": {"warn": true}}});
    demo.api.patch(PROJECTS, "argocd", "default", &watch).await;
    let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {},
        "metadata": {"name": "nobodys", "namespace": "made"}});
    demo.api.apply(CONFIG_MAPS, &map).await;
    let orphans = [&resources[..], &["--orphaned", "-o", "tree=detailed"]].concat();
    let mut shown = String::new();
    for _ in 0..600 {
        shown = person.does(&orphans).await;
        if shown.contains("nobodys") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(shown.contains("ConfigMap  made       nobodys") && shown.contains("Yes"), "{shown}");
    demo.stop(Signal::INT).await;
}
