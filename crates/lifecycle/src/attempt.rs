//! What an operation is about and what an attempt of it made: its sources, its revisions, its first state (CTL-44,
//! CTL-47, INV-2).

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use tiphys_api::Application;
use tiphys_api::application::{
    ApplicationSource, Operation, OperationState, ResourceStatus, SyncOperation, SyncResult,
};
use tiphys_api::codes::{OperationPhase, ResultCode, SyncStatusCode};
use tiphys_object::ResourceKey;

use crate::operation::shown;

/// The state of an operation that begins with these revisions.
pub fn begin(
    app: &Application,
    operation: &Operation,
    revisions: &[String],
    now: Timestamp,
) -> OperationState {
    OperationState {
        operation: operation.clone(),
        phase: OperationPhase::Running.into(),
        started_at: start_time(app, now),
        sync_result: Some(result_of(app, operation, revisions)),
        ..OperationState::default()
    }
}

/// The start of an operation in whole seconds, never that of the one before: it marks the hooks (INV-9).
pub fn start_time(app: &Application, now: Timestamp) -> String {
    let text = shown(now);
    let taken = app.status.operation_state.as_ref().is_some_and(|state| state.started_at == text);
    if taken { shown(now.checked_add(SignedDuration::from_secs(1)).unwrap_or(now)) } else { text }
}

/// Whether the operation is automatic, waits for a retry, and is about other revisions than the newest.
pub fn is_outdated_retry(app: &Application, revisions: &[String]) -> bool {
    let Some(operation) = app.operation.as_ref().filter(|operation| operation.initiated_by.automated) else {
        return false;
    };
    let Some(state) = app.status.operation_state.as_ref() else { return false };
    let waits = state.phase == OperationPhase::Running && state.finished_at.is_some();
    let sync = operation.sync.as_ref();
    let own = sync.map(|sync| {
        if sync.revisions.is_empty() { vec![sync.revision.clone()] } else { sync.revisions.clone() }
    });
    waits && own.is_some_and(|own| own != revisions && !own.iter().any(String::is_empty))
}

/// The first result of an operation: what it is about, before anything is done (INV-2).
pub fn result_of(app: &Application, operation: &Operation, revisions: &[String]) -> SyncResult {
    let (sources, multi) = sources_of(app, operation);
    let policy = app.spec.sync_policy.as_ref();
    SyncResult {
        revision: if multi { String::new() } else { revisions.first().cloned().unwrap_or_default() },
        revisions: if multi { revisions.to_vec() } else { Vec::new() },
        source: if multi { None } else { sources.first().cloned() },
        sources: if multi { sources } else { Vec::new() },
        managed_namespace_metadata: policy.and_then(|policy| policy.managed_namespace_metadata.clone()),
        ..SyncResult::default()
    }
}

/// Whether an operation says to which revision, instead of the newest one.
pub fn names_revision(sync: &SyncOperation) -> bool {
    !sync.revision.is_empty() || !sync.revisions.is_empty()
}

/// The sources of an operation: its own, else those of the spec (CTL-47); and whether there are several.
pub fn sources_of(app: &Application, operation: &Operation) -> (Vec<ApplicationSource>, bool) {
    let sync = operation.sync.as_ref();
    match sync {
        Some(sync) if !sync.sources.is_empty() => (sync.sources.clone(), true),
        Some(SyncOperation { source: Some(source), .. }) => (vec![source.clone()], false),
        _ => (app.sources().to_vec(), app.is_multi_source()),
    }
}

/// The sources that an operation deployed: those of its result, with the options that the stored result has no room
/// for (CTL-36).
pub fn deployed_sources(app: &Application, state: &OperationState) -> Vec<ApplicationSource> {
    let Some(result) = &state.sync_result else { return Vec::new() };
    let recorded = if result.sources.is_empty() { result.source.as_slice() } else { &result.sources };
    let (whole, _) = sources_of(app, app.operation.as_deref().unwrap_or(&state.operation));
    let with_options = |recorded: &ApplicationSource| {
        let source = whole.iter().find(|source| recorded.is_copy_of(source));
        source.unwrap_or(recorded).clone()
    };
    recorded.iter().map(with_options).collect()
}

/// Revisions the operation is bound to: recorded ones, else its own; empty asks for the newest.
pub fn wanted_revisions(sync: &SyncOperation, multi: bool, recorded: Option<&SyncResult>) -> Vec<String> {
    if let Some(result) = recorded {
        let revisions = if multi { result.revisions.clone() } else { vec![result.revision.clone()] };
        if revisions.iter().any(|revision| !revision.is_empty()) {
            return revisions;
        }
    }
    if multi {
        sync.revisions.clone()
    } else if sync.revision.is_empty() {
        Vec::new()
    } else {
        vec![sync.revision.clone()]
    }
}

