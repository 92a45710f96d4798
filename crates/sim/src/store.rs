//! The objects of a server, and what happened to them lately.
//!
//! Every write has a version of its own, counted over the whole server. The last writes are kept in a *log* with
//! what each object was before, so that watches, pages of a list and stale reads see the server as it was at an
//! earlier version; what is older than the log is gone, and asking for it is an error, never an empty answer.
//! Objects are kept as JSON bytes; trees live only while a request is worked on.

mod index;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::access;

pub(crate) use index::Index;

/// Writes the log holds at most.
const LOG_EVENTS_MAX: usize = 8_192;
/// Bytes the log holds at most, objects before and after counted.
const LOG_BYTES_MAX: usize = 24 << 20;

/// Where objects of one resource are stored, whatever version they are asked for in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind {
    pub(crate) group: SmolStr,
    pub(crate) plural: SmolStr,
}

/// One object's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: SmolStr,
    pub(crate) name: SmolStr,
}

impl Key {
    /// `namespace/name`, or the name alone outside of namespaces.
    pub(crate) fn path(&self) -> SmolStr {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            smol_str::format_smolstr!("{}/{}", self.namespace, self.name)
        }
    }
}

/// An object as it is stored: the JSON of its stored version, with its resource version in it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) json: Bytes,
    pub(crate) version: u64,
    /// What the object calls itself.
    api_version: SmolStr,
    kind: SmolStr,
}

impl Stored {
    fn new(object: &Value, version: u64) -> Self {
        let text = |member: &str| access::text(object, member).into();
        Self { json: bytes_of(object), version, api_version: text("apiVersion"), kind: text("kind") }
    }

    /// Whether a resource of a version and kind shows the object as it is stored.
    pub(crate) fn is_shown_by(&self, api_version: &str, kind: &str) -> bool {
        self.api_version == api_version && self.kind == kind
    }

    /// The object as a tree.
    pub(crate) fn tree(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or(Value::Null)
    }
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) key: Key,
    /// The object before; `None` when it was made.
    pub(crate) before: Option<Stored>,
    /// The object after; of a deletion, its last state at the version of the deletion.
    pub(crate) after: Stored,
    pub(crate) is_deletion: bool,
}

/// Objects of one kind, by [`Key::path`]: the order in which lists have them.
pub(crate) type Objects = BTreeMap<SmolStr, Stored>;

/// All objects.
#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Arc<Kind>, Objects>,
    version: u64,
    log: VecDeque<Event>,
    log_bytes: usize,
    /// Versions up to this one are no longer in the log.
    compacted: u64,
    pub(crate) index: Index,
}

/// The version asked for is older than the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted;

impl Store {
    /// The version of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The oldest version that a watch may go on from.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets the log: versions so far can no longer be asked for.
    pub(crate) fn compact(&mut self) {
        self.log.clear();
        self.log_bytes = 0;
        self.compacted = self.version;
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Stored> {
        self.objects.get(&key.kind)?.get(&key.path())
    }

    /// Objects of a kind; `None` when there is none.
    pub(crate) fn objects(&self, kind: &Kind) -> Option<&Objects> {
        self.objects.get(kind)
    }

    /// All objects, to be written down.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<Kind>, &Stored)> {
        self.objects.iter().flat_map(|(kind, objects)| objects.values().map(move |stored| (kind, stored)))
    }

    /// The objects of a kind as they were at a version.
    pub(crate) fn objects_at(&self, kind: &Kind, version: u64) -> Result<Objects, Compacted> {
        let mut objects = self.objects.get(kind).cloned().unwrap_or_default();
        if version >= self.version {
            return Ok(objects);
        }
        if version < self.compacted {
            return Err(Compacted);
        }
        for event in self.log.iter().rev().take_while(|event| event.version > version) {
            if *event.key.kind != *kind {
                continue;
            }
            let place = event.key.path();
            match &event.before {
                Some(before) => objects.insert(place, before.clone()),
                None => objects.remove(&place),
            };
        }
        Ok(objects)
    }

    /// Writes after a version, the oldest first.
    pub(crate) fn events_after(&self, version: u64) -> Result<impl Iterator<Item = &Event>, Compacted> {
        if version < self.compacted {
            return Err(Compacted);
        }
        let begin = self.log.partition_point(|event| event.version <= version);
        Ok(self.log.range(begin..))
    }

