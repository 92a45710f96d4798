//! Keeps one slow repository from taking all workers (CTL-141, INV-13).
//!
//! At most half of the workers wait for one repository at the same time; whoever comes on top of that gives
//! its worker back and is put into the queue again when a place becomes free. Nobody asks in a circle.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::queue::{Priority, Queue};
use crate::store::AppKey;

/// Counts who waits for which repository. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Gates {
    state: Arc<Mutex<HashMap<String, Gate>>>,
    queue: Queue<AppKey>,
    limit: usize,
}

#[derive(Default)]
struct Gate {
    inside: usize,
    /// Applications that found no place; bounded by their number, each stands once.
    outside: VecDeque<AppKey>,
}

/// A place at a repository; dropping it lets the next one in.
pub(crate) struct Place {
    gates: Gates,
    url: String,
}

impl Gates {
    /// At most `limit` at one repository; who is let in later goes through the queue.
    pub(crate) fn new(limit: usize, queue: Queue<AppKey>) -> Self {
        Self { state: Arc::default(), queue, limit: limit.max(1) }
    }

    /// A place at every one of the repositories, or none at all and a place in the line.
    pub(crate) fn enter<'a>(
        &self,
        key: &AppKey,
        urls: impl IntoIterator<Item = &'a str>,
    ) -> Option<Vec<Place>> {
        let mut places = Vec::new();
        for url in urls {
            let mut state = self.state.lock();
            let gate = state.entry(url.to_owned()).or_default();
            if gate.inside >= self.limit {
                if !gate.outside.contains(key) {
                    gate.outside.push_back(key.clone());
                }
                return None;
            }
            gate.inside += 1;
            drop(state);
            places.push(Place { gates: self.clone(), url: url.to_owned() });
        }
        Some(places)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut state = self.gates.state.lock();
            let Some(gate) = state.get_mut(&self.url) else { return };
            gate.inside = gate.inside.saturating_sub(1);
            if gate.inside == 0 {
                // Who is called may find nothing left to do and never come in, and then would call nobody. So
                // the last one out calls all: whenever somebody stands outside, somebody is inside.
                state.remove(&self.url).map(|gate| gate.outside).unwrap_or_default()
            } else {
                gate.outside.pop_front().into_iter().collect()
            }
        };
        for key in next {
            self.gates.queue.add(key, Priority::Routine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ctl_141_one_repository_gets_its_share_only() {
        let queue = Queue::new();
        let gates = Gates::new(2, queue.clone());
        let key = |name| AppKey::new("argocd", name);
        let first = gates.enter(&key("a"), ["slow"]).unwrap();
        let second = gates.enter(&key("b"), ["slow", "other"]).unwrap();
        assert!(gates.enter(&key("c"), ["other", "slow"]).is_none());
        assert!(gates.enter(&key("c"), ["slow"]).is_none());
        assert!(gates.enter(&key("d"), ["other"]).is_some());
        assert_eq!(queue.depth(), 0);
        drop(first);
        assert_eq!(*queue.next().await.unwrap().key(), key("c"));
        assert_eq!(queue.depth(), 0);
        drop(second);
        assert!(gates.state.lock().is_empty());
    }

    #[tokio::test]
    async fn ctl_141_nobody_is_left_outside_an_empty_gate() {
        let queue = Queue::new();
        let gates = Gates::new(1, queue.clone());
        let key = |name| AppKey::new("argocd", name);
        let inside = gates.enter(&key("a"), ["slow"]).unwrap();
        assert!(gates.enter(&key("b"), ["slow"]).is_none());
        assert!(gates.enter(&key("c"), ["slow"]).is_none());
        drop(inside);
        // The first one called finds nothing to do and never enters; the second is called all the same.
        let called = [queue.next().await.unwrap().key().clone(), queue.next().await.unwrap().key().clone()];
        assert_eq!(called, [key("b"), key("c")]);
        assert!(gates.state.lock().is_empty());
    }
}
