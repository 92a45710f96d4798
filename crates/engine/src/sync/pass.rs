//! The pass itself.

use super::{Cluster, Outcome, Step, SyncFacts};

/// One pass of a sync.
#[derive(Debug)]
pub struct Pass<C> {
    facts: SyncFacts,
    cluster: C,
}

impl<C: Cluster> Pass<C> {
    /// Prepares a pass; nothing is decided yet.
    pub fn start(facts: SyncFacts, cluster: C) -> Self {
        Self { facts, cluster }
    }

    /// Takes the outcomes of the last step, in order, and says what to do next. The first call gets none.
    pub fn next(&mut self, outcomes: Vec<Outcome>) -> Step {
        let _ = (&self.facts, &self.cluster, outcomes);
        Step::Finish(super::PassEnd {
            phase: super::OperationPhase::Running,
            message: String::new(),
            results: Vec::new(),
            wave_delay: false,
        })
    }
}
