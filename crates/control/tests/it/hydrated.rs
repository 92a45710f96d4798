//! Applications whose manifests are committed to a branch first (CTL-106..119).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_control::ControllerOptions;
use tiphys_sim::Sim;

use crate::support::ask;
use crate::world::{URL, World};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
/// Long enough for a run and the sync after it.
const SOON: Duration = Duration::from_secs(20);
const BRANCH: &str = "refs/heads/env/dev";

fn enabled(options: &mut ControllerOptions) {
    options.env.insert("ARGOCD_HYDRATOR_ENABLED".to_owned(), "true".to_owned());
}

async fn world() -> World {
    World::start_with(enabled).await
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
    create_in(world, "default", name, hydrator);
}

fn create_in(world: &World, project: &str, name: &str, hydrator: &Value) {
    let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {"project": project, "sourceHydrator": hydrator,
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

/// CTL-109: of two Applications with one destination the first keeps it, and the second is told.
#[tokio::test(start_paused = true)]
async fn ctl_109_second_claimant_of_a_directory_is_refused_alone() {
    let world = world().await;
    dry(&world, &[("shop", "one"), ("other", "o")]);
    let mut other = hydrator("other");
    other["syncSource"]["path"] = json!("./apps//shop");
    create(&world, "shop", &hydrator("shop"));
    world.pass(Duration::from_secs(2)).await;
    create(&world, "other", &other);
    world.pass(SOON).await;
    let message = current(&world, "other")["message"].as_str().unwrap_or_default().to_owned();
    let expected = format!(
        "Failed to hydrate: app argocd/shop hydrator uses the same destination: repo={URL}, path=./apps//shop"
    );
    assert_eq!(message, expected);
    assert_eq!(current(&world, "shop")["phase"], "Hydrated");
    assert_eq!(world.value(), "one");
    // It is not deployed from there either, and is hydrated once the directory is free.
    let conditions = app(&world, "other")["status"]["conditions"].to_string();
    assert!(conditions.contains("hydrator uses the same destination"), "{conditions}");
    world.ask(Method::DELETE, &format!("{APPLICATIONS}/shop"), &Value::Null);
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(current(&world, "other")["phase"], "Hydrated");
    assert!(file(&world, "apps/shop/manifest.yaml").contains("value: o"));
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

/// Repository of another team, whose project may also push to [`URL`].
const THEIRS: &str = "https://git.example/theirs.git";

/// Projects `red` and `blue`; `blue` may use these repositories.
async fn projects(world: &World, of_blue: &[&str]) {
    let destinations = json!([{"server": "*", "namespace": "*"}]);
    world.project("red", &json!({"sourceRepos": [URL], "destinations": destinations}));
    world.project("blue", &json!({"sourceRepos": of_blue, "destinations": destinations}));
    world.pass(Duration::from_secs(2)).await;
}

/// Commits one `ConfigMap` called `shop` to the other team's repository.
fn their_dry(world: &World, value: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
        "data": {"value": value}});
    let files = BTreeMap::from([("dry/thief/cm.yaml".to_owned(), Bytes::from(object.to_string()))]);
    world.servers.commit(THEIRS, "main", files, 7).unwrap();
}

/// Two teams that share [`URL`], and have committed to what they render.
async fn two_teams() -> World {
    let world = world().await;
    projects(&world, &[URL, THEIRS]).await;
    dry(&world, &[("shop", "one")]);
    their_dry(&world, "stolen");
    world
}

/// A hydrator that renders the other team's repository into a directory of [`URL`].
fn thief(path: &str) -> Value {
    json!({"drySource": {"repoURL": THEIRS, "path": "dry/thief", "targetRevision": "main"},
        "syncSource": {"repoURL": URL, "targetBranch": "env/dev", "path": path}})
}

const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";

/// Makes the key that claims are signed with.
fn key(world: &World) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argocd-secret",
        "labels": {"app.kubernetes.io/part-of": "argocd"}}, "stringData": {"server.secretkey": "a-key"}});
    world.ask(Method::POST, SECRETS, &secret);
}

fn claim(world: &World, name: &str) -> Value {
    app(world, name)["metadata"]["annotations"]["tiphys.dev/hydration-claim"].clone()
}

fn message(world: &World, name: &str) -> String {
    current(world, name)["message"].as_str().unwrap_or_default().to_owned()
}

/// INV-16, CTL-109: an Application that its own project forbids is no member of a group.
#[tokio::test(start_paused = true)]
async fn inv_16_forbidden_application_holds_up_no_group() {
    let world = world().await;
    projects(&world, &[THEIRS]).await;
    dry(&world, &[("shop", "one"), ("intruder", "i"), ("stranger", "s")]);
    create_in(&world, "blue", "intruder", &hydrator("intruder"));
    create_in(&world, "none", "stranger", &hydrator("stranger"));
    world.pass(Duration::from_secs(2)).await;
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated", "{}", message(&world, "shop"));
    assert_eq!(world.value(), "one");
    let refused = message(&world, "intruder");
    assert!(refused.contains("is not permitted in project 'blue'"), "{refused}");
    assert!(!refused.contains("argocd/"), "{refused}");
    assert!(message(&world, "stranger").contains("none"), "{}", message(&world, "stranger"));
    assert!(file(&world, "apps/intruder/manifest.yaml").is_empty());
}

