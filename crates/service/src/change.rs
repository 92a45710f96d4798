//! What is to be written, as data.

use std::fmt;

use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_api::application::Metadata;
use tiphys_object::{Object, access};

/// A manifest or patch that may hold credentials; it does not print.
#[derive(Clone, PartialEq)]
pub struct Sealed(Value);

impl Sealed {
    /// Hides a value.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// The value, to put more into it.
    pub(crate) fn into_inner(self) -> Value {
        self.0
    }

    /// The value itself, for the writer.
    pub fn expose(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Which state of an object a decision was made on. The object is changed in this state or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Name.
    pub name: String,
    /// Unique id.
    pub uid: SmolStr,
    /// `resourceVersion`.
    pub version: SmolStr,
}

impl Seen {
    /// The state that was read.
    pub fn of(object: &Object) -> Self {
        let metadata = object.metadata();
        Self {
            name: object.name().to_owned(),
            uid: metadata.uid.clone(),
            version: metadata.resource_version.clone(),
        }
    }
}

/// What to do so that the cluster says what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing: it says so already.
    Keep,
    /// Make this object.
    Create(Sealed),
    /// Change this object by a JSON merge patch.
    Patch(Seen, Sealed),
    /// Replace this object as a whole; the manifest carries the version.
    Replace(Seen, Sealed),
    /// Delete this object.
    Delete(Seen),
}

/// Whether users said the same of two objects beside their specs (API-125, API-156).
pub(crate) fn is_same_metadata(one: &Metadata, other: &Metadata) -> bool {
    one.labels == other.labels && one.annotations == other.annotations && one.finalizers == other.finalizers
}

/// A stored object made what is wanted: its spec and finalizers are replaced, labels and annotations come on top of those
/// that are there (API-125, API-156). `value` is the object as it is stored.
pub(crate) fn upserted(object: &Object, mut value: Value, spec: Value, wanted: &Metadata) -> Change {
    access::ensure_object(&mut value).insert("spec".to_owned(), spec);
    for (key, text) in &wanted.labels {
        access::set_label(&mut value, key, text);
    }
    for (key, text) in &wanted.annotations {
        access::set_annotation(&mut value, key, text);
    }
    access::metadata_mut(&mut value).insert("finalizers".to_owned(), json!(wanted.finalizers));
    Change::Replace(Seen::of(object), Sealed::new(value))
}

/// The object that a change makes, as a server would store it.
#[cfg(test)]
pub(crate) fn made(change: &Change) -> Object {
    let Change::Create(manifest) = change else { panic!("{change:?}") };
    let mut value = manifest.expose().clone();
    value["metadata"]["uid"] = "u".into();
    value["metadata"]["resourceVersion"] = "1".into();
    Object::from_value(&value).unwrap()
}
