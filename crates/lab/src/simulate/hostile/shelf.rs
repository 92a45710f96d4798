//! An Application of another project's that syncs hydrated manifests, and what the tenant does to them.
//!
//! Both projects may read the repository and write to it, as with one repository for all teams. Still the directory
//! that one Application syncs has one owner, and what one project's Applications are keeps no other from being hydrated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_source::MemoryRepositories;

use super::{OWN, PROJECT};
use crate::simulate::chance::Chance;
use crate::simulate::manifests::Files;
use crate::simulate::model::{CONTROL_PLANE, MAIN, Rules};
use crate::simulate::users::path_of;
use crate::simulate::wire::Wires;
use crate::simulate::world::SERVER;

/// The repository.
pub(super) const URL: &str = "https://git.example/shelf.git";
/// Project, namespace, Application and directory of the victim.
const NAME: &str = "shelf";
/// The branch with manifests.
const BRANCH: &str = "env";
/// Application of the tenant.
const INTRUDER: &str = "hostile-shelf";
/// What the tenant would like to see deployed.
const FORGED: &str = "forged-by-the-tenant";

const JSON: &str = "application/json";

/// The victim and the attack on it.
pub(super) struct Shelf {
    wires: Arc<Wires>,
    servers: MemoryRepositories,
    chance: Chance,
    /// What the victim committed last.
    value: u64,
}

