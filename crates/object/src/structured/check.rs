//! Whether a value is one of its type.

use std::collections::BTreeSet;

use serde_json::Value;

use super::StructuredError;
use super::items::element;
use super::schema::{Atom, ListType, MapType, Scalar, Type};
use crate::fields::PathElement;

/// What a check lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lenience {
    /// Two items of a list with one identity.
    pub(super) duplicates: bool,
    /// Members that the type does not know.
    pub(super) unknown: bool,
}

/// Refuses a value that is not of the type.
pub(super) fn check(value: &Value, of: Type<'_>, lenience: Lenience) -> Result<(), StructuredError> {
    let mut path = Vec::new();
    walk(value, of, lenience, &mut path)
        .map_err(|why| StructuredError::Invalid { path: path.iter().map(PathElement::shown).collect(), why })
}

/// On failure the path leads to the value at fault.
fn walk(value: &Value, of: Type<'_>, lenience: Lenience, path: &mut Vec<PathElement>) -> Result<(), String> {
    match of.atom(Some(value)) {
        _ if value.is_null() => Ok(()),
        Atom::Scalar(scalar) => match (scalar, value) {
            (Scalar::Number | Scalar::Any, Value::Number(_))
            | (Scalar::Text | Scalar::Any, Value::String(_))
            | (Scalar::Bool | Scalar::Any, Value::Bool(_)) => Ok(()),
            (Scalar::Number, _) => Err(format!("expected numeric (int or float), got {}", go_type(value))),
            (Scalar::Text, _) => {
                let shown = go_literal(value);
                Err(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}"))
            }
            (Scalar::Bool, _) => Err(format!("expected boolean, got &{{{}}}", go_text(value))),
            (Scalar::Any, _) => Err(format!("expected any scalar, got &{{{}}}", go_text(value))),
        },
        Atom::List(list) => {
            let Value::Array(items) = value else {
                return Err(format!("expected list, got &{{{}}}", go_text(value)));
            };
            walk_items(items, &list, lenience, path)
        }
        Atom::Map(map) => {
            let Value::Object(members) = value else {
                return Err(format!("expected map, got &{{{}}}", go_text(value)));
            };
            walk_members(members, &map, lenience, path)
        }
    }
}

fn walk_items(
    items: &[Value],
    list: &ListType<'_>,
    lenience: Lenience,
    path: &mut Vec<PathElement>,
) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (item, index) in items.iter().zip(0..) {
        let step = if list.items.is_atomic() {
            PathElement::Index(index)
        } else {
            let element = element(list, item).map_err(|why| format!("element {index}: {why}"))?;
            if !seen.insert(element.clone()) && !lenience.duplicates {
                return Err(format!("duplicate entries for key {}", element.shown()));
            }
            element
        };
        path.push(step);
        walk(item, list.item, lenience, path)?;
        path.pop();
    }
    Ok(())
}

fn walk_members(
    members: &serde_json::Map<String, Value>,
    map: &MapType<'_>,
    lenience: Lenience,
    path: &mut Vec<PathElement>,
) -> Result<(), String> {
    for (name, member) in members {
        path.push(PathElement::Field(name.into()));
        if !lenience.unknown && !map.is_open() && !map.declares(name) {
            return Err("field not declared in schema".to_owned());
        }
        walk(member, map.member(name), lenience, path)?;
        path.pop();
    }
    Ok(())
}

/// A value as Go prints it among others.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let mut shown: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            shown.sort_unstable();
            format!("map[{}]", shown.join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// A value as Go source has it.
fn go_literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let mut shown: Vec<String> =
                members.iter().map(|(name, value)| format!("{name:?}:{}", go_literal(value))).collect();
            shown.sort_unstable();
            format!("map[string]interface {{}}{{{}}}", shown.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// The Go type that a decoder makes of a value, as `%T` prints it.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
