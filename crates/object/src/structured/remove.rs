//! A value without some of its fields.

use serde_json::{Map, Value};

use super::items::element;
use super::schema::{Atom, ListType, MapType, Type};
use crate::fields::{FieldSet, PathElement};

/// `value` without the paths of `fields`. What is one value goes as a whole; of a map or a list that loses all it
/// had, null stays.
pub(super) fn remove(value: Value, fields: &FieldSet, of: Type<'_>) -> Value {
    if fields.is_empty() {
        return value;
    }
    match (of.atom(Some(&value)), value) {
        (Atom::Scalar(_), value) => value,
        (Atom::List(list), Value::Array(items)) if !list.items.is_atomic() => {
            remove_items(items, fields, &list)
        }
        (Atom::Map(map), Value::Object(members)) if !map.is_atomic => remove_members(members, fields, &map),
        (Atom::List(_) | Atom::Map(_), _) => Value::Null,
    }
}

fn remove_items(items: Vec<Value>, fields: &FieldSet, list: &ListType<'_>) -> Value {
    let kept = items.into_iter().filter_map(|item| match element(list, &item) {
        Ok(element) if fields.members.contains(&element) => None,
        Ok(element) => Some(below(item, &element, fields, list.item)),
        Err(_) => Some(item),
    });
    let kept: Vec<Value> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}

fn remove_members(members: Map<String, Value>, fields: &FieldSet, map: &MapType<'_>) -> Value {
    let kept = members.into_iter().filter_map(|(name, value)| {
        let element = PathElement::Field(name.as_str().into());
        if fields.members.contains(&element) {
            return None;
        }
        let value = below(value, &element, fields, map.member(&name));
        Some((name, value))
    });
    let kept: Map<String, Value> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

fn below(value: Value, element: &PathElement, fields: &FieldSet, of: Type<'_>) -> Value {
    match fields.children.get(element) {
        Some(fields) => remove(value, fields, of),
        None => value,
    }
}
