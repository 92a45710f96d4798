//! A whole API server of an installation in memory: the embedded Kubernetes, what follows it, and the services.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use tiphys_cluster::{Connection, Discovery, Writer};
use tiphys_server::call::Api;
use tiphys_server::catalog::Catalog;
use tiphys_server::counts::Counts;
use tiphys_server::extension::Proxy;
use tiphys_server::follow::{Following, Home as Way};
use tiphys_server::http::{Bounds, Front, FrontOptions};
use tiphys_server::listen::Listener;
use tiphys_server::live::Live;
use tiphys_server::pages::{AssetOptions, Pages, PagesOptions};
use tiphys_server::services::audit::{Recorder, write};
use tiphys_server::services::{Build, Parts, Services};
use tiphys_server::session::Sessions;
use tiphys_server::sets::SetCatalog;
use tiphys_server::sso::Door;
use tiphys_server::world::World;
use tiphys_service::Store;
use tiphys_service::connection::Connections;
use tiphys_sim::{Options, Sim};
use tiphys_source::{Clock, Sources};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{Scripted, Server, options};

/// The key that tokens are signed with.
pub(crate) const KEY: &str = "signing-key";
/// The password of the accounts.
pub(crate) const PASSWORD: &str = "hunter2hunter2";
/// Time after which what is waited for is missing: a test that fails has to end.
const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const BEGIN: &str = "2026-01-01T00:00:00Z";

/// An installation before its server is started.
pub(crate) struct Setup {
    pub(crate) sim: Sim,
    without_authentication: bool,
    pages: PagesOptions,
    live: Option<Arc<dyn Live>>,
    sources: Option<Sources>,
    has_extensions: bool,
    changes_max: usize,
}

/// A running server.
pub(crate) struct Home {
    pub(crate) sim: Sim,
    pub(crate) server: Server,
    pub(crate) world: Arc<ArcSwap<World>>,
    pub(crate) counts: Counts,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) sessions: Arc<Sessions>,
    /// The services, for calls without a connection.
    pub(crate) api: Arc<dyn Api>,
}

fn pages() -> PagesOptions {
    PagesOptions {
        gzip: true,
        describes_api: true,
        version: "0.1.0".to_owned(),
        assets: AssetOptions {
            directory: "/nowhere".into(),
            base: String::new(),
            frame_options: Some(HeaderValue::from_static("sameorigin")),
            content_policy: Some(HeaderValue::from_static("frame-ancestors 'self';")),
        },
        extensions: None,
        program: None,
    }
}

fn hash() -> String {
    bcrypt::hash_with_salt(PASSWORD, 4, [3; 16]).unwrap().to_string()
}

impl Setup {
    /// Our kinds, the namespace, an administrator, and nothing else.
    pub(crate) fn new() -> Self {
        let clock = tiphys_sim::Clock::virtual_from(BEGIN.parse().unwrap());
        let sim = Sim::new(Options { clock, ..Options::default() }).unwrap();
        let setup = Self {
            sim,
            without_authentication: false,
            pages: pages(),
            live: None,
            sources: None,
            has_extensions: false,
            changes_max: 1_000,
        };
        for definition in tiphys_api::crd::manifests() {
            setup.ask(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
        setup.ask(Method::POST, "/api/v1/namespaces", &namespace);
        setup.secret("argocd-secret", &[("server.secretkey", KEY), ("admin.password", &hash())]).project(
            "default",
            &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}),
        )
    }

    pub(crate) fn ask(&self, method: Method, target: &str, body: &Value) -> Value {
        ask(&self.sim, method, target, body)
    }