impl Shelf {
    /// Moves the victim in.
    pub(super) fn install(wires: &Arc<Wires>, servers: &MemoryRepositories, chance: Chance) -> Self {
        let mut shelf = Self { wires: Arc::clone(wires), servers: servers.clone(), chance, value: 0 };
        let rules = Rules { namespaces: BTreeSet::from([NAME.to_owned()]), ..Rules::default() };
        let mut project = rules.manifest(NAME);
        project["spec"]["sourceRepos"] = json!([URL]);
        shelf.post("appprojects", &project);
        wires.observer.lock().model.projects.insert(NAME.to_owned(), vec![(Duration::ZERO, rules)]);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}});
        wires.direct(Method::POST, "/api/v1/namespaces", JSON, &namespace);
        shelf.commit();
        let dry = json!({"repoURL": URL, "path": "dry/shelf", "targetRevision": "main"});
        let sync = json!({"targetBranch": BRANCH, "path": NAME});
        let mut victim = application(NAME, NAME, NAME, &json!({"drySource": dry, "syncSource": sync}));
        // By a name that the tenant's own cluster has, too.
        victim["spec"]["destination"] = json!({"name": "in-cluster", "namespace": NAME});
        shelf.post("applications", &victim);
        shelf
    }

    /// The victim commits, or the tenant attacks; says what.
    pub(super) fn act(&mut self) -> String {
        match self.chance.below(6) {
            0 => {
                self.commit();
                format!("{NAME} commits {}", self.value)
            }
            1 => self.withdraw(),
            // What was created in the same second as the victim is as old, and may own the directory.
            2..=4 if self.wires.now() >= Duration::from_secs(1) => self.intrude(),
            _ => String::new(),
        }
    }

    fn commit(&mut self) {
        self.value += 1;
        let config = config(&self.value.to_string());
        self.write(URL, "dry/shelf/all.yaml", &config.to_string());
    }

    fn write(&self, url: &str, path: &str, text: &str) {
        let head = self.servers.get_ref(url, MAIN);
        let files = head.and_then(|head| self.servers.files(url, &head));
        let mut files: Files = files.map(|files| (*files).clone()).unwrap_or_default();
        files.insert(path.to_owned(), Bytes::copy_from_slice(text.as_bytes()));
        let seconds = i64::try_from(self.wires.now().as_secs()).unwrap_or(0);
        // A repository in memory refuses nothing of this.
        drop(self.servers.commit(url, "main", files, seconds));
    }

    /// The tenant's Application takes another form.
    pub(super) fn intrude(&mut self) -> String {
        self.write(OWN, "shelf/all.yaml", &config(FORGED).to_string());
        let own = json!({"repoURL": OWN, "path": "shelf", "targetRevision": "main"});
        let dry = json!({"repoURL": URL, "path": "dry/shelf", "targetRevision": "main"});
        let to = |branch: &str, path: &str| json!({"repoURL": URL, "targetBranch": branch, "path": path});
        // Where it deploys to, and what it is hydrated from and to.
        let (namespace, source, sync) = match self.chance.below(7) {
            0 => (NAME, dry, json!({"targetBranch": BRANCH, "path": "intruder"})),
            1 => (PROJECT, dry, json!({"targetBranch": BRANCH, "path": NAME})),
            2 => (PROJECT, own, to(BRANCH, NAME)),
            3 => (PROJECT, own, to(BRANCH, "shelf/below")),
            4 => (PROJECT, own, to("main", "dry/shelf")),
            5 => (NAME, own, to(BRANCH, NAME)),
            _ => (
                PROJECT,
                json!({"repoURL": OWN, "path": "nowhere", "targetRevision": "main"}),
                to(BRANCH, "intruder"),
            ),
        };
        self.withdraw();
        let hydrator = json!({"drySource": source, "syncSource": sync});
        let status = self.post("applications", &application(INTRUDER, PROJECT, namespace, &hydrator));
        format!("{INTRUDER} is {hydrator} to {namespace}: {status}")
    }

    /// The tenant's Application goes.
    pub(super) fn withdraw(&self) -> String {
        let (status, _) = self.wires.direct(Method::DELETE, &path_of(INTRUDER), JSON, &Value::Null);
        format!("{INTRUDER} goes: {status}")
    }

    /// What the tenant must never have brought about.
    pub(super) fn check(&self) {
        let files = |branch: &str| {
            let head = self.servers.get_ref(URL, &format!("refs/heads/{branch}"))?;
            self.servers.files(URL, &head)
        };
        for (branch, directory) in [(BRANCH, "shelf/"), ("main", "dry/shelf/")] {
            let Some(files) = files(branch) else { continue };
            let is_forged = |(path, content): (&String, &Bytes)| {
                path.starts_with(directory) && String::from_utf8_lossy(content).contains(FORGED)
            };
            if files.iter().any(is_forged) {
                self.broken(&format!("the tenant's manifests are in {directory} of {branch}"));
            }
        }
        if self.live().is_some_and(|value| value == FORGED) {
            self.broken("the tenant's manifests are deployed by another project's Application");
        }
    }

    /// Whether what the victim committed last is deployed, where nothing went wrong for long enough.
    pub(super) fn check_current(&self) {
        let live = self.live();
        if live.as_deref() != Some(self.value.to_string().as_str()) {
            let intruder = self.wires.get(&path_of(INTRUDER)).map(|app| app["spec"].to_string());
            let status = self.wires.get(&path_of(NAME)).map(|app| app["status"].to_string());
            self.broken(&format!(
                "{NAME} is not hydrated: {live:?} instead of {}; the tenant has {intruder:?}; {status:?}",
                self.value
            ));
        }
    }

    fn live(&self) -> Option<String> {
        let config = self.wires.get(&format!("/api/v1/namespaces/{NAME}/configmaps/hydrated"))?;
        config.pointer("/data/value").and_then(Value::as_str).map(str::to_owned)
    }

    fn broken(&self, text: &str) {
        let now = self.wires.now();
        self.wires.observer.lock().broken(now, "INV-16", text.to_owned());
    }

    fn post(&self, plural: &str, body: &Value) -> u16 {
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/{plural}");
        self.wires.direct(Method::POST, &path, JSON, body).0
    }
}

fn config(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hydrated"}, "data": {"value": value}})
}

fn application(name: &str, project: &str, namespace: &str, hydrator: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": CONTROL_PLANE},
        "spec": {
            "project": project,
            "destination": {"server": SERVER, "namespace": namespace},
            "sourceHydrator": hydrator,
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        },
    })
}
