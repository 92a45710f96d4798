//! Which fields a value has, and sets of fields brought in line with a type.

use std::collections::BTreeSet;

use serde_json::Value;

use super::items::elements;
use super::schema::{Atom, ListType, Type};
use crate::fields::{FieldSet, PathElement};

/// The fields of a value: its leaves, the items of its lists, and members that its type does not name.
pub(super) fn fields(value: &Value, of: Type<'_>) -> FieldSet {
    node(value, of).0
}

/// The fields below a value, and whether the value itself is one.
fn node(value: &Value, of: Type<'_>) -> (FieldSet, bool) {
    let mut set = FieldSet::default();
    match (of.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => return (set, true),
        (Atom::List(list), _) if list.items.is_atomic() => return (set, true),
        (Atom::Map(map), _) if map.is_atomic => return (set, true),
        (Atom::List(list), Value::Array(items)) => add_items(&mut set, items, &list),
        (Atom::Map(map), Value::Object(members)) => {
            for (name, member) in members {
                let element = PathElement::Field(name.as_str().into());
                let (below, is_field) = node(member, map.member(name));
                let is_empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                set.put(element.clone(), below);
                if is_field || is_empty || !map.declares(name) {
                    set.members.insert(element);
                }
            }
        }
        (Atom::List(_) | Atom::Map(_), _) => {}
    }
    (set, false)
}

/// Of items that are there twice, only the identity counts.
fn add_items(set: &mut FieldSet, items: &[Value], list: &ListType<'_>) {
    let mut twice = BTreeSet::new();
    for (element, item) in elements(list, items) {
        if set.members.contains(&element) {
            twice.insert(element);
        } else {
            set.put(element.clone(), node(item, list.item).0);
            set.members.insert(element);
        }
    }
    for element in twice {
        set.children.remove(&element);
    }
}

/// The set with every named member that has fields below it. Owners of fields rarely own the structs around
/// them; who removes a field may remove those.
pub(super) fn with_named(set: &FieldSet, of: Option<Type<'_>>) -> FieldSet {
    let mut named = FieldSet { members: set.members.clone(), ..FieldSet::default() };
    let atom = of.map(|of| of.atom(None));
    for (element, below) in &set.children {
        let inner = match (element, &atom) {
            (PathElement::Field(name), Some(Atom::Map(map))) => {
                if map.declares(name) {
                    named.members.insert(element.clone());
                }
                Some(map.member(name))
            }
            (PathElement::Key(_), Some(Atom::List(list))) => Some(list.item),
            _ => None,
        };
        named.put(element.clone(), with_named(below, inner));
    }
    named
}

/// A set recorded when the type was finer: who owned a part of what is one value now owns that value.
pub(super) fn reconciled(set: FieldSet, of: Type<'_>) -> FieldSet {
    if of.is_deduced() {
        return set;
    }
    let atom = of.atom(None);
    let mut result = FieldSet { members: set.members, ..FieldSet::default() };
    for (element, below) in set.children {
        let inner = match (&element, &atom) {
            (PathElement::Field(name), Atom::Map(map)) if map.declares(name) || map.is_open() => {
                Some(map.member(name))
            }
            (_, Atom::List(list)) => Some(list.item),
            _ => None,
        };
        match inner.map(|inner| (inner, inner.atom(None))) {
            Some((inner, _)) if inner.is_deduced() => result.put(element, below),
            Some((_, Atom::List(list))) if list.items.is_atomic() => {
                result.members.insert(element);
            }
            Some((_, Atom::Map(map))) if map.is_atomic => {
                result.members.insert(element);
            }
            Some((inner, _)) => result.put(element, reconciled(below, inner)),
            None => result.put(element, below),
        }
    }
    result
}
