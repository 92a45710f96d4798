//! The writers: `encoding/json` and `%v`.

use crate::number;
use serde_json::{Number, Value};
use std::fmt::Write as _;

/// Writes a value as `encoding/json` does: compact, keys sorted, `<`, `>`, `&`, U+2028 and U+2029 escaped.
pub fn to_string_go(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value, true);
    out
}

/// Writes a value as `encoding/json` does with `SetEscapeHTML(false)`: `<`, `>` and `&` stay.
pub fn to_string_unescaped(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value, false);
    out
}

/// Prints a value as `fmt`'s `%v` does: `map[a:1 b:[1 2]]`, `1e+06`, `<nil>`.
pub fn print_go(value: &Value) -> String {
    let mut out = String::new();
    write_printed(&mut out, value);
    out
}

/// Spells a number as `encoding/json` does.
pub(crate) fn number_json(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => number::json(float),
        _ => number.to_string(),
    }
}

fn write_json(out: &mut String, value: &Value, html: bool) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_json(number)),
        Value::String(text) => write_text(out, text, html),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item, html);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(out, key, html);
                out.push(':');
                write_json(out, member, html);
            }
            out.push('}');
        }
    }
}

/// Writes a text of bytes as `encoding/json` does: each that is no UTF-8 as an escape.
pub(crate) fn write_go_text(out: &mut String, text: &[u8]) {
    out.push('"');
    for chunk in text.utf8_chunks() {
        escape_text(out, chunk.valid(), true);
        out.extend(chunk.invalid().iter().map(|_| "\\ufffd"));
    }
    out.push('"');
}

fn write_text(out: &mut String, text: &str, html: bool) {
    out.push('"');
    escape_text(out, text, html);
    out.push('"');
}

/// Writes what stands between the quotes of a text.
pub(crate) fn escape_text(out: &mut String, text: &str, html: bool) {
    let mut copied = 0;
    for (index, character) in text.char_indices() {
        let escape = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '<' if html => "\\u003c",
            '>' if html => "\\u003e",
            '&' if html => "\\u0026",
            '\u{2028}' => "\\u2028",
            '\u{2029}' => "\\u2029",
            '\0'..='\u{1f}' => "",
            _ => continue,
        };
        out.push_str(text.get(copied..index).unwrap_or_default());
        if escape.is_empty() {
            // Writing to a string cannot fail.
            let _written = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push_str(escape);
        }
        copied = index + character.len_utf8();
    }
    out.push_str(text.get(copied..).unwrap_or_default());
}

fn write_printed(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&number::general(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write_printed(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push_str("map[");
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_printed(out, member);
            }
            out.push(']');
        }
    }
}
