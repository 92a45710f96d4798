//! Bodies are read as far as their sender may send (SEC-48, INV-10, INV-16).

use bytes::Bytes;
use futures::StreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::home::{Client, Home, Setup};

const APPS: &str = "/api/v1/applications";
const CREATE: &str = "/application.ApplicationService/Create";
/// Bytes that every known caller may send.
const SMALL: usize = 64 << 10;

/// Bo is known and has no right; kim may create applications.
async fn home() -> Home {
    let policy = "p, kim, applications, *, shop/*, allow\n";
    let project = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.bo", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &project)
        .start()
        .await
}

/// Sends the head of a request and the beginning of its body, and waits for the answer without sending more. A body
/// without a length comes in chunks.
async fn begin(home: &Home, client: &Client<'_>, length: Option<usize>, sent: &[u8]) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(home.server.address).await.unwrap();
    let token = if client.token().is_empty() { String::new() } else { client.bearer() };
    let how = length.map_or_else(
        || "Transfer-Encoding: chunked".to_owned(),
        |length| format!("Content-Length: {length}"),
    );
    let head = format!(
        "POST {APPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Authorization: {token}\r\n{how}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = vec![0; 4_096];
    let count = stream.read(&mut answer).await.unwrap();
    (stream, String::from_utf8_lossy(&answer[..count]).into_owned())
}

/// SEC-48, B10: what a caller may not send is not read, and the refusal says which right is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_48_a_caller_without_a_right_sends_little() {
    let home = home().await;
    let chunk = [format!("{:x}\r\n", SMALL + 1).as_bytes(), &vec![b' '; SMALL + 1]].concat();
    for (length, sent) in [(Some(60 << 20), &[][..]), (None, &chunk)] {
        let (_stream, answer) = begin(&home, &home.account("bo"), length, sent).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("applications, create"), "{answer}");
    }
    let (_stream, answer) = begin(&home, &home.nobody(), Some(60 << 20), &[]).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

/// SEC-48: also with the right, no object is larger than a cluster stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_48_a_caller_with_a_right_sends_an_object() {
    let home = home().await;
    let kim = home.account("kim");
    let mut app = json!({"metadata": {"name": "web"}, "spec": {"project": "shop",
        "source": {"repoURL": "https://git/a", "path": "p", "helm": {"values": "x".repeat(500_000)}},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "n"}}});
    kim.ok("POST", APPS, &app).await;
    app["spec"]["source"]["helm"]["values"] = "x".repeat(5 << 20).into();
    assert_eq!(kim.refused("POST", APPS, &app).await.0, 429);
}

/// INV-10: a body of few bytes that becomes many values is refused before it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_10_a_body_of_countless_values_is_refused() {
    let home = home().await;
    let kim = home.account("kim");
    let items: Vec<Value> = vec![json!({"": 0}); 350_000];
    let app = json!({"metadata": {"name": "web"}, "spec": {"project": "shop", "source": {"helm": {"valuesObject": {"a": items}}}}});
    let (status, text) = kim.refused("POST", APPS, &app).await;
    assert_eq!(status, 429, "{text}");
    assert!(text.contains("values") || text.contains("in flight"), "{text}");
}

/// The status of a gRPC call that announces a message and sends part of it.
async fn grpc(home: &Home, client: &Client<'_>, announced: u32, sent: usize) -> (String, String) {
    let stream = TcpStream::connect(home.server.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    drop(tokio::spawn(connection));
    let mut first = vec![0];
    first.extend_from_slice(&announced.to_be_bytes());
    first.extend(vec![0; sent]);
    let pieces = futures::stream::iter([Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(first)))]);
    let body = StreamBody::new(pieces.chain(futures::stream::pending()));
    let request = Request::post(format!("http://localhost{CREATE}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", client.bearer())
        .body(body)
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let headers = response.headers().clone();
    drop(response.into_body().collect().await);
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    (text("grpc-status"), text("grpc-message"))
}

/// SEC-48, B10: the length of a message of gRPC decides before the message arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_48_a_message_of_grpc_is_refused_by_its_length() {
    let home = home().await;
    let (status, text) = grpc(&home, &home.account("bo"), 100 << 20, 1_000).await;
    assert_eq!(status, "7", "{text}");
    assert!(text.contains("applications, create"), "{text}");
    let (status, text) = grpc(&home, &home.account("kim"), 100 << 20, 1_000).await;
    assert_eq!(status, "8", "{text}");
    assert!(text.contains("larger than max"), "{text}");
}

/// INV-10, B10: the streams of one caller share one limit, whatever is announced and however slowly it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_10_the_streams_of_one_caller_share_a_limit() {
    let home = home().await;
    let bo = home.account("bo");
    let mut calls: futures::stream::FuturesUnordered<_> =
        (0..120).map(|_| grpc(&home, &bo, 60_000, 59_000)).collect();
    let (status, text) = calls.next().await.unwrap();
    assert_eq!(status, "8", "{text}");
    assert!(text.contains("in flight"), "{text}");
    // Others are not concerned.
    assert_eq!(home.account("kim").get(APPS).await.0, 200);
}

/// INV-16: callers without a session can fill the room of such callers; a caller with a token is served all the same, also
/// from the same address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_48_bodies_of_unknown_callers_keep_no_known_one_out() {
    let home = home().await;
    let kim = home.account("kim");
    let head = "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 16384\r\n\r\n";
    let begun = [head.as_bytes(), &[b' '; 16_383]].concat();
    let mut streams = Vec::new();
    let mut is_full = false;
    while !is_full && streams.len() < 1_000 {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(home.server.address).await.unwrap();
            stream.write_all(&begun).await.unwrap();
            streams.push(stream);
        }
        let login = json!({"username": "kim", "password": "wrong"});
        is_full = home.nobody().refused("POST", "/api/v1/session", &login).await.0 == 429;
    }
    assert!(is_full, "{} bodies", streams.len());
    kim.ok("GET", APPS, &Value::Null).await;
}
