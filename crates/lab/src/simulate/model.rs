//! What should be: applications, projects and the objects that a commit declares, known independently of the
//! product's own reading of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_engine::tracking::HashAlgorithm;
use tiphys_object::ResourceKey;
use tiphys_source::MemoryRepositories;

use super::manifests::Files;
use super::sets;

/// The namespace with the Applications.
pub(super) const CONTROL_PLANE: &str = "argocd";
/// The branch everything follows.
pub(super) const MAIN: &str = "refs/heads/main";

/// An application of the world, as its user made it.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) path: String,
    pub(super) namespace: String,
    pub(super) project: String,
    pub(super) automated: Option<Automated>,
    /// Whether its deletion takes its objects along.
    pub(super) cascades: bool,
    /// Whether its user deleted it.
    pub(super) deleted: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Automated {
    pub(super) prune: bool,
    pub(super) self_heal: bool,
}

impl App {
    /// The Application object.
    pub(super) fn manifest(&self) -> Value {
        let finalizers: &[&str] =
            if self.cascades { &["resources-finalizer.argocd.argoproj.io"] } else { &[] };
        let mut policy = json!({"syncOptions": ["CreateNamespace=true"]});
        if let Some(automated) = self.automated {
            let automated = json!({"prune": automated.prune, "selfHeal": automated.self_heal});
            policy["automated"] = automated;
        }
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": self.name, "namespace": CONTROL_PLANE, "finalizers": finalizers},
            "spec": {
                "project": self.project,
                "source": {"repoURL": self.url, "path": self.path, "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": self.namespace},
                "syncPolicy": policy,
            },
        })
    }
}

/// What a project permits: a state that was in force from some time on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) namespaces: BTreeSet<String>,
    /// Kinds without a namespace.
    pub(super) cluster_kinds: BTreeSet<String>,
    /// Kinds in namespaces that are forbidden.
    pub(super) denied_kinds: BTreeSet<String>,
}

impl Rules {
    /// The `AppProject` object.
    pub(super) fn manifest(&self, name: &str) -> Value {
        let destination = |namespace: &String| json!({"server": "*", "namespace": namespace});
        let kind = |kind: &String| json!({"group": "*", "kind": kind});
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": name, "namespace": CONTROL_PLANE},
            "spec": {
                "sourceRepos": ["*"],
                "destinations": self.namespaces.iter().map(destination).collect::<Vec<_>>(),
                "clusterResourceWhitelist": self.cluster_kinds.iter().map(kind).collect::<Vec<_>>(),
                "namespaceResourceBlacklist": self.denied_kinds.iter().map(kind).collect::<Vec<_>>(),
            },
        })
    }

    /// Whether an object is permitted. Namespaces and kinds here are plain names.
    pub(super) fn permit(&self, key: &ResourceKey) -> bool {
        if key.namespace.is_empty() {
            return self.cluster_kinds.contains(key.kind.as_str());
        }
        self.namespaces.contains(key.namespace.as_str()) && !self.denied_kinds.contains(key.kind.as_str())
    }
}

/// Everything that should be.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) servers: MemoryRepositories,
    pub(super) apps: BTreeMap<String, App>,
    /// Applications that a set may make.
    pub(super) generated: BTreeMap<String, App>,
    /// What the set says and means.
    pub(super) sets: sets::History,
    /// Rules of projects with the times from which they were in force.
    pub(super) projects: BTreeMap<String, Vec<(Duration, Rules)>>,
    /// Commits that a force-push made the newest, by URL.
    pub(super) forced: BTreeSet<(String, String)>,
    /// A text that only Secrets may hold.
    pub(super) canary: String,
    /// Repositories that were in trouble: whether they still are, and when that changed last.
    pub(super) troubles: BTreeMap<String, (bool, Duration)>,
    /// What was read of commits, by commit, then repository, path and namespace.
    read: Mutex<HashMap<String, OfCommit>>,
}

/// What a commit declares, by repository, path and namespace.
type OfCommit = HashMap<(String, String, String), Option<Arc<Declared>>>;

/// What a commit declares.
pub(super) type Declared = BTreeMap<ResourceKey, Value>;
/// Commits of which that is kept.
const COMMITS_MAX: usize = 64;

impl Model {
    /// What should be where nothing was declared yet.
    pub(super) fn new(servers: MemoryRepositories, canary: String) -> Self {
        Self { servers, canary, ..Self::default() }
    }

    /// Applications of users, and those that a set may make.
    pub(super) fn all_apps(&self) -> impl Iterator<Item = &App> {
        self.apps.values().chain(self.generated.values())
    }

    /// An application, of a user or of a set.
    pub(super) fn app(&self, name: &str) -> Option<&App> {
        self.apps.get(name).or_else(|| self.generated.get(name))
    }

    /// Objects that a commit declares for an application; `None` when a file cannot be read. What a commit holds never
    /// changes, so each is read once.
    pub(super) fn declared(&self, app: &App, commit: &str) -> Option<Arc<Declared>> {
        let of = (app.url.clone(), app.path.clone(), app.namespace.clone());
        let mut read = self.read.lock();
        if let Some(known) = read.get(commit).and_then(|of_commit| of_commit.get(&of)) {
            return known.clone();
        }
        let files = self.servers.files(&app.url, commit)?;
        let declared = declared(&files, app).map(Arc::new);
        if read.len() >= COMMITS_MAX {
            read.clear();
        }
        read.entry(commit.to_owned()).or_default().insert(of, declared.clone());
        declared
    }

