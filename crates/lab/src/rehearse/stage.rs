//! The stage: an API server for each cluster, the controller, and a clock that jumps.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_api::ApplicationSet;
use tiphys_cli::live::Placed;
use tiphys_cluster::Connection;
use tiphys_control::services::Services;
use tiphys_control::{Compute, Controller, ControllerOptions, Interpreters, Random, Surroundings};
use tiphys_engine::seen::Seen;
use tiphys_sim::Sim;
use tiphys_source::{Clock, MemoryRepositories};
use tokio::time::Instant;

use super::Play;
use super::tape::Tape;

/// When the rehearsal begins.
const BEGIN: &str = "2026-01-01T00:00:00Z";
/// The cluster of the control plane.
const HOME: &str = "https://kubernetes.default.svc";
/// The name of the parameters of the controllers.
const PARAMETERS: &str = "argocd-cmd-params-cm";
/// Time until a set has made its applications.
const MADE_WITHIN: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Stage {
    home: Sim,
    /// Other clusters, by server.
    clusters: BTreeMap<String, Sim>,
    /// Servers by name.
    by_name: BTreeMap<String, String>,
    controller: Controller,
    pub(super) namespace: String,
    began: Instant,
}

fn server() -> anyhow::Result<Sim> {
    let began: Timestamp = BEGIN.parse()?;
    let clock = tiphys_sim::Clock::virtual_from(began);
    Ok(Sim::new(tiphys_sim::Options { clock, ..tiphys_sim::Options::default() })?)
}

fn connection(server: &str, sim: &Sim, tape: &Tape) -> Connection {
    let (address, sim, tape) = (server.to_owned(), sim.clone(), tape.clone());
    Connection::over(server, move |request: Request<Bytes>| {
        let (address, sim, tape) = (address.clone(), sim.clone(), tape.clone());
        async move { Ok(tape.pass(&address, &sim, request).await) }
    })
}

/// Sends a request; its status and what came of it.
async fn send(sim: &Sim, method: Method, target: &str, body: &Value) -> (u16, Value) {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json")
        .body(bytes)
        .unwrap_or_default();
    answered(sim.handle(request)).await
}

/// Looks at an object.
pub(super) async fn look(sim: &Sim, target: &str) -> Seen<Value> {
    match send(sim, Method::GET, target, &Value::Null).await {
        (200, object) => Seen::Present(object),
        (404, _) => Seen::Absent,
        (status, answer) => Seen::Unknown(format!("{status} {answer}")),
    }
}

/// Changes an object by a merge patch.
pub(super) async fn change(sim: &Sim, target: &str, patch: &Value) -> (u16, Value) {
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(target)
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Bytes::from(patch.to_string()))
        .unwrap_or_default();
    answered(sim.handle(request)).await
}

