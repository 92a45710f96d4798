//! How many steps a computation on foreign input may take.
//!
//! A step is a constant amount of work. Counted steps end a computation at the same place on every machine, which
//! a clock does not, so that a test can show the bound (SEC-07).

/// Steps that a computation may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    limit: u64,
    left: u64,
}

/// The limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} steps")]
pub struct TooManySteps {
    /// The limit.
    pub limit: u64,
}

impl Steps {
    /// A fresh budget of so many steps.
    pub fn new(limit: u64) -> Self {
        Self { limit, left: limit }
    }

    /// A budget for what is bounded by its input already.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Steps that were taken.
    pub fn used(&self) -> u64 {
        self.limit - self.left
    }

    /// Takes steps.
    ///
    /// # Errors
    /// When fewer are left; then none is left.
    pub fn spend(&mut self, steps: usize) -> Result<(), TooManySteps> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(TooManySteps { limit: self.limit })
    }
}
