//! `app patch`, `app rollback`, `app confirm-deletion` (CLI-423, CLI-451, CLI-532).

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::{HistoryEntry, OperationState};
use tiphys_api::codes::OperationPhase;
use tiphys_api::names::annotation;
use tiphys_lifecycle::request;
use tiphys_object::{access, json_patch, merge_patch};

use crate::app::wait::{Limits, until};
use crate::app::waiting::{Goal, Wait};
use crate::app::{Ended, NAMESPACE, OK, Session, TREE_OUTPUT, Work, operation};
use crate::core::{Stored, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{Format, print};

/// Flags of `patch`.
pub(super) const PATCH_FLAGS: &[Flag] = &[
    flag("patch", Kind::Text, "", "The patch"),
    flag("type", Kind::Text, "json", "Type of the patch: json or merge"),
    NAMESPACE,
];

/// Flags of `rollback`.
pub(super) const ROLLBACK_FLAGS: &[Flag] = &[
    flag("prune", Kind::Bool, "false", "Delete what the earlier deployment did not have"),
    flag("timeout", Kind::Uint, "0", "Seconds to wait; 0 waits for ever"),
    TREE_OUTPUT,
    NAMESPACE,
];

/// Flags of `confirm-deletion`.
pub(super) const CONFIRM_FLAGS: &[Flag] = &[NAMESPACE];

/// `app patch`.
pub(super) async fn patch(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    if let Some(server) = core.server() {
        let (patch, kind) = (flags.text("patch"), flags.text("type"));
        let updated = server.patch(&session.only_name(&core), patch, kind).await?;
        session.terminal.data(&print(&updated.value(), Format::Yaml)?);
        return Ok(OK);
    }
    let world = World::load(&core).await?;
    let change = |stored: &Stored| {
        let patched = patched(&value_of(&stored.object)?, flags.text("patch"), flags.text("type"))?;
        let app: Application = serde_json::from_value(patched.clone())
            .map_err(|error| Failure::status("InvalidArgument", error))?;
        world.check(&app)?;
        Ok(Some(patched))
    };
    let updated = core.change(&session.only_name(&core), change).await?;
    session.terminal.data(&print(&updated.value(), Format::Yaml)?);
    Ok(OK)
}

/// The application with the patch applied. Identity, status and operation stay as they are.
fn patched(stored: &Value, text: &str, kind: &str) -> Result<Value, Failure> {
    let invalid = |why: &str| Failure::status("InvalidArgument", format!("the patch is not valid: {why}"));
    let patch: Value = serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
    let mut result = match kind {
        "json" => json_patch::apply(stored.clone(), &patch).map_err(|error| invalid(&error.to_string()))?,
        "merge" => merge_patch::apply(stored.clone(), &patch),
        other => {
            return Err(Failure::status("InvalidArgument", format!("Patch type '{other}' is not supported")));
        }
    };
    let members = access::ensure_object(&mut result);
    for kept in ["status", "operation"] {
        match stored.get(kept) {
            Some(value) => members.insert(kept.to_owned(), value.clone()),
            None => members.remove(kept),
        };
    }
    let metadata = access::metadata_mut(&mut result);
    for kept in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = access::at(stored, &["metadata", kept]) {
            metadata.insert(kept.to_owned(), value.clone());
        }
    }
    Ok(result)
}

/// `app rollback`.
pub(super) async fn rollback(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let id = match flags.operands.get(1) {
        None => None,
        Some(text) => Some(text.parse::<i64>().map_err(|_invalid| {
            Failure::generic(format!("strconv.Atoi: parsing \"{text}\": invalid syntax"))
        })?),
    };
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let stored = core.application(&name).await?;
    let chosen = find_entry(&stored.app, id)?.id;
    let world = World::load(&core).await?;
    let prune = flags.is_on("prune");
    if let Some(server) = core.server() {
        server.rollback(&name, chosen, prune).await?;
    } else {
        core.start_operation(&name, |app| rollback_operation(app, find_entry(app, id)?, prune)).await?;
    }
    let mut wait = Wait::new(Goal { operation: true, ..Goal::default() });
    wait.saw_operation = true;
    let limits = Limits::of(session, &name);
    let work = Work { session, core: &core, world: &world };
    let awaited = Box::pin(until(work, wait, &limits)).await?;
    judge(awaited.operation_state.as_deref())
}