async fn answered(response: http::Response<tiphys_sim::Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let body =
        response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn create(sim: &Sim, target: &str, object: &Value) -> anyhow::Result<()> {
    let (status, answer) = send(sim, Method::POST, target, object).await;
    // What every server has is there already.
    let is_there = status == 409 && object.get("kind").and_then(Value::as_str) == Some("Namespace");
    if !is_there && !(200..300).contains(&status) {
        let message = answer.get("message").and_then(Value::as_str).unwrap_or("it is refused");
        bail!("{message}");
    }
    Ok(())
}

impl Stage {
    /// Sets everything up, and lets the controller in. What it writes is on the tape.
    pub(super) async fn begin(
        play: &Play,
        servers: MemoryRepositories,
        namespaces: &[String],
        tape: &Tape,
    ) -> anyhow::Result<Self> {
        let home = server()?;
        for definition in tiphys_api::crd::manifests() {
            create(&home, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        }
        let (mut clusters, mut by_name) = (BTreeMap::new(), BTreeMap::new());
        for object in &play.others {
            if let Some((name, address)) = cluster(object).filter(|(_, address)| address != HOME) {
                clusters.insert(address.clone(), server()?);
                by_name.insert(name, address);
            }
        }
        let own = std::iter::once(&play.namespace);
        for sim in std::iter::once(&home).chain(clusters.values()) {
            let all = own.clone().chain(namespaces).filter(|name| *name != "default");
            for name in all.collect::<std::collections::BTreeSet<_>>() {
                let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                create(sim, "/api/v1/namespaces", &object).await?;
            }
        }
        for Placed { server, collection, manifest } in &play.objects {
            let sim = if server == HOME { Some(&home) } else { clusters.get(server) };
            let (kind, name) = (kind_of(manifest), super::content::name(manifest));
            let sim = sim
                .with_context(|| format!("{kind} {name} is in the cluster {server}, which has no Secret"))?;
            let mut manifest = manifest.clone();
            tape.cast_live(&mut manifest);
            match create(sim, collection, &manifest).await {
                // It may not be needed; what is says so.
                Err(why) if kind == "CustomResourceDefinition" => {
                    super::show::complain(&format!("{kind} {name} is left out: {why:#}"));
                }
                outcome => outcome.with_context(|| format!("the live {kind} {name} cannot be taken over"))?,
            }
        }
        for object in with_parameters(&play.others) {
            let kind = kind_of(&object);
            let collection = match kind {
                "AppProject" => "apis/argoproj.io/v1alpha1",
                _ => "api/v1",
            };
            let plural = match kind {
                "AppProject" => "appprojects",
                "Secret" => "secrets",
                _ => "configmaps",
            };
            let target = format!("/{collection}/namespaces/{}/{plural}", play.namespace);
            let name = super::content::name(&object).to_owned();
            create(&home, &target, &placed(&object, &play.namespace))
                .await
                .with_context(|| format!("{kind} {name}"))?;
        }
        let clock = Clock::of_timers(BEGIN.parse()?);
        // Scripts and expressions of what is rehearsed may come from anywhere; they run where they can be killed.
        let interpreters = Interpreters::children(tiphys_process::worker::PROGRAM.into(), &clock);
        let ways = clusters.iter().map(|(address, sim)| (address.clone(), connection(address, sim, tape)));
        let controller = Controller::start(ControllerOptions {
            namespace: play.namespace.clone(),
            connection: connection(HOME, &home, tape),
            cache_dir: "/nowhere".into(),
            own_dirs: Vec::new(),
            env: BTreeMap::new(),
            read_only: false,
            lease: None,
            application_sets: true,
            workers: 4,
            surroundings: Surroundings {
                clock,
                random: Random::seeded(1),
                compute: Compute::inline(),
                interpreters,
                repositories: Some(servers),
                services: Services::of_network(),
                clusters: ways.collect(),
            },
        })
        .await?;
        let (namespace, began) = (play.namespace.clone(), Instant::now());
        Ok(Self { home, clusters, by_name, controller, namespace, began })
    }

    /// Lets a set in.
    pub(super) async fn admit_set(&self, manifest: &Value) -> anyhow::Result<()> {
        let sets = format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets", self.namespace);
        create(&self.home, &sets, &placed(manifest, &self.namespace)).await.context("the set is refused")
    }

    /// Lets an Application in.
    pub(super) async fn admit_application(&self, manifest: &Value) -> anyhow::Result<()> {
        let name = super::content::name(manifest);
        create(&self.home, &self.applications(), &placed(manifest, &self.namespace))
            .await
            .with_context(|| format!("the application {name} is refused"))
    }

    fn applications(&self) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applications", self.namespace)
    }

    /// An Application; null when there is none.
    pub(super) async fn application(&self, name: &str) -> Value {
        let seen = look(&self.home, &format!("{}/{name}", self.applications())).await;
        if let Seen::Present(app) = seen { app } else { Value::Null }
    }

    /// Changes an Application by a merge patch.
    pub(super) async fn patch_application(&self, name: &str, patch: &Value) -> anyhow::Result<()> {
        let target = format!("{}/{name}", self.applications());
        let (status, answer) = change(&self.home, &target, patch).await;
        if status >= 300 {
            bail!("the application {name} cannot be changed: {answer}");
        }
        Ok(())
    }

    /// The server of a cluster, by its address.
    pub(super) fn cluster(&self, address: &str) -> &Sim {
        self.clusters.get(address).unwrap_or(&self.home)
    }

    /// The address of a destination's cluster.
    pub(super) fn address<'a>(&'a self, destination: &'a Value) -> &'a str {
        let text = |member: &str| destination.get(member).and_then(Value::as_str).unwrap_or_default();
        self.by_name.get(text("name")).map_or_else(|| text("server"), String::as_str)
    }

    pub(super) fn end(self) {
        self.controller.abandon();
    }

    /// Time since the set was created.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The set; null when it is gone.
    pub(super) async fn set(&self, name: &str) -> Value {
        match look(&self.home, &self.set_path(name)).await {
            Seen::Present(set) => set,
            Seen::Absent => Value::Null,
            // It is not known to be gone.
            Seen::Unknown(_) => json!({}),
        }
    }

    fn set_path(&self, name: &str) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets/{name}", self.namespace)
    }

    pub(super) async fn delete_set(&self, name: &str) -> anyhow::Result<()> {
        let (status, answer) = send(&self.home, Method::DELETE, &self.set_path(name), &Value::Null).await;
        if status >= 300 {
            bail!("the set cannot be deleted: {answer}");
        }
        Ok(())
    }

    pub(super) async fn apps(&self) -> Vec<Value> {
        let (_, list) = send(&self.home, Method::GET, &self.applications(), &Value::Null).await;
        list.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Whether an object that an application deployed is there.
    pub(super) async fn has(&self, destination: &Value, path: &str) -> bool {
        let sim = self.cluster(self.address(destination));
        // What could not be looked at may be there.
        look(sim, path).await != Seen::Absent
    }

    /// Waits until the set has made its applications; what it makes.
    pub(super) async fn until_made(&self, set: &ApplicationSet) -> anyhow::Result<Vec<Value>> {
        loop {
            let set = self.set(&set.metadata.name).await;
            let (status, reason, message) = condition(&set, "ErrorOccurred");
            if status == "True"
                && reason != "ApplicationValidationError"
                && reason != "ApplicationSetInvalidDeletionConfig"
            {
                bail!(
                    "the set makes no applications: {message}\n\
                       (repositories that generators read are given as folders: --source URL=DIR)"
                );
            }
            if !status.is_empty() {
                if status == "True" {
                    super::show::complain(&format!("the set says: {message}"));
                }
                return Ok(self.apps().await);
            }
            if self.elapsed() > MADE_WITHIN {
                bail!("the set makes no applications within {} s", MADE_WITHIN.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A condition of a set: status, reason, message.
pub(super) fn condition(set: &Value, kind: &str) -> (String, String, String) {
    let conditions = set.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind));
    let text = |name: &str| found.and_then(|found| found.get(name)?.as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn kind_of(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

fn placed(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    let metadata = tiphys_object::access::metadata_mut(&mut object);
    metadata.insert("namespace".to_owned(), namespace.into());
    object
}

/// The objects with the parameters: a rehearsal of a roll-out needs roll-outs.
fn with_parameters(others: &[Value]) -> Vec<Value> {
    let is_it = |object: &&Value| super::content::name(object) == PARAMETERS;
    let given = others.iter().find(is_it).cloned();
    let mut parameters = given.unwrap_or_else(|| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PARAMETERS,
            "labels": {"app.kubernetes.io/part-of": "argocd"}}})
    });
    if let Some(object) = parameters.as_object_mut() {
        let data = object.entry("data").or_insert_with(|| json!({}));
        if let Some(data) = data.as_object_mut() {
            data.insert("applicationsetcontroller.enable.progressive.syncs".to_owned(), "true".into());
        }
    }
    others.iter().filter(|object| !is_it(object)).cloned().chain(std::iter::once(parameters)).collect()
}

/// Name and server of a cluster Secret.
fn cluster(object: &Value) -> Option<(String, String)> {
    let labels = object.pointer("/metadata/labels")?;
    if labels.get("argocd.argoproj.io/secret-type").and_then(Value::as_str) != Some("cluster") {
        return None;
    }
    let text = |member: &str| -> Option<String> {
        if let Some(text) = object.pointer(&format!("/stringData/{member}")).and_then(Value::as_str) {
            return Some(text.to_owned());
        }
        let encoded = object.pointer(&format!("/data/{member}"))?.as_str()?;
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
        String::from_utf8(decoded).ok()
    };
    Some((text("name")?, text("server")?))
}
