//! The sets this process knows, as the watch and our own writes show them, and what is remembered of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use smol_str::SmolStr;
use tiphys_api::ApplicationSet;
use tiphys_api::names::annotation;
use tiphys_appset::reconcile::CONFIRM_AFTER;
use tiphys_generation::Remembered;
use tiphys_object::{Object, is_news};
use tokio::time::Instant;

use crate::app_key::SetKey;
use crate::memory::identity_of;

/// One set.
#[derive(Clone)]
pub(super) struct SetEntry {
    /// The object as last seen.
    pub(super) object: Arc<Object>,
    pub(super) memory: Arc<Mutex<SetMemory>>,
}

/// Memory of one set. All of it can be lost: a restart looks once more and arrives at the same place.
#[derive(Default)]
pub(super) struct SetMemory {
    /// Looks that failed, one after another.
    pub(super) failures: u32,
    /// Looks that met somebody else's writes, one after another.
    pub(super) conflicts: u32,
    /// The generators find nothing where there was something.
    pub(super) emptiness: Option<Emptiness>,
    /// Applications that were answered to exist and that the watch has not shown yet.
    pub(super) unseen: BTreeSet<SmolStr>,
    /// Unique ids of Applications whose deletion was accepted, with its time: a late watch shows them as they were.
    pub(super) doomed: BTreeMap<SmolStr, Timestamp>,
    /// Warnings of the last look: what lasts is told once.
    pub(super) told: BTreeSet<(String, String)>,
    /// What services answered at the last look that asked them.
    pub(super) answers: Remembered,
    /// Whether services are asked again: something else than an Application changed.
    pub(super) asks_again: bool,
    /// When they are asked again in any case: not at each news of an Application before that.
    pub(super) asks_at: Option<Instant>,
    /// How often a delivery asked for a look; one that comes during a look is not lost.
    pub(super) deliveries: u64,
    /// What metrics say of it.
    pub(super) shown: Shown,
}

/// What is known of generators that find nothing where there was something (INV-8).
pub(super) struct Emptiness {
    /// Since when.
    pub(super) since: Timestamp,
    /// Which generators: others are asked for something else.
    pub(super) of: GeneratorsId,
    /// Whether they were asked twice. It stays so while they find nothing: an ordered removal takes many looks.
    pub(super) is_confirmed: bool,
}

/// Which generators a set has: equal for equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GeneratorsId([u8; 32]);

impl GeneratorsId {
    pub(super) fn of(set: &ApplicationSet) -> Self {
        Self(identity_of(&set.spec.generators))
    }
}

/// What metrics say of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Reason of the condition `ResourcesUpToDate`.
    pub(super) status: String,
    pub(super) owned: i64,
    /// The step of the roll-out, from 1; 0 when there is none.
    pub(super) step: usize,
}

/// What of a set is compared as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<StatusParts<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusParts<'a> {
    #[serde(borrow)]
    application_status: Option<&'a RawValue>,
}

/// What changed between two states of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// What people control; that a refresh is not asked for any more does not count (ASET-180).
    pub(super) declared: bool,
    /// The bookkeeping of a roll-out.
    pub(super) rollout: bool,
}

impl Difference {
    pub(super) fn between(old: &Object, new: &Object) -> Self {
        let (a, b) = (old.metadata(), new.metadata());
        let annotations = a.annotations.iter().ne(b.annotations.iter())
            && a.annotations
                .iter()
                .filter(|(key, _)| *key != annotation::SET_REFRESH)
                .ne(b.annotations.iter());
        let metadata = annotations
            || a.uid != b.uid
            || a.labels != b.labels
            || a.finalizers != b.finalizers
            || a.deletion_timestamp != b.deletion_timestamp;
        let parts = |object: &Object| -> (String, String) {
            let text = object.raw();
            let parts = serde_json::from_slice::<Parts<'_>>(&text).unwrap_or_default();
            let text = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned()).unwrap_or_default();
            (text(parts.spec), text(parts.status.and_then(|status| status.application_status)))
        };
        let (old, new) = (parts(old), parts(new));
        Self { declared: metadata || old.0 != new.0, rollout: old.1 != new.1 }
    }
}

/// All sets; one writer (the watch and the rounds' own writes), many readers.
#[derive(Default)]
pub(super) struct SetStore {
    sets: RwLock<HashMap<SetKey, SetEntry>>,
}

impl SetStore {
    pub(super) fn get(&self, key: &SetKey) -> Option<SetEntry> {
        self.sets.read().get(key).cloned()
    }

