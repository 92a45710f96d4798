//! From bytes to the JSON form.

use serde_json::{Map, Value};

use super::limits::{DecodeError, Limits};
use super::reader::{Raw, WireError, fields, varint};
use crate::json::is_told;
use crate::schema::{Arity, Emission, Field, Kind, Message, MessageId, Presence, Schema, Shape};
use crate::shape::Moment;

/// Counts memory that a message takes while it is read, before it does; `false` ends that.
pub type Grow<'g> = &'g mut dyn FnMut(usize) -> bool;

/// Memory of one value, and of an object beside its members, at most.
const VALUE_BYTES: usize = 64;
const OBJECT_BYTES: usize = 640;
/// Memory that is counted at a time.
const STEP_BYTES: usize = 64 << 10;

/// Reads a message. Fields that the table does not have are skipped (API-P4); zeros that mean nothing are left out;
/// what occurs twice is merged as protobuf says.
///
/// # Errors
/// When the bytes are no such message, or become too much.
pub fn decode(schema: &Schema, id: MessageId, bytes: &[u8], limits: Limits) -> Result<Value, DecodeError> {
    decode_within(schema, id, bytes, limits, &mut |_bytes| true)
}

/// The same, with the memory that it takes counted.
///
/// # Errors
/// When the bytes are no such message, become too much, or there is no memory for it.
pub fn decode_within(
    schema: &Schema,
    id: MessageId,
    bytes: &[u8],
    limits: Limits,
    grow: Grow<'_>,
) -> Result<Value, DecodeError> {
    let mut decoder = Decoder { schema, left: limits.values, uncounted: bytes.len(), grow };
    let value = decoder.value(id, &[bytes])?;
    decoder.weigh(0, 0)?;
    Ok(value)
}

struct Decoder<'s, 'g> {
    schema: &'s Schema,
    left: usize,
    /// Bytes that were not told yet.
    uncounted: usize,
    grow: Grow<'g>,
}

/// A field's place in its message, with a value that was read for it.
type Found<'a> = (usize, Raw<'a>);

impl Decoder<'_, '_> {
    fn count(&mut self) -> Result<(), DecodeError> {
        self.left = self.left.checked_sub(1).ok_or(DecodeError::TooMany)?;
        self.weigh(VALUE_BYTES, STEP_BYTES)
    }

    /// Counts memory, as soon as it is this much.
    fn weigh(&mut self, bytes: usize, least: usize) -> Result<(), DecodeError> {
        self.uncounted = self.uncounted.saturating_add(bytes);
        if self.uncounted < least {
            return Ok(());
        }
        let told = std::mem::take(&mut self.uncounted);
        if (self.grow)(told) { Ok(()) } else { Err(DecodeError::NoRoom) }
    }

    /// A message that may stand in several pieces, which count as if they were one.
    fn value(&mut self, id: MessageId, pieces: &[&[u8]]) -> Result<Value, DecodeError> {
        self.count()?;
        self.weigh(OBJECT_BYTES, STEP_BYTES)?;
        let message = self.schema.message(id);
        let mut object = Map::new();
        // Tables have no message within itself, so that this is no deeper than they are (a test says so).
        self.fields(message, pieces, &mut object)?;
        if message.shape == Shape::Json {
            // What it becomes is not counted below.
            let text = object.values().next().and_then(Value::as_str).unwrap_or_default();
            let weight = crate::json::weight(text.as_bytes());
            self.left = self.left.checked_sub(weight.values).ok_or(DecodeError::TooMany)?;
            self.weigh(weight.bytes, STEP_BYTES)?;
        }
        shaped(message, object)
    }

