//! Which applications a set controls, and which sets there is news for (ASET-131, ASET-180).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tiphys_api::names::is_own_note;
use tiphys_api::{Application, names};
use tiphys_object::Object;
use tokio::sync::Notify;

use crate::app_key::{AppKey, SetKey};

/// The set that controls an application. Unique ids are not compared, and sets own nothing outside of their namespace.
pub(crate) fn set_of(application: &Object) -> Option<SetKey> {
    let owners = &application.metadata().owner_references;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let is_set = group == names::GROUP && owner.kind == "ApplicationSet";
    is_set.then(|| SetKey::new(application.namespace(), &owner.name))
}

/// What the set of an application looks at, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// What people and other controllers may have changed.
    declared: [u8; 32],
    /// Its state, which matters to roll-outs.
    observed: [u8; 32],
}

impl Seen {
    pub(super) fn of(application: &Application) -> Self {
        let metadata = &application.metadata;
        // The controller's own notes are nobody's change.
        let annotations = metadata.annotations.iter().filter(|(key, _)| !is_own_note(key));
        let declared = (
            annotations.collect::<Vec<_>>(),
            &metadata.labels,
            &metadata.finalizers,
            &metadata.deletion_timestamp,
            &application.spec,
        );
        let status = &application.status;
        let operation = status.operation_state.as_ref().map(|state| (&state.phase, &state.started_at));
        let conditions = status.conditions.iter().map(|condition| &condition.r#type);
        // Whether a comparison was made since the last operation began; when exactly is no news (ASET-205, rule 3).
        let began = status.operation_state.as_ref().map(|state| state.started_at.as_str());
        let is_compared = began.is_some_and(|began| is_since(status.reconciled_at.as_deref(), began));
        let observed = (
            &status.sync,
            &status.health.status,
            operation,
            conditions.collect::<Vec<_>>(),
            application.operation.is_some(),
            is_compared,
        );
        Self { declared: digest(&declared), observed: digest(&observed) }
    }
}

/// Whether a time is not before another one; what is no time says nothing.
fn is_since(at: Option<&str>, began: &str) -> bool {
    let at = at.and_then(|at| at.parse::<Timestamp>().ok());
    at.is_some_and(|at| began.parse::<Timestamp>().is_ok_and(|began| at >= began))
}

fn digest(what: &(impl Serialize + std::fmt::Debug)) -> [u8; 32] {
    // What was read from JSON can be written as JSON. If not, its text as it is shown tells it apart as well.
    let bytes = serde_json::to_vec(what).unwrap_or_else(|_unwritable| format!("{what:?}").into_bytes());
    Sha256::digest(&bytes).into()
}

/// Applications by the set that controls them.
#[derive(Default)]
pub(super) struct Owners(HashMap<SetKey, BTreeSet<AppKey>>);

impl Owners {
    pub(super) fn add(&mut self, set: &SetKey, application: &AppKey) {
        self.0.entry(set.clone()).or_default().insert(application.clone());
    }

    pub(super) fn remove(&mut self, set: &SetKey, application: &AppKey) {
        if let Some(owned) = self.0.get_mut(set) {
            owned.remove(application);
            if owned.is_empty() {
                self.0.remove(set);
            }
        }
    }

    pub(super) fn of(&self, set: &SetKey) -> Vec<AppKey> {
        self.0.get(set).into_iter().flatten().cloned().collect()
    }
}

/// What is new about the applications of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetNews {
    /// One was changed by somebody, or is gone.
    pub(crate) declared: bool,
    /// One has another state.
    pub(crate) observed: bool,
}

impl SetNews {
    /// What is new about one that is still there.
    pub(super) fn between(old: Option<&Seen>, new: &Seen) -> Self {
        Self {
            declared: old.is_none_or(|old| old.declared != new.declared),
            observed: old.is_none_or(|old| old.observed != new.observed),
        }
    }

    /// One is gone, or another's.
    pub(super) fn gone() -> Self {
        Self { declared: true, observed: false }
    }
}

/// Sets that there is news for: at most those that applications name.
#[derive(Default)]
pub(crate) struct NewsOfSets {
    waiting: Mutex<BTreeMap<SetKey, SetNews>>,
    told: Notify,
}

impl NewsOfSets {
    pub(super) fn tell(&self, set: &SetKey, news: SetNews) {
        if news == SetNews::default() {
            return;
        }
        let mut waiting = self.waiting.lock();
        let known = waiting.entry(set.clone()).or_default();
        known.declared |= news.declared;
        known.observed |= news.observed;
        drop(waiting);
        self.told.notify_one();
    }

    /// Waits until there is news, and takes it. Cancel-safe.
    pub(crate) async fn next(&self) -> BTreeMap<SetKey, SetNews> {
        loop {
            let news = std::mem::take(&mut *self.waiting.lock());
            if !news.is_empty() {
                return news;
            }
            self.told.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(reconciled_at: Option<&str>) -> Seen {
        let app = json!({"metadata": {"name": "a", "namespace": "argocd"}, "spec": {"project": "default"},
            "status": {"reconciledAt": reconciled_at, "sync": {"status": "Synced"}, "operationState":
                {"phase": "Succeeded", "startedAt": "2026-01-01T00:00:10Z", "operation": {"sync": {}}}}});
        Seen::of(&serde_json::from_value(app).unwrap())
    }

    /// Rule 3 of ASET-205 waits for a comparison after the sync, which may change nothing else.
    #[test]
    fn aset_180_the_first_comparison_after_a_sync_is_news_and_later_ones_are_none() {
        let before = seen(Some("2026-01-01T00:00:09Z"));
        assert_eq!(before, seen(None));
        let after = seen(Some("2026-01-01T00:00:10Z"));
        assert_ne!(before, after);
        assert_eq!(after, seen(Some("2026-01-01T00:03:10Z")));
    }
}
