//! `app resources` with objects that nobody declares, against an API server (CLI-540, REP-195).

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

const HEADER: &str = "GROUP  KIND       NAMESPACE  NAME     ORPHANED\n";

fn config_map(name: &str, metadata: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}});
    object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    object
}

fn application(name: &str, resources: &Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"project": "team", "source": {"repoURL": "https://h/r", "path": "."},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"}},
        "status": {"sync": {"status": "Synced"}, "resources": resources}})
}

fn project(orphaned: &Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "team", "namespace": NAMESPACE},
        "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "orphanedResources": orphaned}})
}

fn mark(app: &str, name: &str) -> Value {
    let id = format!("{app}:/ConfigMap:shop/{name}");
    json!({"annotations": {"argocd.argoproj.io/tracking-id": id}})
}

/// CLI-540, REP-195, REP-196, TRK-135: what is the application's comes first, then what is nobody's; a flag asks for one of
/// the two. Without a project that looks for them there are no orphans.
#[test]
fn cli_540_orphans_are_listed_beside_what_is_managed() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    bed.put(&project(&json!({"ignore": [{"kind": "ConfigMap", "name": "ignored"}]})));
    bed.put(&application(
        "ui",
        &json!([{"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "own"}]),
    ));
    bed.put(&application("other", &json!([])));
    bed.put(&config_map("own", &mark("ui", "own")));
    bed.put(&config_map("others", &mark("other", "others")));
    bed.put(&config_map("of-gone", &mark("gone", "of-gone")));
    bed.put(&config_map("ignored", &json!({})));
    let managed = "       ConfigMap  shop       own      No\n";
    let orphaned = "       ConfigMap  shop       of-gone  Yes\n";
    assert_eq!(bed.succeeds(&["app", "resources", "ui"]), format!("{HEADER}{managed}{orphaned}"));
    assert_eq!(bed.succeeds(&["app", "resources", "ui", "--orphaned"]), format!("{HEADER}{orphaned}"));
    let only_managed = bed.succeeds(&["app", "resources", "ui", "--orphaned=false"]);
    assert_eq!(
        only_managed,
        "GROUP  KIND       NAMESPACE  NAME  ORPHANED\n       ConfigMap  shop       own   No\n"
    );
}

#[test]
fn rep_195_without_a_project_that_looks_for_them_there_are_no_orphans() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    bed.put(&project(&Value::Null));
    bed.put(&application("ui", &json!([])));
    bed.put(&config_map("old", &json!({})));
    assert_eq!(
        bed.succeeds(&["app", "resources", "ui", "--orphaned"]),
        "GROUP  KIND  NAMESPACE  NAME  ORPHANED\n"
    );
}

/// CLI-447: by health rules that cannot be read nothing is healthy or ill, neither in a tree nor in a list.
#[test]
fn cli_447_by_rules_that_cannot_be_read_no_health_is_known() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    bed.put(&project(&Value::Null));
    let mut app = application(
        "ui",
        &json!([{"version": "v1", "kind": "Service", "namespace": "shop", "name": "web", "status": "Synced"}]),
    );
    app["status"]["resourceHealthSource"] = "appTree".into();
    bed.put(&app);
    bed.put(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}));
    let told = |format: &[&str]| {
        let shown = bed.succeeds(&[&["app", "get", "ui"], format].concat());
        let line = shown.lines().find(|line| line.contains("web")).unwrap_or_else(|| panic!("{shown}"));
        line.contains("Progressing")
    };
    assert!(told(&["-o", "tree=detailed"]) && told(&[]));
    bed.put(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"resource.customizations": "["},
        "metadata": {"name": "argocd-cm", "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/part-of": "argocd"}}}));
    assert!(!told(&["-o", "tree=detailed"]) && !told(&[]));
}

/// CLI-540, CLI-447: trees are sorted, each orphan after its owner; with details each line says age, health and reason of
/// the live object. Another project is none of the caller's business.
#[test]
fn cli_540_trees_of_resources() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    bed.put(&project(&json!({})));
    bed.put(&application(
        "ui",
        &json!([
            {"version": "v1", "kind": "Service", "namespace": "shop", "name": "web"},
            {"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "own"},
            {"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "gone"},
            {"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "hook", "hook": true}]),
    ));
    bed.put(&config_map("own", &mark("ui", "own")));
    let id = json!({"argocd.argoproj.io/tracking-id": "ui:/Service:shop/web"});
    bed.put(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop",
        "annotations": id}, "spec": {"ports": [{"port": 80}]}}));
    bed.put(&config_map("old", &json!({})));
    bed.put(&config_map("older", &json!({})));
    let uid = bed.object(("", "v1"), "ConfigMap", "shop", "old").unwrap()["metadata"]["uid"].clone();
    let owner =
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "old", "uid": uid}]});
    bed.put(&config_map("below", &owner));

    let tree = bed.succeeds(&["app", "resources", "ui", "--output", "tree", "--project", "team"]);
    assert_eq!(
        tree,
        "GROUP  KIND       NAMESPACE  NAME   ORPHANED\n\
         \x20      ConfigMap  shop       gone   No\n\
         \x20      ConfigMap  shop       own    No\n\
         \x20      Service    shop       web    No\n\
         \x20      ConfigMap  shop       old    Yes\n\
         \x20      ConfigMap  shop       below  Yes\n\
         \x20      ConfigMap  shop       older  Yes\n"
    );
    let orphans = bed.succeeds(&["app", "resources", "ui", "-o", "tree", "--orphaned"]);
    let names = |text: &str| {
        text.lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(2).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&orphans), ["old", "below", "older"]);
    let managed = bed.succeeds(&["app", "resources", "ui", "-o", "tree=detailed", "--orphaned=false"]);
    assert!(managed.starts_with("GROUP  KIND       NAMESPACE  NAME  ORPHANED  AGE"), "{managed}");
    assert!(managed.lines().next().unwrap().ends_with("  HEALTH   REASON"), "{managed}");
    let words = |name: &str| {
        let line = managed.lines().find(|line| line.contains(&format!("  {name} "))).unwrap().to_owned();
        line.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words("gone"), ["No", "<unknown>", "Missing"]);
    assert_eq!((words("web")[0].as_str(), words("web")[2].as_str()), ("No", "Healthy"));
    assert_eq!(words("own").len(), 2, "an age, and no health: {managed}");
    assert_eq!(names(&managed), ["gone", "own", "web"]);

    assert_eq!(
        bed.fails(&["app", "resources", "ui", "--project", "default"]),
        ("rpc error: code = PermissionDenied desc = permission denied".to_owned(), 20)
    );
    assert_eq!(bed.fails(&["app", "resources", "ui", "-o", "json"]).0, "unknown output format: json");
}
