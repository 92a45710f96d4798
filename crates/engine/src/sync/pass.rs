//! The pass itself: which step comes after which (ENG-160..170, ENG-184, ENG-187).

use std::sync::Arc;

use tiphys_api::application::ResourceResult;
use tiphys_api::codes::ResultCode;

use super::action::{Op, OperationPhase, Outcome, PassEnd, Step};
use super::build::{self, NamespaceFound};
use super::facts::{Cluster, SyncFacts};
use super::message::{self, Wait};
use super::options::Options;
use super::run::{Board, Progress, Run, RunState};
use super::task::{Ledger, Task};
use crate::compare::fail_on_shared;
use crate::health::HealthCode;
use crate::hook::{HookDeletePolicy, SyncPhase};

mod terminate;

/// One pass of a sync. See the module's essay for how to drive it.
#[derive(Debug)]
pub struct Pass<C> {
    cluster: C,
    board: Board,
    stage: Stage,
}

/// Where the pass stands: what the outcomes of the last step belong to.
#[derive(Debug)]
enum Stage {
    Begin,
    Namespace,
    Running {
        run: Run,
        then: AfterRun,
    },
    /// Reads of running tasks without a live object.
    Reads(Vec<usize>),
    Finalizers(Vec<usize>),
    HookDeletes {
        ids: Vec<usize>,
        then: AfterDeletes,
    },
    Terminate(terminate::Part),
    Finished(PassEnd),
}

#[derive(Debug)]
enum AfterRun {
    Namespace {
        id: usize,
    },
    DryRun,
    Wave {
        ids: Vec<usize>,
        has_more: bool,
    },
    /// `SyncFail` hooks were started; the operation fails with this text when they are completed.
    SyncFail {
        text: String,
    },
    /// `SyncFail` hooks were started while these tasks of the failing wave still run.
    SyncFailBeside {
        ids: Vec<usize>,
    },
}

#[derive(Debug)]
enum AfterDeletes {
    Succeed(&'static str),
    /// The fail path with this sentence and the failed ones among these tasks.
    Fail {
        sentence: &'static str,
        ids: Vec<usize>,
    },
}

impl<C: Cluster> Pass<C> {
    /// The results recorded so far, those of earlier passes included. A shell that must not lose them writes
    /// them down before it carries out what cannot be seen again afterwards (INV-9).
    pub fn results(&self) -> &[ResourceResult] {
        self.board.ledger.results()
    }

    /// Prepares a pass; nothing is decided yet.
    pub fn start(mut facts: SyncFacts, cluster: C) -> Self {
        let ledger = Ledger::new(std::mem::take(&mut facts.results));
        let options = Options::new(&facts.operation);
        let board = Board { facts, options, tasks: Vec::new(), ledger };
        Self { cluster, board, stage: Stage::Begin }
    }

    /// Takes the outcomes of the last step, in order, and says what to do next. The first call gets none.
    ///
    /// A missing outcome leaves its action without result, so that a later pass repeats it.
    pub fn next(&mut self, outcomes: Vec<Outcome>) -> Step {
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => self.begin(),
            Stage::Namespace => {
                let found = match outcomes.into_iter().next() {
                    Some(Outcome::Object(Some(live))) => NamespaceFound::Present(live),
                    Some(Outcome::Object(None) | Outcome::NotFound) => NamespaceFound::Absent,
                    Some(Outcome::Failed { message }) => NamespaceFound::Unknown(message),
                    Some(Outcome::Done { .. }) | None => NamespaceFound::Unknown("no answer".to_owned()),
                };
                self.build(&found)
            }
            Stage::Running { run, then } => self.advance(run, then, &outcomes),
            Stage::Reads(ids) => self.after_reads(&ids, &outcomes),
            Stage::Finalizers(ids) => {
                for (id, outcome) in ids.iter().zip(&outcomes) {
                    if let Outcome::Failed { message } = outcome {
                        let text = format!("failed to remove hook finalizer: {message}");
                        self.board.record_state(*id, OperationPhase::Error, text);
                    }
                }
                self.decide()
            }
            Stage::HookDeletes { ids, then } => {
                for (id, outcome) in ids.iter().zip(&outcomes) {
                    if let Outcome::Failed { message } = outcome {
                        let text = format!("failed to delete resource: {message}");
                        self.board.record_state(*id, OperationPhase::Error, text);
                    }
                }
                self.after_deletes(then)
            }
            Stage::Terminate(part) => self.terminate(part, &outcomes),
            Stage::Finished(end) => self.end(end),
        }
    }