    pub(super) fn is_news(&self, key: &SetKey, uid: &str, version: &str) -> bool {
        let sets = self.sets.read();
        is_news(sets.get(key).map(|entry| entry.object.metadata()), uid, version)
    }

    /// Takes a newer state; says what was known before.
    pub(super) fn upsert(&self, object: Arc<Object>) -> Option<SetEntry> {
        let key = SetKey::new(object.namespace(), object.name());
        let object = Object::pack(object);
        let mut sets = self.sets.write();
        let old = sets.get(&key).cloned();
        let same = old.as_ref().filter(|old| old.object.metadata().uid == object.metadata().uid);
        let memory = same.map_or_else(Arc::default, |old| Arc::clone(&old.memory));
        sets.insert(key, SetEntry { object, memory });
        old
    }

    /// Takes the answer to a write of our own: it may renew what is known, never bring back what is gone.
    pub(super) fn update(&self, object: Arc<Object>) {
        let key = SetKey::new(object.namespace(), object.name());
        let object = Object::pack(object);
        let mut sets = self.sets.write();
        let Some(entry) = sets.get_mut(&key) else { return };
        let metadata = object.metadata();
        let is_same = entry.object.metadata().uid == metadata.uid;
        if is_same && is_news(Some(entry.object.metadata()), &metadata.uid, &metadata.resource_version) {
            entry.object = object;
        }
    }

    pub(super) fn remove(&self, key: &SetKey) -> bool {
        self.sets.write().remove(key).is_some()
    }

    pub(super) fn keys(&self) -> Vec<SetKey> {
        let mut keys: Vec<SetKey> = self.sets.read().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn len(&self) -> usize {
        self.sets.read().len()
    }
}

impl SetMemory {
    /// Whether generators that find nothing have done so for long enough, and did when they were asked again: the same
    /// answer, looked at twice, is one witness (INV-8).
    pub(super) fn is_confirmed_empty(&self, asks: bool, of: GeneratorsId, now: Timestamp) -> bool {
        let is_long = |since: Timestamp| now.duration_since(since).unsigned_abs() >= CONFIRM_AFTER;
        let known = self.emptiness.as_ref().filter(|known| known.of == of);
        known.is_some_and(|known| known.is_confirmed || (asks && is_long(known.since)))
    }

    /// Remembers whether a look found nothing where there was something.
    pub(super) fn note_emptiness(
        &mut self,
        is_empty: bool,
        is_confirmed: bool,
        of: GeneratorsId,
        now: Timestamp,
    ) {
        let known = self.emptiness.as_ref().filter(|known| known.of == of);
        let since = known.map_or(now, |known| known.since);
        self.emptiness = is_empty.then_some(Emptiness { since, of, is_confirmed });
    }

    /// Whether a look that begins now asks services again; from then on what they say counts.
    pub(super) fn begins_to_ask(&mut self, is_asked: bool, now: Instant) -> bool {
        let is_due = self.asks_at.is_some_and(|at| at <= now);
        let asks = std::mem::take(&mut self.asks_again) || is_asked || is_due;
        if asks {
            self.asks_at = None;
        }
        asks
    }

