use jiff::Timestamp;
use serde_json::json;
use tiphys_api::names::annotation;

use super::*;

fn stored(changes: &Value) -> Object {
    let mut value = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "argocd", "uid": "u", "resourceVersion": "7", "labels": {"old": "1"},
            "finalizers": ["x"]},
        "spec": {"project": "default", "source": {"repoURL": "u", "path": "p"}, "destination": {"server": "s"}},
        "status": {"sync": {"status": "Synced"}}});
    value = merge_patch::apply(value, changes);
    Object::from_value(&value).unwrap()
}

fn wanted(changes: &Value) -> Result<Wanted, ApplicationError> {
    let value = json!({"metadata": {"name": "web", "labels": {"old": "1"}, "finalizers": ["x"]},
        "spec": {"source": {"repoURL": "u", "path": "p"}, "destination": {"server": "s"}}, "status": {"x": 1},
        "operation": {"sync": {}}});
    Wanted::read(merge_patch::apply(value, changes), "argocd")
}

fn replaced(change: Change) -> Value {
    let Change::Replace(seen, value) = change else { panic!("{change:?}") };
    assert_eq!(seen.version, "7");
    value.expose().clone()
}

/// SEC-43 to SEC-46: an address that a browser follows is one of the web.
#[test]
fn api_125_what_is_wanted_is_brought_into_its_form() {
    let good = wanted(&json!({})).unwrap();
    assert_eq!(good.value["kind"], "Application");
    assert_eq!(good.value["metadata"]["namespace"], "argocd");
    assert_eq!(good.value["spec"]["project"], "default");
    assert!(good.value.get("operation").is_none() && good.value.get("status").is_none());
    let text = |changes: Value| wanted(&changes).unwrap_err().to_string();
    assert_eq!(text(json!({"metadata": {"name": null}})), "resource name may not be empty");
    let twice = json!({"spec": {"source": null, "sources": [{"repoURL": "u", "name": "a"}, {"repoURL": "v"},
        {"repoURL": "w"}, {"repoURL": "u", "name": "a"}]}});
    assert_eq!(text(twice), "application web has duplicate source name: a");
    let url = |url: &str| wanted(&json!({"metadata": {"annotations": {MANAGED_BY_URL: url}}}));
    assert!(url("https://x").is_ok() && url("").is_ok());
    for bad in ["javascript:alert(1)", "data:text/html,x", "x", " https://x"] {
        assert_eq!(url(bad).unwrap_err(), ApplicationError::ManagedByUrl, "{bad}");
    }
    assert!(text(json!({"spec": {"project": 5}})).starts_with("application web cannot be read: "));
}

#[test]
fn api_125_creating_makes_keeps_refuses_or_changes() {
    let make = |stored: Option<&Object>, changes: Value, upsert| {
        plan_create(stored, &wanted(&changes).unwrap(), upsert)
    };
    assert!(matches!(make(None, json!({}), false).unwrap(), Change::Create(_)));
    // INV-16: an owner deletes it and waits for it, so none is named by a caller (F4).
    let owner = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "theirs", "uid": "x"}]);
    let owned = json!({"metadata": {"ownerReferences": owner}});
    assert_eq!(make(None, owned.clone(), false).unwrap_err(), ApplicationError::Owned);
    assert!(make(None, json!({"metadata": {"ownerReferences": []}}), false).is_ok());
    let object = stored(&json!({}));
    assert_eq!(make(Some(&object), json!({}), false).unwrap(), Change::Keep);
    assert_eq!(make(Some(&object), owned, false).unwrap(), Change::Keep, "it is not written");
    let other = json!({"metadata": {"labels": {"old": null, "new": "1"}}, "spec": {"source": {"path": "q"}}});
    let refused = make(Some(&object), other.clone(), false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "existing application spec is different, use upsert flag to force update"
    );
    let value = replaced(make(Some(&object), other, true).unwrap());
    assert_eq!(value["spec"]["source"]["path"], "q");
    assert_eq!(value["metadata"]["labels"], json!({"old": "1", "new": "1"}), "labels are merged");
    assert_eq!(value["status"]["sync"]["status"], "Synced");
}

#[test]
fn api_127_updating_replaces_what_people_write() {
    let object = stored(&json!({"operation": {"sync": {}}}));
    let changes = json!({"metadata": {"labels": null, "annotations": {"a": "b"}, "finalizers": null}});
    let value = replaced(plan_update(&object, &wanted(&changes).unwrap()).unwrap());
    assert!(value["metadata"].get("labels").is_none() && value["metadata"].get("finalizers").is_none());
    assert_eq!(value["metadata"]["annotations"], json!({"a": "b"}));
    assert!(value["operation"].is_object(), "status and operation stay");
    assert_eq!(value["metadata"]["uid"], "u");
    let spec = json!({"project": "shop"});
    assert_eq!(replaced(plan_spec(&object, &spec).unwrap())["spec"], spec);
}

