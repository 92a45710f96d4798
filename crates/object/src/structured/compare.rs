//! Which fields differ between two values of one type.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::items::elements;
use super::schema::{Atom, ListType, Type};
use crate::fields::{FieldSet, PathElement, compare_values};

/// Fields of the second value that the first has not, has otherwise, and the other way round.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Compares two values.
pub(super) fn compare(before: &Value, after: &Value, of: Type<'_>) -> Comparison {
    let mut walk = Walk::default();
    walk.node(Some(before), Some(after), of);
    walk.found
}

/// Whether two values are equal, numbers by value.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    compare_values(a, b) == Ordering::Equal
}

#[derive(Default)]
struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk {
    /// At least one side is there.
    fn node(&mut self, before: Option<&Value>, after: Option<&Value>, of: Type<'_>) {
        let (atom_before, atom_after) = (of.atom(before), of.atom(after));
        let is_leaf = match (before, after) {
            (_, None) => self.by(atom_before, before, after),
            (None, Some(_)) => self.by(atom_after, before, after),
            // Only a deduced type is something else for each of the two values.
            (Some(_), Some(_)) => {
                if std::mem::discriminant(&atom_before) != std::mem::discriminant(&atom_after) {
                    self.by(atom_before, before, after);
                }
                self.by(atom_after, before, after)
            }
        };
        if !is_leaf {
            match (before, after) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                (Some(_), Some(_)) => {}
            }
        }
    }

    /// Compares as one kind of value; says whether both were looked at as a whole.
    fn by(&mut self, atom: Atom<'_>, before: Option<&Value>, after: Option<&Value>) -> bool {
        match atom {
            Atom::Scalar(_) => self.leaf(before, after),
            Atom::List(list) => {
                let items =
                    |side: Option<&'_ Value>| side.and_then(Value::as_array).is_none_or(Vec::is_empty);
                if list.items.is_atomic() || (items(before) && items(after)) {
                    return self.leaf(before, after);
                }
                self.items(before, after, &list);
                false
            }
            Atom::Map(map) => {
                let (before_map, after_map) =
                    (before.and_then(Value::as_object), after.and_then(Value::as_object));
                let is_empty = |side: Option<&serde_json::Map<String, Value>>| {
                    side.is_none_or(serde_json::Map::is_empty)
                };
                if map.is_atomic || (is_empty(before_map) && is_empty(after_map)) {
                    return self.leaf(before, after);
                }
                let only_after = after_map
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| !before_map.is_some_and(|before| before.contains_key(name.as_str())))
                    .map(|(name, value)| (name, None, Some(value)));
                let in_before = before_map
                    .into_iter()
                    .flatten()
                    .map(|(name, value)| (name, Some(value), after_map.and_then(|after| after.get(name))));
                for (name, before, after) in in_before.chain(only_after) {
                    self.path.push(PathElement::Field(name.as_str().into()));
                    self.node(before, after, map.member(name));
                    self.path.pop();
                }
                false
            }
        }
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(before), Some(after)) if !is_same(before, after) => self.found.modified.insert(&self.path),
            (Some(_), Some(_)) => {}
        }
        true
    }

    fn items(&mut self, before: Option<&Value>, after: Option<&Value>, list: &ListType<'_>) {
        let mut found: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (element, item) in elements(list, before.and_then(Value::as_array).map_or(&[], Vec::as_slice)) {
            found.entry(element).or_default().0.push(item);
        }
        for (element, item) in elements(list, after.and_then(Value::as_array).map_or(&[], Vec::as_slice)) {
            found.entry(element).or_default().1.push(item);
        }
        for (element, (before, after)) in found {
            self.path.push(element);
            match (before.as_slice(), after.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.node(before.first().copied(), after.first().copied(), list.item);
                }
                // An identity that is there twice is one value.
                ([_, _, ..], [_, _, ..]) => {
                    let is_same = before.len() == after.len()
                        && before.iter().zip(&after).all(|(before, after)| is_same(before, after));
                    if !is_same {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], rest) => {
                    if let [item] = rest {
                        self.node(None, Some(item), list.item);
                    }
                    self.found.removed.insert(&self.path);
                }
                (rest, [_, _, ..]) => {
                    if let [item] = rest {
                        self.node(Some(item), None, list.item);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}
