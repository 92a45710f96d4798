//! How many urgent keys go before routine ones that wait (INV-16).
//!
//! Writes of an Application and requests for refreshes are urgent, and a tenant can make as many as it likes. Without a
//! bound, nothing that is due by time would run in any project meanwhile.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use super::Priority;

/// Entries of a list, per key, before outdated ones are thrown out.
const ENTRIES_PER_KEY_MAX: usize = 2;

/// Throws outdated entries out of the list of routine keys when it has become long. A raised key leaves one behind, which
/// is skipped when its turn comes; while urgent keys come few turns do, and whoever raises its keys again and again must
/// not pile them up (INV-10).
pub(crate) fn prune<K: Clone + Eq + Hash>(
    routine: &mut VecDeque<K>,
    keys: usize,
    waits: impl Fn(&K) -> bool,
) {
    if routine.len() > ENTRIES_PER_KEY_MAX * keys {
        let mut seen = HashSet::new();
        routine.retain(|key| waits(key) && seen.insert(key.clone()));
    }
}

/// Urgent keys in a row while a routine one waits.
const URGENT_MAX: u32 = 8;

/// Counts urgent keys since the last routine one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row(u32);

impl Row {
    /// Which keys are looked for, in this order.
    pub(crate) fn order(self) -> [Priority; 2] {
        if self.0 < URGENT_MAX {
            [Priority::Urgent, Priority::Routine]
        } else {
            [Priority::Routine, Priority::Urgent]
        }
    }

    /// A key was taken; says whether a routine one still waits.
    pub(crate) fn took(&mut self, priority: Priority, is_routine_waiting: bool) {
        let goes_on = priority == Priority::Urgent && is_routine_waiting;
        self.0 = if goes_on { self.0.saturating_add(1) } else { 0 };
    }
}
