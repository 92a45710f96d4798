//! Chance of one run: everything that happens at random follows from the seed.

use tiphys_sim::Rng;

/// A source of choices.
#[derive(Clone, Debug)]
pub(super) struct Chance(Rng);

impl Chance {
    /// Choices that begin at a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Another source, so that what one part of a run chooses does not move the choices of the others.
    pub(super) fn fork(&mut self) -> Self {
        Self::new(self.0.next_u64())
    }

    /// A number below `bound`; 0 when that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// True in `permille` of a thousand cases.
    pub(super) fn permille(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of several; `None` when there are none.
    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(all.len() as u64)).unwrap_or(0);
        all.get(index)
    }
}
