//! The live object of a target: from the index where it is kept, else read and kept from then on (ENG-25).

use std::sync::Arc;

use tiphys_object::{Object, ResourceKey};

use super::{ClusterIndex, Seen};
use crate::error::ApiError;
use crate::kinds::Scope;
use crate::write::{Target, Writer};

/// Objects kept in full because somebody asked for them; beyond that they are read each time.
const KEPT_MAX: usize = 20_000;

impl ClusterIndex {
    /// The live object with the target's key in the target's version; `None` when it does not exist.
    ///
    /// Answered from memory for objects kept in full; others are read once and then kept. What the index
    /// cannot say is asked of the API server.
    ///
    /// # Errors
    /// When the object is outside the watched namespaces (ENG-22), or cannot be read.
    pub async fn live(&self, writer: &Writer, target: &Target) -> Result<Option<Arc<Object>>, ApiError> {
        self.check_scope(target)?;
        let key = ResourceKey {
            group: target.gvk.group.clone(),
            kind: target.gvk.kind.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        };
        match self.get(&key) {
            // Conversion between versions is the server's work (ENG-26).
            Seen::Present(object) if *object.gvk() == target.gvk => return Ok(Some(object)),
            Seen::Absent => return Ok(None),
            Seen::Present(_) | Seen::Reference { .. } | Seen::Unknown(_) => {}
        }
        let live = writer.get(target).await?;
        if let Some(object) = &live {
            self.keep(Arc::clone(object));
        }
        Ok(live)
    }

    /// Keeps an object in full from now on, because it is a target of an application that does not track it.
    fn keep(&self, object: Arc<Object>) {
        let mut state = self.shared.state.lock();
        if state.kept.len() >= KEPT_MAX {
            return;
        }
        let slot = state.intern_slot(&object.key());
        let is_same_version =
            state.store(slot.kind).is_some_and(|store| store.version == object.gvk().version);
        let Some(record) = state.record_mut(&slot) else { return };
        if !is_same_version || record.version != object.metadata().resource_version {
            return;
        }
        record.extra.get_or_insert_default().object = Some(object);
        state.kept.insert(slot);
    }

    /// Stops keeping an object that no application asks for any more.
    pub fn release(&self, key: &ResourceKey) {
        let mut state = self.shared.state.lock();
        let Some(slot) = state.slot(key) else { return };
        if !state.kept.remove(&slot) {
            return;
        }
        if let Some(extra) = state.record_mut(&slot).and_then(|record| record.extra.as_mut())
            && extra.claim.is_none()
        {
            extra.object = None;
        }
    }

    /// In namespaced mode only the listed namespaces, and cluster-scoped kinds if allowed (ENG-22).
    fn check_scope(&self, target: &Target) -> Result<(), ApiError> {
        let options = &self.shared.options;
        if options.namespaces.is_empty() {
            return Ok(());
        }
        let kinds = self.shared.discovery.snapshot();
        let scope = kinds.and_then(|kinds| kinds.scope(&target.gvk.group_kind()));
        let is_cluster_scoped = scope == Some(Scope::Cluster) || target.namespace.is_empty();
        let (kind, name) = (&target.gvk.kind, &target.name);
        if is_cluster_scoped && !options.cluster_resources {
            return Err(ApiError::NotManaged(format!(
                "cluster level {kind} {name:?} can not be managed when in namespaced mode"
            )));
        }
        if !is_cluster_scoped && !options.namespaces.contains(&target.namespace) {
            let namespace = &target.namespace;
            return Err(ApiError::NotManaged(format!(
                "namespace {namespace:?} for {kind} {name:?} is not managed"
            )));
        }
        Ok(())
    }
}
