//! A way to the API server that fails on request.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use futures::StreamExt;
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::BodyDataStream;
use hyper::body::Incoming;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::world::{Setup, World, kubeconfig};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is answered.
    None,
    /// It is answered late.
    Delay(Duration),
    /// It is refused with this code.
    Refuse(u16),
    /// A list is answered as if nothing existed.
    Empty,
    /// It gets no answer at all.
    Hang,
    /// It is carried out, and its answer gets lost.
    Lose,
}

type Choose = Box<dyn FnMut(&Method, &str) -> Fault + Send>;

struct Shared {
    api: Api,
    choose: Mutex<Choose>,
    writes: Mutex<Vec<String>>,
    streams: Mutex<CancellationToken>,
}

/// Forwards requests; drops everything when dropped.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(api: Api) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let choose: Choose = Box::new(|_, _| Fault::None);
        let shared = Arc::new(Shared {
            api,
            choose: Mutex::new(choose),
            writes: Mutex::default(),
            streams: Mutex::default(),
        });
        let router = Router::new()
            .fallback(forward)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            drop(axum::serve(listener, router).await);
        });
        Self { port, shared, task }
    }

    /// Writes a kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join(format!("proxy-{}.json", self.port));
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "users": [{"name": "u", "user": {"token": self.shared.api.token()}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Decides about the requests from now on, by method, path and query.
    pub(crate) fn fault(&self, choose: impl FnMut(&Method, &str) -> Fault + Send + 'static) {
        *self.shared.choose.lock().unwrap() = Box::new(choose);
    }

    /// Cuts every answer that is still going on, watches above all.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.shared.streams.lock().unwrap()).cancel();
    }

    /// Requests that changed something, since the last call.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.writes.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A world whose process talks through a proxy.
pub(crate) async fn behind_proxy(test: &str) -> Option<(World, Proxy)> {
    let proxy = Proxy::start(Api::from_kubeconfig(&kubeconfig()?)).await;
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup { kubeconfig: Some(proxy.kubeconfig(directory.path())), ..Setup::default() };
    let mut world = World::start_with(test, setup).await?;
    // Later processes need the file, too.
    world.launch.kubeconfig = proxy.kubeconfig(world.directory());
    Some((world, proxy))
}

async fn forward(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    if method != Method::GET {
        shared.writes.lock().unwrap().push(format!("{method} {target}"));
    }
    let fault = (shared.choose.lock().unwrap())(&method, &target);
    match fault {
        Fault::None | Fault::Empty | Fault::Lose => {}
        Fault::Delay(time) => tokio::time::sleep(time).await,
        Fault::Refuse(code) => return refusal(code),
        Fault::Hang => std::future::pending().await,
    }
    let kept = ["content-type", "accept", "accept-encoding"];
    let texts: Vec<(&str, &str)> = kept
        .into_iter()
        .filter(|name| fault != Fault::Empty || *name != "accept-encoding")
        .filter_map(|name| headers.get(name).and_then(|value| value.to_str().ok()).map(|value| (name, value)))
        .collect();
    let Ok(answer) = shared.api.send(method, &target, &texts, body).await else { return refusal(502) };
    if fault == Fault::Lose {
        std::future::pending::<()>().await;
    }
    let (parts, body) = answer.into_parts();
    if fault == Fault::Empty && target.contains("sendInitialEvents") {
        return without_initial_events(body).await;
    }
    if fault == Fault::Empty {
        use http_body_util::BodyExt as _;
        let Ok(bytes) = body.collect().await else { return refusal(502) };
        let mut list: serde_json::Value = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
        list["items"] = json!([]);
        if let Some(metadata) = list["metadata"].as_object_mut() {
            metadata.remove("continue");
            metadata.remove("remainingItemCount");
        }
        return Response::builder()
            .header("content-type", "application/json")
            .body(list.to_string().into())
            .unwrap();
    }
    let cut = shared.streams.lock().unwrap().clone();
    let mut response =
        Response::new(Body::from_stream(BodyDataStream::new(body).take_until(cut.cancelled_owned())));
    *response.status_mut() = parts.status;
    for (name, value) in &parts.headers {
        if !["transfer-encoding", "connection", "content-length"].contains(&name.as_str()) {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}

/// A streamed list without its objects; what happens later goes through.
async fn without_initial_events(body: Incoming) -> Response {
    let mut stream = BodyDataStream::new(body);
    let mut seen = Vec::new();
    while let Some(Ok(bytes)) = stream.next().await {
        seen.extend_from_slice(&bytes);
        let text = String::from_utf8_lossy(&seen).into_owned();
        let found = text.split_inclusive('\n').find(|line| line.contains("k8s.io/initial-events-end"));
        if let Some(line) = found.filter(|line| line.ends_with('\n')) {
            let first = futures::stream::iter([Ok(Bytes::from(line.to_owned()))]);
            return Response::new(Body::from_stream(first.chain(stream)));
        }
    }
    refusal(502)
}

fn refusal(code: u16) -> Response {
    let reason = match code {
        403 => "Forbidden",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the test", "reason": reason, "code": code});
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .header("content-type", "application/json")
        .header("retry-after", "1")
        .body(status.to_string().into())
        .unwrap()
}
