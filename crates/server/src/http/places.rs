//! Places for what lasts: terminals, sockets and requests that are handed on (INV-16).
//!
//! All of them together have a bound, and one caller has a part of it: an account, or all tokens of a project.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::{CallerKey, Full};

/// Part of all places that one caller has at the most.
const SHARE: usize = 4;

/// Places that callers share. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    all: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// By caller; no longer than the places.
    callers: HashMap<CallerKey, usize>,
}

/// A place; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<Mutex<Taken>>,
    caller: CallerKey,
}

impl Places {
    /// So many places.
    pub(crate) fn of(all: usize) -> Self {
        Self { all, taken: Arc::default() }
    }

    /// Takes a place for a caller.
    ///
    /// # Errors
    /// If none is free for the caller.
    pub(crate) fn enter(&self, caller: CallerKey) -> Result<Place, Full> {
        let mut taken = self.taken.lock();
        if taken.all >= self.all {
            return Err(Full::Process);
        }
        let own = taken.callers.get(&caller).copied().unwrap_or_default();
        if own >= (self.all / SHARE).max(1) {
            return Err(Full::Caller);
        }
        taken.all += 1;
        taken.callers.insert(caller.clone(), own + 1);
        Ok(Place { taken: Arc::clone(&self.taken), caller })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.callers.get_mut(&self.caller) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.callers.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_16_one_caller_has_a_quarter_of_the_places() {
        let places = Places::of(8);
        let enter = |name: &str| places.enter(CallerKey::Account(name.into()));
        let (first, second) = (enter("a").unwrap(), enter("a").unwrap());
        assert_eq!(enter("a").unwrap_err(), Full::Caller);
        let others: Vec<Place> =
            ["b", "b", "c", "c", "d", "d"].iter().map(|name| enter(name).unwrap()).collect();
        assert_eq!(enter("e").unwrap_err(), Full::Process);
        drop(first);
        assert!(enter("a").is_ok(), "a place that is given back is free");
        drop((second, others));
        let taken = places.taken.lock();
        assert_eq!((taken.all, taken.callers.len()), (0, 0), "nothing is remembered");
    }
}
