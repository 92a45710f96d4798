//! Sets of fields, as `metadata.managedFields` records them.
//!
//! A [`FieldSet`] is a tree of [`PathElement`]s; a path is in the set when its last element is a member of its
//! node. Owning a field says nothing about the fields below it. [`FieldSet::parse`] and [`FieldSet::to_value`]
//! read and write the `FieldsV1` form of the Kubernetes API.

mod element;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

pub(crate) use element::compare as compare_values;
pub use element::{ItemValue, PathElement};

/// Nesting of a record that is read.
const DEPTH_MAX: usize = 128;

/// A `FieldsV1` document that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of fields is malformed at {at:?}")]
pub struct FieldsError {
    /// The member that could not be read.
    pub at: String,
}

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(crate) members: BTreeSet<PathElement>,
    /// No set in here is empty.
    pub(crate) children: BTreeMap<PathElement, Self>,
}

impl FieldSet {
    /// Reads the `FieldsV1` form. Members of a kind that is not known are left out.
    pub fn parse(value: &Value) -> Result<Self, FieldsError> {
        let Value::Object(map) = value else { return Err(FieldsError { at: String::new() }) };
        Ok(Self::parse_node(map, DEPTH_MAX)?.0)
    }

    /// The set of one node and whether the node itself is a member.
    fn parse_node(map: &Map<String, Value>, depth: usize) -> Result<(Self, bool), FieldsError> {
        let mut set = Self::default();
        let mut is_member = map.is_empty();
        for (key, below) in map {
            if key == "." {
                is_member = true;
                continue;
            }
            let fault = || FieldsError { at: key.clone() };
            let Some(element) = PathElement::parse(key).map_err(|_malformed| fault())? else { continue };
            let nothing = Map::new();
            let below = match below {
                Value::Object(below) => below,
                // Go reads it as nothing below.
                Value::Null => &nothing,
                _ => return Err(fault()),
            };
            let depth = depth.checked_sub(1).ok_or_else(fault)?;
            let (child, is_child_member) = Self::parse_node(below, depth)?;
            if !child.is_empty() {
                set.children.insert(element.clone(), child);
            }
            if is_child_member {
                set.members.insert(element);
            }
        }
        Ok((set, is_member))
    }

    /// The `FieldsV1` form.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for element in &self.members {
            map.insert(element.to_string(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            let mut below = child.to_value();
            if let (true, Value::Object(below)) = (self.members.contains(element), &mut below) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.to_string(), below);
        }
        Value::Object(map)
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Adds a path. The empty path stands for the whole object, which nobody owns.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Puts a set below an element; an empty one leaves no trace.
    pub(crate) fn put(&mut self, element: PathElement, child: Self) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    /// Paths of either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.members.extend(other.members.iter().cloned());
        for (element, theirs) in &other.children {
            let ours = self.children.remove(element).unwrap_or_default();
            self.children.insert(element.clone(), ours.union(theirs));
        }
        self
    }

    /// Paths of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                both.put(element.clone(), ours.intersection(theirs));
            }
        }
        both
    }

    /// Paths of this set that the other has not. A path stays when only paths below it are taken away.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            let ours =
                other.children.get(element).map_or_else(|| ours.clone(), |theirs| ours.difference(theirs));
            rest.put(element.clone(), ours);
        }
        rest
    }

    /// Whether the other set has every path of this one.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.members.is_subset(&other.members)
            && self.children.iter().all(|(element, ours)| {
                other.children.get(element).is_some_and(|theirs| ours.is_subset(theirs))
            })
    }

    /// Every path, as it is shown to people: `.spec.ports[port=80,protocol="TCP"].name`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        paths.extend(self.members.iter().map(|element| format!("{prefix}{}", element.shown())));
        for (element, child) in &self.children {
            child.collect(&format!("{prefix}{}", element.shown()), paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: &Value) -> FieldSet {
        FieldSet::parse(value).unwrap()
    }

    #[test]
    fn eng_85_records_of_fields_are_read_and_written() {
        let value = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"a<b\"": {}}, "f:labels": {"f:x/y": {}}},
            "f:spec": {"f:args": {"i:0": {}}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}});
        let read = set(&value);
        let again = read.to_value();
        assert_eq!(set(&again), read);
        assert_eq!(again["f:metadata"]["f:finalizers"], json!({".": {}, "v:\"a\\u003cb\"": {}}));
        assert_eq!(
            read.paths(),
            [
                ".metadata.finalizers",
                ".metadata.finalizers[=\"a<b\"]",
                ".metadata.labels.x/y",
                ".spec.args[0]",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].name",
            ]
        );
        assert_eq!(set(&json!({"f:a": {"x:unknown": {}}})), FieldSet::default());
        assert_eq!(set(&json!({"f:a": {"f:b": null}})), set(&json!({"f:a": {"f:b": {}}})));
        for malformed in
            [json!([]), json!({"f:a": 1}), json!({"k:{": {}}), json!({"fa": {}}), json!({"i:x": {}})]
        {
            assert!(FieldSet::parse(&malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn eng_85_sets_of_fields_are_sets() {
        let a = set(&json!({"f:x": {".": {}, "f:a": {}, "f:b": {}}, "f:y": {}}));
        let b = set(&json!({"f:x": {"f:b": {}, "f:c": {}}}));
        assert_eq!(a.difference(&b), set(&json!({"f:x": {".": {}, "f:a": {}}, "f:y": {}})));
        assert_eq!(a.intersection(&b), set(&json!({"f:x": {"f:b": {}}})));
        assert_eq!(
            a.clone().union(&b),
            set(&json!({"f:x": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}, "f:y": {}}))
        );
        assert!(a.intersection(&b).is_subset(&b) && !a.is_subset(&b));
        assert!(a.difference(&a).is_empty());
    }
}
