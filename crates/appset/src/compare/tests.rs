use super::*;

fn generated(manifest: Value) -> Application {
    serde_json::from_value(manifest).unwrap()
}

fn simple() -> Value {
    json!({"metadata": {"name": "a", "namespace": "argocd", "labels": {"l": "1"}, "annotations": {"x": "1"},
        "finalizers": ["f"]}, "spec": {"project": "default", "source": {"repoURL": "u"}, "destination": {"name": "c"}}})
}

fn live(change: impl FnOnce(&mut Value)) -> LiveApplication {
    let mut manifest = simple();
    manifest["metadata"]["ownerReferences"] = json!([owner()]);
    change(&mut manifest);
    LiveApplication::from_value(manifest).unwrap()
}

fn owner() -> Value {
    crate::live::owner_reference("s", "u")
}

fn patch_with(
    preserved: &Preserved,
    rules: &[ApplicationIgnoreDifference],
    generated: &Application,
    live: &LiveApplication,
) -> Option<Value> {
    let ignore = ignore_rules(rules, Runner::default()).unwrap();
    let owner = owner();
    Comparison { preserved, ignore: ignore.as_ref(), owner: &owner }.patch(generated, live)
}

fn patch(live: &LiveApplication) -> Option<Value> {
    patch_with(&Preserved::default(), &[], &generated(simple()), live)
}

#[test]
fn aset_132_equal_applications_are_not_written() {
    assert_eq!(patch(&live(|_| {})), None);
    // What others add to the object is not looked at.
    assert_eq!(patch(&live(|app| app["status"] = json!({"sync": {"status": "Synced"}}))), None);
    assert_eq!(patch(&live(|app| app["operation"] = json!({"sync": {}}))), None);
    assert_eq!(patch(&live(|app| app["spec"]["syncPolicy"] = json!({}))), None, "ASET-134");
}

#[test]
fn aset_132_differences_become_a_merge_patch() {
    let found = patch(&live(|app| {
        app["metadata"]["labels"] = json!({"l": "2", "m": "x"});
        app["metadata"]["annotations"] = Value::Null;
        app["metadata"]["finalizers"] = json!(["g", "f"]);
        app["spec"]["source"]["path"] = json!("p");
    }));
    assert_eq!(
        found.unwrap(),
        json!({"metadata": {"labels": {"l": "1", "m": null}, "annotations": {"x": "1"}, "finalizers": ["f"]},
            "spec": {"source": {"path": null}}})
    );
}

#[test]
fn aset_131_the_owner_is_put_in_place() {
    let found = patch(&live(|app| app["metadata"]["ownerReferences"] = Value::Null)).unwrap();
    assert_eq!(found, json!({"metadata": {"ownerReferences": [owner()]}}));
    let older = crate::live::owner_reference("s", "before");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "o"});
    let found = patch(&live(|app| app["metadata"]["ownerReferences"] = json!([other, older]))).unwrap();
    assert_eq!(found, json!({"metadata": {"ownerReferences": [other, owner()]}}));
}

#[test]
fn aset_135_deletion_hooks_keep_their_finalizers() {
    let found = patch(&live(|app| {
        app["metadata"]["finalizers"] = json!([
            "f",
            "post-delete-finalizer.argocd.argoproj.io",
            "post-delete-finalizer.argocd.argoproj.io/cleanup",
            "pre-delete-finalizer.argocd.argoproj.io"
        ]);
    }));
    assert_eq!(found, None);
}

#[test]
fn aset_136_annotations_of_others_stay() {
    let others = json!({"x": "1", "notified.notifications.argoproj.io": "n", "argocd.argoproj.io/refresh": "normal",
        "argocd.argoproj.io/hydrate": "normal", "argocd.argoproj.io/tracking-profile": "p"});
    assert_eq!(patch(&live(|app| app["metadata"]["annotations"] = others)), None);
    let found =
        patch(&live(|app| app["metadata"]["annotations"]["argocd.argoproj.io/other"] = json!("y"))).unwrap();
    assert_eq!(found, json!({"metadata": {"annotations": {"argocd.argoproj.io/other": null}}}));
}

#[test]
fn aset_137_listed_keys_keep_their_live_value() {
    let preserved = Preserved { annotations: vec!["x".into(), "y".into()], labels: vec!["l".into()] };
    let live = live(|app| {
        app["metadata"]["annotations"] = json!({"x": "live", "y": "live", "z": "live"});
        app["metadata"]["labels"] = json!({"l": "live"});
    });
    let found = patch_with(&preserved, &[], &generated(simple()), &live).unwrap();
    assert_eq!(found, json!({"metadata": {"annotations": {"z": null}}}));
}

#[test]
fn aset_140_ignored_fields_keep_their_live_value() {
    let rule = |name: &str, pointers: &[&str], jq: &[&str]| ApplicationIgnoreDifference {
        name: name.to_owned(),
        json_pointers: pointers.iter().map(|text| (*text).to_owned()).collect(),
        jq_path_expressions: jq.iter().map(|text| (*text).to_owned()).collect(),
        ..ApplicationIgnoreDifference::default()
    };
    let changed = live(|app| {
        app["spec"]["source"]["targetRevision"] = json!("pinned");
        app["metadata"]["annotations"]["a/b"] = json!("live");
    });
    let none = Preserved::default();
    let app = generated(simple());
    let rules = [rule("", &["/spec/source/targetRevision", "/metadata/annotations/a~1b"], &[])];
    assert_eq!(patch_with(&none, &rules, &app, &changed), None);
    let rules = [rule("", &["/metadata/annotations/a~1b"], &[".spec.source.targetRevision"])];
    assert_eq!(patch_with(&none, &rules, &app, &changed), None);
    let rules = [rule("other", &["/spec/source/targetRevision"], &[])];
    assert!(patch_with(&none, &rules, &app, &changed).is_some());
    // A rule for everything cannot take away what an Application is called.
    let rules = [rule("", &["/metadata/name", "/metadata/namespace", "/kind", "/spec"], &[])];
    let found = patch_with(&none, &rules, &app, &changed).unwrap();
    assert_eq!(found, json!({"metadata": {"annotations": {"a/b": null}}}));
    assert!(ignore_rules(&[rule("", &[], &[".["])], Runner::default()).is_err());
}

#[test]
fn aset_231_an_operation_that_waits_is_not_replaced() {
    let mut app = generated(simple());
    app.operation = Some(Box::default());
    let none = Preserved::default();
    assert!(patch_with(&none, &[], &app, &live(|_| {})).unwrap().get("operation").is_some());
    assert_eq!(patch_with(&none, &[], &app, &live(|app| app["operation"] = json!({}))), None);
}

#[test]
fn aset_132_an_application_is_created_whole() {
    let mut app = generated(simple());
    let manifest = created(&app, &owner());
    assert_eq!(manifest["metadata"]["ownerReferences"], json!([owner()]));
    assert_eq!(manifest["metadata"]["finalizers"], json!(["f"]));
    assert_eq!(manifest["kind"], "Application");
    assert!(manifest.get("operation").is_none() && manifest.get("status").is_none());
    app.operation = Some(Box::default());
    assert!(created(&app, &owner()).get("operation").is_some());
}