    fn fields(
        &mut self,
        message: &Message,
        pieces: &[&[u8]],
        object: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let malformed =
            |error: WireError| DecodeError::Malformed { message: message.name, reason: text_of(error) };
        let mut found: Vec<Found<'_>> = Vec::new();
        for piece in pieces {
            for field in fields(piece) {
                let (number, raw) = field.map_err(malformed)?;
                if let Some((at, _)) = message.by_number(number) {
                    self.count()?;
                    found.push((at, raw));
                }
            }
        }
        last_of_group(message, &mut found);
        found.sort_by_key(|(at, _)| *at);
        for same in found.chunk_by(|(a, _), (b, _)| a == b) {
            let field = same.first().and_then(|(at, _)| message.fields.get(*at));
            if let Some(field) = field {
                self.field(message, field, same, object)?;
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        message: &Message,
        field: &Field,
        raws: &[Found<'_>],
        object: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        match (field.arity, field.kind) {
            (Arity::One, Kind::Message(inner)) => {
                let pieces =
                    raws.iter().map(|(_, raw)| piece(message, field, *raw)).collect::<Result<Vec<_>, _>>()?;
                if field.is_inline {
                    self.inline(inner, field, &pieces, object)?;
                } else {
                    let value = self.value(inner, &pieces)?;
                    if is_told(message, field, &value) {
                        object.insert(field.json.to_owned(), value);
                    }
                }
            }
            (Arity::One, _) => {
                let mut last = Value::Null;
                for (_, raw) in raws {
                    last = scalar(message, field, *raw)?;
                }
                if is_told(message, field, &last) {
                    object.insert(field.json.to_owned(), last);
                }
            }
            (Arity::Many, Kind::Message(inner)) => {
                let mut items = Vec::with_capacity(raws.len());
                for (_, raw) in raws {
                    items.push(self.value(inner, &[piece(message, field, *raw)?])?);
                }
                object.insert(field.json.to_owned(), Value::Array(items));
            }
            (Arity::Many, kind) => {
                let mut items = Vec::with_capacity(raws.len());
                for (_, raw) in raws {
                    match raw {
                        Raw::Bytes(packed) if !matches!(kind, Kind::String | Kind::Bytes) => {
                            self.packed(message, field, packed, &mut items)?;
                        }
                        raw => items.push(scalar(message, field, *raw)?),
                    }
                }
                if !items.is_empty() {
                    object.insert(field.json.to_owned(), Value::Array(items));
                }
            }
            (Arity::Map, _) => {
                let mut entries = Map::new();
                for (_, raw) in raws {
                    let (key, value) = self.entry(message, field, piece(message, field, *raw)?)?;
                    entries.insert(key, value);
                }
                object.insert(field.json.to_owned(), Value::Object(entries));
            }
        }
        Ok(())
    }

    /// A message whose members are those of the one around it.
    fn inline(
        &mut self,
        inner: MessageId,
        field: &Field,
        pieces: &[&[u8]],
        object: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let message = self.schema.message(inner);
        self.fields(message, pieces, object)?;
        if field.presence == Presence::Explicit {
            // That it is there at all is told by what stands in it even when empty.
            for inner in message.fields.iter().filter(|inner| inner.emission == Emission::AlwaysEmpty) {
                object.entry(inner.json.to_owned()).or_insert_with(|| match inner.arity {
                    Arity::Map => Value::Object(Map::new()),
                    Arity::One | Arity::Many => Value::Array(Vec::new()),
                });
            }
        }
        Ok(())
    }

    fn packed(
        &mut self,
        message: &Message,
        field: &Field,
        mut rest: &[u8],
        items: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        while !rest.is_empty() {
            self.count()?;
            let number = varint(&mut rest)
                .map_err(|error| DecodeError::Malformed { message: message.name, reason: text_of(error) })?;
            items.push(scalar(message, field, Raw::Varint(number))?);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        message: &Message,
        field: &Field,
        bytes: &[u8],
    ) -> Result<(String, Value), DecodeError> {
        let (mut key, mut value, mut pieces) = (String::new(), None, Vec::new());
        for entry in fields(bytes) {
            let (number, raw) = entry
                .map_err(|error| DecodeError::Malformed { message: message.name, reason: text_of(error) })?;
            self.count()?;
            match (number, field.kind) {
                (1, _) => text(message, field, piece(message, field, raw)?)?.clone_into(&mut key),
                (2, Kind::Message(_)) => pieces.push(piece(message, field, raw)?),
                (2, _) => value = Some(scalar(message, field, raw)?),
                _ => {}
            }
        }
        let value = match (field.kind, value) {
            (Kind::Message(inner), _) => self.value(inner, &pieces)?,
            (_, Some(value)) => value,
            (kind, None) => zero(kind),
        };
        Ok((key, value))
    }
}

/// Of the members of a oneof the one that was set last counts; what was set before another one is forgotten.
fn last_of_group(message: &Message, found: &mut Vec<Found<'_>>) {
    let group = |at: usize| message.fields.get(at).and_then(|field| field.oneof);
    let Some((last, name)) = found.iter().rev().find_map(|(at, _)| group(*at).map(|name| (*at, name))) else {
        return;
    };
    let is_other = |at: usize| group(at) == Some(name) && at != last;
    let begin = found.iter().rposition(|(at, _)| is_other(*at)).map_or(0, |other| other + 1);
    let mut place = 0;
    found.retain(|(at, _)| {
        place += 1;
        group(*at) != Some(name) || place > begin
    });
}

/// The form that JSON gives the fields of a message.
fn shaped(message: &Message, mut object: Map<String, Value>) -> Result<Value, DecodeError> {
    let integer =
        |object: &Map<String, Value>, key: &str| object.get(key).and_then(Value::as_i64).unwrap_or(0);
    let wrong = |reason| DecodeError::Value { message: message.name, field: "", reason };
    match message.shape {
        Shape::Plain => Ok(Value::Object(object)),
        Shape::Time | Shape::MicroTime => {
            let (seconds, nanos) = (integer(&object, "seconds"), integer(&object, "nanos"));
            if (seconds, nanos) == (0, 0) {
                return Ok(Value::Null);
            }
            let moment = Moment { seconds, nanos: i32::try_from(nanos).unwrap_or(0) };
            let text =
                if message.shape == Shape::Time { moment.seconds_text() } else { moment.micros_text() };
            text.map(Value::String).ok_or_else(|| wrong("time out of range"))
        }
        Shape::Json => {
            // Absent and empty are the same: null.
            let raw = object.values().next().and_then(Value::as_str).unwrap_or_default();
            if raw.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_str(raw).map_err(|_syntax| wrong("invalid JSON"))
        }
        Shape::IntOrString => Ok(if integer(&object, "type") == 1 {
            object.remove("strVal").unwrap_or_else(|| Value::String(String::new()))
        } else {
            object.remove("intVal").unwrap_or_else(|| Value::from(0))
        }),
        Shape::Yaml => {
            let all = message
                .fields
                .iter()
                .map(|field| (field.json.to_owned(), object.remove(field.json).unwrap_or(Value::Null)));
            let text = tiphys_go::yaml::to_string(&Value::Object(all.collect()));
            text.map(Value::String).map_err(|_unsupported| wrong("not printable"))
        }
    }
}

fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 => Value::from(0),
        Kind::String | Kind::Bytes => Value::String(String::new()),
        Kind::Message(_) => Value::Object(Map::new()),
    }
}

fn scalar(message: &Message, field: &Field, raw: Raw<'_>) -> Result<Value, DecodeError> {
    match (field.kind, raw) {
        (Kind::Bool, Raw::Varint(number)) => Ok(Value::Bool(number != 0)),
        // As all implementations do, the upper half is cut off.
        (Kind::Int32, Raw::Varint(number)) => {
            let low = u32::try_from(number & 0xffff_ffff).unwrap_or(0);
            Ok(Value::from(low.cast_signed()))
        }
        (Kind::Int64, Raw::Varint(number)) => Ok(Value::from(number.cast_signed())),
        (Kind::String, Raw::Bytes(bytes)) => Ok(Value::from(text(message, field, bytes)?)),
        (Kind::Bytes, Raw::Bytes(bytes)) if message.shape == Shape::Json => {
            Ok(Value::from(text(message, field, bytes)?))
        }
        (Kind::Bytes, Raw::Bytes(bytes)) => Ok(Value::String(crate::json::base64(bytes))),
        _ => Err(DecodeError::WireType { message: message.name, field: field.name }),
    }
}

fn piece<'a>(message: &Message, field: &Field, raw: Raw<'a>) -> Result<&'a [u8], DecodeError> {
    match raw {
        Raw::Bytes(bytes) => Ok(bytes),
        Raw::Varint(_) | Raw::Other => {
            Err(DecodeError::WireType { message: message.name, field: field.name })
        }
    }
}

fn text<'a>(message: &Message, field: &Field, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes)
        .map_err(|_invalid| DecodeError::Text { message: message.name, field: field.name })
}

fn text_of(error: WireError) -> &'static str {
    match error {
        WireError::End => "unexpected end",
        WireError::Overflow => "a number has more than 64 bits",
        WireError::Tag => "illegal tag",
        WireError::Group => "illegal group",
    }
}
