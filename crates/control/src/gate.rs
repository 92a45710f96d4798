//! Keeps one slow repository from taking all workers (CTL-141, INV-13).
//!
//! At most half of the workers wait for one repository at the same time; whoever comes on top of that gives
//! its worker back and is asked again a little later.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts who waits for which repository. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Gates {
    waiting: Arc<Mutex<HashMap<String, usize>>>,
    limit: usize,
}

/// A place at a repository; dropping it makes room.
pub(crate) struct Place {
    gates: Gates,
    url: String,
}

impl Gates {
    /// At most `limit` at one repository.
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: Arc::default(), limit: limit.max(1) }
    }

    /// A place at every one of the repositories, or none at all.
    pub(crate) fn enter<'a>(&self, urls: impl IntoIterator<Item = &'a str>) -> Option<Vec<Place>> {
        let mut places = Vec::new();
        for url in urls {
            let mut waiting = self.waiting.lock();
            let count = waiting.entry(url.to_owned()).or_default();
            if *count >= self.limit {
                return None;
            }
            *count += 1;
            drop(waiting);
            places.push(Place { gates: self.clone(), url: url.to_owned() });
        }
        Some(places)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.gates.waiting.lock();
        if let Some(count) = waiting.get_mut(&self.url) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.url);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_141_one_repository_gets_its_share_only() {
        let gates = Gates::new(2);
        let first = gates.enter(["slow"]).unwrap();
        let second = gates.enter(["slow", "other"]).unwrap();
        assert!(gates.enter(["other", "slow"]).is_none());
        assert!(gates.enter(["other"]).is_some());
        drop(first);
        assert!(gates.enter(["slow"]).is_some());
        drop(second);
        assert!(gates.waiting.lock().is_empty());
    }
}
