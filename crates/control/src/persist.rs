//! Writing an Application: one merge patch of what changed, events about it, and the store updated from the
//! answer (CTL-2, CTL-35).

use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::ApplicationStatus;
use tiphys_api::names::annotation;
use tiphys_cluster::{ApiError, Target};
use tiphys_object::Object;
use tiphys_policy::permit::{Own, Permit};

use crate::context::Context;
use crate::decide::operation::shown;
use crate::decide::status;
use crate::events::Note;
use crate::memory::AppMemory;
use crate::queue::Priority;
use crate::store::{AppKey, Change, Held};

/// What to write besides the status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Also {
    /// Remove the refresh annotations.
    pub(crate) refreshed: bool,
    /// Write `.operation` as the new state has it.
    pub(crate) operation: bool,
    /// Write project and sync policy in their normal form (CTL-6).
    pub(crate) normalized: bool,
    /// Write the finalizers as the new state has them.
    pub(crate) finalizers: bool,
    /// Fail when somebody else changed the object meanwhile.
    pub(crate) exclusive: bool,
    /// Let a new revision wait for its turn when it is all there is to write.
    pub(crate) patient: bool,
}

/// How a write ended.
#[derive(Debug)]
pub(crate) enum Written {
    /// The object is stored like this; it may be the old one when nothing changed.
    Stored(Arc<Object>),
    /// There was only a new revision to write, and its turn has not come.
    Waits,
    /// Somebody else changed the object; read again.
    Conflict,
    /// The object is gone.
    Gone,
    /// The write failed; the next round tries again.
    Failed(String),
}

/// Writes the difference between two states of an application.
pub(crate) async fn write(
    context: &Context,
    object: &Arc<Object>,
    old: &Application,
    new: &mut Application,
    also: Also,
) -> Written {
    finish_status(context, old, new);
    let left_out = status::bound(&mut new.status);
    if left_out > 0 {
        tracing::debug!(application = %new.metadata.name, left_out, "the status was cut to its bound");
    }
    let Some(patch) = patch(object, old, new, also) else { return Written::Stored(Arc::clone(object)) };
    if context.read_only {
        return Written::Stored(Arc::clone(object));
    }
    if also.patient && is_only_revision(&patch) && !is_awaited(old) {
        let entry = context.store.get(&AppKey::new(&old.metadata.namespace, &old.metadata.name));
        let has_turn =
            |memory: &mut AppMemory| context.trickle.has_come(&mut memory.turn, context.clock.elapsed());
        if entry.is_some_and(|entry| !has_turn(&mut entry.memory.lock())) {
            return Written::Waits;
        }
    }
    let target = Target::new(Context::application_gvk(), &old.metadata.namespace, &old.metadata.name);
    let permit = Permit::own(Own::Application, &old.metadata.namespace, &old.metadata.name);
    context.metrics.worked("application-patch");
    let answer = match context.home.merge_patch(&permit, &target, None, &patch).await {
        Err(error) if is_too_large(&error) => {
            tracing::warn!(application = %new.metadata.name, %error, "the status is too large to be stored");
            shorten(old, new, &shown(context.clock.now()));
            match self::patch(object, old, new, also) {
                Some(patch) => context.home.merge_patch(&permit, &target, None, &patch).await,
                // That it is too large is stored already.
                None => return Written::Stored(Arc::clone(object)),
            }
        }
        other => other,
    };
    match answer {
        Ok(stored) => {
            notes(context, &stored, old, new);
            remember(context, &stored);
            Written::Stored(stored)
        }
        Err(error) if error.is_not_found() => {
            context.store.remove(&AppKey::new(&old.metadata.namespace, &old.metadata.name));
            Written::Gone
        }
        Err(error) if error.is_conflict() => Written::Conflict,
        Err(error) => Written::Failed(error.to_string()),
    }
}

