//! Terminals in a browser, over real `WebSockets` (API-190..194).

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use http::{Method, Request};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_cluster::ExecInput;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::applications::{APPS, Known, app};
use crate::home::{Client, Home, Setup, ask, until};

const QUERY: &str = "pod=web-0&container=main&appName=web&projectName=shop&namespace=web";
const MAP: &str = "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm";
const MAY_TYPE: &str = "p, role:shop, applications, *, shop/*, allow\np, role:shop, exec, create, shop/*, allow\n\
                        g, kim, role:shop\ng, bo, role:look\np, role:look, applications, get, shop/*, allow\n";

type Socket = WebSocketStream<TcpStream>;
type Sent = Arc<Mutex<Vec<(String, ExecInput)>>>;

fn setup(settings: &[(&str, &str)]) -> (Setup, Sent) {
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    let known = Known::default();
    let sent = Arc::clone(&known.sent);
    let accounts = [("accounts.kim", "login"), ("accounts.bo", "login")];
    let setup = Setup::new()
        .config_map("argocd-cm", &[&accounts[..], settings].concat())
        .config_map("argocd-rbac-cm", &[("policy.csv", MAY_TYPE)])
        .project("shop", &json!({"sourceRepos": ["https://git/*"], "destinations": destinations}))
        .live(Arc::new(known));
    (setup, sent)
}

/// Asks for a terminal; the answer is one, or a status with its text.
async fn open(home: &Home, query: &str, headers: &[(&str, String)]) -> Result<Socket, (u16, String)> {
    let mut request = Request::builder()
        .uri(format!("ws://localhost/terminal?{query}"))
        .header("host", "localhost")
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", generate_key());
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let stream = TcpStream::connect(home.server.address).await.unwrap();
    match client_async(request.body(()).unwrap(), stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8(body).unwrap().trim_end().to_owned()))
        }
        Err(error) => panic!("{error}"),
    }
}

fn cookie(client: &Client<'_>) -> (&'static str, String) {
    ("cookie", format!("argocd.token={}", client.token()))
}

