//! One connection: what it speaks, and how long it may take.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::meter::{Meter, Metered};
use crate::http::{Body, Front, body, plain};

/// Time for the first byte, and for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the head of a request; a connection without requests is closed after it, too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a head: twenty cookies of four kilobytes fit in.
const HEAD_BYTES_MAX: usize = 128 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 128;
/// Requests at the same time on a connection of HTTP/2; a browser with many streams stays below.
const STREAMS_MAX: u32 = 100;
/// Bytes that a client of HTTP/2 may send of one request, and of all on a connection, before they are read.
const STREAM_BYTES_MAX: u32 = 64 << 10;
const CONNECTION_BYTES_MAX: u32 = 256 << 10;
/// Bytes of an answer that wait in a stream of HTTP/2.
const SEND_BYTES_MAX: usize = 64 << 10;
/// Silence after which the other end is asked whether it is there …
const PING_INTERVAL: Duration = Duration::from_mins(1);
/// … and the time it has to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The first byte of TLS.
const TLS_RECORD: u8 = 0x16;

/// What stands behind a port.
#[derive(Debug)]
pub struct Doors {
    pub(crate) front: Arc<ArcSwap<Front>>,
    pub(crate) tls: Arc<ArcSwapOption<rustls::ServerConfig>>,
    /// The address of the listener, where the system says it.
    pub(crate) listening: Option<IpAddr>,
}

