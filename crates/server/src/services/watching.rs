//! What the watches of the API have in common (API-123, API-124, API-155).

use futures::StreamExt as _;
use tiphys_wire::status::Code;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::standing::{Owned, RECHECK_INTERVAL};
use crate::call::{Message, Reply, Status};
use crate::catalog::ChangeKind;

/// A watch of somebody.
pub(super) trait Watch: Send + 'static {
    /// What is told next; `None` when there is nothing more to come.
    fn next(&mut self) -> impl Future<Output = Option<Result<Message, Status>>> + Send;
}

/// Answers with what a watch tells, until its first failure.
pub(super) fn reply(watch: impl Watch) -> Reply {
    let stream = futures::stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        match watch.next().await? {
            Ok(message) => Some((Ok(message), Some(watch))),
            Err(status) => Some((Err(status), None)),
        }
    });
    Reply::stream(stream.boxed())
}

/// The next change, for somebody who is still logged in; `None` when there are no more.
///
/// # Errors
/// When they are not, or the watch is too far behind.
pub(super) async fn next_change<T: Clone>(
    owned: &Owned,
    changes: &mut Receiver<T>,
) -> Option<Result<T, Status>> {
    loop {
        let received = tokio::time::timeout(RECHECK_INTERVAL, changes.recv()).await;
        if let Err(status) = owned.check().await {
            return Some(Err(status));
        }
        match received {
            Err(_elapsed) => {}
            Ok(Ok(change)) => return Some(Ok(change)),
            Ok(Err(RecvError::Closed)) => return None,
            // Deviation (API-123): the reference leaves the events out without a word.
            Ok(Err(RecvError::Lagged(_))) => {
                let text = "the watch is too far behind; begin anew";
                return Some(Err(Status::new(Code::Aborted, text)));
            }
        }
    }
}

/// Whether a change is older than the version that a watch begins at (API-123). What is gone has no version of its end,
/// and is told.
pub(super) fn is_before(kind: ChangeKind, version: &str, since: u64) -> bool {
    kind != ChangeKind::Deleted && version.parse::<u64>().is_ok_and(|version| version < since)
}

/// Whether an object came after the version that a watch begins at, which is no number where everything is told first:
/// what was written between a list and the watch after it is told, too (API-124).
pub(super) fn is_after(version: &str, since: &str) -> bool {
    matches!((version.parse::<u64>(), since.parse::<u64>()), (Ok(version), Ok(since)) if version > since)
}
