//! Patches of the object that was looked up, and of no other one that took its name meanwhile (INV-6).
//!
//! A patch names an object by its name. What was checked is an object with a uid, so every patch says which: the server
//! refuses one that does not fit.

use serde_json::{Map, Value, json};
use tiphys_cluster::{ApiError, PatchKind, Target, Writer};

use super::load::AppContext;
use super::resource::failed;
use super::shown::ShowError;
use super::visible::missing;

/// The patch, for the object with this uid only.
///
/// # Errors
/// When the patch has no place for it: such a patch changes nothing that it may.
pub(super) fn bound(kind: PatchKind, patch: &Value, uid: &str) -> Result<Value, String> {
    if kind == PatchKind::Json {
        let steps = patch.as_array().ok_or("a JSON patch is a list of operations")?;
        return Ok(std::iter::once(test(uid)).chain(steps.iter().cloned()).collect());
    }
    let members = patch.as_object().ok_or("a patch of this kind is an object")?;
    Ok(Value::Object(merged(members.clone(), uid)?))
}

/// The same for a merge patch.
///
/// # Errors
/// When its metadata is no object.
pub(super) fn merged(mut patch: Map<String, Value>, uid: &str) -> Result<Map<String, Value>, String> {
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or("metadata of a patch is an object")?;
    metadata.insert("uid".to_owned(), uid.into());
    Ok(patch)
}

/// A JSON patch of the status of an object, as a merge patch would change it. A server ignores what a merge patch of the
/// status of a custom resource says about metadata, but not what is tested.
pub(super) fn of_status(live: &Value, status: &Value, uid: &str) -> Value {
    let mut steps = vec![test(uid)];
    changes("/status", live.get("status"), status, &mut steps);
    Value::Array(steps)
}

fn test(uid: &str) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": uid})
}

fn changes(path: &str, live: Option<&Value>, patch: &Value, steps: &mut Vec<Value>) {
    match (live, patch) {
        (Some(Value::Object(live)), Value::Object(members)) => {
            for (name, value) in members {
                let name_in_path = name.replace('~', "~0").replace('/', "~1");
                changes(&format!("{path}/{name_in_path}"), live.get(name), value, steps);
            }
        }
        (None, Value::Null) => {}
        (Some(_), Value::Null) => steps.push(json!({"op": "remove", "path": path})),
        (_, value) => steps.push(json!({"op": "add", "path": path, "value": without_nulls(value)})),
    }
}

/// What a merge patch makes where nothing was.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        value => value.clone(),
    }
}

/// Why a patch of an object was refused: an object that was replaced is missing.
pub(super) async fn refused(
    cx: &AppContext<'_>,
    writer: &Writer,
    (target, uid): (&Target, &str),
    (word, error): (&str, ApiError),
) -> ShowError {
    let may_be_another = error.is_conflict() || error.code() == 422;
    if may_be_another
        && let Ok(live) = writer.get(target).await
        && live.is_none_or(|live| live.metadata().uid != uid)
    {
        return missing(cx, &target.key());
    }
    failed(word, &target.key(), &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_6_patches_name_the_object_that_they_change() {
        let merge = |patch: Value| bound(PatchKind::Merge, &patch, "u");
        assert_eq!(
            merge(json!({"data": {"a": "b"}})).unwrap(),
            json!({"data": {"a": "b"}, "metadata": {"uid": "u"}})
        );
        let named = json!({"metadata": {"uid": "other", "labels": {"a": null}}});
        assert_eq!(merge(named).unwrap(), json!({"metadata": {"uid": "u", "labels": {"a": null}}}));
        for wrong in [json!([]), json!("x"), json!(null), json!({"metadata": null}), json!({"metadata": []})]
        {
            assert!(merge(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(bound(PatchKind::Strategic, &json!({"metadata": null}), "u").is_err());
        let step = json!({"op": "remove", "path": "/data"});
        let test = json!({"op": "test", "path": "/metadata/uid", "value": "u"});
        assert_eq!(bound(PatchKind::Json, &json!([step]), "u").unwrap(), json!([test, step]));
        assert!(bound(PatchKind::Json, &json!({}), "u").is_err());
    }

    #[test]
    fn inv_6_a_patch_of_a_status_changes_what_a_merge_patch_does() {
        let live = json!({"status": {"a": {"b": 1, "c": 2}, "l": [1], "x/y~": 1}});
        let patch =
            json!({"a": {"b": null, "d": {"e": null, "f": 1}, "g": null}, "l": [2], "n": "s", "x/y~": null});
        let steps = of_status(&live, &patch, "u");
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "remove", "path": "/status/a/b"},
            {"op": "add", "path": "/status/a/d", "value": {"f": 1}},
            {"op": "add", "path": "/status/l", "value": [2]},
            {"op": "add", "path": "/status/n", "value": "s"},
            {"op": "remove", "path": "/status/x~1y~0"},
        ]);
        assert_eq!(steps, expected);
        let fresh = of_status(&json!({}), &json!({"a": 1}), "u");
        assert_eq!(fresh[1], json!({"op": "add", "path": "/status", "value": {"a": 1}}));
    }
}
