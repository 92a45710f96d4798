//! What the decoder of a Go type makes of a value, and what it says about one that it cannot take.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tiphys_object::builtin::{Schema, Shape, StructType};
use tiphys_object::{Gvk, quantity};

/// Texts that have a type of their own, by struct and member.
const NAMED: [(&str, &str, &str); 14] = [
    ("Container", "imagePullPolicy", "v1.PullPolicy"),
    ("Container", "terminationMessagePolicy", "v1.TerminationMessagePolicy"),
    ("ContainerPort", "protocol", "v1.Protocol"),
    ("DeploymentStrategy", "type", "v1.DeploymentStrategyType"),
    ("HTTPGetAction", "scheme", "v1.URIScheme"),
    ("PodSpec", "dnsPolicy", "v1.DNSPolicy"),
    ("PodSpec", "restartPolicy", "v1.RestartPolicy"),
    ("Secret", "type", "v1.SecretType"),
    ("ServicePort", "protocol", "v1.Protocol"),
    ("ServiceSpec", "sessionAffinity", "v1.ServiceAffinity"),
    ("ServiceSpec", "type", "v1.ServiceType"),
    ("StatefulSetUpdateStrategy", "type", "v1.StatefulSetUpdateStrategyType"),
    ("DaemonSetUpdateStrategy", "type", "v1.DaemonSetUpdateStrategyType"),
    ("CronJobSpec", "concurrencyPolicy", "v1.ConcurrencyPolicy"),
];

/// Says at most one thing: a decoder that fails in the middle stops there, and a value of the wrong type is only
/// mentioned at the end.
#[derive(Default)]
struct Decoder {
    path: Vec<&'static str>,
    structs: Vec<&'static str>,
    /// The first value of the wrong type.
    wrong: Option<String>,
}

/// Drops unknown members and nulls in place.
pub(super) fn object(object: &mut Value, schema: &'static StructType) -> Result<(), String> {
    let mut decoder = Decoder::default();
    if let Value::Object(members) = object {
        decoder.members(members, schema)?;
    }
    decoder.wrong.map_or(Ok(()), Err)
}

/// The same for the metadata of an object whose kind has no type.
pub(super) fn metadata(value: &mut Value) -> Result<(), String> {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let shape = Schema::of(&gvk).and_then(|schema| schema.field("metadata")).map(|field| field.shape);
    match (shape.and_then(Shape::struct_type), value) {
        (Some(schema), Value::Object(members)) => {
            let mut decoder = Decoder::default();
            decoder.members(members, schema)?;
            decoder.wrong.map_or(Ok(()), Err)
        }
        _ => Ok(()),
    }
}

/// Writes `2.0` as Go does: `2`.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
            if let Some(float) = float.filter(|float| float.abs() < 9.0e15) {
                #[expect(clippy::cast_possible_truncation, reason = "integral, and inside the range of i64")]
                let whole = float as i64;
                *number = whole.into();
            }
        }
        _ => {}
    }
}

impl Decoder {
    fn members(
        &mut self,
        members: &mut Map<String, Value>,
        schema: &'static StructType,
    ) -> Result<(), String> {
        self.structs.push(schema.name());
        members.retain(|name, value| !value.is_null() && schema.field(name).is_some());
        for (name, value) in members.iter_mut() {
            let Some(field) = schema.field(name) else { continue };
            let end = self.path.len();
            self.path.extend(embedded(schema.name(), field.name));
            self.path.push(field.name);
            self.value(value, field.shape)?;
            self.path.truncate(end);
        }
        self.structs.pop();
        // What could not be read is as if it had not been said.
        members.retain(|_, value| !value.is_null());
        Ok(())
    }

    fn value(&mut self, value: &mut Value, shape: Shape) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::Any, _) | (_, Value::Null) => Ok(()),
            (Shape::Pointer(_), _) => shape.element().map_or(Ok(()), |inner| self.value(value, inner)),
            (Shape::Struct(_), Value::Object(members)) => {
                shape.struct_type().map_or(Ok(()), |schema| self.members(members, schema))
            }
            (Shape::List(_), Value::Array(items)) => {
                let Some(element) = shape.element() else { return Ok(()) };
                items.iter_mut().try_for_each(|item| self.item(item, element))
            }
            (Shape::Map(_), Value::Object(members)) => {
                let Some(element) = shape.element() else { return Ok(()) };
                members.values_mut().try_for_each(|item| self.item(item, element))
            }
            (Shape::IntOrText, Value::String(_)) => Ok(()),
            (Shape::IntOrText, Value::Number(number)) if fits(number, Shape::Int32) => Ok(()),
            (Shape::Quantity, _) => amount(value),
            (Shape::Time | Shape::MicroTime, Value::String(text)) => time(text, shape),
            (Shape::Bytes, Value::String(text)) => {
                if let Some(problem) = base64_problem(text) {
                    self.wrong.get_or_insert(problem);
                }
                Ok(())
            }
            (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Int32 | Shape::Int64, Value::Number(number)) if fits(number, shape) => Ok(()),
            _ => {
                let problem = self.mismatch(value, shape);
                self.wrong.get_or_insert(problem);
                Ok(())
            }
        }
    }

    /// Nulls of lists and maps are the zero of what they hold.
    fn item(&mut self, item: &mut Value, shape: Shape) -> Result<(), String> {
        if item.is_null() {
            *item = match shape {
                Shape::Text | Shape::Bytes => Value::from(""),
                Shape::Struct(_) => Value::Object(Map::new()),
                _ => Value::Null,
            };
        }
        self.value(item, shape)
    }

    fn mismatch(&self, value: &Value, shape: Shape) -> String {
        let kind = match value {
            Value::Object(_) => "object".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if matches!(shape, Shape::Int32 | Shape::Int64 | Shape::IntOrText) => {
                format!("number {number}")
            }
            Value::Number(_) | Value::Null => "number".to_owned(),
        };
        let holder = self.structs.last().map_or("", |name| name.rsplit('.').next().unwrap_or(name));
        let member = self.path.last().copied().unwrap_or("");
        let named = NAMED.iter().find(|(one, name, _)| *one == holder && *name == member);
        let of =
            named.filter(|_| shape == Shape::Text).map_or_else(|| go_type(shape), |found| found.2.to_owned());
        let path = self.path.join(".");
        format!("json: cannot unmarshal {kind} into Go struct field {holder}.{path} of type {of}")
    }
}

