//! Tells those who wait for a newer version, in the order in which they began to wait.
//!
//! A watch channel of tokio would do, but it wakes its receivers in a random order, and a simulation must go on
//! equally after equal histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Shared {
    version: AtomicU64,
    notify: Notify,
}

/// Whoever knows of newer versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<Shared>);

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    shared: Arc<Shared>,
    seen: u64,
}

impl Signal {
    /// Says that there is this version; one that was said before wakes nobody.
    pub(crate) fn tell(&self, version: u64) {
        if self.0.version.swap(version, Ordering::AcqRel) != version {
            self.0.notify.notify_waiters();
        }
    }

    /// Somebody new, who has seen nothing.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter { shared: Arc::clone(&self.0), seen: u64::MAX }
    }
}

impl Waiter {
    /// Takes the version of now as seen.
    pub(crate) fn look(&mut self) {
        self.seen = self.shared.version.load(Ordering::Acquire);
    }

    /// Waits for another version than the one that was seen. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        loop {
            // Asked for before looking, so that nothing in between is missed.
            let told = self.shared.notify.notified();
            if self.shared.version.load(Ordering::Acquire) != self.seen {
                return;
            }
            told.await;
        }
    }
}
