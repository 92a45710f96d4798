//! What clients get.

use serde_json::{Map, Value};

use super::{Expected, Misfit, has_presence, is_zero, unbase64};
use crate::proto::Secrets;
use crate::schema::{Arity, Emission, Field, Kind, Message, MessageId, Presence, Schema, Shape, Style};
use crate::shape::Moment;

/// Appends the JSON text of a message. Members that the table does not have are left out.
///
/// # Errors
/// When a member has a value of another type.
pub fn write(
    schema: &Schema,
    id: MessageId,
    value: &Value,
    secrets: Secrets,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    Writer { schema, secrets }.value(id, value, out)
}

#[derive(Clone, Copy)]
struct Writer<'s> {
    schema: &'s Schema,
    secrets: Secrets,
}

impl Writer<'_> {
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
                out.push(b'{');
                self.members(message, object, &mut Separator::default(), out)?;
                out.push(b'}');
                Ok(())
            }
            Shape::Time | Shape::MicroTime => time(message.shape, value, out),
            Shape::Json => plain(value, out),
            Shape::IntOrString => match value {
                Value::Null => plain(&Value::from(0), out),
                Value::Number(_) | Value::String(_) => plain(value, out),
                _ => Err(Misfit::new(Expected::IntOrString)),
            },
            Shape::Yaml => match value {
                Value::Null => {
                    let all = message.fields.iter().map(|field| (field.json.to_owned(), Value::Null));
                    let text = tiphys_go::yaml::to_string(&Value::Object(all.collect()));
                    plain(&Value::String(text.map_err(|_unprintable| Misfit::new(Expected::Yaml))?), out)
                }
                Value::String(_) => plain(value, out),
                _ => Err(Misfit::new(Expected::Yaml)),
            },
        }
    }

    fn members(
        self,
        message: &Message,
        object: &Map<String, Value>,
        separator: &mut Separator,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        for field in &message.fields {
            if field.is_secret && self.secrets == Secrets::Dropped {
                continue;
            }
            if let Kind::Message(inner) = field.kind
                && field.is_inline
            {
                let nested = self.schema.message(inner);
                let is_there = |field: &Field| object.get(field.json).is_some_and(|value| !value.is_null());
                if field.presence == Presence::Implicit || nested.fields.iter().any(is_there) {
                    self.members(nested, object, separator, out)?;
                }
                continue;
            }
            let value = object.get(field.json).unwrap_or(&Value::Null);
            if !is_shown(message, field, value) {
                continue;
            }
            separator.next(out);
            text(field.json, out)?;
            out.push(b':');
            self.field(message, field, value, out).map_err(|misfit| misfit.below(field.json))?;
        }
        Ok(())
    }

    fn field(self, message: &Message, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
        match field.arity {
            Arity::One => match field.kind {
                Kind::Message(_)
                    if value.is_null()
                        && (message.style != Style::Kube || field.presence != Presence::Implicit) =>
                {
                    plain(&Value::Null, out)
                }
                Kind::Message(inner) => self.value(inner, value, out),
                _ if value.is_null() && field.presence == Presence::Explicit => plain(&Value::Null, out),
                kind => scalar(kind, value, out),
            },
            Arity::Many => match value {
                Value::Null if field.emission == Emission::AlwaysEmpty => {
                    out.extend_from_slice(b"[]");
                    Ok(())
                }
                Value::Null => plain(&Value::Null, out),
                Value::Array(items) => {
                    out.push(b'[');
                    let mut separator = Separator::default();
                    for (at, item) in items.iter().enumerate() {
                        separator.next(out);
                        self.single(field, item, out).map_err(|misfit| misfit.below(&at.to_string()))?;
                    }
                    out.push(b']');
                    Ok(())
                }
                _ => Err(Misfit::new(Expected::Array)),
            },
            Arity::Map => match value {
                Value::Null if field.emission == Emission::AlwaysEmpty => {
                    out.extend_from_slice(b"{}");
                    Ok(())
                }
                Value::Null => plain(&Value::Null, out),
                Value::Object(entries) => {
                    out.push(b'{');
                    let mut separator = Separator::default();
                    for (key, item) in entries {
                        separator.next(out);
                        text(key, out)?;
                        out.push(b':');
                        self.single(field, item, out).map_err(|misfit| misfit.below(key))?;
                    }
                    out.push(b'}');
                    Ok(())
                }
                _ => Err(Misfit::new(Expected::Object)),
            },
        }
    }

    fn single(self, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
        match field.kind {
            Kind::Message(inner) => self.value(inner, value, out),
            kind => scalar(kind, value, out),
        }
    }
}

/// Whether JSON has the member (API-P8, API-P9).
fn is_shown(message: &Message, field: &Field, value: &Value) -> bool {
    if field.presence == Presence::Required {
        return true;
    }
    match field.emission {
        Emission::Always | Emission::AlwaysEmpty => return true,
        Emission::OmitZero => return !is_hollow(value),
        Emission::WhenSet => {}
    }
    match (field.arity, field.kind) {
        (Arity::One, Kind::Message(_)) => {
            !value.is_null() || (message.style == Style::Kube && field.presence == Presence::Implicit)
        }
        (Arity::One, _) => !value.is_null() && (has_presence(message, field) || !is_zero(value)),
        (Arity::Many | Arity::Map, _) => !is_zero(value),
    }
}

/// Commas between members.
#[derive(Default)]
struct Separator {
    is_later: bool,
}

impl Separator {
    fn next(&mut self, out: &mut Vec<u8>) {
        if self.is_later {
            out.push(b',');
        }
        self.is_later = true;
    }
}

/// Whether nothing is in a value, however deep.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().all(is_hollow),
        other => is_zero(other),
    }
}

fn scalar(kind: Kind, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let zero = match kind {
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 => Value::from(0),
        Kind::String | Kind::Bytes => Value::String(String::new()),
        Kind::Message(_) => Value::Null,
    };
    match (kind, value) {
        (_, Value::Null) => plain(&zero, out),
        (Kind::Bool, Value::Bool(_)) | (Kind::String, Value::String(_)) => plain(value, out),
        (Kind::Int64, Value::Number(number)) if number.as_i64().is_some() => plain(value, out),
        (Kind::Int32, Value::Number(number))
            if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
        {
            plain(value, out)
        }
        (Kind::Bytes, Value::String(text)) if unbase64(text).is_some() => plain(value, out),
        (Kind::Bool, _) => Err(Misfit::new(Expected::Bool)),
        (Kind::Int32 | Kind::Int64, _) => Err(Misfit::new(Expected::Integer)),
        (Kind::String, _) => Err(Misfit::new(Expected::String)),
        (Kind::Bytes, _) => Err(Misfit::new(Expected::Base64)),
        (Kind::Message(_), _) => Err(Misfit::new(Expected::Object)),
    }
}

fn time(shape: Shape, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let wrong = || Misfit::new(Expected::Time);
    let moment = match value {
        Value::Null => None,
        Value::String(text) => Moment::read(text).map_err(|()| wrong())?,
        _ => return Err(wrong()),
    };
    let Some(moment) = moment else { return plain(&Value::Null, out) };
    let shown = if shape == Shape::Time { moment.seconds_text() } else { moment.micros_text() };
    text(&shown.ok_or_else(wrong)?, out)
}

fn plain(value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
    serde_json::to_writer(out, value).map_err(|_unprintable| Misfit::new(Expected::Json))
}

fn text(text: &str, out: &mut Vec<u8>) -> Result<(), Misfit> {
    serde_json::to_writer(out, text).map_err(|_unprintable| Misfit::new(Expected::Json))
}
