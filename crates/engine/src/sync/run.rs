//! Executes tasks of one phase and wave, or all of them as a dry run (ENG-172..176).
//!
//! A run asks for groups of actions and records what came of them. Its parts, in order: finalizers of hooks left
//! over from an earlier sync, prunes, deletion of hooks that are to be created anew, and applies, one group per
//! stretch of equal kinds. A failure or a wait in one of the first three parts stops before the last.

use std::collections::VecDeque;

use tiphys_api::codes::ResultCode;
use tiphys_object::Object;

use super::action::{Action, Op, OperationPhase, Outcome};
use super::facts::SyncFacts;
use super::message;
use super::options::{Options, PruneRule, object_has};
use super::order;
use super::task::{Ledger, Task};
use crate::hook::HookDeletePolicy;

/// Everything a pass holds: facts, tasks and results.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) facts: SyncFacts,
    pub(super) options: Options,
    pub(super) tasks: Vec<Task>,
    pub(super) ledger: Ledger,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    Successful,
    /// These prunes lack their confirmation (ENG-173).
    AwaitsConfirmation(Vec<usize>),
    /// These hooks were deleted and are to be created when they are gone.
    AwaitsDeletion(Vec<usize>),
    Failed,
}

/// What a run wants next.
pub(super) enum Progress {
    Do(Vec<Action>),
    Done(RunState),
}

#[derive(Debug)]
enum Part {
    Begin,
    Finalizers(Vec<usize>),
    Prunes(Vec<usize>),
    Deletes(Vec<usize>),
    Applies(Vec<usize>),
}

/// One execution of some tasks.
#[derive(Debug)]
pub(super) struct Run {
    ids: Vec<usize>,
    is_dry: bool,
    part: Part,
    groups: VecDeque<Vec<usize>>,
    has_failed: bool,
}

impl Board {
    pub(super) fn task(&self, id: usize) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// Ids of the tasks that fulfil a condition, in order.
    pub(super) fn select(&self, condition: impl Fn(&Task) -> bool) -> Vec<usize> {
        self.tasks.iter().enumerate().filter(|(_, task)| condition(task)).map(|(id, _)| id).collect()
    }

    pub(super) fn all(&self, ids: &[usize]) -> Vec<&Task> {
        ids.iter().filter_map(|id| self.tasks.get(*id)).collect()
    }

    /// Records a result for a task.
    pub(super) fn record(
        &mut self,
        id: usize,
        code: Option<ResultCode>,
        state: OperationPhase,
        message: impl Into<String>,
    ) {
        if let Some(task) = self.tasks.get_mut(id) {
            self.ledger.record(task, code, state, message);
        }
    }

    /// Records a state and message, keeping the code.
    pub(super) fn record_state(&mut self, id: usize, state: OperationPhase, message: impl Into<String>) {
        let code = self.tasks.get(id).and_then(|task| task.code);
        self.record(id, code, state, message);
    }

    /// Ids in the order of their keys, one per object.
    pub(super) fn by_object(&self, mut ids: Vec<usize>) -> Vec<usize> {
        ids.sort_by(|a, b| self.task(*a).map(|task| &task.key).cmp(&self.task(*b).map(|task| &task.key)));
        ids.dedup_by(|a, b| self.task(*a).map(|task| &task.key) == self.task(*b).map(|task| &task.key));
        ids
    }

    /// Actions of one kind, one per task.
    pub(super) fn actions(&self, op: Op, ids: &[usize]) -> Vec<Action> {
        self.all(ids).into_iter().map(|task| self.action(op, task)).collect()
    }

    fn action(&self, op: Op, task: &Task) -> Action {
        Action {
            op,
            key: task.key.clone(),
            gvk: task.gvk.clone(),
            manifest: None,
            live: task.live.clone(),
            phase: task.phase,
            wave: task.wave,
            replaces: false,
            force: false,
            validate: true,
            propagation: (op == Op::Prune).then(|| self.options.propagation()),
            migrate_from: None,
            dry_run: self.facts.operation.dry_run,
        }
    }

