//! A project is asked about the sources that are really rendered (REP-137, INV-6).

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::world::{URL, World};

const MOMENT: Duration = Duration::from_secs(10);
const OTHER: &str = "https://git.example/other.git";

/// The application `shop` of a project that permits one repository only.
async fn restricted(source: &Value) -> World {
    let world = World::start().await;
    world.commit("own");
    world.commit_to(OTHER, "foreign");
    world
        .project("team", &json!({"sourceRepos": [URL], "destinations": [{"server": "*", "namespace": "*"}]}));
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "own");
    world.operate(&json!({"sync": source}));
    world.pass(MOMENT).await;
    world
}

/// B10: an operation brings sources of its own.
#[tokio::test(start_paused = true)]
async fn rep_137_an_operation_cannot_bring_a_source_that_the_project_forbids() {
    let other = json!({"repoURL": OTHER, "path": "shop", "targetRevision": "main"});
    let own = json!({"repoURL": URL, "path": "shop", "targetRevision": "main"});
    for source in [json!({"source": other}), json!({"sources": [own, other]})] {
        let world = restricted(&source).await;
        assert_eq!(world.value(), "own", "{source}");
        let state = world.app().pointer("/status/operationState").cloned().unwrap();
        assert_eq!(state["phase"], "Error", "{state}");
        let message = state["message"].as_str().unwrap();
        let expected = format!("application repo {OTHER} is not permitted in project 'team'");
        assert!(message.contains(&expected), "{message}");
    }
}

/// B10: the sources of a hydrator are asked for; a source beside it is not in force.
#[tokio::test(start_paused = true)]
async fn rep_137_the_repositories_of_a_hydrator_are_asked_for() {
    let world = World::start().await;
    world.commit_to(OTHER, "foreign");
    world
        .project("team", &json!({"sourceRepos": [URL], "destinations": [{"server": "*", "namespace": "*"}]}));
    world.create_with(&json!({"spec": {"project": "team", "source": {"repoURL": URL},
        "sourceHydrator": {"drySource": {"repoURL": URL, "path": "dry", "targetRevision": "main"},
            "syncSource": {"repoURL": OTHER, "targetBranch": "main", "path": "shop"}}}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    let expected = format!("sync source repo {OTHER} is not permitted in project 'team'");
    assert!(conditions.to_string().contains(&expected), "{conditions}");
}

/// B11: the disk of the machine is nobody's repository, unless the operator says so; the error shows at once.
#[tokio::test(start_paused = true)]
async fn rep_60_a_local_path_is_a_comparison_error_at_once() {
    for url in ["file:///etc", "/etc", "https://git.example/a/../shop.git"] {
        let world = World::start().await;
        world.commit("own");
        world.create();
        world.pass(MOMENT).await;
        world.create_with(&json!({"spec": {"source": {"repoURL": url}}}));
        world.pass(MOMENT).await;
        let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
        assert!(conditions.to_string().contains("Error"), "{url}: {conditions}");
        assert_eq!(world.value(), "own", "{url}");
    }
}

/// RND-52: what was rendered before a project wanted signatures is looked at as everything else is; nothing of it is
/// taken for verified. Repositories in memory have no signatures, and nobody who could verify them.
#[tokio::test(start_paused = true)]
async fn rnd_52_what_was_rendered_before_is_verified_all_the_same() {
    let world = World::start().await;
    world.commit("one");
    let spec = |keys: &Value| json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}], "signatureKeys": keys});
    world.project("team", &spec(&json!([])));
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let project = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects/team";
    let conditions = || world.app().pointer("/status/conditions").cloned().unwrap_or_default().to_string();
    world.change_object(project, &json!({"spec": spec(&json!([{"keyID": "4AEE18F83AFDEB23"}]))}));
    world.pass(MOMENT).await;
    assert!(conditions().contains("ComparisonError"), "{}", conditions());
    assert!(
        conditions().contains("signatures of repositories in memory cannot be verified"),
        "{}",
        conditions()
    );
    world.commit("two");
    world.sync("");
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    world.change_object(project, &json!({"spec": spec(&json!([]))}));
    world.pass(MOMENT).await;
    world.sync("");
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "two");
    assert!(!conditions().contains("ComparisonError"), "{}", conditions());
}

/// REP-80, API-89: an entry of a host that cannot be read is an error of this host's applications until the entry goes.
/// Without its `ConfigMap` it stays in effect.
#[tokio::test(start_paused = true)]
async fn rep_80_a_bad_entry_is_told_by_the_applications_of_its_host() {
    let world = World::start().await;
    world.commit("one");
    world.create();
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let conditions = || world.app().pointer("/status/conditions").cloned().unwrap_or_default().to_string();
    let maps = "/api/v1/namespaces/argocd/configmaps";
    let created = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"other.example": "nonsense"},
        "metadata": {"name": "argocd-tls-certs-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
    world.ask(Method::POST, maps, &created);
    world.pass(MOMENT).await;
    assert!(!conditions().contains("ComparisonError"), "{}", conditions());
    let map = format!("{maps}/argocd-tls-certs-cm");
    let bad = json!({"data": {"git.example": "nonsense"}});
    for is_deleted in [false, true] {
        world.change_object(&map, &bad);
        world.pass(MOMENT).await;
        let text = conditions();
        assert!(text.contains("ComparisonError"), "{text}");
        assert!(
            text.contains("git.example") && text.contains("argocd-tls-certs-cm cannot be read"),
            "{text}"
        );
        if is_deleted {
            world.ask(Method::DELETE, &map, &Value::Null);
            world.pass(MOMENT).await;
            assert!(conditions().contains("argocd-tls-certs-cm cannot be read"), "{}", conditions());
            world.ask(Method::POST, maps, &created);
        } else {
            world.change_object(&map, &json!({"data": {"git.example": null}}));
        }
        world.pass(MOMENT).await;
        assert!(!conditions().contains("ComparisonError"), "{}", conditions());
    }
}

