//! The live object of a target: from the index where it is kept, else read and kept from then on (ENG-25).

use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::{Object, ResourceKey};

use super::record::Record;
use super::{ClusterIndex, Seen};
use crate::error::ApiError;
use crate::kinds::Scope;
use crate::write::{Target, Writer};

/// Field managers whose entries one object is kept with; beyond that only those asked for last.
const MANAGERS_MAX: usize = 16;

impl ClusterIndex {
    /// The live object with the target's key in the target's version; `None` when it does not exist.
    ///
    /// Answered from memory for objects kept in full; others are read once and then kept. What the index
    /// cannot say is asked of the API server.
    ///
    /// # Errors
    /// When the object is outside the watched namespaces (ENG-22), or cannot be read.
    pub async fn live(&self, writer: &Writer, target: &Target) -> Result<Option<Arc<Object>>, ApiError> {
        self.live_with_books(writer, target, &[]).await
    }

    /// The same, with what these field managers own in `managedFields` (ENG-70). An object that was asked for so
    /// is kept so from then on.
    ///
    /// # Errors
    /// Those of [`ClusterIndex::live`], and when an answer is older than what the index has seen.
    pub async fn live_with_books(
        &self,
        writer: &Writer,
        target: &Target,
        managers: &[SmolStr],
    ) -> Result<Option<Arc<Object>>, ApiError> {
        self.check_scope(target)?;
        let key = ResourceKey {
            group: target.gvk.group.clone(),
            kind: target.gvk.kind.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        };
        match self.get(&key) {
            // Conversion between versions is the server's work (ENG-26).
            Seen::Present(object) if *object.gvk() == target.gvk && self.has_books(&key, managers) => {
                return Ok(Some(object));
            }
            Seen::Absent => return Ok(None),
            Seen::Present(_) | Seen::Reference { .. } | Seen::Unknown(_) => {}
        }
        let managers = self.managers_to_keep(&key, managers);
        let live = writer.get_with_books(target, &managers).await?;
        if let Some(object) = &live {
            self.keep(Arc::clone(object), &managers)?;
        }
        Ok(live)
    }

    fn has_books(&self, key: &ResourceKey, managers: &[SmolStr]) -> bool {
        if managers.is_empty() {
            return true;
        }
        let state = self.shared.state.lock();
        let known = state.slot(key).and_then(|slot| state.record(&slot)).map(Record::managers);
        known.is_some_and(|known| managers.iter().all(|manager| known.contains(manager)))
    }

    /// The managers asked for with those that somebody else asked for before.
    fn managers_to_keep(&self, key: &ResourceKey, managers: &[SmolStr]) -> Vec<SmolStr> {
        let state = self.shared.state.lock();
        let slot = state.slot(key);
        let known = slot.and_then(|slot| state.record(&slot)).map(Record::managers).unwrap_or_default();
        let mut all: Vec<SmolStr> = known.iter().chain(managers).cloned().collect();
        all.sort();
        all.dedup();
        if all.len() > MANAGERS_MAX { managers.to_vec() } else { all }
    }

    /// Keeps an object in full from now on, because it is a target of an application that does not track it, or
    /// with the entries of field managers because rules name them.
    fn keep(&self, object: Arc<Object>, managers: &[SmolStr]) -> Result<(), ApiError> {
        let mut state = self.shared.state.lock();
        let slot = state.intern_slot(&object.key());
        let is_same_version =
            state.store(slot.kind).is_some_and(|store| store.version == object.gvk().version);
        let Some(record) = state.record_mut(&slot).filter(|_| is_same_version) else { return Ok(()) };
        let found = object.metadata().resource_version.clone();
        let (is_text_kept, is_current) = (record.object().is_some(), record.version == found);
        let number = |version: &str| version.parse::<u64>().unwrap_or(u64::MAX);
        let is_older = number(&found) < number(&record.version);
        if !(is_text_kept || is_current) {
            return Ok(());
        }
        let extra = record.extra.get_or_insert_default();
        // Also when this answer is of another version: the change that is on its way is then kept with them.
        extra.managers = (!managers.is_empty()).then(|| managers.into());
        if is_current {
            extra.object = Some(object);
            if !is_text_kept {
                state.keep(slot);
            }
        } else if is_older {
            let reason = format!("{} is older than the watch has shown it", object.key());
            return Err(ApiError::Malformed { what: "get", reason });
        }
        Ok(())
    }

    /// In namespaced mode only the listed namespaces, and cluster-scoped kinds if allowed (ENG-22).
    ///
    /// # Errors
    /// When the object is outside, with the text of the condition.
    pub fn check_scope(&self, target: &Target) -> Result<(), ApiError> {
        let options = &self.shared.options;
        if options.namespaces.is_empty() {
            return Ok(());
        }
        let kinds = self.shared.discovery.snapshot();
        let scope = kinds.and_then(|kinds| kinds.scope(&target.gvk.group_kind()));
        let is_cluster_scoped = scope == Some(Scope::Cluster) || target.namespace.is_empty();
        if is_cluster_scoped && !options.cluster_resources {
            return Err(ApiError::not_managed(target, false));
        }
        if !is_cluster_scoped && !options.namespaces.contains(&target.namespace) {
            return Err(ApiError::not_managed(target, true));
        }
        Ok(())
    }
}
