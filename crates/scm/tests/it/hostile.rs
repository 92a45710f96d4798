//! Servers that fail, lie, or never end: an error, and never a shorter list (F24, INV-8).

use std::time::Duration;

use serde_json::{Value, json};
use tiphys_scm::{Credentials, Limits, ScmError, ScmOptions};

use crate::double::{Double, Reply, limits, ok, options, repositories_with, status, token};

/// An organisation of GitHub whose second page is this.
async fn second_page(limits: Limits, page: impl Fn() -> Reply + Send + Sync + 'static) -> ScmError {
    let repository = json!({
        "id": 1, "name": "one", "owner": {"login": "acme"}, "ssh_url": "s", "clone_url": "h", "default_branch": "main"});
    let server = Double::start(move |asked| match asked.target.as_str() {
        "/api/v3/orgs/acme/repos?per_page=100" => {
            ok(json!([repository])).with("link", "</x?per_page=100&page=2>; rel=\"next\"")
        }
        "/api/v3/orgs/acme/repos?per_page=100&page=2" => page(),
        _ => ok(json!({"name": "main", "commit": {"sha": "a"}})),
    })
    .await;
    let options = ScmOptions { limits, ..options() };
    let block = json!({"github": {"organization": "acme", "api": server.url}});
    let error = repositories_with(options, &block, &token("hunter2")).await.unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    error
}

