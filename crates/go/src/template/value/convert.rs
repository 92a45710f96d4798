//! From JSON to values of templates and back.

use super::{DEPTH_MAX, List, Map, MapType, Text, Value};
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
    /// With the text of Go's error, for what JSON cannot hold.
    pub fn to_json(&self) -> Result<Json, String> {
        json(self, 0)
    }
}

fn json(value: &Value, depth: usize) -> Result<Json, String> {
    if depth > DEPTH_MAX {
        return Err(too_deep(value));
    }
    Ok(match form(value)? {
        Form::Null => Json::Null,
        Form::Bool(truth) => Json::Bool(truth),
        Form::Int(number) => Json::from(number),
        Form::Uint(number) => Json::from(number),
        Form::Float(number) => Json::from(number),
        Form::Text(text) => Json::String(text.to_str().into_owned()),
        Form::List(list) => {
            Json::Array(list.to_vec().iter().map(|item| json(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Form::Map(members) => Json::Object(
            members
                .iter()
                .map(|(key, member)| Ok((key.to_str().into_owned(), json(member, depth + 1)?)))
                .collect::<Result<_, String>>()?,
        ),
        Form::Other(value) => json(&value, depth + 1)?,
    })
}
