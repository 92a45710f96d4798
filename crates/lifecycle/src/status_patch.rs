//! The one patch that writes an Application: what of a new state is worth a write, and how it is sent (CTL-2, CTL-35).

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::names::annotation;

use crate::operation::shown;
use crate::status;

/// What to write besides the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatchOptions {
    /// Remove the refresh annotations.
    pub refreshed: bool,
    /// Write `.operation` as the new state has it.
    pub operation: bool,
    /// Write project and sync policy in their normal form (CTL-6).
    pub normalized: bool,
    /// Write the finalizers as the new state has them.
    pub finalizers: bool,
    /// Write the tracking profile as the new state has it (TRK-102).
    pub profile: bool,
    /// Write the annotations that ask for a refresh and a hydration, and the claim of a directory, as the new state has
    /// them (CTL-107, CTL-109, CTL-110).
    pub requests: bool,
    /// Fail when somebody else changed the object meanwhile.
    pub exclusive: bool,
    /// Let a new revision wait for its turn when it is all there is to write.
    pub patient: bool,
}

/// Annotations that ask for something.
const REQUESTS: [&str; 4] =
    [annotation::REFRESH, annotation::REFRESH_TIMESTAMP, annotation::HYDRATE, annotation::HYDRATE_TIMESTAMP];

/// Completes a new status with what every write says: who wrote it, and since when the health is what it is.
pub fn complete(old: &Application, new: &mut Application, controller_namespace: &str, now: Timestamp) {
    controller_namespace.clone_into(&mut new.status.controller_namespace);
    let (was, is) = (&old.status.health, &mut new.status.health);
    if was.status == is.status {
        is.last_transition_time.clone_from(&was.last_transition_time);
    } else {
        is.last_transition_time = Some(shown(now));
    }
}

