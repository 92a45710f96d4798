//! Version 2 as protobuf: the `openapi.v2.Document` message that `kubectl` asks for.
//!
//! Only what our documents contain is written; everything that begins with `x-` becomes a vendor extension,
//! whose value is a piece of YAML (and so may be JSON).

use serde_json::{Map, Value};

/// Schemas inside schemas that are written.
const DEPTH_MAX: usize = 100;

/// The message of a document of version 2.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, document.get("swagger"));
    if let Some(info) = document.get("info") {
        let mut part = Message::default();
        part.text(1, info.get("title"));
        part.text(2, info.get("version"));
        message.part(2, &part);
    }
    let mut paths = Message::default();
    for (name, item) in members(document.get("paths")) {
        paths.part(2, &named(name, &path_item(item)));
    }
    message.part(8, &paths);
    message.part(9, &schemas(document.get("definitions"), 0));
    message.bytes
}

/// Bytes of one message.
#[derive(Debug, Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.bytes.push(low & 0x7f);
                return;
            }
            self.bytes.push(low | 0x80);
        }
    }

    /// A field with a length.
    fn field(&mut self, tag: u64, content: &[u8]) {
        self.varint(tag << 3 | 2);
        self.varint(u64::try_from(content.len()).unwrap_or(u64::MAX));
        self.bytes.extend_from_slice(content);
    }

    fn part(&mut self, tag: u64, part: &Self) {
        self.field(tag, &part.bytes);
    }

    fn text(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.field(tag, text.as_bytes());
        }
    }

    fn texts(&mut self, tag: u64, value: Option<&Value>) {
        for item in value.and_then(Value::as_array).into_iter().flatten() {
            self.text(tag, Some(item));
        }
    }

    fn truth(&mut self, tag: u64, value: Option<&Value>) {
        if value == Some(&Value::Bool(true)) {
            self.varint(tag << 3);
            self.varint(1);
        }
    }

    fn integer(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_u64) {
            self.varint(tag << 3);
            self.varint(number);
        }
    }

    fn float(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_f64) {
            self.varint(tag << 3 | 1);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Any value, as text in JSON.
    fn any(&mut self, tag: u64, value: Option<&Value>) {
        if let Some(value) = value {
            self.part(tag, &any(value));
        }
    }

    /// All members whose name begins with `x-`.
    fn extensions(&mut self, tag: u64, object: &Value) {
        for (name, value) in members(Some(object)).filter(|(name, _)| name.starts_with("x-")) {
            self.part(tag, &named(name, &any(value)));
        }
    }
}

fn members(object: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.field(2, value.to_string().as_bytes());
    message
}

/// A name and a value, as all maps are written.
fn named(name: &str, value: &Message) -> Message {
    let mut message = Message::default();
    message.field(1, name.as_bytes());
    message.part(2, value);
    message
}

/// A message that is one of several.
fn one_of(tag: u64, part: &Message) -> Message {
    let mut message = Message::default();
    message.part(tag, part);
    message
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    let methods = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];
    for (method, tag) in methods {
        if let Some(found) = item.get(method) {
            message.part(tag, &operation(found));
        }
    }
    parameters(&mut message, 9, item);
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.texts(1, operation.get("tags"));
    message.text(5, operation.get("operationId"));
    message.texts(6, operation.get("produces"));
    message.texts(7, operation.get("consumes"));
    parameters(&mut message, 8, operation);
    let mut responses = Message::default();
    for (code, found) in members(operation.get("responses")) {
        let mut response = Message::default();
        response.text(1, found.get("description"));
        if let Some(found) = found.get("schema") {
            response.part(2, &one_of(1, &schema(found, 0)));
        }
        responses.part(1, &named(code, &one_of(1, &response)));
    }
    message.part(9, &responses);
    message.texts(10, operation.get("schemes"));
    message.extensions(13, operation);
    message
}

fn parameters(message: &mut Message, tag: u64, owner: &Value) {
    for found in owner.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        let parameter = match found.get("in").and_then(Value::as_str) {
            Some("body") => one_of(1, &body_parameter(found)),
            Some("path") => one_of(2, &one_of(4, &plain_parameter(found, false))),
            _ => one_of(2, &one_of(3, &plain_parameter(found, true))),
        };
        message.part(tag, &one_of(1, &parameter));
    }
}

fn body_parameter(found: &Value) -> Message {
    let mut message = Message::default();
    message.text(2, found.get("name"));
    message.text(3, found.get("in"));
    message.truth(4, found.get("required"));
    if let Some(found) = found.get("schema") {
        message.part(5, &schema(found, 0));
    }
    message
}

/// Parameters of the query have one field more before the type.
fn plain_parameter(found: &Value, in_query: bool) -> Message {
    let shift = u64::from(in_query);
    let mut message = Message::default();
    message.truth(1, found.get("required"));
    message.text(2, found.get("in"));
    message.text(4, found.get("name"));
    message.text(5 + shift, found.get("type"));
    message.truth(19 + shift, found.get("uniqueItems"));
    message
}

fn schemas(object: Option<&Value>, depth: usize) -> Message {
    let mut message = Message::default();
    for (name, found) in members(object) {
        message.part(1, &named(name, &schema(found, depth)));
    }
    message
}

fn schema(found: &Value, depth: usize) -> Message {
    let mut message = Message::default();
    if depth > DEPTH_MAX {
        return message;
    }
    for (tag, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        message.text(tag, found.get(name));
    }
    message.any(5, found.get("default"));
    for (tag, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        message.float(tag, found.get(name));
    }
    for (tag, name) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        message.truth(tag, found.get(name));
    }
    let sizes = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (tag, name) in sizes {
        message.integer(tag, found.get(name));
    }
    message.texts(19, found.get("required"));
    for value in found.get("enum").and_then(Value::as_array).into_iter().flatten() {
        message.any(20, Some(value));
    }
    match found.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Message::default();
            item.varint(2 << 3);
            item.varint(u64::from(*allowed));
            message.part(21, &item);
        }
        Some(inner) => message.part(21, &one_of(1, &schema(inner, depth + 1))),
        None => {}
    }
    if found.get("type").is_some() {
        let mut types = Message::default();
        types.text(1, found.get("type"));
        message.part(22, &types);
    }
    if let Some(items) = found.get("items") {
        message.part(23, &one_of(1, &schema(items, depth + 1)));
    }
    if found.get("properties").is_some() {
        message.part(25, &schemas(found.get("properties"), depth + 1));
    }
    message.extensions(31, found);
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_tags_and_lengths() {
        let message = document(&json!({"swagger": "2.0", "info": {"title": "T", "version": "v"},
            "paths": {}, "definitions": {"a": {"type": "string", "x-b": 1}}}));
        let wanted: &[&[u8]] = &[
            b"\x0a\x032.0",
            b"\x12\x06\x0a\x01T\x12\x01v",
            b"\x42\x00",
            // definitions { additional_properties { name: "a" value { type vendor_extension } } }
            b"\x4a\x1f\x0a\x1d\x0a\x01a\x12\x18",
            b"\xb2\x01\x08\x0a\x06string",
            b"\xfa\x01\x0a\x0a\x03x-b\x12\x03\x12\x011",
        ];
        assert_eq!(message, wanted.concat());
    }

    #[test]
    fn large_numbers_take_several_bytes() {
        let mut message = Message::default();
        message.varint(300);
        assert_eq!(message.bytes, [0xac, 0x02]);
    }
}
