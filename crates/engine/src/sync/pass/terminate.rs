//! Ending an operation before its end (ENG-187).

use super::{Arc, Pass, Stage, hook_state};
use crate::hook::HookDeletePolicy;
use crate::sync::action::{Op, OperationPhase, Outcome, Step};
use crate::sync::facts::Cluster;
use crate::sync::message;

/// Where a termination stands.
#[derive(Debug)]
pub(super) enum Part {
    Begin,
    Reads(Vec<usize>, Errors),
    Finalizers(Vec<usize>, Errors),
    Deletes(Vec<(usize, OperationPhase, String)>, Errors),
}

/// Whether anything went wrong so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors(bool);

impl<C: Cluster> Pass<C> {
    pub(super) fn terminate(&mut self, part: Part, outcomes: &[Outcome]) -> Step {
        match part {
            Part::Begin => {
                let unseen = self.board.select(|task| task.hook && task.is_running() && task.live.is_none());
                if unseen.is_empty() {
                    return self.release_hooks(Errors::default());
                }
                let actions = self.board.actions(Op::Read, &unseen);
                self.stage = Stage::Terminate(Part::Reads(unseen, Errors::default()));
                Step::Do(actions)
            }
            Part::Reads(ids, errors) => {
                let errors = self.take_reads(&ids, outcomes, errors);
                self.release_hooks(errors)
            }
            Part::Finalizers(ids, mut errors) => {
                for (id, outcome) in ids.iter().zip(outcomes) {
                    if let Outcome::Failed { message } = outcome {
                        errors.0 = true;
                        let text = format!("failed to remove hook finalizer: {message}");
                        self.board.record_state(*id, OperationPhase::Error, text);
                    }
                }
                self.delete_running(errors)
            }
            Part::Deletes(planned, errors) => self.take_deletions(planned, outcomes, errors),
        }
    }

    fn take_reads(&mut self, ids: &[usize], outcomes: &[Outcome], mut errors: Errors) -> Errors {
        for (id, outcome) in ids.iter().zip(outcomes) {
            match outcome {
                Outcome::Object(Some(live)) => {
                    if let Some(task) = self.board.tasks.get_mut(*id) {
                        task.live = Some(Arc::clone(live));
                    }
                }
                Outcome::Object(None) | Outcome::NotFound => {
                    self.board.record_state(*id, OperationPhase::Succeeded, "Terminated");
                }
                Outcome::Failed { message } => {
                    errors.0 = true;
                    let text = format!("failed to get live resource: {message}");
                    self.board.record_state(*id, OperationPhase::Error, text);
                }
                Outcome::Done { .. } => {}
            }
        }
        errors
    }

    /// Removes the finalizer of every completed or running hook.
    fn release_hooks(&mut self, errors: Errors) -> Step {
        let held = self.board.select(|task| task.hook && !task.is_pending() && task.has_live_finalizer());
        let held = self.board.by_object(held);
        if held.is_empty() || self.board.facts.operation.dry_run {
            return self.delete_running(errors);
        }
        let actions = self.board.actions(Op::RemoveFinalizer, &held);
        self.stage = Stage::Terminate(Part::Finalizers(held, errors));
        Step::Do(actions)
    }

    /// Deletes hooks that still run, cannot be judged, or are to go after a failure.
    fn delete_running(&mut self, errors: Errors) -> Step {
        let mut planned = Vec::new();
        for id in self.board.select(|task| task.hook && task.is_running()) {
            let Some(task) = self.board.task(id) else { continue };
            let Some(live) = task.live.as_deref() else { continue };
            let (state, text) = match self.cluster.health(live) {
                Ok(health) => hook_state(health, live.name()),
                Err(_) => (OperationPhase::Running, String::new()),
            };
            let goes = task.delete_policies.contains(&HookDeletePolicy::HookFailed);
            let (end, text) = if state.is_completed() {
                (state, text)
            } else {
                (OperationPhase::Failed, "Terminated".to_owned())
            };
            if goes || !state.is_completed() {
                planned.push((id, end, text));
            } else {
                self.board.record_state(id, end, text);
            }
        }
        if planned.is_empty() || self.board.facts.operation.dry_run {
            return self.end_terminated(errors);
        }
        planned.sort_by(|(a, ..), (b, ..)| {
            self.board.task(*a).map(|task| &task.key).cmp(&self.board.task(*b).map(|task| &task.key))
        });
        let ids: Vec<usize> = planned.iter().map(|(id, ..)| *id).collect();
        let actions = self.board.actions(Op::Delete, &ids);
        self.stage = Stage::Terminate(Part::Deletes(planned, errors));
        Step::Do(actions)
    }

    fn take_deletions(
        &mut self,
        planned: Vec<(usize, OperationPhase, String)>,
        outcomes: &[Outcome],
        mut errors: Errors,
    ) -> Step {
        for ((id, state, text), outcome) in planned.into_iter().zip(outcomes) {
            if let Outcome::Failed { message } = outcome {
                errors.0 = true;
                self.board.record_state(
                    id,
                    OperationPhase::Error,
                    format!("failed to delete resource: {message}"),
                );
            } else {
                self.board.record_state(id, state, text);
            }
        }
        self.end_terminated(errors)
    }

    fn end_terminated(&mut self, errors: Errors) -> Step {
        if errors.0 {
            self.finish(OperationPhase::Error, message::TERMINATED_WITH_ERRORS)
        } else {
            self.finish(OperationPhase::Failed, message::TERMINATED)
        }
    }
}
