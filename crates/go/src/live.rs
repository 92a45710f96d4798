//! Bytes that a thread holds for one piece of foreign work, and their bound (SEC-07, INV-16).
//!
//! What templates make can be counted where it is made; what they keep cannot, because values are shared and go when
//! nothing holds them any more. So the allocator of the process tells of everything that it hands out and takes back
//! ([`allocated`], [`freed`]), and work that runs [`within`] a bound asks now and then whether it still is within
//! ([`check`]), and before it makes something large whether there is room for it ([`reserve`]). This counts all that a
//! thread allocates: values, texts, trees, programs of expressions.
//!
//! Counting is by thread, and costs an addition. Memory that other threads made is not counted when it is released
//! here: the count never falls below nothing at which outermost work begins. Where no allocator tells, as in tests of
//! single crates, nothing is held; [`reserve`] still refuses what alone is beyond the bound.

use std::cell::Cell;

thread_local! {
    /// Bytes that are held, since the outermost work began.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// Bytes that may be held; without a bound, all.
    static END: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The bound that this comes from, as it was given.
    static BOUND: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether something was refused.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// More is held than the bound allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {bound} bytes are held")]
pub struct Exceeded {
    /// The bound.
    pub bound: usize,
}

/// Counts memory that this thread was given.
#[inline]
pub fn allocated(bytes: usize) {
    HELD.set(HELD.get().saturating_add(bytes));
}

/// Counts memory that this thread gave back.
#[inline]
pub fn freed(bytes: usize) {
    HELD.set(HELD.get().saturating_sub(bytes));
}

/// Does work that may hold so many bytes more than are held when it begins, and no more than work around it.
pub fn within<T>(bound: usize, work: impl FnOnce() -> T) -> T {
    let outer = Outer { end: END.get(), bound: BOUND.get() };
    if outer.end == usize::MAX {
        HELD.set(0);
    }
    let end = HELD.get().saturating_add(bound);
    if end < outer.end {
        END.set(end);
        BOUND.set(bound);
    }
    let done = work();
    drop(outer);
    done
}

/// Whether work met its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It never did.
    Within,
    /// Something was refused: with a larger bound the work may end otherwise.
    Refused,
}

/// The same as [`within`], and whether anything was refused meanwhile.
pub fn within_noting<T>(bound: usize, work: impl FnOnce() -> T) -> (T, Noted) {
    REFUSED.set(false);
    let done = within(bound, work);
    (done, if REFUSED.get() { Noted::Refused } else { Noted::Within })
}

/// What is bound again when work ends, also by a panic.
struct Outer {
    end: usize,
    bound: usize,
}

impl Drop for Outer {
    fn drop(&mut self) {
        END.set(self.end);
        BOUND.set(self.bound);
    }
}

/// Whether no more is held than the bound allows.
///
/// # Errors
/// When more is.
pub fn check() -> Result<(), Exceeded> {
    reserve(0)
}

/// Whether so many bytes more could be held.
///
/// # Errors
/// When they could not.
#[inline]
pub fn reserve(bytes: usize) -> Result<(), Exceeded> {
    if HELD.get().saturating_add(bytes) <= END.get() {
        return Ok(());
    }
    REFUSED.set(true);
    Err(Exceeded { bound: BOUND.get() })
}

/// The bound, where there is one.
pub fn bound() -> Option<usize> {
    (END.get() != usize::MAX).then(|| BOUND.get())
}

/// Whether little of what may be held is left: then nothing is kept that can be made again.
pub fn is_scarce() -> bool {
    room() < BOUND.get() / 4
}

/// Bytes that could be held beside those that are.
pub fn room() -> usize {
    END.get().saturating_sub(HELD.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_07_work_holds_no_more_than_its_bound() {
        within(100, || {
            allocated(60);
            assert_eq!((check(), reserve(40), room()), (Ok(()), Ok(()), 40));
            assert_eq!(reserve(41), Err(Exceeded { bound: 100 }));
            allocated(41);
            assert_eq!(check(), Err(Exceeded { bound: 100 }));
            freed(1);
            assert_eq!(check(), Ok(()));
        });
        assert_eq!((check(), room() > 1 << 40), (Ok(()), true), "nothing is bound any more");
    }

    #[test]
    fn sec_07_inner_work_is_within_the_outer_bound() {
        within(100, || {
            allocated(50);
            within(20, || assert_eq!((room(), reserve(21)), (20, Err(Exceeded { bound: 20 }))));
            within(80, || assert_eq!((room(), reserve(51)), (50, Err(Exceeded { bound: 100 }))));
            assert_eq!(room(), 50);
        });
    }

    #[test]
    fn sec_07_work_that_was_refused_memory_is_told_apart() {
        assert_eq!(within_noting(100, || reserve(100).is_ok()), (true, Noted::Within));
        assert_eq!(within_noting(100, || reserve(101).is_ok()), (false, Noted::Refused));
        assert_eq!(within_noting(100, || ()), ((), Noted::Within));
    }

    #[test]
    fn sec_07_memory_of_others_gives_no_credit() {
        allocated(1_000);
        within(100, || {
            freed(1_000);
            assert_eq!(room(), 100);
        });
    }

    #[test]
    fn sec_07_a_panic_leaves_no_bound_behind() {
        let panicked = std::panic::catch_unwind(|| within(0, || panic!("over")));
        assert!(panicked.is_err());
        assert_eq!(reserve(1 << 40), Ok(()));
    }
}
