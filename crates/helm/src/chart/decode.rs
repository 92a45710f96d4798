//! Documents into Go structs: how `sigs.k8s.io/yaml` and `encoding/json` fill fields.
//!
//! A key names a field exactly or, failing that, in any case of its letters; of several the last in the order of
//! their bytes wins. Numbers and booleans become text where text is wanted, and lose digits on the way: `1.10` is
//! `1.1` (RND-166). Null leaves a field as it is.

use serde_json::{Map, Value};
use tiphys_go::json;

/// A value of a kind that a field cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {place} of type {wanted}"
)]
pub struct DecodeError {
    /// Kind of what was found.
    found: &'static str,
    /// What was to be filled.
    place: String,
    /// Its type in Go.
    wanted: &'static str,
}

/// A type in Go that a document fills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoType {
    /// Name of the struct, as in errors about its fields.
    pub(crate) name: &'static str,
    /// Name with its package, as in errors about the whole.
    pub(crate) full_name: &'static str,
    /// Names of its fields.
    pub(crate) fields: &'static [&'static str],
}

/// A mapping that fills a Go struct.
#[derive(Clone, Debug)]
pub(crate) struct Record<'v> {
    go_type: GoType,
    /// Names of the fields on the way here, each with a dot behind it.
    path: String,
    members: Vec<(&'static str, &'v Value)>,
}

impl<'v> Record<'v> {
    /// Looks at a whole document; null is an empty one.
    pub(crate) fn of(value: &'v Value, go_type: GoType) -> Result<Self, DecodeError> {
        Self::below(value, go_type, String::new())
    }

    fn below(value: &'v Value, go_type: GoType, path: String) -> Result<Self, DecodeError> {
        let members = match value {
            Value::Null => Vec::new(),
            Value::Object(members) => fields_of(members, go_type.fields),
            other => {
                let wanted = go_type.full_name;
                return Err(DecodeError { found: kind(other), place: "value".to_owned(), wanted });
            }
        };
        Ok(Self { go_type, path, members })
    }

    /// The last value of a field that is not null.
    fn get(&self, field: &str) -> Option<&'v Value> {
        let values = self.members.iter().rev().filter(|(name, _)| *name == field);
        values.map(|(_, value)| *value).find(|value| !value.is_null())
    }

    fn error(&self, field: &str, value: &Value, wanted: &'static str) -> DecodeError {
        let place = format!("struct field {}.{}{field}", self.go_type.name, self.path);
        DecodeError { found: kind(value), place, wanted }
    }

    /// Text; empty when absent.
    pub(crate) fn text(&self, field: &str) -> Result<String, DecodeError> {
        self.get(field).map_or(Ok(String::new()), |value| self.as_text(field, value))
    }

    fn as_text(&self, field: &str, value: &Value) -> Result<String, DecodeError> {
        match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            Value::Bool(_) | Value::Number(_) => Ok(json::print_go(value)),
            Value::Array(_) | Value::Object(_) => Err(self.error(field, value, "string")),
        }
    }

    /// A boolean; false when absent.
    pub(crate) fn truth(&self, field: &str) -> Result<bool, DecodeError> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(*truth),
            Some(other) => Err(self.error(field, other, "bool")),
        }
    }

    /// Items of a list; `None` when absent.
    pub(crate) fn items(
        &self,
        field: &str,
        wanted: &'static str,
    ) -> Result<Option<&'v [Value]>, DecodeError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.error(field, other, wanted)),
        }
    }

    /// A list of texts; empty when absent.
    pub(crate) fn texts(&self, field: &str) -> Result<Vec<String>, DecodeError> {
        let items = self.items(field, "[]string")?.unwrap_or_default();
        items.iter().map(|item| self.as_text(field, item)).collect()
    }

    /// A map of texts; `None` when absent.
    pub(crate) fn text_map(&self, field: &str) -> Result<Option<Vec<(String, String)>>, DecodeError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(members)) => {
                let pair = |(key, value): (&String, &Value)| Ok((key.clone(), self.as_text(field, value)?));
                members.iter().map(pair).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(self.error(field, other, "map[string]string")),
        }
    }

    /// A struct in a field; `None` when absent.
    pub(crate) fn record(&self, field: &str, go_type: GoType) -> Result<Option<Self>, DecodeError> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => self.nested(field, value, go_type).map(Some),
        }
    }

    /// A struct in an item of a list; `None` for null.
    pub(crate) fn item(
        &self,
        field: &str,
        item: &'v Value,
        go_type: GoType,
    ) -> Result<Option<Self>, DecodeError> {
        if item.is_null() { Ok(None) } else { self.nested(field, item, go_type).map(Some) }
    }

    fn nested(&self, field: &str, value: &'v Value, go_type: GoType) -> Result<Self, DecodeError> {
        if !value.is_object() {
            return Err(self.error(field, value, go_type.full_name));
        }
        Self::below(value, go_type, format!("{}{field}.", self.path))
    }
}

/// Members of a mapping that name fields, in the order in which Go meets them.
fn fields_of<'v>(members: &'v Map<String, Value>, fields: &[&'static str]) -> Vec<(&'static str, &'v Value)> {
    let field = |key: &str| {
        let exact = fields.iter().find(|field| **field == key);
        exact.or_else(|| fields.iter().find(|field| field.eq_ignore_ascii_case(key))).copied()
    };
    members.iter().filter_map(|(key, value)| Some((field(key)?, value))).collect()
}

/// What Go calls the kinds of JSON.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The error of a document that should have been a mapping of values.
pub(super) fn not_a_map(value: &Value) -> DecodeError {
    let wanted = "map[string]interface {}";
    DecodeError { found: kind(value), place: "value".to_owned(), wanted }
}

/// Decodes one document over another, as Go decodes twice into one struct: fields that the second names replace
/// those of the first, items of lists are filled in place.
pub(super) fn decode_over(base: Value, over: Value) -> Value {
    match (base, over) {
        (base, Value::Null) => base,
        (Value::Object(mut base), Value::Object(over)) => {
            for (key, value) in over {
                let there = base.remove(&key).unwrap_or(Value::Null);
                base.insert(key, decode_over(there, value));
            }
            Value::Object(base)
        }
        (Value::Array(base), Value::Array(over)) => {
            let mut base = base.into_iter();
            let items = over.into_iter().map(|item| decode_over(base.next().unwrap_or(Value::Null), item));
            Value::Array(items.collect())
        }
        (_, over) => over,
    }
}
