//! Watches every write of a controller and says which invariant it breaks (reliability section 1).
//!
//! Nothing here uses the product's decisions: what is permitted, declared and owned is found out from the
//! model and from the cluster's state at the moment of the write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use tiphys_object::ResourceKey;

use super::model::{App, Model, annotation, holds, key_of, owner_of};
use super::sets;
use super::wire::Wires;

/// How objects of another installation are called.
pub(super) const FOREIGN: &str = "foreign-";
/// How long a controller may go on by settings that were changed: a pass keeps its snapshot, and the watch
/// needs its time.
pub(super) const SETTINGS_LAG: Duration = Duration::from_mins(2);
/// Violations that are kept of one run.
const VIOLATIONS_MAX: usize = 20;

const HOOK: &str = "argocd.argoproj.io/hook";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const CONTROL_PLANE_OBJECTS: &str = "/api/v1/namespaces/argocd/";
const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/";

/// One write.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) at: Duration,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) is_dry_run: bool,
    pub(super) body: Value,
    /// The same as it was sent.
    pub(super) raw: Bytes,
    /// The object before.
    pub(super) live: Option<Arc<Value>>,
    pub(super) status: u16,
    /// The answer.
    pub(super) stored: Arc<Value>,
}

/// A broken invariant.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) at: Duration,
    pub(super) invariant: &'static str,
    pub(super) text: String,
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Observer {
    pub(super) model: Model,
    pub(super) violations: Vec<Violation>,
    pub(super) writes: u64,
    pub(super) last_write: Duration,
    last_call: Option<Call>,
    /// How long settings that were changed may be in use.
    pub(super) lag: Duration,
    /// Texts that only Secrets may hold.
    canaries: Vec<String>,
    /// Applications as they were at the last write that concerned them.
    applications: BTreeMap<String, Arc<Value>>,
    /// When applications went.
    gone: BTreeMap<String, Duration>,
    /// Last revision an application was synced or compared to, by name and which of the two.
    revisions: BTreeMap<(String, &'static str), String>,
    hooks: BTreeSet<String>,
    /// Names of objects that users removed: what is missing because of them says nothing about an order.
    removed: BTreeSet<String>,
    /// When applications were made, where that was not at the beginning.
    born: BTreeMap<String, Duration>,
    installation_id: Option<String>,
    /// The method of the installation at the beginning.
    pub(super) first_method: Option<String>,
    /// When the tracking settings were changed; with the method where it was that of the installation.
    pub(super) tracking_changes: Vec<(Duration, Option<String>)>,
    /// When controllers died.
    pub(super) crashes: Vec<Duration>,
    pub(super) deletions: u64,
    pub(super) applies: u64,
}

impl Observer {
    pub(super) fn new(model: Model) -> Self {
        Self {
            canaries: super::log::writings(&model.canary),
            model,
            violations: Vec::new(),
            writes: 0,
            last_write: Duration::ZERO,
            last_call: None,
            lag: SETTINGS_LAG,
            applications: BTreeMap::new(),
            gone: BTreeMap::new(),
            revisions: BTreeMap::new(),
            hooks: BTreeSet::new(),
            removed: BTreeSet::new(),
            born: BTreeMap::new(),
            installation_id: None,
            first_method: None,
            tracking_changes: Vec::new(),
            crashes: Vec::new(),
            deletions: 0,
            applies: 0,
        }
    }

    pub(super) fn broken(&mut self, at: Duration, invariant: &'static str, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { at, invariant, text });
        }
    }

    /// Forgets what was applied from a repository whose branch was moved by force.
    pub(super) fn forget_revisions(&mut self, names: &BTreeSet<String>) {
        self.revisions.retain(|(name, _), _| !names.contains(name));
    }

    /// Takes the state of the world right before a write.
    pub(super) fn before(&mut self, wires: &Wires, call: &Call) {
        let name = match call.live.as_ref().map_or_else(|| owner_of(&call.body), |live| owner_of(live)) {
            Some(name) => name,
            None => match call.path.strip_prefix(APPLICATIONS) {
                Some(rest) => rest.split('/').next().unwrap_or_default().to_owned(),
                None => return,
            },
        };
        if let Some(app) = wires.tree(&format!("{APPLICATIONS}{name}")) {
            self.applications.insert(name, app);
        }
    }

    /// An application is made, maybe again.
    pub(super) fn born(&mut self, name: &str, at: Duration) {
        self.born.insert(name.to_owned(), at);
        self.gone.remove(name);
        self.applications.remove(name);
        self.forget_revisions(&BTreeSet::from([name.to_owned()]));
    }

    /// When an application was made.
    pub(super) fn born_at(&self, name: &str) -> Duration {
        self.born.get(name).copied().unwrap_or_default()
    }

    /// A user removed an object.
    pub(super) fn removed(&mut self, path: &str) {
        self.removed.insert(path.rsplit('/').next().unwrap_or_default().to_owned());
    }

    /// An application is not there any more.
    pub(super) fn died(&mut self, name: &str, at: Duration) {
        self.gone.insert(name.to_owned(), at);
    }

    /// The methods of the installation in a time; `None` where it says nothing.
    pub(super) fn system_methods(&self, from: Duration, to: Duration) -> Vec<Option<String>> {
        let changes =
            || self.tracking_changes.iter().filter_map(|(at, method)| Some((*at, method.as_ref()?)));
        let before = changes().rfind(|(at, _)| *at <= from).map(|(_, method)| method);
        let since = changes().filter(|(at, _)| from < *at && *at <= to).map(|(_, method)| Some(method));
        std::iter::once(before.or(self.first_method.as_ref()))
            .chain(since)
            .map(Option::<&String>::cloned)
            .collect()
    }

    /// An application as it was at the last write that concerned it.
    pub(super) fn last_seen(&self, name: &str) -> Option<&Value> {
        self.applications.get(name).map(|app| &**app)
    }

    /// When an application was last seen to be gone.
    pub(super) fn gone_at(&self, name: &str) -> Option<Duration> {
        self.gone.get(name).copied()
    }

    /// The last write in words.
    pub(super) fn last_write_text(&self) -> String {
        let last = self.last_call.as_ref();
        last.map_or_else(String::new, |call| format!("{} {} {}", call.method, call.path, call.body))
    }

    /// Judges a write.
    pub(super) fn after(&mut self, wires: &Wires, call: Call) {
        if !(200..300).contains(&call.status) {
            return;
        }
        self.no_secrets(&call);
        if call.is_dry_run {
            return;
        }
        self.writes += 1;
        self.last_write = call.at;
        self.judged(wires, &call);
        self.last_call = Some(call);
    }

    fn judged(&mut self, wires: &Wires, call: &Call) {
        if call.path.ends_with("/events") || call.path.contains("/appprojects") {
            return;
        }
        if call.path.starts_with(sets::SETS) {
            self.set_written(wires, call);
            return;
        }
        if let Some(name) = applications_name(call) {
            if self.model.generated.contains_key(&name) {
                if call.method == Method::POST {
                    self.born(&name, call.at);
                }
                self.set_app_written(wires, &name, call);
            }
            if call.method != Method::DELETE {
                self.application_written(&name, call);
            }
            return;
        }
        if call.path.starts_with(CONTROL_PLANE_OBJECTS) {
            self.id_written(call);
            return;
        }
        if call.path.rsplit('/').next().is_some_and(|name| name.starts_with(FOREIGN)) {
            let text = format!("a write to an object of another installation: {}", show(call));
            self.broken(call.at, "INV-1", text);
        }
        let object = call.live.as_ref().unwrap_or(&call.stored);
        let subject = if call.method == Method::DELETE { object } else { &call.stored };
        let key = key_of(subject, "");
        let Some(owner) = owner_of(subject) else {
            // What the tenant deletes or patches through the API server may have lost its mark; its project permits it.
            let is_touched = key.namespace == super::hostile::PROJECT
                && wires.state.lock().touched.contains(key.name.as_str());
            if !is_touched {
                self.unowned(call, &key);
            }
            return;
        };
        let Some(app) = self.applications.get(&owner).cloned() else {
            self.broken(call.at, "INV-1", format!("a write for an unknown application: {}", show(call)));
            return;
        };
        if self.gone.get(&owner).is_some_and(|gone| call.at.saturating_sub(*gone) > self.lag) {
            self.broken(call.at, "INV-1", format!("a write for an application long gone: {}", show(call)));
        }
        self.permitted(call, &app, &key);
        let Some(declared) = self.model.app(&owner).cloned() else { return };
        if call.method == Method::DELETE {
            self.deletions += 1;
            self.deleted(call, &declared, &app, object, &key);
            self.in_reverse(wires, call, &declared, &app, object);
        } else {
            self.applies += 1;
            self.applied(call, &declared, &app, &key);
            self.in_order(wires, call, &declared, &app);
        }
    }

    /// TRK-67..69: nothing of the settings is written but the installation ID, and that once.
    fn id_written(&mut self, call: &Call) {
        let id = |object: &Value| {
            let text = object.pointer("/data")?.get("installationID")?.as_str()?;
            Some(text.to_owned())
        };
        let is_settings = call.path.ends_with("/configmaps/argocd-cm");
        if !is_settings && !call.stored.pointer("/metadata/name").is_some_and(|name| name == "argocd-secret")
        {
            self.broken(call.at, "INV-2", format!("a write to an object of nobody: {}", show(call)));
        }
        let Some(now) = id(&call.stored).filter(|_| is_settings) else { return };
        if self.installation_id.get_or_insert_with(|| now.clone()) != &now {
            self.broken(call.at, "INV-1", format!("the installation ID changed: {}", show(call)));
        }
    }

    /// Writes to objects that carry no mark of ours: only the destination's namespace.
    fn unowned(&mut self, call: &Call, key: &ResourceKey) {
        // Of an object whose name the server makes, the mark names none; only the hostile tenant has such.
        let subject = call.live.as_ref().unwrap_or(&call.stored);
        if subject.pointer("/metadata/generateName").is_some() && key.namespace == super::hostile::PROJECT {
            return;
        }
        let is_destination = key.kind.as_str() == "Namespace"
            && call.method != Method::DELETE
            && self.model.all_apps().any(|app| app.namespace == key.name.as_str());
        if is_destination {
            let apps = self.model.all_apps().filter(|app| app.namespace == key.name.as_str());
            let projects: BTreeSet<&str> = apps.map(|app| app.project.as_str()).collect();
            if !projects.iter().any(|name| self.model.permitted(name, key, call.at, self.lag)) {
                self.broken(call.at, "INV-6", format!("no project permits {}", show(call)));
            }
        } else {
            let invariant = if call.method == Method::DELETE { "INV-1" } else { "INV-2" };
            self.broken(call.at, invariant, format!("a write to an object of nobody: {}", show(call)));
        }
    }

    /// INV-6: the project of the application permits exactly this object.
    fn permitted(&mut self, call: &Call, app: &Value, key: &ResourceKey) {
        let project = app.pointer("/spec/project").and_then(Value::as_str).unwrap_or("default");
        if !self.model.permitted(project, key, call.at, self.lag) {
            self.broken(call.at, "INV-6", format!("project {project} does not permit {}", show(call)));
        }
    }

    /// INV-1: somebody decided about this deletion by two witnesses.
    fn deleted(&mut self, call: &Call, declared: &App, app: &Value, object: &Value, key: &ResourceKey) {
        if annotation(object, HOOK).is_some() {
            return;
        }
        let is_going = app.pointer("/metadata/deletionTimestamp").is_some();
        let cascades = app.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| {
            all.iter().any(|name| {
                name.as_str().is_some_and(|name| name.starts_with("resources-finalizer.argocd.argoproj.io"))
            })
        });
        if is_going && cascades {
            return;
        }
        let (revision, state) = recorded(app);
        let prunes = state.pointer("/operation/sync/prune") == Some(&Value::Bool(true));
        let witness = self.model.declared(declared, revision);
        let text = |why: &str| format!("{why} (revision {revision:?}): {}", show(call));
        match witness {
            None => self.broken(call.at, "INV-1", text("deleted without a complete render")),
            Some(objects) if objects.contains_key(key) => {
                self.broken(call.at, "INV-1", text("deleted although it is declared"));
            }
            Some(_) if !prunes => self.broken(call.at, "INV-1", text("pruned without being asked to")),
            Some(_) => {}
        }
    }

    /// INV-2: what is stored now is what the recorded revision declares.
    fn applied(&mut self, call: &Call, declared: &App, app: &Value, key: &ResourceKey) {
        if only_finalizers(&call.body) || call.body.is_array() {
            return;
        }
        let (revision, state) = recorded(app);
        let text = |why: &str| format!("{why} (revision {revision:?}): {}", show(call));
        if app.pointer("/metadata/deletionTimestamp").is_some() && app.get("operation").is_none() {
            self.broken(call.at, "INV-2", text("applied for an application that is being deleted"));
            return;
        }
        let all = self.model.declared(declared, revision);
        let Some(wanted) = all.as_ref().and_then(|all| all.get(key)) else {
            self.broken(call.at, "INV-2", text("applied although it is not declared"));
            return;
        };
        // A patch that was made for an older state of the object changes less than is needed now; what it says
        // is declared all the same, and the next comparison finds the rest.
        let is_partial = call.method == Method::PATCH && agrees(&call.body, wanted);
        if !holds(&call.stored, wanted) && !is_partial {
            self.broken(call.at, "INV-2", text(&format!("applied otherwise than declared: {wanted}")));
        }
        if let Some(last) = annotation(&call.stored, LAST_APPLIED)
            && serde_json::from_str(last).ok().is_none_or(|last: Value| !holds(&last, wanted))
        {
            self.broken(call.at, "INV-2", text(&format!("the record says otherwise: {wanted}")));
        }
        if call.method == Method::POST && annotation(wanted, HOOK).is_some() {
            let started = state.get("startedAt").map(Value::to_string).unwrap_or_default();
            let retries = state.get("retryCount").map(Value::to_string).unwrap_or_default();
            let run = format!("{} {key} {started} {retries}", declared.name);
            if !self.hooks.insert(run) {
                self.broken(call.at, "INV-9", text("a hook runs twice in one attempt"));
            }
        }
    }

    /// INV-12: a cascade takes an object when all of later waves are gone.
    fn in_reverse(&mut self, wires: &Wires, call: &Call, declared: &App, app: &Value, object: &Value) {
        let cascades = app.pointer("/metadata/deletionTimestamp").is_some() && app.get("operation").is_none();
        if !cascades || annotation(object, HOOK).is_some() || !wires.sees_at_once() {
            return;
        }
        let own = wave(object);
        let all = super::settled::owned(wires, declared).unwrap_or_default();
        let later = all.iter().filter(|other| annotation(other, HOOK).is_none()).find(|other| {
            // What its project forbids is not the cascade's (CTL-15).
            wave(other) > own
                && self.model.surely_permitted(&declared.project, &key_of(other, ""), call.at, self.lag)
        });
        if let Some(later) = later {
            let text = format!("{} of a later wave is still there: {}", key_of(later, ""), show(call));
            self.broken(call.at, "INV-12", text);
        }
    }

    /// INV-12: a sync makes an object when all of earlier waves are there.
    fn in_order(&mut self, wires: &Wires, call: &Call, declared: &App, app: &Value) {
        if call.method != Method::POST || annotation(&call.stored, HOOK).is_some() || !wires.sees_at_once() {
            return;
        }
        let own = wave(&call.stored);
        let (revision, _) = recorded(app);
        let Some(wanted) = self.model.declared(declared, revision) else { return };
        let mut earlier = wanted
            .iter()
            .filter(|(key, object)| {
                annotation(object, HOOK).is_none()
                    && wave(object) < own
                    && !self.removed.contains(key.name.as_str())
            })
            .peekable();
        // Most have nothing before them, and lists are dear.
        if earlier.peek().is_none() {
            return;
        }
        let all = super::settled::owned(wires, declared).unwrap_or_default();
        let is_there = |key: &ResourceKey| all.iter().any(|object| key_of(object, "") == *key);
        let missing = earlier.find(|(key, _)| !is_there(key));
        if let Some((key, _)) = missing {
            let text = format!("{key} of an earlier wave is not there yet: {}", show(call));
            self.broken(call.at, "INV-12", text);
        }
    }

    /// INV-3 and INV-4: what a write to an Application says about its operations.
    fn application_written(&mut self, name: &str, call: &Call) {
        let Some(declared) = self.model.app(name).cloned() else { return };
        let (_, before) = call.live.as_deref().map_or(("", &Value::Null), recorded);
        let (revision, after) = recorded(&call.stored);
        let started = |state: &Value| state.get("startedAt").cloned();
        if started(after).is_some() && started(before) != started(after) {
            // The first state of an operation may be written again when the answer was lost.
            let is_first = before.get("syncResult").is_none_or(Value::is_null)
                && call.live.as_ref().and_then(|live| live.get("operation")) == call.stored.get("operation");
            let runs = before.get("phase").and_then(Value::as_str) == Some("Running") && !is_first;
            if runs && before.get("finishedAt").is_none_or(Value::is_null) {
                let text = format!("an operation began while another one ran: {}", show(call));
                self.broken(call.at, "INV-4", text);
            }
        }
        let automated = after.pointer("/operation/initiatedBy/automated") == Some(&Value::Bool(true));
        self.moved(call, &declared, "operation", revision, !automated);
        let compared = call.stored.pointer("/status/sync/revision").and_then(Value::as_str);
        self.moved(call, &declared, "comparison", compared.unwrap_or_default(), false);
        let is_going = call.stored.pointer("/metadata/deletionTimestamp").is_some();
        let finalizers = call.stored.pointer("/metadata/finalizers").and_then(Value::as_array);
        if is_going && finalizers.is_none_or(Vec::is_empty) {
            self.died(name, call.at);
        }
        self.applications.insert(name.to_owned(), Arc::clone(&call.stored));
    }

    /// INV-3: no step back along the branch, unless somebody asked for it.
    fn moved(&mut self, call: &Call, app: &App, what: &'static str, revision: &str, asked: bool) {
        if revision.is_empty() {
            return;
        }
        let key = (app.name.clone(), what);
        let old = self.revisions.insert(key, revision.to_owned());
        let Some(old) = old.filter(|old| old != revision) else { return };
        let was_forced = self.model.forced.contains(&(app.url.clone(), revision.to_owned()));
        if !asked && !was_forced && self.model.servers.is_ancestor(&app.url, revision, &old) {
            let text = format!("{} went back from {old} to {revision} ({what}): {}", app.name, show(call));
            self.broken(call.at, "INV-3", text);
        }
    }

    /// INV-7: what is written outside of Secrets shows nothing of them.
    fn no_secrets(&mut self, call: &Call) {
        if call.path.contains("/secrets") {
            return;
        }
        let text = String::from_utf8_lossy(&call.raw);
        let shows = |canary: &String| text.contains(canary) || call.path.contains(canary);
        if self.canaries.iter().any(shows) {
            self.broken(call.at, "INV-7", format!("a secret is shown by {} {}", call.method, call.path));
        }
    }
}

