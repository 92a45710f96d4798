//! The only writer of a set: its status, its finalizer and the annotation that asks for a look (ASET-155, ASET-182,
//! ASET-243). Every write names the version that it was decided from.

use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::ApplicationSet;
use tiphys_api::applicationset::ApplicationSetStatus;
use tiphys_api::names::{annotation, finalizer};
use tiphys_appset::status::status_patch;
use tiphys_cluster::{ApiError, Target, error_chain};
use tiphys_object::Object;
use tiphys_policy::permit::{Own, Permit};

use super::Sets;
use super::store::{Difference, stored_status};
use crate::app_key::SetKey;
use crate::control_plane::set_gvk;

/// Writes that meet somebody else's before a look is given up.
const ATTEMPTS_MAX: u32 = 5;

/// One set during one look.
pub(super) struct SetContext<'a> {
    pub(super) sets: &'a Sets,
    pub(super) key: SetKey,
    /// The stored object …
    pub(super) object: Arc<Object>,
    /// … and the same, read.
    pub(super) set: Arc<ApplicationSet>,
    /// What asked for a fresh look when this one began.
    pub(super) asked: Option<String>,
    /// Whether an answer showed a change of somebody else that this look has not seen.
    pub(super) is_behind: bool,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The set is gone.
    #[error("the set is gone")]
    Gone,
    /// Others change the set all the time.
    #[error("the ApplicationSet is being changed by others all the time")]
    Conflict,
    /// The API server said no.
    #[error("{0}")]
    Refused(String),
}

impl From<ApiError> for WriteError {
    fn from(error: ApiError) -> Self {
        if error.is_not_found() { Self::Gone } else { Self::Refused(error_chain(&error)) }
    }
}

pub(super) fn target(key: &SetKey) -> Target {
    Target::new(set_gvk(), &key.namespace, &key.name)
}

pub(super) fn permit(key: &SetKey) -> Permit {
    Permit::own(Own::ApplicationSet, &key.namespace, &key.name)
}

impl SetContext<'_> {
    /// The status as it is stored.
    pub(super) fn stored(&self) -> Value {
        stored_status(&self.object)
    }

    /// Whether nothing may be written.
    pub(super) fn is_dry(&self) -> bool {
        self.sets.is_dry()
    }

    /// Makes the stored status the wanted one; where it is already, nothing is written.
    pub(super) async fn write_status(&mut self, wanted: &ApplicationSetStatus) -> Result<(), WriteError> {
        self.write(Some("status"), |cx| status_patch(&cx.stored(), wanted)).await
    }

    /// Makes sure that the set is stored: what is known of it may be old, and an Application of a set that is gone would be
    /// made only to be collected, and made again when that is seen (INV-5, F3). A change of nothing asks the API server
    /// itself; a list or a read may come from a copy that is behind.
    pub(super) async fn confirm(&mut self) -> Result<(), WriteError> {
        self.write(None, |cx| Some(json!({"metadata": {"uid": cx.object.metadata().uid}}))).await
    }

    /// Adds the finalizer that makes deletions ordered.
    pub(super) async fn add_finalizer(&mut self) -> Result<(), WriteError> {
        self.write(None, |cx| {
            let mut finalizers = cx.set.metadata.finalizers.clone();
            if finalizers.iter().any(|name| name == finalizer::CASCADE) {
                return None;
            }
            finalizers.push(finalizer::CASCADE.to_owned());
            Some(json!({"metadata": {"finalizers": finalizers}}))
        })
        .await
    }

    /// Takes the finalizer away; the set goes with the last one.
    pub(super) async fn release(&mut self) -> Result<(), WriteError> {
        self.write(None, |cx| {
            let finalizers = &cx.set.metadata.finalizers;
            let left: Vec<&String> = finalizers.iter().filter(|name| *name != finalizer::CASCADE).collect();
            (left.len() < finalizers.len()).then(|| json!({"metadata": {"finalizers": left}}))
        })
        .await
    }

    /// Takes away the annotation that asked for this look.
    pub(super) async fn remove_request(&mut self) -> Result<(), WriteError> {
        self.write(None, |cx| {
            let asked = cx.set.metadata.annotations.get(annotation::SET_REFRESH);
            // Whoever asked meanwhile in other words gets another look.
            let is_answered = asked.is_some() && asked == cx.asked.as_ref();
            is_answered.then(|| json!({"metadata": {"annotations": {annotation::SET_REFRESH: null}}}))
        })
        .await
    }

    /// Writes what is to be changed about the set as it is, again when somebody else was faster.
    async fn write(
        &mut self,
        subresource: Option<&str>,
        change: impl Fn(&Self) -> Option<Value>,
    ) -> Result<(), WriteError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(mut patch) = change(self) else { return Ok(()) };
            let metadata = self.object.metadata();
            tiphys_object::access::metadata_mut(&mut patch)
                .insert("resourceVersion".to_owned(), metadata.resource_version.as_str().into());
            let home = &self.sets.shared.home;
            let written = home.merge_patch(&permit(&self.key), &target(&self.key), subresource, &patch).await;
            match written {
                Ok(object) => return self.adopt(object),
                Err(error) if error.is_conflict() => self.read_again().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(WriteError::Conflict)
    }

    /// Goes on with what is stored now.
    pub(super) async fn read_again(&mut self) -> Result<(), WriteError> {
        match self.sets.shared.home.get(&target(&self.key)).await? {
            Some(object) if object.metadata().uid == self.object.metadata().uid => self.adopt(object),
            _ => Err(WriteError::Gone),
        }
    }

    /// The answer may hold somebody else's change that the watch, to which it is no longer news, will not show.
    fn adopt(&mut self, object: Arc<Object>) -> Result<(), WriteError> {
        let read = serde_json::from_slice::<ApplicationSet>(&object.raw());
        let set =
            read.map_err(|error| WriteError::Refused(format!("the stored set cannot be read: {error}")))?;
        let difference = Difference::between(&self.object, &object);
        let finalizers_only = object.metadata().annotations == self.object.metadata().annotations
            && object.metadata().labels == self.object.metadata().labels
            && set.spec == self.set.spec
            && set.metadata.deletion_timestamp == self.set.metadata.deletion_timestamp;
        self.is_behind |= difference.declared && !finalizers_only;
        self.sets.store.update(Arc::clone(&object));
        (self.object, self.set) = (object, Arc::new(set));
        Ok(())
    }
}

/// Asks for a look at a set with freshly resolved revisions (ASET-186).
pub(super) async fn request(sets: &Sets, key: &SetKey) -> Result<(), WriteError> {
    let patch = json!({"metadata": {"annotations": {annotation::SET_REFRESH: "true"}}});
    let written = sets.shared.home.merge_patch(&permit(key), &target(key), None, &patch).await?;
    sets.store.update(written);
    Ok(())
}
