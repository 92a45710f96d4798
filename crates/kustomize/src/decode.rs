//! Reading values as Go's `encoding/json` fills structs.
//!
//! Names of members may differ in case; null leaves a member as it is; members are looked at in the order of their
//! names, and the first that does not fit is the error. Its text names the innermost struct and the whole path.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::fault::{Fault, Result};

/// A place in a value.
#[derive(Clone, Debug)]
pub(crate) struct Decoder<'d> {
    /// Unknown members are errors.
    is_strict: bool,
    /// The struct that the place is a member of.
    outer: &'d str,
    /// The struct that stands here.
    inner: &'d str,
    path: String,
}

/// Members of a struct that are there, by their right names.
pub(crate) trait Members {
    /// The members; unknown ones are left out or are errors.
    ///
    /// # Errors
    /// When the value is no object, or a member is unknown and may not be.
    fn members<'v, 'n>(&self, value: &'v Value, names: &[&'n str]) -> Result<Vec<(&'n str, &'v Value)>>;
}

impl Members for Decoder<'_> {
    fn members<'v, 'n>(&self, value: &'v Value, names: &[&'n str]) -> Result<Vec<(&'n str, &'v Value)>> {
        let map = match value {
            Value::Null => return Ok(Vec::new()),
            Value::Object(map) => map,
            other => return Err(self.mismatch(other, &format!("types.{}", self.inner))),
        };
        let mut found = Vec::with_capacity(map.len());
        for (key, value) in map {
            let name = names
                .iter()
                .find(|name| **name == key)
                .or_else(|| names.iter().find(|name| name.eq_ignore_ascii_case(key)));
            match name {
                Some(name) => found.push((*name, value)),
                None if self.is_strict => {
                    return Err(Fault::new(format!("json: unknown field {}", crate::fault::quoted(key))));
                }
                None => {}
            }
        }
        // Null leaves a member as it is.
        found.retain(|(_, value)| !value.is_null());
        Ok(found)
    }
}

impl<'d> Decoder<'d> {
    /// The root of a value in which unknown members are errors.
    pub(crate) fn strict(name: &'d str) -> Self {
        Self { is_strict: true, outer: "", inner: name, path: String::new() }
    }

    /// The root of a value in which unknown members have no effect.
    pub(crate) fn lenient(name: &'d str) -> Self {
        Self { is_strict: false, ..Self::strict(name) }
    }

    /// A member.
    pub(crate) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { is_strict: self.is_strict, outer: self.inner, inner: self.inner, path }
    }

    /// The same place, where a struct stands.
    pub(crate) fn inside(&self, name: &'d str) -> Self {
        Self { inner: name, ..self.clone() }
    }

    /// Whether the struct that stands here has this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.inner == name
    }

    fn mismatch(&self, value: &Value, wanted: &str) -> Fault {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.mismatch_of(kind, wanted)
    }

    fn mismatch_of(&self, kind: &str, wanted: &str) -> Fault {
        if self.path.is_empty() {
            return Fault::new(format!("json: cannot unmarshal {kind} into Go value of type {wanted}"));
        }
        let (outer, path) = (self.outer, &self.path);
        Fault::new(format!(
            "json: cannot unmarshal {kind} into Go struct field {outer}.{path} of type {wanted}"
        ))
    }

    /// A text.
    pub(crate) fn text(&self, value: &Value) -> Result<SmolStr> {
        self.text_as(value, "string")
    }

    /// A text whose type has a name.
    pub(crate) fn text_as(&self, value: &Value, wanted: &str) -> Result<SmolStr> {
        match value {
            Value::Null => Ok(SmolStr::default()),
            Value::String(text) => Ok(text.into()),
            other => Err(self.mismatch(other, wanted)),
        }
    }

    /// A truth value.
    pub(crate) fn truth(&self, value: &Value) -> Result<bool> {
        match value {
            Value::Null => Ok(false),
            Value::Bool(truth) => Ok(*truth),
            other => Err(self.mismatch(other, "bool")),
        }
    }

    /// An integer.
    pub(crate) fn integer(&self, value: &Value, wanted: &str) -> Result<i64> {
        match value {
            Value::Null => Ok(0),
            Value::Number(number) => number.as_i64().ok_or_else(|| {
                let shown = tiphys_go::json::to_string_unescaped(value);
                self.mismatch_of(&format!("number {shown}"), wanted)
            }),
            other => Err(self.mismatch(other, wanted)),
        }
    }

    /// A list.
    pub(crate) fn list<T>(
        &self,
        value: &Value,
        wanted: &str,
        item: impl Fn(&Value, &Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        match value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => items.iter().map(|value| item(value, self)).collect(),
            other => Err(self.mismatch(other, wanted)),
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&self, value: &Value) -> Result<Vec<SmolStr>> {
        self.list(value, "[]string", |value, at| at.text(value))
    }

    /// A mapping of texts.
    pub(crate) fn text_map(&self, value: &Value) -> Result<BTreeMap<SmolStr, SmolStr>> {
        match value {
            Value::Null => Ok(BTreeMap::new()),
            Value::Object(map) => {
                map.iter().map(|(name, value)| Ok((name.into(), self.text(value)?))).collect()
            }
            other => Err(self.mismatch(other, "map[string]string")),
        }
    }

    /// A mapping of anything.
    pub(crate) fn map(&self, value: &Value) -> Result<Map<String, Value>> {
        match value {
            Value::Null => Ok(Map::new()),
            Value::Object(map) => Ok(map.clone()),
            other => Err(self.mismatch(other, "map[string]interface {}")),
        }
    }
}
