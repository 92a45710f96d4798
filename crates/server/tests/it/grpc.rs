use bytes::Bytes;
use http::Request;
use serde_json::json;
use tiphys_wire::status::Code;

use crate::support::{Answered, Server, TOKEN, answered, call, messages, read};

const GET: &str = "/application.ApplicationService/Get";
const LOGS: &str = "/application.ApplicationService/PodLogs";
const FILES: &str = "/application.ApplicationService/GetManifestsWithFiles";

async fn grpc(server: &Server, path: &str, message: serde_json::Value) -> Answered {
    answered(path, server.http2(call(path, "application/grpc", &[message])).await).await
}

#[tokio::test]
async fn api_2_calls_of_grpc_are_answered() {
    let server = Server::start().await;
    let answer = grpc(&server, GET, json!({"name": "web"})).await;
    assert_eq!(answer.messages, [json!({"metadata": {"name": "web"}})]);
    assert_eq!((answer.status.as_str(), answer.text.as_str()), ("0", ""));
    let response = server.http2(call(GET, "application/grpc+proto", &[json!({"name": "web"})])).await;
    assert_eq!(response.headers()["content-type"], "application/grpc");
    assert_eq!(answered(GET, response).await.status, "0", "beyond the reference");
    assert_eq!(server.api.ended.lock()[0], ("Get".to_owned(), Code::Ok));
}

#[tokio::test]
async fn api_p15_a_call_that_fails_says_so_in_its_headers() {
    let server = Server::start().await;
    for kind in ["application/grpc", "application/grpc-web+proto"] {
        let response = server.http2(call(GET, kind, &[json!({"name": "denied"})])).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "7", "{kind}");
        assert_eq!(response.headers()["grpc-message"], "permission denied: 100%25 %C3%A4%0Ano");
    }
}

#[tokio::test]
async fn api_p14_grpc_web_has_its_trailers_in_the_body() {
    let server = Server::start().await;
    let response = server.http1(call(LOGS, "application/grpc-web+proto", &[json!({"name": "web"})])).await;
    assert_eq!(response.headers()["content-type"], "application/grpc-web+proto");
    assert!(response.headers().get("grpc-status").is_none());
    assert!(response.headers().get("access-control-allow-origin").is_none(), "API-P18");
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let (messages, trailers) = messages(LOGS, &bytes);
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[2]["last"], true);
    assert_eq!(trailers, "grpc-status: 0\r\ngrpc-message: \r\n");
}

#[tokio::test]
async fn api_p17_streams_of_requests_need_http_2() {
    let server = Server::start().await;
    let parts = [json!({"query": {"name": "web"}}), json!({"chunk": {"chunk": "YQ=="}})];
    let answer = answered(FILES, server.http2(call(FILES, "application/grpc", &parts)).await).await;
    assert_eq!(answer.messages, [json!({"revision": "2"})]);
    let web = server.http1(call(FILES, "application/grpc-web+proto", &parts)).await;
    assert_eq!(web.headers()["grpc-status"], "12");
}

/// SEC-47: one broken call takes no other one with it.
#[tokio::test]
async fn api_25_a_panic_ends_one_call() {
    let server = Server::start().await;
    for (path, name) in [(GET, "panic"), (LOGS, "panics")] {
        let answer = grpc(&server, path, json!({"name": name})).await;
        assert_eq!((answer.status.as_str(), answer.text.as_str()), ("13", "internal error"), "{name}");
    }
    assert_eq!(grpc(&server, GET, json!({"name": "web"})).await.status, "0");
    let bad = grpc(&server, GET, json!({"name": "bad"})).await;
    assert_eq!((bad.status.as_str(), bad.text.as_str()), ("13", "the answer cannot be written"));
}

#[tokio::test]
async fn a_stream_that_fails_ends_with_its_status() {
    let server = Server::start().await;
    let answer = grpc(&server, LOGS, json!({"name": "fails"})).await;
    assert_eq!(answer.messages.len(), 1);
    assert_eq!((answer.status.as_str(), answer.text.as_str()), ("14", "gone"));
}

