//! Values as YAML: written by two libraries, read as one does.

use super::error::Failure;
use super::functions::Call;
use super::json::{Form, form};
use super::limits::Exceeded;
use super::value::{DEPTH_MAX, Text, Value};
use crate::yaml::{self, Dialect, Limits, Node, Written, YamlError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Why a value is not written.
#[derive(Debug)]
pub(crate) enum YamlFailure {
    /// It has no spelling; Go's text.
    Value(String),
    /// It is too long.
    Limit(Exceeded),
}

/// Writes a value as sigs.k8s.io/yaml marshals it, with a line end.
pub(crate) fn write(value: &Value, limit: usize) -> Result<String, YamlFailure> {
    match yaml::write_within(ThroughJson(value.clone()), limit) {
        Ok(text) => Ok(text),
        Err(YamlError::Memory { limit }) => Err(YamlFailure::Limit(Exceeded::TextBytes(limit))),
        // What JSON cannot hold is found there first.
        Err(error) => Err(YamlFailure::Value(problem(value).unwrap_or_else(|| error.to_string()))),
    }
}

/// The text of the error that JSON gives for a value.
fn problem(value: &Value) -> Option<String> {
    fn first(value: &Value, depth: usize) -> Option<String> {
        if depth > DEPTH_MAX {
            return Some(super::json::too_deep(value));
        }
        match form(value) {
            Err(problem) => Some(problem),
            Ok(Form::List(list)) => list.to_vec().iter().find_map(|item| first(item, depth + 1)),
            Ok(Form::Map(members)) => members.iter().find_map(|(_, member)| first(member, depth + 1)),
            Ok(Form::Other(other)) => first(&other, depth + 1),
            Ok(_) => None,
        }
    }
    first(value, 0).map(|problem| format!("error marshaling into JSON: {problem}"))
}

/// Writes a value as go.yaml.in/yaml/v3 does with two blanks per level, with a line end.
pub(crate) fn write_pretty(value: &Value, limit: usize) -> Result<String, YamlFailure> {
    match yaml::write_pretty(Directly(value.clone()), limit) {
        Ok(text) => Ok(text),
        Err(YamlError::Memory { limit }) => Err(YamlFailure::Limit(Exceeded::TextBytes(limit))),
        Err(error) => Err(YamlFailure::Value(error.to_string())),
    }
}

/// A text that is UTF-8.
pub(crate) struct Utf8(Text);

impl Utf8 {
    fn new(text: Text) -> Self {
        if text.as_str().is_some() { Self(text) } else { Self(Text::from(text.to_str().into_owned())) }
    }
}

impl AsRef<str> for Utf8 {
    fn as_ref(&self) -> &str {
        self.0.as_str().unwrap_or_default()
    }
}

/// A value on its way through JSON.
struct ThroughJson(Value);

impl Written for ThroughJson {
    type Text = Utf8;

    fn node(self) -> Result<Node<Self>, YamlError> {
        if let Value::Text(text) = self.0 {
            return Ok(Node::Text(Utf8::new(text)));
        }
        // The text is not shown: whoever sees this error asks again.
        let form = form(&self.0).map_err(|_problem| YamlError::NotFinite)?;
        Ok(match form {
            Form::Null => Node::Null,
            Form::Bool(truth) => Node::Bool(truth),
            Form::Int(number) => Node::Int(number),
            Form::Uint(number) => Node::Uint(number),
            Form::Float(number) => Node::Float(number),
            Form::Text(text) => Node::Text(Utf8::new(text)),
            Form::List(list) => Node::List(list.to_vec().into_iter().map(Self).collect()),
            Form::Map(members) => {
                Node::Map(members.into_iter().map(|(key, member)| (Utf8::new(key), Self(member))).collect())
            }
            Form::Other(other) => Node::Other(Self(other)),
        })
    }
}

/// A value as it is.
struct Directly(Value);

/// Columns after which base 64 goes on in the next line.
const BINARY_COLUMNS: usize = 70;

impl Written for Directly {
    type Text = Utf8;

    fn node(self) -> Result<Node<Self>, YamlError> {
        Ok(match self.0 {
            Value::Nil => Node::Null,
            Value::Bool(truth) => Node::Bool(truth),
            Value::Int(_, number) => Node::Int(number),
            Value::Uint(_, number) => Node::Uint(number),
            Value::Float(number) => Node::Float(number),
            Value::Complex(_) => return Err(YamlError::NotFinite),
            Value::Text(text) => match text.as_str() {
                Some(_) => Node::Text(Utf8(text)),
                None => Node::Tagged("!!binary", Utf8(binary(&text))),
            },
            Value::Bytes(_) => {
                let items = self.0.items().map(|items| items.to_vec()).unwrap_or_default();
                Node::List(items.into_iter().map(Self).collect())
            }
            Value::List(list) => Node::List(list.to_vec().into_iter().map(Self).collect()),
            Value::Map(map) => Node::Map(
                map.members().into_iter().map(|(key, member)| (Utf8::new(key), Self(member))).collect(),
            ),
            Value::Named(ref named) if named.named_type.name == "time.Duration" => {
                Node::Text(Utf8::new(self.0.stringer().unwrap_or_default()))
            }
            Value::Named(named) => Node::Other(Self(named.value.clone())),
            Value::Object(object) => match object.json() {
                Some(Ok(other)) => Node::Other(Self(other)),
                Some(Err(_)) => return Err(YamlError::NotFinite),
                None => Node::Map(
                    object
                        .fields()
                        .iter()
                        .map(|name| {
                            let value = object.field(name).unwrap_or_default();
                            (Utf8::new(name.to_lowercase().into()), Self(value))
                        })
                        .collect(),
                ),
            },
        })
    }
}

/// Bytes that are no text, as YAML holds them.
fn binary(text: &Text) -> Text {
    let encoded = STANDARD.encode(text.as_bytes());
    if encoded.len() < BINARY_COLUMNS {
        return encoded.into();
    }
    let mut out = Vec::with_capacity(encoded.len() + encoded.len() / BINARY_COLUMNS + 1);
    for line in encoded.as_bytes().chunks(BINARY_COLUMNS) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.into()
}

/// Reads the first document of a text, every number a `float64`; nothing is nil. What is no YAML is the inner error.
pub(crate) fn read(call: &mut Call<'_, '_>, at: usize) -> Result<Result<Value, String>, Failure> {
    let (text, limits) = (call.text(at).clone(), Limits::default());
    let mut memory = call.memory(limits.bytes_max);
    let read = yaml::parse_within(&text.to_str(), Dialect::Sigs, limits.depth_max, &mut memory);
    // A short text may unfold to a large tree.
    call.spend_memory(memory.used())?;
    match read {
        Ok(json) => Ok(Ok(json.map_or(Value::Nil, |json| Value::from_json(&json)))),
        Err(YamlError::Memory { limit }) if limit < limits.bytes_max => {
            Err(call.memory_exceeded(limit, limits.bytes_max))
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}