    /// Whether the rules of a project permit an object, or did so until a short time ago.
    pub(super) fn permitted(&self, project: &str, key: &ResourceKey, now: Duration, lag: Duration) -> bool {
        let Some(rules) = self.projects.get(project) else { return project == "default" };
        let ends = rules.iter().skip(1).map(|(from, _)| *from).chain([Duration::MAX]);
        rules.iter().zip(ends).any(|((_, rules), end)| end.saturating_add(lag) >= now && rules.permit(key))
    }

    /// Whether all rules permit an object that a controller may know of now.
    pub(super) fn surely_permitted(
        &self,
        project: &str,
        key: &ResourceKey,
        now: Duration,
        lag: Duration,
    ) -> bool {
        let Some(rules) = self.projects.get(project) else { return project == "default" };
        let ends = rules.iter().skip(1).map(|(from, _)| *from).chain([Duration::MAX]);
        rules.iter().zip(ends).all(|((_, rules), end)| end.saturating_add(lag) < now || rules.permit(key))
    }

    /// Since when a repository answers; now, while it does not.
    pub(super) fn answers_since(&self, url: &str, now: Duration) -> Duration {
        match self.troubles.get(url) {
            None => Duration::ZERO,
            Some((true, _)) => now,
            Some((false, since)) => *since,
        }
    }

    /// The newest commit of an application's branch.
    pub(super) fn head(&self, app: &App) -> Option<String> {
        self.servers.get_ref(&app.url, MAIN)
    }
}

fn declared(files: &Files, app: &App) -> Option<Declared> {
    let directory = format!("{}/", app.path);
    let mut declared = BTreeMap::new();
    for (path, content) in files {
        let Some(name) = path.strip_prefix(&directory).filter(|name| !name.contains('/')) else {
            continue;
        };
        if std::path::Path::new(name).extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::str::from_utf8(content).ok()?;
        for document in text.split("\n---\n") {
            let object: Value = serde_json::from_str(document).ok()?;
            declared.insert(key_of(&object, &app.namespace), object);
        }
    }
    Some(declared)
}

/// Kinds of this world that live in no namespace.
const CLUSTER_KINDS: [&str; 3] = ["Namespace", "ClusterRole", "CustomResourceDefinition"];

/// Key of an object; one that names no namespace gets the given one.
pub(super) fn key_of(object: &Value, default_namespace: &str) -> ResourceKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let namespace = match text("/metadata/namespace") {
        _ if CLUSTER_KINDS.contains(&text("/kind")) => "",
        "" => default_namespace,
        namespace => namespace,
    };
    ResourceKey::new(group, text("/kind"), namespace, text("/metadata/name"))
}

/// Tracking methods, as the settings name them.
pub(super) const METHODS: [&str; 5] = ["annotation", "annotation+label", "label", "hash", "annotation+hash"];
/// Digests of the names that applications of this world have, as the published command line gives them.
static DIGESTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let names = (0..APPS_MAX).flat_map(|number| NUMBERED.map(|prefix| format!("{prefix}{number}")));
    let attackers = ATTACKERS.map(str::to_owned);
    let names = names.chain(sets::names()).chain(attackers);
    names.map(|name| (HashAlgorithm::Sha1.digest(&name), name)).collect()
});
/// How applications are called here, those of the hostile tenant and of a set too.
const PREFIXES: [&str; 4] = ["app-", "hostile-", "set-", "shelf"];
/// What the hostile tenant has besides, and whom it attacks.
const ATTACKERS: [&str; 3] = ["shelf", "hostile-shelf", "hostile-cost"];
/// Those of them that are numbered.
const NUMBERED: [&str; 2] = ["app-", "hostile-"];
/// The ID of another installation.
pub(super) const ANOTHER: &str = "another";
/// More applications than a world has.
const APPS_MAX: u64 = 16;

/// The application that an object's marks name, by whatever method it was marked.
pub(super) fn owner_of(object: &Value) -> Option<String> {
    if annotation(object, "argocd.argoproj.io/installation-id") == Some(ANOTHER) {
        return None;
    }
    match annotation(object, "argocd.argoproj.io/tracking-id") {
        // A copy has the labels of the original too.
        Some(_) => annotated_owner(object),
        None => METHODS.iter().find_map(|method| owner_by(object, method)),
    }
}

/// The application that an object's marks name by one method.
pub(super) fn owner_by(object: &Value, method: &str) -> Option<String> {
    let label = || object.pointer("/metadata/labels")?.get("app.kubernetes.io/instance")?.as_str();
    match method {
        "label" => {
            label().filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))).map(str::to_owned)
        }
        "hash" => DIGESTS.get(label()?).cloned(),
        _ => annotated_owner(object),
    }
}

/// The application that an object's tracking annotation names, when the annotation is about this very object.
fn annotated_owner(object: &Value) -> Option<String> {
    let id = annotation(object, "argocd.argoproj.io/tracking-id")?;
    let (app, about) = id.split_once(':')?;
    let key = key_of(object, "");
    // Of an object without a namespace the annotation names that of the destination.
    let (kind, place) = about.split_once(':')?;
    let (namespace, name) = place.split_once('/')?;
    let is_own = kind == format!("{}/{}", key.group, key.kind)
        && name == key.name.as_str()
        && (namespace == key.namespace.as_str() || key.namespace.is_empty());
    is_own.then(|| app.to_owned())
}

/// An annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Whether everything that `wanted` says is so in `found`.
pub(super) fn holds(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| holds(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| holds(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}
