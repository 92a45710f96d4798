//! What clients send.

use serde_json::{Map, Value};

use super::{Expected, Misfit, is_told, unbase64};
use crate::schema::{Arity, Field, Kind, MessageId, Schema, Shape};
use crate::shape::Moment;

/// Why a text is not the message that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is no JSON.
    #[error("invalid JSON at line {line} column {column}")]
    Syntax {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// A member has another type.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

impl From<serde_json::Error> for ReadError {
    /// Where it is wrong, not what stands there: the text may hold secrets.
    fn from(error: serde_json::Error) -> Self {
        Self::Syntax { line: error.line(), column: error.column() }
    }
}

/// Reads a message; no text at all is an empty one.
///
/// # Errors
/// When the text is no JSON, or not of this message.
pub fn read(schema: &Schema, id: MessageId, text: &[u8]) -> Result<Value, ReadError> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(Map::new()));
    }
    let value: Value = serde_json::from_slice(text)?;
    Ok(conform(schema, id, value)?)
}

/// Brings a value that looks like a message into the form in which messages are held.
///
/// # Errors
/// When a member has another type.
pub fn conform(schema: &Schema, id: MessageId, value: Value) -> Result<Value, Misfit> {
    let message = schema.message(id);
    match message.shape {
        Shape::Plain => match value {
            Value::Object(object) => members(schema, id, object).map(Value::Object),
            Value::Null => Ok(Value::Object(Map::new())),
            _ => Err(Misfit::new(Expected::Object)),
        },
        Shape::Time | Shape::MicroTime => time(message.shape, &value),
        Shape::Json => Ok(value),
        Shape::IntOrString => match &value {
            Value::Null => Ok(Value::from(0)),
            Value::String(_) => Ok(value),
            Value::Number(number) if number.as_i64().is_some_and(|it| i32::try_from(it).is_ok()) => Ok(value),
            _ => Err(Misfit::new(Expected::IntOrString)),
        },
        Shape::Yaml => match value {
            Value::String(_) | Value::Null => Ok(value),
            _ => Err(Misfit::new(Expected::Yaml)),
        },
    }
}

/// One value for a field, as a path or a body gives it.
pub(crate) fn conform_field(schema: &Schema, field: &Field, value: Value) -> Result<Value, Misfit> {
    match (field.arity, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Arity::One, value) => single(schema, field.kind, value),
        (Arity::Many, Value::Array(items)) => {
            let items = items.into_iter().enumerate().map(|(at, item)| {
                single(schema, field.kind, item).map_err(|misfit| misfit.below(&at.to_string()))
            });
            items.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Arity::Map, Value::Object(entries)) => {
            let entries = entries.into_iter().map(|(key, item)| {
                let item = single(schema, field.kind, item).map_err(|misfit| misfit.below(&key))?;
                Ok((key, item))
            });
            entries.collect::<Result<Map<_, _>, Misfit>>().map(Value::Object)
        }
        (Arity::Many, _) => Err(Misfit::new(Expected::Array)),
        (Arity::Map, _) => Err(Misfit::new(Expected::Object)),
    }
}

fn members(schema: &Schema, id: MessageId, object: Map<String, Value>) -> Result<Map<String, Value>, Misfit> {
    let (mut exact, mut others) = (Vec::new(), Vec::new());
    for (key, value) in object {
        match schema.member(id, &key) {
            Some(member) if member.json == key => exact.push((member, value)),
            Some(member) => others.push((member, value)),
            None => {}
        }
    }
    // The one written exactly is the one that is meant.
    others.retain(|(member, _)| !exact.iter().any(|(other, _)| other.json == member.json));
    let mut read = Map::new();
    for (member, value) in exact.into_iter().chain(others) {
        let field = schema.field(member);
        let value = conform_field(schema, field, value).map_err(|misfit| misfit.below(member.json))?;
        if is_told(schema.message(member.message), field, &value) {
            read.insert(member.json.to_owned(), value);
        }
    }
    Ok(read)
}

/// `null` within a list or a map is the zero of its kind, as in Go.
fn single(schema: &Schema, kind: Kind, value: Value) -> Result<Value, Misfit> {
    match (kind, &value) {
        (Kind::Message(id), _) => conform(schema, id, value),
        (Kind::Bool, Value::Null) => Ok(Value::Bool(false)),
        (Kind::Bool, Value::Bool(_)) => Ok(value),
        (Kind::Bool, _) => Err(Misfit::new(Expected::Bool)),
        (Kind::Int32 | Kind::Int64, Value::Null) => Ok(Value::from(0)),
        (Kind::Int64, Value::Number(number)) if number.as_i64().is_some() => Ok(value),
        (Kind::Int32, Value::Number(number))
            if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
        {
            Ok(value)
        }
        (Kind::Int32 | Kind::Int64, _) => Err(Misfit::new(Expected::Integer)),
        (Kind::String | Kind::Bytes, Value::Null) => Ok(Value::String(String::new())),
        (Kind::String, Value::String(_)) => Ok(value),
        (Kind::String, _) => Err(Misfit::new(Expected::String)),
        (Kind::Bytes, Value::String(text)) if unbase64(text).is_some() => Ok(value),
        (Kind::Bytes, _) => Err(Misfit::new(Expected::Base64)),
    }
}

/// In the one form in which times are shown.
fn time(shape: Shape, value: &Value) -> Result<Value, Misfit> {
    let text = match value {
        Value::Null => return Ok(Value::Null),
        Value::String(text) => text,
        _ => return Err(Misfit::new(Expected::Time)),
    };
    let wrong = || Misfit::new(Expected::Time);
    let Some(moment) = Moment::read(text).map_err(|()| wrong())? else { return Ok(Value::Null) };
    let text = if shape == Shape::Time { moment.seconds_text() } else { moment.micros_text() };
    text.map(Value::String).ok_or_else(wrong)
}
