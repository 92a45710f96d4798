//! Applications whose manifests are committed to a branch first (CTL-106..119).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::world::{URL, World};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
/// Long enough for a run and the sync after it.
const SOON: Duration = Duration::from_secs(20);
const BRANCH: &str = "refs/heads/env/dev";

async fn world() -> World {
    World::start_with(|options| {
        options.env.insert("ARGOCD_HYDRATOR_ENABLED".to_owned(), "true".to_owned());
    })
    .await
}

fn dry(world: &World, values: &[(&str, &str)]) -> String {
    let file = |(name, value): &(&str, &str)| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"value": value}});
        (format!("dry/{name}/cm.yaml"), Bytes::from(object.to_string()))
    };
    world.servers.commit(URL, "main", values.iter().map(file).collect(), 7).unwrap()
}

fn hydrator(name: &str) -> Value {
    json!({"drySource": {"repoURL": URL, "path": format!("dry/{name}"), "targetRevision": "main"},
        "syncSource": {"targetBranch": "env/dev", "path": format!("apps/{name}")}})
}

fn create(world: &World, name: &str, hydrator: &Value) {
    let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {"project": "default", "sourceHydrator": hydrator,
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}});
    world.ask(Method::POST, APPLICATIONS, &app);
}

fn app(world: &World, name: &str) -> Value {
    world.get(&format!("{APPLICATIONS}/{name}"))
}

fn current(world: &World, name: &str) -> Value {
    app(world, name).pointer("/status/sourceHydrator/currentOperation").cloned().unwrap_or_default()
}

fn head(world: &World) -> String {
    world.servers.get_ref(URL, BRANCH).unwrap_or_default()
}

fn file(world: &World, path: &str) -> String {
    let files = world.servers.files(URL, &head(world)).unwrap();
    files.get(path).map(|content| String::from_utf8(content.to_vec()).unwrap()).unwrap_or_default()
}

fn request(world: &World, name: &str, word: &str) {
    let annotations =
        json!({"argocd.argoproj.io/hydrate": word, "argocd.argoproj.io/hydrate-timestamp": word});
    world
        .change_object(&format!("{APPLICATIONS}/{name}"), &json!({"metadata": {"annotations": annotations}}));
}

/// CTL-106, CTL-110, CTL-115: from an Application to a commit, to what is live, and on with the next push.
#[tokio::test(start_paused = true)]
async fn ctl_110_an_application_is_hydrated_and_synced() {
    let world = world().await;
    let sha = dry(&world, &[("shop", "one")]);
    create(&world, "shop", &hydrator("shop"));
    world.pass(SOON).await;
    assert_eq!(
        file(&world, "apps/shop/manifest.yaml"),
        "apiVersion: v1\ndata:\n  value: one\nkind: ConfigMap\nmetadata:\n  name: shop\n"
    );
    let metadata: Value = serde_json::from_str(&file(&world, "apps/shop/hydrator.metadata")).unwrap();
    assert_eq!(metadata, json!({"repoURL": URL, "drySha": sha}));
    assert_eq!(world.servers.note(URL, &head(&world)), Some(json!({"drySha": sha}).to_string()));
    let operation = current(&world, "shop");
    assert_eq!((&operation["phase"], &operation["drySHA"]), (&json!("Hydrated"), &json!(sha)), "{operation}");
    assert_eq!(operation["hydratedSHA"], json!(head(&world)));
    let stored = app(&world, "shop");
    assert_eq!(stored["status"]["sourceHydrator"]["lastComparedDryRevision"], json!(sha));
    assert_eq!(stored["status"]["sync"]["revision"], json!(head(&world)), "{stored}");
    assert!(stored.pointer("/metadata/annotations/argocd.argoproj.io~1refresh").is_none(), "{stored}");
    assert_eq!(world.value(), "one");

    let (sha, before) = (dry(&world, &[("shop", "two")]), head(&world));
    world.push(&["dry/shop/cm.yaml"]);
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["drySHA"], json!(sha));
    assert_ne!(head(&world), before);
    assert_eq!(world.value(), "two");
    assert!(world.metrics().contains("argocd_commitserver_commit_request_total"));
}