    /// The action that applies a task's target (ENG-175).
    fn apply_action(&self, task: &Task, is_dry: bool) -> Action {
        let target = task.target.as_deref();
        let live = task.live.as_deref();
        let either_has = |option: &str| object_has(target, option) || object_has(live, option);
        let replaces = self.options.has("Replace=true") || either_has("Replace=true");
        let forces = self.strategy_forces() || either_has("Force=true");
        let is_server_side = !object_has(target, "ServerSideApply=false")
            && self.options.has_for("ServerSideApply=true", target);
        let op = match (is_dry, replaces, live) {
            (true, _, _) => Op::DryRun,
            (false, true, Some(_)) if target.is_some_and(updates_in_place) => Op::Update,
            (false, true, Some(_)) => Op::Replace,
            (false, true, None) => Op::Create,
            (false, false, _) if is_server_side => Op::ServerSideApply,
            (false, false, _) => Op::Apply,
        };
        let migrates = op == Op::ServerSideApply
            && live.is_some()
            && !self.options.has("ClientSideApplyMigration=false");
        let manager =
            || self.facts.migration_manager.clone().unwrap_or_else(|| "kubectl-client-side-apply".into());
        Action {
            manifest: task.target.clone(),
            replaces,
            force: forces && matches!(op, Op::Apply | Op::Replace),
            validate: op == Op::Update || !self.options.has_for("Validate=false", target),
            migrate_from: migrates.then(manager),
            ..self.action(op, task)
        }
    }

    fn strategy_forces(&self) -> bool {
        self.facts.operation.sync_strategy.as_ref().is_some_and(|strategy| {
            strategy.apply.as_ref().is_some_and(|apply| apply.force)
                || strategy.hook.as_ref().is_some_and(|hook| hook.force)
        })
    }

    fn is_prune_confirmed(&self) -> bool {
        self.facts.deletion_approved.is_some_and(|approved| approved >= self.facts.started_at)
    }

    /// Text of a failed call, with hints.
    pub(super) fn failure(&self, id: usize, text: &str) -> String {
        self.task(id).map_or_else(|| text.to_owned(), |task| message::explain(text, &task.gvk, None))
    }
}

/// CRDs and Namespaces are never deleted to be replaced.
fn updates_in_place(target: &Object) -> bool {
    order::is_crd(target) || (target.gvk().group.is_empty() && target.gvk().kind == "Namespace")
}

impl Run {
    /// A run for real; in a dry-run operation nothing is real.
    pub(super) fn real(board: &Board, ids: Vec<usize>) -> Self {
        Self::new(ids, board.facts.operation.dry_run)
    }

    /// A dry run.
    pub(super) fn dry(ids: Vec<usize>) -> Self {
        Self::new(ids, true)
    }

    fn new(ids: Vec<usize>, is_dry: bool) -> Self {
        Self { ids, is_dry, part: Part::Begin, groups: VecDeque::new(), has_failed: false }
    }

    /// Takes the outcomes of the actions asked for last and goes on.
    pub(super) fn advance(&mut self, board: &mut Board, outcomes: &[Outcome]) -> Progress {
        match std::mem::replace(&mut self.part, Part::Begin) {
            Part::Begin => self.remove_finalizers(board),
            Part::Finalizers(ids) => {
                for (id, outcome) in ids.iter().zip(outcomes) {
                    if let Outcome::Failed { message } = outcome {
                        self.has_failed = true;
                        let text = format!("failed to remove hook finalizer: {message}");
                        board.record_state(*id, OperationPhase::Error, text);
                    }
                }
                if self.has_failed { Progress::Done(RunState::Failed) } else { self.prune(board) }
            }
            Part::Prunes(ids) => {
                for (id, outcome) in ids.iter().zip(outcomes) {
                    self.take_prune(board, *id, outcome);
                }
                if self.has_failed { Progress::Done(RunState::Failed) } else { self.delete_hooks(board) }
            }
            Part::Deletes(ids) => self.take_deletes(board, &ids, outcomes),
            Part::Applies(ids) => {
                for (id, outcome) in ids.iter().zip(outcomes) {
                    self.take_apply(board, *id, outcome);
                }
                self.apply_next(board)
            }
        }
    }

