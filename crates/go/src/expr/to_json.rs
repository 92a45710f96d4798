//! `toJSON`: what `encoding/json` writes with an indent of two blanks.

use super::value::{MapType, Text};
use super::{Budget, Fault, Value};
use crate::{json, number};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const INDENT: &str = "  ";

/// Writes a value.
pub(super) fn to_json(value: &Value, budget: &mut Budget) -> Result<Text, Fault> {
    let mut out = String::new();
    write(&mut out, value, 0, budget)?;
    Ok(out.into())
}

fn push(out: &mut String, text: &str, budget: &mut Budget) -> Result<(), Fault> {
    budget.text(text.len())?;
    out.push_str(text);
    Ok(())
}

fn line(out: &mut String, depth: usize, budget: &mut Budget) -> Result<(), Fault> {
    push(out, "\n", budget)?;
    budget.text(INDENT.len() * depth)?;
    out.extend(std::iter::repeat_n(INDENT, depth));
    Ok(())
}

fn write(out: &mut String, value: &Value, depth: usize, budget: &mut Budget) -> Result<(), Fault> {
    match value {
        Value::Nil => push(out, "null", budget),
        Value::Bool(truth) => push(out, &truth.to_string(), budget),
        Value::Int(number) | Value::Int64(number) | Value::Duration(number) => {
            push(out, &number.to_string(), budget)
        }
        Value::Byte(byte) => push(out, &byte.to_string(), budget),
        Value::Month(number) | Value::Weekday(number) => push(out, &number.to_string(), budget),
        Value::Float(number) if number.is_finite() => push(out, &number::json(*number), budget),
        Value::Float(number) => {
            Err(Fault::Value(format!("json: unsupported value: {}", number::general(*number))))
        }
        Value::Text(text) => quoted(out, text.as_bytes(), budget),
        Value::Bytes(bytes) => quoted(out, STANDARD.encode(bytes.as_bytes()).as_bytes(), budget),
        Value::Time(time) => quoted(out, time.rfc_3339()?.as_bytes(), budget),
        // There is nothing in it for others.
        Value::Zone { .. } => push(out, "{}", budget),
        Value::List(list) if list.is_nil() => push(out, "null", budget),
        Value::Range(_) | Value::List(_) => {
            let len = value.len().unwrap_or(0);
            push(out, "[", budget)?;
            for index in 0..len {
                push(out, if index > 0 { "," } else { "" }, budget)?;
                line(out, depth + 1, budget)?;
                write(out, &value.item(index).unwrap_or(Value::Nil), depth + 1, budget)?;
            }
            if len > 0 {
                line(out, depth, budget)?;
            }
            push(out, "]", budget)
        }
        Value::Map(map) if map.map_type() != MapType::Texts => {
            Err(Fault::Value(format!("json: unsupported type: {}", value.go_type())))
        }
        Value::Map(map) => {
            push(out, "{", budget)?;
            for (index, (key, member)) in map.members().enumerate() {
                push(out, if index > 0 { "," } else { "" }, budget)?;
                line(out, depth + 1, budget)?;
                if let Value::Text(key) = &key {
                    quoted(out, key.as_bytes(), budget)?;
                }
                push(out, ": ", budget)?;
                write(out, member, depth + 1, budget)?;
            }
            if !map.is_empty() {
                line(out, depth, budget)?;
            }
            push(out, "}", budget)
        }
        Value::Object(object) => write(out, &object.shown(), depth, budget),
        Value::Function(_) => Err(Fault::Value("json: unsupported type: func".to_owned())),
    }
}

fn quoted(out: &mut String, text: &[u8], budget: &mut Budget) -> Result<(), Fault> {
    // An escape is six bytes at most.
    budget.text(text.len())?;
    let before = out.len();
    json::write_go_text(out, text);
    budget.text((out.len() - before).saturating_sub(text.len()))
}