/// CTL-108, CTL-111: applications of one branch are one commit, and one that cannot be rendered holds up all.
#[tokio::test(start_paused = true)]
async fn ctl_111_a_failed_rendering_commits_nothing() {
    let world = world().await;
    dry(&world, &[("shop", "one"), ("other", "o")]);
    create(&world, "shop", &hydrator("shop"));
    create(&world, "other", &hydrator("other"));
    world.pass(SOON).await;
    let before = head(&world);
    assert!(!file(&world, "apps/shop/manifest.yaml").is_empty());
    assert!(!file(&world, "apps/other/manifest.yaml").is_empty());

    let broken = BTreeMap::from([
        ("dry/shop/cm.yaml".to_owned(), Bytes::from_static(b"apiVersion: v1\nkind: ConfigMap\nmeta")),
        (
            "dry/other/cm.yaml".to_owned(),
            Bytes::from_static(b"{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\"}"),
        ),
    ]);
    let sha = world.servers.commit(URL, "main", broken, 8).unwrap();
    world.push(&["dry/shop/cm.yaml", "dry/other/cm.yaml"]);
    world.pass(SOON).await;
    assert_eq!(head(&world), before);
    let (shop, other) = (current(&world, "shop"), current(&world, "other"));
    assert_eq!((&shop["phase"], &shop["drySHA"]), (&json!("Failed"), &json!(sha)));
    let messages =
        [&shop, &other].map(|operation| operation["message"].as_str().unwrap_or_default().to_owned());
    assert!(messages.iter().all(|text| text.starts_with("Failed to hydrate: ")), "{messages:?}");
    assert_eq!(world.value(), "one");

    // It is made again by itself once that helps.
    dry(&world, &[("shop", "three"), ("other", "o")]);
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated");
    assert_eq!(world.value(), "three");
}

/// CTL-109: nothing is written where two applications would write the same, and both say so.
#[tokio::test(start_paused = true)]
async fn ctl_109_two_applications_never_write_to_one_place() {
    let world = world().await;
    dry(&world, &[("shop", "one"), ("other", "o")]);
    let mut other = hydrator("other");
    other["syncSource"]["path"] = json!("./apps//shop");
    create(&world, "shop", &hydrator("shop"));
    create(&world, "other", &other);
    world.pass(SOON).await;
    for (name, rival) in [("shop", "argocd/other"), ("other", "argocd/shop")] {
        let message = current(&world, name)["message"].as_str().unwrap_or_default().to_owned();
        let expected =
            format!("Failed to hydrate: app {rival} hydrator uses the same destination: repo={URL}, path=");
        assert!(message.starts_with(&expected), "{message}");
    }
}

/// CTL-107: requests are taken away when they were served, and also where nothing is hydrated; `hard` renders anew.
#[tokio::test(start_paused = true)]
async fn ctl_107_requests_are_served_and_taken_away() {
    let world = world().await;
    dry(&world, &[("shop", "one")]);
    create(&world, "shop", &hydrator("shop"));
    world.pass(SOON).await;
    let first = current(&world, "shop");
    for (word, is_run) in [("normal", false), ("hard", true)] {
        request(&world, "shop", word);
        world.pass(SOON).await;
        let stored = app(&world, "shop");
        assert!(stored.pointer("/metadata/annotations/argocd.argoproj.io~1hydrate").is_none(), "{stored}");
        assert_eq!(current(&world, "shop")["startedAt"] != first["startedAt"], is_run, "{word}");
    }
}

/// CTL-109: a run that ended with its process is made again.
#[tokio::test(start_paused = true)]
async fn ctl_106_a_run_that_was_lost_is_made_again() {
    let world = world().await;
    dry(&world, &[("shop", "one")]);
    create(&world, "shop", &hydrator("shop"));
    let lost = json!({"status": {"sourceHydrator": {"currentOperation": {"phase": "Hydrating", "message": "",
        "startedAt": "2026-01-01T00:00:00Z", "sourceHydrator": hydrator("shop")}}}});
    world.change_object(&format!("{APPLICATIONS}/shop"), &lost);
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated");
    assert_eq!(world.value(), "one");
}