    fn begin(&mut self) -> Step {
        let facts = &self.board.facts;
        if facts.terminate {
            let board = &mut self.board;
            let none = NamespaceFound::NotAsked;
            let built = build::build(&board.facts, &board.options, &self.cluster, &none, &mut board.ledger);
            board.tasks = built.tasks;
            return self.terminate(terminate::Part::Begin, &[]);
        }
        if let Some(text) = fail_on_shared(&facts.operation.sync_options, &facts.shared) {
            return self.finish(OperationPhase::Failed, text);
        }
        if build::needs_namespace(facts, &self.board.options) {
            let read = build::namespace_read(facts);
            self.stage = Stage::Namespace;
            return Step::Do(vec![read]);
        }
        self.build(&NamespaceFound::NotAsked)
    }

    fn build(&mut self, namespace: &NamespaceFound) -> Step {
        let board = &mut self.board;
        let built = build::build(&board.facts, &board.options, &self.cluster, namespace, &mut board.ledger);
        board.tasks = built.tasks;
        if !built.problems.is_empty() {
            let problems: Vec<&str> =
                built.problems.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
            let text = if problems.is_empty() {
                message::INVALID.to_owned()
            } else {
                format!("{}: {}", message::INVALID, problems.join("; "))
            };
            return self.finish(OperationPhase::Failed, text);
        }
        if !self.board.ledger.is_empty() {
            return self.observe();
        }
        let destination = self.board.facts.destination_namespace.clone();
        let creates_destination = |task: &Task| {
            task.live.is_none()
                && task.target.is_some()
                && task.gvk.group.is_empty()
                && task.gvk.kind == "Namespace"
                && task.key.name == destination
        };
        match self.board.tasks.iter().position(creates_destination) {
            Some(id) if !destination.is_empty() => {
                let run = Run::real(&self.board, vec![id]);
                self.advance(run, AfterRun::Namespace { id }, &[])
            }
            _ => self.dry_run(None),
        }
    }

    /// Step 0 (ii): client-side dry run of everything but the task that made the namespace.
    fn dry_run(&mut self, made: Option<usize>) -> Step {
        let ids = self.board.select(|task| self.is_wanted(task));
        let ids = ids.into_iter().filter(|id| Some(*id) != made).collect();
        self.advance(Run::dry(ids), AfterRun::DryRun, &[])
    }

    /// Whether a task is left in by `ApplyOutOfSyncOnly` (ENG-165).
    fn is_wanted(&self, task: &Task) -> bool {
        let is_in_sync = !task.hook && task.target.is_some() && task.live.is_some() && !task.modified;
        !(is_in_sync && self.board.options.has("ApplyOutOfSyncOnly=true"))
    }

    fn advance(&mut self, mut run: Run, then: AfterRun, outcomes: &[Outcome]) -> Step {
        match run.advance(&mut self.board, outcomes) {
            Progress::Do(actions) => {
                self.stage = Stage::Running { run, then };
                Step::Do(actions)
            }
            Progress::Done(state) => self.after_run(then, &state),
        }
    }

    fn after_run(&mut self, then: AfterRun, state: &RunState) -> Step {
        match then {
            AfterRun::Namespace { id } => {
                if *state == RunState::Failed {
                    let text = self.failed_text(message::NAMESPACE_FAILED, &[id]);
                    return self.finish(OperationPhase::Failed, text);
                }
                self.dry_run(Some(id))
            }
            AfterRun::DryRun => {
                if *state == RunState::Failed {
                    return self.finish(OperationPhase::Failed, message::DRY_RUN_FAILED);
                }
                self.observe()
            }
            AfterRun::Wave { ids, has_more } => self.after_wave(ids, has_more, state),
            AfterRun::SyncFail { text } => self.after_sync_fail(text, state),
            AfterRun::SyncFailBeside { mut ids } => {
                let hooks = self.sync_fail_hooks(|task| !task.is_completed());
                ids.extend(hooks);
                self.wait(Wait::Completion, &ids, false)
            }
        }
    }

    /// Steps 1 and 2: look at running tasks, and wait for those that matter (ENG-161, ENG-162).
    fn observe(&mut self) -> Step {
        for id in self.board.select(|task| task.is_running() && task.live.is_some()) {
            self.look_at(id);
        }
        let unseen = self.awaited(|task| task.live.is_none());
        if unseen.is_empty() {
            return self.wait_or_go_on();
        }
        let actions = self.board.actions(Op::Read, &unseen);
        self.stage = Stage::Reads(unseen);
        Step::Do(actions)
    }

