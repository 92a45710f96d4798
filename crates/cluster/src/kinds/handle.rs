//! The current snapshot of what a cluster serves, shared by the index and the writer.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, Notify, watch};

use super::{Kinds, discover};
use crate::connection::Connection;
use crate::error::ApiError;

/// Shares one cluster's discovery. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Discovery {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connection: Connection,
    current: ArcSwapOption<Kinds>,
    /// Held while discovering, so that callers who come meanwhile wait instead of asking again.
    turn: Mutex<()>,
    changes: watch::Sender<u64>,
    hint: Notify,
}

impl Discovery {
    /// Nothing is asked before the first [`Discovery::kinds`] or [`Discovery::refresh`].
    pub fn new(connection: Connection) -> Self {
        Self {
            shared: Arc::new(Shared {
                connection,
                current: ArcSwapOption::empty(),
                turn: Mutex::new(()),
                changes: watch::Sender::new(0),
                hint: Notify::new(),
            }),
        }
    }

    /// The last snapshot; `None` before the first success.
    pub fn snapshot(&self) -> Option<Arc<Kinds>> {
        self.shared.current.load_full()
    }

    /// The last snapshot, asked for when there is none.
    pub async fn kinds(&self) -> Result<Arc<Kinds>, ApiError> {
        match self.snapshot() {
            Some(kinds) => Ok(kinds),
            None => self.refresh().await,
        }
    }

    /// Asks the cluster again. Callers that arrive while an answer is under way share it.
    pub async fn refresh(&self) -> Result<Arc<Kinds>, ApiError> {
        let before = *self.shared.changes.borrow();
        let _turn = self.shared.turn.lock().await;
        let previous = self.snapshot();
        if *self.shared.changes.borrow() != before
            && let Some(kinds) = previous
        {
            return Ok(kinds);
        }
        let kinds = Arc::new(discover(&self.shared.connection, previous.as_deref()).await?);
        self.shared.current.store(Some(Arc::clone(&kinds)));
        self.shared.changes.send_modify(|count| *count += 1);
        Ok(kinds)
    }

    /// Tells whoever keeps the snapshot current that it may be outdated.
    pub(crate) fn hint(&self) {
        self.shared.hint.notify_one();
    }

    /// Waits for a hint; used by the one task that keeps the snapshot current.
    pub(crate) async fn hinted(&self) {
        self.shared.hint.notified().await;
    }

    /// Counts the refreshes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}
