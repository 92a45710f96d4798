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
fn walk(
    value: &Value,
    of: Type<'_>,
    lenience: Lenience,
    path: &mut Vec<PathElement>,
) -> Result<(), &'static str> {
    match of.atom(Some(value)) {
        _ if value.is_null() => Ok(()),
        Atom::Scalar(scalar) => match (scalar, value) {
            (Scalar::Number | Scalar::Any, Value::Number(_))
            | (Scalar::Text | Scalar::Any, Value::String(_))
            | (Scalar::Bool | Scalar::Any, Value::Bool(_)) => Ok(()),
            (Scalar::Number, _) => Err("expected a number"),
            (Scalar::Text, _) => Err("expected a text"),
            (Scalar::Bool, _) => Err("expected true or false"),
            (Scalar::Any, _) => Err("expected a scalar"),
        },
        Atom::List(list) => {
            let Value::Array(items) = value else { return Err("expected a list") };
            walk_items(items, &list, lenience, path)
        }
        Atom::Map(map) => {
            let Value::Object(members) = value else { return Err("expected a map") };
            walk_members(members, &map, lenience, path)
        }
    }
}

fn walk_items(
    items: &[Value],
    list: &ListType<'_>,
    lenience: Lenience,
    path: &mut Vec<PathElement>,
) -> Result<(), &'static str> {
    let mut seen = BTreeSet::new();
    for (item, index) in items.iter().zip(0..) {
        let step = if list.items.is_atomic() {
            PathElement::Index(index)
        } else {
            let element = element(list, item)?;
            if !seen.insert(element.clone()) && !lenience.duplicates {
                path.push(element);
                return Err("the list has two entries for this key");
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
) -> Result<(), &'static str> {
    for (name, member) in members {
        path.push(PathElement::Field(name.into()));
        if !lenience.unknown && !map.is_open() && !map.declares(name) {
            return Err("the type has no such field");
        }
        walk(member, map.member(name), lenience, path)?;
        path.pop();
    }
    Ok(())
}
