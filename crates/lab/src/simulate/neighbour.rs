//! A second installation on the same cluster: a controller of its own in another namespace, with another installation
//! ID and an application of the same name in the same namespace (TRK-62, INV-1).
//!
//! Everything that it declares has a name by which the observer knows that the first installation wrote to it; what
//! this controller writes is judged here, by the same names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_control::services::Services;
use tiphys_control::{Compute, Controller, ControllerOptions, Interpreters, Random, Surroundings};
use tiphys_source::{Clock, MemoryRepositories};

use super::chance::Chance;
use super::manifests::Files;
use super::model::{ANOTHER, METHODS, holds};
use super::observer::FOREIGN;
use super::wire::{Body, Error, Wires, refusal};
use super::world::SERVER;

/// The namespace with its Applications.
const CONTROL_PLANE: &str = "argocd-two";
/// The application, called as one of the first installation, and where both have their objects.
const APP: &str = "app-0";
const TARGET: &str = "team-0";
/// Its repository.
const URL: &str = "https://git.example/neighbour.git";
/// Objects that it declares at most.
const NAMES: u64 = 5;
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// The second installation of a run.
pub(super) struct Neighbour {
    wires: Arc<Wires>,
    servers: MemoryRepositories,
    clock: Clock,
    chance: Chance,
    running: Option<(Controller, Arc<AtomicBool>)>,
    /// Permille of its requests that the server refuses.
    refused: u64,
    is_deleted: bool,
}

