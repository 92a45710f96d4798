//! The applications of the installation as the API shows them: kept by one writer that follows the cluster, read by
//! everybody.
//!
//! Of each there is the JSON that answers hold, made once when it comes in, and the few facts that lists are filtered by.
//! A list is these bytes one after the other, whoever asks (B8); trees of an application exist while one call needs one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::application::Destination;
use tiphys_object::{Object, PackedText, TextMap};
use tiphys_policy::rbac::application_object;
use tiphys_wire::proto::Secrets;
use tiphys_wire::schema;
use tokio::sync::{broadcast, watch};

use crate::call::Status;

/// Changes that a watcher may be behind unless it is set; one that is further behind has to begin anew (API-123).
pub(crate) const CHANGES_MAX: usize = 1_000;
/// Time that a call gives the catalog to see what it wrote (API-117).
const CATCH_UP: Duration = Duration::from_secs(2);

/// The name of an application, in the order of lists (API-119).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppKey {
    /// Its name.
    pub name: SmolStr,
    /// Its namespace.
    pub namespace: SmolStr,
}

impl AppKey {
    /// A name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { name: name.into(), namespace: namespace.into() }
    }
}

/// An application.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub key: AppKey,
    /// Its version in the cluster.
    pub version: SmolStr,
    /// Its project.
    pub project: SmolStr,
    /// Its object in policies (API-102).
    pub object: SmolStr,
    /// Its labels.
    pub labels: TextMap,
    /// The repository of its first source.
    pub repository: SmolStr,
    /// Where it goes.
    pub destination: Destination,
    /// Its health, as its status says.
    pub health: SmolStr,
    /// Whether it is in sync, as its status says.
    pub sync: SmolStr,
    /// When it was created.
    pub created: SmolStr,
    /// The JSON of an answer.
    pub json: PackedText,
}

impl Entry {
    /// Makes an entry of what the cluster holds.
    fn read(object: &Object, namespace: &str) -> Result<Self, String> {
        let app: Application = serde_json::from_slice(&object.raw()).map_err(|error| error.to_string())?;
        let mut value = object.to_value().map_err(|error| error.to_string())?;
        // Who wrote which field tells users of the API nothing, and is half of an object.
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let mut json = Vec::new();
        tiphys_wire::json::write(schema(), application(), &value, Secrets::Dropped, &mut json)
            .map_err(|misfit| misfit.to_string())?;
        let source = app.sources().first().map(|source| source.repo_url.as_str()).unwrap_or_default();
        Ok(Self {
            key: AppKey::new(object.namespace(), object.name()),
            version: object.metadata().resource_version.clone(),
            project: app.project().into(),
            object: application_object(app.project(), object.namespace(), object.name(), namespace).into(),
            labels: object.metadata().labels.clone(),
            repository: source.into(),
            destination: app.spec.destination.clone(),
            health: app.status.health.status.as_str().into(),
            sync: app.status.sync.status.as_str().into(),
            created: object.metadata().creation_timestamp.clone(),
            json: PackedText::plain(json.into()).packed(),
        })
    }

    /// The application as a tree.
    ///
    /// # Errors
    /// When it is none, which the making of the entry has ruled out.
    pub fn value(&self) -> Result<Value, Status> {
        serde_json::from_slice(&self.json.text())
            .map_err(|_unreadable| Status::internal("an application cannot be read"))
    }

    /// The application in types.
    ///
    /// # Errors
    /// When it is none, which the making of the entry has ruled out.
    pub fn application(&self) -> Result<Application, Status> {
        serde_json::from_slice(&self.json.text())
            .map_err(|_unreadable| Status::internal("an application cannot be read"))
    }
}

/// The message of an application.
pub(crate) fn application() -> schema::MessageId {
    // The tables have it; another message would refuse to be written.
    schema().find("v1.Application").unwrap_or_else(schema::MessageId::first)
}

/// Nobody knows the applications before a first list of them was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("applications are not known yet")]
pub struct NotYet;

/// What happened to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    /// The word of watches.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of an application, with what it is or was.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// To which.
    pub entry: Arc<Entry>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<AppKey, Arc<Entry>>,
    unreadable: BTreeMap<AppKey, String>,
    /// The last version that was seen.
    version: u64,
    is_complete: bool,
}

/// The applications.
pub struct Catalog {
    namespace: String,
    state: RwLock<State>,
    changes: broadcast::Sender<Change>,
    seen: watch::Sender<u64>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// All applications at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By name, then namespace.
    pub entries: Vec<Arc<Entry>>,
    /// The last version that was seen.
    pub version: u64,
}

