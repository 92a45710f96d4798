//! What a build may take.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::graph::Allowance;

/// Bounds of one build. A build that reaches one fails; it never yields a part of the objects (RND-162).
#[derive(Clone, Debug)]
pub struct Budget {
    /// Bytes of all files that are read; one that is read twice counts twice.
    pub input_bytes: u64,
    /// Bytes that everything that is parsed or made takes in memory. Nothing is given back before the build ends.
    pub memory: usize,
    /// Steps; about one for every node that is looked at.
    pub steps: u64,
    /// Objects that are read, before anything removes some of them; a base that is named twice counts twice.
    pub objects: usize,
    /// Files and directories that are looked for.
    pub files: usize,
    /// Kustomizations inside of each other.
    pub depth: usize,
    /// Set by the caller when the time is up.
    pub cancelled: Option<Arc<AtomicBool>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            input_bytes: 64 * 1024 * 1024,
            memory: 512 * 1024 * 1024,
            steps: 2_000_000_000,
            objects: 100_000,
            files: 100_000,
            depth: 100,
            cancelled: None,
        }
    }
}

impl Budget {
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance { memory: self.memory, steps: self.steps, cancelled: self.cancelled.clone() }
    }
}
