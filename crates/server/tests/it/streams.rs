//! Streams end for every reason for which REST refuses a call: session, account, token, rights (SEC-14, SEC-31, SEC-32).
//!
//! Time is paused and calls are made without a connection, so that time limits are exact.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tiphys_server::call::{Head, Message, Payload, Requests, Status, Via};
use tiphys_wire::schema;
use tiphys_wire::status::Code;
use tokio::time::{Instant, sleep, timeout};

use crate::applications::{Known, app};
use crate::home::{BEGIN, Home, KEY, Setup, ask};

mod lasting;

const CM: &str = "/api/v1/namespaces/argocd/configmaps/argocd-cm";
const RBAC: &str = "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm";
const SECRET: &str = "/api/v1/namespaces/argocd/secrets/argocd-secret";
const PROJECT: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects/shop";
const APP: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/web";

/// Longest time that a stream may continue after its caller lost access.
const AT_MOST: Duration = Duration::from_secs(3);

const WATCH: &str = "/application.ApplicationService/Watch";
const SETS: &str = "/applicationset.ApplicationSetService/Watch";
const TREE: &str = "/application.ApplicationService/WatchResourceTree";
const LOGS: &str = "/application.ApplicationService/PodLogs";
const HEALTH: &str = "/grpc.health.v1.Health/Watch";
const UPLOAD: &str = "/application.ApplicationService/GetManifestsWithFiles";
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Streams and their requests.
fn streams() -> [(&'static str, Value); 6] {
    let logs = json!({"name": "web", "resourceName": "endless", "follow": true});
    [
        (WATCH, json!({})),
        (WATCH, json!({"name": "web"})),
        (SETS, json!({})),
        (TREE, json!({"applicationName": "web"})),
        (LOGS, logs),
        (HEALTH, json!({})),
    ]
}

const POLICY: &str = "p, role:shop, applications, *, shop/*, allow\np, role:shop, logs, get, shop/*, allow\n\
                      p, role:shop, applicationsets, *, shop/*, allow\ng, kim, role:shop\n";

fn now() -> i64 {
    BEGIN.parse::<jiff::Timestamp>().unwrap().as_second()
}

/// A token of the installation.
fn token(subject: &str, id: &str, lifetime: i64) -> String {
    let claims = json!({"iss": "argocd", "sub": subject, "iat": now(), "nbf": now(), "exp": now() + lifetime, "jti": id});
    let key = tiphys_api::secret::Secret::from(KEY);
    tiphys_service::jwt::sign(&claims, &key).expose().clone()
}

/// An installation with the application `web`, the set `all`, and three tokens that may see both: those of a session, of a
/// program and of a project's role.
async fn started(known: &Arc<Known>) -> Home {
    let setup = Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login, apiKey")])
        .config_map("argocd-rbac-cm", &[("policy.csv", POLICY)])
        .live(Arc::<Known>::clone(known));
    let tokens = json!([{"id": "t1", "iat": now(), "exp": now() + 86_400}]).to_string();
    setup.ask(Method::PATCH, SECRET, &json!({"stringData": {"accounts.kim.tokens": tokens}}));
    let items = json!([{"id": "p1", "iat": now(), "exp": now() + 86_400}]);
    let may = ["applications", "logs", "applicationsets"]
        .map(|it| format!("p, proj:shop:ci, {it}, get, shop/*, allow"));
    let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "roles": [{"name": "ci", "policies": may, "jwtTokens": items}]},
        "status": {"jwtTokensByRole": {"ci": {"items": items}}}});
    setup.ask(Method::POST, "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects", &project);
    let kind = |mut object: Value, kind: &str| {
        object["apiVersion"] = json!("argoproj.io/v1alpha1");
        object["kind"] = json!(kind);
        object["metadata"]["namespace"] = json!("argocd");
        object
    };
    setup.ask(Method::POST, APP.trim_end_matches("/web"), &kind(app("web", "shop"), "Application"));
    let set = json!({"metadata": {"name": "all"}, "spec": {"generators": [],
        "template": {"metadata": {"name": "x"}, "spec": {"project": "shop", "destination": {}, "source": {"repoURL": "https://git/r"}}}}});
    let sets = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets";
    setup.ask(Method::POST, sets, &kind(set, "ApplicationSet"));
    setup.start().await
}

