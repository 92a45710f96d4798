//! The API server beside a simulated controller, and the tenant's connection to it.
//!
//! Nothing goes wrong between this server and Kubernetes: faults belong to the controller. Every write it makes is
//! made for the tenant, the only caller, and is judged as such (INV-6).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tiphys_cluster::Connection;
use tiphys_control::Controller;
use tiphys_process::api_server::{self, Place};
use tiphys_server::process::Server;
use tiphys_source::Clock;

use super::hostile::judge;
use super::model::CONTROL_PLANE;
use super::wire::{Body, Error, Wires, full, whole};
use super::world::SERVER;

/// Virtual time that one call may take.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// Bytes between the tenant and the server that wait for the other side.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of an answer that are read; a stream goes on after them.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// One call of the tenant.
#[derive(Clone, Debug)]
pub(super) struct ApiCall {
    pub(super) method: Method,
    pub(super) target: String,
    /// JSON; null for none.
    pub(super) body: Value,
}

impl ApiCall {
    pub(super) fn new(method: Method, target: impl Into<String>, body: Value) -> Self {
        Self { method, target: target.into(), body }
    }

    pub(super) fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target, Value::Null)
    }

    /// Everything that the caller wrote.
    pub(super) fn text(&self) -> String {
        let body = if self.body.is_null() { String::new() } else { self.body.to_string() };
        format!("{} {} {body}", self.method, self.target)
    }
}

/// The answer; of a stream, the part that arrived before it paused.
#[derive(Clone, Debug)]
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    pub(super) text: String,
}

/// An API server of a run.
pub(super) struct ApiServer {
    server: Server,
    is_cut: Arc<AtomicBool>,
    token: String,
}

impl ApiServer {
    /// Starts a server beside a controller.
    ///
    /// # Errors
    /// With the reason, where it does not start.
    pub(super) async fn start(
        wires: &Arc<Wires>,
        controller: &Controller,
        clock: &Clock,
        token: String,
    ) -> Result<Self, String> {
        let is_cut = Arc::new(AtomicBool::new(false));
        let wire = ApiWire { wires: Arc::clone(wires), is_cut: Arc::clone(&is_cut) };
        let connection = Connection::over(SERVER, move |request| wire.clone().handle(request));
        let server = api_server::open(&Router::new(), &[], false);
        let place = Place {
            connection,
            namespace: CONTROL_PLANE.to_owned(),
            env: BTreeMap::new(),
            read_only: true,
            insecure: true,
            makes_certificate: false,
            extensions: None,
            clock: clock.clone(),
            jitter: Arc::new(|| 0.5),
        };
        let started = api_server::start(&server, controller, place).await;
        let this = Self { server, is_cut, token };
        match started {
            Ok(()) => Ok(this),
            Err(error) => {
                this.abandon();
                Err(format!("{error:#}"))
            }
        }
    }

    /// Calls the server; `None` when it does not answer in time.
    pub(super) async fn call(&self, call: &ApiCall) -> Option<ApiAnswer> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        self.server.serve_stream(far, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let body = if call.body.is_null() { Bytes::new() } else { Bytes::from(call.body.to_string()) };
        let request = Request::builder()
            .method(call.method.clone())
            .uri(call.target.as_str())
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(body))
            .ok()?;
        let answering = async {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(near)).await.ok()?;
            let answer = async {
                let response = sender.send_request(request).await.ok()?;
                let status = response.status().as_u16();
                Some(ApiAnswer { status, text: read(response.into_body()).await })
            };
            // Cancel-safe: the connection is only polled.
            tokio::select! {
                answer = answer => answer,
                _ = connection => None,
            }
        };
        tokio::time::timeout(CALL_TIMEOUT, answering).await.ok().flatten()
    }

    /// Stops the server as a crash does.
    pub(super) fn abandon(self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.server.abandon();
    }
}

/// Reads a body to its end, or until nothing has come for a while.
async fn read(mut body: hyper::body::Incoming) -> String {
    const PAUSE: Duration = Duration::from_secs(5);
    let mut whole = Vec::new();
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(PAUSE, body.frame()).await {
        if let Ok(data) = frame.into_data() {
            whole.extend_from_slice(&data);
        }
        if whole.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&whole).into_owned()
}

/// The server's connection to Kubernetes.
#[derive(Clone)]
struct ApiWire {
    wires: Arc<Wires>,
    is_cut: Arc<AtomicBool>,
}

impl ApiWire {
    async fn handle(self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        if self.is_cut.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if is_watch {
            let response = self.wires.sim.handle(request);
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let before =
            (method != Method::GET && method != Method::POST).then(|| self.wires.get(&path)).flatten();
        let (parts, body) = self.wires.sim.handle(request).into_parts();
        let (_, bytes) = whole(Response::new(body));
        if method != Method::GET && parts.status.is_success() {
            let stored = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            judge::write(&self.wires, (&method, &path), before.as_ref(), &stored);
        }
        Ok(Response::from_parts(parts, full(bytes)))
    }
}
