//! From JSON to values of templates and back.

use super::{DEPTH_MAX, List, Map, MapType, Text, Value};
use crate::memory::{Exceeded, Memory};
use crate::template::json::{Form, form, too_deep};
use serde_json::Value as Json;

/// What becomes of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integers {
    /// Every number is a `float64`, as `encoding/json` reads it.
    AsFloats,
    /// Whole numbers that fit are `int64`, as Kubernetes reads them.
    Kept,
}

impl Value {
    /// A value of what JSON holds, every number a `float64`.
    pub fn from_json(json: &Json) -> Self {
        Self::from_json_with(json, Integers::AsFloats)
    }

    /// A value of what JSON holds.
    ///
    /// JSON that was read is not nested deeper than a stack can bear.
    pub fn from_json_with(json: &Json, integers: Integers) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(truth) => Self::Bool(*truth),
            Json::Number(number) => match (integers, number.as_i64()) {
                (Integers::Kept, Some(whole)) => Self::int64(whole),
                _ => Self::Float(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::Text(text.as_str().into()),
            Json::Array(items) => {
                Self::List(List::new(items.iter().map(|item| Self::from_json_with(item, integers)).collect()))
            }
            Json::Object(members) => Self::Map(Map::from_sorted(
                &MapType::ANY,
                members
                    .iter()
                    .map(|(key, value)| (Text::from(key.as_str()), Self::from_json_with(value, integers)))
                    .collect(),
            )),
        }
    }
}

impl Value {
    /// The value as plain JSON data, as `encoding/json` would write it.
    ///
    /// # Errors
    /// With the text of Go's error, for what JSON cannot hold; and when it takes more than 128 MiB.
    pub fn to_json(&self) -> Result<Json, String> {
        let mut memory = Memory::new(JSON_BYTES_MAX);
        self.to_json_within(&mut memory).map_err(|problem| match problem {
            JsonProblem::Value(problem) => problem,
            JsonProblem::Memory => format!("the value takes more than {JSON_BYTES_MAX} bytes of memory"),
        })
    }

    /// The same within some memory. Values share what they hold, and data does not: of a small value it may be a lot.
    pub(crate) fn to_json_within(&self, memory: &mut Memory) -> Result<Json, JsonProblem> {
        json(self, memory, 0)
    }
}

/// Bytes that JSON data of a value may take.
const JSON_BYTES_MAX: usize = 128 << 20;

/// Why there is no JSON data of a value.
pub(crate) enum JsonProblem {
    /// JSON cannot hold it.
    Value(String),
    /// It takes more memory than there is for it.
    Memory,
}

impl From<String> for JsonProblem {
    fn from(problem: String) -> Self {
        Self::Value(problem)
    }
}

impl From<Exceeded> for JsonProblem {
    fn from(_: Exceeded) -> Self {
        Self::Memory
    }
}

fn json(value: &Value, memory: &mut Memory, depth: usize) -> Result<Json, JsonProblem> {
    if depth > DEPTH_MAX {
        return Err(too_deep(value).into());
    }
    Ok(match form(value)? {
        Form::Null => Json::Null,
        Form::Bool(truth) => Json::Bool(truth),
        Form::Int(number) => Json::from(number),
        Form::Uint(number) => Json::from(number),
        Form::Float(number) => Json::from(number),
        Form::Text(text) => {
            memory.text(text.len())?;
            Json::String(text.to_str().into_owned())
        }
        Form::List(list) => {
            let mut items = Vec::new();
            for item in list.to_vec() {
                memory.item(&items)?;
                items.push(json(&item, memory, depth + 1)?);
            }
            Json::Array(items)
        }
        Form::Map(members) => {
            let mut made = serde_json::Map::new();
            for (key, member) in members {
                memory.member(made.len())?;
                memory.text(key.len())?;
                made.insert(key.to_str().into_owned(), json(&member, memory, depth + 1)?);
            }
            Json::Object(made)
        }
        Form::Other(value) => json(&value, memory, depth + 1)?,
    })
}