impl Neighbour {
    /// Moves in, with an application that is synced by itself.
    pub(super) fn install(
        wires: &Arc<Wires>,
        servers: &MemoryRepositories,
        clock: &Clock,
        mut chance: Chance,
        inclusions: &str,
    ) -> Self {
        let refused = if chance.permille(500) { chance.below(20) } else { 0 };
        let (wires, servers, clock) = (Arc::clone(wires), servers.clone(), clock.clone());
        let mut neighbour = Self { wires, servers, clock, chance, running: None, refused, is_deleted: false };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONTROL_PLANE}});
        neighbour.direct(Method::POST, "/api/v1/namespaces", JSON, &namespace);
        let method = neighbour.chance.pick(&METHODS).copied();
        let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "data": {
            "resource.inclusions": inclusions,
            "application.resourceTrackingMethod": method,
            "installationID": ANOTHER,
            "installationID.carrier": "annotation-strict",
        }});
        neighbour.direct(Method::POST, &own("configmaps"), JSON, &settings);
        neighbour.commit();
        let app = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": APP, "namespace": CONTROL_PLANE,
                "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": {
                "project": "default",
                "source": {"repoURL": URL, "path": "app", "targetRevision": "main"},
                "destination": {"server": SERVER, "namespace": TARGET},
                "syncPolicy": {"syncOptions": ["CreateNamespace=true"],
                    "automated": {"prune": true, "selfHeal": true}},
            },
        });
        neighbour.direct(Method::POST, &applications(""), JSON, &app);
        neighbour
    }

    fn direct(&self, method: Method, target: &str, kind: &str, body: &Value) -> u16 {
        self.wires.direct(method, target, kind, body).0
    }

    /// A commit of other objects, at least one.
    fn commit(&mut self) {
        let mut files = Files::new();
        for number in 0..self.chance.within(1, NAMES) {
            let (name, value) = (format!("{FOREIGN}{number}"), self.chance.below(100).to_string());
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"value": value}});
            files.insert(format!("app/{number}.yaml"), Bytes::from(object.to_string()));
        }
        let seconds = i64::try_from(self.wires.now().as_secs()).unwrap_or(0);
        // Repositories in memory have nothing to fail at.
        drop(self.servers.commit(URL, "main", files, seconds));
    }

    /// Its users do something, or its controller dies; says what.
    pub(super) async fn act(&mut self) -> Option<String> {
        let method = self.chance.pick(&METHODS).copied()?;
        let said = match self.chance.below(10) {
            0 | 1 => {
                self.commit();
                "commits".to_owned()
            }
            2 => {
                let patch = json!({"data": {"application.resourceTrackingMethod": method}});
                let status =
                    self.direct(Method::PATCH, &format!("{}/argocd-cm", own("configmaps")), MERGE, &patch);
                format!("marks by {method}: {status}")
            }
            3 => {
                self.crash();
                "crashes".to_owned()
            }
            4 => {
                let path = format!("/api/v1/namespaces/{TARGET}/configmaps/{FOREIGN}0");
                let status = self.direct(Method::PATCH, &path, MERGE, &json!({"data": {"value": "by hand"}}));
                format!("edits {path}: {status}")
            }
            5 if !self.is_deleted && self.chance.permille(300) => {
                self.is_deleted = true;
                format!("deletes: {}", self.direct(Method::DELETE, &applications(APP), JSON, &Value::Null))
            }
            _ => return None,
        };
        self.start().await;
        Some(format!("the other installation {said}"))
    }

    /// Starts the controller when none runs.
    pub(super) async fn start(&mut self) {
        while self.running.is_none() {
            let is_cut = Arc::new(AtomicBool::new(false));
            let wire = Wire {
                wires: Arc::clone(&self.wires),
                is_cut: Arc::clone(&is_cut),
                refused: self.refused,
                chance: Arc::new(parking_lot::Mutex::new(self.chance.fork())),
            };
            let options = ControllerOptions {
                namespace: CONTROL_PLANE.to_owned(),
                connection: Connection::over(SERVER, move |request| wire.clone().handle(request)),
                cache_dir: "/nowhere".into(),
                own_dirs: Vec::new(),
                env: BTreeMap::new(),
                read_only: false,
                lease: None,
                application_sets: true,
                workers: 4,
                surroundings: Surroundings {
                    clock: self.clock.clone(),
                    random: Random::seeded(self.chance.below(u64::MAX)),
                    compute: Compute::inline(),
                    interpreters: Interpreters::in_process(),
                    repositories: Some(self.servers.clone()),
                    services: Services::of_network(),
                    clusters: BTreeMap::new(),
                },
            };
            match Controller::start(options).await {
                Ok(controller) => self.running = Some((controller, is_cut)),
                // As a kubelet would: again after a while.
                Err(_refused) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    fn crash(&mut self) {
        if let Some((controller, is_cut)) = self.running.take() {
            is_cut.store(true, Ordering::Relaxed);
            controller.abandon();
        }
    }

    /// From now on the server refuses it nothing.
    pub(super) async fn calm(&mut self) {
        self.refused = 0;
        self.crash();
        self.start().await;
    }

    /// At the end it has exactly what it declares, or nothing once its application was deleted.
    pub(super) fn check(&self) {
        let head = self.servers.get_ref(URL, super::model::MAIN).unwrap_or_default();
        let files = self.servers.files(URL, &head);
        let declared = files.iter().flat_map(|files| files.values());
        let declared: Vec<Value> = declared.filter_map(|text| serde_json::from_slice(text).ok()).collect();
        if declared.is_empty() {
            self.broken("simulation", "what it declares cannot be read");
        }
        let app = self.wires.get(&applications(APP));
        if self.is_deleted {
            if let Some(app) = app {
                self.broken("INV-17", &format!("its application is still there: {}", app["metadata"]));
            }
        } else if app.as_ref().is_none_or(|app| app["status"]["sync"]["status"] != "Synced") {
            let status = app.unwrap_or_default()["status"].clone();
            self.broken("INV-5", &format!("its application is not synced: {status}"));
        }
        for object in declared {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let live = self.wires.get(&format!("/api/v1/namespaces/{TARGET}/configmaps/{name}"));
            let is_right = match &live {
                Some(live) => !self.is_deleted && holds(live, &object),
                None => self.is_deleted,
            };
            if !is_right {
                self.broken("INV-5", &format!("{name} is {live:?}, declared is {object}"));
            }
        }
    }

    fn broken(&self, invariant: &'static str, text: &str) {
        let text = format!("the other installation: {text}");
        self.wires.observer.lock().broken(self.wires.now(), invariant, text);
    }

    /// Ends its controller.
    pub(super) fn end(mut self) {
        self.crash();
    }
}

/// A collection of its control plane.
fn own(plural: &str) -> String {
    format!("/api/v1/namespaces/{CONTROL_PLANE}/{plural}")
}

fn applications(name: &str) -> String {
    let collection = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/applications");
    if name.is_empty() { collection } else { format!("{collection}/{name}") }
}

/// The way of its controller to the server.
#[derive(Clone)]
struct Wire {
    wires: Arc<Wires>,
    is_cut: Arc<AtomicBool>,
    refused: u64,
    chance: Arc<parking_lot::Mutex<Chance>>,
}

impl Wire {
    async fn handle(self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        if self.is_cut.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        self.wires.note(&request);
        let (travel, is_refused) = {
            let mut chance = self.chance.lock();
            (Duration::from_micros(chance.below(5_000)), chance.permille(self.refused))
        };
        tokio::time::sleep(travel).await;
        if is_refused {
            return Ok(refusal(500));
        }
        if request.method() != Method::GET {
            self.judge(&request);
        }
        let (parts, body) = self.wires.sim.handle(request).into_parts();
        Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
    }

    /// INV-1: it writes to its control plane, to what it declares, and to the namespace of both.
    fn judge(&self, request: &Request<Bytes>) {
        let path = request.uri().path();
        let body: Value = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let named = body["metadata"]["name"].as_str().filter(|_| request.method() == Method::POST);
        let name = named.or_else(|| path.rsplit('/').next()).unwrap_or_default();
        let is_own = path.contains(&format!("/namespaces/{CONTROL_PLANE}/"))
            || name.starts_with(FOREIGN)
            || path.ends_with("/events")
            || (name == TARGET && request.method() != Method::DELETE);
        let mut observer = self.wires.observer.lock();
        let now = self.wires.now();
        observer.writes += 1;
        observer.last_write = now;
        if !is_own {
            let text = format!("the other installation writes: {} {path} {body}", request.method());
            observer.broken(now, "INV-1", text);
        }
    }
}
