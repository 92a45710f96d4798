//! Whether an API server answers at all, so that nobody waits long for one that does not (CTL-141, INV-16).
//!
//! A request that gets no answer for a while raises a *suspicion*. Whoever watches over the connection then asks
//! for the server's version, which needs neither storage nor admission: a slow webhook is no frozen server. When
//! nothing at all is answered, the server is *unreachable*: requests under way end, further ones fail at once,
//! until a question is answered again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Call, Connection};
use crate::error::ApiError;
use crate::watch::Jitter;

/// Silence that raises a suspicion.
const SUSPECT_AFTER: Duration = Duration::from_secs(3);
/// Time for the answer to a question.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Questions without an answer that convict.
const PROBES: u32 = 2;
/// Time between them.
const PROBE_PAUSE: Duration = Duration::from_millis(500);
/// First wait before a server that does not answer is asked again; doubles each time.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
/// Longest wait.
const AGAIN_MAX: Duration = Duration::from_secs(15);

/// What is known of one server.
pub(super) struct Reach {
    /// Why it is unreachable; `None` while it answers, or while nobody watches over it.
    lost: watch::Sender<Option<String>>,
    suspicion: Notify,
    /// Answers of any kind, refusals included.
    answers: AtomicU64,
}

impl Default for Reach {
    fn default() -> Self {
        Self { lost: watch::Sender::new(None), suspicion: Notify::new(), answers: AtomicU64::new(0) }
    }
}

impl Reach {
    fn reason(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    fn count(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Ends when the server is found to be unreachable; asks for the proof again and again.
    async fn given_up(&self) -> ApiError {
        let mut lost = self.lost.subscribe();
        loop {
            let reason = lost.borrow_and_update().clone();
            if let Some(reason) = reason {
                return ApiError::Unreachable { reason };
            }
            // Cancel-safe: both only wait. The sender lives as long as this.
            tokio::select! {
                biased;
                _changed = lost.changed() => {}
                () = tokio::time::sleep(SUSPECT_AFTER) => self.suspicion.notify_one(),
            }
        }
    }
}

/// What was found out is over when the server answers again, and when nobody watches any more.
struct Watching<'a>(&'a Reach);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.lost.send_if_modified(|lost| lost.take().is_some());
    }
}

impl Connection {
    /// Why the API server cannot be reached; `None` while it answers.
    pub fn unreachable(&self) -> Option<String> {
        self.shared.reach.reason()
    }

    /// Waits until the API server is known to be unreachable, and says why.
    pub(crate) async fn lost(&self) -> String {
        let mut lost = self.shared.reach.lost.subscribe();
        loop {
            let reason = lost.borrow_and_update().clone();
            if let Some(reason) = reason {
                return reason;
            }
            if lost.changed().await.is_err() {
                // The sender lives as long as this connection.
                return std::future::pending().await;
            }
        }
    }

    /// Waits until the API server is not known to be unreachable.
    pub(crate) async fn reachable(&self) {
        let mut lost = self.shared.reach.lost.subscribe();
        // The sender lives as long as this connection.
        drop(lost.wait_for(Option::is_none).await);
    }

    /// Makes a request unless the server is unreachable, and gives it up when the server turns out to be.
    pub(super) async fn guarded<T>(
        &self,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let reach = &self.shared.reach;
        if let Some(reason) = reach.reason() {
            return Err(ApiError::Unreachable { reason });
        }
        // Cancel-safe: a request that is given up may have been carried out, as one whose answer was lost.
        let done = tokio::select! {
            biased;
            done = work => done,
            error = reach.given_up() => return Err(error),
        };
        match &done {
            Err(ApiError::Unreachable { .. } | ApiError::Timeout { .. }) => reach.suspicion.notify_one(),
            _ => {
                reach.answers.fetch_add(1, Ordering::Relaxed);
            }
        }
        done
    }