/// The struct that a member comes from, where it is embedded in another one.
fn embedded(holder: &str, member: &str) -> Option<&'static str> {
    match (holder, member) {
        ("core/v1.Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => Some("ProbeHandler"),
        ("core/v1.Volume", name) if name != "name" => Some("VolumeSource"),
        _ => None,
    }
}

/// The name of a type in Go.
fn go_type(shape: Shape) -> String {
    match shape {
        Shape::Text | Shape::Time | Shape::MicroTime => "string".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 | Shape::IntOrText => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Any => "interface {}".to_owned(),
        Shape::Struct(_) => shape.struct_type().map_or_else(String::new, |known| {
            known.name().rsplit('/').next().unwrap_or(known.name()).to_owned()
        }),
        Shape::Pointer(_) => shape.element().map_or_else(String::new, go_type),
        Shape::List(_) => shape.element().map_or_else(String::new, |one| format!("[]{}", go_type(one))),
        Shape::Map(_) if shape.element() == Some(Shape::Quantity) => "v1.ResourceList".to_owned(),
        Shape::Map(_) => {
            shape.element().map_or_else(String::new, |one| format!("map[string]{}", go_type(one)))
        }
    }
}

fn fits(number: &serde_json::Number, shape: Shape) -> bool {
    match number.as_i64() {
        Some(found) => shape == Shape::Int64 || i32::try_from(found).is_ok(),
        None => false,
    }
}

fn amount(value: &Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    if quantity::canonical_text(&text).is_ok() {
        return Ok(());
    }
    let is_number = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
    let only_known = text.chars().all(|c| c.is_ascii_digit() || "+-.eEinumkKMGTP".contains(c));
    Err(if is_number && only_known && !text.ends_with('.') && !text.contains("..") {
        "unable to parse quantity's suffix".to_owned()
    } else {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()
    })
}

/// The one layout that is read, piece by piece: what it wants next is what the text lacks.
fn time(text: &str, shape: Shape) -> Result<(), String> {
    let is_micro = shape == Shape::MicroTime;
    let layout = if is_micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let pieces: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 1),
        ("01", 2),
        ("-", 1),
        ("02", 2),
        ("T", 1),
        ("15", 2),
        (":", 1),
        ("04", 2),
        (":", 1),
        ("05", 2),
    ];
    let fail = |rest: &str, piece: &str| {
        Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {piece:?}"))
    };
    let mut rest = text;
    for (piece, length) in pieces {
        let Some((head, tail)) = rest.split_at_checked(length) else { return fail(rest, piece) };
        let is_read =
            if length == 1 { head == piece } else { head.bytes().all(|byte| byte.is_ascii_digit()) };
        if !is_read {
            return fail(rest, piece);
        }
        rest = tail;
    }
    let fraction =
        rest.strip_prefix('.').map_or(0, |tail| tail.bytes().take_while(u8::is_ascii_digit).count());
    if is_micro && fraction != 6 {
        return fail(rest, ".000000");
    }
    let zone = if fraction == 0 { rest } else { rest.get(fraction + 1..).unwrap_or("") };
    if text.parse::<jiff::Timestamp>().is_ok() {
        return Ok(());
    }
    let month = text.get(5..7).and_then(|month| month.parse::<u8>().ok()).unwrap_or(0);
    if !(1..=12).contains(&month) {
        return Err(format!("parsing time {text:?}: month out of range"));
    }
    let is_zone = zone == "Z" || zone.starts_with(['+', '-']);
    if is_zone { Err(format!("parsing time {text:?}: day out of range")) } else { fail(zone, "Z07:00") }
}

/// What the decoder of base64 says; it names the first byte that it cannot take.
fn base64_problem(text: &str) -> Option<String> {
    let stripped: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    if stripped.is_empty() || STANDARD.decode(&stripped).is_ok() {
        return None;
    }
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let at = match stripped.bytes().position(|byte| !is_known(byte)) {
        None => stripped.len() - stripped.len() % 4,
        Some(at) if stripped.as_bytes().get(at) != Some(&b'=') => at,
        // Padding where none may be, not enough of it, or something behind it.
        Some(at) => match at % 4 {
            0 | 1 => at,
            2 => {
                if stripped.as_bytes().get(at + 1) == Some(&b'=') {
                    at + 2
                } else {
                    stripped.len()
                }
            }
            _ => at + 1,
        },
    };
    // Stray bits in the last character are no error.
    if at == stripped.len() && stripped.len().is_multiple_of(4) {
        return None;
    }
    Some(format!("illegal base64 data at input byte {at}"))
}