/// The Application that is written, if one is.
fn applications_name(call: &Call) -> Option<String> {
    match call.path.strip_prefix(APPLICATIONS.trim_end_matches('/'))? {
        "" => call.stored.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned),
        rest => rest.strip_prefix('/')?.split('/').next().map(str::to_owned),
    }
}

/// The wave of an object.
fn wave(object: &Value) -> i64 {
    annotation(object, "argocd.argoproj.io/sync-wave").and_then(|wave| wave.parse().ok()).unwrap_or(0)
}

/// The recorded revision and the state of an application's last operation.
fn recorded(app: &Value) -> (&str, &Value) {
    let state = app.pointer("/status/operationState").unwrap_or(&Value::Null);
    (state.pointer("/syncResult/revision").and_then(Value::as_str).unwrap_or_default(), state)
}

fn only_finalizers(body: &Value) -> bool {
    let members = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    members(body).is_some_and(|names| names == ["metadata"])
        && body.get("metadata").and_then(members).is_some_and(|names| {
            names.iter().all(|name| matches!(name.as_str(), "finalizers" | "resourceVersion" | "uid"))
        })
}

/// A write in one line, bounded.
pub(super) fn show(call: &Call) -> String {
    let body: String = call.body.to_string().chars().take(600).collect();
    format!("{} {} {body} -> {}", call.method, call.path, call.status)
}

/// Whether everything that a merge patch says is declared: what it sets has the declared value, and what it
/// removes is not declared. Annotations are the controller's own.
fn agrees(patch: &Value, wanted: &Value) -> bool {
    match (patch, wanted) {
        (Value::Object(patch), Value::Object(wanted)) => patch.iter().all(|(member, value)| {
            let declared = wanted.get(member);
            match value {
                _ if member == "annotations" || member.starts_with('$') => true,
                Value::Null => declared.is_none_or(Value::is_null),
                value => declared.is_some_and(|declared| agrees(value, declared)),
            }
        }),
        (Value::Array(patch), Value::Array(wanted)) => {
            patch.iter().all(|item| wanted.iter().any(|declared| agrees(item, declared)))
        }
        (patch, wanted) => patch == wanted,
    }
}