impl Doors {
    /// Serves a connection to its end.
    pub(super) async fn serve(&self, stream: TcpStream, peer: SocketAddr, stopping: CancellationToken) {
        let mut first = [0_u8];
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.peek(&mut first)).await {
            Ok(Ok(1)) => {}
            // Nobody speaks.
            _ => return,
        }
        let is_tls = first == [TLS_RECORD];
        match (self.tls.load_full(), is_tls) {
            (Some(config), true) => {
                let accepting = TlsAcceptor::from(config).accept(stream);
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await {
                    Ok(Ok(stream)) => self.requests(stream, peer, stopping).await,
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                    Err(_elapsed) => tracing::debug!(%peer, "TLS handshake took too long"),
                }
            }
            (Some(_), false) => self.redirects(stream, peer, stopping).await,
            (None, true) => tracing::debug!(%peer, "TLS on a port without TLS"),
            (None, false) => self.requests(stream, peer, stopping).await,
        }
    }

    /// Serves the requests of a connection.
    pub(crate) async fn requests<S>(&self, stream: S, peer: SocketAddr, stopping: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        let meter = Meter::new(self.front.load().budget().clone(), peer.ip());
        let stream = Metered::new(stream, meter.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            meter.progress();
            request.extensions_mut().insert(meter.clone());
            let front = self.front.load_full();
            let is_ours = self.is_ours(&front, &request);
            async move {
                Ok::<_, Infallible>(if is_ours { front.serve(request, peer).await } else { misdirected() })
            }
        });
        let builder = builder();
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // Which version is spoken is found out without any time limit of its own.
        let silence = async {
            tokio::time::sleep(HEAD_TIMEOUT).await;
            if has_asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        // Cancel-safe: the connection is only polled.
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = silence => return,
            () = stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, error, "connection ended");
        }
    }

    /// Whether a request names this server.
    fn is_ours(&self, front: &Front, request: &Request<Incoming>) -> bool {
        let is_named = |ip| front.own_hosts().are_named(ip, request.uri(), request.headers());
        self.listening.is_none_or(is_named)
    }

    /// Sends those who speak plain text to the same place over TLS (API-3).
    async fn redirects(&self, stream: TcpStream, peer: SocketAddr, stopping: CancellationToken) {
        let service = service_fn(move |request: Request<Incoming>| {
            let front = self.front.load_full();
            let response = if self.is_ours(&front, &request) {
                redirect(&request, front.root_path())
            } else {
                misdirected()
            };
            async move { Ok::<_, Infallible>(response) }
        });
        let builder = builder();
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        // Cancel-safe: nothing is lost of a redirect, and whoever has not asked by then does not want one.
        tokio::select! {
            () = tokio::time::sleep(HEAD_TIMEOUT) => {}
            served = connection => {
                if let Err(error) = served {
                    tracing::debug!(%peer, error, "connection ended");
                }
            }
            () = stopping.cancelled() => {}
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_BYTES_MAX)
        .initial_connection_window_size(CONNECTION_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// The answer to a request for another server.
fn misdirected() -> Response<Body> {
    let text = "Misdirected Request: this server listens on loopback and answers for names of loopback, and for the \
                host of `url` in argocd-cm\n";
    plain(StatusCode::MISDIRECTED_REQUEST, text)
}

fn redirect(request: &Request<Incoming>, root_path: &str) -> Response<Body> {
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
    let target = target(host, request.uri().path(), request.uri().query(), root_path);
    let Some(target) = target.and_then(|target| HeaderValue::from_str(&target).ok()) else {
        return plain(StatusCode::BAD_REQUEST, "Bad Request\n");
    };
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(header::LOCATION, target);
    response
}

/// Where a plain request belongs; `None` when it does not say where it thinks it is.
fn target(host: Option<&str>, path: &str, query: Option<&str>, root_path: &str) -> Option<String> {
    let host = host.filter(|host| !host.is_empty() && !host.contains(['/', '\\', '@', ' ', '?', '#']))?;
    let is_below = path.strip_prefix('/').is_some_and(|rest| {
        let rest = rest.strip_prefix(root_path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    let prefix = if root_path.is_empty() || is_below { String::new() } else { format!("/{root_path}") };
    // What is no path at all, such as `*`, goes to the root.
    let path = if path.starts_with('/') { path } else { "/" };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("https://{host}{prefix}{path}{query}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use tiphys_wire::status::Code;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::time::Instant;

    use super::*;
    use crate::call::{Admitted, Api, Head, Reply, Requests, Status};
    use crate::http::cookie::Cookies;
    use crate::http::{Bounds, Budget, FrontOptions};
    use crate::identity::Identity;
    use crate::listen::OwnHosts;

    struct Nothing;

    impl Api for Nothing {
        fn admit(self: Arc<Self>, head: Head) -> BoxFuture<'static, Result<Admitted, Status>> {
            async { Ok(Admitted { head, identity: Identity::Anonymous, renewed_token: None }) }.boxed()
        }

        fn call(self: Arc<Self>, _: Admitted, _: Requests) -> BoxFuture<'static, Result<Reply, Status>> {
            async { Ok(Reply::value(serde_json::Value::Null)) }.boxed()
        }

        fn ended(&self, _: &Head, _: Option<&Identity>, _: Code, _: Duration) {}
    }

    /// A connection in memory that is served on a clock that stands still.
    fn served() -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let options = FrontOptions {
            root_path: String::new(),
            content_types: Vec::new(),
            gzip: false,
            cookies: Cookies::new("/", false, 20),
            bounds: Bounds::default(),
            budget: Budget::default(),
            own_hosts: OwnHosts::default(),
        };
        let front = Front::new(Arc::new(Nothing), options, CancellationToken::new());
        let front = Arc::new(ArcSwap::from_pointee(front));
        let doors = Doors { front, tls: Arc::default(), listening: None };
        let (client, server) = tokio::io::duplex(1 << 16);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let task = async move { doors.requests(server, peer, CancellationToken::new()).await };
        (client, tokio::spawn(task))
    }

    #[tokio::test(start_paused = true)]
    async fn sec_48_heads_that_never_end_are_not_waited_for() {
        for begin in ["P", "PRI * HTTP/2.0\r\n", "GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n"] {
            let (mut client, served) = served();
            let began = Instant::now();
            client.write_all(begin.as_bytes()).await.unwrap();
            served.await.unwrap();
            assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs(), "{begin:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sec_48_a_connection_without_further_requests_is_closed() {
        let (mut client, served) = served();
        client.write_all(b"GET /api/version HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
        served.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn sec_48_bodies_that_never_come_are_not_waited_for() {
        let (mut client, served) = served();
        let began = Instant::now();
        let head =
            "POST /api/v1/session HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{";
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("did not arrive in time"), "{answer}");
        assert_eq!(began.elapsed().as_secs(), 5, "a caller who is not known");
        served.await.unwrap();
    }

    /// Bytes that trickle hold memory as much as bytes that never come.
    #[tokio::test(start_paused = true)]
    async fn sec_48_bodies_that_trickle_are_not_waited_for() {
        let (mut client, served) = served();
        let began = Instant::now();
        let head =
            "POST /api/v1/session HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 999\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = tokio::io::split(client);
        let trickle = async {
            while writing.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        };
        let mut answer = String::new();
        tokio::select! {
            read = reading.read_to_string(&mut answer) => drop(read.unwrap()),
            () = trickle => {}
        }
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert_eq!(began.elapsed().as_secs(), 5, "a caller who is not known");
        served.await.unwrap();
    }

    #[test]
    fn api_3_plain_requests_are_sent_to_tls() {
        let to = |host, path, query, root| target(Some(host), path, query, root);
        assert_eq!(to("a.example:8080", "/x", Some("b=c"), "").unwrap(), "https://a.example:8080/x?b=c");
        assert_eq!(to("a", "/x", None, "argo").unwrap(), "https://a/argo/x");
        assert_eq!(to("a", "/argo/x", None, "argo").unwrap(), "https://a/argo/x");
        assert_eq!(to("a", "/argo", None, "argo").unwrap(), "https://a/argo");
        assert_eq!(to("a", "/argocd", None, "argo").unwrap(), "https://a/argo/argocd");
        assert_eq!(to("a", "*", None, "").unwrap(), "https://a/");
        for host in ["", "a/b", "evil@a", "a b"] {
            assert_eq!(to(host, "/", None, ""), None, "{host:?}");
        }
        assert_eq!(target(None, "/", None, ""), None);
    }
}
