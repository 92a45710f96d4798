//! What passes between the controller and the servers: writes are recorded, workloads are told how to behave, and some
//! writes are refused (CLI-1061, CLI-1062).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_engine::seen::Seen;
use tiphys_object::access;
use tiphys_sim::{Body, Sim, Status};
use tokio::time::Instant;

use super::content::Delay;
use super::fault::{Fault, What};
use super::stage;

/// How the servers simulate a workload.
const MARKER: &str = "tiphys.dev/sim";
/// When a server gives up waiting for its own database.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Without it, a server waits ten minutes until it calls a workload failed.
const DEADLINE_SECONDS: u64 = 60;
/// Writes that are kept.
const WRITES_MAX: usize = 20_000;

/// A write to a destination.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Time since the sync began.
    pub(super) at: Duration,
    /// The server of the cluster.
    pub(super) server: String,
    pub(super) verb: &'static str,
    /// Where the object is read.
    pub(super) path: String,
    /// The object, as it is now, or as it was when it is deleted.
    pub(super) object: Value,
    /// Why the server refused it.
    pub(super) refused: Option<String>,
}

/// The ways of one controller. The default only lets everything pass.
#[derive(Clone, Default)]
pub(super) struct Tape(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The control plane's namespace; `None` while nothing is recorded and nothing changed.
    namespace: Option<String>,
    delays: Vec<Delay>,
    faults: Vec<Fault>,
    /// When the sync began.
    began: Option<Instant>,
    writes: Vec<Write>,
    /// Which faults had an effect.
    used: BTreeSet<usize>,
}

impl Tape {
    /// Ways on which workloads are told how to behave; nothing is recorded before [`Self::begin`].
    pub(super) fn new(namespace: &str, delays: &[Delay], faults: &[Fault]) -> Self {
        Self(Arc::new(Mutex::new(State {
            namespace: Some(namespace.to_owned()),
            delays: delays.to_vec(),
            faults: faults.to_vec(),
            ..State::default()
        })))
    }

    /// From now on, writes are recorded, and faults have their effect.
    pub(super) fn begin(&self) {
        self.0.lock().began = Some(Instant::now());
    }

    /// What was written since it was asked last.
    pub(super) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.0.lock().writes)
    }

    /// Tells a workload that is there already how to behave; it is well until something changes it.
    pub(super) fn cast_live(&self, object: &mut Value) {
        mark(object, &self.0.lock().delays, None);
    }

    /// A request on its way.
    pub(super) async fn pass(&self, server: &str, sim: &Sim, request: Request<Bytes>) -> Response<Body> {
        let namespace = self.0.lock().namespace.clone();
        let Some(namespace) = namespace.filter(|_| request.method() != Method::GET) else {
            return sim.call(request).await;
        };
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let path = request.uri().path().to_owned();
        if path.ends_with("/status") || !concerns_destination(&path, &namespace, request.method(), &body) {
            return sim.call(request).await;
        }
        let object_path = match request.method() {
            &Method::POST => format!("{path}/{}", super::content::name(&body)),
            _ => path,
        };
        let before = match stage::look(sim, &object_path).await {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown(_) => None,
        };
        let subject = before.as_ref().filter(|_| body.get("kind").is_none()).unwrap_or(&body).clone();
        let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun"));
        let verb = match (request.method(), &before) {
            (&Method::DELETE, _) => "delete",
            (&Method::PUT, _) => "replace",
            (_, None) => "create",
            (_, Some(_)) => "update",
        };
        if let Some(refusal) = self.refusal(&subject, is_dry).await {
            let text = refusal.message.clone();
            if !is_dry {
                self.note(server, verb, &object_path, subject, Some(text));
            }
            let fault = tiphys_sim::Fault { refused: Some(refusal), ..tiphys_sim::Fault::default() };
            return sim.handle_with(request, fault);
        }
        let request = if verb == "delete" || is_dry { request } else { self.cast(request, body) };
        let (parts, body) = sim.call(request).await.into_parts();
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        if !is_dry {
            let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let refused = (!parts.status.is_success())
                .then(|| answer.get("message").and_then(Value::as_str).unwrap_or("it is refused").to_owned());
            if verb == "update" && refused.is_none() {
                self.sicken(sim, &object_path, &subject).await;
            }
            let object = match before {
                Some(before) if verb == "delete" => before,
                _ if refused.is_some() => subject,
                _ => answer,
            };
            self.note(server, verb, &object_path, object, refused);
        }
        Response::from_parts(parts, Full::new(bytes).map_err(|never| match never {}).boxed_unsync())
    }

    fn note(&self, server: &str, verb: &'static str, path: &str, object: Value, refused: Option<String>) {
        let mut state = self.0.lock();
        let Some(began) = state.began else { return };
        if state.writes.len() < WRITES_MAX {
            let (server, path) = (server.to_owned(), path.to_owned());
            state.writes.push(Write { at: began.elapsed(), server, verb, path, object, refused });
        }
    }

    /// How a fault that is due answers; after its time when the server would take one.
    async fn refusal(&self, object: &Value, is_dry: bool) -> Option<Status> {
        let fault = {
            let mut state = self.0.lock();
            let elapsed = state.began?.elapsed();
            let refuses = |fault: &Fault| {
                is_about(fault, object) && fault.at <= elapsed && fault.what.behaviour().is_none()
            };
            let index = state.faults.iter().position(refuses)?;
            state.used.insert(index);
            state.faults.get(index).cloned()?
        };
        let about = format!("{} {:?}", fault.kind, fault.name);
        match fault.what {
            What::Forbidden => {
                let text = format!("{about} is forbidden: the rehearsal refuses it");
                Some(Status::new(403, "Forbidden", text))
            }
            What::Conflict if !is_dry => {
                let text = format!(
                    "Operation cannot be fulfilled on {about}: the object has been modified; please apply your changes to \
                     the latest version and try again"
                );
                Some(Status::new(409, "Conflict", text))
            }
            What::Timeout if !is_dry => {
                tokio::time::sleep(TIMEOUT).await;
                let text = format!("Timeout: {about}: request did not complete within the allotted timeout");
                Some(Status::new(504, "Timeout", text))
            }
            _ => None,
        }
    }

    /// Tells a workload how to behave, unless its manifest does.
    fn cast(&self, request: Request<Bytes>, mut body: Value) -> Request<Bytes> {
        let mut state = self.0.lock();
        let State { delays, faults, began, used, .. } = &mut *state;
        // What is deployed before the sync is well.
        let fault =
            began.and_then(|_began| faults.iter().position(|fault| falls_ill(fault, &body, Duration::ZERO)));
        used.extend(fault);
        let fault = fault.and_then(|index| faults.get(index));
        if !mark(&mut body, delays, fault) {
            return request;
        }
        let (mut parts, _) = request.into_parts();
        parts.headers.remove(http::header::CONTENT_LENGTH);
        Request::from_parts(parts, Bytes::from(body.to_string()))
    }

    /// Lets a workload fall ill that was changed by a patch, which says nothing of how it behaves.
    async fn sicken(&self, sim: &Sim, path: &str, object: &Value) {
        let patch = {
            let mut state = self.0.lock();
            let Some(began) = state.began else { return };
            let elapsed = began.elapsed();
            let found = state.faults.iter().position(|fault| falls_ill(fault, object, elapsed));
            let Some((index, fault)) = found.and_then(|index| Some((index, state.faults.get(index)?))) else {
                return;
            };
            let patch = illness(fault);
            state.used.insert(index);
            patch
        };
        stage::change(sim, path, &patch).await;
    }

    /// Faults that nothing met.
    pub(super) fn unmet(&self) -> Vec<String> {
        let state = self.0.lock();
        let unmet = state.faults.iter().enumerate().filter(|(index, _)| !state.used.contains(index));
        unmet.map(|(_, fault)| fault.shown()).collect()
    }

    /// Changes of workloads that fall ill now, as merge patches, by what they are about.
    pub(super) fn due(&self, at: Duration) -> Vec<(usize, Fault, Value)> {
        let state = self.0.lock();
        if state.began.is_none() {
            return Vec::new();
        }
        let is_due =
            |fault: &Fault| !fault.at.is_zero() && fault.at <= at && fault.what.behaviour().is_some();
        let all = state.faults.iter().enumerate();
        let due = all.filter(|(index, fault)| is_due(fault) && !state.used.contains(index));
        due.map(|(index, fault)| (index, fault.clone(), illness(fault))).collect()
    }

    /// A fault had its effect.
    pub(super) fn met(&self, index: usize) {
        self.0.lock().used.insert(index);
    }
}