    pub(crate) fn config_map(self, name: &str, data: &[(&str, &str)]) -> Self {
        let data: Map<String, Value> =
            data.iter().map(|(key, it)| ((*key).to_owned(), Value::from(*it))).collect();
        let labels = json!({"app.kubernetes.io/part-of": "argocd"});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "namespace": "argocd", "labels": labels}});
        self.ask(Method::POST, "/api/v1/namespaces/argocd/configmaps", &object);
        self
    }

    pub(crate) fn secret(self, name: &str, data: &[(&str, &str)]) -> Self {
        let data: Map<String, Value> =
            data.iter().map(|(key, it)| ((*key).to_owned(), Value::from(STANDARD.encode(it)))).collect();
        let labels = json!({"app.kubernetes.io/part-of": "argocd"});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": {"name": name, "namespace": "argocd", "labels": labels}});
        self.ask(Method::POST, "/api/v1/namespaces/argocd/secrets", &object);
        self
    }

    pub(crate) fn project(self, name: &str, spec: &Value) -> Self {
        let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "spec": spec,
            "metadata": {"name": name, "namespace": "argocd"}});
        self.ask(Method::POST, "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects", &object);
        self
    }

    pub(crate) fn without_authentication(mut self) -> Self {
        self.without_authentication = true;
        self
    }

    /// With requests handed on to extensions.
    pub(crate) fn with_extensions(mut self) -> Self {
        self.has_extensions = true;
        self
    }

    /// With other pages for browsers.
    pub(crate) fn pages(mut self, change: impl FnOnce(&mut PagesOptions)) -> Self {
        change(&mut self.pages);
        self
    }

    pub(crate) fn live(self, live: Arc<dyn Live>) -> Self {
        Self { live: Some(live), ..self }
    }

    /// Repositories in memory.
    pub(crate) fn sources(self, sources: Sources) -> Self {
        Self { sources: Some(sources), ..self }
    }

    /// With watches that may be that many changes behind.
    pub(crate) fn changes(self, changes_max: usize) -> Self {
        Self { changes_max, ..self }
    }

    pub(crate) async fn start(self) -> Home {
        let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
        let counts = Counts::default();
        let sim = self.sim.clone();
        let connection =
            Connection::over("https://kubernetes.default.svc", move |request: Request<Bytes>| {
                let sim = sim.clone();
                async move { Ok(sim.call(request).await) }
            });
        let way = Way {
            connection: connection.clone(),
            namespace: "argocd".to_owned(),
            env: BTreeMap::new(),
            jitter: Arc::new(|| 0.5),
        };
        let following = Following::start(&way, &tracker, &cancel).await.unwrap();
        let world = Arc::new(ArcSwap::from_pointee(following.world()));
        let catalog = Arc::new(Catalog::holding("argocd", self.changes_max));
        following.applications(&way, Arc::clone(&catalog), &world.load(), (&tracker, &cancel)).unwrap();
        let sets = Arc::new(SetCatalog::holding(self.changes_max));
        following.application_sets(&way, Arc::clone(&sets), &world.load(), (&tracker, &cancel));
        let discovery = Discovery::new(connection.clone());
        let store = Store::new(Writer::new(connection.clone(), discovery), "argocd");
        let clock = Clock::of_timers(BEGIN.parse().unwrap());
        let sessions = Arc::new(Sessions::new(Arc::clone(&world), clock.clone(), Some(store.clone())));
        tracker.spawn(following.run(Arc::clone(&world), Arc::clone(&sessions)));
        let sets_known = Arc::clone(&sets);
        let (recorder, records) = Recorder::new();
        tracker.spawn(write(store.clone(), records));
        let door = Door {
            world: Arc::clone(&world),
            sessions: Arc::clone(&sessions),
            cookies: options().cookies,
            root_path: String::new(),
            clock: clock.clone(),
        };
        let services = Services::new(Parts {
            catalog: Arc::clone(&catalog),
            sets,
            live: self.live,
            sources: self.sources,
            connections: Connections::new(SignedDuration::from_hours(1)),
            home: connection.clone(),
            recorder,
            world: Arc::clone(&world),
            sessions: Arc::clone(&sessions),
            store,
            clock,
            counts: counts.clone(),
            build: Build {
                version: "0.1.0".to_owned(),
                commit: "0123456789abcdef".to_owned(),
                ..Build::default()
            },
            without_authentication: self.without_authentication,
        });
        let terminals = services.terminals(options().cookies, &tracker, &cancel);
        let services = Arc::new(services);
        let pages = Pages {
            options: self.pages,
            world: Arc::clone(&world),
            catalog: Arc::clone(&catalog),
            services: Arc::clone(&services),
        };
        let proxy = Proxy::new(Arc::clone(&services), Arc::clone(&world), false, (&tracker, &cancel));
        let api: Arc<dyn Api> = services;
        let bounds = Bounds { unknown_bytes_max: 1 << 20, ..Bounds::default() };
        let options = FrontOptions { bounds, ..options() };
        let stopping = cancel.clone();
        let front = terminals.on(door.on(Front::new(Arc::clone(&api), options, stopping.clone())));
        let front = if self.has_extensions { proxy.on(front) } else { front };
        let front = Arc::new(ArcSwap::from_pointee(pages.on(front)));
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = Listener::new(socket, front, Arc::new(ArcSwapOption::empty()));
        let address = listener.address().unwrap();
        let running = tokio::spawn(listener.run(stopping.clone()));
        until(|| catalog.is_complete() && sets_known.all().is_some()).await;
        let server = Server { api: Arc::new(Scripted::default()), address, stopping, running };
        Home { sim: self.sim, server, world, counts, catalog, sessions, api }
    }
}

