//! What users do in a run: commits, edits behind the controller's back, requests, changes of settings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tiphys_source::{MemoryRepositories, Trouble};

use super::chance::Chance;
use super::manifests::{self, Files};
use super::model::{App, Automated, CONTROL_PLANE, MAIN, Rules, owner_of};
use super::wire::Wires;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// Namespaces' objects that users change by hand.
const EDITED: [&str; 3] = ["configmaps", "deployments", "secrets"];

/// The users of a world.
pub(super) struct Users {
    pub(super) wires: Arc<Wires>,
    pub(super) servers: MemoryRepositories,
    pub(super) chance: Chance,
    /// Repositories, with all commits that were ever the newest.
    pub(super) history: Vec<(String, Vec<String>)>,
}

impl Users {
    /// Does something; says what.
    pub(super) fn act(&mut self) -> String {
        let Some(app) = self.some_app() else { return "nothing".to_owned() };
        match self.chance.below(100) {
            0..=29 => self.commit(&app),
            30..=34 => self.force(&app),
            35..=39 => self.revert(&app),
            40..=54 => self.edit(&app),
            55..=62 => self.remove(&app),
            63..=66 => self.delete(&app),
            67..=69 => self.create_again(&app),
            70..=79 => self.sync(&app),
            80..=86 => self.refresh(&app),
            87..=90 => self.change_project(&app),
            91..=94 => self.trouble(&app),
            95..=97 => self.change_policy(&app),
            _ => self.terminate(&app),
        }
    }

    /// Deletes some application.
    pub(super) fn delete_some(&mut self) -> String {
        let app = self.some_app();
        app.map_or_else(String::new, |app| self.delete(&app))
    }

    fn some_app(&mut self) -> Option<App> {
        let apps: Vec<App> = self.wires.observer.lock().model.apps.values().cloned().collect();
        self.chance.pick(&apps).cloned()
    }

    fn files(&self, url: &str) -> Files {
        let head = self.servers.get_ref(url, MAIN);
        head.and_then(|head| self.servers.files(url, &head)).map(|files| (*files).clone()).unwrap_or_default()
    }

    /// Commits files and remembers the commit.
    pub(super) fn push(&mut self, url: &str, files: Files) -> Option<String> {
        let seconds = i64::try_from(self.wires.now().as_secs()).unwrap_or(0);
        let commit = self.servers.commit(url, "main", files, seconds).ok()?;
        match self.history.iter_mut().find(|(known, _)| known == url) {
            Some((_, commits)) => commits.push(commit.clone()),
            None => self.history.push((url.to_owned(), vec![commit.clone()])),
        }
        Some(commit)
    }

    fn older(&mut self, url: &str) -> Option<String> {
        let (_, commits) = self.history.iter().find(|(known, _)| known == url)?;
        self.chance.pick(commits).cloned()
    }

    fn commit(&mut self, app: &App) -> String {
        let mut files = self.files(&app.url);
        let canary = self.wires.observer.lock().model.canary.clone();
        for _ in 0..self.chance.within(1, 3) {
            manifests::change(&mut self.chance, &mut files, &app.path, &app.namespace, &canary);
        }
        let commit = self.push(&app.url, files).unwrap_or_default();
        format!("commits {commit} to {} for {}", app.url, app.name)
    }

    fn force(&mut self, app: &App) -> String {
        let Some(older) = self.older(&app.url) else { return "forces nothing".to_owned() };
        self.servers.set_ref(&app.url, MAIN, &older);
        let mut observer = self.wires.observer.lock();
        observer.model.forced.insert((app.url.clone(), older.clone()));
        let names: BTreeSet<String> = observer
            .model
            .apps
            .values()
            .filter(|other| other.url == app.url)
            .map(|other| other.name.clone())
            .collect();
        observer.forget_revisions(&names);
        format!("forces {} to {older}", app.url)
    }

    fn revert(&mut self, app: &App) -> String {
        let files = self.older(&app.url).and_then(|older| self.servers.files(&app.url, &older));
        let commit = self.push(&app.url, files.map(|files| (*files).clone()).unwrap_or_default());
        format!("reverts {} by {}", app.url, commit.unwrap_or_default())
    }

