//! From the JSON form to bytes.

use serde_json::{Map, Value};

use super::writer;
use crate::json::{Expected, Misfit, unbase64};
use crate::schema::{Arity, Field, Kind, Message, MessageId, Presence, Schema, Shape, Style};
use crate::shape::Moment;

/// Whether fields that hold secrets are written. What a server answers never has any; what a client sends does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// They are.
    Kept,
    /// They are left out, whatever the message says.
    Dropped,
}

/// A value that does not fit its message.
pub type EncodeError = Misfit;

/// Writes a message. Members that the table does not have are left out.
///
/// # Errors
/// When a member has a value of another type.
pub fn encode(
    schema: &Schema,
    id: MessageId,
    value: &Value,
    secrets: Secrets,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    Encoder { schema, secrets }.value(id, value, &mut out)?;
    Ok(out)
}

#[derive(Clone, Copy)]
struct Encoder<'s> {
    schema: &'s Schema,
    secrets: Secrets,
}

impl Encoder<'_> {
    fn value(self, id: MessageId, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
        let message = self.schema.message(id);
        match message.shape {
            Shape::Plain => {
                let empty = Map::new();
                let object = match value {
                    Value::Object(object) => object,
                    Value::Null => &empty,
                    _ => return Err(Misfit::new(Expected::Object)),
                };
                self.object(message, object, out)
            }
            Shape::Time | Shape::MicroTime => time(message.shape, value, out),
            Shape::Json => {
                if !value.is_null() {
                    let text =
                        serde_json::to_vec(value).map_err(|_unprintable| Misfit::new(Expected::Json))?;
                    writer::bytes(out, 1, &text);
                }
                Ok(())
            }
            Shape::IntOrString => int_or_string(value, out),
            Shape::Yaml => {
                let parsed = match value {
                    Value::Null => None,
                    Value::String(text) => {
                        let limits = tiphys_go::yaml::Limits::default();
                        tiphys_go::yaml::parse(text, tiphys_go::yaml::Dialect::Sigs, &limits)
                            .map_err(|_unreadable| Misfit::new(Expected::Yaml))?
                    }
                    _ => return Err(Misfit::new(Expected::Yaml)),
                };
                match parsed.unwrap_or(Value::Null) {
                    Value::Object(object) => self.object(message, &object, out),
                    Value::Null => Ok(()),
                    _ => Err(Misfit::new(Expected::Yaml)),
                }
            }
        }
    }

    fn object(self, message: &Message, object: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), Misfit> {
        for field in &message.fields {
            if field.is_secret && self.secrets == Secrets::Dropped {
                continue;
            }
            if let Kind::Message(inner) = field.kind
                && field.is_inline
            {
                let nested = self.schema.message(inner);
                if field.presence == Presence::Implicit || is_present(nested, object) {
                    writer::nested(out, field.number, |out| self.object(nested, object, out))?;
                }
                continue;
            }
            let value = object.get(field.json).unwrap_or(&Value::Null);
            self.field(message, field, value, out).map_err(|misfit| misfit.below(field.json))?;
        }
        Ok(())
    }

    fn field(self, message: &Message, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
        match field.arity {
            Arity::One => match field.kind {
                Kind::Message(inner) => {
                    let is_absent = value.is_null();
                    let is_written = match field.presence {
                        Presence::Required => true,
                        Presence::Implicit if message.style == Style::Kube => true,
                        Presence::Implicit | Presence::Explicit => !is_absent,
                    };
                    if is_written {
                        writer::nested(out, field.number, |out| self.value(inner, value, out))?;
                    }
                    Ok(())
                }
                _ => scalar(message, field, value, out),
            },
            Arity::Many => {
                let items = match value {
                    Value::Null => return Ok(()),
                    Value::Array(items) => items,
                    _ => return Err(Misfit::new(Expected::Array)),
                };
                if message.style == Style::Proto3
                    && matches!(field.kind, Kind::Bool | Kind::Int32 | Kind::Int64)
                    && !items.is_empty()
                {
                    return packed(field, items, out);
                }
                for (at, item) in items.iter().enumerate() {
                    let written = match field.kind {
                        Kind::Message(inner) => {
                            writer::nested(out, field.number, |out| self.value(inner, item, out))
                        }
                        kind => element(kind, field.number, item, out),
                    };
                    written.map_err(|misfit| misfit.below(&at.to_string()))?;
                }
                Ok(())
            }
            Arity::Map => {
                let entries = match value {
                    Value::Null => return Ok(()),
                    Value::Object(entries) => entries,
                    _ => return Err(Misfit::new(Expected::Object)),
                };
                for (key, item) in entries {
                    let entry = |out: &mut Vec<u8>| {
                        writer::bytes(out, 1, key.as_bytes());
                        match field.kind {
                            Kind::Message(inner) => {
                                writer::nested(out, 2, |out| self.value(inner, item, out))
                            }
                            kind => element(kind, 2, item, out),
                        }
                    };
                    writer::nested(out, field.number, entry).map_err(|misfit| misfit.below(key))?;
                }
                Ok(())
            }
        }
    }
}