/// Waits until something is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("what is waited for comes");
}

/// Asks the embedded Kubernetes; whatever changes something must succeed.
pub(crate) fn ask(sim: &Sim, method: Method, target: &str, body: &Value) -> Value {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(target).header("content-type", kind).body(bytes);
    let response = sim.handle(request.unwrap());
    assert!(response.status().is_success() || body.is_null(), "{target}: {}", response.status());
    let body = response.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap_or_default()
}

/// A client with or without a token.
pub(crate) struct Client<'h> {
    home: &'h Home,
    token: Option<String>,
}

impl Home {
    /// Somebody who is not known.
    pub(crate) fn nobody(&self) -> Client<'_> {
        Client { home: self, token: None }
    }

    /// Somebody with a token.
    pub(crate) fn with(&self, token: &str) -> Client<'_> {
        Client { home: self, token: Some(token.to_owned()) }
    }

    /// A session of an account, made as the server makes it, without its delays.
    pub(crate) fn account(&self, name: &str) -> Client<'_> {
        let now = BEGIN.parse::<jiff::Timestamp>().unwrap().as_second();
        let claims = json!({"iss": "argocd", "sub": format!("{name}:login"), "iat": now, "nbf": now,
            "exp": now + 86_400, "jti": "x"});
        let key = tiphys_api::secret::Secret::from(KEY);
        self.with(tiphys_service::jwt::sign(&claims, &key).expose())
    }

    /// Waits until the server sees a change of the installation.
    pub(crate) async fn until(&self, is_seen: impl Fn(&World) -> bool) {
        until(|| is_seen(&self.world.load())).await;
    }
}

impl Client<'_> {
    /// The token; empty for nobody.
    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// What a header says of a token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token.as_deref().unwrap_or_default())
    }

    /// A status and the JSON of a REST call.
    pub(crate) async fn send(&self, verb: &str, target: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) = self.whole(verb, target, body).await;
        (status, answer)
    }

    /// The same, with the headers.
    pub(crate) async fn whole(&self, verb: &str, target: &str, body: &Value) -> (u16, HeaderMap, Value) {
        let mut request =
            Request::builder().method(verb).uri(target).header("content-type", "application/json");
        if self.token.is_some() {
            request = request.header("authorization", self.bearer());
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, headers, text) =
            crate::support::read(self.home.server.http1(request.body(Bytes::from(body)).unwrap()).await)
                .await;
        (status, headers, serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text)))
    }

    pub(crate) async fn get(&self, target: &str) -> (u16, Value) {
        self.send("GET", target, &Value::Null).await
    }

    /// Asks until there is an answer with a status.
    pub(crate) async fn until(&self, target: &str, status: u16) {
        let asking = async { while self.get(target).await.0 != status {} };
        tokio::time::timeout(PATIENCE, asking).await.expect("what is waited for comes");
    }

    /// The answer of a call that has to go well.
    pub(crate) async fn ok(&self, verb: &str, target: &str, body: &Value) -> Value {
        let (status, answer) = self.send(verb, target, body).await;
        assert_eq!(status, 200, "{verb} {target}: {answer}");
        answer
    }

    /// The status and the text of a call that has to fail.
    pub(crate) async fn refused(&self, verb: &str, target: &str, body: &Value) -> (u16, String) {
        let (status, answer) = self.send(verb, target, body).await;
        assert_ne!(status, 200, "{verb} {target}: {answer}");
        // Streams have a body of their own for errors (API-P28).
        let error = answer.get("error").filter(|error| error.is_object()).unwrap_or(&answer);
        (status, error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned())
    }
}
