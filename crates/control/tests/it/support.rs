//! What every installation for tests is made of: an API server in the process, and a controller of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_control::services::Services;
use tiphys_control::{Compute, ControllerOptions, Interpreters, Random, Surroundings};
use tiphys_sim::{Options, Sim};
use tiphys_source::{Clock, MemoryRepositories};

/// When time begins.
const BEGIN: &str = "2026-01-01T00:00:00Z";
/// The cluster with the applications.
pub(crate) const HOME: &str = "https://kubernetes.default.svc";

/// An empty API server.
pub(crate) fn api_server() -> Sim {
    let clock = tiphys_sim::Clock::virtual_from(BEGIN.parse().unwrap());
    Sim::new(Options { clock, ..Options::default() }).unwrap()
}

/// An API server that knows our kinds and has the control plane's namespace.
pub(crate) fn control_plane() -> Sim {
    let sim = api_server();
    for definition in tiphys_api::crd::manifests() {
        ask(&sim, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    ask(&sim, Method::POST, "/api/v1/namespaces", &namespace);
    sim
}

/// The way to an API server that always answers.
pub(crate) fn connection(sim: &Sim) -> Connection {
    let sim = sim.clone();
    Connection::over(HOME, move |request: Request<Bytes>| {
        let sim = sim.clone();
        async move { Ok(sim.call(request).await) }
    })
}

/// How a controller of one thread and of repositories in memory is started.
pub(crate) fn options(connection: Connection, servers: &MemoryRepositories) -> ControllerOptions {
    ControllerOptions {
        namespace: "argocd".to_owned(),
        connection,
        cache_dir: "/nowhere".into(),
        own_dirs: Vec::new(),
        env: BTreeMap::new(),
        read_only: false,
        lease: None,
        application_sets: true,
        workers: 4,
        surroundings: Surroundings {
            clock: Clock::of_timers(BEGIN.parse().unwrap()),
            random: Random::seeded(1),
            compute: Compute::inline(),
            interpreters: Interpreters::in_process(),
            repositories: Some(servers.clone()),
            services: Services::of_network(),
            clusters: BTreeMap::new(),
        },
    }
}

/// Asks an API server; whatever changes something must succeed.
pub(crate) fn ask(sim: &Sim, method: Method, target: &str, body: &Value) -> Value {
    use futures::FutureExt as _;
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(target).header("content-type", kind).body(bytes);
    let response = sim.handle(request.unwrap());
    assert!(response.status().is_success() || body.is_null(), "{target}: {}", response.status());
    let body = response.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}
