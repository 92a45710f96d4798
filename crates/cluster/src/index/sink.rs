//! Carries what one watch shows into the index, and the consequences out of it.

use smol_str::SmolStr;
use tiphys_object::{GroupKind, Gvk, ResourceKey};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::record::KindId;
use super::state::Change;
use super::{ClusterIndex, IndexEvent, KindState};
use crate::error::ApiError;
use crate::watch::parse::Head;
use crate::watch::{Form, Sink, Verdict, Witness};

/// Receives one watch of one kind, in one namespace or in all.
pub(super) struct IndexSink {
    pub(super) index: ClusterIndex,
    pub(super) kind: KindId,
    pub(super) gvk: Gvk,
    /// Namespace of the watch; empty for all.
    pub(super) scope: SmolStr,
    /// Whether the kind came when others were watched already: then nobody waits for its first list.
    is_late: bool,
    pending: Vec<IndexEvent>,
    /// Events since the last flush, and when the first of them came.
    batch: Option<(Instant, usize)>,
}

impl IndexSink {
    pub(super) fn new(index: ClusterIndex, kind: KindId, gvk: Gvk, scope: SmolStr, is_late: bool) -> Self {
        Self { index, kind, gvk, scope, is_late, pending: Vec::new(), batch: None }
    }

    fn set_state(&mut self, new: KindState) {
        let (before, after) = {
            let mut state = self.index.shared.state.lock();
            let Some(store) = state.store_mut(self.kind) else { return };
            let before = store.state();
            let Some(watch) = store.watches.get_mut(&self.scope) else { return };
            watch.state = new;
            (before, store.state())
        };
        self.announce(before.as_ref(), after);
    }

    /// Tells about the kind's state unless only its version moved.
    fn announce(&mut self, before: Option<&KindState>, after: Option<KindState>) {
        let is_same = match (before, &after) {
            (Some(KindState::Complete { .. }), Some(KindState::Complete { .. })) => true,
            (before, after) => before == after.as_ref(),
        };
        if is_same {
            return;
        }
        self.index.note_change();
        self.pending.push(IndexEvent::KindChanged { group_kind: self.gvk.group_kind(), state: after });
    }

    /// An event of the watch came.
    fn note_event(&mut self) {
        let (_, events) = self.batch.get_or_insert_with(|| (Instant::now(), 0));
        *events += 1;
    }

    fn push(&mut self, change: Change) {
        // Endpoints follow their pods; nobody waits for them (ENG-14).
        if self.gvk.group.is_empty() && self.gvk.kind == "Endpoints" && !change.is_deleted {
            return;
        }
        self.pending.push(change.into());
    }

    /// Kinds whose objects change what the cluster serves (ENG-16, ENG-17).
    fn hint_discovery(&self) {
        let is_definition = matches!(
            (self.gvk.group.as_str(), self.gvk.kind.as_str()),
            ("apiextensions.k8s.io", "CustomResourceDefinition") | ("apiregistration.k8s.io", "APIService")
        );
        if is_definition {
            self.index.shared.discovery.hint();
        }
    }
}

impl From<Change> for IndexEvent {
    fn from(change: Change) -> Self {
        Self::Changed {
            key: change.key,
            applications: change.applications,
            is_managed: change.is_managed,
            is_deleted: change.is_deleted,
            health_changed: change.health_changed,
        }
    }
}

impl Sink for IndexSink {
    fn begin(&mut self) {
        self.index.shared.state.lock().begin(self.kind, &self.scope);
    }

    fn upsert<'a>(&mut self, head: &Head<'a>, raw: &'a [u8], form: Form, listed: bool) {
        let (change, is_first, is_news) = {
            let mut state = self.index.shared.state.lock();
            if !listed && let Some(store) = state.store_mut(self.kind) {
                store.events += 1;
            }
            let before = state.unreadable.len();
            let change = state.upsert(self.kind, &self.scope, head, raw, form);
            let is_first =
                state.store(self.kind).and_then(super::state::KindStore::state) == Some(KindState::Pending);
            (change, is_first, state.unreadable.len() > before)
        };
        if is_news {
            warn!(
                server = self.index.shared.connection.server(), group = %self.gvk.group, kind = %self.gvk.kind,
                namespace = head.metadata.namespace.as_str(), name = head.metadata.name.as_str(),
                "an object exists and cannot be read; its application is unknown, the others go on"
            );
        }
        if !listed {
            self.note_event();
            self.hint_discovery();
        }
        // Whoever waits for the first lists looks at everything when they are complete. A kind that comes later is
        // waited for by nobody: who wrote its objects a moment ago has to hear what became of them since.
        if let Some(change) = change.filter(|_| !is_first || self.is_late) {
            self.push(change);
        }
    }

    fn delete(&mut self, head: &Head<'_>, _raw: &[u8]) {
        self.note_event();
        let change = {
            let mut state = self.index.shared.state.lock();
            if let Some(store) = state.store_mut(self.kind) {
                store.events += 1;
            }
            let key = ResourceKey {
                group: self.gvk.group.clone(),
                kind: self.gvk.kind.clone(),
                namespace: head.metadata.namespace.as_str().into(),
                name: head.metadata.name.as_str().into(),
            };
            let slot = state.slot(&key);
            slot.and_then(|slot| state.remove(&slot))
        };
        self.hint_discovery();
        if let Some(change) = change {
            self.push(change);
        }
    }

    fn end(&mut self, resource_version: &str, witness: Witness) -> Verdict {
        let (verdict, changes, before, after) = {
            let mut state = self.index.shared.state.lock();
            let before = state.store(self.kind).and_then(super::state::KindStore::state);
            let (verdict, changes) = state.end(self.kind, &self.scope, resource_version, witness);
            if verdict != Verdict::Doubted
                && let Some(watch) =
                    state.store_mut(self.kind).and_then(|kind| kind.watches.get_mut(&self.scope))
            {
                watch.listed = Some(Instant::now());
            }
            (verdict, changes, before, state.store(self.kind).and_then(super::state::KindStore::state))
        };
        if verdict == Verdict::Doubted {
            warn!(
                server = self.index.shared.connection.server(), group = %self.gvk.group, kind = %self.gvk.kind,
                "most objects vanished from a list, reading it again before believing it"
            );
            return verdict;
        }
        for change in changes {
            self.push(change);
        }
        self.announce(before.as_ref(), after);
        verdict
    }

    fn lost(&mut self, error: &ApiError) {
        debug!(group = %self.gvk.group, kind = %self.gvk.kind, %error, "kind is unknown");
        if error.is_not_found() {
            // The kind may be gone; discovery decides that, not one answer.
            self.index.shared.discovery.hint();
        }
        self.set_state(KindState::Failed { reason: error.to_string() });
    }

    fn advanced(&mut self, resource_version: &str) {
        self.set_state(KindState::Complete { resource_version: resource_version.into() });
    }

    async fn flush(&mut self) {
        for event in self.pending.drain(..) {
            // Full: the watch stalls, which is the backpressure we want. Closed: nobody listens any more.
            if self.index.shared.events.send(event).await.is_err() {
                break;
            }
        }
        let Some((began, events)) = self.batch.take() else { return };
        let shared = &self.index.shared;
        for observer in shared.connection.observers.each() {
            observer.batch(&shared.options.server, events, began.elapsed());
        }
    }
}

/// The kind as events name it.
pub(super) fn vanished(group_kind: GroupKind) -> IndexEvent {
    IndexEvent::KindChanged { group_kind, state: None }
}
