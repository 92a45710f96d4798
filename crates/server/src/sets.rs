//! The `ApplicationSets` of the installation: kept by one writer that follows the cluster, read by everybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tiphys_object::Object;
use tokio::sync::{broadcast, watch};

use crate::catalog::{AppKey, CHANGES_MAX, ChangeKind};

/// Time that a call gives the catalog to see what it wrote (API-117).
const CATCH_UP: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    objects: BTreeMap<AppKey, Arc<Object>>,
    version: u64,
    is_complete: bool,
}

/// A change of a set, with what it is or was.
pub type Change = (ChangeKind, Arc<Object>);

/// The sets, by name, then namespace.
pub struct SetCatalog {
    state: RwLock<State>,
    seen: watch::Sender<u64>,
    changes: broadcast::Sender<Change>,
}

impl std::fmt::Debug for SetCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SetCatalog")
    }
}

impl Default for SetCatalog {
    fn default() -> Self {
        Self::holding(CHANGES_MAX)
    }
}

impl SetCatalog {
    /// An empty catalog, in which a watcher may be that many changes behind; one that is further behind has to begin anew
    /// (API-123, API-155).
    pub fn holding(changes_max: usize) -> Self {
        Self {
            state: RwLock::default(),
            seen: watch::Sender::new(0),
            changes: broadcast::Sender::new(changes_max),
        }
    }

    /// Takes a set that the cluster shows.
    pub fn take(&self, object: Arc<Object>) {
        let version: u64 = object.metadata().resource_version.parse().unwrap_or(0);
        let object = Object::pack(object);
        {
            let mut state = self.state.write();
            state.version = state.version.max(version);
            let key = AppKey::new(object.namespace(), object.name());
            let kind = match state.objects.insert(key, Arc::clone(&object)) {
                Some(old) if old.metadata().resource_version == object.metadata().resource_version => None,
                Some(_) => Some(ChangeKind::Modified),
                None => Some(ChangeKind::Added),
            };
            if let Some(kind) = kind {
                // Nobody may be watching.
                drop(self.changes.send((kind, object)));
            }
        }
        self.seen.send_replace(version);
    }

    /// Forgets a set that is gone.
    pub fn remove(&self, key: &AppKey) {
        {
            let mut state = self.state.write();
            if let Some(object) = state.objects.remove(key) {
                drop(self.changes.send((ChangeKind::Deleted, object)));
            }
        }
        self.seen.send_modify(|_| {});
    }

    /// A list is complete.
    pub fn listed(&self) {
        self.state.write().is_complete = true;
    }

    /// All sets, and the last version that was seen; `None` before a first list was complete.
    pub fn all(&self) -> Option<(Vec<Arc<Object>>, u64)> {
        let state = self.state.read();
        state.is_complete.then(|| (state.objects.values().map(Arc::clone).collect(), state.version))
    }

    /// All sets, and the changes from this moment on: none is missed and none comes twice (API-124). `None` before a first
    /// list was complete.
    pub fn follow(&self) -> Option<(Vec<Arc<Object>>, broadcast::Receiver<Change>)> {
        let state = self.state.read();
        let changes = self.changes.subscribe();
        state.is_complete.then(|| (state.objects.values().map(Arc::clone).collect(), changes))
    }

    /// Waits until a set is seen as it was written, or gone where no version is wanted, two seconds at most.
    pub async fn catch_up(&self, key: &AppKey, wanted: Option<&str>) {
        let wanted = wanted.map(|version| version.parse::<u64>().unwrap_or(0));
        let mut seen = self.seen.subscribe();
        let is_seen = || {
            let state = self.state.read();
            let version =
                state.objects.get(key).map(|object| object.metadata().resource_version.parse::<u64>());
            match (version, wanted) {
                (Some(version), Some(wanted)) => version.is_ok_and(|version| version >= wanted),
                (found, wanted) => found.is_none() && wanted.is_none(),
            }
        };
        let waiting = async {
            while !is_seen() {
                if seen.changed().await.is_err() {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(CATCH_UP, waiting).await);
    }
}
