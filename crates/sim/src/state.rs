//! The state of a server: objects, what is served, and what the built-in controllers still have to look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_object::access;

use crate::clock::Rng;
use crate::crd;
use crate::resource::{Registry, Resource};
use crate::store::{Key, Kind, Store, Stored};
use crate::strategy::Draw;

/// Everything a server is, behind one lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    /// Documents about what is served, made when first asked for.
    pub(crate) documents: BTreeMap<String, Bytes>,
    pub(crate) draw: Numbers,
    /// Objects that changed since the controllers looked.
    pub(crate) dirty: BTreeSet<Key>,
    /// How fast simulated workloads are.
    pub(crate) speed: f64,
    /// Pods whose containers start, and when they have.
    pub(crate) starting: BTreeMap<Key, Timestamp>,
    /// Pods whose containers end, and when they have.
    pub(crate) ending: BTreeMap<Key, Timestamp>,
    /// Numbers of roll-outs, and since when they have been so.
    pub(crate) progress: BTreeMap<Key, (Progress, Timestamp)>,
    /// Where writes are written down.
    pub(crate) journal: Option<crate::persist::Journal>,
    /// What keeps other processes out of the data directory.
    pub(crate) lock: Option<std::fs::File>,
    /// When controllers want to look at objects again.
    pub(crate) timers: BTreeSet<(Timestamp, Key)>,
    kinds: BTreeMap<Kind, Arc<Kind>>,
}

/// Updated and available pods of a roll-out, and the generation it is for.
pub(crate) type Progress = ((i64, i64), i64);

/// What is drawn from: addresses in order, names and uids by chance.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) rng: Rng,
    address: u32,
    pod_address: u32,
    port: u16,
}

impl Draw for Numbers {
    fn cluster_ip(&mut self) -> String {
        self.address += 1;
        let [_, _, high, low] = self.address.to_be_bytes();
        format!("10.0.{high}.{low}")
    }

    fn node_port(&mut self) -> u16 {
        self.port = if self.port >= 32_767 { 30_000 } else { self.port + 1 };
        self.port
    }

    fn uid(&mut self) -> String {
        self.rng.uuid()
    }
}

impl Numbers {
    /// An address for a pod.
    pub(crate) fn pod_ip(&mut self) -> String {
        self.pod_address += 1;
        let [_, _, high, low] = self.pod_address.to_be_bytes();
        format!("10.244.{high}.{low}")
    }
}

