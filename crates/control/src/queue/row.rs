//! How many urgent keys go before routine ones that wait (INV-16).
//!
//! Writes of an Application and requests for refreshes are urgent, and a tenant can make as many as it likes. Without a
//! bound, nothing that is due by time would run in any project meanwhile.

use super::Priority;

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