impl Catalog {
    /// An empty catalog of an installation.
    pub fn new(namespace: &str) -> Self {
        Self::holding(namespace, CHANGES_MAX)
    }

    /// The same where a watcher may be that many changes behind.
    pub fn holding(namespace: &str, changes_max: usize) -> Self {
        let (changes, _) = broadcast::channel(changes_max);
        let (seen, _) = watch::channel(0);
        Self { namespace: namespace.to_owned(), state: RwLock::default(), changes, seen }
    }

    /// Takes an application that the cluster shows.
    pub fn take(&self, object: &Object) {
        let key = AppKey::new(object.namespace(), object.name());
        let read = Entry::read(object, &self.namespace);
        let version: u64 = object.metadata().resource_version.parse().unwrap_or(0);
        {
            let mut state = self.state.write();
            state.version = state.version.max(version);
            match read {
                Ok(entry) => {
                    state.unreadable.remove(&key);
                    let entry = Arc::new(entry);
                    let kind = match state.entries.insert(key, Arc::clone(&entry)) {
                        Some(old) if old.version == entry.version => None,
                        Some(_) => Some(ChangeKind::Modified),
                        None => Some(ChangeKind::Added),
                    };
                    if let Some(kind) = kind {
                        // Nobody may be watching.
                        drop(self.changes.send(Change { kind, entry }));
                    }
                }
                Err(reason) => {
                    tracing::warn!(application = %key.name, namespace = %key.namespace, reason, "an Application cannot be read");
                    state.entries.remove(&key);
                    state.unreadable.insert(key, reason);
                }
            }
        }
        self.seen.send_replace(version);
    }

    /// Forgets an application that is gone.
    pub fn remove(&self, key: &AppKey) {
        let mut state = self.state.write();
        state.unreadable.remove(key);
        if let Some(entry) = state.entries.remove(key) {
            drop(self.changes.send(Change { kind: ChangeKind::Deleted, entry }));
        }
    }

    /// A list is complete.
    pub fn listed(&self) {
        self.state.write().is_complete = true;
        self.seen.send_replace(self.state.read().version);
    }

    /// Whether a first list was complete; before it nobody knows what there is.
    pub fn is_complete(&self) -> bool {
        self.state.read().is_complete
    }

    /// Waits until a first list was complete.
    pub async fn completed(&self) {
        self.until(|| self.is_complete()).await;
    }

    /// Waits until something is so of what was seen.
    async fn until(&self, is_so: impl Fn() -> bool) {
        let mut seen = self.seen.subscribe();
        while !is_so() {
            if seen.changed().await.is_err() {
                return;
            }
        }
    }

    /// One application; `None` when there is none.
    ///
    /// # Errors
    /// Before a first list was complete, when nobody knows.
    pub fn look_up(&self, key: &AppKey) -> Result<Option<Arc<Entry>>, NotYet> {
        let state = self.state.read();
        if state.is_complete { Ok(state.entries.get(key).map(Arc::clone)) } else { Err(NotYet) }
    }

    /// One application.
    pub fn get(&self, key: &AppKey) -> Option<Arc<Entry>> {
        self.state.read().entries.get(key).map(Arc::clone)
    }

    /// Whether there is an application that cannot be read.
    pub(crate) fn is_unreadable(&self, key: &AppKey) -> bool {
        self.state.read().unreadable.contains_key(key)
    }

