//! What is to be written, as data.

use std::fmt;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::Object;

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