fn head(token: &str, path: &str) -> Head {
    let mut headers = HeaderMap::new();
    if !token.is_empty() {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let method = schema().method_at(path).unwrap();
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    Head { method, via: Via::Grpc, headers, peer, deadline: None, fields: None }
}

type Stream = BoxStream<'static, Result<Message, Status>>;

async fn ask_api(home: &Home, token: &str, path: &str, requests: Requests) -> Result<Payload, Status> {
    let admitted = Arc::clone(&home.api).admit(head(token, path)).await?;
    Ok(Arc::clone(&home.api).call(admitted, requests).await?.payload)
}

async fn open(home: &Home, token: &str, path: &str, request: &Value) -> Stream {
    match ask_api(home, token, path, Requests::One(request.clone())).await {
        Ok(Payload::Stream(stream)) => stream,
        other => panic!("{path}: {other:?}"),
    }
}

/// Counts the messages that a stream sends within a moment.
async fn drained(stream: &mut Stream) -> usize {
    let mut count = 0;
    while let Ok(Some(next)) = timeout(Duration::from_millis(100), stream.next()).await {
        next.unwrap();
        count += 1;
    }
    count
}

/// Waits until a unary call is refused.
async fn until_refused(home: &Home, token: &str) -> Status {
    let began = Instant::now();
    loop {
        let request = Requests::One(json!({"name": "web"}));
        match ask_api(home, token, "/application.ApplicationService/Get", request).await {
            Ok(_) => sleep(Duration::from_millis(10)).await,
            Err(status) => return status,
        }
        assert!(began.elapsed() < Duration::from_mins(1), "REST goes on");
    }
}

fn patch(home: &Home, target: &str, change: &Value) {
    ask(&home.sim, Method::PATCH, target, change);
}

/// Change after which the bearer of a token has no access.
enum Taken {
    Patched(&'static str, Value),
    Deleted(&'static str),
    Revoked,
    OverAfter(Duration),
}

impl Taken {
    async fn from(&self, home: &Home) {
        match self {
            Self::Patched(target, change) => patch(home, target, change),
            Self::Deleted(target) => drop(ask(&home.sim, Method::DELETE, target, &Value::Null)),
            Self::Revoked => {
                let claims = json!({"iss": "argocd", "sub": "kim", "jti": "x", "exp": now() + 86_400});
                home.sessions.revoke(claims.as_object().unwrap()).await.unwrap();
            }
            Self::OverAfter(time) => sleep(*time).await,
        }
    }
}

/// All reasons for which a session ends, with a token that they end.
fn causes() -> Vec<(&'static str, String, Taken)> {
    let login = || token("kim:login", "x", 86_400);
    let program = || token("kim:apiKey", "t1", 86_400);
    let role = || token("proj:shop:ci", "p1", 86_400);
    let account = |field: &str, value: Value| {
        Taken::Patched(CM, json!({"data": {format!("accounts.kim{field}"): value}}))
    };
    let secret = |name: &str, value: &str| Taken::Patched(SECRET, json!({"stringData": {name: value}}));
    let newer = || secret("accounts.kim.passwordMtime", "2026-01-01T00:00:01Z");
    let no_tokens = json!({"status": {"jwtTokensByRole": {"ci": {"items": []}}}});
    let no_roles = json!({"spec": {"roles": []}, "status": {"jwtTokensByRole": null}});
    vec![
        ("the session is revoked", login(), Taken::Revoked),
        ("the password is another", login(), newer()),
        ("the account is disabled", login(), account(".enabled", json!("false"))),
        ("the account is gone", login(), account("", Value::Null)),
        ("the account may not log in any more", login(), account("", json!("apiKey"))),
        ("the signing key is another", login(), secret("server.secretkey", "other")),
        ("the account may not use tokens any more", program(), account("", json!("login"))),
        ("the token of the account is deleted", program(), secret("accounts.kim.tokens", "[]")),
        ("the password is newer than the token", program(), newer()),
        ("the token of the project is deleted", role(), Taken::Patched(PROJECT, no_tokens)),
        ("the role of the project is gone", role(), Taken::Patched(PROJECT, no_roles)),
        ("the project is gone", role(), Taken::Deleted(PROJECT)),
        ("the token is over", token("kim:login", "y", 60), Taken::OverAfter(Duration::from_mins(1))),
    ]
}

/// Makes a change that every stream reports.
fn news(home: &Home, known: &Known) {
    patch(home, APP, &json!({"metadata": {"labels": {"step": "1"}}}));
    let set = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets/all";
    patch(home, set, &json!({"metadata": {"labels": {"step": "1"}}}));
    known.trees.send_modify(|count| *count += 1);
}

#[tokio::test(start_paused = true)]
async fn sec_32_streams_end_with_the_session() {
    for (why, token, taken) in causes() {
        let known = Arc::<Known>::default();
        let home = started(&known).await;
        let mut open_ones = Vec::new();
        for (path, request) in streams() {
            let mut stream = open(&home, &token, path, &request).await;
            let first = drained(&mut stream).await;
            assert!(first > 0 || path == TREE || path == LOGS, "{path}: there is no initial message");
            open_ones.push((path, stream));
        }
        taken.from(&home).await;
        let refused = until_refused(&home, &token).await;
        assert_eq!(refused.code, Code::Unauthenticated, "{why}: {refused}");
        let began = Instant::now();
        news(&home, &known);
        for (path, mut stream) in open_ones {
            let end = timeout(AT_MOST, stream.next()).await;
            let is_over = matches!(&end, Ok(Some(Err(status))) if status.code == Code::Unauthenticated);
            assert!(is_over, "{why}: {path}: {end:?}");
            assert!(matches!(timeout(AT_MOST, stream.next()).await, Ok(None)), "{why}: {path} goes on");
        }
        assert!(began.elapsed() <= AT_MOST, "{why}: {:?}", began.elapsed());
    }
}

/// Losing a right ends streams about one application and silences streams about all visible ones.
#[tokio::test(start_paused = true)]
async fn sec_32_streams_end_with_the_right() {
    let policy = |text: &str| Taken::Patched(RBAC, json!({"data": {"policy.csv": text}}));
    let taken = [
        ("policy", policy("")),
        ("application moves", Taken::Patched(APP, json!({"spec": {"project": "default"}}))),
        ("project is gone", Taken::Deleted(PROJECT)),
        ("logs", policy(&POLICY.replace("logs, get", "exec, create"))),
    ];
    let token = token("kim:login", "x", 86_400);
    for (why, take) in taken {
        let known = Arc::<Known>::default();
        let home = started(&known).await;
        let mut open_ones = Vec::new();
        for (path, request) in streams() {
            let mut stream = open(&home, &token, path, &request).await;
            drained(&mut stream).await;
            open_ones.push((path, stream));
        }
        take.from(&home).await;
        let began = Instant::now();
        let logs = json!({"name": "web", "resourceName": "0"});
        while ask_api(&home, &token, LOGS, Requests::One(logs.clone())).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
            assert!(began.elapsed() < Duration::from_mins(1), "{why}: REST goes on");
        }
        // Changes in the catalog are noticed within the interval.
        sleep(AT_MOST).await;
        news(&home, &known);
        for (path, mut stream) in open_ones {
            let mut told = Vec::new();
            while let Ok(Some(next)) = timeout(AT_MOST, stream.next()).await {
                told.push(next.map(drop).map_err(|status| status.code));
            }
            let is_one = path == LOGS || path == TREE && why != "logs";
            let lines = told.iter().filter(|it| it.is_ok()).count();
            match why {
                "logs" if path != LOGS => assert!(path == HEALTH || lines > 0, "{path}: {told:?}"),
                _ if is_one => {
                    assert!(told.last().is_some_and(Result::is_err), "{why}: {path}: {told:?}");
                    // Lines from before the check.
                    assert!(lines <= 4, "{why}: {path}: {told:?}");
                }
                "application moves" if path == SETS => assert_eq!(lines, 1, "the set stays: {told:?}"),
                // A list depends on the policy, not on the existence of the project.
                "project is gone" => assert!(lines <= 1, "{path}: {told:?}"),
                _ => assert!(path == HEALTH || lines == 0, "{why}: {path}: {told:?}"),
            }
        }
    }
}

/// The initial list goes only to callers who still have access when they read it.
#[tokio::test(start_paused = true)]
async fn sec_32_a_slowly_read_watch_ends_with_the_session() {
    for (path, request) in [(WATCH, json!({})), (SETS, json!({}))] {
        let known = Arc::<Known>::default();
        let home = started(&known).await;
        let token = token("kim:login", "x", 86_400);
        let mut stream = open(&home, &token, path, &request).await;
        patch(&home, CM, &json!({"data": {"accounts.kim.enabled": "false"}}));
        until_refused(&home, &token).await;
        let first = stream.next().await;
        assert!(matches!(first, Some(Err(_))), "{path}: {first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sec_32_anonymous_streams_end_with_anonymous_access() {
    let known = Arc::<Known>::default();
    let home = started(&known).await;
    patch(&home, CM, &json!({"data": {"users.anonymous.enabled": "true"}}));
    patch(&home, RBAC, &json!({"data": {"policy.default": "role:readonly"}}));
    while ask_api(&home, "", TREE, Requests::One(json!({"applicationName": "web"}))).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    let mut stream = open(&home, "", WATCH, &json!({})).await;
    assert_eq!(drained(&mut stream).await, 1);
    patch(&home, CM, &json!({"data": {"users.anonymous.enabled": "false"}}));
    until_refused(&home, "").await;
    news(&home, &known);
    let end = timeout(AT_MOST, stream.next()).await;
    assert!(matches!(&end, Ok(Some(Err(status))) if status.code == Code::Unauthenticated), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn sec_32_reflection_ends_with_the_session() {
    for path in REFLECTION {
        let home = started(&Arc::default()).await;
        let token = token("kim:login", "x", 86_400);
        let (asks, questions) = futures::channel::mpsc::unbounded();
        let requests = Requests::Stream(questions.boxed());
        let Ok(Payload::Stream(mut stream)) = ask_api(&home, &token, path, requests).await else {
            panic!("{path}")
        };
        asks.unbounded_send(Ok(json!({"list_services": ""}))).unwrap();
        assert!(matches!(stream.next().await, Some(Ok(_))));
        patch(&home, CM, &json!({"data": {"accounts.kim": "apiKey"}}));
        until_refused(&home, &token).await;
        asks.unbounded_send(Ok(json!({"list_services": ""}))).unwrap();
        assert!(matches!(stream.next().await, Some(Err(_))), "{path}");
    }
}

/// An upload may take minutes.
#[tokio::test(start_paused = true)]
async fn sec_32_an_upload_is_rendered_for_callers_who_still_may() {
    for change in [json!({"data": {"accounts.kim.enabled": "false"}}), json!({"data": {"policy.csv": ""}})] {
        let home = started(&Arc::default()).await;
        let token = token("kim:login", "x", 86_400);
        let (sends, parts) = futures::channel::mpsc::unbounded();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        sends.unbounded_send(Ok(json!({"query": {"name": "web", "checksum": sum}}))).unwrap();
        let called = ask_api(&home, &token, UPLOAD, Requests::Stream(parts.boxed()));
        let taken = async {
            sleep(Duration::from_secs(1)).await;
            patch(&home, if change["data"].get("policy.csv").is_some() { RBAC } else { CM }, &change);
            until_refused(&home, &token).await;
            sends.unbounded_send(Ok(json!({"chunk": {"chunk": "YWJj"}}))).unwrap();
            drop(sends);
        };
        let (answer, ()) = tokio::join!(called, taken);
        let refused = answer.unwrap_err();
        assert!(matches!(refused.code, Code::Unauthenticated | Code::PermissionDenied), "{refused}");
    }
}

/// A refresh waits for the controller, and the application may have moved to another project meanwhile.
#[tokio::test(start_paused = true)]
async fn sec_32_a_refresh_answers_callers_who_still_may() {
    for (target, change) in [
        (CM, json!({"data": {"accounts.kim.enabled": "false"}})),
        (APP, json!({"spec": {"project": "default"}})),
    ] {
        let home = started(&Arc::default()).await;
        let token = token("kim:login", "x", 86_400);
        let request = Requests::One(json!({"name": "web", "refresh": "normal"}));
        let called = ask_api(&home, &token, "/application.ApplicationService/Get", request);
        let taken = async {
            sleep(Duration::from_secs(1)).await;
            patch(&home, target, &change);
            until_refused(&home, &token).await;
            patch(&home, APP, &json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": null}}}));
        };
        let (answer, ()) = tokio::join!(called, taken);
        let refused = answer.unwrap_err();
        assert!(matches!(refused.code, Code::Unauthenticated | Code::PermissionDenied), "{refused}");
    }
}