    fn look_at(&mut self, id: usize) {
        let Some(task) = self.board.task(id) else { return };
        let Some(live) = task.live.as_deref() else { return };
        let is_hook = task.hook;
        match (self.cluster.health(live), is_hook) {
            (Err(error), true) => {
                let text = format!("failed to get resource health: {error}");
                self.board.record_state(id, OperationPhase::Error, text);
            }
            (Err(_), false) => {}
            (Ok(health), true) => {
                let (state, text) = hook_state(health, live.name());
                self.board.record_state(id, state, text);
            }
            (Ok(None), false) => self.board.record_state(id, OperationPhase::Succeeded, ""),
            (Ok(Some(health)), false) => match health.status {
                HealthCode::Healthy => self.board.record_state(id, OperationPhase::Succeeded, health.message),
                HealthCode::Degraded => self.board.record_state(id, OperationPhase::Failed, health.message),
                HealthCode::Suspended
                | HealthCode::Progressing
                | HealthCode::Missing
                | HealthCode::Unknown => {}
            },
        }
    }

    /// Running tasks that the pass waits for: hooks, and everything when there is more than one step.
    fn awaited(&self, condition: impl Fn(&Task) -> bool) -> Vec<usize> {
        let place = |task: Option<&Task>| task.map(|task| (task.phase, task.wave));
        let is_multi_step = place(self.board.tasks.first()) != place(self.board.tasks.last());
        self.board.select(|task| {
            // What the server named cannot be found again: it is done when it is created.
            task.is_running() && (task.hook || is_multi_step) && !task.is_nameless() && condition(task)
        })
    }

    fn after_reads(&mut self, ids: &[usize], outcomes: &[Outcome]) -> Step {
        for (id, outcome) in ids.iter().zip(outcomes) {
            if let Outcome::Object(None) | Outcome::NotFound = outcome
                && let Some(text) = self.board.task(*id).map(|task| message::missing(&task.key))
            {
                self.board.record(*id, Some(ResultCode::SyncFailed), OperationPhase::Error, text);
            }
        }
        self.wait_or_go_on()
    }

    /// The end of step 2, then steps 3 and 4.
    fn wait_or_go_on(&mut self) -> Step {
        let awaited = self.awaited(|_| true);
        if !awaited.is_empty() {
            return self.wait(Wait::Completion, &awaited, false);
        }
        let going = self.board.select(|task| {
            task.code == Some(ResultCode::Pruned)
                && task.live.as_deref().is_some_and(tiphys_object::Object::is_terminating)
        });
        if !going.is_empty() {
            return self.wait(Wait::Deletion, &going, false);
        }
        let done = self.board.select(|task| task.hook && task.is_completed() && task.has_live_finalizer());
        let done = self.board.by_object(done);
        if done.is_empty() || self.board.facts.operation.dry_run {
            return self.decide();
        }
        let actions = self.board.actions(Op::RemoveFinalizer, &done);
        self.stage = Stage::Finalizers(done);
        Step::Do(actions)
    }

    /// Steps 5 to 7: fail, succeed, or run the next wave.
    fn decide(&mut self) -> Step {
        let regular = |task: &Task| task.phase != SyncPhase::SyncFail;
        if self.board.tasks.iter().any(|task| regular(task) && task.is_unsuccessful()) {
            let ids = self.board.select(regular);
            return self.delete_then_fail(message::TASKS_FAILED, ids);
        }
        let is_dry = self.board.facts.operation.dry_run;
        let pending = self.board.select(|task| {
            regular(task) && task.is_pending() && self.is_wanted(task) && !(is_dry && task.skip_dry_run)
        });
        let place = |id: &usize| self.board.task(*id).map(|task| (task.phase, task.wave));
        let Some(first) = pending.first().and_then(&place) else {
            return self.delete_hooks(
                HookDeletePolicy::HookSucceeded,
                AfterDeletes::Succeed(message::NO_MORE_TASKS),
            );
        };
        let (ids, rest): (Vec<usize>, Vec<usize>) =
            pending.into_iter().partition(|id| place(id) == Some(first));
        let run = Run::real(&self.board, ids.clone());
        self.advance(run, AfterRun::Wave { ids, has_more: !rest.is_empty() }, &[])
    }

    /// Step 8 (ENG-167).
    fn after_wave(&mut self, ids: Vec<usize>, has_more: bool, state: &RunState) -> Step {
        match state {
            RunState::AwaitsConfirmation(prunes) => self.wait(Wait::Confirmation, prunes, has_more),
            RunState::AwaitsDeletion(hooks) => self.wait(Wait::Deletion, hooks, has_more),
            RunState::Successful => {
                if has_more || self.board.all(&ids).iter().any(|task| task.hook) {
                    return self.wait(Wait::Completion, &ids, has_more);
                }
                let then = AfterDeletes::Succeed(message::ALL_TASKS_RUN);
                self.delete_hooks(HookDeletePolicy::HookSucceeded, then)
            }
            RunState::Failed => {
                let running: Vec<usize> = ids
                    .iter()
                    .copied()
                    .filter(|id| self.board.task(*id).is_some_and(Task::is_running))
                    .collect();
                if running.is_empty() {
                    return self.delete_then_fail(message::APPLY_FAILED, ids);
                }
                let hooks = self.sync_fail_hooks(Task::is_pending);
                if hooks.is_empty() {
                    return self.wait(Wait::Completion, &running, false);
                }
                let run = Run::real(&self.board, hooks);
                self.advance(run, AfterRun::SyncFailBeside { ids: running }, &[])
            }
        }
    }

