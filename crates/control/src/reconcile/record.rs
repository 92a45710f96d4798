//! The only writer of an Application: one merge patch of what changed, events about it, and the store updated from the
//! answer (CTL-2, CTL-35).

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tiphys_api::codes::{ConditionType, HealthCode, SyncStatusCode};
use tiphys_api::{Application, printable};
use tiphys_cluster::{ApiError, Target};
use tiphys_lifecycle::fit::{self, Fitted};
use tiphys_lifecycle::operation::shown;
use tiphys_lifecycle::status_patch::{self, PatchOptions};
use tiphys_object::Object;
use tiphys_policy::permit::{Own, Permit};
use tiphys_policy::project::namespace_enabled;

use super::load::AppContext;
use crate::app_key::AppKey;
use crate::context::Context;
use crate::events::Note;
use crate::memory::StatusRoom;
use crate::scheduler::Requeue;
use crate::store::{Change, Held};

/// Pause after somebody else changed the application during a round.
pub(super) const CONFLICT_AGAIN: SignedDuration = SignedDuration::from_millis(100);
/// Time until a status that could not be written is written again.
const TELL_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// How a write ended.
#[derive(Debug)]
pub(super) enum Written {
    /// It is stored, or nothing was to be written; the context has what is stored.
    Stored,
    /// There was only a new revision to write, and its turn has not come.
    Waits,
    /// Somebody else changed the object; read again.
    Conflict,
    /// The object is gone.
    Gone,
    /// The write failed; the next round tries again.
    Failed(String),
}

/// Writes the difference between the application and a new state of it.
pub(super) async fn write(cx: &mut AppContext<'_>, mut new: Application, options: PatchOptions) -> Written {
    let controller = cx.controller;
    status_patch::complete(&cx.app, &mut new, &controller.namespace, controller.clock.now());
    let rest_bytes = fit::rest_bytes(&new);
    let room = fit_known_room(cx, &mut new, rest_bytes);
    let version = cx.object.metadata().resource_version.clone();
    let Some(patch) = status_patch::patch(&version, &cx.app, &new, options) else { return Written::Stored };
    if controller.read_only {
        return Written::Stored;
    }
    let may_show_revision = std::mem::take(&mut cx.memory.lock().may_show_revision);
    if options.patient && status_patch::is_only_revision(&patch) && !status_patch::is_awaited(&cx.app) {
        if !may_show_revision {
            controller.trickle.join(&cx.key);
            return Written::Waits;
        }
    } else {
        controller.trickle.wrote(&cx.key, controller.clock.elapsed());
    }
    controller.metrics.worked("application-patch");
    let answer = match send_followed(controller, &cx.key, &patch).await {
        Err(error) if is_too_large(&error) => {
            tracing::warn!(application = %cx.key, %error, "the status is too large to be stored; it is shortened");
            match send_shorter(cx, &mut new, options, StatusRoom { rest_bytes, room }).await {
                Some(answer) => answer,
                // Its shorter form is stored already.
                None => return Written::Stored,
            }
        }
        other => other,
    };
    match taken(cx, answer) {
        Ok(stored) => {
            for text in status_patch::visible_changes(&cx.app, &new) {
                controller.note(&stored, &new, &Note::normal("ResourceUpdated", text));
            }
            if let Err(error) = adopt(cx, stored) {
                return Written::Failed(error);
            }
            // An operation that an answer shows is the stored one.
            let started = cx.app.status.operation_state.as_ref().map(|state| state.started_at.clone());
            cx.memory.lock().confirmed = started;
            Written::Stored
        }
        Err(written) => written,
    }
}