/// Whether a workload falls ill by a fault whose time has come.
fn falls_ill(fault: &Fault, object: &Value, elapsed: Duration) -> bool {
    fault.at <= elapsed && fault.what.behaviour().is_some() && is_about(fault, object)
}

/// The merge patch by which a workload falls ill.
fn illness(fault: &Fault) -> Value {
    let marker = json!({"metadata": {"annotations": {MARKER: fault.what.behaviour()}}});
    if fault.kind == "Deployment" {
        return json!({"spec": {"template": marker, "progressDeadlineSeconds": DEADLINE_SECONDS}});
    }
    json!({"spec": {"template": marker}})
}

fn is_about(fault: &Fault, object: &Value) -> bool {
    let gvk = tiphys_object::Gvk::of(object);
    fault.is_of(&gvk.group, &gvk.kind, super::content::name(object))
}

/// Whether a write is about what is deployed, not about the controller's own books.
fn concerns_destination(path: &str, namespace: &str, method: &Method, body: &Value) -> bool {
    if path.ends_with("/events") {
        return false;
    }
    let Some((_, own)) = path.split_once(&format!("/namespaces/{namespace}/")) else { return true };
    let is_application = own.starts_with("applications");
    // Applications may be made by others, whose status is the controller's own business all the same.
    let is_deployed = *method == Method::POST || *method == Method::DELETE || body.get("spec").is_some();
    if is_application {
        is_deployed
    } else {
        !own.starts_with("configmaps/argocd-") && !own.starts_with("secrets/argocd-")
    }
}

/// Puts the marker into a workload; whether something changed.
fn mark(object: &mut Value, delays: &[Delay], fault: Option<&Fault>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let delay = delays.iter().rev().find(|delay| delay.kind == kind);
    let behaviour = match (fault.and_then(|fault| fault.what.behaviour()), delay) {
        (Some(behaviour), _) => behaviour.to_owned(),
        (None, Some(delay)) => format!("ready-after={}", delay.text),
        (None, None) => return false,
    };
    if fault.is_some()
        && kind == "Deployment"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("progressDeadlineSeconds").or_insert_with(|| DEADLINE_SECONDS.into());
    }
    let template = if kind == "Pod" { Some(object) } else { object.pointer_mut("/spec/template") };
    let Some(template) = template else { return false };
    let is_marked =
        access::annotation(template, MARKER).or_else(|| access::label(template, MARKER)).is_some();
    if is_marked && fault.is_none() {
        return false;
    }
    access::set_annotation(template, MARKER, &behaviour);
    true
}
