//! The JSON form of messages, as REST and the objects of Kubernetes have it (API-P7..P10).
//!
//! [`read`] takes what a client sends: keys in any case, unknown ones ignored, `null` as unset. What it gives is the
//! form that [`crate::proto`] and the services use: keys as the table writes them, and no zeros that say nothing.
//! [`write`] puts in what clients rely on: members that are always there, empty objects and lists.

mod read;
mod weight;
mod write;

use std::fmt;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::schema::{Emission, Field, Kind, Message, Presence, Style};

pub(crate) use read::conform_field;
pub use read::{ReadError, conform, read};
pub use weight::{Weight, weight};
pub use write::write;

/// What a member should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// `true` or `false`.
    Bool,
    /// A number without fraction, within its bits.
    Integer,
    /// A text.
    String,
    /// A text of base64.
    Base64,
    /// A list.
    Array,
    /// An object.
    Object,
    /// RFC 3339.
    Time,
    /// A number or a text.
    IntOrString,
    /// A text of YAML.
    Yaml,
    /// Any JSON.
    Json,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "true or false",
            Self::Integer => "a whole number",
            Self::String => "a text",
            Self::Base64 => "a text of base64",
            Self::Array => "a list",
            Self::Object => "an object",
            Self::Time => "a time like 2026-01-02T03:04:05Z",
            Self::IntOrString => "a whole number or a text",
            Self::Yaml => "a text of YAML",
            Self::Json => "JSON",
        })
    }
}

/// A member that does not fit its field. It says where, and never what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    path: String,
    expected: Expected,
}

impl Misfit {
    pub(crate) fn new(expected: Expected) -> Self {
        Self { path: String::new(), expected }
    }

    /// The same, seen from the member around it.
    #[must_use]
    pub(crate) fn below(mut self, key: &str) -> Self {
        if self.path.is_empty() {
            key.clone_into(&mut self.path);
        } else {
            self.path.insert(0, '.');
            self.path.insert_str(0, key);
        }
        self
    }

    /// Where: keys and places in lists, with dots between.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "expected {}", self.expected)
        } else {
            write!(f, "{}: expected {}", self.path, self.expected)
        }
    }
}

impl std::error::Error for Misfit {}

/// Bytes as text.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Text as bytes.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Whether a field is kept when its value is told from unset.
pub(crate) fn has_presence(message: &Message, field: &Field) -> bool {
    field.presence != Presence::Implicit
        || (matches!(field.kind, Kind::Message(_)) && message.style != Style::Kube)
}

/// Whether a value says something. Without presence zero says nothing.
pub(crate) fn is_told(message: &Message, field: &Field, value: &Value) -> bool {
    let is_told_when_zero = match value {
        Value::Array(_) | Value::Object(_) if !is_single(field) => field.emission == Emission::AlwaysEmpty,
        // The text of a number or text: empty, and no number.
        Value::String(_) if matches!(field.kind, Kind::Message(_)) => true,
        _ => has_presence(message, field),
    };
    !value.is_null() && (is_told_when_zero || !is_zero(value))
}

fn is_single(field: &Field) -> bool {
    field.arity == crate::schema::Arity::One
}

/// Whether a value is the zero of its kind.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests;
