//! Computations of one pass over an application, with the users' programs they need.

use tiphys_engine::scripts::Runner;

use super::Interpreters;
use crate::surroundings::Compute;

/// Objects that are compared without telling the runtime that the thread is busy: about a millisecond.
const INLINE_MAX: usize = 30;

/// Where the computations of a pass run, and who runs its programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    interpreters: Interpreters,
    compute: Compute,
    project: String,
    is_scripted: bool,
    /// Runs the programs of this pass.
    pub(crate) runner: Runner,
}

impl Programs {
    /// `is_scripted` says whether the pass may run programs at all; `project` has turns to run them.
    pub(crate) fn new(
        interpreters: &Interpreters,
        compute: &Compute,
        (project, is_scripted): (&str, bool),
        runner: Runner,
    ) -> Self {
        let (interpreters, compute) = (interpreters.clone(), compute.clone());
        Self { interpreters, compute, project: project.to_owned(), is_scripted, runner }
    }

    /// Runs a computation about so many objects. One that is long, or may wait for programs, runs where other tasks
    /// of this thread go on (STY-80); of those with programs only as many run at once as there are children, so that
    /// the runtime never lacks threads. Nothing that others wait for may be locked meanwhile.
    pub(crate) async fn compute<T>(&self, objects: usize, work: impl FnOnce() -> T) -> T {
        if !self.is_scripted {
            return if objects > INLINE_MAX { self.compute.here(work) } else { work() };
        }
        let _turn = self.interpreters.turn(&self.project).await;
        self.compute.here(work)
    }
}
