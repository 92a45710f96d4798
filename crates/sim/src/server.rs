//! The server on a socket: TLS with a certificate of its own, and a bearer token.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::sim::{BODY_BYTES_MAX, Body, Sim, plain};
use crate::status::Status;

/// A listening server. It ends when it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    certificate: String,
    token: String,
    task: tokio::task::JoinHandle<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on an address; port 0 is any free one. The token is drawn anew for every server.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on, or no certificate can be made.
    pub async fn start(sim: Sim, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (acceptor, certificate) = tls(address).map_err(io::Error::other)?;
        let token = token()?;
        sim.set_address(address.to_string());
        let expected: Arc<str> = format!("Bearer {token}").into();
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _peer)) = listener.accept().await else {
                    // Out of descriptors, mostly: others may become free.
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                };
                let (sim, acceptor, expected) = (sim.clone(), acceptor.clone(), Arc::clone(&expected));
                tokio::spawn(connection(stream, acceptor, sim, expected));
            }
        });
        Ok(Self { address, certificate, token, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig with which everything is allowed.
    pub fn kubeconfig(&self) -> String {
        let cluster = json!({"server": format!("https://{}", self.address),
            "certificate-authority-data": STANDARD.encode(&self.certificate)});
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tiphys",
            "clusters": [{"name": "tiphys", "cluster": cluster}],
            "users": [{"name": "tiphys", "user": {"token": self.token}}],
            "contexts": [{"name": "tiphys",
                "context": {"cluster": "tiphys", "user": "tiphys", "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }

    /// Stops listening. Connections end with their clients.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn tls(address: SocketAddr) -> Result<(TlsAcceptor, String), Box<dyn std::error::Error + Send + Sync>> {
    let names =
        vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), address.ip().to_string()];
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), made.cert.pem()))
}

/// A token that cannot be guessed, whatever the seed of the simulation.
fn token() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_error| io::Error::other("no randomness for a token"))?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, sim: Sim, expected: Arc<str>) {
    // Small answers must not wait for others; a socket that cannot is as good.
    drop(stream.set_nodelay(true));
    let stream = match acceptor.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake with the embedded API server failed");
            return;
        }
    };
    let service = service_fn(move |request| answer(sim.clone(), Arc::clone(&expected), request));
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(1_000);
    let served = builder.serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::trace!(error, "a connection to the embedded API server ended");
    }
}

async fn answer(
    sim: Sim,
    expected: Arc<str>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let given = parts.headers.get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
    if !given.starts_with(b"Bearer ") {
        if let Some(status) = crate::request::refuse_anonymous(&parts) {
            return Ok(refuse(&status));
        }
    } else if !is_equal(given, expected.as_bytes()) {
        return Ok(refuse(&Status::new(401, "Unauthorized", "Unauthorized")));
    }
    let bytes: Bytes = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return Ok(refuse(&Status::new(413, "RequestEntityTooLarge", message)));
        }
        Err(_gone) => return Ok(refuse(&Status::bad_request("the body of the request ended early"))),
    };
    let is_head = parts.method == http::Method::HEAD;
    let response = sim.call(Request::from_parts(parts, bytes)).await;
    Ok(if is_head { response.map(|_body| Full::new(Bytes::new()).boxed_unsync()) } else { response })
}

fn refuse(status: &Status) -> Response<Body> {
    plain(status.code, "application/json", crate::store::bytes_of(&status.to_value()))
}

/// Compares in a time that does not tell where the difference is.
fn is_equal(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len()
        && given.iter().zip(expected).fold(0_u8, |all, (one, other)| all | (one ^ other)) == 0
}
