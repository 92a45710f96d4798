//! Work on other threads: blocking, bounded in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tiphys_exec::ExecError;
use tokio::sync::Semaphore;

use crate::SourceError;

/// Short reads that run at a time. Each takes some fifty microseconds, and each thread keeps memory of its own, so a few
/// are enough.
static READS: Semaphore = Semaphore::const_new(4);

/// Runs file access and decoding off the async threads (STY-80): work that is short by itself.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    // It is never closed.
    let _turn = READS.acquire().await;
    long(work).await
}

/// The same for work that may take long: a walk through large trees, the removal of many files, a disk of somebody else's.
/// It keeps nobody's short reads waiting.
pub(crate) async fn long<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let failed = |_panic| SourceError::Cache { text: "reading the repository failed".to_owned() };
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// Like [`blocking`], for work that a server can make long: it is told to end when time is up, or when nobody waits
/// for it any more, and is then waited for.
pub(crate) async fn interruptible<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&AtomicBool) -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let interrupt = Interrupt::default();
    let told = Arc::clone(&interrupt.0);
    let task = long(move || work(&told));
    tokio::pin!(task);
    if let Ok(result) = tokio::time::timeout(limit, &mut task).await {
        return result;
    }
    interrupt.0.store(true, Ordering::Relaxed);
    // What was done before it was told counts.
    let text = format!("adding what the server sent failed {}", ExecError::Timeout { after: limit });
    task.await.map_err(|_interrupted| SourceError::Timeout { text })
}

/// Tells work on another thread to end when the value goes.
#[derive(Default)]
struct Interrupt(Arc<AtomicBool>);

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works until it is told to end; says so through the channel.
    fn endless(
        told: tokio::sync::oneshot::Sender<()>,
    ) -> impl FnOnce(&AtomicBool) -> Result<(), SourceError> {
        move |interrupt| {
            while !interrupt.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let _ = told.send(());
            Err(SourceError::Cache { text: "told".to_owned() })
        }
    }

    /// INV-13: work in this process ends at the time limit of git commands, and when nobody waits for it.
    #[tokio::test]
    async fn inv_13_endless_work_on_a_pack_is_told_to_end() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let error = interruptible(Duration::from_millis(10), endless(tell)).await.unwrap_err();
        assert_eq!(
            error,
            SourceError::Timeout { text: "adding what the server sent failed timeout after 10ms".to_owned() }
        );
        assert!(told.await.is_ok());

        let (tell, told) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(interruptible(Duration::from_hours(1), endless(tell)));
        tokio::task::yield_now().await;
        waiting.abort();
        // Told, or never begun.
        drop(told.await);
    }
}
