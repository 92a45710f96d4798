//! Proxy extensions: what is handed on to whom (API-220..223).

use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::server::{Request as Asked, Response as Accepted};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};

use crate::applications::{APPS, app};
use crate::home::{Client, Home, Setup, ask, until};

const POLICY: &str = "p, role:shop, applications, *, shop/*, allow\np, role:shop, extensions, invoke, echo, allow\n\
                      p, role:all, applications, *, */*, allow\np, role:all, extensions, invoke, *, allow\n\
                      g, ann, role:all\ng, kim, role:shop\ng, bo, role:look\np, role:look, applications, get, shop/*, allow\n\
                      p, proj:shop:ci, extensions, invoke, echo, allow\np, proj:shop:dev, extensions, invoke, echo, allow\n";
const MAP: &str = "/api/v1/namespaces/argocd/configmaps/argocd-cm";

type Seen = Arc<Mutex<Vec<(String, http::HeaderMap, Bytes)>>>;

/// A service that shows what it gets.
async fn service() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let kept = Arc::clone(&kept);
                    async move {
                        let (head, body) = request.into_parts();
                        let bytes = body.collect().await?.to_bytes();
                        kept.lock().push((format!("{} {}", head.method, head.uri), head.headers, bytes));
                        let mut response = Response::new(Full::new(Bytes::from("x".repeat(300_000))));
                        *response.status_mut() = http::StatusCode::CREATED;
                        response.headers_mut().insert("x-of-service", "yes".parse().unwrap());
                        Ok::<_, hyper::Error>(response)
                    }
                });
                drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await);
            });
        }
    });
    (address, seen)
}

fn config(address: &str) -> String {
    format!("services:\n- url: {address}/base\n  headers:\n  - name: Authorization\n    value: $echo.token\n")
}

async fn home(config: &str) -> Home {
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    let roles = ["ci", "dev"].map(|name| {
        let policy = format!("p, proj:shop:{name}, applications, get, shop/*, allow");
        json!({"name": name, "policies": [policy]})
    });
    let accounts = ["accounts.ann", "accounts.kim", "accounts.bo"].map(|name| (name, "login"));
    let map = [&accounts[..], &[("extension.config.echo", config)]].concat();
    let setup = Setup::new()
        .config_map("argocd-cm", &map)
        .config_map("argocd-rbac-cm", &[("policy.csv", POLICY)])
        .project(
            "shop",
            &json!({"sourceRepos": ["https://git/*"], "destinations": destinations, "roles": roles}),
        )
        .with_extensions();
    let token = json!({"stringData": {"echo.token": "of-the-service"}});
    ask(&setup.sim, http::Method::PATCH, "/api/v1/namespaces/argocd/secrets/argocd-secret", &token);
    setup.start().await
}