/// The merge patch from one state of an application to the next; `None` when there is nothing worth a write.
///
/// `version` is the resource version that was read; a write that depends on it names it.
pub fn patch(version: &str, old: &Application, new: &Application, options: PatchOptions) -> Option<Value> {
    let mut patch = json!({});
    let map = patch.as_object_mut()?;
    if let Some(change) = status::change(&old.status, &new.status) {
        map.insert("status".to_owned(), change);
    }
    let time_only = map
        .get("status")
        .and_then(Value::as_object)
        .is_some_and(|status| status.len() == 1 && status.contains_key("reconciledAt"));
    if options.operation && old.operation != new.operation {
        let value = |operation| serde_json::to_value(operation).unwrap_or(Value::Null);
        // As a patch from the old operation, so that nothing of it stays in the new one.
        if let Some(change) = status::merge_patch(&value(&old.operation), &value(&new.operation)) {
            map.insert("operation".to_owned(), change);
        }
    }
    if options.normalized
        && let Some(spec) = normalization(old)
    {
        map.insert("spec".to_owned(), spec);
    }
    let mut metadata = serde_json::Map::new();
    let mut annotations = serde_json::Map::new();
    if options.refreshed && old.annotation(annotation::REFRESH).is_some() {
        annotations.insert(annotation::REFRESH.to_owned(), Value::Null);
        annotations.insert(annotation::REFRESH_TIMESTAMP.to_owned(), Value::Null);
    }
    if options.requests {
        for name in REQUESTS.into_iter().chain([annotation::HYDRATION_CLAIM]) {
            if old.annotation(name) != new.annotation(name) {
                annotations.insert(name.to_owned(), new.annotation(name).into());
            }
        }
    }
    let profile = new.annotation(annotation::TRACKING_PROFILE);
    if options.profile && profile != old.annotation(annotation::TRACKING_PROFILE) {
        annotations.insert(annotation::TRACKING_PROFILE.to_owned(), profile.into());
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if options.finalizers && old.metadata.finalizers != new.metadata.finalizers {
        metadata.insert("finalizers".to_owned(), json!(new.metadata.finalizers));
    }
    // The time of a comparison alone is worth no write: a settled installation writes nothing (INV-5).
    if metadata.is_empty() && (map.is_empty() || (map.len() == 1 && time_only && !is_awaited(old))) {
        return None;
    }
    if options.exclusive || !metadata.is_empty() {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    if !metadata.is_empty() {
        map.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Some(patch)
}

/// Whether a patch shows a new revision and nothing else.
pub fn is_only_revision(patch: &Value) -> bool {
    let is_of = |value: Option<&Value>, names: &[&str]| {
        let members = value.and_then(Value::as_object);
        members.is_some_and(|map| map.keys().all(|name| names.contains(&name.as_str())))
    };
    is_of(Some(patch), &["status"])
        && is_of(patch.get("status"), &["reconciledAt", "sync"])
        && is_of(patch.pointer("/status/sync"), &["revision", "revisions"])
}

/// Whether somebody waits for the time of a comparison: clients take an operation for finished once the
/// application was compared after it (CLI-516).
pub fn is_awaited(old: &Application) -> bool {
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let Some(reconciled) = time(old.status.reconciled_at.as_deref()) else { return true };
    let finished = old.status.operation_state.as_ref().and_then(|state| time(state.finished_at.as_deref()));
    finished.is_some_and(|finished| reconciled < finished)
}

/// The normal form of the spec as a merge patch; `None` when it has it already (CTL-6).
fn normalization(app: &Application) -> Option<Value> {
    let mut spec = serde_json::Map::new();
    if app.spec.project.is_empty() {
        spec.insert("project".to_owned(), "default".into());
    }
    let empty = |policy: &tiphys_api::application::SyncPolicy| {
        policy.automated.is_none()
            && policy.sync_options.is_empty()
            && policy.retry.is_none()
            && policy.managed_namespace_metadata.is_none()
            && policy.unknown.is_empty()
    };
    if app.spec.sync_policy.as_ref().is_some_and(empty) {
        spec.insert("syncPolicy".to_owned(), Value::Null);
    }
    (!spec.is_empty()).then_some(Value::Object(spec))
}

/// What people see of a write, as texts of events (CTL-35). The first sight of an application is no change.
pub fn visible_changes(old: &Application, new: &Application) -> Vec<String> {
    let mut texts = Vec::new();
    let (was, is) = (&old.status.sync.status, &new.status.sync.status);
    if !was.is_empty() && was != is {
        texts.push(format!("Updated sync status: {was} -> {is}"));
    }
    let (was, is) = (&old.status.health, &new.status.health);
    if !was.status.is_empty() && was.status != is.status {
        let mut text = format!("Updated health status: {} -> {}", was.status, is.status);
        if !is.message.is_empty() {
            text = format!("{text} ({})", is.message);
        }
        texts.push(text);
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(value: Value) -> Application {
        serde_json::from_value(value).unwrap()
    }

    fn minimal() -> Value {
        json!({"metadata": {"name": "a", "resourceVersion": "7",
            "annotations": {"argocd.argoproj.io/refresh": "normal"}}, "spec": {"destination": {}}})
    }

    #[test]
    fn ctl_35_an_unchanged_application_is_not_written() {
        let app = app(minimal());
        assert_eq!(patch("7", &app, &app.clone(), PatchOptions::default()), None);
    }

    #[test]
    fn inv_5_the_time_of_a_comparison_alone_is_not_written() {
        let mut value = minimal();
        value["metadata"]["annotations"] = json!({});
        value["status"] =
            json!({"reconciledAt": "2026-01-01T00:00:00Z", "sync": {"status": "Synced"}, "health": {}});
        let app = app(value);
        let mut new = app.clone();
        new.status.reconciled_at = Some("2026-01-01T00:05:00Z".to_owned());
        assert_eq!(patch("7", &app, &new, PatchOptions::default()), None);
        new.status.sync.revision = "r".to_owned();
        let patch = patch("7", &app, &new, PatchOptions::default()).unwrap();
        assert_eq!(patch["status"]["reconciledAt"], "2026-01-01T00:05:00Z");
    }

    #[test]
    fn cli_516_the_comparison_after_an_operation_is_written() {
        let mut value = minimal();
        value["metadata"]["annotations"] = json!({});
        value["status"] = json!({"reconciledAt": "2026-01-01T00:00:00Z", "sync": {"status": "Unknown"}, "health": {},
            "operationState": {"operation": {}, "phase": "Error", "startedAt": "2026-01-01T00:00:00Z",
                "finishedAt": "2026-01-01T00:00:07Z"}});
        let app = app(value);
        let mut new = app.clone();
        new.status.reconciled_at = Some("2026-01-01T00:00:08Z".to_owned());
        assert!(patch("7", &app, &new, PatchOptions::default()).is_some());
    }

    #[test]
    fn ctl_30_removing_a_refresh_request_depends_on_the_version_that_was_read() {
        let app = app(minimal());
        let also = PatchOptions { refreshed: true, ..PatchOptions::default() };
        let patch = patch("7", &app, &app.clone(), also).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert!(patch["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null());
    }

    #[test]
    fn ctl_6_the_spec_is_normalised() {
        let app = app(json!({"metadata": {"name": "a"},
            "spec": {"project": "", "destination": {}, "syncPolicy": {}}}));
        assert_eq!(normalization(&app), Some(json!({"project": "default", "syncPolicy": null})));
    }
}