/// Says in the status of an application that it cannot be read: nothing that the status said before is known to
/// hold any more (INV-15). The write needs nothing of the object but its name.
pub(crate) async fn tell_unreadable(context: &Context, key: &AppKey, held: &Held) {
    let world = context.world.load();
    let enabled =
        tiphys_policy::project::namespace_enabled(&world.settings, &key.namespace, &context.namespace);
    if context.read_only || !enabled {
        return;
    }
    let at = held.told.get_or_init(|| shown(context.clock.now()));
    let patch = json!({"status": {
        "sync": {"status": "Unknown"},
        "health": {"status": "Unknown", "message": null},
        "conditions": [{
            "type": "UnknownError",
            "message": format!("the Application cannot be read: {}", held.reason),
            "lastTransitionTime": at,
        }],
    }});
    let target = Target::new(Context::application_gvk(), &key.namespace, &key.name);
    let permit = Permit::own(Own::Application, &key.namespace, &key.name);
    match context.home.merge_patch(&permit, &target, None, &patch).await {
        // The answer is the object, which cannot be read.
        Ok(_) | Err(ApiError::Malformed { .. }) => {}
        Err(error) if error.is_not_found() => {
            context.store.remove(key);
        }
        Err(error) => {
            tracing::warn!(application = %key, %error, "that the application cannot be read could not be written");
            context.queue.add_at(key.clone(), tokio::time::Instant::now() + TELL_AGAIN);
        }
    }
}

/// Time until a status that could not be written is written again.
const TELL_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

/// Takes our own write into the store, so that the next look does not see an older state.
///
/// The answer may hold somebody else's change that the watch has not shown yet and, being no longer new, never
/// will: then the application is looked at once more. An application that is gone does not come back.
pub(crate) fn remember(context: &Context, stored: &Arc<Object>) {
    let world = context.world.load();
    let instance = |namespace: &str, name: &str| world.tracking.instance_name(namespace, name);
    match context.store.update(Arc::clone(stored), instance) {
        Ok(Change::Declared) => {
            context.queue.add(AppKey::new(stored.namespace(), stored.name()), Priority::Urgent);
        }
        Ok(Change::StatusOnly | Change::None) => {}
        Err(error) => {
            tracing::warn!(application = stored.name(), %error, "the stored application cannot be read");
        }
    }
}

/// Whether an application is stored exactly as it was seen here. A change of nothing that names the version asks
/// the API server itself; a list or a read may come from a copy that is behind (F3).
pub(crate) async fn confirm(context: &Context, object: &Arc<Object>) -> Written {
    if context.read_only {
        return Written::Stored(Arc::clone(object));
    }
    let metadata = object.metadata();
    let patch = json!({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}});
    let target = Target::new(Context::application_gvk(), object.namespace(), object.name());
    let permit = Permit::own(Own::Application, object.namespace(), object.name());
    match context.home.merge_patch(&permit, &target, None, &patch).await {
        Ok(stored) => Written::Stored(stored),
        Err(error) if error.is_not_found() => {
            context.store.remove(&AppKey::new(object.namespace(), object.name()));
            Written::Gone
        }
        Err(error) if error.is_conflict() => Written::Conflict,
        Err(error) => Written::Failed(error.to_string()),
    }
}

/// Reads an application and takes it into the store.
pub(crate) async fn read_again(context: &Context, key: &AppKey) {
    let target = Target::new(Context::application_gvk(), &key.namespace, &key.name);
    match context.home.get(&target).await {
        Ok(Some(latest)) => remember(context, &latest),
        Ok(None) => {
            context.store.remove(key);
        }
        Err(error) => tracing::debug!(application = %key, %error, "the application cannot be read now"),
    }
}

fn finish_status(context: &Context, old: &Application, new: &mut Application) {
    new.status.controller_namespace.clone_from(&context.namespace);
    let (was, is) = (&old.status.health, &mut new.status.health);
    if was.status == is.status {
        is.last_transition_time.clone_from(&was.last_transition_time);
    } else {
        is.last_transition_time = Some(shown(context.clock.now()));
    }
}

