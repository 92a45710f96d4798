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
