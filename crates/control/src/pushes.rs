//! References that were pushed to and wait for a look at what the push changed.

use std::collections::{BTreeSet, HashSet};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::store::Reference;

/// References that were pushed to and not looked at yet: at most those that somebody follows.
#[derive(Default)]
pub(crate) struct Pushes {
    waiting: Mutex<BTreeSet<Reference>>,
    told: Notify,
}

impl Pushes {
    /// Asks for a look at these references.
    pub(crate) fn add(&self, references: BTreeSet<Reference>) {
        if !references.is_empty() {
            self.waiting.lock().extend(references);
            self.told.notify_one();
        }
    }

    /// Waits until something was added; an addition meanwhile is not missed.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }

    /// The next one that nobody is looking at.
    pub(crate) fn next(&self, busy: &HashSet<Reference>) -> Option<Reference> {
        let mut waiting = self.waiting.lock();
        let next = waiting.iter().find(|reference| !busy.contains(*reference)).cloned()?;
        waiting.take(&next)
    }
}