#[tokio::test]
async fn calls_end_with_their_deadline() {
    let server = Server::start().await;
    for (path, name) in [(GET, "slow"), (LOGS, "endless")] {
        let mut request = call(path, "application/grpc", &[json!({"name": name})]);
        request.headers_mut().insert("grpc-timeout", "20m".parse().unwrap());
        let answer = answered(path, server.http2(request).await).await;
        assert_eq!(
            (answer.status.as_str(), answer.text.as_str()),
            ("4", "context deadline exceeded"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_call_that_its_caller_leaves_counts_as_canceled() {
    let server = Server::start().await;
    let mut response = server.http2(call(LOGS, "application/grpc", &[json!({"name": "endless"})])).await;
    http_body_util::BodyExt::frame(&mut response).await.unwrap().unwrap();
    drop(response);
    crate::home::until(|| !server.api.ended.lock().is_empty()).await;
    assert_eq!(server.api.ended.lock()[0], ("PodLogs".to_owned(), Code::Canceled));
}

#[tokio::test]
async fn unknown_methods_are_named() {
    let server = Server::start().await;
    for (path, text) in [
        ("/a.B/C", "unknown service a.B"),
        ("/session.SessionService/Nothing", "unknown method Nothing for service session.SessionService"),
        ("/x", "malformed method name: \"/x\""),
    ] {
        let request =
            Request::post(path).header("content-type", "application/grpc").body(Bytes::new()).unwrap();
        let response = server.http2(request).await;
        assert_eq!(response.headers()["grpc-status"], "12");
        assert_eq!(response.headers()["grpc-message"], text);
    }
}

#[tokio::test]
async fn requests_that_are_no_message_are_refused() {
    let server = Server::start().await;
    let raw = |body: &'static [u8]| {
        Request::post(GET).header("content-type", "application/grpc").body(Bytes::from_static(body)).unwrap()
    };
    for (body, status) in [
        (&b""[..], "13"),
        (b"\0\0\0\0", "13"),
        (b"\0\0\0\0\x05ab", "13"),
        (b"\0\0\0\0\x02\x0a\x05", "3"),
        (b"\0\0\0\0\0\0\0\0\0\0", "13"),
        (b"\x01\0\0\0\0", "13"),
        (b"\0\xff\xff\xff\xff", "8"),
    ] {
        let response = server.http2(raw(body)).await;
        assert_eq!(response.headers()["grpc-status"], status, "{body:?}");
    }
}

#[tokio::test]
async fn sec_48_who_is_not_known_sends_little() {
    let server = Server::start().await;
    let long = "x".repeat(2_000);
    let request = || call(GET, "application/grpc", &[json!({"name": "web", "selector": long})]);
    assert_eq!(server.http2(request()).await.headers()["grpc-status"], "8");
    let mut known = request();
    known.headers_mut().insert("token", TOKEN.parse().unwrap());
    assert_eq!(answered(GET, server.http2(known).await).await.status, "0");
    let mut wrong = request();
    wrong.headers_mut().insert("token", "wrong".parse().unwrap());
    let refused = server.http2(wrong).await;
    assert_eq!(refused.headers()["grpc-status"], "16");
    assert_eq!(refused.headers()["grpc-message"], "invalid session: no");
}

#[tokio::test]
async fn api_p11_a_fresh_token_is_announced() {
    let server = Server::start().await;
    let mut request = call(GET, "application/grpc", &[json!({"name": "web"})]);
    request.headers_mut().insert("token", "renew".parse().unwrap());
    assert_eq!(server.http2(request).await.headers()["renew-token"], "fresh");
}

#[tokio::test]
async fn api_2_grpc_over_http_1_is_none() {
    let server = Server::start().await;
    let (status, _, _) = read(server.http1(call(GET, "application/grpc", &[json!({})])).await).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn api_12_calls_and_their_messages_are_counted_whichever_way_they_come() {
    use tiphys_server::counts::Step::{Received, Sent, Started};
    let server = Server::start().await;
    let steps = || std::mem::take(&mut *server.api.steps.lock());
    grpc(&server, GET, json!({"name": "web"})).await;
    assert_eq!(steps(), [Started, Received, Sent]);
    grpc(&server, LOGS, json!({"name": "web"})).await;
    assert_eq!(steps(), [Started, Received, Sent, Sent, Sent]);
    grpc(&server, GET, json!({"name": "denied"})).await;
    assert_eq!(steps(), [Started, Received]);
    let parts = [json!({"query": {"name": "web"}}), json!({"chunk": {"chunk": "YQ=="}})];
    answered(FILES, server.http2(call(FILES, "application/grpc", &parts)).await).await;
    assert_eq!(steps(), [Started, Received, Received, Sent]);
    server.get("/api/v1/applications/web").await;
    assert_eq!(steps(), [Started, Received, Sent]);
    server.get("/api/v1/applications/web/logs").await;
    assert_eq!(steps(), [Started, Received, Sent, Sent, Sent]);
    server.get("/api/v1/nothing").await;
    assert_eq!(steps(), []);
}