#[tokio::test]
async fn inv_8_a_page_that_fails_is_no_end_of_the_list() {
    let text = |body: &str| Reply { status: 200, body: body.to_owned(), ..Reply::default() };
    assert!(matches!(second_page(limits(), || status(500)).await, ScmError::Status { status: 500, .. }));
    assert!(matches!(second_page(limits(), || status(404)).await, ScmError::NotFound { .. }));
    assert!(matches!(second_page(limits(), || status(401)).await, ScmError::Denied { status: 401, .. }));
    assert!(matches!(second_page(limits(), || status(403)).await, ScmError::Denied { status: 403, .. }));
    assert!(matches!(second_page(limits(), || status(302)).await, ScmError::Answer { .. }));
    let part = || Reply { status: 206, body: "[]".to_owned(), ..Reply::default() };
    assert!(matches!(second_page(limits(), part).await, ScmError::Status { status: 206, .. }));
    let limited = || status(403).with("x-ratelimit-remaining", "0").with("x-ratelimit-reset", "4102444800");
    assert!(matches!(second_page(limits(), limited).await, ScmError::RateLimited { until: Some(_), .. }));
    let limited = || status(429).with("retry-after", "60");
    assert!(matches!(second_page(limits(), limited).await, ScmError::RateLimited { until: Some(_), .. }));
    for garbage in
        ["", "{", "[{]", "<html>", "null", "{}", "[1]", "[{}]", "[{\"id\": 1}]", "{\"message\": \"hunter2\"}"]
    {
        let error = second_page(limits(), move || text(garbage)).await;
        assert!(matches!(error, ScmError::Answer { .. }), "{garbage}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(second_page(limits(), move || text(&deep)).await, ScmError::Answer { .. }));
    let again = || ok(json!([])).with("link", "</x?per_page=100&page=2>; rel=\"next\"");
    assert!(second_page(limits(), again).await.to_string().contains("the same one"));
}

#[tokio::test]
async fn sec_07_answers_have_bounds() {
    let small = Limits { answer_bytes: 10_000, ..limits() };
    let large = || Reply { status: 200, body: " ".repeat(10_001), ..Reply::default() };
    assert!(matches!(second_page(small, large).await, ScmError::TooMany { what: "bytes", .. }));
    let small = Limits { answer_memory: 10_000, ..limits() };
    let many = || ok(Value::Array(vec![json!([]); 1_000]));
    assert!(matches!(second_page(small, many).await, ScmError::Answer { .. }));
    let short = Limits { request: Duration::from_millis(300), ..limits() };
    let slow = || Reply { status: 200, body: "[".to_owned(), stalls: true, ..Reply::default() };
    assert!(matches!(second_page(short, slow).await, ScmError::Timeout { .. }));
    let short = Limits { total: Duration::from_millis(300), ..limits() };
    assert!(matches!(second_page(short, slow).await, ScmError::Deadline { .. }));
}

#[tokio::test]
async fn sec_07_lists_have_bounds() {
    // Each page names the next one, for ever.
    let server = Double::start(|asked| {
        let page: u32 = asked.target.rsplit_once("page=").and_then(|(_, page)| page.parse().ok()).unwrap_or(1);
        let repository = json!({
            "id": 1, "name": "one", "owner": {"login": "acme"}, "ssh_url": "s", "clone_url": "h", "default_branch": "main"});
        ok(json!([repository, repository])).with("link", format!("</x?page={}>; rel=\"next\"", page + 1))
    })
    .await;
    let block = json!({"github": {"organization": "acme", "api": server.url}});
    for (limits, what) in [
        (Limits { pages: 3, ..limits() }, "pages"),
        (Limits { items: 5, ..limits() }, "items"),
        (Limits { requests: 4, ..limits() }, "things to be asked"),
    ] {
        let error =
            repositories_with(ScmOptions { limits, ..options() }, &block, &Credentials::default()).await;
        assert!(matches!(error, Err(ScmError::TooMany { what: found, .. }) if found == what), "{error:?}");
    }
}

#[tokio::test]
async fn aset_59_redirects_never_carry_credentials_away() {
    let thief = Double::start(|_| ok(json!([]))).await;
    let (to, port) = (thief.url.clone(), thief.port);
    let server = Double::start(move |asked| match asked.target.as_str() {
        "/api/v3/orgs/moved/repos?per_page=100" => {
            status(301).with("location", "/api/v3/orgs/acme/repos?per_page=100")
        }
        "/api/v3/orgs/acme/repos?per_page=100" => ok(json!([])),
        "/api/v3/orgs/stolen/repos?per_page=100" => {
            status(302).with("location", format!("{to}/api/v3/orgs/acme/repos"))
        }
        "/api/v3/orgs/port/repos?per_page=100" => {
            status(307).with("location", format!("http://127.0.0.1:{port}/"))
        }
        "/api/v3/orgs/loop/repos?per_page=100" => {
            status(308).with("location", "/api/v3/orgs/loop/repos?per_page=100")
        }
        _ => status(302),
    })
    .await;
    let of = |organization: &str| json!({"github": {"organization": organization, "api": server.url}});
    let ask = async |organization: &str| repositories_with(options(), &of(organization), &token("t")).await;
    assert_eq!(ask("moved").await, Ok(Vec::new()), "on the same host");
    for stolen in ["stolen", "port"] {
        let error = ask(stolen).await.unwrap_err();
        assert!(matches!(error, ScmError::Redirected { .. }), "{error}");
    }
    assert!(ask("loop").await.unwrap_err().to_string().contains("too often"));
    assert!(ask("nowhere").await.unwrap_err().to_string().contains("nowhere"));
    assert!(thief.asked().is_empty());
}

#[tokio::test]
async fn aset_58_names_are_parts_of_paths_and_nothing_else() {
    let server = Double::start(|_| status(404)).await;
    for (name, target) in [
        ("a/../../x", "GET /api/v3/orgs/a%2F..%2F..%2Fx/repos?per_page=100"),
        ("a?b#c", "GET /api/v3/orgs/a%3Fb%23c/repos?per_page=100"),
    ] {
        let block = json!({"github": {"organization": name, "api": server.url}});
        let error = repositories_with(options(), &block, &Credentials::default()).await.unwrap_err();
        assert!(matches!(error, ScmError::NotFound { .. }), "{error}");
        assert_eq!(server.targets().last().map(String::as_str), Some(target));
    }
    let block = json!({"github": {"organization": "..", "api": server.url}});
    let error = repositories_with(options(), &block, &Credentials::default()).await.unwrap_err();
    assert!(matches!(error, ScmError::Block(_)), "{error}");
}

#[tokio::test]
async fn f24_a_server_that_is_not_there() {
    let gone = Double::start(|_| status(500)).await.port;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    assert_ne!(gone, port);
    let block = json!({"github": {"organization": "o", "api": format!("http://127.0.0.1:{port}")}});
    let error = repositories_with(options(), &block, &token("hunter2")).await.unwrap_err();
    assert!(matches!(error, ScmError::Unreachable { .. }), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}