    /// Another look is due at this time, or at the earlier one that was promised already and has not come yet: a look at
    /// a set that is being deleted asks nobody and keeps no promise.
    pub(super) fn due(&mut self, at: Instant, now: Instant) -> Instant {
        let at = self.asks_at.filter(|before| *before > now).map_or(at, |before| before.min(at));
        self.asks_at = Some(at);
        at
    }
}

impl SetEntry {
    /// The whole object in typed form.
    ///
    /// # Errors
    /// When the object has members of types that the CRD forbids.
    pub(super) fn parse(&self) -> Result<ApplicationSet, serde_json::Error> {
        serde_json::from_slice(&self.object.raw())
    }
}

/// The status of a set as it is stored.
pub(super) fn stored_status(object: &Object) -> Value {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        status: Value,
    }
    serde_json::from_slice::<Status>(&object.raw()).unwrap_or_default().status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: u64, change: impl FnOnce(&mut Value)) -> Arc<Object> {
        let mut value = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "s", "namespace": "argocd", "uid": "u", "resourceVersion": version.to_string(),
                "annotations": {"note": "1"}},
            "spec": {"generators": []}, "status": {"applicationStatus": []}});
        change(&mut value);
        Arc::new(Object::from_value(&value).unwrap())
    }

    #[test]
    fn aset_180_only_what_matters_is_a_change() {
        let between = |a: &Object, b: &Object| {
            let difference = Difference::between(a, b);
            (difference.declared, difference.rollout)
        };
        let plain = object(1, |_| {});
        let asked = object(2, |v| v["metadata"]["annotations"][annotation::SET_REFRESH] = json!("true"));
        assert_eq!(between(&plain, &object(2, |v| v["status"]["resources"] = json!([]))), (false, false));
        assert_eq!(between(&plain, &asked), (true, false));
        assert_eq!(between(&asked, &plain), (false, false), "a refresh that was made");
        assert_eq!(between(&asked, &object(3, |v| v["metadata"]["annotations"] = json!({}))), (true, false));
        assert_eq!(between(&plain, &object(2, |v| v["spec"]["goTemplate"] = json!(true))), (true, false));
        assert_eq!(
            between(&plain, &object(2, |v| v["metadata"]["labels"] = json!({"a": "b"}))),
            (true, false)
        );
        let finalizers = object(2, |v| v["metadata"]["finalizers"] = json!(["x"]));
        assert_eq!(between(&plain, &finalizers), (true, false));
        let rolled = object(2, |v| v["status"]["applicationStatus"] = json!([{"application": "a"}]));
        assert_eq!(between(&plain, &rolled), (false, true));
    }

    /// INV-8, INV-5: two looks that ask make sure of it, and it stays sure until something is found.
    #[test]
    fn inv_8_emptiness_is_sure_when_it_was_asked_for_twice() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let of = |name: &str| {
            let generators = json!([{"scmProvider": {"gitea": {"owner": name}}}]);
            GeneratorsId::of(
                &serde_json::from_value(json!({"spec": {"generators": generators, "template": {}}})).unwrap(),
            )
        };
        let mut memory = SetMemory::default();
        let mut look_of = |name: &str, is_empty: bool, asks: bool, now: i64| {
            let is_confirmed = memory.is_confirmed_empty(asks, of(name), at(now));
            memory.note_emptiness(is_empty, is_confirmed, of(name), at(now));
            is_confirmed
        };
        assert!(!look_of("a", true, true, 0));
        assert!(!look_of("b", true, true, 61), "others were asked, for the first time");
        assert!(!look_of("a", true, true, 62), "and these again for the first time");
        assert!(!look_of("a", false, true, 63));
        let mut look = |is_empty: bool, asks: bool, now: i64| look_of("a", is_empty, asks, 100 + now);
        assert!(!look(true, true, 0), "the first");
        assert!(!look(true, true, 59), "too soon");
        assert!(!look(true, false, 60), "the answer of before");
        assert!(look(true, true, 61));
        assert!(look(true, false, 62), "an ordered removal takes many looks");
        look(false, true, 63);
        assert!(!look(true, true, 200), "something was found meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn aset_27_services_are_asked_when_it_is_time_and_not_at_each_news() {
        let now = Instant::now();
        let minute = std::time::Duration::from_mins(1);
        let mut memory = SetMemory::default();
        assert!(memory.begins_to_ask(true, now), "a refresh was asked for");
        assert_eq!(memory.due(now + minute * 30, now), now + minute * 30);
        assert!(!memory.begins_to_ask(false, now + minute), "an Application changed");
        assert_eq!(memory.due(now + minute * 31, now + minute), now + minute * 30, "what was promised stays");
        assert!(memory.begins_to_ask(false, now + minute * 30));
        assert_eq!(memory.due(now + minute * 60, now + minute * 30), now + minute * 60);
        assert_eq!(
            memory.due(now + minute * 70, now + minute * 61),
            now + minute * 70,
            "one that is over is none"
        );
        memory.asks_again = true;
        assert!(memory.begins_to_ask(false, now + minute * 31));
        assert!(!memory.begins_to_ask(false, now + minute * 32));
    }

    #[test]
    fn f3_an_answer_does_not_bring_back_what_is_gone() {
        let store = SetStore::default();
        let key = SetKey::new("argocd", "s");
        store.update(object(1, |_| {}));
        assert_eq!(store.len(), 0);
        store.upsert(object(2, |_| {}));
        store.get(&key).unwrap().memory.lock().failures = 3;
        store.update(object(1, |v| v["spec"]["goTemplate"] = json!(true)));
        assert_eq!(store.get(&key).unwrap().object.metadata().resource_version, "2");
        store.upsert(object(3, |_| {}));
        assert_eq!(store.get(&key).unwrap().memory.lock().failures, 3);
        store.upsert(object(4, |v| v["metadata"]["uid"] = json!("other")));
        assert_eq!(store.get(&key).unwrap().memory.lock().failures, 0, "another set of the same name");
    }
}
