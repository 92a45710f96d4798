//! The suffix kustomize gives to the names of generated `ConfigMaps` and Secrets, as `kustomize/api/hasher` 0.21
//! computes it: ten letters of a SHA-256 over what the object says.
//!
//! Of every other kind the original hashes its own parse tree with all columns, so that the answer depends on
//! how the object was written. Here it is taken as JSON with sorted members, ASCII only, a blank behind every
//! comma and colon.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tiphys_go::json::to_string_go;

/// Why an object has no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a text has the character {0:?}, which does not fit into one escape: found invalid Unicode character escape code"
)]
pub struct NameHashError(char);

/// The ten letters, without the hyphen before them.
///
/// # Errors
/// When a text has characters outside of the basic plane: their escapes cannot be read by the original.
pub fn name_hash(object: &Value) -> Result<String, NameHashError> {
    if let Some(found) = outside_of_plane(object) {
        return Err(NameHashError(found));
    }
    Ok(letters(&content_text(object).unwrap_or_else(|| tree(object))))
}

/// The same for an object that is made of nodes and not of JSON: its texts may have any characters. `None` for kinds
/// that the original hashes by how their parse tree was written.
pub(crate) fn content_hash(object: &Value) -> Option<String> {
    content_text(object).map(|text| letters(&text))
}

fn content_text(object: &Value) -> Option<String> {
    match object.get("kind").and_then(Value::as_str) {
        Some("ConfigMap") => Some(content(object, "ConfigMap", &[], "binaryData")),
        Some("Secret") => Some(content(object, "Secret", &["type"], "stringData")),
        _ => None,
    }
}

fn letters(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let letter = |nibble: u8| match nibble {
        0 => 'g',
        1 => 'h',
        3 => 'k',
        10 => 'm',
        14 => 't',
        digit => char::from_digit(u32::from(digit), 16).unwrap_or('?'),
    };
    digest.iter().take(5).flat_map(|byte| [letter(byte >> 4), letter(byte & 15)]).collect()
}

fn outside_of_plane(value: &Value) -> Option<char> {
    let in_text = |text: &str| text.chars().find(|c| u32::from(*c) > 0xFFFF);
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().find_map(outside_of_plane),
        Value::Object(map) => {
            map.iter().find_map(|(key, value)| in_text(key).or_else(|| outside_of_plane(value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// What of a `ConfigMap` or Secret counts. Its name does not: the original looks for it in the wrong place.
fn content(object: &Value, kind: &str, more: &[&str], optional: &str) -> String {
    let mut map = Map::new();
    map.insert("kind".to_owned(), kind.into());
    map.insert("name".to_owned(), part(object, "metadata/name"));
    for name in more.iter().chain(&["data"]) {
        map.insert((*name).to_owned(), part(object, name));
    }
    match object.get(optional) {
        Some(Value::Object(_)) => {
            map.insert(optional.to_owned(), part(object, optional));
        }
        Some(Value::Array(_)) => {
            map.insert(optional.to_owned(), Value::Null);
        }
        _ => {}
    }
    to_string_go(&Value::Object(map))
}

/// A member as the original reads it: scalars as text, lists as nothing.
fn part(object: &Value, name: &str) -> Value {
    match object.get(name) {
        None => "".into(),
        Some(Value::Array(_)) => Value::Null,
        Some(Value::Object(map)) => Value::Object(map.clone()),
        Some(Value::String(text)) => text.as_str().into(),
        Some(scalar @ (Value::Null | Value::Bool(_) | Value::Number(_))) => scalar.to_string().into(),
    }
}

/// The parse tree of the object's text, as JSON.
fn tree(object: &Value) -> String {
    let mut text = String::new();
    write_node(object, &mut 1, &mut text);
    text
}

/// Writes one node and moves the column behind it.
fn write_node(value: &Value, column: &mut usize, out: &mut String) {
    let start = *column;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => String::new(),
    };
    let (kind, style, tag) = match value {
        Value::Object(_) => (4, 32, "!!map"),
        Value::Array(_) => (2, 32, "!!seq"),
        Value::String(_) => (8, 2, "!!str"),
        Value::Null => (8, 0, "!!null"),
        Value::Bool(_) => (8, 0, "!!bool"),
        Value::Number(_) if text.contains(['.', 'e', 'E']) => (8, 0, "!!float"),
        Value::Number(_) => (8, 0, "!!int"),
    };
    let shown = to_string_go(&Value::String(text.clone()));
    // Writing to a text cannot fail.
    let _ = write!(
        out,
        r#"{{"Kind":{kind},"Style":{style},"Tag":"{tag}","Value":{shown},"Anchor":"","Alias":null,"Content":"#
    );
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (place, (key, value)) in map.iter().enumerate() {
                // A brace before the first member, a comma and a blank before the others.
                *column += if place > 0 { 2 } else { 1 };
                out.push(if place > 0 { ',' } else { '[' });
                write_node(&Value::String(key.clone()), column, out);
                *column += 2;
                out.push(',');
                write_node(value, column, out);
            }
            *column += 1;
            out.push(']');
        }
        Value::Array(items) if !items.is_empty() => {
            for (place, item) in items.iter().enumerate() {
                *column += if place > 0 { 2 } else { 1 };
                out.push(if place > 0 { ',' } else { '[' });
                write_node(item, column, out);
            }
            *column += 1;
            out.push(']');
        }
        Value::Object(_) | Value::Array(_) => {
            *column += 2;
            out.push_str("null");
        }
        Value::String(text) => {
            *column += 2 + text.chars().map(written_length).sum::<usize>();
            out.push_str("null");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *column += text.len();
            out.push_str("null");
        }
    }
    let _ = write!(out, r#","HeadComment":"","LineComment":"","FootComment":"","Line":1,"Column":{start}}}"#);
}

/// Columns a character of a JSON text takes.
fn written_length(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        ' '..='\u{7f}' => 1,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn eval_775_a_name_does_not_change_the_hash() {
        let of = |name: &str| {
            name_hash(&json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}))
        };
        assert_eq!(of("c").unwrap(), "h29d89cmmt");
        assert_eq!(of("d").unwrap(), "h29d89cmmt");
    }

    #[test]
    fn eval_775_other_kinds_are_hashed_as_they_are_written() {
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d"}});
        assert_eq!(name_hash(&object).unwrap(), "2hkkm7ff2g");
    }
}
