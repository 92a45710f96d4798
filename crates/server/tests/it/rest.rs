use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tiphys_server::http::{FrontOptions, Handler, plain};

use crate::support::{Server, TOKEN, options, read};

#[tokio::test]
async fn api_p25_errors_have_their_status_and_body() {
    let server = Server::start().await;
    let (status, headers, text) = server.get("/api/v1/applications/denied").await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (403, "application/json"));
    let body: Value = serde_json::from_str(&text).unwrap();
    let message = "permission denied: 100% ä\nno";
    assert_eq!(body, json!({"error": message, "code": 7, "message": message}));
    let (status, headers, text) = server.get("/api/v1/nothing").await;
    assert_eq!((status, text.as_str()), (404, "Not Found\n"));
    assert!(headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let (status, _, text) = server.send("PUT", "/api/v1/applications", "").await;
    assert_eq!((status, text.as_str()), (405, "Method Not Allowed\n"));
    let (status, _, text) = server.send("POST", "/api/v1/session", "{\"password\": \"hunter2\",}").await;
    assert_eq!(status, 400);
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(server.get("/api/v1/applications/panic").await.0, 500, "API-25");
}

#[tokio::test]
async fn api_p20_requests_become_messages_and_answers_json() {
    let server = Server::start().await;
    let (status, _, text) =
        server.send("POST", "/api/v1/account/web/token", r#"{"expiresIn": 5, "ID": "x"}"#).await;
    assert_eq!((status, text.as_str()), (200, "{}"), "members of another message are left out");
    let (_, _, text) = server.get("/api/v1/applications/web").await;
    assert!(
        text.starts_with(r#"{"metadata":{"name":"web"},"spec":{"destination":{},"project":""}"#),
        "{text}"
    );
    let (_, _, text) = server.get("/api/v1/applications").await;
    assert_eq!(text, "abcdef", "written by somebody else");
}

#[tokio::test]
async fn sec_34_only_json_changes_anything() {
    let server = Server::start().await;
    let send = async |verb: &str, kind: Option<&str>| {
        let mut request = Request::builder().method(verb).uri("/api/v1/session");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        read(server.http1(request.body(Bytes::from_static(b"{}")).unwrap()).await).await
    };
    for verb in ["POST", "DELETE", "PUT", "PATCH", "OPTIONS"] {
        for kind in
            [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")]
        {
            let (status, headers, text) = send(verb, kind).await;
            assert_eq!((status, text.as_str()), (415, "Invalid content type\n"), "{verb} {kind:?}");
            assert!(headers.get("access-control-allow-origin").is_none(), "API-19");
        }
    }
    for kind in ["application/json", "Application/JSON", "application/json; charset=utf-8"] {
        assert_eq!(send("POST", Some(kind)).await.0, 200, "{kind}");
    }
    assert_eq!(server.get("/api/v1/applications/web").await.0, 200);
    let open = FrontOptions { content_types: Vec::new(), ..options() };
    let open = Server::with(open, |front| front, None).await;
    let request = Request::post("/api/v1/session").body(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(read(open.http1(request).await).await.0, 200, "API-18: the guard can be switched off");
}

#[tokio::test]
async fn api_20_answers_are_packed_for_those_who_take_it() {
    let server = Server::start().await;
    let get = async |accept: &str| {
        let request = Request::get("/api/v1/applications/web/manifests")
            .header("accept-encoding", "gzip")
            .header("accept", accept)
            .body(Bytes::new())
            .unwrap();
        let response = server.http1(request).await;
        let is_packed = response.headers().get("content-encoding").is_some_and(|it| it == "gzip");
        (is_packed, response.into_body().collect().await.unwrap().to_bytes())
    };
    let (is_packed, bytes) = get("*/*").await;
    assert!(is_packed && bytes.len() < 10_000, "{}", bytes.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_ref()).read_to_string(&mut text).unwrap();
    assert!(text.starts_with(r#"{"manifests":["xxx"#));
    assert!(!get("text/event-stream").await.0);
    let plain = server.get("/api/v1/applications/web/manifests").await;
    assert_eq!(plain.2, text);
}

/// B8: a large answer is made, and packed, while it is sent; one that cannot be made to its end never looks whole.
#[tokio::test]
async fn api_20_a_large_answer_is_sent_as_it_is_made_and_cut_off_where_it_breaks() {
    let server = Server::start().await;
    let get = async |selector: &str, encoding: &'static str| {
        let path = format!("/api/v1/applications?selector={selector}");
        let request = Request::get(path).header("accept-encoding", encoding).body(Bytes::new()).unwrap();
        let response = server.http1(request).await;
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.map(http_body_util::Collected::to_bytes))
    };
    let (_, plain) = get("large", "identity").await;
    let plain = plain.unwrap();
    assert_eq!((plain.len(), plain.first(), plain.last()), (400_000, Some(&b'a'), Some(&b't')));
    let (_, packed) = get("large", "gzip").await;
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.unwrap().as_ref()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    for encoding in ["identity", "gzip"] {
        let (status, broken) = get("breaks", encoding).await;
        assert!(status == 200 && broken.is_err(), "{encoding}: the connection is cut");
    }
}

#[tokio::test]
async fn api_33_sessions_become_cookies() {
    let server = Server::start().await;
    let (_, headers, text) = server.send("POST", "/api/v1/session", r#"{"username": "x.y.z"}"#).await;
    assert_eq!(text, r#"{"token":"x.y.z"}"#);
    assert_eq!(headers["set-cookie"], "argocd.token=x.y.z; path=/; SameSite=lax; httpOnly");
    let renew =
        Request::get("/api/v1/applications/web").header("authorization", "Bearer renew").body(Bytes::new());
    let response = server.http1(renew.unwrap()).await;
    assert_eq!(
        response.headers()["set-cookie"],
        "argocd.token=fresh; path=/; SameSite=lax; httpOnly",
        "API-22"
    );
}

#[tokio::test]
async fn sec_48_who_is_not_known_sends_little() {
    let server = Server::start().await;
    let body = format!(r#"{{"username": "{}"}}"#, "x".repeat(1_500));
    assert_eq!(server.send("POST", "/api/v1/session", &body).await.0, 429);
    let known = |bytes: usize| {
        Request::post("/api/v1/session")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Bytes::from(format!(r#"{{"username": "x", "a": "{}"}}"#, "x".repeat(bytes))))
            .unwrap()
    };
    assert_eq!(read(server.http1(known(100_000)).await).await.0, 200);
    assert_eq!(read(server.http1(known(300_000)).await).await.0, 429);
}

#[tokio::test]
async fn api_p26_streams_are_lines_of_json() {
    let server = Server::start().await;
    let (status, headers, text) = server.get("/api/v1/applications/web/logs").await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "application/json"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["result"]["content"], "two\r");
    assert_eq!(lines[2]["result"]["last"], true);
    assert!(text.ends_with('\n'));
}

async fn events(server: &Server, target: &str) -> (u16, String, String) {
    let request = Request::get(target).header("accept", "text/event-stream").body(Bytes::new()).unwrap();
    let (status, headers, text) = read(server.http1(request).await).await;
    (status, headers["content-type"].to_str().unwrap().to_owned(), text)
}

#[tokio::test]
async fn api_p27_event_streams_have_their_frames() {
    let server = Server::start().await;
    let (status, kind, text) = events(&server, "/api/v1/applications/web/logs").await;
    assert_eq!((status, kind.as_str()), (200, "text/event-stream"));
    let first = concat!(
        r#"data: {"result":{"content":"one","last":false,"podName":"p","timeStamp":null,"timeStampStr":"t"}} "#,
        "\n\n\n"
    );
    assert!(text.starts_with(first), "{text:?}");
}

#[tokio::test]
async fn api_p28_streams_tell_their_errors() {
    let server = Server::start().await;
    let (status, _, text) = server.get("/api/v1/applications/fails/logs").await;
    assert_eq!(status, 200, "it began well");
    let error =
        r#"{"error":{"grpc_code":14,"http_code":503,"http_status":"Service Unavailable","message":"gone"}}"#;
    assert_eq!(text.lines().last().unwrap(), error);
    let (_, _, text) = events(&server, "/api/v1/applications/fails/logs").await;
    assert!(text.ends_with(&format!("data: {error} \n\n\n")), "{text:?}");
    let refused = Request::get("/api/v1/stream/applications")
        .header("authorization", "Bearer wrong")
        .header("accept", "text/event-stream")
        .body(Bytes::new())
        .unwrap();
    let (status, _, text) = read(server.http1(refused).await).await;
    assert_eq!(status, 401);
    assert!(text.contains(r#""http_status":"Unauthorized""#), "{text}");
}

#[tokio::test]
async fn api_p31_a_watch_leaves_out_what_it_has_said() {
    let server = Server::start().await;
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|it| it["result"]["application"]["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let (_, _, all) = server.get("/api/v1/stream/applications").await;
    assert_eq!(names(&all), ["a", "a", "b", "a"]);
    let fields = "fields=result.application.metadata.name,result.application.spec";
    let (_, _, few) = server.get(&format!("/api/v1/stream/applications?{fields}")).await;
    assert_eq!(names(&few), ["a", "b"]);
    let first: Value = serde_json::from_str(few.lines().next().unwrap()).unwrap();
    assert_eq!(first["result"]["application"]["spec"]["project"], "p");
    assert!(
        first["result"].get("type").is_none() && first["result"]["application"].get("status").is_none(),
        "API-P29"
    );
}

#[tokio::test]
async fn api_p33_logs_can_be_downloaded() {
    let server = Server::start().await;
    let (status, headers, text) = server
        .get("/api/v1/applications/web/pods/web-0/logs?download=true&namespace=shop&container=main")
        .await;
    assert_eq!((status, text.as_str()), (200, "one\ntwo\r\n"));
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!(headers["content-disposition"], "attachment;filename=\"shop-web-0-main.log\"");
    let (_, headers, text) = server.get("/api/v1/applications/fails/logs?download=true").await;
    assert_eq!(text, "one\ngone");
    assert_eq!(headers["content-disposition"], "attachment;filename=\"log.log\"");
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let server = Server::start().await;
    let response =
        server.http1(Request::get("/api/v1/applications/endless/logs").body(Bytes::new()).unwrap()).await;
    server.stopping.cancel();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("the server is stopping"));
    server.running.await.unwrap();
}

#[tokio::test]
async fn api_11_a_request_ends_and_none_begins_when_the_server_stops() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = Server::start().await;
    let mut begun = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let body = r#"{"username": "kim", "password": "x"}"#;
    let head = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    begun.write_all(head.as_bytes()).await.unwrap();
    // The server says so when it reads the body: the request is under way.
    let mut told = [0; 25];
    begun.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.stopping.cancel();
    while tokio::net::TcpStream::connect(server.address).await.is_ok() {}
    begun.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    begun.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("kim"), "{answer}");
    server.running.await.unwrap();
}

fn page(text: &'static str) -> Handler {
    Arc::new(move |request| {
        let path = request.http.uri().path().to_owned();
        async move {
            assert!(!path.starts_with("/argo/"), "{path}");
            plain(http::StatusCode::OK, text)
        }
        .boxed()
    })
}

#[tokio::test]
async fn api_7_the_longest_beginning_counts() {
    let extend = |front: tiphys_server::http::Front| {
        front
            .at("/api/badge", page("badge"))
            .below("/api/webhook", page("webhook"))
            .below("/api/dex/", page("dex"))
            .below("/healthz", page("ok"))
            .otherwise(page("ui"))
    };
    let server = Server::with(options(), extend, None).await;
    for (path, expected) in [
        ("/api/badge?x=y", "badge"),
        ("/api/webhook", "webhook"),
        ("/api/dex/auth", "dex"),
        ("/healthz", "ok"),
        ("/healthz?full=true", "ok"),
        ("/healthzz", "ui"),
        ("/", "ui"),
        ("/applications", "ui"),
    ] {
        assert_eq!(server.get(path).await.2, expected, "{path}");
    }
    assert_eq!(server.get("/api/badge/x").await.0, 404);
    let post = Request::post("/api/webhook").body(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(read(server.http1(post).await).await.2, "webhook", "API-19: not behind the guard");
}

#[tokio::test]
async fn api_6_everything_is_below_the_root_path() {
    let extend =
        |front: tiphys_server::http::Front| front.below("/healthz", page("ok")).otherwise(page("ui"));
    let below = FrontOptions { root_path: "/argo/".to_owned(), ..options() };
    let server = Server::with(below, extend, None).await;
    for (path, status, text) in [
        ("/argo/healthz", 200, "ok"),
        ("/healthz", 200, "ok"),
        ("/argo", 200, "ui"),
        ("/argo/x", 200, "ui"),
        ("/argocd/x", 404, "Not Found\n"),
        ("/api/v1/applications", 404, "Not Found\n"),
        ("/argo/api/v1/applications", 200, "abcdef"),
    ] {
        let (found, _, body) = server.get(path).await;
        assert_eq!((found, body.as_str()), (status, text), "{path}");
    }
    let call =
        crate::support::call("/session.SessionService/Create", "application/grpc-web+proto", &[json!({})]);
    let (mut parts, body) = call.into_parts();
    parts.uri = "/argo/session.SessionService/Create".parse().unwrap();
    let response = server.http1(Request::from_parts(parts, body)).await;
    assert_eq!(response.headers()["content-type"], "application/grpc-web+proto", "API-P13");
}
