//! Built-in objects in the protobuf form that Go clients send.
//!
//! The tree is what Go would print as JSON after reading the same bytes. Lengths, nesting and the number of
//! values are bounded, fields that no type has are skipped.

mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use self::wire::{Payload, Reader};
use super::canonical::{is_left_out, zero};
use super::table::{Field, OmitWhen, Place, Schema, Shape, StructType};
use super::time::from_unix;
use crate::{Gvk, quantity};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages and objects inside each other.
const DEPTH_MAX: usize = 64;
/// Values of one body, those counted that the type adds.
const VALUES_MAX: usize = 1_000_000;
/// The zero time of Go, 0001-01-01, which JSON shows as null.
const ZERO_TIME: i64 = -62_135_596_800;
/// The type of an integer that may be a text, when it is a text.
const IS_TEXT: i64 = 1;

/// Why a body is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It does not begin with the four bytes that mark the form.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// It ends in the middle of a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field has no number, or is written in a way that does not exist.
    #[error("proto: illegal tag")]
    Tag,
    /// A field is written in another way than its type is.
    #[error("proto: wrong wireType")]
    WireType,
    /// No built-in type has the name.
    #[error("no kind {kind:?} is registered for version {version:?}")]
    Kind {
        /// The kind, may be empty.
        kind: String,
        /// Group and version, may be empty.
        version: String,
    },
    /// Something is in the right place but has no meaning there.
    #[error("{0} cannot be read")]
    Content(&'static str),
    /// Objects are nested too deeply.
    #[error("exceeded max depth of {DEPTH_MAX}")]
    Depth,
    /// There are too many values.
    #[error("exceeded {VALUES_MAX} values")]
    Size,
}

type Members = Map<String, Value>;

/// Reads the protobuf form of a built-in object: the envelope, then the message of its kind. An envelope without a
/// kind or version takes that of `default`.
///
/// ```
/// # use tiphys_object::builtin::decode_protobuf;
/// let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01a";
/// let object = decode_protobuf(body, None)?;
/// assert_eq!(object.to_string(), r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#);
/// # Ok::<(), tiphys_object::builtin::ProtobufError>(())
/// ```
///
/// # Errors
/// When the bytes are malformed, exceed a bound, or are of a kind without a built-in type.
pub fn decode_protobuf(bytes: &[u8], default: Option<&Gvk>) -> Result<Value, ProtobufError> {
    Decoder { values_left: VALUES_MAX }.object(bytes, default, 0)
}