    /// An object of an application in the cluster, with its address.
    fn some_live(&mut self, app: &App) -> Option<(String, Value)> {
        let plural = self.chance.pick(&EDITED).copied()?;
        let root = if plural == "deployments" { "/apis/apps/v1" } else { "/api/v1" };
        let collection = format!("{root}/namespaces/{}/{plural}", app.namespace);
        let list = self.wires.get(&collection)?;
        let items = list.get("items")?.as_array()?;
        let ours: Vec<&Value> =
            items.iter().filter(|item| owner_of(&typed(item, plural)).as_ref() == Some(&app.name)).collect();
        let object = (*self.chance.pick(&ours)?).clone();
        let name = object.pointer("/metadata/name")?.as_str()?.to_owned();
        Some((format!("{collection}/{name}"), object))
    }

    fn edit(&mut self, app: &App) -> String {
        let Some((path, _)) = self.some_live(app) else { return "edits nothing".to_owned() };
        let number = self.chance.below(5);
        let patch = if path.contains("/deployments/") {
            json!({"spec": {"replicas": number}})
        } else if path.contains("/secrets/") {
            json!({"data": {"password": "ZWRpdGVk"}})
        } else {
            json!({"data": {"value": format!("edited {number}"), "other": "by hand"}})
        };
        let (status, _) = self.wires.direct(Method::PATCH, &path, MERGE, &patch);
        format!("edits {path}: {status}")
    }

    fn remove(&mut self, app: &App) -> String {
        let Some((path, _)) = self.some_live(app) else { return "removes nothing".to_owned() };
        let (status, _) = self.wires.direct(Method::DELETE, &path, JSON, &Value::Null);
        self.wires.observer.lock().removed(&path);
        format!("removes {path}: {status}")
    }

    fn delete(&mut self, app: &App) -> String {
        if app.deleted {
            return "deletes nothing".to_owned();
        }
        let (status, _) = self.wires.direct(Method::DELETE, &path_of(&app.name), JSON, &Value::Null);
        let exists = self.wires.get(&path_of(&app.name)).is_some();
        let at = self.wires.now();
        let mut observer = self.wires.observer.lock();
        if let Some(app) = observer.model.apps.get_mut(&app.name) {
            app.deleted = true;
        }
        if !exists {
            observer.died(&app.name, at);
        }
        format!("deletes {}: {status}", app.name)
    }

    fn create_again(&mut self, app: &App) -> String {
        if !app.deleted || self.wires.get(&path_of(&app.name)).is_some() {
            return "creates nothing".to_owned();
        }
        let status = self.create(app);
        let mut observer = self.wires.observer.lock();
        let now = self.wires.now();
        observer.born(&app.name, now);
        if let Some(app) = observer.model.apps.get_mut(&app.name) {
            app.deleted = false;
        }
        format!("creates {} again: {status}", app.name)
    }

    pub(super) fn create(&self, app: &App) -> u16 {
        let collection = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/applications");
        self.wires.direct(Method::POST, &collection, JSON, &app.manifest()).0
    }

    fn patch_app(&self, app: &App, patch: &Value) -> u16 {
        self.wires.direct(Method::PATCH, &path_of(&app.name), MERGE, patch).0
    }

    fn sync(&mut self, app: &App) -> String {
        let older = self.chance.permille(300);
        let revision = if older { self.older(&app.url).unwrap_or_default() } else { String::new() };
        if self.is_busy(app) {
            return "syncs nothing".to_owned();
        }
        let prune = self.chance.permille(500);
        self.sync_to(app, &revision, prune)
    }

    /// Whether an application has an operation, or is not there.
    pub(super) fn is_busy(&self, app: &App) -> bool {
        self.wires.get(&path_of(&app.name)).is_none_or(|app| app.get("operation").is_some())
    }

    /// Syncs an application, which has no operation.
    pub(super) fn sync_to(&self, app: &App, revision: &str, prune: bool) -> String {
        let operation = json!({"operation": {
            "initiatedBy": {"username": "somebody"},
            "sync": {"revision": revision, "prune": prune, "syncOptions": ["CreateNamespace=true"]},
        }});
        let status = self.patch_app(app, &operation);
        format!("syncs {} to {revision:?}, prune {prune}: {status}", app.name)
    }