#[test]
fn api_128_patches_are_of_two_kinds() {
    let object = stored(&json!({}));
    let merge = patched(&object, r#"{"spec": {"source": {"path": "q"}}}"#, "merge").unwrap();
    assert_eq!(merge.application.spec.source.unwrap().path, "q");
    let json =
        patched(&object, r#"[{"op": "replace", "path": "/spec/source/path", "value": "r"}]"#, "").unwrap();
    assert_eq!(json.application.spec.source.unwrap().path, "r");
    let text = |patch: &str, kind: &str| patched(&object, patch, kind).unwrap_err().to_string();
    assert_eq!(text("{}", "strategic"), "Patch type 'strategic' is not supported");
    assert!(text("{", "merge").starts_with("application cannot be patched: "));
    assert!(
        text(r#"[{"op": "test", "path": "/spec/project", "value": "x"}]"#, "json")
            .starts_with("application cannot be patched")
    );
    for renamed in [r#"{"metadata": {"name": "x"}}"#, r#"{"metadata": {"namespace": "x"}}"#] {
        assert_eq!(text(renamed, "merge"), "a patch must not change name or namespace of an application");
    }
}

#[test]
fn api_129_deletions_have_their_finalizers() {
    let list = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let (long, background) = (finalizer::CASCADE_FOREGROUND, finalizer::CASCADE_BACKGROUND);
    let plan = |present: &[&str], cascade, policy| wanted_finalizers(&list(present), cascade, policy);
    assert_eq!(plan(&["x"], true, None), Ok(Some(list(&["x", finalizer::CASCADE]))));
    assert_eq!(plan(&[background], true, None), Ok(None), "any will do");
    assert_eq!(plan(&["x", background], true, Some("Foreground")), Ok(Some(list(&["x", long]))));
    assert_eq!(plan(&["x", long], false, None), Ok(Some(list(&["x"]))));
    assert_eq!(plan(&["x"], false, None), Ok(None));
    assert_eq!(
        plan(&[], true, Some("orphan")).unwrap_err().to_string(),
        "invalid propagation policy: orphan"
    );
    assert!(plan(&[], false, Some("background")).is_err());
    let Change::Patch(_, patch) = plan_finalizers(&stored(&json!({})), true, None).unwrap() else { panic!() };
    assert_eq!(patch.expose()["metadata"]["finalizers"], json!(["x", finalizer::CASCADE]));
    let going = stored(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(plan_finalizers(&going, true, None).unwrap(), Change::Keep);
}

#[test]
fn api_132_api_134_operations_are_asked_for_and_ended() {
    let idle = stored(
        &json!({"status": {"operationState": {"phase": "Succeeded", "finishedAt": "2026-01-01T00:00:00Z",
        "startedAt": "2026-01-01T00:00:00Z", "operation": {}}}}),
    );
    let value = replaced(plan_operation(&idle, &Operation::default()).unwrap());
    assert!(value["operation"].is_object() && value["status"].get("operationState").is_none());
    assert_eq!(plan_terminate(&idle).unwrap_err(), ApplicationError::Idle);
    let running =
        stored(&json!({"operation": {"sync": {}}, "status": {"operationState": {"phase": "Running",
        "startedAt": "2026-01-01T00:00:00Z", "operation": {}}}}));
    assert_eq!(plan_operation(&running, &Operation::default()).unwrap_err(), ApplicationError::Busy);
    let Change::Patch(seen, patch) = plan_terminate(&running).unwrap() else { panic!() };
    assert_eq!(seen.version, "7");
    assert_eq!(patch.expose()["status"]["operationState"]["phase"], "Terminating");
    let Change::Patch(_, patch) = plan_refresh(&idle, true, Timestamp::UNIX_EPOCH) else { panic!() };
    assert_eq!(patch.expose()["metadata"]["annotations"], json!({annotation::REFRESH: "hard"}));
    let hydrated = stored(&json!({"spec": {"sourceHydrator": {"drySource": {"repoURL": "u"}}}}));
    let Change::Patch(_, patch) = plan_refresh(&hydrated, false, Timestamp::UNIX_EPOCH) else { panic!() };
    let expected = json!({annotation::REFRESH: "normal", annotation::HYDRATE: "normal",
        annotation::HYDRATE_TIMESTAMP: "1970-01-01T00:00:00Z"});
    assert_eq!(patch.expose()["metadata"]["annotations"], expected);
}