/// A request of a browser; the status, the headers and the body of the answer.
async fn get(
    home: &Home,
    client: &Client<'_>,
    target: &str,
    headers: &[(&str, &str)],
) -> (u16, http::HeaderMap, String) {
    let mut request = Request::builder().method("POST").uri(target);
    if !client.token().is_empty() {
        request = request.header("cookie", format!("argocd.token={}; other=1", client.token()));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    crate::support::read(home.server.http1(request.body(Bytes::from("question")).unwrap()).await).await
}

const WEB: [(&str, &str); 2] = [("argocd-application-name", "argocd:web"), ("argocd-project-name", "shop")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_223_a_request_reaches_its_service_without_the_session_and_with_what_is_known() {
    let (address, seen) = service().await;
    let home = home(&config(&address)).await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let forged = [
        ("argocd-username", "admin"),
        ("argocd-user-groups", "admins"),
        ("x-forwarded-for", "10.0.0.1"),
        ("authorization", "Bearer mine"),
        ("x-own", "kept"),
    ];
    let headers = [&WEB[..], &forged].concat();
    let (status, answered, body) = get(&home, &kim, "/extensions/echo/a%20b/c?d=e&f=%2F", &headers).await;
    assert_eq!((status, body.len(), answered["x-of-service"].to_str().unwrap()), (201, 300_000, "yes"));
    let (line, got, bytes) = seen.lock().remove(0);
    assert_eq!((line.as_str(), &bytes[..]), ("POST /base/a%20b/c?d=e&f=%2F", &b"question"[..]));
    let text = |name: &str| got.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(text("authorization").unwrap(), "of-the-service");
    assert_eq!(text("cookie"), None);
    assert_eq!(text("x-own").unwrap(), "kept");
    assert_eq!(text("x-forwarded-for").unwrap(), "10.0.0.1, 127.0.0.1");
    assert_eq!(text("x-forwarded-host").unwrap(), "localhost");
    assert_eq!(text("argocd-namespace").unwrap(), "argocd");
    assert_eq!(text("argocd-application-name").unwrap(), "argocd:web");
    assert_eq!(text("argocd-target-cluster-url").unwrap(), "https://kubernetes.default.svc");
    assert_eq!(text("argocd-target-cluster-name").unwrap(), "in-cluster");
    assert_eq!(
        (text("argocd-username").unwrap(), text("argocd-user-id").unwrap()),
        ("kim".into(), "kim".to_owned())
    );
    assert_eq!(text("argocd-user-groups"), None, "nobody makes groups up");
    // API-12: counted, and measured.
    let line = "argocd_proxy_extension_request_total{extension=\"echo\",status=\"201\"} 1\n";
    until(|| home.counts.text().contains(line)).await;
    let took = "argocd_proxy_extension_request_duration_seconds_count{extension=\"echo\"} 1\n";
    assert!(home.counts.text().contains(took));
}

/// API-223, issue 39: services that read `_` and `-` alike see nothing of the browser beside what the server says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_223_colliding_headers_never_reach_a_service() {
    let (address, seen) = service().await;
    let home = home(&config(&address)).await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let forged = [
        ("argocd_username", "admin"),
        ("argocd.user.id", "admin"),
        ("argocd-user_groups", "admins"),
        ("argocd_application_name", "argocd:other"),
        ("argocd-application-name", "argocd:other"),
        ("argocd-of-the-future", "1"),
        ("x_forwarded_for", "10.0.0.1"),
        ("x-forwarded-user", "admin"),
        ("forwarded", "for=10.0.0.1"),
        ("x-original-url", "/admin"),
        ("grpc-metadata-token", "mine"),
        ("transfer_encoding", "chunked"),
        ("x_own", "kept"),
    ];
    let headers = [&WEB[..], &forged].concat();
    assert_eq!(get(&home, &kim, "/extensions/echo/a", &headers).await.0, 201);
    let (_, got, _) = seen.lock().remove(0);
    for (name, value) in &forged {
        let is_kept = got.get_all(*name).iter().any(|found| found == value);
        assert_eq!(is_kept, *name == "x_own", "{name}");
    }
    assert_eq!(got["argocd-username"], "kim");
    assert_eq!(got["argocd-application-name"], "argocd:web");
    assert_eq!(got["argocd-project-name"], "shop");
    assert_eq!(got["x-forwarded-for"], "127.0.0.1");
    for path in ["..;/x", "a/%2e%2e;v=1/x", "%252e%252e/x", "%25252e./x", "%c0%ae%c0%ae/x", "a%255c..%255cb"]
    {
        assert_eq!(get(&home, &kim, &format!("/extensions/echo/{path}"), &WEB).await.0, 400, "{path}");
    }
    assert!(seen.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_222_who_may_not_learns_nothing_and_only_they_who_may_learn_what_there_is() {
    let (address, seen) = service().await;
    let home = home(&config(&address)).await;
    let (kim, bo, ann) = (home.account("kim"), home.account("bo"), home.account("ann"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    ann.ok("POST", APPS, &app("other", "default")).await;
    let refusal = async |client: &Client<'_>, target: &str, headers: &[(&str, &str)]| {
        let (status, _, text) = get(&home, client, target, headers).await;
        (status, text.trim_end().to_owned())
    };
    let unauthorized = (401, "Unauthorized extension request".to_owned());
    assert_eq!(refusal(&home.nobody(), "/extensions/echo/", &WEB).await.0, 400);
    assert_eq!(refusal(&home.with("a.b.c"), "/extensions/echo/", &WEB).await.0, 401);
    assert_eq!(refusal(&kim, "/extensions/", &WEB).await.0, 400);
    assert_eq!(refusal(&kim, "/extensions/echo/x", &[]).await.0, 400);
    assert_eq!(refusal(&bo, "/extensions/echo/x", &WEB).await, unauthorized);
    assert_eq!(refusal(&bo, "/extensions/none/x", &WEB).await, unauthorized);
    assert_eq!(refusal(&kim, "/extensions/none/x", &WEB).await, unauthorized, "no right to that one");
    assert_eq!(refusal(&ann, "/extensions/none/x", &WEB).await, (404, "Extension not found".to_owned()));
    for place in [
        [WEB[0], ("argocd-project-name", "default")],
        [("argocd-application-name", "argocd:none"), WEB[1]],
        [("argocd-application-name", "argocd:other"), WEB[1]],
    ] {
        assert_eq!(refusal(&ann, "/extensions/echo/x", &place).await, unauthorized, "{place:?}");
    }
    let elsewhere = [("argocd-application-name", "team:web"), WEB[1]];
    assert_eq!(refusal(&kim, "/extensions/echo/x", &elsewhere).await.0, 400);
    assert_eq!(refusal(&kim, "/extensions/echo/../x", &WEB).await.0, 400);
    assert!(seen.lock().is_empty());
    assert!(!home.counts.text().contains("extension=\""), "API-12: nobody makes up what is counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_220_a_change_is_in_force_at_once_and_one_that_cannot_be_read_changes_nothing() {
    let ((first, of_first), (second, of_second)) = (service().await, service().await);
    let home = home(&config(&first)).await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let change = |config: Value| {
        let patch = json!({"data": {"extension.config.echo": config, "marker": config.to_string().len().to_string()}});
        ask(&home.sim, http::Method::PATCH, MAP, &patch);
        config.to_string().len().to_string()
    };
    assert_eq!(get(&home, &kim, "/extensions/echo/1", &WEB).await.0, 201);
    let marker = change("services: nonsense".into());
    home.until(|world| world.setting("marker") == marker).await;
    assert_eq!(get(&home, &kim, "/extensions/echo/2", &WEB).await.0, 201);
    assert_eq!((of_first.lock().len(), of_second.lock().len()), (2, 0));
    let marker = change(config(&(second + "/two")).into());
    home.until(|world| world.setting("marker") == marker).await;
    assert_eq!(get(&home, &kim, "/extensions/echo/3", &WEB).await.0, 201);
    assert_eq!(of_second.lock().remove(0).0, "POST /two/base/3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_223_a_service_that_is_not_there_is_a_bad_gateway() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let home = home(&config(&address)).await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let (status, _, text) = get(&home, &kim, "/extensions/echo/1", &WEB).await;
    assert_eq!((status, text.as_str()), (502, "the extension cannot be reached\n"));
    assert!(home.counts.text().contains("_request_total{extension=\"echo\",status=\"502\"} 1\n"));
}

type Socket = WebSocketStream<TcpStream>;

/// A service that takes `WebSockets` and says everything again; what it was asked with, and how many are open.
async fn echo() -> (String, Seen, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (seen, open) = (Seen::default(), Arc::new(Mutex::new(0)));
    let (kept, count) = (Arc::clone(&seen), Arc::clone(&open));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (kept, count) = (Arc::clone(&kept), Arc::clone(&count));
            tokio::spawn(async move {
                #[expect(clippy::result_large_err, reason = "the callback of the library is of this type")]
                let accept = |asked: &Asked, mut accepted: Accepted| {
                    kept.lock().push((asked.uri().to_string(), asked.headers().clone(), Bytes::new()));
                    accepted.headers_mut().insert("sec-websocket-protocol", "two".parse().unwrap());
                    Ok(accepted)
                };
                let mut socket = accept_hdr_async(stream, accept).await.unwrap();
                *count.lock() += 1;
                while let Some(Ok(message)) = socket.next().await {
                    if !message.is_close() && socket.send(message).await.is_err() {
                        break;
                    }
                }
                *count.lock() -= 1;
            });
        }
    });
    (address, seen, open)
}

/// Asks for a `WebSocket`; the answer is one, with the headers, or a status with its text.
async fn open(
    home: &Home,
    client: &Client<'_>,
    target: &str,
    headers: &[(&str, &str)],
) -> Result<(Socket, http::HeaderMap), (u16, String)> {
    let mut request = Request::builder()
        .uri(format!("ws://localhost{target}"))
        .header("host", "localhost")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "one, two")
        .header("sec-websocket-key", generate_key())
        .header("cookie", format!("argocd.token={}; other=1", client.token()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let stream = TcpStream::connect(home.server.address).await.unwrap();
    match client_async(request.body(()).unwrap(), stream).await {
        Ok((socket, response)) => Ok((socket, response.headers().clone())),
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8(body).unwrap().trim_end().to_owned()))
        }
        Err(error) => panic!("{error}"),
    }
}

/// What comes until a text does, or the socket ends.
async fn said(socket: &mut Socket) -> Option<String> {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            return Some(text.to_string());
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_223_a_websocket_reaches_its_service_without_the_session_and_goes_both_ways() {
    let (address, seen, is_open) = echo().await;
    let home = home(&config(&address)).await;
    let (kim, bo) = (home.account("kim"), home.account("bo"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let headers = [&WEB[..], &[("authorization", "Bearer mine"), ("argocd-username", "admin")]].concat();
    let (mut socket, answered) = open(&home, &kim, "/extensions/echo/live?d=e", &headers).await.unwrap();
    assert_eq!(answered["sec-websocket-protocol"], "two");
    assert!(home.counts.text().contains("_request_total{extension=\"echo\",status=\"101\"} 1\n"));
    let (line, got, _) = seen.lock().remove(0);
    assert_eq!(line, "/base/live?d=e");
    let text = |name: &str| got.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((text("authorization").unwrap(), text("cookie")), ("of-the-service".to_owned(), None));
    assert_eq!(
        (text("argocd-username").unwrap(), text("x-forwarded-host").unwrap()),
        ("kim".into(), "localhost".to_owned())
    );
    let long = "ä".repeat(200_000);
    for text in ["hello", &long] {
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(said(&mut socket).await.unwrap(), text);
    }
    until(|| *is_open.lock() == 1).await;
    drop(socket);
    until(|| *is_open.lock() == 0).await;
    let refused = async |client: &Client<'_>, headers: &[(&str, &str)]| {
        open(&home, client, "/extensions/echo/live", headers).await.err().unwrap()
    };
    assert_eq!(refused(&bo, &WEB).await, (401, "Unauthorized extension request".to_owned()));
    assert_eq!(refused(&kim, &[]).await.0, 400);
    let evil = [&WEB[..], &[("origin", "https://evil.example")]].concat();
    assert_eq!(refused(&kim, &evil).await.0, 403);
    let half = [&WEB[..], &[("upgrade", "websocket")]].concat();
    assert_eq!(get(&home, &kim, "/extensions/echo/live", &half).await.0, 400, "no handshake");
    assert!(seen.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_223_a_service_may_refuse_a_websocket() {
    let (address, _) = service().await;
    let home = home(&config(&address)).await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    assert_eq!(open(&home, &kim, "/extensions/echo/live", &WEB).await.err().unwrap().0, 201);
}

/// The rights are asked for again every second, and the server waits for nobody when it stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_223_a_websocket_ends_with_the_rights_to_it_and_with_the_server() {
    let (address, _, is_open) = echo().await;
    let home = home(&config(&address)).await;
    let (kim, ann) = (home.account("kim"), home.account("ann"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let (mut of_kim, _) = open(&home, &kim, "/extensions/echo/live", &WEB).await.unwrap();
    let (mut of_ann, _) = open(&home, &ann, "/extensions/echo/live", &WEB).await.unwrap();
    let policy = POLICY.replace("p, role:shop, extensions, invoke, echo, allow\n", "");
    let may_not = json!({"data": {"policy.csv": policy}});
    ask(&home.sim, http::Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm", &may_not);
    assert_eq!(said(&mut of_kim).await, None);
    until(|| *is_open.lock() == 1).await;
    of_ann.send(Message::text("still")).await.unwrap();
    assert_eq!(said(&mut of_ann).await.unwrap(), "still");
    home.server.stopping.cancel();
    assert_eq!(said(&mut of_ann).await, None);
    until(|| *is_open.lock() == 0).await;
}

/// A service with endless responses, such as event streams.
async fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let answer = service_fn(|_: Request<Incoming>| async {
                    let ticks = tokio::time::interval(std::time::Duration::from_millis(20));
                    let pieces = futures::stream::unfold(ticks, |mut ticks| async {
                        ticks.tick().await;
                        let piece = hyper::body::Frame::data(Bytes::from_static(b"event"));
                        Some((Ok::<_, std::io::Error>(piece), ticks))
                    });
                    Ok::<_, hyper::Error>(Response::new(http_body_util::StreamBody::new(pieces)))
                });
                drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await);
            });
        }
    });
    address
}