/// B12, REP-202: manifests that come with an operation carry no signature, so they are no way around the rule.
#[tokio::test(start_paused = true)]
async fn rep_202_local_manifests_are_refused_where_signatures_are_wanted() {
    let local = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
        "data": {"value": "local"}});
    for (keys, expected) in [(json!([]), "local"), (json!([{"keyID": "4AEE18F83AFDEB23"}]), "")] {
        let world = World::start().await;
        world.commit("unsigned");
        world.project(
            "team",
            &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "signatureKeys": keys}),
        );
        world.create_with(&json!({"spec": {"project": "team", "syncPolicy": {"automated": null}}}));
        world.pass(MOMENT).await;
        world.operate(&json!({"sync": {"manifests": [local.to_string()]}}));
        world.pass(MOMENT).await;
        let state = world.app().pointer("/status/operationState").cloned().unwrap();
        assert_eq!(world.value(), expected, "{state}");
        let is_refused = state.to_string().contains("Cannot use local manifests");
        assert_eq!(is_refused, expected.is_empty(), "{state}");
    }
}

/// C21: the finalizer of a project goes with its last application, not before.
#[tokio::test(start_paused = true)]
async fn rep_123_a_deleted_project_ends_with_its_last_application() {
    let world = World::start().await;
    world.commit("one");
    let open = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    world.project("team", &open);
    world.project("idle", &open);
    world.create_with(&json!({"spec": {"project": "team"}}));
    world.pass(MOMENT).await;
    world.delete_project("team");
    world.delete_project("idle");
    world.pass(MOMENT).await;
    assert!(world.has_project("team"));
    assert!(!world.has_project("idle"));
    world.delete();
    world.pass(MOMENT).await;
    assert!(!world.has_project("team"));
}

/// B12: an annotation that asks in vain makes a warning, which goes with it.
#[tokio::test(start_paused = true)]
async fn ctl_17_an_annotation_without_effect_is_a_warning() {
    let world = World::start().await;
    world.commit("one");
    let asks =
        |value: &Value| json!({"metadata": {"annotations": {"argocd.argoproj.io/compare-options": value}}});
    world.create_with(&asks(&json!("ServerSideDiff=true")));
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(conditions.to_string().contains("UnsupportedOptionWarning"), "{conditions}");
    world.create_with(&asks(&Value::Null));
    world.create_with(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(MOMENT).await;
    let conditions = world.app().pointer("/status/conditions").cloned().unwrap_or_default();
    assert!(!conditions.to_string().contains("UnsupportedOptionWarning"), "{conditions}");
}

/// SEC-27: an application outside the namespaces that the settings and its project name is nobody's, however many
/// controllers the settings think there are.
#[tokio::test(start_paused = true)]
async fn sec_27_namespaces_are_asked_about_whatever_is_said_about_shards() {
    let world = World::start_with(|options| {
        let env = [
            ("ARGOCD_APPLICATION_NAMESPACES", "team-*"),
            ("ARGOCD_CONTROLLER_REPLICAS", "3"),
            ("ARGOCD_CONTROLLER_SHARD", "2"),
            ("ARGOCD_CONTROLLER_SHARDING_ALGORITHM", "round-robin"),
        ];
        options.env.extend(env.map(|(name, value)| (name.to_owned(), value.to_owned())));
    })
    .await;
    world.commit("own");
    let spec = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "sourceNamespaces": ["team-a", "other"]});
    world.project("team", &spec);
    for namespace in ["team-a", "team-b", "other"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.ask(Method::POST, "/api/v1/namespaces", &object);
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "shop"},
            "spec": {"project": "team", "source": {"repoURL": URL, "path": "shop", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
                "syncPolicy": {"automated": {}}}});
        let target = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications");
        world.ask(Method::POST, &target, &app);
    }
    world.pass(MOMENT).await;
    let value = |namespace: &str| {
        world.get(&format!("/api/v1/namespaces/{namespace}/configmaps/shop"))["data"]["value"].clone()
    };
    assert_eq!([value("team-a"), value("team-b"), value("other")], [json!("own"), Value::Null, Value::Null]);
    let other = world.get("/apis/argoproj.io/v1alpha1/namespaces/other/applications/shop");
    assert!(other.get("status").is_none(), "not even looked at: {other}");
}