/// The entry an id names; without one the last but one (CLI-451).
fn find_entry(app: &Application, id: Option<i64>) -> Result<&HistoryEntry, Failure> {
    let (history, name) = (&app.status.history, &app.metadata.name);
    match id {
        None => history.iter().rev().nth(1).ok_or_else(|| {
            Failure::generic(format!("application '{name}' should have at least two successful deployments"))
        }),
        Some(id) => history.iter().find(|entry| entry.id == id).ok_or_else(|| {
            Failure::generic(format!("application '{name}' does not have deployment id '{id}' in history"))
        }),
    }
}

/// A sync to what a history entry recorded (CTL-55).
fn rollback_operation(app: &Application, entry: &HistoryEntry, prune: bool) -> Result<Value, Failure> {
    operation::written(request::rollback_operation(app, entry, prune))
}

fn judge(state: Option<&OperationState>) -> Result<Ended, Failure> {
    match state {
        Some(state) if state.phase != OperationPhase::Succeeded => {
            Err(Failure::fatal(format!("Operation has completed with phase: {}", state.phase)))
        }
        _ => Ok(OK),
    }
}

/// `app confirm-deletion`.
pub(super) async fn confirm_deletion(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let now =
        tiphys_go::time::format(tiphys_go::time::RFC_3339, session.terminal.now(), &jiff::tz::TimeZone::UTC);
    core.patch(&name, &json!({"metadata": {"annotations": {annotation::DELETION_APPROVED: now}}})).await?;
    session.terminal.line(&format!("Application '{}' updated successfully", name.name));
    Ok(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> Application {
        serde_json::from_value(
            json!({"metadata": {"name": "a"}, "spec": {"destination": {}}, "status": {"history": [
            {"id": 3, "revision": "r3", "source": {"repoURL": "u", "path": "p"}},
            {"id": 4, "revision": "r4", "source": {"repoURL": "u", "path": "q"}}]}}),
        )
        .unwrap()
    }

    #[test]
    fn cli_451_the_entry_to_roll_back_to() {
        let app = app();
        assert_eq!(find_entry(&app, None).unwrap().id, 3);
        assert_eq!(find_entry(&app, Some(4)).unwrap().revision, "r4");
        let failure = find_entry(&app, Some(9)).unwrap_err();
        assert_eq!(failure.message, "application 'a' does not have deployment id '9' in history");
        let fresh = Application { status: tiphys_api::application::ApplicationStatus::default(), ..app };
        let failure = find_entry(&fresh, None).unwrap_err();
        assert_eq!(failure.message, "application 'a' should have at least two successful deployments");
    }

    #[test]
    fn ctl_55_a_rollback_is_a_sync_to_what_was_recorded() {
        let mut app = app();
        let entry = app.status.history[0].clone();
        let operation = rollback_operation(&app, &entry, true).unwrap();
        assert_eq!(
            operation["sync"],
            json!({"revision": "r3", "prune": true, "source": {"repoURL": "u", "path": "p"}})
        );
        app.spec.sync_policy = serde_json::from_value(json!({"automated": {}})).unwrap();
        let failure = rollback_operation(&app, &entry, true).unwrap_err();
        assert!(failure.message.ends_with("rollback cannot be initiated when auto-sync is enabled"));
    }

    #[test]
    fn cli_423_patches_change_neither_identity_nor_status() {
        let stored = json!({"metadata": {"name": "a", "uid": "1"}, "spec": {"x": 1}, "status": {"s": 1}});
        let merged = patched(
            &stored,
            r#"{"metadata": {"name": "b", "labels": {"l": "1"}}, "spec": {"x": 2}, "status": null, "operation": {}}"#,
            "merge",
        )
        .unwrap();
        assert_eq!(
            merged,
            json!({"metadata": {"name": "a", "uid": "1", "labels": {"l": "1"}}, "spec": {"x": 2}, "status": {"s": 1}})
        );
        let text = r#"[{"op": "replace", "path": "/spec/x", "value": 3}]"#;
        assert_eq!(patched(&stored, text, "json").unwrap()["spec"]["x"], 3);
        assert_eq!(patched(&stored, "{", "json").unwrap_err().code, 20);
    }
}