    fn remove_finalizers(&mut self, board: &mut Board) -> Progress {
        let leftover = |task: &&Task| task.hook && task.is_pending() && task.has_live_finalizer();
        let ids: Vec<usize> =
            self.ids.iter().copied().filter(|id| board.task(*id).as_ref().is_some_and(leftover)).collect();
        let ids = board.by_object(ids);
        if self.is_dry || ids.is_empty() {
            return self.prune(board);
        }
        let actions = board.actions(Op::RemoveFinalizer, &ids);
        self.part = Part::Finalizers(ids);
        Progress::Do(actions)
    }

    fn prune(&mut self, board: &mut Board) -> Progress {
        let prunes: Vec<usize> =
            self.ids.iter().copied().filter(|id| board.task(*id).is_some_and(Task::is_prune)).collect();
        if !board.is_prune_confirmed() {
            let needs = |id: &usize| {
                board
                    .task(*id)
                    .is_some_and(|task| board.options.prune_rule(task.live.as_deref()) == PruneRule::Confirm)
            };
            let unconfirmed: Vec<usize> = prunes.iter().copied().filter(needs).collect();
            if !unconfirmed.is_empty() {
                return Progress::Done(RunState::AwaitsConfirmation(unconfirmed));
            }
        }
        let mut calls = Vec::new();
        for id in board.by_object(prunes) {
            if let Some((code, text)) = self.prune_without_call(board, id) {
                self.finish(board, id, code, text);
            } else {
                calls.push(id);
            }
        }
        if calls.is_empty() {
            return self.delete_hooks(board);
        }
        let actions = board.actions(Op::Prune, &calls);
        self.part = Part::Prunes(calls);
        Progress::Do(actions)
    }

    /// Outcome of a prune that needs no call (ENG-174).
    fn prune_without_call(&self, board: &Board, id: usize) -> Option<(ResultCode, &'static str)> {
        let live = board.task(id)?.live.as_deref();
        if !board.facts.operation.prune {
            Some((ResultCode::PruneSkipped, "ignored (requires pruning)"))
        } else if board.options.prune_rule(live) == PruneRule::Forbidden {
            Some((ResultCode::PruneSkipped, "ignored (no prune)"))
        } else if self.is_dry {
            Some((ResultCode::Pruned, "pruned (dry run)"))
        } else if live.is_some_and(Object::is_terminating) {
            Some((ResultCode::Pruned, "pruned"))
        } else {
            None
        }
    }

    fn take_prune(&mut self, board: &mut Board, id: usize, outcome: &Outcome) {
        match outcome {
            Outcome::Failed { message } => self.finish(board, id, ResultCode::SyncFailed, message),
            Outcome::Done { .. } | Outcome::Object(_) | Outcome::NotFound => {
                self.finish(board, id, ResultCode::Pruned, "pruned");
            }
        }
    }

    fn delete_hooks(&mut self, board: &mut Board) -> Progress {
        let is_in_the_way = |task: &Task| {
            task.hook
                && task.is_pending()
                && task.live.is_some()
                && task.delete_policies.contains(&HookDeletePolicy::BeforeHookCreation)
        };
        let ids: Vec<usize> =
            self.ids.iter().copied().filter(|id| board.task(*id).is_some_and(is_in_the_way)).collect();
        let ids = board.by_object(ids);
        if self.is_dry || ids.is_empty() {
            return self.apply(board);
        }
        let actions = board.actions(Op::Delete, &ids);
        self.part = Part::Deletes(ids);
        Progress::Do(actions)
    }