async fn send(socket: &mut Socket, frame: &Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

fn typed(text: &str) -> Value {
    json!({"operation": "stdin", "data": text})
}

/// What is shown until a text has come, or the terminal ends.
async fn shown(socket: &mut Socket, until: &str) -> String {
    let mut all = String::new();
    while !all.ends_with(until) || until.is_empty() {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let frame: Value = serde_json::from_str(&text).unwrap();
                if let Some(code) = frame.get("Code") {
                    all.extend(["<", &code.to_string(), ">"]);
                } else {
                    assert_eq!(frame["operation"], "stdout");
                    all.push_str(frame["data"].as_str().unwrap());
                }
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            Some(Ok(_)) => {}
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_190_what_is_asked_before_there_is_a_terminal() {
    let (setup, sent) = setup(&[("exec.enabled", "true")]);
    let home = setup.start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    home.account("admin").ok("POST", APPS, &app("other", "default")).await;
    let refused =
        async |query: &str, headers: &[(&str, String)]| open(&home, query, headers).await.err().unwrap();
    let known = cookie(&kim);
    assert_eq!(refused(QUERY, &[]).await, (400, "Auth cookie not found".to_owned()));
    let bearer = ("authorization", kim.bearer());
    assert_eq!(refused(QUERY, &[bearer]).await.0, 400, "a header is no cookie");
    let wrong = ("cookie", "argocd.token=a.b.c".to_owned());
    assert_eq!(refused(QUERY, &[wrong]).await, (401, "Invalid token".to_owned()));
    let mine = std::slice::from_ref(&known);
    assert_eq!(refused("pod=a", mine).await, (400, "Missing required parameters".to_owned()));
    let elsewhere = refused(&format!("{QUERY}&appNamespace=team"), mine).await;
    assert_eq!(elsewhere, (403, "namespace 'team' is not permitted".to_owned()));
    for (query, object) in [
        (QUERY.replace("shop", "default"), "default/web"),
        (QUERY.replace("appName=web", "appName=other").replace("shop", "default"), "default/other"),
        (QUERY.replace("appName=web", "appName=none").replace("shop", "default"), "default/none"),
    ] {
        let (status, text) = refused(&query, mine).await;
        let wanted = format!("permission denied: applications, get, {object}");
        assert!(status == 401 && text.starts_with(&wanted), "{status} {text}");
    }
    let (status, text) = refused(QUERY, &[cookie(&home.account("bo"))]).await;
    assert!(status == 401 && text.starts_with("permission denied: exec, create, shop/web"), "{text}");
    let none = refused(&QUERY.replace("appName=web", "appName=none"), mine).await;
    assert_eq!(none, (404, "App not found".to_owned()));
    let not_its = refused(&QUERY.replace("appName=web", "appName=other"), mine).await;
    assert_eq!(not_its, none, "SEC-25: an application of another project is not there");
    let foreign = refused(&QUERY.replace("web-0", "foreign"), mine).await;
    assert_eq!(foreign, (400, "Pod doesn't belong to specified app".to_owned()));
    let evil = ("origin", "https://evil.example".to_owned());
    assert_eq!(refused(QUERY, &[known.clone(), evil]).await.0, 403);
    assert_eq!(kim.get(&format!("/terminal?{QUERY}")).await.0, 400, "no WebSocket");
    assert_eq!(sent.lock().len(), 0);
    assert_eq!(home.nobody().ok("GET", "/api/v1/settings", &Value::Null).await["execEnabled"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_190_there_are_no_terminals_unless_they_are_switched_on() {
    for settings in [&[][..], &[("exec.enabled", "1")]] {
        let home = setup(settings).0.start().await;
        let refused = open(&home, QUERY, &[cookie(&home.account("kim"))]).await.err().unwrap();
        assert_eq!(refused, (404, "Not Found".to_owned()));
    }
}

/// API-191..194: the first shell that is there gets the size and all that was typed, however much, and the Events say who
/// it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_192_what_is_typed_reaches_the_first_shell_that_is_there() {
    let (setup, sent) = setup(&[("exec.enabled", "true")]);
    let home = setup.start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let origin = ("origin", "http://localhost".to_owned());
    let mut socket = open(&home, QUERY, &[cookie(&kim), origin]).await.unwrap();
    send(&mut socket, &json!({"operation": "resize", "rows": 24, "cols": 80})).await;
    send(&mut socket, &typed("é$")).await;
    assert_eq!(shown(&mut socket, "$").await, "é$");
    let paste = "ä".repeat(300_000) + "#";
    send(&mut socket, &typed(&paste)).await;
    assert_eq!(shown(&mut socket, "#").await, paste, "in pieces, and no character is torn");
    send(&mut socket, &typed("exit\r")).await;
    assert_eq!(shown(&mut socket, "").await, "");
    let size = ExecInput::Size { columns: 80, rows: 24 };
    assert!(sent.lock().contains(&("sh".to_owned(), size)), "bash is not there");
    assert!(sent.lock().iter().all(|(program, _)| program == "sh"));
    let events = || {
        let events = ask(&home.sim, Method::GET, "/api/v1/namespaces/argocd/events", &Value::Null);
        let items = events["items"].as_array().cloned().unwrap_or_default();
        let about = |event: &Value| format!("{} {}", event["reason"], event["message"]).replace('"', "");
        items.iter().map(about).filter(|text| text.contains("Terminal")).collect::<Vec<_>>()
    };
    until(|| events().len() == 2).await;
    let mut events = events();
    events.sort();
    let of = "a terminal in container main of pod web/web-0";
    assert_eq!(
        events,
        [format!("TerminalClosed kim closed {of}"), format!("TerminalOpened kim opened {of}")]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_191_that_no_shell_is_there_is_said_and_a_strange_frame_ends_a_terminal() {
    let home = setup(&[("exec.enabled", "true"), ("exec.shells", "fish,zsh")]).0.start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let mut socket = open(&home, QUERY, &[cookie(&kim)]).await.unwrap();
    assert_eq!(shown(&mut socket, "").await, "no shell could be started: no such file\r\n");
    let (setup, _) = setup(&[("exec.enabled", "true")]);
    let home = setup.start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    for strange in [json!({"operation": "upload"}), json!([]), json!({"operation": "stdin", "data": 1})] {
        let mut socket = open(&home, QUERY, &[cookie(&kim)]).await.unwrap();
        send(&mut socket, &strange).await;
        assert_eq!(shown(&mut socket, "").await, "", "{strange}");
    }
}

/// SEC-32: a terminal does not outlive the right to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_193_who_lost_the_right_does_not_type_any_more() {
    let (setup, sent) = setup(&[("exec.enabled", "true")]);
    let home = setup.start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let mut socket = open(&home, QUERY, &[cookie(&kim)]).await.unwrap();
    send(&mut socket, &typed("$")).await;
    assert_eq!(shown(&mut socket, "$").await, "$");
    let may_not = json!({"data": {"policy.csv": MAY_TYPE.replace("exec, create", "logs, get")}});
    ask(&home.sim, Method::PATCH, MAP, &may_not);
    let bo = home.account("bo");
    // Until the change is in force.
    while open(&home, QUERY, &[cookie(&kim)]).await.is_ok() {}
    send(&mut socket, &typed("secret")).await;
    assert_eq!(shown(&mut socket, "").await, "Permission denied");
    until(|| sent.lock().last().is_some_and(|(_, last)| *last == ExecInput::Typed("\u{4}".into()))).await;
    assert!(!sent.lock().iter().any(|(_, input)| *input == ExecInput::Typed("secret".into())));
    assert_eq!(open(&home, QUERY, &[cookie(&bo)]).await.err().unwrap().0, 401);
}

/// SEC-31: a terminal does not outlive its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_193_a_token_that_does_not_count_any_more_makes_the_browser_connect_again() {
    let (setup, _) = setup(&[("exec.enabled", "true")]);
    let home = setup.start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let mut socket = open(&home, QUERY, &[cookie(&kim)]).await.unwrap();
    send(&mut socket, &typed("$")).await;
    assert_eq!(shown(&mut socket, "$").await, "$");
    let disabled = json!({"data": {"accounts.kim.enabled": "false"}});
    ask(&home.sim, Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &disabled);
    home.until(|world| world.setting("accounts.kim.enabled") == "false").await;
    send(&mut socket, &typed("x")).await;
    assert_eq!(shown(&mut socket, "").await, "\nReconnect because the token was refreshed...\n<1>");
}

/// Page, hole 5: one tenant could have all terminals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_16_one_account_has_a_quarter_of_the_terminals() {
    let (setup, _) = setup(&[("exec.enabled", "true")]);
    let home = setup.start().await;
    let (kim, admin) = (home.account("kim"), home.account("admin"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let mut sockets = Vec::new();
    for _ in 0..50 {
        sockets.push(open(&home, QUERY, &[cookie(&kim)]).await.unwrap());
    }
    let refused = open(&home, QUERY, &[cookie(&kim)]).await.err().unwrap();
    assert_eq!(refused, (429, "this caller has too many terminals; close one, and try again".to_owned()));
    assert!(open(&home, QUERY, &[cookie(&admin)]).await.is_ok(), "others have the rest");
}
