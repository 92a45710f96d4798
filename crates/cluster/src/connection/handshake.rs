//! How long a server may take to prove who it is (REP-108).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use tokio::sync::Notify;
use tower::{BoxError, Service};

tokio::task_local! {
    /// Told when the way that TLS is spoken over is open.
    static OPEN: Arc<Notify>;
}

/// Says that the way is open that TLS is spoken over; to be put around what opens it.
pub(super) fn announce<T>(way: T) -> T {
    // Nobody waits for it where nothing is bounded.
    let _told = OPEN.try_with(|open| open.notify_one());
    way
}

/// Opens connections, and gives up those whose handshake takes longer than a limit. The time until the way was open has
/// a limit of its own.
#[derive(Clone)]
pub(super) struct Handshake<C> {
    connector: C,
    limit: Option<Duration>,
}

impl<C> Handshake<C> {
    pub(super) fn new(connector: C, limit: Option<Duration>) -> Self {
        Self { connector, limit }
    }
}

impl<C> Service<Uri> for Handshake<C>
where
    C: Service<Uri>,
    C::Response: Send,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let open = Arc::new(Notify::new());
        let connector = &mut self.connector;
        let connecting = OPEN.sync_scope(Arc::clone(&open), || connector.call(server));
        let connecting = OPEN.scope(Arc::clone(&open), connecting);
        let limit = self.limit;
        Box::pin(async move {
            let Some(limit) = limit else { return connecting.await.map_err(Into::into) };
            let mut connecting = Box::pin(connecting);
            tokio::select! {
                biased;
                done = &mut connecting => return done.map_err(Into::into),
                () = open.notified() => {}
            }
            match tokio::time::timeout(limit, connecting).await {
                Ok(done) => done.map_err(Into::into),
                Err(_) => Err(format!("no TLS handshake within {limit:?}").into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Opens at once or after a while, and then proves who it is, or never does.
    fn connector(
        opens_after: u64,
        proves_after: u64,
    ) -> impl Service<Uri, Response = &'static str, Error = Infallible, Future: Send + 'static> {
        tower::service_fn(move |_server: Uri| async move {
            tokio::time::sleep(Duration::from_secs(opens_after)).await;
            let way = announce("way");
            tokio::time::sleep(Duration::from_secs(proves_after)).await;
            Ok(way)
        })
    }

    async fn open(opens_after: u64, proves_after: u64, limit: Option<u64>) -> Result<&'static str, String> {
        let limit = limit.map(Duration::from_secs);
        let mut handshake = Handshake::new(connector(opens_after, proves_after), limit);
        handshake.call(Uri::from_static("https://c.example")).await.map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn rep_108_only_the_handshake_counts() {
        assert_eq!(open(60, 9, Some(10)).await, Ok("way"));
        assert_eq!(open(0, 11, Some(10)).await, Err("no TLS handshake within 10s".to_owned()));
        assert_eq!(open(0, 3_600, None).await, Ok("way"));
    }
}