/// What is around the message.
#[derive(Default)]
struct Envelope<'a> {
    version: String,
    kind: String,
    message: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut envelope = Self::default();
        let mut fields = Reader::new(bytes);
        while let Some((number, payload)) = fields.field()? {
            match number {
                1 => envelope.names(payload.bytes()?)?,
                2 => envelope.message = payload.bytes()?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn names(&mut self, bytes: &[u8]) -> Result<(), ProtobufError> {
        let mut fields = Reader::new(bytes);
        while let Some((number, payload)) = fields.field()? {
            match number {
                1 => self.version = text(payload)?,
                2 => self.kind = text(payload)?,
                _ => {}
            }
        }
        Ok(())
    }
}

struct Decoder {
    values_left: usize,
}

impl Decoder {
    fn object(&mut self, bytes: &[u8], default: Option<&Gvk>, depth: usize) -> Result<Value, ProtobufError> {
        let Envelope { mut version, mut kind, message } =
            Envelope::read(bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?)?;
        if let Some(default) = default {
            if kind.is_empty() {
                kind = default.kind.to_string();
            }
            if version.is_empty() {
                version = default.api_version().to_string();
            }
        }
        let Some(schema) = Schema::of(&Gvk::from_api_version(&version, &kind)) else {
            return Err(ProtobufError::Kind { kind, version });
        };
        let mut members = Members::new();
        members.insert("apiVersion".to_owned(), Value::from(version));
        members.insert("kind".to_owned(), Value::from(kind));
        self.structure(message, schema, members, depth)
    }

    /// A struct; `members` are those that are known already.
    fn structure(
        &mut self,
        bytes: &[u8],
        schema: &StructType,
        mut members: Members,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        if depth >= DEPTH_MAX {
            return Err(ProtobufError::Depth);
        }
        self.message(bytes, schema, Place::default(), &mut members, depth + 1)?;
        for field in schema.fields().iter().filter(|field| field.omit == OmitWhen::Never) {
            if !members.contains_key(field.name) {
                self.count()?;
                members.insert(field.name.to_owned(), zero(field.shape));
            }
        }
        Ok(Value::Object(members))
    }

    /// The fields of a message, or of a message whose members JSON shows among those of the struct around it.
    fn message(
        &mut self,
        bytes: &[u8],
        schema: &StructType,
        outer: Place,
        members: &mut Members,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let mut fields = Reader::new(bytes);
        while let Some((number, payload)) = fields.field()? {
            let Some(place) = outer.inner(number) else { continue };
            if let Some(field) = schema.field_at(place) {
                self.member(payload, field, members, depth)?;
            } else if schema.is_inlined(place) {
                self.message(payload.bytes()?, schema, place, members, depth)?;
            }
        }
        Ok(())
    }

    /// One field of a message. A field may come again: lists and maps grow, messages are merged, the rest is replaced.
    fn member(
        &mut self,
        payload: Payload<'_>,
        field: &Field,
        members: &mut Members,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        let old = members.remove(field.name);
        let value = self.value(payload, field.shape, field.is_wrapped, old, depth)?;
        if !is_left_out(&value, field) {
            members.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    fn value(
        &mut self,
        payload: Payload<'_>,
        shape: Shape,
        is_wrapped: bool,
        old: Option<Value>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.count()?;
        Ok(match shape {
            Shape::Text => Value::from(text(payload)?),
            Shape::Bool => Value::from(payload.number()? != 0),
            Shape::Int32 => Value::from(narrow(payload.signed()?)),
            Shape::Int64 => Value::from(payload.signed()?),
            Shape::Quantity => amount(payload.bytes()?)?,
            Shape::Time | Shape::MicroTime => time(payload.bytes()?, shape)?,
            Shape::IntOrText => int_or_text(payload.bytes()?)?,
            Shape::Bytes => Value::from(STANDARD.encode(payload.bytes()?)),
            Shape::Any => self.any(payload.bytes()?, depth)?,
            Shape::Pointer(_) => self.value(payload, element(shape)?, is_wrapped, old, depth)?,
            Shape::Struct(_) => {
                let schema = shape.struct_type().ok_or(ProtobufError::Content("the table of types"))?;
                self.structure(payload.bytes()?, schema, object(old), depth)?
            }
            Shape::List(_) => self.list(payload, element(shape)?, is_wrapped, old, depth)?,
            Shape::Map(_) => self.entry(payload.bytes()?, element(shape)?, is_wrapped, object(old), depth)?,
        })
    }

    fn list(
        &mut self,
        payload: Payload<'_>,
        element: Shape,
        is_wrapped: bool,
        old: Option<Value>,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let mut items = if let Some(Value::Array(items)) = old { items } else { Vec::new() };
        match payload {
            Payload::Bytes(bytes) if is_wrapped => {
                let mut fields = Reader::new(bytes);
                while let Some((number, payload)) = fields.field()? {
                    if number == 1 {
                        items.push(self.value(payload, element, false, None, depth)?);
                    }
                }
            }
            // Numbers may share one field.
            Payload::Bytes(bytes) if matches!(element, Shape::Bool | Shape::Int32 | Shape::Int64) => {
                let mut numbers = Reader::new(bytes);
                while !numbers.is_at_end() {
                    let number = Payload::Number(numbers.varint()?);
                    items.push(self.value(number, element, false, None, depth)?);
                }
            }
            _ => items.push(self.value(payload, element, false, None, depth)?),
        }
        Ok(Value::Array(items))
    }

    /// One entry of a map.
    fn entry(
        &mut self,
        bytes: &[u8],
        element: Shape,
        is_wrapped: bool,
        mut entries: Members,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let mut key = String::new();
        let mut value = match element {
            Shape::Bytes => Value::from(""),
            Shape::List(_) => Value::Array(Vec::new()),
            _ => zero(element),
        };
        let mut fields = Reader::new(bytes);
        while let Some((number, payload)) = fields.field()? {
            match number {
                1 => key = text(payload)?,
                2 => value = self.value(payload, element, is_wrapped, None, depth)?,
                _ => {}
            }
        }
        entries.insert(key, value);
        Ok(Value::Object(entries))
    }

    /// Free-form JSON, or an object inside an object.
    fn any(&mut self, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
        let mut raw: &[u8] = &[];
        let mut fields = Reader::new(bytes);
        while let Some((number, payload)) = fields.field()? {
            if number == 1 {
                raw = payload.bytes()?;
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if raw.starts_with(MAGIC) {
            return self.object(raw, None, depth);
        }
        tiphys_go::json::decode_kubernetes(raw).map_err(|_error| ProtobufError::Content("embedded JSON"))
    }

    fn count(&mut self) -> Result<(), ProtobufError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ProtobufError::Size)?;
        Ok(())
    }
}

fn element(shape: Shape) -> Result<Shape, ProtobufError> {
    shape.element().ok_or(ProtobufError::Content("the table of types"))
}

fn object(value: Option<Value>) -> Members {
    if let Some(Value::Object(members)) = value { members } else { Members::new() }
}

/// Bytes that are no UTF-8 become the replacement character, as in JSON from Go.
fn text(payload: Payload<'_>) -> Result<String, ProtobufError> {
    Ok(String::from_utf8_lossy(payload.bytes()?).into_owned())
}

/// The low 32 bits.
fn narrow(number: i64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn amount(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut amount = "0".to_owned();
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.field()? {
        if number == 1 {
            amount = text(payload)?;
        }
    }
    let canonical = quantity::canonical_text(&amount)
        .map_err(|_error| ProtobufError::Content("a quantity"))?
        .into_owned();
    Ok(Value::from(canonical))
}

fn time(bytes: &[u8], shape: Shape) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (None, 0);
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.field()? {
        match number {
            1 => seconds = Some(payload.signed()?),
            2 => nanos = narrow(payload.signed()?),
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, micros) = if shape == Shape::MicroTime {
        let micros = nanos / 1_000;
        let carried = seconds.unwrap_or(0).saturating_add(i64::from(micros.div_euclid(1_000_000)));
        (carried, u32::try_from(micros.rem_euclid(1_000_000)).ok())
    } else {
        (seconds.unwrap_or(0), None)
    };
    if seconds == ZERO_TIME && micros.unwrap_or(0) == 0 {
        return Ok(Value::Null);
    }
    from_unix(seconds, micros).map(Value::from).ok_or(ProtobufError::Content("a time"))
}

fn int_or_text(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut kind, mut integer, mut words) = (0, 0, String::new());
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.field()? {
        match number {
            1 => kind = payload.signed()?,
            2 => integer = narrow(payload.signed()?),
            3 => words = text(payload)?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(Value::from(integer)),
        IS_TEXT => Ok(Value::from(words)),
        _ => Err(ProtobufError::Content("an integer or text")),
    }
}