/// Whether something of an inlined message is there.
fn is_present(message: &Message, object: &Map<String, Value>) -> bool {
    message.fields.iter().any(|field| object.get(field.json).is_some_and(|value| !value.is_null()))
}

/// A field that is no message: what style and presence say about its zero.
fn scalar(message: &Message, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let is_absent = value.is_null();
    let is_written = match (message.style, field.presence) {
        (_, Presence::Required) => true,
        (Style::Proto3, Presence::Implicit) => !is_zero(value),
        (_, Presence::Explicit) | (Style::Proto2, Presence::Implicit) => !is_absent,
        // No bytes are no field.
        (Style::Kube, Presence::Implicit) => !(field.kind == Kind::Bytes && is_zero(value)),
    };
    if is_written { element(field.kind, field.number, value, out) } else { Ok(()) }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Numbers one after the other, as proto3 has them.
fn packed(field: &Field, items: &[Value], out: &mut Vec<u8>) -> Result<(), Misfit> {
    writer::nested(out, field.number, |out| {
        for (at, item) in items.iter().enumerate() {
            let number = match (field.kind, item) {
                (Kind::Bool, Value::Bool(flag)) => Ok(i64::from(*flag)),
                (Kind::Bool, _) => Err(Misfit::new(Expected::Bool)),
                (kind, item) => integer(kind, item),
            };
            let number = number.map_err(|misfit| misfit.below(&at.to_string()))?;
            writer::varint(out, number.cast_unsigned());
        }
        Ok(())
    })
}

/// One value; `null` is the zero of its kind.
fn element(kind: Kind, number: u32, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    match kind {
        Kind::Bool => match value {
            Value::Null => writer::number(out, number, 0),
            Value::Bool(flag) => writer::number(out, number, u64::from(*flag)),
            _ => return Err(Misfit::new(Expected::Bool)),
        },
        Kind::Int32 | Kind::Int64 => writer::signed(out, number, integer(kind, value)?),
        Kind::String => match value {
            Value::Null => writer::bytes(out, number, b""),
            Value::String(text) => writer::bytes(out, number, text.as_bytes()),
            _ => return Err(Misfit::new(Expected::String)),
        },
        Kind::Bytes => match value {
            Value::Null => writer::bytes(out, number, b""),
            Value::String(text) => {
                let bytes = unbase64(text).ok_or_else(|| Misfit::new(Expected::Base64))?;
                writer::bytes(out, number, &bytes);
            }
            _ => return Err(Misfit::new(Expected::Base64)),
        },
        // The callers have written messages themselves.
        Kind::Message(_) => return Err(Misfit::new(Expected::Object)),
    }
    Ok(())
}

fn integer(kind: Kind, value: &Value) -> Result<i64, Misfit> {
    let number = match value {
        Value::Null => 0,
        Value::Number(number) => number.as_i64().ok_or_else(|| Misfit::new(Expected::Integer))?,
        _ => return Err(Misfit::new(Expected::Integer)),
    };
    if kind == Kind::Int32 && i32::try_from(number).is_err() {
        return Err(Misfit::new(Expected::Integer));
    }
    Ok(number)
}

/// A zero time is an empty message (API-P5).
fn time(shape: Shape, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        _ => return Err(Misfit::new(Expected::Time)),
    };
    if let Some(moment) = Moment::read(text).map_err(|()| Misfit::new(Expected::Time))? {
        let nanos = if shape == Shape::MicroTime { moment.nanos / 1_000 * 1_000 } else { 0 };
        writer::signed(out, 1, moment.seconds);
        writer::signed(out, 2, i64::from(nanos));
    }
    Ok(())
}

fn int_or_string(value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let (kind, number, text) = match value {
        Value::Null => (0, 0, ""),
        Value::Number(_) => (0, integer(Kind::Int32, value)?, ""),
        Value::String(text) => (1, 0, text.as_str()),
        _ => return Err(Misfit::new(Expected::IntOrString)),
    };
    writer::number(out, 1, kind);
    writer::signed(out, 2, number);
    writer::bytes(out, 3, text.as_bytes());
    Ok(())
}
