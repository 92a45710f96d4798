//! Answers questions about messages, one JSON request per line in and one answer per line out: the side of
//! `hack/oracle/wire` that is ours.
//!
//! `{"op": "descriptors"}`, `{"op": "schema"}`, `{"op": "encode", "message": …, "value": …}`,
//! `{"op": "decode", "message": …, "hex": …}`, `{"op": "json", "message": …, "value": …}`.

use std::io::{BufRead as _, Write as _};

use serde_json::{Map, Value, json};
use tiphys_wire::proto::{Limits, Secrets, decode, encode};
use tiphys_wire::schema::{Arity, Emission, Field, Kind, MessageId, Presence, Shape, Style};
use tiphys_wire::{Schema, descriptor, schema};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|letter| letter.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    Some(digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

fn field(schema: &Schema, field: &Field) -> Value {
    let kind = match field.kind {
        Kind::Bool => "bool".to_owned(),
        Kind::Int32 => "int32".to_owned(),
        Kind::Int64 => "int64".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Bytes => "bytes".to_owned(),
        Kind::Message(id) => schema.full_name(id),
    };
    let arity = match field.arity {
        Arity::One => "one",
        Arity::Many => "many",
        Arity::Map => "map",
    };
    let presence = match field.presence {
        Presence::Implicit => "implicit",
        Presence::Explicit => "explicit",
        Presence::Required => "required",
    };
    json!({"name": field.name, "json": field.json, "kind": kind, "arity": arity, "presence": presence,
        "inline": field.is_inline, "oneof": field.oneof, "empty": field.emission == Emission::AlwaysEmpty})
}

fn description(schema: &Schema) -> Value {
    let messages = schema.messages().map(|(id, message)| {
        let shape = match message.shape {
            Shape::Plain => "plain",
            Shape::Time => "time",
            Shape::MicroTime => "microtime",
            Shape::Json => "json",
            Shape::IntOrString => "int-or-string",
            Shape::Yaml => "yaml",
        };
        let style = match message.style {
            Style::Proto2 => "proto2",
            Style::Proto3 => "proto3",
            Style::Kube => "kube",
        };
        let fields: Vec<Value> = message.fields.iter().map(|it| field(schema, it)).collect();
        (schema.full_name(id), json!({"shape": shape, "style": style, "fields": fields}))
    });
    Value::Object(messages.collect())
}

fn answer(request: &Value) -> Result<Value, String> {
    let schema = schema();
    let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = || -> Result<MessageId, String> {
        schema.find(text("message")).ok_or_else(|| format!("no message {:?}", text("message")))
    };
    let value = request.get("value").unwrap_or(&Value::Null);
    match text("op") {
        "descriptors" => Ok(hex(&descriptor::file_set(schema)).into()),
        "schema" => Ok(description(schema)),
        "encode" => {
            let bytes =
                encode(schema, message()?, value, Secrets::Kept).map_err(|error| error.to_string())?;
            Ok(hex(&bytes).into())
        }
        "decode" => {
            let bytes = unhex(text("hex")).ok_or("no hexadecimal digits")?;
            decode(schema, message()?, &bytes, Limits::default()).map_err(|error| error.to_string())
        }
        "json" => {
            let mut out = Vec::new();
            tiphys_wire::json::write(schema, message()?, value, Secrets::Kept, &mut out)
                .map_err(|error| error.to_string())?;
            serde_json::from_slice(&out).map_err(|error| error.to_string())
        }
        other => Err(format!("no operation {other:?}")),
    }
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(|error| error.to_string())
            .and_then(|request: Value| answer(&request));
        let line = match answer {
            Ok(result) => Map::from_iter([("result".to_owned(), result)]),
            Err(error) => Map::from_iter([("error".to_owned(), error.into())]),
        };
        writeln!(out, "{}", Value::Object(line))?;
    }
    Ok(())
}
