//! Work that one reconcile of a set may cause, whatever its size (INV-16, ASET-122).
//!
//! Each string has a bound of its own; without a common one, a thousand elements with strings just below it would occupy
//! a processor for minutes. A step is some forty nanoseconds, as in [`tiphys_go::template::Limits`].

use std::sync::atomic::{AtomicU64, Ordering};

/// The bound is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the generators and templates of the set take more than {limit} steps together; the setting \
     applicationsetcontroller.template.steps raises the bound"
)]
pub struct TooMuchWork {
    /// The bound.
    pub limit: u64,
}

/// Steps that are left of a reconcile. It is shared by all runs over the generators that the reconcile takes.
#[derive(Debug)]
pub struct Work {
    limit: u64,
    left: AtomicU64,
}

impl Work {
    /// Work of so many steps.
    pub fn new(limit: u64) -> Self {
        Self { limit, left: AtomicU64::new(limit) }
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Pays for steps.
    ///
    /// # Errors
    /// When fewer are left; then none is left.
    pub(crate) fn spend(&self, steps: u64) -> Result<(), TooMuchWork> {
        // One thread at a time works on a reconcile.
        let left = self.left();
        self.left.store(left.saturating_sub(steps), Ordering::Relaxed);
        if steps > left { Err(self.exceeded()) } else { Ok(()) }
    }

    /// The error when nothing is left.
    pub(crate) fn exceeded(&self) -> TooMuchWork {
        TooMuchWork { limit: self.limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_16_work_that_is_over_stays_over() {
        let work = Work::new(10);
        assert_eq!((work.spend(4), work.left()), (Ok(()), 6));
        assert_eq!(work.spend(7), Err(TooMuchWork { limit: 10 }));
        assert_eq!((work.spend(1), work.left()), (Err(TooMuchWork { limit: 10 }), 0));
    }
}
