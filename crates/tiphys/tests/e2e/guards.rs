//! Projects, deletion of applications, differences that are ignored, tracking, settings.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, DEPLOYMENTS, JOBS, NAMESPACES};
use crate::births::Births;
use crate::fixtures::{
    annotated, automated, automated_with, config_map, deployment, file, hook, manual, simulated, wave,
};
use crate::program::{Launch, Program};
use crate::world::{Setup, World, conditions, is_synced, merge, result_of};

const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
const INSTANCE: &str = "app.kubernetes.io/instance";

#[tokio::test]
async fn ctl_13_projects_deny() {
    let Some(mut world) = World::start("deny").await else { return };
    let ns = world.namespace("ns").await;
    let foreign = world.namespace("foreign").await;
    let cluster_role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": world.name("role")}, "rules": []});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let mut elsewhere = config_map("elsewhere", "1");
    elsewhere["metadata"]["namespace"] = json!(foreign);
    let repo = world
        .repo(
            "app",
            &[
                ("plain/cm.yaml", &file(&[config_map("cm", "1")])),
                ("cluster/all.yaml", &file(&[config_map("cm2", "1"), cluster_role])),
                ("kind/all.yaml", &file(&[config_map("cm3", "1"), secret])),
                ("namespace/all.yaml", &file(&[config_map("cm4", "1"), elsewhere])),
            ],
        )
        .await;
    let other = world.repo("other", &[("cm.yaml", &file(&[config_map("other", "1")]))]).await;
    let spec = json!({"sourceRepos": [repo.url], "destinations": [{"server": "*", "namespace": ns}],
        "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]});
    world.project("tight", &spec).await;
    let mut change = automated();
    merge(&mut change, &json!({"spec": {"project": "tight", "syncPolicy": {"retry": {"limit": 0}}}}));

    let source = world.create("source", &other, ".", &ns, &change).await;
    let destination = world.create("destination", &repo, "plain", &foreign, &change).await;
    // The project may be seen a moment after its applications.
    let early = ["Application referencing project tight which does not exist"];
    let invalid = |app: &Value| {
        let found = conditions(app, "InvalidSpecError");
        !found.is_empty() && found != early
    };
    let seen = world.until_app(&source, "invalid", invalid).await;
    let text = format!("application repo {} is not permitted in project 'tight'", other.url);
    assert_eq!(conditions(&seen, "InvalidSpecError"), [text]);
    assert_eq!(seen["status"]["sync"]["status"], "Unknown");
    let seen = world.until_app(&destination, "invalid", invalid).await;
    let text = format!(
        "application destination server 'https://kubernetes.default.svc' and namespace '{foreign}' do not match any \
         of the allowed destinations in project 'tight'"
    );
    assert_eq!(conditions(&seen, "InvalidSpecError"), [text]);
    let mut unknown = change.clone();
    unknown["spec"]["project"] = json!("absent");
    let unknown = world.create("absent", &repo, "plain", &ns, &unknown).await;
    let seen = world.until_app(&unknown, "invalid", invalid).await;
    let text = "Application referencing project absent which does not exist";
    assert_eq!(conditions(&seen, "InvalidSpecError"), [text]);

    for (path, kind, text) in [
        (
            "cluster",
            "ClusterRole",
            "resource rbac.authorization.k8s.io:ClusterRole is not permitted in project tight".to_owned(),
        ),
        ("kind", "Secret", "resource :Secret is not permitted in project tight".to_owned()),
        ("namespace", "ConfigMap", format!("namespace {foreign} is not permitted in project 'tight'")),
    ] {
        let app = world.create(path, &repo, path, &ns, &change).await;
        let failed = |app: &Value| app["status"]["operationState"]["phase"] == "Failed";
        let seen = world.until_app(&app, "failed", failed).await;
        let state = &seen["status"]["operationState"];
        let results = state["syncResult"]["resources"].to_string();
        assert!(results.contains(&text) && results.contains(kind), "{state:#}");
    }
    for name in ["cm", "cm2", "cm3", "cm4"] {
        assert!(!world.exists(CONFIG_MAPS, &ns, name).await, "{name}");
    }
    assert!(!world.exists(CONFIG_MAPS, &foreign, "elsewhere").await);
    assert!(!world.exists(CONFIG_MAPS, &foreign, "cm").await);

    // A change of the project is enough (CTL-73).
    let mut wide = spec.clone();
    wide["sourceRepos"] = json!(["*"]);
    world.project("tight", &wide).await;
    world.until_synced(&source).await;
    world.finish().await;
}

#[tokio::test]
async fn ctl_75_cascades() {
    let Some(mut world) = World::start("cascade").await else { return };
    let births_of =
        |ns: String, api: crate::api::Api| async move { Births::watch(&api, &ns, &[CONFIG_MAPS]).await };
    let objects = [wave(config_map("late", "1"), 1), config_map("early", "1"), deployment("web", 1)];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    for (suffix, finalizers) in [
        ("foreground", json!([finalizer])),
        ("background", json!([format!("{finalizer}/background")])),
        ("none", json!([])),
    ] {
        let ns = world.namespace(suffix).await;
        let mut change = automated();
        change["metadata"] = json!({"finalizers": finalizers});
        let app = world.create(suffix, &repo, ".", &ns, &change).await;
        world.until_synced(&app).await;
        let births = births_of(ns.clone(), world.api.clone()).await;
        world.api.delete(APPS, &world.cp, &app).await;
        world.until_gone(APPS, &world.cp, &app).await;
        if suffix == "none" {
            tokio::time::sleep(Duration::from_secs(2)).await;
            for name in ["late", "early"] {
                assert!(world.exists(CONFIG_MAPS, &ns, name).await, "{name}");
            }
            assert!(world.exists(DEPLOYMENTS, &ns, "web").await);
        } else {
            for (kind, name) in [(CONFIG_MAPS, "late"), (CONFIG_MAPS, "early"), (DEPLOYMENTS, "web")] {
                world.until_gone(kind, &ns, name).await;
            }
            world
                .until(
                    "no pods",
                    || async { json!(world.api.list("v1/pods", &ns).await) },
                    |pods| *pods == json!([]),
                )
                .await;
            assert_eq!(births.deleted(), ["late", "early"], "{suffix}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn ctl_81_deletion_hooks() {
    let Some(mut world) = World::start("delhooks").await else { return };
    let ns = world.namespace("ns").await;
    let births = Births::watch(&world.api, &ns, &[JOBS]).await;
    let policy = [("argocd.argoproj.io/hook-delete-policy", "HookSucceeded")];
    let objects = [
        annotated(simulated(hook("before", "PreDelete"), "ready-after=2s"), &policy),
        annotated(hook("after", "PostDelete"), &policy),
        config_map("cm", "1"),
    ];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let mut change = automated();
    change["metadata"] = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let synced = world.until_synced(&app).await;
    let finalizers = synced["metadata"]["finalizers"].to_string();
    for name in
        ["pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup"]
    {
        assert!(finalizers.contains(name), "{finalizers}");
    }
    assert!(births.created().is_empty());
    world.api.delete(APPS, &world.cp, &app).await;
    world.until_object(JOBS, &ns, "before", "runs", |_| true).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.until_gone(APPS, &world.cp, &app).await;
    for (kind, name) in [(CONFIG_MAPS, "cm"), (JOBS, "before"), (JOBS, "after")] {
        world.until_gone(kind, &ns, name).await;
    }
    assert_eq!((births.times("before"), births.times("after")), (1, 1));
    world.finish().await;
}

#[tokio::test]
async fn ctl_82_a_failing_deletion_hook_holds_the_deletion() {
    let Some(mut world) = World::start("delfail").await else { return };
    let ns = world.namespace("ns").await;
    let objects = [simulated(hook("before", "PreDelete"), "fail"), config_map("cm", "1")];
    let repo = world.repo("app", &[("all.yaml", &file(&objects))]).await;
    let mut change = automated();
    change["metadata"] = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    world.api.delete(APPS, &world.cp, &app).await;
    let refused = |app: &Value| !conditions(app, "DeletionError").is_empty();
    let seen = world.until_app(&app, "says why", refused).await;
    let text = format!("PreDelete hook(s) failed: {ns}/before");
    assert!(
        conditions(&seen, "DeletionError")[0].contains(&text),
        "{:?}",
        conditions(&seen, "DeletionError")
    );
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);
    let skip = json!({"metadata": {"annotations": {"argocd.argoproj.io/deletion-skip-hooks": "true"}}});
    world.patch_app(&app, &skip).await;
    world.until_gone(APPS, &world.cp, &app).await;
    world.until_gone(CONFIG_MAPS, &ns, "cm").await;
    world.finish().await;
}

#[tokio::test]
async fn eng_64_differences_that_are_ignored() {
    let Some(mut world) = World::start("ignore").await else { return };
    let ns = world.namespace("ns").await;
    let repo =
        world.repo("app", &[("all.yaml", &file(&[deployment("web", 1), config_map("cm", "1")]))]).await;
    let mut change = automated_with(&["RespectIgnoreDifferences=true"]);
    change["spec"]["ignoreDifferences"] = json!([
        {"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]},
        {"group": "", "kind": "ConfigMap", "name": "cm", "jqPathExpressions": [".data.key"]},
    ]);
    let app = world.create("app", &repo, ".", &ns, &change).await;
    world.until_synced(&app).await;
    // As an autoscaler does.
    world.api.patch(DEPLOYMENTS, &ns, "web", &json!({"spec": {"replicas": 3}})).await;
    world.api.patch(CONFIG_MAPS, &ns, "cm", &json!({"data": {"key": "live"}})).await;
    world.refresh(&app, "normal").await;
    world.until_synced(&app).await;
    // A sync for another reason leaves the ignored fields alone.
    let mut web = deployment("web", 1);
    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.test/web:2");
    let mut cm = config_map("cm", "1");
    cm["data"]["more"] = json!("x");
    let commit = world.push(&repo, &[("all.yaml", &file(&[web, cm]))]).await;
    world
        .until_app(&app, "synced", |app| is_synced(app) && app["status"]["sync"]["revision"] == commit)
        .await;
    let live = world.api.get(DEPLOYMENTS, &ns, "web").await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example.test/web:2");
    assert_eq!(live["spec"]["replicas"], 3);
    let live = world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap();
    assert_eq!(live["data"], json!({"key": "live", "more": "x"}));
    world.finish().await;
}

#[tokio::test]
async fn trk_labels_and_the_switch_between_methods() {
    let setup = Setup { settings: vec![("application.resourceTrackingMethod", "label")], ..Setup::default() };
    let Some(mut world) = World::start_with("methods", setup).await else { return };
    let ns = world.namespace("ns").await;
    let old = file(&[config_map("old", "1")]);
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")])), ("old.yaml", &old)]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let live = world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap();
    assert_eq!(live["metadata"]["labels"][INSTANCE], app);
    assert!(live["metadata"]["annotations"][TRACKING_ID].is_null());

    // Without a restart: the marks change on the next sync, and prunes still find their objects.
    world.settings(&json!({"application.resourceTrackingMethod": "annotation+label"})).await;
    // Settings are taken over within a moment; the refresh is behind it.
    world.refresh(&app, "hard").await;
    world.sync(&app, &json!({})).await;
    let marked = |cm: &Value| {
        cm["metadata"]["annotations"][TRACKING_ID].is_string() && cm["metadata"]["labels"][INSTANCE] == app
    };
    world.until_object(CONFIG_MAPS, &ns, "cm", "has both marks", marked).await;
    world.until_synced(&app).await;
    world.settings(&json!({"application.resourceTrackingMethod": "annotation"})).await;
    world.until_synced(&app).await;
    world.push(&repo, &[("old.yaml", "")]).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.until_synced(&app).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.finish().await;
}

#[tokio::test]
async fn trk_two_installations_leave_each_other_alone() {
    let one = Setup { settings: vec![("installationID", "one")], ..Setup::default() };
    let Some(mut world) = World::start_with("install", one).await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("mine", "1")]))]).await;
    let theirs = world.repo("theirs", &[("cm.yaml", &file(&[config_map("theirs", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;

    // The second installation has an application of the same name, into the same namespace.
    let cp = world.namespace("second").await;
    let metadata =
        json!({"name": "argocd-cm", "namespace": cp, "labels": {"app.kubernetes.io/part-of": "argocd"}});
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"installationID": "two"}});
    world.api.apply(CONFIG_MAPS, &settings).await;
    let directory = world.directory().join("second");
    std::fs::create_dir_all(&directory).unwrap();
    let launch = Launch { namespace: cp.clone(), directory, ..world.launch.clone() };
    let mut second = Program::start(&launch);
    let mut twin = world.application(&app, &theirs, ".", &ns, &automated());
    twin["metadata"]["namespace"] = json!(cp);
    world.api.apply(APPS, &twin).await;
    let look = || async { world.api.get(APPS, &cp, &app).await.unwrap_or(Value::Null) };
    world.until("the twin is synced", look, is_synced).await;
    world.refresh(&app, "hard").await;
    world.until_synced(&app).await;
    for name in ["mine", "theirs"] {
        assert!(world.exists(CONFIG_MAPS, &ns, name).await, "{name}");
    }
    let seen = world.app(&app).await;
    assert_eq!(seen["status"]["resources"].as_array().unwrap().len(), 1, "{:#}", seen["status"]["resources"]);
    let mine = world.api.get(CONFIG_MAPS, &ns, "mine").await.unwrap();
    assert_eq!(mine["metadata"]["annotations"]["argocd.argoproj.io/installation-id"], "one");
    world.assert_quiet(Duration::from_secs(3)).await;
    second.kill().await;
    world.finish().await;
}

#[tokio::test]
async fn ctl_settings_change_without_restart() {
    let Some(mut world) = World::start("settings").await else { return };
    let ns = world.namespace("ns").await;
    let repo =
        world.repo("app", &[("all.yaml", &file(&[config_map("cm", "1"), deployment("web", 1)]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    world.sync(&app, &json!({})).await;
    world.until_synced(&app).await;
    world.api.patch(CONFIG_MAPS, &ns, "cm", &json!({"data": {"key": "live"}})).await;
    world.until_app(&app, "OutOfSync", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    let ignore =
        json!({"resource.customizations.ignoreDifferences.ConfigMap": "jsonPointers:\n- /data/key\n"});
    world.settings(&ignore).await;
    world.until_app(&app, "Synced", |app| app["status"]["sync"]["status"] == "Synced").await;
    let script = "hs = {}\nhs.status = \"Degraded\"\nhs.message = \"by script\"\nreturn hs\n";
    world.settings(&json!({"resource.customizations.health.apps_Deployment": script})).await;
    let degraded = |app: &Value| {
        app["status"]["health"]["status"] == "Degraded" && app["status"]["sync"]["status"] == "OutOfSync"
    };
    world.until_app(&app, "Degraded and OutOfSync", degraded).await;
    // Settings that cannot be used leave the last good ones in force.
    world.settings(&json!({"resource.customizations": "not: [yaml", "timeout.reconciliation": "soon"})).await;
    world.finish().await;
}

#[tokio::test]
async fn ctl_19_skipped_applications() {
    let Some(mut world) = World::start("skip").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let other = world.repo("other", &[("cm.yaml", &file(&[config_map("other", "1")]))]).await;
    let mut change = automated();
    change["metadata"] = json!({"annotations": {"argocd.argoproj.io/skip-reconcile": "true"},
        "finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let bystander = world.create("other", &other, ".", &ns, &automated()).await;
    world.until_synced(&bystander).await;
    assert!(world.app(&app).await["status"]["sync"].is_null());
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await);
    let skip =
        |value: Value| json!({"metadata": {"annotations": {"argocd.argoproj.io/skip-reconcile": value}}});
    world.patch_app(&app, &skip(json!("false"))).await;
    world.until_synced(&app).await;
    // While skipped, not even a deletion is handled.
    world.patch_app(&app, &skip(json!("true"))).await;
    world.api.delete(APPS, &world.cp, &app).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await && world.exists(APPS, &world.cp, &app).await);
    world.patch_app(&app, &skip(Value::Null)).await;
    world.until_gone(APPS, &world.cp, &app).await;
    world.until_gone(CONFIG_MAPS, &ns, "cm").await;
    world.finish().await;
}

#[tokio::test]
async fn eng_app_of_apps() {
    let Some(mut world) = World::start("appofapps").await else { return };
    let (a, b) = (world.later_namespace("a"), world.later_namespace("b"));
    let repo = world
        .repo(
            "app",
            &[("a/cm.yaml", &file(&[config_map("a", "1")])), ("b/cm.yaml", &file(&[config_map("b", "1")]))],
        )
        .await;
    let mut policy = automated_with(&["CreateNamespace=true"]);
    policy["metadata"] = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let children: Vec<Value> = [("a", &a), ("b", &b)]
        .into_iter()
        .map(|(path, ns)| world.application(&world.name(path), &repo, path, ns, &policy))
        .collect();
    repo.commit(&[("apps/a.yaml", &file(&children[..1])), ("apps/b.yaml", &file(&children[1..]))]).await;
    let root = world.create("root", &repo, "apps", &world.cp, &policy).await;
    world.until_synced(&root).await;
    world.until_app(&root, "app of apps", |app| app["status"]["summary"]["isAppOfApps"] == true).await;
    world.until_synced(&world.name("a")).await;
    world.until_synced(&world.name("b")).await;
    assert!(world.exists(CONFIG_MAPS, &a, "a").await && world.exists(CONFIG_MAPS, &b, "b").await);
    // A child that leaves the repository takes its objects along; the others stay.
    world.push(&repo, &[("apps/b.yaml", "")]).await;
    world.until_gone(APPS, &world.cp, &world.name("b")).await;
    world.until_gone(CONFIG_MAPS, &b, "b").await;
    world.until_synced(&root).await;
    assert!(world.exists(CONFIG_MAPS, &a, "a").await);
    world.assert_quiet(Duration::from_secs(3)).await;
    world.api.delete(APPS, &world.cp, &root).await;
    world.until_gone(APPS, &world.cp, &root).await;
    world.until_gone(CONFIG_MAPS, &a, "a").await;
    assert!(world.exists(NAMESPACES, "", &a).await);
    world.finish().await;
}

#[tokio::test]
async fn eng_38_copies_of_objects_are_not_ours() {
    let Some(mut world) = World::start("copies").await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let mut copy = config_map("copy", "1");
    copy["metadata"]["namespace"] = json!(ns);
    let copy = annotated(copy, &[(TRACKING_ID, &format!("{app}:/ConfigMap:{ns}/cm"))]);
    world.api.apply(CONFIG_MAPS, &copy).await;
    world.refresh(&app, "hard").await;
    let state = world.sync(&app, &json!({"prune": true})).await;
    assert!(result_of(&state, "ConfigMap", "copy").is_null(), "{state:#}");
    assert!(world.exists(CONFIG_MAPS, &ns, "copy").await);
    world.finish().await;
}