    fn take_deletes(&mut self, board: &mut Board, ids: &[usize], outcomes: &[Outcome]) -> Progress {
        let mut deleted = Vec::new();
        for (id, outcome) in ids.iter().zip(outcomes) {
            match outcome {
                Outcome::NotFound => {
                    if let Some(task) = board.tasks.get_mut(*id) {
                        task.live = None;
                    }
                }
                Outcome::Failed { message } => {
                    self.has_failed = true;
                    let text = format!("failed to delete resource: {message}");
                    board.record_state(*id, OperationPhase::Error, text);
                }
                Outcome::Done { .. } | Outcome::Object(_) => deleted.push(*id),
            }
        }
        if self.has_failed {
            Progress::Done(RunState::Failed)
        } else if deleted.is_empty() {
            self.apply(board)
        } else {
            deleted.sort_unstable();
            Progress::Done(RunState::AwaitsDeletion(deleted))
        }
    }

    fn apply(&mut self, board: &mut Board) -> Progress {
        let applies = |task: &Task| !(task.is_prune() || self.is_dry && task.skip_dry_run);
        let ids = self.ids.iter().copied().filter(|id| board.task(*id).is_some_and(applies));
        let mut groups: VecDeque<Vec<usize>> = VecDeque::new();
        for id in ids {
            let kind = |id: usize| board.task(id).map(|task| &task.gvk.kind);
            match groups.back_mut() {
                // A dry run touches nothing, so its order means nothing.
                Some(group) if self.is_dry || group.first().and_then(|first| kind(*first)) == kind(id) => {
                    group.push(id);
                }
                _ => groups.push_back(vec![id]),
            }
        }
        self.groups = groups;
        self.apply_next(board)
    }

    fn apply_next(&mut self, board: &Board) -> Progress {
        let Some(mut ids) = self.groups.pop_front() else {
            return Progress::Done(if self.has_failed { RunState::Failed } else { RunState::Successful });
        };
        if !self.is_dry {
            ids.sort_by(|a, b| {
                board.task(*a).map(|task| &task.key).cmp(&board.task(*b).map(|task| &task.key))
            });
        }
        let actions = board.all(&ids).into_iter().map(|task| board.apply_action(task, self.is_dry)).collect();
        self.part = Part::Applies(ids);
        Progress::Do(actions)
    }

    fn take_apply(&mut self, board: &mut Board, id: usize, outcome: &Outcome) {
        match outcome {
            Outcome::Done { message } => self.finish(board, id, ResultCode::Synced, message),
            Outcome::Object(_) => self.finish(board, id, ResultCode::Synced, ""),
            Outcome::Failed { message } => {
                let text = board.failure(id, message);
                self.finish(board, id, ResultCode::SyncFailed, &text);
            }
            Outcome::NotFound => {
                let text = board.failure(id, message::NOT_SERVED);
                self.finish(board, id, ResultCode::SyncFailed, &text);
            }
        }
    }

    /// Notes what came of a task; a dry run inside a real operation records failures only (ENG-160).
    fn finish(&mut self, board: &mut Board, id: usize, code: ResultCode, text: &str) {
        let is_failed = code == ResultCode::SyncFailed;
        self.has_failed |= is_failed;
        let dry_operation = board.facts.operation.dry_run;
        if !self.is_dry || dry_operation || is_failed {
            board.record(id, Some(code), first_phase(code, dry_operation), text);
        }
    }
}

/// The operation phase a task starts with (ENG-190).
fn first_phase(code: ResultCode, is_dry_run: bool) -> OperationPhase {
    match code {
        ResultCode::Synced if is_dry_run => OperationPhase::Succeeded,
        ResultCode::Synced => OperationPhase::Running,
        ResultCode::SyncFailed => OperationPhase::Failed,
        ResultCode::Pruned | ResultCode::PruneSkipped => OperationPhase::Succeeded,
    }
}
