//! What an evaluation may take.

use super::{Fault, Value};
use crate::memory::Memory;
use crate::steps::Steps;

/// What one evaluation may take at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps, each a constant amount of work.
    pub steps: u64,
    /// Bytes of all values that are made.
    pub bytes: usize,
}

impl Default for Limits {
    /// Enough for whatever the library itself would finish within its own memory budget.
    fn default() -> Self {
        Self { steps: 30_000_000, bytes: 128 << 20 }
    }
}

/// What is left of an evaluation's limits.
#[derive(Debug)]
pub struct Budget {
    steps: Steps,
    memory: Memory,
    /// What the library counts: items of ranges, lists and maps that are made, bytes of repeated texts.
    items: u64,
}

/// Where the library stops counting.
const ITEMS_MAX: u64 = 1_000_000;
/// Bytes that are looked through in one step.
const BYTES_PER_STEP: usize = 64;
/// What a list takes beside its items.
const LIST_BYTES: usize = 64;

impl Budget {
    /// A fresh budget.
    pub fn new(limits: Limits) -> Self {
        Self { steps: Steps::new(limits.steps), memory: Memory::new(limits.bytes), items: 0 }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When none is left.
    pub(super) fn value(&mut self) -> Result<(), Fault> {
        Ok(self.steps.spend(1)?)
    }

    /// Takes what looking through so many bytes does.
    pub(super) fn scan(&mut self, bytes: usize) -> Result<(), Fault> {
        Ok(self.steps.spend(1 + bytes / BYTES_PER_STEP)?)
    }

    /// Takes so many steps.
    pub(super) fn steps(&mut self, steps: usize) -> Result<(), Fault> {
        Ok(self.steps.spend(steps)?)
    }

    /// Takes what a text of so many bytes does.
    pub(super) fn text(&mut self, bytes: usize) -> Result<(), Fault> {
        self.scan(bytes)?;
        Ok(self.memory.text(bytes)?)
    }

    /// Takes what a list of so many items does.
    pub(super) fn list(&mut self, items: usize) -> Result<(), Fault> {
        self.steps.spend(1 + items)?;
        Ok(self.memory.spend(items.saturating_mul(size_of::<Value>()).saturating_add(LIST_BYTES))?)
    }

    /// Takes the place of one more value of the machine.
    pub(super) fn stack(&mut self) -> Result<(), Fault> {
        Ok(self.memory.spend(size_of::<Value>())?)
    }

    /// Takes what one more member of a map does.
    pub(super) fn member(&mut self, members: usize) -> Result<(), Fault> {
        self.steps.spend(1)?;
        Ok(self.memory.member(members)?)
    }

    /// Takes so many of the items that the library counts.
    pub(super) fn count(&mut self, items: usize) -> Result<(), Fault> {
        self.items = self.items.saturating_add(u64::try_from(items).unwrap_or(u64::MAX));
        if self.items >= ITEMS_MAX { Err(Fault::Memory) } else { Ok(()) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}