impl State {
    /// An empty server.
    pub(crate) fn new(seed: u64) -> Self {
        let mut store = Store::default();
        // As if something had been there before: version 1 is too old from the beginning.
        store.restore_version(2);
        Self {
            store,
            registry: Registry::builtin(),
            documents: BTreeMap::new(),
            draw: Numbers { rng: Rng::new(seed), address: 1, pod_address: 1, port: 30_000 },
            dirty: BTreeSet::new(),
            speed: 1.0,
            starting: BTreeMap::new(),
            ending: BTreeMap::new(),
            progress: BTreeMap::new(),
            journal: None,
            lock: None,
            timers: BTreeSet::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Where the objects of a resource are.
    pub(crate) fn kind(&mut self, resource: &Resource) -> Arc<Kind> {
        let (group, plural) = resource.storage();
        let kind = Kind { group: group.into(), plural: plural.into() };
        Arc::clone(self.kinds.entry(kind.clone()).or_insert_with(|| Arc::new(kind)))
    }

    /// The place of an object.
    pub(crate) fn key(&mut self, resource: &Resource, namespace: &str, name: &str) -> Key {
        Key { kind: self.kind(resource), namespace: namespace.into(), name: name.into() }
    }

    /// The place of an object of a built-in resource.
    pub(crate) fn builtin_key(&mut self, group: &str, plural: &str, namespace: &str, name: &str) -> Key {
        let kind = Kind { group: group.into(), plural: plural.into() };
        let kind = Arc::clone(self.kinds.entry(kind.clone()).or_insert_with(|| Arc::new(kind)));
        Key { kind, namespace: namespace.into(), name: name.into() }
    }

    /// Any resource whose objects are at a place; of several versions, one.
    pub(crate) fn resource_of(&self, kind: &Kind) -> Option<Arc<Resource>> {
        let is_stored_there = |one: &&Arc<Resource>| one.group == kind.group && one.plural == kind.plural;
        self.registry.iter().find(is_stored_there).cloned()
    }

    /// Stores an object, and tells the controllers; the tree that is stored.
    pub(crate) fn commit(&mut self, key: &Key, object: Value) -> Value {
        if is_definition(key) {
            self.serve(&object);
        }
        self.wake_owners(&object);
        let stored = self.store.put(key, object);
        self.dirty.insert(key.clone());
        crate::persist::record(self, key);
        stored
    }

    /// Removes an object, and tells the controllers.
    pub(crate) fn erase(&mut self, key: &Key) -> Option<Stored> {
        let removed = self.store.remove(key);
        if let Some(last) = &removed {
            crate::persist::record(self, key);
            let last = last.tree();
            self.wake_owners(&last);
            let uid = access::uid(&last).to_owned();
            let dependents: Vec<Key> = self.store.index.dependents(&uid).cloned().collect();
            self.dirty.extend(dependents);
            if !key.namespace.is_empty() {
                let namespace = self.builtin_key("", "namespaces", "", &key.namespace);
                self.dirty.insert(namespace);
            }
            if let Some(definition) = self.definition_of(key) {
                self.dirty.insert(definition);
            }
            if is_definition(key) {
                self.registry.remove_definition(&key.name);
                self.documents.clear();
            }
            self.dirty.insert(key.clone());
        }
        removed
    }

    /// Addresses and ports that are taken are not drawn again.
    pub(crate) fn restore_numbers(&mut self, key: &Key, object: &Value) {
        let read = |text: &str| {
            text.parse::<std::net::Ipv4Addr>().ok().map(|address| {
                let [_, _, high, low] = address.octets();
                u32::from_be_bytes([0, 0, high, low])
            })
        };
        if key.kind.group.is_empty() && key.kind.plural == "services" {
            if let Some(address) = read(access::text_at(object, &["spec", "clusterIP"])) {
                self.draw.address = self.draw.address.max(address);
            }
            let ports = access::at(object, &["spec", "ports"]).and_then(Value::as_array);
            for port in ports.into_iter().flatten().filter_map(|port| port.get("nodePort")?.as_u64()) {
                self.draw.port = self.draw.port.max(u16::try_from(port).unwrap_or(0));
            }
        }
        if key.kind.group.is_empty()
            && key.kind.plural == "pods"
            && let Some(address) = read(access::text_at(object, &["status", "podIP"]))
        {
            self.draw.pod_address = self.draw.pod_address.max(address);
        }
    }

    /// The controllers of owners look at them again when a dependent changes.
    fn wake_owners(&mut self, object: &Value) {
        let owners = access::at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        for owner in owners.into_iter().flatten() {
            if let Some(key) = self.store.index.by_uid(access::text(owner, "uid")) {
                self.dirty.insert(key.clone());
            }
        }
    }

    /// The definition of a custom object.
    fn definition_of(&mut self, key: &Key) -> Option<Key> {
        let resource = self.resource_of(&key.kind)?;
        let definition = resource.custom.as_ref()?.definition.clone();
        Some(self.builtin_key("apiextensions.k8s.io", "customresourcedefinitions", "", &definition))
    }

    /// Begins to serve what a definition says, as soon as it is established.
    pub(crate) fn serve(&mut self, definition: &Value) {
        self.registry.remove_definition(access::name(definition));
        if condition(definition, "Established") == Some("True") {
            for resource in crd::resources(definition) {
                self.registry.insert(resource);
            }
        }
        self.documents.clear();
    }

    /// The tree of an object.
    pub(crate) fn tree(&self, key: &Key) -> Option<Value> {
        self.store.get(key).map(Stored::tree)
    }

    /// The phase of a namespace; `None` when there is no such namespace.
    pub(crate) fn namespace_is_terminating(&mut self, name: &str) -> Option<bool> {
        let key = self.builtin_key("", "namespaces", "", name);
        let namespace = self.tree(&key)?;
        Some(is_terminating(&namespace))
    }

    /// Metadata that a new object gets.
    pub(crate) fn stamp(&mut self, object: &mut Value, now: Timestamp) {
        let uid = self.draw.uid();
        let metadata = access::metadata_mut(object);
        metadata.insert("uid".to_owned(), json!(uid));
        metadata.insert("creationTimestamp".to_owned(), json!(crate::clock::seconds(now)));
        for member in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(member);
        }
    }
}

fn is_definition(key: &Key) -> bool {
    key.kind.group == "apiextensions.k8s.io" && key.kind.plural == "customresourcedefinitions"
}

/// The status of a condition.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = access::at(object, &["status", "conditions"])?.as_array()?;
    let found = conditions.iter().find(|one| access::text(one, "type") == kind)?;
    found.get("status").and_then(Value::as_str)
}

/// Whether an object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    access::at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<SmolStr> {
    let list = access::at(object, &["metadata", "finalizers"]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(SmolStr::from).collect()
}

/// Sets the finalizers of an object; none removes the member.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[SmolStr]) {
    let metadata = access::metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        let list: Vec<&str> = finalizers.iter().map(SmolStr::as_str).collect();
        metadata.insert("finalizers".to_owned(), json!(list));
    }
}