    /// Stores an object, and gives it its version; the tree that is stored.
    pub(crate) fn put(&mut self, key: &Key, mut object: Value) -> Value {
        self.version += 1;
        set_version(&mut object, self.version);
        let stored = Stored::new(&object, self.version);
        self.index.put(key, &object);
        let before =
            self.objects.entry(Arc::clone(&key.kind)).or_default().insert(key.path(), stored.clone());
        self.record(Event {
            version: self.version,
            key: key.clone(),
            before,
            after: stored,
            is_deletion: false,
        });
        object
    }

    /// Puts back an object that was written down, at its own version and without an event.
    pub(crate) fn restore(&mut self, key: &Key, object: &Value, version: u64) {
        self.version = self.version.max(version);
        self.compacted = self.version;
        self.index.put(key, object);
        let stored = Stored::new(object, version);
        self.objects.entry(Arc::clone(&key.kind)).or_default().insert(key.path(), stored);
    }

    /// Goes on counting from a version.
    pub(crate) fn restore_version(&mut self, version: u64) {
        self.version = self.version.max(version);
        self.compacted = self.version;
    }

    /// Removes an object; its last state, at the version of the deletion.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Stored> {
        let objects = self.objects.get_mut(&key.kind)?;
        let before = objects.remove(&key.path())?;
        self.version += 1;
        let mut last = before.tree();
        set_version(&mut last, self.version);
        self.index.remove(key);
        let after = Stored::new(&last, self.version);
        self.record(Event {
            version: self.version,
            key: key.clone(),
            before: Some(before),
            after: after.clone(),
            is_deletion: true,
        });
        Some(after)
    }

    fn record(&mut self, event: Event) {
        self.log_bytes += size(&event);
        self.log.push_back(event);
        while self.log.len() > LOG_EVENTS_MAX || self.log_bytes > LOG_BYTES_MAX {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= size(&oldest);
            self.compacted = oldest.version;
        }
    }
}

fn size(event: &Event) -> usize {
    event.after.json.len() + event.before.as_ref().map_or(0, |before| before.json.len())
}

fn set_version(object: &mut Value, version: u64) {
    access::metadata_mut(object).insert("resourceVersion".to_owned(), Value::from(version.to_string()));
}

/// Compact JSON of a tree.
pub(crate) fn bytes_of(object: &Value) -> Bytes {
    Bytes::from(object.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{Compacted, Key, Kind, Store};

    fn key(name: &str) -> Key {
        let kind = Arc::new(Kind { group: "".into(), plural: "configmaps".into() });
        Key { kind, namespace: "ns".into(), name: name.into() }
    }

    #[test]
    fn a_kind_can_be_seen_as_it_was_at_an_earlier_version() {
        let mut store = Store::default();
        store.put(&key("a"), json!({"metadata": {"name": "a"}, "data": {"n": "1"}}));
        store.put(&key("b"), json!({"metadata": {"name": "b"}}));
        store.put(&key("a"), json!({"metadata": {"name": "a"}, "data": {"n": "2"}}));
        store.remove(&key("b"));
        let at = |version| {
            let objects = store.objects_at(&key("a").kind, version).unwrap();
            objects.values().map(|stored| stored.tree()["data"]["n"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(at(1), [json!("1")]);
        assert_eq!(at(2), [json!("1"), json!(null)]);
        assert_eq!(at(3), [json!("2"), json!(null)]);
        assert_eq!(at(4), [json!("2")]);
    }

    #[test]
    fn what_the_log_no_longer_holds_is_an_error_and_not_an_empty_answer() {
        let mut store = Store::default();
        store.put(&key("a"), json!({"metadata": {"name": "a"}}));
        store.put(&key("a"), json!({"metadata": {"name": "a"}, "x": 1}));
        store.compact();
        store.put(&key("b"), json!({"metadata": {"name": "b"}}));
        assert_eq!(store.objects_at(&key("a").kind, 1).unwrap_err(), Compacted);
        assert!(store.events_after(1).is_err());
        assert_eq!(store.events_after(2).unwrap().count(), 1);
    }
}