    fn delete_then_fail(&mut self, sentence: &'static str, ids: Vec<usize>) -> Step {
        self.delete_hooks(HookDeletePolicy::HookFailed, AfterDeletes::Fail { sentence, ids })
    }

    /// Deletes completed hooks of a policy. A dry-run operation changes nothing (ENG-191).
    fn delete_hooks(&mut self, policy: HookDeletePolicy, then: AfterDeletes) -> Step {
        let ids = self.board.select(|task| task.is_deletable(policy));
        let ids = self.board.by_object(ids);
        if ids.is_empty() || self.board.facts.operation.dry_run {
            return self.after_deletes(then);
        }
        let actions = self.board.actions(Op::Delete, &ids);
        self.stage = Stage::HookDeletes { ids, then };
        Step::Do(actions)
    }

    fn after_deletes(&mut self, then: AfterDeletes) -> Step {
        match then {
            AfterDeletes::Succeed(text) => self.finish(OperationPhase::Succeeded, text),
            AfterDeletes::Fail { sentence, ids } => self.fail(sentence, &ids),
        }
    }

    /// The fail path (ENG-184).
    fn fail(&mut self, sentence: &str, ids: &[usize]) -> Step {
        let text = self.failed_text(sentence, ids);
        let hooks = self.sync_fail_hooks(Task::is_pending);
        if hooks.is_empty() {
            return self.after_sync_fail(text, &RunState::Successful);
        }
        let run = Run::real(&self.board, hooks);
        self.advance(run, AfterRun::SyncFail { text }, &[])
    }

    fn after_sync_fail(&mut self, text: String, state: &RunState) -> Step {
        if let RunState::AwaitsDeletion(hooks) = state {
            return self.wait(Wait::Deletion, hooks, false);
        }
        let open = self.sync_fail_hooks(|task| !task.is_completed());
        if !open.is_empty() {
            return self.wait(Wait::Completion, &open, false);
        }
        // How the hooks that ran went is in their results; the text says only which could not run (ENG-184).
        let failed = self.sync_fail_hooks(Task::could_not_be_applied);
        let text = if failed.is_empty() {
            text
        } else {
            let failed = self.board.all(&failed);
            let reasons = failed.iter().map(|task| task.message.as_str());
            format!("{text}\n{}", message::with_reasons(message::SYNC_FAIL_FAILED, reasons))
        };
        self.finish(OperationPhase::Failed, text)
    }

    fn sync_fail_hooks(&self, condition: impl Fn(&Task) -> bool) -> Vec<usize> {
        self.board.select(|task| task.phase == SyncPhase::SyncFail && condition(task))
    }

    fn failed_text(&self, sentence: &str, ids: &[usize]) -> String {
        let tasks = self.board.all(ids);
        let failed = tasks.iter().filter(|task| task.code == Some(ResultCode::SyncFailed));
        message::with_reasons(sentence, failed.map(|task| task.message.as_str()))
    }

    fn wait(&mut self, wait: Wait, ids: &[usize], wave_delay: bool) -> Step {
        let text = message::waiting(wait, &self.board.all(ids));
        let wave_delay = wave_delay && !self.board.facts.operation.dry_run;
        self.end_with(OperationPhase::Running, text, wave_delay)
    }

    fn finish(&mut self, phase: OperationPhase, text: impl Into<String>) -> Step {
        self.end_with(phase, text.into(), false)
    }

    fn end_with(&mut self, phase: OperationPhase, message: String, wave_delay: bool) -> Step {
        let results = std::mem::take(&mut self.board.ledger).into_results();
        self.end(PassEnd { phase, message, results, wave_delay })
    }

    fn end(&mut self, end: PassEnd) -> Step {
        self.stage = Stage::Finished(end.clone());
        Step::Finish(end)
    }
}

/// What the health of a hook's live object says about the hook (ENG-161).
fn hook_state(health: Option<crate::health::Health>, name: &str) -> (OperationPhase, String) {
    let created = || format!("{name} created");
    let Some(health) = health else { return (OperationPhase::Succeeded, created()) };
    match health.status {
        HealthCode::Healthy => (OperationPhase::Succeeded, health.message),
        HealthCode::Degraded | HealthCode::Unknown => (OperationPhase::Failed, health.message),
        HealthCode::Progressing | HealthCode::Suspended => (OperationPhase::Running, health.message),
        HealthCode::Missing => (OperationPhase::Succeeded, created()),
    }
}

#[cfg(test)]
mod tests;
