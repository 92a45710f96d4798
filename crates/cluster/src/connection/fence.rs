//! Who may write: whoever holds the installation's lease, and nobody for longer than it was renewed (F28).
//!
//! A process that stood still for a while does not know that another one took over. So the right to write ends by
//! itself, on the process's own clock, before anybody else can have it; requests under way are given up then.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Connection;
use crate::error::ApiError;

/// The right to write, up to a time. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    until: Arc<watch::Sender<Option<Instant>>>,
    is_read_only: bool,
}

impl Fence {
    /// Nothing may be written before the first [`Fence::open_until`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing may ever be written: the process only looks.
    pub fn read_only() -> Self {
        Self { is_read_only: true, ..Self::default() }
    }

    fn refusal(&self) -> ApiError {
        if self.is_read_only { ApiError::ReadOnly } else { ApiError::Fenced }
    }

    /// Writes are allowed up to this time.
    pub fn open_until(&self, until: Instant) {
        self.until.send_replace(Some(until));
    }

    /// Nothing may be written from now on.
    pub fn close(&self) {
        self.until.send_replace(None);
    }

    /// Whether writes are allowed now.
    pub fn is_open(&self) -> bool {
        !self.is_read_only && self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until writes are not allowed.
    async fn closed(&self) {
        let mut until = self.until.subscribe();
        loop {
            let open = *until.borrow_and_update();
            let Some(open) = open.filter(|open| Instant::now() < *open) else { return };
            // Cancel-safe: both only wait. The sender lives as long as this.
            tokio::select! {
                biased;
                _changed = until.changed() => {}
                () = tokio::time::sleep_until(open) => {}
            }
        }
    }

    /// Does a write while it is allowed.
    pub(super) async fn guard<T>(
        &self,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        if !self.is_open() {
            return Err(self.refusal());
        }
        // Cancel-safe: a request that is given up may have been carried out, as one whose answer was lost.
        tokio::select! {
            biased;
            () = self.closed() => Err(self.refusal()),
            done = work => done,
        }
    }
}

impl Connection {
    /// The same connection, over which nothing is written while the fence is closed.
    #[must_use]
    pub fn fenced(&self, fence: &Fence) -> Self {
        Self { fence: Some(fence.clone()), ..self.clone() }
    }

    pub(super) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::Full;

    use super::*;
    use crate::connection::Call;

    fn call(path: &str) -> Call {
        Call::get("test", path, Duration::from_mins(1))
    }

    fn write(path: &str) -> Call {
        call(path).with_body(Method::PUT, "{}", "application/json")
    }

    /// F28: reads go through; writes only while the fence is open, also those that began before.
    #[tokio::test(start_paused = true)]
    async fn f28_nothing_is_written_behind_a_closed_fence() {
        let answer = async |request: Request<Bytes>| {
            if request.uri().path() == "/slow" {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(Full::new(Bytes::from("{}"))))
        };
        let fence = Fence::new();
        let connection = Connection::over("https://c.example", answer).fenced(&fence);
        assert!(connection.call(&call("/a")).await.is_ok());
        assert!(matches!(connection.call(&write("/a")).await, Err(ApiError::Fenced)));
        fence.open_until(Instant::now() + Duration::from_secs(5));
        assert!(connection.call(&write("/a")).await.is_ok());
        let begun = Instant::now();
        assert!(matches!(connection.call(&write("/slow")).await, Err(ApiError::Fenced)));
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert!(!fence.is_open());
    }
    /// A process that only looks cannot write, whoever forgets to ask.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_may_only_be_read_refuses_every_change() {
        let answer = async |_: Request<Bytes>| Ok(Response::new(Full::new(Bytes::from("{}"))));
        let fence = Fence::read_only();
        let connection = Connection::over("https://c.example", answer).fenced(&fence);
        fence.open_until(Instant::now() + Duration::from_secs(5));
        assert!(connection.call(&call("/a")).await.is_ok());
        assert!(matches!(connection.call(&write("/a")).await, Err(ApiError::ReadOnly)));
    }
}
