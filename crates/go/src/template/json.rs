//! Values as `encoding/json` writes and reads them.

use super::error::Failure;
use super::functions::Call;
use super::limits::Exceeded;
use super::value::{DEPTH_MAX, List, Text, Value};
use crate::json::escape_text;
use crate::number;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;

/// What a value is in JSON.
pub(crate) enum Form {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Text),
    List(List),
    /// Members in the order in which they are written.
    Map(Vec<(Text, Value)>),
    /// What takes the value's place.
    Other(Value),
}

/// What a value is in JSON, or why it is nothing there.
pub(crate) fn form(value: &Value) -> Result<Form, String> {
    Ok(match value {
        Value::Nil | Value::Bytes(None) => Form::Null,
        Value::Bool(truth) => Form::Bool(*truth),
        Value::Int(_, number) => Form::Int(*number),
        Value::Uint(_, number) => Form::Uint(*number),
        Value::Float(number) if number.is_finite() => Form::Float(*number),
        Value::Float(number) => {
            return Err(format!("json: unsupported value: {}", super::fmt::format_float(*number, 'g', None)));
        }
        Value::Complex(_) => return Err("json: unsupported type: complex128".to_owned()),
        Value::Text(text) => Form::Text(text.clone()),
        Value::Bytes(Some(bytes)) => Form::Text(STANDARD.encode(bytes).into()),
        Value::List(list) if list.is_nil() => Form::Null,
        Value::List(list) => Form::List(list.clone()),
        Value::Map(map) if map.is_nil() => Form::Null,
        Value::Map(map) => Form::Map(map.members()),
        Value::Named(named) => Form::Other(named.value.clone()),
        Value::Object(object) => match object.json() {
            Some(other) => Form::Other(other?),
            None if object.kind() == super::value::Kind::Func => {
                return Err(format!("json: unsupported type: {}", object.type_name()));
            }
            None => Form::Map(
                object
                    .fields()
                    .iter()
                    .map(|name| (Text::fixed(name), object.field(name).unwrap_or_default()))
                    .collect(),
            ),
        },
    })
}

/// The error for a value that has no end.
pub(crate) fn too_deep(value: &Value) -> String {
    format!("json: unsupported value: encountered a cycle via {}", value.type_name())
}

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// In one line, with `<`, `>` and `&` escaped.
    Compact,
    /// In one line, with nothing escaped that need not be.
    Raw,
    /// Indented by two blanks, with `<`, `>` and `&` escaped.
    Indented,
}

/// Why a value is not written.
#[derive(Debug)]
pub(crate) enum JsonFailure {
    /// It is nothing in JSON.
    Value(String),
    /// It is too long.
    Limit(Exceeded),
}

/// Writes a value.
pub(crate) fn write(value: &Value, style: Style, limit: usize) -> Result<String, JsonFailure> {
    let mut writer = Writer { out: String::new(), style, limit };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    style: Style,
    limit: usize,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), JsonFailure> {
        if depth > DEPTH_MAX {
            return Err(JsonFailure::Value(too_deep(value)));
        }
        if self.out.len() > self.limit {
            return Err(JsonFailure::Limit(Exceeded::TextBytes(self.limit)));
        }
        // Texts are most of it, and need no detour.
        if let Value::Text(text) = value {
            self.text(text);
            return Ok(());
        }
        match form(value).map_err(JsonFailure::Value)? {
            Form::Null => self.out.push_str("null"),
            Form::Bool(truth) => self.out.push_str(if truth { "true" } else { "false" }),
            // Writing to a string cannot fail.
            Form::Int(number) => drop(write!(self.out, "{number}")),
            Form::Uint(number) => drop(write!(self.out, "{number}")),
            Form::Float(number) => self.out.push_str(&number::json(number)),
            Form::Text(text) => self.text(&text),
            Form::List(list) => {
                self.out.push('[');
                for place in 0..list.len() {
                    self.between(place, depth);
                    self.value(&list.get(place).unwrap_or_default(), depth + 1)?;
                }
                self.close(']', list.is_empty(), depth);
            }
            Form::Map(members) => {
                self.out.push('{');
                let empty = members.is_empty();
                for (place, (key, member)) in members.into_iter().enumerate() {
                    self.between(place, depth);
                    self.text(&key);
                    self.out.push_str(if self.style == Style::Indented { ": " } else { ":" });
                    self.value(&member, depth + 1)?;
                }
                self.close('}', empty, depth);
            }
            Form::Other(other) => self.value(&other, depth + 1)?,
        }
        Ok(())
    }

    fn between(&mut self, place: usize, depth: usize) {
        if place > 0 {
            self.out.push(',');
        }
        if self.style == Style::Indented {
            self.line(depth + 1);
        }
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if self.style == Style::Indented && !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", depth));
    }

    fn text(&mut self, text: &Text) {
        let html = self.style != Style::Raw;
        self.out.push('"');
        for chunk in text.as_bytes().utf8_chunks() {
            escape_text(&mut self.out, chunk.valid(), html);
            for _ in chunk.invalid() {
                self.out.push_str("\\ufffd");
            }
        }
        self.out.push('"');
    }
}

/// Bytes of memory that a document may take.
const MEMORY_MAX: usize = 256 << 20;

/// Reads JSON as `json.Unmarshal` into an `interface {}` does; what is no JSON is the inner error.
pub(crate) fn read(call: &mut Call<'_, '_>, at: usize) -> Result<Result<Value, String>, Failure> {
    let text = call.text(at).clone();
    let mut memory = call.memory(MEMORY_MAX);
    let read = crate::json::decode_go_within(text.as_bytes(), &mut memory);
    call.spend_memory(memory.used())?;
    match read {
        Ok(json) => Ok(Ok(Value::from_json(&json))),
        Err(crate::json::JsonError::Memory { limit }) if limit < MEMORY_MAX => {
            Err(call.memory_exceeded(limit, MEMORY_MAX))
        }
        Err(error) => Ok(Err(error_text(text.as_bytes(), &error))),
    }
}

/// Go's text for a mistake in JSON.
pub(crate) fn error_text(text: &[u8], error: &crate::json::JsonError) -> String {
    use crate::json::JsonError;
    match error {
        JsonError::End => "unexpected end of JSON input".to_owned(),
        JsonError::Unexpected { place, offset, .. } => {
            // Go names the byte, as a character.
            let found = text.get(*offset).map_or('\0', |byte| char::from(*byte));
            format!("invalid character {} {place}", quoted(found))
        }
        JsonError::NumberRange(number) => {
            format!("json: cannot unmarshal number {number} into Go value of type float64")
        }
        other => other.to_string(),
    }
}

fn quoted(character: char) -> String {
    match character {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        _ => {
            let mut buffer = [0; 4];
            let spelled = super::quote::quote(character.encode_utf8(&mut buffer).as_bytes());
            let inner = spelled.get(1..spelled.len().saturating_sub(1)).unwrap_or_default();
            format!("'{inner}'")
        }
    }
}

/// What Go calls a JSON value that does not fit.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Float(_) => "number",
        Value::Text(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "null",
    }
}
