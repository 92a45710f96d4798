//! One thing a sync does, what came of it so far, and the ledger of results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::application::ResourceResult;
use tiphys_api::codes::{OperationPhase, ResultCode};
use tiphys_api::names::finalizer;
use tiphys_object::{Gvk, Object, ResourceKey};

use crate::hook::{HookDeletePolicy, SyncPhase, Wave};

/// The mark on hooks: which operation, attempt and phase made them (INV-9).
///
/// The phase is part of it because one hook object may run in several phases of one operation.
pub fn operation_id(started_at: Timestamp, attempt: i64, phase: SyncPhase) -> String {
    format!("{started_at}#{attempt}#{phase}")
}

/// One thing a sync does: apply a target, prune a live object, or run a hook in one phase.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) phase: SyncPhase,
    pub(super) wave: Wave,
    pub(super) gvk: Gvk,
    /// The object; without namespace when it is cluster-scoped.
    pub(super) key: ResourceKey,
    /// Namespace under which results are recorded: the destination's for a target without one (ENG-192).
    pub(super) record_namespace: SmolStr,
    /// What is submitted; hooks are named and marked.
    pub(super) target: Option<Arc<Object>>,
    pub(super) live: Option<Arc<Object>>,
    pub(super) hook: bool,
    pub(super) delete_policies: BTreeSet<HookDeletePolicy>,
    pub(super) skip_dry_run: bool,
    /// Whether target and live differ; true where it was not compared.
    pub(super) modified: bool,
    /// Result code recorded last.
    pub(super) code: Option<ResultCode>,
    /// Operation phase recorded last; `None` while nothing is recorded.
    pub(super) state: Option<OperationPhase>,
    /// Message recorded last.
    pub(super) message: String,
}

impl Task {
    /// Whether the task deletes an object that left the source.
    pub(super) fn is_prune(&self) -> bool {
        self.target.is_none()
    }

    pub(super) fn is_pending(&self) -> bool {
        self.state.is_none()
    }

    pub(super) fn is_running(&self) -> bool {
        self.state.is_some_and(|state| !state.is_completed())
    }

    pub(super) fn is_completed(&self) -> bool {
        self.state.is_some_and(OperationPhase::is_completed)
    }

    /// Whether the task ended without success.
    pub(super) fn is_unsuccessful(&self) -> bool {
        self.is_completed() && self.state != Some(OperationPhase::Succeeded)
    }

    /// Whether the server names the object: then it is created and never found again.
    pub(super) fn is_nameless(&self) -> bool {
        self.key.name.is_empty() && self.target.is_some()
    }

    /// Whether the task was tried and nothing could be submitted: refused, or something stood in its way. A hook
    /// that ran and failed, or vanished, was submitted (ENG-184).
    pub(super) fn could_not_be_applied(&self) -> bool {
        self.is_unsuccessful()
            && match self.code {
                None => true,
                Some(ResultCode::SyncFailed) => self.state == Some(OperationPhase::Failed),
                Some(ResultCode::Synced | ResultCode::Pruned | ResultCode::PruneSkipped) => false,
            }
    }

    /// Whether the live object still carries the hook finalizer.
    pub(super) fn has_live_finalizer(&self) -> bool {
        self.live.as_deref().is_some_and(|live| live.has_finalizer(finalizer::HOOK))
    }

    /// Whether the task is a completed hook whose object is to go with this policy.
    pub(super) fn is_deletable(&self, policy: HookDeletePolicy) -> bool {
        self.hook && self.is_completed() && self.live.is_some() && self.delete_policies.contains(&policy)
    }

    /// The name under which results are recorded; that of an object that the server names is its prefix.
    fn record_name(&self) -> SmolStr {
        match &self.target {
            Some(target) if self.is_nameless() => target.metadata().generate_name.clone(),
            _ => self.key.name.clone(),
        }
    }

    fn result_key(&self) -> (ResourceKey, &'static str) {
        let key = self.key.in_namespace(&self.record_namespace);
        (ResourceKey { name: self.record_name(), ..key }, self.phase.as_str())
    }
}

/// The results of an operation, in order of first recording; one per object and phase (ENG-189).
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    results: Vec<ResourceResult>,
    positions: BTreeMap<(ResourceKey, SmolStr), usize>,
}

impl Ledger {
    pub(super) fn new(results: Vec<ResourceResult>) -> Self {
        let mut positions = BTreeMap::new();
        for (position, result) in results.iter().enumerate() {
            let key = ResourceKey::new(&result.group, &result.kind, &result.namespace, &result.name);
            positions.entry((key, SmolStr::new(&result.sync_phase))).or_insert(position);
        }
        Self { results, positions }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    pub(super) fn results(&self) -> &[ResourceResult] {
        &self.results
    }

    pub(super) fn into_results(self) -> Vec<ResourceResult> {
        self.results
    }

    /// Gives a task the result recorded for it.
    pub(super) fn read_into(&self, task: &mut Task) {
        let (key, phase) = task.result_key();
        let position = self.positions.get(&(key, SmolStr::new_static(phase)));
        if let Some(result) = position.and_then(|position| self.results.get(*position)) {
            task.code = ResultCode::parse(&result.status);
            task.state = OperationPhase::parse(&result.hook_phase);
            task.message.clone_from(&result.message);
        }
    }

    /// Records a result, in the task and here; an empty message keeps the old one (ENG-189).
    pub(super) fn record(
        &mut self,
        task: &mut Task,
        code: Option<ResultCode>,
        state: OperationPhase,
        message: impl Into<String>,
    ) {
        task.code = code;
        task.state = Some(state);
        self.write(task, message.into());
    }

    /// Records why a task never ran: its outcome is a failure, and it has no phase of its own (ENG-190).
    pub(super) fn record_invalid(&mut self, task: &mut Task, message: impl Into<String>) {
        task.code = Some(ResultCode::SyncFailed);
        task.state = None;
        self.write(task, message.into());
    }

    fn write(&mut self, task: &mut Task, message: String) {
        if !message.is_empty() {
            task.message = message;
        }
        let result = result_of(task);
        let (key, phase) = task.result_key();
        let position = *self.positions.entry((key, SmolStr::new_static(phase))).or_insert(self.results.len());
        match self.results.get_mut(position) {
            Some(existing) => {
                let unknown = std::mem::take(&mut existing.unknown);
                *existing = ResourceResult { unknown, ..result };
            }
            None => self.results.push(result),
        }
    }
}

fn result_of(task: &Task) -> ResourceResult {
    let object = task.target.as_deref().or(task.live.as_deref());
    ResourceResult {
        group: task.key.group.to_string(),
        version: task.gvk.version.to_string(),
        kind: task.key.kind.to_string(),
        namespace: task.record_namespace.to_string(),
        name: task.record_name().to_string(),
        status: task.code.map_or("", ResultCode::as_str).to_owned(),
        message: task.message.clone(),
        hook_type: if task.hook { task.phase.as_str().to_owned() } else { String::new() },
        hook_phase: task.state.map_or("", OperationPhase::as_str).to_owned(),
        sync_phase: task.phase.as_str().to_owned(),
        images: object
            .and_then(|object| object.to_value().ok())
            .map(|tree| crate::tree::images(&tree))
            .unwrap_or_default(),
        ..ResourceResult::default()
    }
}