/// A response that is streamed ends like any stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_32_an_answer_of_an_extension_ends_with_the_session() {
    let home = home(&config(&endless().await)).await;
    for (name, target, change) in [
        ("kim", MAP, json!({"data": {"accounts.kim": "apiKey"}})),
        ("ann", "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm", json!({"data": {"policy.csv": ""}})),
    ] {
        let client = home.account(name);
        if name == "kim" {
            client.ok("POST", APPS, &app("web", "shop")).await;
        }
        let mut request = Request::builder().uri("/extensions/echo/events");
        request = request.header("cookie", format!("argocd.token={}", client.token()));
        for (name, value) in WEB {
            request = request.header(name, value);
        }
        let mut body = home.server.http1(request.body(Bytes::new()).unwrap()).await.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        ask(&home.sim, http::Method::PATCH, target, &change);
        let reading = async { while let Some(Ok(_)) = body.frame().await {} };
        tokio::time::timeout(std::time::Duration::from_secs(20), reading).await.expect("the answer ends");
    }
}

/// Page, holes 4 and 5: one tenant could have all places, and each of its tokens had a budget of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_16_tokens_of_a_project_share_their_places_at_extensions() {
    let (address, _, _) = echo().await;
    let home = home(&config(&address)).await;
    let (kim, admin) = (home.account("kim"), home.account("admin"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let mut tokens = Vec::new();
    for role in ["ci", "dev"] {
        let asked = json!({"project": "shop", "role": role});
        let path = format!("/api/v1/projects/shop/roles/{role}/token");
        tokens.push(admin.ok("POST", &path, &asked).await["token"].as_str().unwrap().to_owned());
    }
    let mut sockets = Vec::new();
    for number in 0..50 {
        let client = home.with(&tokens[number % 2]);
        sockets.push(open(&home, &client, "/extensions/echo/live", &WEB).await.unwrap());
    }
    for token in &tokens {
        let (status, text) =
            open(&home, &home.with(token), "/extensions/echo/live", &WEB).await.err().unwrap();
        assert!(status == 429 && text.starts_with("too many requests of this caller"), "{status} {text}");
    }
    assert!(open(&home, &kim, "/extensions/echo/live", &WEB).await.is_ok(), "others have the rest");
}