/// INV-16, CTL-108: what cannot be rendered in one project holds up nothing of another, and is not named there.
#[tokio::test(start_paused = true)]
async fn inv_16_projects_of_one_branch_are_hydrated_apart() {
    let world = world().await;
    projects(&world, &[URL]).await;
    dry(&world, &[("shop", "one")]);
    create_in(&world, "blue", "broken", &hydrator("missing"));
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated", "{}", message(&world, "shop"));
    assert_eq!(world.value(), "one");
    let broken = message(&world, "broken");
    assert!(broken.starts_with("Failed to hydrate: ") && !broken.contains("shop"), "{broken}");
}

/// INV-16, CTL-109: another dry source does not get a directory that an Application of another project writes, above or
/// below it, and whoever claims it deploys nothing from there.
#[tokio::test(start_paused = true)]
async fn inv_16_directory_of_another_project_is_not_overwritten() {
    for path in ["apps/shop", "./apps//shop/", "apps", "apps/shop/below"] {
        let world = two_teams().await;
        create_in(&world, "red", "shop", &hydrator("shop"));
        world.pass(SOON).await;
        assert_eq!(current(&world, "shop")["phase"], "Hydrated");
        let before = head(&world);
        create_in(&world, "blue", "thief", &thief(path));
        world.pass(SOON).await;
        let refused = message(&world, "thief");
        assert_eq!(current(&world, "thief")["phase"], "Failed", "{path}");
        assert!(refused.contains("another Application"), "{refused}");
        for secret in ["argocd/shop", "red"] {
            assert!(!refused.contains(secret), "{path}: {refused}");
        }
        assert_eq!((head(&world), world.value().as_str()), (before, "one"), "{path}");
        let stored = app(&world, "thief");
        assert!(stored["status"]["operationState"].is_null(), "{path}: nothing is deployed: {stored}");
        let conditions = stored["status"]["conditions"].to_string();
        assert!(conditions.contains("another Application"), "{path}: {conditions}");
        // The owner goes on.
        dry(&world, &[("shop", "two")]);
        world.push(&["dry/shop/cm.yaml"]);
        world.pass(SOON).await;
        assert_eq!(world.value(), "two", "{path}");
    }
}

/// INV-16: an older Application that is changed to claim a directory does not take it from the one that writes it, with a
/// forged status and a copied claim, and while no controller runs that could have seen the change.
#[tokio::test(start_paused = true)]
async fn inv_16_older_application_takes_no_directory_in_use() {
    let world = two_teams().await;
    key(&world);
    create_in(&world, "blue", "thief", &thief("apps/thief"));
    world.pass(SOON).await;
    assert_eq!(current(&world, "thief")["phase"], "Hydrated", "{}", message(&world, "thief"));
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated", "{}", message(&world, "shop"));
    assert_ne!(claim(&world, "shop"), Value::Null);
    let forged = json!({"phase": "Hydrated", "startedAt": "2025-01-01T00:00:00Z",
        "finishedAt": "2025-01-01T00:00:01Z", "message": "", "drySHA": "0", "hydratedSHA": "0",
        "sourceHydrator": thief("apps/shop")});
    let annotations = json!({"tiphys.dev/hydration-claim": claim(&world, "shop")});
    let theft = json!({"metadata": {"annotations": annotations},
        "spec": {"sourceHydrator": thief("apps/shop")},
        "status": {"sourceHydrator": {"currentOperation": forged, "lastSuccessfulOperation": forged}}});
    let steal = |sim: &Sim| drop(ask(sim, Method::PATCH, &format!("{APPLICATIONS}/thief"), &theft));
    let world = world.restart(steal, enabled).await;
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(current(&world, "thief")["phase"], "Failed", "{}", current(&world, "thief"));
    assert_eq!(current(&world, "shop")["phase"], "Hydrated", "{}", message(&world, "shop"));
    assert!(file(&world, "apps/shop/manifest.yaml").contains("one"));
    dry(&world, &[("shop", "two")]);
    world.push(&["dry/shop/cm.yaml"]);
    world.pass(SOON).await;
    assert_eq!(world.value(), "two");
}

/// INV-16, CTL-109: a branch that is rendered from is never written, neither one's own nor that of another project.
#[tokio::test(start_paused = true)]
async fn inv_16_branches_of_dry_sources_are_not_written() {
    let world = world().await;
    projects(&world, &[URL, THEIRS]).await;
    let sha = dry(&world, &[("shop", "one")]);
    their_dry(&world, "stolen");
    let mut own = hydrator("shop");
    own["syncSource"]["targetBranch"] = json!("main");
    create_in(&world, "red", "own", &own);
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    let mut foreign = thief("dry/shop");
    foreign["syncSource"]["targetBranch"] = json!("main");
    create_in(&world, "blue", "thief", &foreign);
    world.pass(SOON).await;
    for name in ["own", "thief"] {
        assert_eq!(current(&world, name)["phase"], "Failed", "{name}");
        assert!(!message(&world, name).contains("argocd/shop"), "{}", message(&world, name));
    }
    assert_eq!(world.servers.get_ref(URL, "refs/heads/main"), Some(sha));
    assert_eq!(world.value(), "one");
}

