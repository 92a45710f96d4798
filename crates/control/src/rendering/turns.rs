//! How much renderings hold together (SEC-07).
//!
//! One source may take a lot of memory while it is rendered, and one such rendering per processor at the same time
//! would be gigabytes. So every rendering begins as a small one, of which several run. One that needs more is given
//! up, waits for the only large turn while it holds nothing, and begins again. Nobody waits for memory with memory
//! in hands, so nobody waits in a circle; and large sources only ever wait for each other, first come, first
//! served.

use std::sync::Arc;

use tiphys_render::Budget;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Small renderings at the same time, also with many processors.
const SMALL_MAX: usize = 4;

/// How much a rendering may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// What nearly all sources need.
    Small,
    /// All that one source may have.
    Large,
}

impl Size {
    /// The bounds of a rendering of this size; never more than the given ones.
    pub(super) fn within(self, budget: &Budget) -> Budget {
        match self {
            Self::Small => budget.small(),
            Self::Large => budget.clone(),
        }
    }
}

/// The turns of all renderings. Waiting is in order of asking.
pub(super) struct Turns {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// Leave to render. It goes along with the work, so that it ends when the work does and not when nobody waits for
/// it any more.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    /// For a machine that computes so many things at the same time.
    pub(super) fn new(parallelism: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { small: semaphore(small_turns(parallelism)), large: semaphore(1) }
    }

    /// Waits for a turn; `None` when there are none any more.
    pub(super) async fn take(&self, size: Size) -> Option<Turn> {
        let semaphore = match size {
            Size::Small => &self.small,
            Size::Large => &self.large,
        };
        let permit = Arc::clone(semaphore).acquire_owned().await;
        permit.ok().map(|permit| Turn { _permit: permit })
    }
}

fn small_turns(parallelism: usize) -> usize {
    parallelism.clamp(1, SMALL_MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// One per processor with a whole budget each was 3 GB on 32 processors.
    #[test]
    fn sec_07_all_renderings_together_have_one_bound() {
        let one = Budget::default();
        for parallelism in [0, 1, 2, 4, 8, 64] {
            let together = small_turns(parallelism) * Size::Small.within(&one).memory + one.memory;
            assert!(together <= 128 << 20, "{parallelism}: {together}");
        }
    }

    #[test]
    fn sec_07_a_small_rendering_has_no_more_than_was_given() {
        let given = Budget { memory: 1000, input_bytes: 100, path_bytes: 10, ..Budget::default() };
        let small = Size::Small.within(&given);
        assert_eq!((small.memory, small.input_bytes, small.path_bytes), (1000, 100, 10));
        assert_eq!(Size::Large.within(&Budget::default()).memory, Budget::default().memory);
    }

    #[tokio::test]
    async fn inv_16_large_renderings_wait_for_each_other_only() {
        let turns = Turns::new(2);
        let large = turns.take(Size::Large).await;
        let mut second = Box::pin(turns.take(Size::Large));
        let mut third = Box::pin(turns.take(Size::Large));
        assert!(large.is_some() && (&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        // All small turns are there.
        let small = [turns.take(Size::Small).now_or_never(), turns.take(Size::Small).now_or_never()];
        assert!(small.iter().flatten().flatten().count() == 2);
        assert!(turns.take(Size::Small).now_or_never().is_none());
        drop(large);
        // In order of asking.
        assert!((&mut third).now_or_never().is_none());
        let second = (&mut second).now_or_never().flatten();
        assert!(second.is_some() && (&mut third).now_or_never().is_none());
        drop(second);
        assert!((&mut third).now_or_never().flatten().is_some());
    }
}
