//! What the log says of requests, and what it does not (API-27).

use std::cell::Cell;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::applications::{APPS, app, changing};

const CANARY: &str = "c4n4ry-0123456789";

thread_local! {
    /// Whether the log of this thread is kept.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// Keeps all lines of ours, of every level.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

struct Line<'l>(&'l mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    /// Asked each time: other tests, on other threads, are not listened to.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        LISTENS.get() && metadata.target().starts_with("tiphys")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        attributes.record(&mut Line(&mut self.0.lock()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut lines = self.0.lock();
        event.record(&mut Line(&mut lines));
        lines.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// On one thread, whose log is this one.
#[tokio::test]
async fn api_27_requests_are_logged_without_what_they_bring() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    LISTENS.set(true);
    let home = changing().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let repository =
        json!({"repo": "https://git/r", "username": "u", "password": CANARY, "sshPrivateKey": CANARY});
    let template = json!({"url": "https://git/", "password": CANARY});
    let cluster = json!({"server": "https://c", "name": "c", "config": {"bearerToken": CANARY}});
    let mut secret_app = app("web", "shop");
    secret_app["spec"]["source"]["helm"] = json!({"values": format!("password: {CANARY}"),
        "parameters": [{"name": "p", "value": CANARY}]});
    let patch = json!({"name": "web", "patchType": "merge", "patch": json!({"spec": {"info":
        [{"name": "n", "value": CANARY}]}}).to_string()});
    let sync = json!({"name": "web", "dryRun": true, "manifests": [json!({"data": CANARY}).to_string()]});
    for (verb, target, body) in [
        ("POST", "/api/v1/repositories", &repository),
        ("PUT", "/api/v1/repositories/https%3A%2F%2Fgit%2Fr", &repository),
        ("POST", "/api/v1/write-repositories", &repository),
        ("POST", "/api/v1/repocreds", &template),
        ("POST", "/api/v1/write-repocreds", &template),
        ("POST", "/api/v1/clusters", &cluster),
        ("PUT", "/api/v1/clusters/https%3A%2F%2Fc", &cluster),
        ("POST", "/api/v1/gpgkeys", &json!({"keyData": CANARY})),
        ("POST", "/api/v1/session", &json!({"username": "admin", "password": CANARY})),
        ("PUT", "/api/v1/account/password", &json!({"currentPassword": CANARY, "newPassword": CANARY})),
        ("POST", APPS, &secret_app),
        ("PATCH", &format!("{APPS}/web"), &patch),
        ("POST", &format!("{APPS}/web/sync"), &sync),
        (
            "POST",
            &format!(
                "{APPS}/web/resource?namespace=web&resourceName=a&group=apps&version=v1&kind=Deployment"
            ),
            &json!(json!({"data": CANARY}).to_string()),
        ),
        ("GET", "/api/v1/repositories/https%3A%2F%2Fu%3Ac4n4ry-0123456789%40git%2Fr", &Value::Null),
    ] {
        // Some are refused, which changes nothing about what is said.
        admin.send(verb, target, body).await;
    }
    kim.ok("GET", &format!("{APPS}?projects=shop"), &Value::Null).await;
    let log = lines.0.lock().clone();
    let of = |method: &str| log.lines().filter(|line| line.contains(method)).collect::<Vec<_>>();
    let list = of("ApplicationService/List\"").join("\n");
    assert!(list.contains(r#"payload="{\"projects\":[\"shop\"]}""#), "{list}");
    assert!(list.contains("message=call") && list.contains("user=kim"), "{list}");
    let create = of("ApplicationService/Create\"").join("\n");
    assert!(create.contains("web {…}"), "{create}");
    for quiet in ["RepositoryService/Create", "ClusterService/Create\"", "SessionService/Create\""] {
        let found = of(quiet).join("\n");
        assert!(found.contains("message=call") && !found.contains("payload="), "{quiet}: {found}");
    }
    let bearer = kim.token();
    assert!(!log.contains(CANARY), "{:?}", log.lines().find(|line| line.contains(CANARY)));
    assert!(!log.contains(bearer), "a token stands in the log");
}