/// INV-16: a branch that an Application of another project syncs as a plain source is not written, by whatever name that
/// source has for it.
#[tokio::test(start_paused = true)]
async fn inv_16_branches_of_plain_sources_are_not_written() {
    for (revision, is_signed) in ["main", "refs/heads/main", "HEAD", ""]
        .into_iter()
        .flat_map(|revision| [(revision, false), (revision, true)])
    {
        let world = world().await;
        if is_signed {
            key(&world);
        }
        projects(&world, &[URL, THEIRS]).await;
        let sha = world.commit("one");
        their_dry(&world, "stolen");
        world.create_with(&json!({"spec": {"project": "red", "source": {"targetRevision": revision}}}));
        world.pass(SOON).await;
        assert_eq!(world.value(), "one", "{revision}");
        let mut foreign = thief("shop");
        foreign["syncSource"]["targetBranch"] = json!("main");
        create_in(&world, "blue", "thief", &foreign);
        world.pass(SOON).await;
        assert_eq!(current(&world, "thief")["phase"], "Failed", "{revision}: {}", current(&world, "thief"));
        assert_eq!(world.servers.get_ref(URL, "refs/heads/main"), Some(sha), "{revision}");
        world.pass(Duration::from_mins(5)).await;
        assert_eq!(world.value(), "one", "{revision}");
    }
}

/// INV-5, CTL-109: what is refused is told once, and looked at again without a write.
#[tokio::test(start_paused = true)]
async fn inv_5_a_refused_hydration_is_told_once() {
    let world = two_teams().await;
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    create_in(&world, "blue", "thief", &thief("apps/shop"));
    world.pass(Duration::from_mins(10)).await;
    let version = |name: &str| app(&world, name)["metadata"]["resourceVersion"].clone();
    let before = ["shop", "thief"].map(version);
    world.pass(Duration::from_mins(30)).await;
    assert_eq!(["shop", "thief"].map(version), before);
    request(&world, "thief", "hard");
    world.pass(SOON).await;
    let stored = app(&world, "thief");
    assert!(stored.pointer("/metadata/annotations/argocd.argoproj.io~1hydrate").is_none(), "{stored}");
    assert_eq!(current(&world, "thief")["phase"], "Failed");
}

/// CTL-108, CTL-114: two projects write to one branch, one commit after the other, and neither moves the other's note.
#[tokio::test(start_paused = true)]
async fn ctl_114_two_projects_share_a_branch() {
    let world = world().await;
    projects(&world, &[URL, THEIRS]).await;
    let sha = dry(&world, &[("shop", "one")]);
    their_dry(&world, "theirs");
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    create_in(&world, "blue", "other", &thief("apps/other"));
    world.pass(SOON).await;
    for (name, value) in [("shop", "one"), ("other", "theirs")] {
        assert_eq!(current(&world, name)["phase"], "Hydrated", "{}", message(&world, name));
        assert!(file(&world, &format!("apps/{name}/manifest.yaml")).contains(value), "{name}");
    }
    let note = world.servers.note(URL, &head(&world)).unwrap();
    assert!(!note.contains(&sha), "the last commit is the other project's: {note}");
    request(&world, "shop", "hard");
    world.pass(SOON).await;
    assert_eq!(current(&world, "shop")["phase"], "Hydrated");
    assert_eq!(world.servers.note(URL, &head(&world)), Some(note));
}

/// INV-16: claims outlive a change of the key that they are signed with.
#[tokio::test(start_paused = true)]
async fn inv_16_claims_are_signed_anew_with_a_new_key() {
    let world = two_teams().await;
    key(&world);
    create_in(&world, "blue", "thief", &thief("apps/thief"));
    world.pass(SOON).await;
    create_in(&world, "red", "shop", &hydrator("shop"));
    world.pass(SOON).await;
    let before = claim(&world, "shop");
    world.change_object(
        &format!("{APPLICATIONS}/thief"),
        &json!({"spec": {"sourceHydrator": thief("apps/shop")}}),
    );
    world.pass(SOON).await;
    assert_eq!(current(&world, "thief")["phase"], "Failed");
    world.change_object(
        &format!("{SECRETS}/argocd-secret"),
        &json!({"stringData": {"server.secretkey": "other"}}),
    );
    world.pass(Duration::from_mins(10)).await;
    let after = claim(&world, "shop");
    let since = |claim: &Value| claim.as_str().unwrap().split_once(' ').unwrap().0.to_owned();
    assert_ne!(after, before);
    assert_eq!(since(&after), since(&before));
    assert_eq!(current(&world, "thief")["phase"], "Failed");
    assert!(file(&world, "apps/shop/manifest.yaml").contains("one"));
}