/// Fits a status into the room beside the rest of its object; less, where the API server refused that before (CTL-36).
fn fit_known_room(cx: &AppContext<'_>, new: &mut Application, rest_bytes: usize) -> usize {
    let known = cx.memory.lock().status_room.filter(|known| rest_bytes >= known.rest_bytes);
    let room = known.map_or_else(|| fit::room(rest_bytes), |known| known.room);
    let fitted = fit::fit(&cx.app, new, room, &shown(cx.controller.clock.now()));
    if fitted != Fitted::Whole {
        tracing::debug!(application = %cx.key, ?fitted, "status fitted into its object");
    }
    room
}

/// Writes a status that was refused as too large in a quarter of its room, and then as a minimal one (CTL-36). `None`
/// when that is what is stored.
async fn send_shorter(
    cx: &AppContext<'_>,
    new: &mut Application,
    options: PatchOptions,
    StatusRoom { rest_bytes, room }: StatusRoom,
) -> Option<Result<Arc<Object>, ApiError>> {
    let controller = cx.controller;
    let mut answer = None;
    for room in [room / 4, 0] {
        fit::fit(&cx.app, new, room, &shown(controller.clock.now()));
        cx.memory.lock().status_room = Some(StatusRoom { rest_bytes, room });
        let version = &cx.object.metadata().resource_version;
        let patch = status_patch::patch(version, &cx.app, new, options)?;
        let sent = send_followed(controller, &cx.key, &patch).await;
        let is_refused = sent.as_ref().is_err_and(is_too_large);
        answer = Some(sent);
        if !is_refused {
            break;
        }
    }
    answer
}

async fn send(controller: &Context, key: &AppKey, patch: &Value) -> Result<Arc<Object>, ApiError> {
    let target = Target::new(Context::application_gvk(), &key.namespace, &key.name);
    let permit = Permit::own(Own::Application, &key.namespace, &key.name);
    controller.home.merge_patch(&permit, &target, None, patch).await
}

/// Changes an application as an action on it asks for (API-142); the watch shows it.
pub(super) async fn amend(controller: &Context, key: &AppKey, patch: &Value) -> Result<(), ApiError> {
    send(controller, key, patch).await.map(drop)
}

/// The same for a change that leaves the application where it is: its answer has a version of its own, and the watch may
/// have been faster with it.
pub(crate) async fn send_followed(
    controller: &Context,
    key: &AppKey,
    patch: &Value,
) -> Result<Arc<Object>, ApiError> {
    let target = Target::new(Context::application_gvk(), &key.namespace, &key.name);
    let permit = Permit::own(Own::Application, &key.namespace, &key.name);
    let known = |uid: &str, version: &str| controller.store.get(key)?.as_version(uid, version);
    controller.home.merge_patch_followed(&permit, &target, patch, known).await
}

fn taken(cx: &AppContext<'_>, answer: Result<Arc<Object>, ApiError>) -> Result<Arc<Object>, Written> {
    answer.map_err(|error| match error {
        error if error.is_not_found() => {
            cx.controller.store.remove(&cx.key);
            Written::Gone
        }
        error if error.is_conflict() => Written::Conflict,
        error => Written::Failed(error.to_string()),
    })
}

/// Whether an application is stored exactly as it was seen here. A change of nothing that names the version asks
/// the API server itself; a list or a read may come from a copy that is behind (F3).
pub(super) async fn confirm(cx: &AppContext<'_>) -> Written {
    if cx.controller.read_only {
        return Written::Stored;
    }
    let metadata = cx.object.metadata();
    let patch = json!({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}});
    let answer = send(cx.controller, &cx.key, &patch).await;
    taken(cx, answer).map_or_else(|written| written, |_| Written::Stored)
}

/// Reads an application again; the round goes on with what is stored.
pub(super) async fn read_again(cx: &mut AppContext<'_>) {
    match read(cx).await {
        Ok(true) => {}
        Ok(false) => {
            cx.controller.store.remove(&cx.key);
        }
        Err(error) => tracing::debug!(application = %cx.key, error, "the application cannot be read now"),
    }
}