    /// Watches over the server until it was unreachable and answers again.
    pub(crate) async fn watch_over(&self, jitter: &Jitter) {
        let reach = &self.shared.reach;
        let _watching = Watching(reach);
        let reason = loop {
            reach.suspicion.notified().await;
            if let Some(reason) = self.convict().await {
                break reason;
            }
        };
        tracing::warn!(server = self.server(), reason, "the cluster does not answer");
        reach.lost.send_replace(Some(reason));
        let mut wait = AGAIN_FIRST;
        loop {
            tokio::time::sleep(wait.mul_f64(0.5 + jitter().clamp(0.0, 1.0) / 2.0)).await;
            if self.probe().await.is_ok() {
                break;
            }
            wait = wait.saturating_mul(2).min(AGAIN_MAX);
        }
        tracing::info!(server = self.server(), "the cluster answers again");
    }

    /// Why the server is to be called unreachable: it answered none of our questions, nor anybody else's.
    async fn convict(&self) -> Option<String> {
        let before = self.shared.reach.count();
        let mut reason = None;
        for round in 0..PROBES {
            if round > 0 {
                tokio::time::sleep(PROBE_PAUSE).await;
            }
            match self.probe().await {
                Ok(()) => return None,
                Err(_) if self.shared.reach.count() != before => return None,
                Err(error) => reason = Some(error),
            }
        }
        reason.map(|error| match error {
            ApiError::Unreachable { reason } => reason,
            error => error.to_string(),
        })
    }

    /// One question; any answer will do.
    async fn probe(&self) -> Result<(), ApiError> {
        let call = Call::get("ask for the server's version", "/version", PROBE_TIMEOUT);
        let answer = tokio::time::timeout(call.timeout, self.attempt(&call))
            .await
            .map_err(|_elapsed| ApiError::Timeout { what: call.what, after: call.timeout })?;
        match answer {
            Err(error @ (ApiError::Unreachable { .. } | ApiError::Timeout { .. })) => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::Full;
    use tokio::time::Instant;

    use super::*;

    /// A server that answers what the function says, or nothing.
    fn server(answers: impl Fn(&Request<Bytes>) -> bool + Clone + Send + Sync + 'static) -> Connection {
        Connection::over("https://c.example", move |request: Request<Bytes>| {
            let answers = answers(&request);
            async move {
                if !answers {
                    std::future::pending::<()>().await;
                }
                Ok(Response::new(Full::new(Bytes::from("{}"))))
            }
        })
    }

    fn watched(connection: &Connection) -> Arc<AtomicU64> {
        let back = Arc::new(AtomicU64::new(0));
        let (connection, told) = (connection.clone(), Arc::clone(&back));
        tokio::spawn(async move {
            let jitter: Jitter = Arc::new(|| 0.5);
            loop {
                connection.watch_over(&jitter).await;
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
        back
    }

    fn write() -> Call {
        Call::get("write", "/a", Duration::from_mins(1)).with_body(Method::POST, "{}", "application/json")
    }

    /// CTL-141: nobody waits a minute for a server that answers nothing, and the next one does not wait at all.
    #[tokio::test(start_paused = true)]
    async fn ctl_141_requests_to_a_frozen_server_end_and_later_ones_fail_at_once() {
        let alive = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&alive);
        let connection = server(move |_| seen.load(Ordering::Relaxed));
        let back = watched(&connection);
        let begun = Instant::now();
        let first = connection.call(&write()).await;
        assert!(matches!(first, Err(ApiError::Unreachable { .. })), "{:?}", first.err());
        assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
        let begun = Instant::now();
        assert!(connection.call(&write()).await.is_err() && begun.elapsed().is_zero());
        alive.store(true, Ordering::Relaxed);
        connection.reachable().await;
        assert!(connection.call(&write()).await.is_ok());
        assert_eq!(back.load(Ordering::Relaxed), 1);
    }

    /// F9: a slow webhook holds one write up, and the server is not called unreachable for it.
    #[tokio::test(start_paused = true)]
    async fn f9_a_slow_write_to_a_server_that_answers_gets_its_whole_time() {
        let connection = server(|request| request.method() == Method::GET);
        watched(&connection);
        let begun = Instant::now();
        let slow = connection.call(&write()).await;
        assert!(matches!(slow, Err(ApiError::Timeout { .. })), "{:?}", slow.err());
        assert_eq!(begun.elapsed(), Duration::from_mins(1));
        assert_eq!(connection.unreachable(), None);
    }
}
