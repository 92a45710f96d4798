//! Watches of applications and sets: where they begin, what they are about, and who is too slow for them (API-123, API-124,
//! API-155).

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tiphys_object::Object;

use crate::applications::{APPS, app, changing};
use crate::home::{Client, Home};
use crate::support::{Reading, call};

const WATCH: &str = "/application.ApplicationService/Watch";
const SETS: &str = "/api/v1/applicationsets";
const SET_WATCH: &str = "/applicationset.ApplicationSetService/Watch";

async fn open(home: &Home, client: &Client<'_>, path: &str, query: &Value) -> Incoming {
    let mut request = call(path, "application/grpc", std::slice::from_ref(query));
    request.headers_mut().insert("authorization", client.bearer().parse().unwrap());
    home.server.http2(request).await.into_body()
}

/// What a watch tells.
struct Told(Reading);

impl Told {
    async fn by(home: &Home, client: &Client<'_>, path: &'static str, query: &Value) -> Self {
        Self(Reading::of(path, open(home, client, path, query).await))
    }

    /// The next event: what happened, and to which object.
    async fn next(&mut self) -> String {
        let message = self.0.next().await;
        let object = ["application", "applicationSet"].into_iter().find_map(|key| message.get(key)).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        format!("{} {namespace}/{name}", text(&message["type"]))
    }
}

fn label(home: &Home, resource: &str, name: &str, value: &str) {
    let target = format!("/apis/argoproj.io/v1alpha1/namespaces/argocd/{resource}/{name}");
    let patch = json!({"metadata": {"labels": {"step": value}}});
    crate::home::ask(&home.sim, http::Method::PATCH, &target, &patch);
}

fn remove(home: &Home, resource: &str, name: &str) {
    let target = format!("/apis/argoproj.io/v1alpha1/namespaces/argocd/{resource}/{name}");
    crate::home::ask(&home.sim, http::Method::DELETE, &target, &Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_123_a_watch_begins_with_what_there_is_or_at_a_version() {
    let home = changing().start().await;
    let kim = home.account("kim");
    for name in ["b", "a"] {
        kim.ok("POST", APPS, &app(name, "shop")).await;
    }
    let version = kim.ok("GET", APPS, &Value::Null).await["metadata"]["resourceVersion"].clone();
    let mut whole = Told::by(&home, &kim, WATCH, &json!({})).await;
    assert_eq!([whole.next().await, whole.next().await], ["ADDED argocd/a", "ADDED argocd/b"]);
    // What was written after the version is told, too, although nobody watched then (API-124).
    label(&home, "applications", "b", "1");
    whole.next().await;
    let mut later = Told::by(&home, &kim, WATCH, &json!({"resourceVersion": version})).await;
    assert_eq!(later.next().await, "MODIFIED argocd/b");
    // Of the other one nothing was told, and its end is, although its own version is an old one.
    remove(&home, "applications", "a");
    assert_eq!(later.next().await, "DELETED argocd/a");
    // Changes before a version that is still to come are left out.
    let far = json!({"resourceVersion": "900000"});
    let mut far = Told::by(&home, &kim, WATCH, &far).await;
    label(&home, "applications", "b", "2");
    remove(&home, "applications", "b");
    assert_eq!(far.next().await, "DELETED argocd/b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_123_a_watch_by_name_begins_with_that_one_in_its_namespace() {
    let home = changing().start().await;
    let kim = home.account("kim");
    for name in ["a", "b"] {
        kim.ok("POST", APPS, &app(name, "shop")).await;
    }
    // A version does not keep the first event away where there is a name.
    let named = json!({"name": "b", "resourceVersion": "900000"});
    let mut named = Told::by(&home, &kim, WATCH, &named).await;
    assert_eq!(named.next().await, "ADDED argocd/b");
    // One of another namespace is another one: the first that comes of this watch is its end.
    let mut elsewhere =
        Told::by(&home, &kim, WATCH, &json!({"name": "b", "appNamespace": "elsewhere"})).await;
    remove(&home, "applications", "b");
    assert_eq!(named.next().await, "DELETED argocd/b");
    let nothing = tokio::time::timeout(std::time::Duration::ZERO, elsewhere.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

/// One thread: nobody reads while many changes come.
#[tokio::test]
async fn api_123_a_watch_that_is_too_far_behind_ends_with_a_word() {
    let home = changing().changes(4).start().await;
    let kim = home.account("kim");
    let mut body = open(&home, &kim, WATCH, &json!({"name": "a"})).await;
    // The watch has begun when its first event is there.
    let take = |version: u32| {
        let value = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "a", "namespace": "argocd", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"project": "shop", "destination": {}}});
        home.catalog.take(&Object::from_value(&value).unwrap());
    };
    take(10_000);
    let first = body.frame().await.unwrap().unwrap();
    assert!(first.is_data());
    for version in 10_001..10_020 {
        take(version);
    }
    let rest = body.collect().await.unwrap();
    let trailers = rest.trailers().unwrap();
    assert_eq!(trailers["grpc-status"], "10", "{trailers:?}");
    let text = trailers["grpc-message"].to_str().unwrap().to_owned();
    assert!(text.contains("too far behind"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_155_a_watch_of_sets_begins_where_it_is_told_to() {
    let home = changing().start().await;
    let admin = home.account("admin");
    let set = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"generators": [{"list": {"elements": [{"n": "a"}]}}],
            "template": {"metadata": {"name": "x-{{n}}"}, "spec": {"project": "shop",
                "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
    };
    for name in ["b", "a"] {
        admin.ok("POST", SETS, &set(name)).await;
    }
    let version = admin.ok("GET", SETS, &Value::Null).await["metadata"]["resourceVersion"].clone();
    let mut whole = Told::by(&home, &admin, SET_WATCH, &json!({})).await;
    assert_eq!([whole.next().await, whole.next().await], ["ADDED argocd/a", "ADDED argocd/b"]);
    label(&home, "applicationsets", "b", "1");
    whole.next().await;
    let mut later = Told::by(&home, &admin, SET_WATCH, &json!({"resourceVersion": version})).await;
    assert_eq!(later.next().await, "MODIFIED argocd/b");
    let mut named =
        Told::by(&home, &admin, SET_WATCH, &json!({"name": "a", "resourceVersion": "900000"})).await;
    assert_eq!(named.next().await, "ADDED argocd/a");
    remove(&home, "applicationsets", "a");
    assert_eq!(named.next().await, "DELETED argocd/a");
    assert_eq!(later.next().await, "DELETED argocd/a", "its own version is an old one");
}