/// Reads an application and goes on with it; `false` when it is gone.
async fn read(cx: &mut AppContext<'_>) -> Result<bool, String> {
    match read_stored(cx.controller, &cx.key).await? {
        Some(latest) => adopt(cx, latest).map(|()| true),
        None => Ok(false),
    }
}

/// An application as it is stored; `None` when it is gone.
pub(crate) async fn read_stored(controller: &Context, key: &AppKey) -> Result<Option<Arc<Object>>, String> {
    let target = Target::new(Context::application_gvk(), &key.namespace, &key.name);
    controller.home.get(&target).await.map_err(|error| error.to_string())
}

/// Removes finalizers; `false` means that the object is gone.
pub(super) async fn release(cx: &mut AppContext<'_>, names: &[&str]) -> Result<bool, String> {
    let controller = cx.controller;
    let keep: Vec<&String> =
        cx.app.metadata.finalizers.iter().filter(|name| !names.contains(&name.as_str())).collect();
    let patch = json!({"metadata": {
        "finalizers": keep,
        "resourceVersion": cx.object.metadata().resource_version,
    }});
    match send(controller, &cx.key, &patch).await {
        Ok(stored) => {
            if stored.metadata().finalizers.is_empty() {
                // It is gone, and its version may be that of before: the store would keep the finalizers.
                controller.store.bury(&cx.key, &cx.object.metadata().uid);
                return Ok(false);
            }
            adopt(cx, stored).map(|()| true)
        }
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) if error.is_conflict() => read(cx).await,
        Err(error) => Err(error.to_string()),
    }
}

/// Goes on with an object as it is stored, and takes it into the store, so that the next look does not see an older
/// state.
///
/// The answer may hold somebody else's change that the watch has not shown yet and, being no longer new, never
/// will: then the application is looked at once more. An application that is gone does not come back.
fn adopt(cx: &mut AppContext<'_>, stored: Arc<Object>) -> Result<(), String> {
    let app = serde_json::from_slice(&stored.raw())
        .map_err(|error| format!("the stored application cannot be read: {error}"))?;
    cx.is_behind |= cx.controller.store.update(Arc::clone(&stored), &app) == Change::Declared;
    cx.controller.look_for_marks();
    (cx.object, cx.app) = (stored, app);
    Ok(())
}

/// Says in the status of an application that it cannot be read: nothing that the status said before is known to
/// hold any more (INV-15). The write needs nothing of the object but its name.
pub(super) async fn tell_unreadable(controller: &Context, key: &AppKey, held: &Held) -> Requeue {
    let settings = &controller.world.load().settings;
    if controller.read_only || !namespace_enabled(settings, &key.namespace, &controller.namespace) {
        return Requeue::Done;
    }
    let at = held.told.get_or_init(|| shown(controller.clock.now()));
    let mut message = format!("the Application cannot be read: {}", held.reason);
    printable::cut(&mut message, fit::TEXT_BYTES_MAX);
    let patch = json!({"status": {
        "sync": {"status": SyncStatusCode::Unknown.as_str()},
        "health": {"status": HealthCode::Unknown.as_str(), "message": null},
        "conditions": [{
            "type": ConditionType::UnknownError.as_str(),
            "message": message,
            "lastTransitionTime": at,
        }],
    }});
    match send(controller, key, &patch).await {
        // The answer is the object, which cannot be read.
        Ok(_) | Err(ApiError::Malformed { .. }) => Requeue::Done,
        Err(error) if error.is_not_found() => {
            controller.store.remove(key);
            Requeue::Done
        }
        Err(error) => {
            tracing::warn!(application = %key, %error, "that the application cannot be read could not be written");
            Requeue::After(TELL_AGAIN)
        }
    }
}

/// Whether an object was refused for its size: by the API server, by etcd, or by the way to it.
fn is_too_large(error: &ApiError) -> bool {
    let text = error.to_string();
    let is_named = ["Request entity too large", "request is too large", "message larger than max"];
    error.code() == 413 || is_named.iter().any(|named| text.contains(named))
}