/// CTL-113: a repository that nobody may push to fails the run, and what is live stays.
#[tokio::test(start_paused = true)]
async fn ctl_113_a_refused_push_is_said() {
    let world = world().await;
    dry(&world, &[("shop", "one")]);
    world.servers.forbid_pushes(URL);
    create(&world, "shop", &hydrator("shop"));
    world.pass(SOON).await;
    let operation = current(&world, "shop");
    assert_eq!(operation["message"], "Failed to hydrate: the repository is read-only");
    assert_eq!(head(&world), "");
}

/// A hydrator that is switched off is said to be: the branch is synced as it is.
#[tokio::test(start_paused = true)]
async fn ctl_5_without_the_hydrator_the_branch_is_synced_and_that_is_said() {
    let world = World::start().await;
    dry(&world, &[("shop", "dry")]);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"value": "wet"}});
    let files = BTreeMap::from([("apps/shop/manifest.yaml".to_owned(), Bytes::from(object.to_string()))]);
    world.servers.commit(URL, "env/dev", files, 9).unwrap();
    create(&world, "shop", &hydrator("shop"));
    request(&world, "shop", "normal");
    world.pass(SOON).await;
    assert_eq!(world.value(), "wet");
    let stored = app(&world, "shop");
    let conditions = stored["status"]["conditions"].to_string();
    assert!(conditions.contains("hydrator.enabled is not"), "{conditions}");
    assert!(stored["status"]["sourceHydrator"]["currentOperation"].is_null(), "{stored}");
    assert!(stored.pointer("/metadata/annotations/argocd.argoproj.io~1hydrate").is_none(), "{stored}");
}

/// CTL-34: a branch that somebody still has to merge is waited for, in so many words.
#[tokio::test(start_paused = true)]
async fn ctl_34_a_proposed_branch_is_waited_for() {
    let world = world().await;
    dry(&world, &[("shop", "one")]);
    let mut proposed = hydrator("shop");
    proposed["hydrateTo"] = json!({"targetBranch": "env/dev-next"});
    create(&world, "shop", &proposed);
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated");
    let stored = app(&world, "shop");
    let conditions = stored["status"]["conditions"].to_string();
    let expected =
        "app path does not exist - waiting for an external process to update env/dev from env/dev-next";
    assert!(conditions.contains(expected), "{conditions}");
    // Somebody merges.
    let next = world.servers.get_ref(URL, "refs/heads/env/dev-next").unwrap();
    world.servers.set_ref(URL, BRANCH, &next);
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(world.value(), "one");
}

/// CTL-119: directories that nobody hydrates any more go where that is wanted.
#[tokio::test(start_paused = true)]
async fn ctl_119_removed_paths_go_where_that_is_wanted() {
    for is_wanted in [false, true] {
        let world = world().await;
        if is_wanted {
            world.settings(&json!({"sourceHydrator.pruneRemovedPaths": "true"}));
        }
        dry(&world, &[("shop", "one"), ("other", "o")]);
        create(&world, "shop", &hydrator("shop"));
        create(&world, "other", &hydrator("other"));
        world.pass(SOON).await;
        world.ask(Method::DELETE, &format!("{APPLICATIONS}/other"), &Value::Null);
        dry(&world, &[("shop", "two"), ("other", "o")]);
        world.push(&["dry/shop/cm.yaml"]);
        world.pass(SOON).await;
        assert!(file(&world, "apps/shop/manifest.yaml").contains("two"));
        assert_eq!(file(&world, "apps/other/manifest.yaml").is_empty(), is_wanted);
        assert_eq!(file(&world, "apps/other/README.md").is_empty(), is_wanted);
    }
}
