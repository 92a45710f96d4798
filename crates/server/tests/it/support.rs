//! A server with an API that does what its requests say, and clients of both versions of HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_server::call::{Admitted, Api, Head, Message, Pieces, Reply, Requests, Status};
use tiphys_server::counts::Step;
use tiphys_server::http::cookie::Cookies;
use tiphys_server::http::{Bounds, Budget, Front, FrontOptions};
use tiphys_server::identity::{Claims, Identity};
use tiphys_server::listen::{Listener, OwnHosts};
use tiphys_wire::proto::{Limits, Secrets, decode, encode};
use tiphys_wire::schema;
use tiphys_wire::status::Code;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Bearers of this token are known.
pub(crate) const TOKEN: &str = "a.b.c";

/// Answers by what is asked: names of accounts and applications are instructions.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) ended: Mutex<Vec<(String, Code)>>,
    pub(crate) steps: Mutex<Vec<Step>>,
}

impl Api for Scripted {
    fn admit(self: Arc<Self>, head: Head) -> BoxFuture<'static, Result<Admitted, Status>> {
        async move {
            let token = head.metadata("token").or_else(|| head.header("authorization"));
            let identity = match token.map(|token| token.trim_start_matches("Bearer ")) {
                Some(TOKEN) => Identity::Known(Claims::default()),
                Some("renew") => {
                    let renewed_token = Some(Secret::new("fresh".to_owned()));
                    return Ok(Admitted {
                        head,
                        identity: Identity::Known(Claims::default()),
                        renewed_token,
                    });
                }
                Some(_) => return Err(Status::new(Code::Unauthenticated, "invalid session: no")),
                None => Identity::Anonymous,
            };
            Ok(Admitted { head, identity, renewed_token: None })
        }
        .boxed()
    }

    fn call(
        self: Arc<Self>,
        call: Admitted,
        requests: Requests,
    ) -> BoxFuture<'static, Result<Reply, Status>> {
        async move {
            let request = match requests {
                Requests::One(request) => request,
                Requests::Stream(stream) => {
                    let all: Vec<Value> =
                        stream.collect::<Vec<_>>().await.into_iter().collect::<Result<_, _>>()?;
                    return Ok(Reply::value(json!({"revision": all.len().to_string()})));
                }
            };
            let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            match call.head.description().path.as_str() {
                "/session.SessionService/Create" => {
                    let session = Some(Secret::new(text("username")));
                    Ok(Reply { session, ..Reply::value(json!({"token": text("username")})) })
                }
                "/application.ApplicationService/PodLogs" => Ok(Reply::stream(logs(&text("name")))),
                "/application.ApplicationService/Watch" => Ok(Reply::stream(events())),
                "/application.ApplicationService/List" => {
                    let selector = text("selector");
                    let written = move |_| list(&selector);
                    Ok(Reply::message(Message::written(Arc::new(written))))
                }
                "/application.ApplicationService/Get" => match text("name").as_str() {
                    "panic" => panic!("as asked"),
                    "slow" => std::future::pending().await,
                    "denied" => Err(Status::new(Code::PermissionDenied, "permission denied: 100% ä\nno")),
                    "bad" => Ok(Reply::value(json!({"metadata": {"name": 5}}))),
                    name => Ok(Reply::value(json!({"metadata": {"name": name}}))),
                },
                "/application.ApplicationService/GetManifests" => {
                    Ok(Reply::value(json!({"manifests": ["x".repeat(100_000)]})))
                }
                _ => Ok(Reply::value(request)),
            }
        }
        .boxed()
    }

    fn step(&self, _: &Head, step: Step) {
        self.steps.lock().push(step);
    }

    fn ended(&self, head: &Head, _: Option<&Identity>, code: Code, _: Duration) {
        self.ended.lock().push((head.description().name.to_owned(), code));
    }
}

/// A small list, a large one, or one that breaks off where nobody sees it from the beginning.
fn list(selector: &str) -> Pieces {
    let large = || (0..20).map(|n: u8| Ok(Bytes::from(vec![b'a' + n; 20_000])));
    match selector {
        "large" => Box::new(large()),
        "breaks" => Box::new(large().chain([Err(Status::internal("broken"))]).chain(large())),
        _ => Box::new([b"abc", b"def"].map(|piece| Ok(Bytes::from_static(piece))).into_iter()),
    }
}

fn logs(name: &str) -> futures::stream::BoxStream<'static, Result<Message, Status>> {
    let entry = |content: &str, last: bool| {
        Ok(Message::new(json!({"content": content, "last": last, "podName": "p", "timeStampStr": "t"})))
    };
    let items = match name {
        "fails" => vec![entry("one", false), Err(Status::new(Code::Unavailable, "gone"))],
        "panics" => {
            return futures::stream::once(async { panic!("as asked") }).boxed();
        }
        "endless" => {
            return futures::stream::iter([entry("one", false)]).chain(futures::stream::pending()).boxed();
        }
        _ => vec![entry("one", false), entry("two\r", false), entry("", true)],
    };
    futures::stream::iter(items).boxed()
}

fn events() -> futures::stream::BoxStream<'static, Result<Message, Status>> {
    let event = |kind: &str, name: &str, version: &str| {
        let value = json!({"type": kind, "application":
            {"metadata": {"name": name, "resourceVersion": version}, "spec": {"project": "p"}}});
        Ok(Message::new(value).about(name.into()))
    };
    let all = [
        event("ADDED", "a", "1"),
        event("MODIFIED", "a", "2"),
        event("MODIFIED", "b", "3"),
        event("MODIFIED", "a", "4"),
    ];
    futures::stream::iter(all).boxed()
}

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) api: Arc<Scripted>,
    pub(crate) address: SocketAddr,
    pub(crate) stopping: CancellationToken,
    pub(crate) running: tokio::task::JoinHandle<()>,
}