/// The revisions that a sync was to, one per source.
pub fn synced_revisions(result: &SyncResult) -> impl Iterator<Item = &String> {
    let single = result.sources.is_empty().then_some(&result.revision);
    let several = if result.sources.is_empty() { &[][..] } else { &result.revisions };
    single.into_iter().chain(several)
}

/// The application as a retry begins: results begin anew, on the same commit or, with `refresh`, on the newest ones
/// (CTL-49).
pub fn retried(app: &Application, message: String, refresh: bool) -> Application {
    let mut new = app.clone();
    remember_synced(&mut new);
    let Some(state) = new.status.operation_state.as_mut() else { return new };
    state.finished_at = None;
    state.message = message;
    let result = state.sync_result.take();
    if refresh {
        // The attempt looks for the newest commits, also where the operation named one.
        let operations = [Some(&mut state.operation), new.operation.as_deref_mut()];
        for sync in operations.into_iter().flatten().filter_map(|operation| operation.sync.as_mut()) {
            sync.revision.clear();
            sync.revisions.clear();
        }
    } else {
        // The attempt stays on its commit.
        state.sync_result = result.map(|result| SyncResult { resources: Vec::new(), ..result });
    }
    new
}

/// Notes in `status.resources` what an attempt may have made, before its results go: a later comparison that cannot
/// list a kind, and the cascade, ask for what is noted there (INV-17). A dry run made nothing.
pub fn remember_synced(app: &mut Application) {
    let noted = synced_only(app);
    app.status.resources.extend(noted);
}

/// What the last attempt may have made and the last comparison does not name: a late watch had not shown it, or it is
/// not wanted any more.
pub fn synced_only(app: &Application) -> Vec<ResourceStatus> {
    let Some(state) = app.status.operation_state.as_ref() else { return Vec::new() };
    if state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run) {
        return Vec::new();
    }
    let Some(result) = state.sync_result.as_ref() else { return Vec::new() };
    let known: HashSet<ResourceKey> = app
        .status
        .resources
        .iter()
        .map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name))
        .collect();
    result
        .resources
        .iter()
        .filter(|r| r.status != ResultCode::Pruned)
        .filter(|r| {
            let key = ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name);
            // Results name the destination namespace also for what is cluster-scoped.
            !known.contains(&key) && !known.contains(&key.in_namespace(""))
        })
        .map(|r| ResourceStatus {
            group: r.group.clone(),
            version: r.version.clone(),
            kind: r.kind.clone(),
            namespace: r.namespace.clone(),
            name: r.name.clone(),
            // Hooks have no status. One that its policy has deleted since is forgotten by the next comparison.
            status: if r.hook_type.is_empty() { SyncStatusCode::Unknown.into() } else { String::new() },
            hook: !r.hook_type.is_empty(),
            ..ResourceStatus::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::operated as app;
    use serde_json::json;

    /// INV-17: what the results of an attempt alone know is noted before they go; what was pruned is not.
    #[test]
    fn inv_17_what_an_attempt_made_is_noted_once() {
        let result = |name: &str, status: &str| {
            json!({"group": "", "version": "v1", "kind": "ConfigMap",
            "namespace": "n", "name": name, "status": status})
        };
        let mut app = app(
            &json!({"sync": {}}),
            &json!({"operation": {"sync": {}}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z",
                "syncResult": {"revision": "1", "resources": [result("a", "Synced"), result("b", "Pruned"),
                    {"group": "batch", "version": "v1", "kind": "Job", "namespace": "n", "name": "h",
                        "status": "Synced", "hookType": "Sync", "hookPhase": "Succeeded"}]}}),
        );
        remember_synced(&mut app);
        remember_synced(&mut app);
        let noted: Vec<_> = app.status.resources.iter().map(|r| (&*r.name, &*r.status, r.hook)).collect();
        assert_eq!(noted, [("a", "Unknown", false), ("h", "", true)]);
    }

    #[test]
    fn inv_17_a_dry_run_made_nothing_and_cluster_scoped_resources_are_noted_once() {
        let state = |dry_run: bool, kind: &str| {
            json!({"operation": {"sync": {"dryRun": dry_run}}, "phase": "Running",
                "startedAt": "2026-01-01T00:00:00Z", "syncResult": {"revision": "1", "resources": [
                    {"group": "", "version": "v1", "kind": kind, "namespace": "n", "name": "a", "status": "Synced"}]}})
        };
        let mut dry = app(&json!({"sync": {"dryRun": true}}), &state(true, "ConfigMap"));
        remember_synced(&mut dry);
        assert!(dry.status.resources.is_empty(), "{:?}", dry.status.resources);

        let mut known = app(&json!({"sync": {}}), &state(false, "Namespace"));
        known.status.resources.push(ResourceStatus {
            version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            name: "a".to_owned(),
            status: "Synced".to_owned(),
            ..ResourceStatus::default()
        });
        remember_synced(&mut known);
        assert_eq!(known.status.resources.len(), 1, "{:?}", known.status.resources);
    }
}
