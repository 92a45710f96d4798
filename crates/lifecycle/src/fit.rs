//! Fits a status into the room that the rest of its Application leaves (CTL-36).
//!
//! Every part has a bound of its own: texts end at 8 KiB, copies of sources and of the operation at 64 KiB, the history
//! at 256 KiB; larger options are replaced by a digest (`ApplicationSource::abridged`), in the oldest entries of the
//! history first. What is still too large is shortened in this order:
//! 1. results of the last operation that only say that it succeeded,
//! 2. options in all copies of sources,
//! 3. texts, to 256 bytes,
//! 4. the history, to 32 KiB,
//! 5. resources that are in sync, then others,
//! 6. results of hooks and failures.
//!
//! If that does not help, a minimal status takes its place, which claims to know nothing (INV-15).

use serde::Serialize;
use tiphys_api::application::{
    ApplicationSource, ApplicationStatus, ComparedTo, Condition, HistoryEntry, Operation, OperationState,
    ResourceResult, ResourceStatus, SyncOperation, SyncResult, SyncStatus,
};
use tiphys_api::codes::{ConditionType, OperationPhase, ResultCode, SyncStatusCode};
use tiphys_api::{Application, printable};

use crate::refresh_status::unknown_health;

/// Bytes of status that one Application may have, where the rest of it is small (B7: below 1 MB with 10,000 resources).
pub const STATUS_BYTES_MAX: usize = 900_000;
/// Bytes of a whole Application without its managed fields; etcd takes 1.5 MiB with them.
pub const OBJECT_BYTES_MAX: usize = 1_500_000;
/// Bytes of a text for people.
pub const TEXT_BYTES_MAX: usize = 8 << 10;
/// Conditions of one type.
pub const CONDITIONS_MAX: usize = 100;
/// Bytes of the sources of one copy, and of the copy of an operation.
pub const COPY_BYTES_MAX: usize = 64 << 10;
/// Bytes of the history.
const HISTORY_BYTES_MAX: usize = 256 << 10;
/// Bytes of the history when the status is too large.
const SHORT_HISTORY_BYTES_MAX: usize = 32 << 10;
/// Bytes of a text when the status is too large.
const SHORT_TEXT_BYTES_MAX: usize = 256;
/// Bytes of the images, and of the URLs, of an application.
const LIST_BYTES_MAX: usize = 64 << 10;
/// Entries of a list of an operation when its copy is too large.
const COPIED_ENTRIES_MAX: usize = 100;
/// Bytes that the condition about a shortened status takes.
const NOTE_BYTES: usize = 512;
/// Text of that condition.
const SHORTENED: &str = "the status is too large: some resources, results, options, history entries or texts are left \
                         out of it; manage fewer resources with this application, move inline values to a \
                         repository, or lower spec.revisionHistoryLimit";
/// Text of the condition of a minimal status.
const UNSTORABLE: &str = "the status of this application is too large to be stored beside its spec, so nothing is shown \
                          of it; move inline values to a repository, remove large annotations, or split the application";

/// How a status was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitted {
    /// It has all of its entries; texts and options of copies may be shortened.
    Whole,
    /// Entries are left out.
    Shortened,
    /// A minimal status took its place.
    Minimal,
}

/// Bytes of an application without its status.
pub fn rest_bytes(app: &Application) -> usize {
    json_bytes(&app.metadata) + json_bytes(&app.spec) + json_bytes(&app.operation)
}

/// Room for a status beside this many other bytes.
pub fn room(rest_bytes: usize) -> usize {
    OBJECT_BYTES_MAX.saturating_sub(rest_bytes).min(STATUS_BYTES_MAX)
}