pub(crate) fn options() -> FrontOptions {
    FrontOptions {
        root_path: String::new(),
        content_types: vec!["application/json".to_owned()],
        gzip: true,
        cookies: Cookies::new("/", false, 20),
        bounds: Bounds {
            message_bytes_max: 300_000,
            body_bytes_max: 200_000,
            unknown_bytes_max: 1_000,
            small_bytes_max: 64 << 10,
        },
        budget: Budget::default(),
        own_hosts: OwnHosts::default(),
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(options(), |front| front, None).await
    }

    pub(crate) async fn with(
        options: FrontOptions,
        extend: impl FnOnce(Front) -> Front,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let api = Arc::new(Scripted::default());
        let stopping = CancellationToken::new();
        let as_api: Arc<dyn Api> = Arc::<Scripted>::clone(&api);
        let front = extend(Front::new(as_api, options, stopping.clone()));
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = Arc::new(ArcSwap::from_pointee(front));
        let listener = Listener::new(socket, front, Arc::new(ArcSwapOption::new(tls)));
        let address = listener.address().unwrap();
        let running = tokio::spawn(listener.run(stopping.clone()));
        Self { api, address, stopping, running }
    }

    /// Sends a request of HTTP/1.1 over a connection of its own.
    pub(crate) async fn http1(&self, request: Request<Bytes>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        drop(tokio::spawn(connection));
        sender.send_request(with_host(request)).await.unwrap()
    }

    /// Sends a request of HTTP/2 over a connection of its own.
    pub(crate) async fn http2(&self, request: Request<Bytes>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        drop(tokio::spawn(connection));
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("http://localhost{}", parts.uri).parse().unwrap();
        parts.version = http::Version::HTTP_2;
        sender.send_request(Request::from_parts(parts, Full::new(body))).await.unwrap()
    }

    /// Reads with `curl`'s words: a status, headers and a text.
    pub(crate) async fn get(&self, target: &str) -> (u16, HeaderMap, String) {
        read(self.http1(Request::get(target).body(Bytes::new()).unwrap()).await).await
    }

    pub(crate) async fn send(&self, verb: &str, target: &str, body: &str) -> (u16, HeaderMap, String) {
        let request = Request::builder()
            .method(verb)
            .uri(target)
            .header("content-type", "application/json")
            .body(Bytes::from(body.to_owned()))
            .unwrap();
        read(self.http1(request).await).await
    }
}

fn with_host(request: Request<Bytes>) -> Request<Full<Bytes>> {
    let (mut parts, body) = request.into_parts();
    parts.headers.insert("host", "localhost".parse().unwrap());
    Request::from_parts(parts, Full::new(body))
}

pub(crate) async fn read(response: Response<Incoming>) -> (u16, HeaderMap, String) {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
}

/// A request of gRPC.
pub(crate) fn call(path: &str, kind: &str, messages: &[Value]) -> Request<Bytes> {
    let id = schema().method(schema().method_at(path).unwrap()).request;
    let mut body = Vec::new();
    for message in messages {
        let bytes = encode(schema(), id, message, Secrets::Kept).unwrap();
        body.push(0);
        body.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
        body.extend_from_slice(&bytes);
    }
    Request::post(path).header("content-type", kind).header("te", "trailers").body(Bytes::from(body)).unwrap()
}

/// What gRPC answered.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answered {
    pub(crate) messages: Vec<Value>,
    pub(crate) status: String,
    pub(crate) text: String,
}

/// Reads an answer of gRPC.
pub(crate) async fn answered(path: &str, response: Response<Incoming>) -> Answered {
    let headers = response.headers().clone();
    let collected = response.into_body().collect().await.unwrap();
    let mut fields = headers;
    fields.extend(collected.trailers().cloned().unwrap_or_default());
    let bytes = collected.to_bytes();
    let (messages, rest) = messages(path, &bytes);
    assert!(rest.is_empty(), "{rest:?}");
    let text = |name: &str| fields.get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
    Answered { messages, status: text("grpc-status"), text: text("grpc-message") }
}

/// The messages of a body, and the trailers of gRPC-web after them.
pub(crate) fn messages(path: &str, mut bytes: &[u8]) -> (Vec<Value>, String) {
    let id = schema().method(schema().method_at(path).unwrap()).response;
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let length = usize::try_from(u32::from_be_bytes(bytes[1..5].try_into().unwrap())).unwrap();
        let (flag, message) = (bytes[0], &bytes[5..5 + length]);
        bytes = &bytes[5 + length..];
        if flag == 0x80 {
            assert!(bytes.is_empty(), "trailers are last");
            return (found, String::from_utf8(message.to_vec()).unwrap());
        }
        found.push(decode(schema(), id, message, Limits::default()).unwrap());
    }
    (found, String::new())
}

/// Messages of an answer, one after the other.
pub(crate) struct Reading {
    path: &'static str,
    pub(crate) body: Incoming,
    read: Vec<u8>,
}

impl Reading {
    pub(crate) fn of(path: &'static str, body: Incoming) -> Self {
        Self { path, body, read: Vec::new() }
    }

    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let length = |read: &[u8]| u32::from_be_bytes(read[1..5].try_into().unwrap()) as usize + 5;
            if self.read.len() >= 5 && self.read.len() >= length(&self.read) {
                let message: Vec<u8> = self.read.drain(..length(&self.read)).collect();
                return messages(self.path, &message).0.remove(0);
            }
            self.read.extend(self.body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
    }
}