    /// All applications.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        Snapshot { entries: state.entries.values().map(Arc::clone).collect(), version: state.version }
    }

    /// All applications, and the changes from this moment on: none is missed and none comes twice (API-124).
    pub fn follow(&self) -> (Snapshot, broadcast::Receiver<Change>) {
        let state = self.state.read();
        let changes = self.changes.subscribe();
        let entries = state.entries.values().map(Arc::clone).collect();
        (Snapshot { entries, version: state.version }, changes)
    }

    /// How many there are, readable or not.
    pub fn len(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.entries.len(), state.unreadable.len())
    }

    /// Waits until the catalog has seen an application as it was written, two seconds at most (API-117).
    pub async fn catch_up(&self, key: &AppKey, version: &str) {
        let Ok(wanted) = version.parse::<u64>() else { return };
        let is_seen = || {
            let entry = self.get(key);
            entry.and_then(|entry| entry.version.parse::<u64>().ok()).is_some_and(|version| version >= wanted)
        };
        drop(tokio::time::timeout(CATCH_UP, self.until(is_seen)).await);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app(name: &str, version: &str, spec: &Value) -> Object {
        Object::from_value(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": spec,
            "metadata": {"name": name, "namespace": "argocd", "uid": "u", "resourceVersion": version,
                "managedFields": [{"manager": "x"}], "labels": {"a": "b"}}}))
        .unwrap()
    }

    fn spec() -> Value {
        json!({"project": "shop", "source": {"repoURL": "https://git/r"}, "destination": {"server": "s"}})
    }

    #[test]
    fn api_119_applications_are_kept_by_name_as_answers_show_them() {
        let catalog = Catalog::new("argocd");
        for name in ["b", "a"] {
            catalog.take(&app(name, "5", &spec()));
        }
        assert!(!catalog.is_complete());
        let none = AppKey::new("argocd", "none");
        assert_eq!(
            catalog.look_up(&none).map(|found| found.is_some()),
            Err(NotYet),
            "not known is not absent"
        );
        catalog.listed();
        assert_eq!(catalog.look_up(&none).map(|found| found.is_some()), Ok(false));
        let all = catalog.snapshot();
        let names: Vec<&str> = all.entries.iter().map(|entry| entry.key.name.as_str()).collect();
        assert_eq!((names.as_slice(), all.version), (&["a", "b"][..], 5));
        let entry = catalog.get(&AppKey::new("argocd", "a")).unwrap();
        assert_eq!((entry.object.as_str(), entry.repository.as_str()), ("shop/a", "https://git/r"));
        let value = entry.value().unwrap();
        assert_eq!(value["status"]["summary"], json!({}), "API-P9");
        assert!(value["metadata"].get("managedFields").is_none() && value.get("kind").is_none());
        assert_eq!(entry.application().unwrap().project(), "shop");
    }

    #[test]
    fn api_124_whoever_follows_sees_every_change_once() {
        let catalog = Catalog::new("argocd");
        catalog.take(&app("a", "1", &spec()));
        catalog.listed();
        let (all, mut changes) = catalog.follow();
        assert_eq!(all.entries.len(), 1);
        catalog.take(&app("a", "1", &spec()));
        catalog.take(&app("a", "2", &spec()));
        catalog.take(&app("b", "3", &spec()));
        catalog.remove(&AppKey::new("argocd", "a"));
        catalog.remove(&AppKey::new("argocd", "a"));
        let mut told = Vec::new();
        while let Ok(change) = changes.try_recv() {
            told.push((change.kind.as_str(), change.entry.key.name.to_string()));
        }
        let expected = [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")];
        assert_eq!(told, expected.map(|(kind, name)| (kind, name.to_owned())));
    }

    #[test]
    fn an_application_that_cannot_be_read_hides_no_other() {
        let catalog = Catalog::new("argocd");
        catalog.take(&app("a", "1", &json!({"project": 5})));
        catalog.take(&app("b", "2", &spec()));
        catalog.listed();
        assert_eq!(catalog.len(), (1, 1));
        catalog.take(&app("a", "3", &spec()));
        assert_eq!(catalog.len(), (2, 0));
    }

    #[tokio::test]
    async fn cli_903_applications_are_known_when_a_list_is_complete() {
        let catalog = Catalog::new("argocd");
        let mut completed = std::pin::pin!(catalog.completed());
        assert!(futures::poll!(completed.as_mut()).is_pending());
        catalog.take(&app("a", "1", &spec()));
        assert!(futures::poll!(completed.as_mut()).is_pending(), "there may be more");
        catalog.listed();
        assert!(futures::poll!(completed.as_mut()).is_ready());
        assert!(futures::poll!(std::pin::pin!(catalog.completed())).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn api_117_a_call_waits_for_what_it_wrote() {
        let catalog = Arc::new(Catalog::new("argocd"));
        let key = AppKey::new("argocd", "a");
        let began = tokio::time::Instant::now();
        catalog.catch_up(&key, "5").await;
        assert_eq!(began.elapsed(), CATCH_UP, "not for ever");
        let waiting = Arc::clone(&catalog);
        let waits = tokio::spawn(async move { waiting.catch_up(&AppKey::new("argocd", "a"), "5").await });
        tokio::task::yield_now().await;
        catalog.take(&app("a", "6", &spec()));
        waits.await.unwrap();
        assert_eq!(began.elapsed(), CATCH_UP);
    }
}