    fn refresh(&mut self, app: &App) -> String {
        let kind = if self.chance.permille(300) { "hard" } else { "normal" };
        let patch = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": kind}}});
        format!("refreshes {} ({kind}): {}", app.name, self.patch_app(app, &patch))
    }

    fn change_project(&mut self, app: &App) -> String {
        let now = self.wires.now();
        let mut observer = self.wires.observer.lock();
        let Some(versions) = observer.model.projects.get_mut(&app.project) else {
            return "changes no project".to_owned();
        };
        let Some((_, last)) = versions.last() else { return "changes no project".to_owned() };
        let mut rules: Rules = last.clone();
        match self.chance.below(3) {
            0 => toggle(&mut rules.namespaces, &app.namespace),
            1 => toggle(&mut rules.cluster_kinds, "Namespace"),
            _ => {
                let kind = self.chance.pick(&["Job", "Secret", "Deployment"]).copied().unwrap_or("Job");
                toggle(&mut rules.denied_kinds, kind);
            }
        }
        let spec = json!({"spec": rules.manifest(&app.project)["spec"]});
        versions.push((now, rules));
        drop(observer);
        let path =
            format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/appprojects/{}", app.project);
        let (status, _) = self.wires.direct(Method::PATCH, &path, MERGE, &spec);
        format!("changes project {}: {spec}: {status}", app.project)
    }

    fn trouble(&mut self, app: &App) -> String {
        let trouble = match self.chance.below(4) {
            0 => Trouble { failure: Some("the server has a bad day".to_owned()), delay: Duration::ZERO },
            1 => Trouble { failure: None, delay: Duration::from_secs(self.chance.within(1, 120)) },
            _ => Trouble::default(),
        };
        let text = format!("{} gets {trouble:?}", app.url);
        let is_bad = trouble.failure.is_some() || !trouble.delay.is_zero();
        let now = self.wires.now();
        self.wires.observer.lock().model.troubles.insert(app.url.clone(), (is_bad, now));
        self.servers.set_trouble(&app.url, trouble);
        text
    }

    fn change_policy(&mut self, app: &App) -> String {
        let automated = self
            .chance
            .permille(700)
            .then(|| Automated { prune: self.chance.permille(700), self_heal: self.chance.permille(700) });
        let policy = automated.map(|with| json!({"prune": with.prune, "selfHeal": with.self_heal}));
        let patch = json!({"spec": {"syncPolicy": {"automated": policy}}});
        if let Some(app) = self.wires.observer.lock().model.apps.get_mut(&app.name) {
            app.automated = automated;
        }
        format!("makes {} {automated:?}: {}", app.name, self.patch_app(app, &patch))
    }

    fn terminate(&mut self, app: &App) -> String {
        let live = self.wires.get(&path_of(&app.name));
        let phase = live.as_ref().and_then(|app| app.pointer("/status/operationState/phase"));
        if phase.and_then(Value::as_str) != Some("Running") {
            return "terminates nothing".to_owned();
        }
        let patch = json!({"status": {"operationState": {"phase": "Terminating"}}});
        format!("terminates {}: {}", app.name, self.patch_app(app, &patch))
    }

    /// Ends all troubles.
    pub(super) fn calm(&self) {
        for (url, _) in &self.history {
            self.servers.set_trouble(url, Trouble::default());
            let now = self.wires.now();
            let mut observer = self.wires.observer.lock();
            if let Some(trouble) = observer.model.troubles.get_mut(url).filter(|(is_bad, _)| *is_bad) {
                *trouble = (false, now);
            }
        }
    }
}

/// Address of an Application.
pub(super) fn path_of(name: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/applications/{name}")
}

/// An item of a list with its type, which lists leave out.
pub(super) fn typed(item: &Value, plural: &str) -> Value {
    let (version, kind) = match plural {
        "deployments" => ("apps/v1", "Deployment"),
        "jobs" => ("batch/v1", "Job"),
        "secrets" => ("v1", "Secret"),
        "namespaces" => ("v1", "Namespace"),
        _ => ("v1", "ConfigMap"),
    };
    let mut item = item.clone();
    item["apiVersion"] = json!(version);
    item["kind"] = json!(kind);
    item
}

fn toggle(set: &mut BTreeSet<String>, name: &str) {
    if !set.remove(name) {
        set.insert(name.to_owned());
    }
}
