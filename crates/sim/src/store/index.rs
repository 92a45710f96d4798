//! Who owns whom: what garbage collection and namespaces look up instead of scanning.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::access;

use super::Key;

/// Look-ups over all objects.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_uid: HashMap<SmolStr, Key>,
    dependents: HashMap<SmolStr, BTreeSet<Key>>,
    by_namespace: BTreeMap<SmolStr, BTreeSet<Key>>,
    entries: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    uid: SmolStr,
    owners: Vec<SmolStr>,
}

impl Index {
    /// The object with this uid.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Key> {
        self.by_uid.get(uid)
    }

    /// Objects that name this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Objects in a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    pub(super) fn put(&mut self, key: &Key, object: &Value) {
        self.remove(key);
        let uid = SmolStr::from(access::uid(object));
        let owners: Vec<SmolStr> = access::at(object, &["metadata", "ownerReferences"])
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|owner| SmolStr::from(access::text(owner, "uid")))
            .collect();
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(key.clone());
        }
        if !key.namespace.is_empty() {
            self.by_namespace.entry(key.namespace.clone()).or_default().insert(key.clone());
        }
        self.by_uid.insert(uid.clone(), key.clone());
        self.entries.insert(key.clone(), Entry { uid, owners });
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.by_uid.remove(&entry.uid);
        for owner in &entry.owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        if let Some(held) = self.by_namespace.get_mut(&key.namespace) {
            held.remove(key);
            if held.is_empty() {
                self.by_namespace.remove(&key.namespace);
            }
        }
    }
}
