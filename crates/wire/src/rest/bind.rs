//! Body, query and path become one message.

use serde_json::{Map, Value};

use super::Route;
use super::escape::query_decode;
use crate::json::{self, Misfit, ReadError, conform, unbase64};
use crate::schema::{Arity, Body, Field, Kind, MessageId, Schema, Shape};

/// Why a request makes no message. Texts hold names of fields, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The body cannot be read.
    #[error(transparent)]
    Body(#[from] ReadError),
    /// A query parameter has a value of another type.
    #[error("query parameter {name:?}: {expected}")]
    Query {
        /// Which.
        name: String,
        /// What it should have been.
        expected: Misfit,
    },
    /// The query is not written as queries are.
    #[error("malformed query")]
    MalformedQuery,
    /// A part of the path has a value of another type.
    #[error("path parameter {name:?}: {expected}")]
    Path {
        /// Which field.
        name: &'static str,
        /// What it should have been.
        expected: Misfit,
    },
}

impl Route<'_> {
    /// The message of the request.
    ///
    /// # Errors
    /// When a part of it does not fit.
    pub fn bind(&self, query: &str, body: &[u8]) -> Result<Value, BindError> {
        let schema = self.schema;
        let request = schema.method(self.method).request;
        let mut object = match self.binding.body {
            Body::All => match json::read(schema, request, body)? {
                Value::Object(object) => object,
                _ => Map::new(),
            },
            Body::Field(name) => {
                let mut object = Map::new();
                if let Some(field) = schema.message(request).by_name(name)
                    && !body.iter().all(u8::is_ascii_whitespace)
                {
                    let value: Value = serde_json::from_slice(body).map_err(ReadError::from)?;
                    let value = json::conform_field(schema, field, value).map_err(ReadError::from)?;
                    if !value.is_null() {
                        object.insert(field.json.to_owned(), value);
                    }
                }
                object
            }
            Body::None => Map::new(),
        };
        if self.binding.body != Body::All {
            self.bind_query(request, query, &mut object)?;
        }
        for (name, text) in &self.bound {
            put(schema, request, name, text, Place::Path, &mut object)
                .map_err(|expected| BindError::Path { name, expected })?;
        }
        Ok(Value::Object(object))
    }

    fn bind_query(
        &self,
        request: MessageId,
        query: &str,
        object: &mut Map<String, Value>,
    ) -> Result<(), BindError> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| query_decode(text).map_err(|_malformed| BindError::MalformedQuery);
            let (name, text) = (decode(name)?, decode(text)?);
            if self.is_taken(&name) {
                continue;
            }
            put(self.schema, request, &name, &text, Place::Query, object)
                .map_err(|expected| BindError::Query { name, expected })?;
        }
        Ok(())
    }

    /// Whether path or body say what a parameter would say.
    fn is_taken(&self, name: &str) -> bool {
        let body = match self.binding.body {
            Body::Field(field) => Some(field),
            Body::None | Body::All => None,
        };
        let mut taken = self.bound.iter().map(|(field, _)| *field).chain(body);
        taken.any(|field| name == field || name.strip_prefix(field).is_some_and(|rest| rest.starts_with('.')))
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query,
}

/// Sets a field by its dotted path; a name that no field has is not an error (API-P22).
fn put(
    schema: &Schema,
    message: MessageId,
    path: &str,
    text: &str,
    place: Place,
    object: &mut Map<String, Value>,
) -> Result<(), Misfit> {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let (name, key) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, key)) => (name, Some(key)),
        None => (name, None),
    };
    let fields = &schema.message(message).fields;
    let Some(field) = fields.iter().find(|field| field.name == name || field.json == name) else {
        return Ok(());
    };
    match (rest, key, field.arity, field.kind) {
        // Fields of nested messages; the tables are a few levels deep, and so is this.
        (Some(rest), None, Arity::One, Kind::Message(inner)) if !field.is_inline => {
            let nested = object.entry(field.json).or_insert_with(|| Value::Object(Map::new()));
            match nested {
                Value::Object(nested) => put(schema, inner, rest, text, place, nested),
                _ => Ok(()),
            }
        }
        (None, Some(key), Arity::Map, kind) => {
            let value = single(schema, kind, text)?;
            let entries = object.entry(field.json).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = entries {
                entries.insert(key.to_owned(), value);
            }
            Ok(())
        }
        (None, None, Arity::Many, kind) if !matches!(kind, Kind::Message(_)) => {
            let value = single(schema, kind, text)?;
            let items = object.entry(field.json).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = items {
                items.push(value);
            }
            Ok(())
        }
        (None, None, Arity::One, kind) => {
            let Some(value) = one(schema, field, kind, text)? else { return Ok(()) };
            // Of a parameter that comes twice the first one counts; the path beats the body.
            if place == Place::Path || !object.contains_key(field.json) {
                object.insert(field.json.to_owned(), value);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A value of a field that holds one; `None` where a text says nothing about it.
fn one(schema: &Schema, field: &Field, kind: Kind, text: &str) -> Result<Option<Value>, Misfit> {
    if let Kind::Message(inner) = kind {
        // Beyond the reference: a time may be given in the query (API-P22).
        let is_time = matches!(schema.message(inner).shape, Shape::Time | Shape::MicroTime);
        return if is_time { conform(schema, inner, Value::from(text)).map(Some) } else { Ok(None) };
    }
    let value = single(schema, kind, text)?;
    let has_presence = field.presence != crate::schema::Presence::Implicit;
    Ok((has_presence || !json::is_zero(&value)).then_some(value))
}

fn single(schema: &Schema, kind: Kind, text: &str) -> Result<Value, Misfit> {
    match kind {
        Kind::Bool => match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(Misfit::new(json::Expected::Bool)),
        },
        Kind::Int32 => {
            text.parse::<i32>().map(Value::from).map_err(|_invalid| Misfit::new(json::Expected::Integer))
        }
        Kind::Int64 => {
            text.parse::<i64>().map(Value::from).map_err(|_invalid| Misfit::new(json::Expected::Integer))
        }
        Kind::String => Ok(Value::from(text)),
        Kind::Bytes if unbase64(text).is_some() => Ok(Value::from(text)),
        Kind::Bytes => Err(Misfit::new(json::Expected::Base64)),
        Kind::Message(inner) => conform(schema, inner, Value::from(text)),
    }
}