/// Fits the status of an application into this room, and says in a condition that something is missing. `old` is the
/// stored application, whose condition keeps its time.
pub fn fit(old: &Application, new: &mut Application, room: usize, now: &str) -> Fitted {
    let fitted = fit_status(&mut new.status, room);
    let (kind, text) = match fitted {
        Fitted::Whole => return fitted,
        Fitted::Shortened => (ConditionType::ExcludedResourceWarning, SHORTENED),
        Fitted::Minimal => (ConditionType::UnknownError, UNSTORABLE),
    };
    let is_same = |known: &&Condition| known.r#type == kind && known.message == text;
    let known = old.status.conditions.iter().find(is_same).cloned();
    let noted = known.unwrap_or_else(|| Condition {
        last_transition_time: Some(now.to_owned()),
        ..Condition::new(kind, text)
    });
    let conditions = &mut new.status.conditions;
    conditions.retain(|known| known.r#type != noted.r#type || known.message != noted.message);
    conditions.push(noted);
    conditions.sort_by(|a, b| (&a.r#type, &a.message).cmp(&(&b.r#type, &b.message)));
    fitted
}

/// Fits a status into this room.
pub fn fit_status(status: &mut ApplicationStatus, room: usize) -> Fitted {
    bound_parts(status);
    if json_bytes(status) <= room {
        return Fitted::Whole;
    }
    let room = room.saturating_sub(NOTE_BYTES);
    let steps: [fn(&mut ApplicationStatus, usize); 6] =
        [drop_successes, drop_options, shorten_texts, shorten_history, drop_resources, drop_results];
    for step in steps {
        step(status, room);
        if json_bytes(status) <= room {
            return Fitted::Shortened;
        }
    }
    *status = minimal(status);
    Fitted::Minimal
}

/// Whether two lists of results say the same, whatever a stored status had room for.
pub fn are_same_results(stored: &[ResourceResult], new: &[ResourceResult]) -> bool {
    let short = |result: &ResourceResult| {
        let mut result = result.clone();
        printable::cut(&mut result.message, SHORT_TEXT_BYTES_MAX);
        result
    };
    stored == new || (stored.len() == new.len() && stored.iter().map(short).eq(new.iter().map(short)))
}

/// Bytes of a value as JSON.
pub fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

/// Bounds each part of a status by itself.
fn bound_parts(status: &mut ApplicationStatus) {
    cut_texts(status, TEXT_BYTES_MAX);
    let ComparedTo { source, sources, .. } = &mut status.sync.compared_to;
    bound_sources(source, sources);
    if let Some(state) = status.operation_state.as_mut() {
        bound_operation(&mut state.operation);
        if let Some(SyncResult { source, sources, .. }) = &mut state.sync_result {
            bound_sources(source, sources);
        }
    }
    bound_history(&mut status.history, HISTORY_BYTES_MAX);
    bound_list(&mut status.summary.images);
    bound_list(&mut status.summary.external_urls);
}

/// All texts for people.
fn cut_texts(status: &mut ApplicationStatus, bytes_max: usize) {
    let conditions = status.conditions.iter_mut().map(|condition| &mut condition.message);
    let resources = status.resources.iter_mut().filter_map(|resource| resource.health.as_mut());
    let health = resources.chain([&mut status.health]).map(|health| &mut health.message);
    let state = status.operation_state.as_deref_mut();
    let operation = state.into_iter().flat_map(|state| {
        let results = state.sync_result.iter_mut().flat_map(|result| &mut result.resources);
        results.map(|result| &mut result.message).chain([&mut state.message])
    });
    for text in conditions.chain(health).chain(operation) {
        printable::cut(text, bytes_max);
    }
}

/// Replaces large options in sources that are too large together.
fn bound_sources(source: &mut Option<ApplicationSource>, sources: &mut Vec<ApplicationSource>) {
    if json_bytes(source) + json_bytes(sources) > COPY_BYTES_MAX {
        abridge(source, sources);
    }
}

fn abridge(source: &mut Option<ApplicationSource>, sources: &mut [ApplicationSource]) {
    for source in source.iter_mut().chain(sources) {
        *source = source.abridged();
    }
}

/// The copy of an operation in its state; what is carried out is `.operation` itself.
fn bound_operation(operation: &mut Operation) {
    if json_bytes(operation) <= COPY_BYTES_MAX {
        return;
    }
    if let Some(sync) = &mut operation.sync {
        abridge(&mut sync.source, &mut sync.sources);
        sync.resources.truncate(COPIED_ENTRIES_MAX);
        if json_bytes(&sync.manifests) > COPY_BYTES_MAX / 2 {
            // Not empty: whether the sync was of local manifests is still to be seen.
            sync.manifests = vec![tiphys_api::application::OMITTED.to_owned()];
        }
    }
    operation.info.truncate(COPIED_ENTRIES_MAX);
    if json_bytes(operation) > COPY_BYTES_MAX {
        *operation = essential(operation);
    }
}

/// What decisions read of the copy of an operation.
fn essential(operation: &Operation) -> Operation {
    let sync = operation.sync.as_ref().map(|sync| SyncOperation {
        revision: short(&sync.revision),
        revisions: sync.revisions.iter().take(COPIED_ENTRIES_MAX).map(|text| short(text)).collect(),
        prune: sync.prune,
        dry_run: sync.dry_run,
        sync_strategy: sync.sync_strategy.clone(),
        resources: sync.resources.iter().take(1).cloned().collect(),
        manifests: sync.manifests.iter().take(1).map(|text| short(text)).collect(),
        auto_heal_attempts_count: sync.auto_heal_attempts_count,
        ..SyncOperation::default()
    });
    let mut initiated_by = operation.initiated_by.clone();
    initiated_by.unknown.clear();
    printable::cut(&mut initiated_by.username, SHORT_TEXT_BYTES_MAX);
    Operation { sync, initiated_by, ..Operation::default() }
}

fn short(text: &str) -> String {
    let mut text = text.to_owned();
    printable::cut(&mut text, SHORT_TEXT_BYTES_MAX);
    text
}

/// Entries that do not fit lose their options, the oldest first; then the oldest go.
fn bound_history(history: &mut Vec<HistoryEntry>, bytes_max: usize) {
    let mut left = bytes_max;
    let mut kept = 0;
    for entry in history.iter_mut().rev() {
        if json_bytes(entry) > left {
            abridge(&mut entry.source, &mut entry.sources);
        }
        let Some(rest) = left.checked_sub(json_bytes(entry)) else { break };
        left = rest;
        kept += 1;
    }
    history.drain(..history.len() - kept);
}

/// The first texts that fit.
fn bound_list(texts: &mut Vec<String>) {
    let mut left = LIST_BYTES_MAX;
    texts.retain(|text| match left.checked_sub(text.len() + 3) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
}

/// While an operation runs, all of its results are in the controller's memory; after a restart what is dropped here is
/// done once more.
fn drop_successes(status: &mut ApplicationStatus, _room: usize) {
    let Some(result) = status.operation_state.as_mut().and_then(|state| state.sync_result.as_mut()) else {
        return;
    };
    result.resources.retain(|result| {
        let is_done =
            matches!(ResultCode::parse(&result.status), Some(ResultCode::Synced | ResultCode::Pruned));
        let phase = OperationPhase::parse(&result.hook_phase);
        let is_well = matches!(phase, Some(OperationPhase::Succeeded | OperationPhase::Running));
        let is_as_wanted = is_done && is_well;
        !result.hook_type.is_empty() || !is_as_wanted
    });
}

fn drop_options(status: &mut ApplicationStatus, _room: usize) {
    let ComparedTo { source, sources, .. } = &mut status.sync.compared_to;
    abridge(source, sources);
    for entry in &mut status.history {
        abridge(&mut entry.source, &mut entry.sources);
    }
    if let Some(state) = status.operation_state.as_mut() {
        if let Some(SyncResult { source, sources, .. }) = &mut state.sync_result {
            abridge(source, sources);
        }
        if let Some(SyncOperation { source, sources, .. }) = &mut state.operation.sync {
            abridge(source, sources);
        }
    }
}

fn shorten_texts(status: &mut ApplicationStatus, _room: usize) {
    cut_texts(status, SHORT_TEXT_BYTES_MAX);
}

fn shorten_history(status: &mut ApplicationStatus, _room: usize) {
    bound_history(&mut status.history, SHORT_HISTORY_BYTES_MAX);
}

/// Keeps the resources that fit, those first that are not in sync.
fn drop_resources(status: &mut ApplicationStatus, room: usize) {
    let all = std::mem::take(&mut status.resources);
    let mut left = room.saturating_sub(json_bytes(status));
    let is_telling = |r: &ResourceStatus| r.status != SyncStatusCode::Synced || r.requires_pruning || r.hook;
    let (telling, quiet): (Vec<_>, Vec<_>) = all.into_iter().partition(is_telling);
    for resource in telling.into_iter().chain(quiet) {
        let Some(rest) = left.checked_sub(json_bytes(&resource) + 1) else { break };
        left = rest;
        status.resources.push(resource);
    }
    // The name of the list.
    let surplus = usize::from(left < 16);
    status.resources.truncate(status.resources.len().saturating_sub(surplus));
    status.resources.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key(r: &ResourceStatus) -> (&str, &str, &str, &str) {
    (&r.group, &r.kind, &r.namespace, &r.name)
}

/// Keeps the results that fit, hooks first: a hook without its result would run again (INV-9).
fn drop_results(status: &mut ApplicationStatus, room: usize) {
    let result = |status: &mut ApplicationStatus| {
        let state = status.operation_state.as_mut()?;
        state.sync_result.as_mut().map(|result| std::mem::take(&mut result.resources))
    };
    let Some(all) = result(status) else { return };
    let mut left = room.saturating_sub(json_bytes(status) + 16);
    let (hooks, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|result| !result.hook_type.is_empty());
    let mut kept = Vec::new();
    for result in hooks.into_iter().chain(others) {
        let Some(rest) = left.checked_sub(json_bytes(&result) + 1) else { break };
        left = rest;
        kept.push(result);
    }
    if let Some(result) = status.operation_state.as_mut().and_then(|state| state.sync_result.as_mut()) {
        result.resources = kept;
    }
}

/// A status that says that nothing is known. Of a running operation it keeps what the next step needs.
fn minimal(status: &ApplicationStatus) -> ApplicationStatus {
    let abridged = |source: &ApplicationSource| source.abridged();
    let compared = &status.sync.compared_to;
    let state = status.operation_state.as_ref().map(|state| {
        let result = state.sync_result.as_ref().map(|result| SyncResult {
            revision: short(&result.revision),
            revisions: result.revisions.iter().map(|text| short(text)).collect(),
            source: result.source.as_ref().map(abridged),
            sources: result.sources.iter().map(abridged).collect(),
            ..SyncResult::default()
        });
        Box::new(OperationState {
            operation: essential(&state.operation),
            phase: state.phase.clone(),
            message: short(&state.message),
            sync_result: result,
            started_at: state.started_at.clone(),
            finished_at: state.finished_at.clone(),
            retry_count: state.retry_count,
            ..OperationState::default()
        })
    });
    ApplicationStatus {
        sync: SyncStatus {
            status: SyncStatusCode::Unknown.into(),
            compared_to: ComparedTo {
                source: compared.source.as_ref().map(abridged),
                sources: compared.sources.iter().map(abridged).collect(),
                destination: Some(&compared.destination)
                    .filter(|destination| json_bytes(destination) <= TEXT_BYTES_MAX)
                    .cloned()
                    .unwrap_or_default(),
                ..ComparedTo::default()
            },
            ..SyncStatus::default()
        },
        health: unknown_health(),
        reconciled_at: status.reconciled_at.clone(),
        operation_state: state,
        controller_namespace: status.controller_namespace.clone(),
        ..ApplicationStatus::default()
    }
}

#[cfg(test)]
mod tests;