fn patch(object: &Object, old: &Application, new: &Application, also: Also) -> Option<Value> {
    let mut patch = json!({});
    let map = patch.as_object_mut()?;
    let (from, to) = (status::status_value(&old.status), status::status_value(&new.status));
    if let Some(change) = status::merge_patch(&from, &to) {
        map.insert("status".to_owned(), change);
    }
    let time_only = map
        .get("status")
        .and_then(Value::as_object)
        .is_some_and(|status| status.len() == 1 && status.contains_key("reconciledAt"));
    if also.operation && old.operation != new.operation {
        let value = |operation| serde_json::to_value(operation).unwrap_or(Value::Null);
        // As a patch from the old operation, so that nothing of it stays in the new one.
        if let Some(change) = status::merge_patch(&value(&old.operation), &value(&new.operation)) {
            map.insert("operation".to_owned(), change);
        }
    }
    if also.normalized
        && let Some(spec) = normalization(old)
    {
        map.insert("spec".to_owned(), spec);
    }
    let mut metadata = serde_json::Map::new();
    let annotated = old.annotation(annotation::REFRESH).is_some();
    if also.refreshed && annotated {
        metadata.insert(
            "annotations".to_owned(),
            json!({annotation::REFRESH: null, annotation::REFRESH_TIMESTAMP: null}),
        );
    }
    if also.finalizers && old.metadata.finalizers != new.metadata.finalizers {
        metadata.insert("finalizers".to_owned(), json!(new.metadata.finalizers));
    }
    // The time of a comparison alone is worth no write: a settled installation writes nothing (INV-5).
    if metadata.is_empty() && (map.is_empty() || (map.len() == 1 && time_only && !is_awaited(old))) {
        return None;
    }
    if also.exclusive || !metadata.is_empty() {
        metadata.insert("resourceVersion".to_owned(), object.metadata().resource_version.as_str().into());
    }
    if !metadata.is_empty() {
        map.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Some(patch)
}

/// Whether a patch shows a new revision and nothing else.
fn is_only_revision(patch: &Value) -> bool {
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
fn is_awaited(old: &Application) -> bool {
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<jiff::Timestamp>().ok());
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

fn is_too_large(error: &ApiError) -> bool {
    error.code() == 413
        || error.to_string().contains("Request entity too large")
        || error.to_string().contains("etcdserver: request is too large")
}

/// Leaves the stored status as it is and adds a condition that says so (CTL-36). An operation goes on all the same:
/// its state is stored without the results that nothing depends on, and its entry of the history.
fn shorten(old: &Application, new: &mut Application, now: &str) {
    let text = "the status of this application is too large to be stored; manage fewer resources with it, use \
                the sync option ApplyOutOfSyncOnly=true, lower spec.revisionHistoryLimit, or split it";
    let found = vec![status::condition("UnknownError", text)];
    let conditions = status::merge_conditions(&old.status.conditions, &["UnknownError"], found, now);
    let computed = std::mem::replace(&mut new.status, ApplicationStatus { conditions, ..old.status.clone() });
    if computed.operation_state == old.status.operation_state {
        return;
    }
    new.status.history = computed.history;
    new.status.operation_state = computed.operation_state;
    if let Some(result) = new.status.operation_state.as_mut().and_then(|state| state.sync_result.as_mut()) {
        result.resources.retain(|r| !r.hook_type.is_empty());
    }
}

/// Events about visible changes (CTL-35). The first sight of an application is no change.
fn notes(context: &Context, stored: &Object, old: &Application, new: &Application) {
    let (was, is) = (&old.status.sync.status, &new.status.sync.status);
    if !was.is_empty() && was != is {
        let text = format!("Updated sync status: {was} -> {is}");
        context.note(stored, new, &Note::normal("ResourceUpdated", text));
    }
    let (was, is) = (&old.status.health, &new.status.health);
    if !was.status.is_empty() && was.status != is.status {
        let mut text = format!("Updated health status: {} -> {}", was.status, is.status);
        if !is.message.is_empty() {
            text = format!("{text} ({})", is.message);
        }
        context.note(stored, new, &Note::normal("ResourceUpdated", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(value: Value) -> (Object, Application) {
        (Object::from_value(&value).unwrap(), serde_json::from_value(value).unwrap())
    }

    fn minimal() -> Value {
        json!({"metadata": {"name": "a", "resourceVersion": "7",
            "annotations": {"argocd.argoproj.io/refresh": "normal"}}, "spec": {"destination": {}}})
    }

    #[test]
    fn ctl_35_an_unchanged_application_is_not_written() {
        let (object, app) = app(minimal());
        assert_eq!(patch(&object, &app, &app.clone(), Also::default()), None);
    }

    #[test]
    fn ctl_36_a_status_that_is_too_large_leaves_the_stored_one_and_adds_a_condition() {
        let mut value = minimal();
        value["status"] = json!({"sync": {"status": "Synced"}, "health": {},
            "resources": [{"kind": "ConfigMap", "name": "a", "status": "Synced"}],
            "history": [{"id": 1, "revision": "r", "deployedAt": "2026-01-01T00:00:00Z"}],
            "operationState": {"operation": {}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}});
        let (_, old) = app(value);
        let mut new = old.clone();
        new.status.resources.push(old.status.resources[0].clone());
        new.status.sync.status = "OutOfSync".to_owned();
        shorten(&old, &mut new, "2026-01-01T00:00:05Z");
        assert_eq!(new.status.conditions.len(), 1);
        assert!(new.status.conditions[0].message.contains("too large"));
        let kept = ApplicationStatus { conditions: Vec::new(), ..new.status.clone() };
        assert_eq!(kept, old.status);
        // The next time nothing is left to write.
        let stored = new.clone();
        new.status.resources.clear();
        shorten(&stored, &mut new, "2026-01-01T00:09:00Z");
        assert_eq!(new.status, stored.status);
    }

    /// INV-9: an operation ends although its results are too large, and its hooks stay on record.
    #[test]
    fn ctl_36_the_state_of_an_operation_is_stored_without_its_results() {
        let mut value = minimal();
        value["status"] = json!({"sync": {"status": "Synced"}, "health": {},
            "operationState": {"operation": {}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}});
        let (_, old) = app(value);
        let mut new = old.clone();
        let state = new.status.operation_state.as_mut().unwrap();
        state.phase = "Succeeded".to_owned();
        state.sync_result = Some(
            serde_json::from_value(json!({"revision": "r", "resources": [
                {"kind": "ConfigMap", "name": "a"}, {"kind": "Job", "name": "h", "hookType": "Sync"}]}))
            .unwrap(),
        );
        shorten(&old, &mut new, "2026-01-01T00:00:05Z");
        let state = new.status.operation_state.unwrap();
        let names: Vec<String> = state.sync_result.unwrap().resources.into_iter().map(|r| r.name).collect();
        assert_eq!((state.phase.as_str(), names), ("Succeeded", vec!["h".to_owned()]));
    }

    #[test]
    fn inv_5_the_time_of_a_comparison_alone_is_not_written() {
        let mut value = minimal();
        value["metadata"]["annotations"] = json!({});
        value["status"] =
            json!({"reconciledAt": "2026-01-01T00:00:00Z", "sync": {"status": "Synced"}, "health": {}});
        let (object, app) = app(value);
        let mut new = app.clone();
        new.status.reconciled_at = Some("2026-01-01T00:05:00Z".to_owned());
        assert_eq!(patch(&object, &app, &new, Also::default()), None);
        new.status.sync.revision = "r".to_owned();
        let patch = patch(&object, &app, &new, Also::default()).unwrap();
        assert_eq!(patch["status"]["reconciledAt"], "2026-01-01T00:05:00Z");
    }

    #[test]
    fn cli_516_the_comparison_after_an_operation_is_written() {
        let mut value = minimal();
        value["metadata"]["annotations"] = json!({});
        value["status"] = json!({"reconciledAt": "2026-01-01T00:00:00Z", "sync": {"status": "Unknown"}, "health": {},
            "operationState": {"operation": {}, "phase": "Error", "startedAt": "2026-01-01T00:00:00Z",
                "finishedAt": "2026-01-01T00:00:07Z"}});
        let (object, app) = app(value);
        let mut new = app.clone();
        new.status.reconciled_at = Some("2026-01-01T00:00:08Z".to_owned());
        assert!(patch(&object, &app, &new, Also::default()).is_some());
    }

    #[test]
    fn ctl_30_removing_a_refresh_request_depends_on_the_version_that_was_read() {
        let (object, app) = app(minimal());
        let also = Also { refreshed: true, ..Also::default() };
        let patch = patch(&object, &app, &app.clone(), also).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert!(patch["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null());
    }

    #[test]
    fn ctl_6_the_spec_is_normalised() {
        let (_, app) = app(json!({"metadata": {"name": "a"},
            "spec": {"project": "", "destination": {}, "syncPolicy": {}}}));
        assert_eq!(normalization(&app), Some(json!({"project": "default", "syncPolicy": null})));
    }
}
