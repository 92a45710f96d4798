//! Maps.

use super::{DEPTH_MAX, Key, Text, Value};
use crate::expr::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An immutable map. Where Go shuffles, members come in the order of their keys.
#[derive(Debug, Clone)]
pub struct Map(Arc<Members>);

#[derive(Debug)]
struct Members {
    /// Lists and maps inside each other, this one included.
    depth: usize,
    kind: Kind,
}

/// The types of maps.
#[derive(Debug)]
enum Kind {
    /// `map[string]any`.
    Texts(BTreeMap<Text, Value>),
    /// `map[any]any`.
    Any(BTreeMap<Key, Value>),
    /// `map[any][]any`, what grouping makes.
    Groups(BTreeMap<Key, Value>),
}

/// What Go takes a map for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapType {
    Texts,
    Any,
    Groups,
}

impl Map {
    /// A map whose keys are texts.
    ///
    /// # Errors
    /// When it would be nested too deeply.
    pub fn new(members: BTreeMap<Text, Value>) -> Result<Self, Fault> {
        let depth = depth(members.values())?;
        Ok(Self(Arc::new(Members { depth, kind: Kind::Texts(members) })))
    }

    /// A map of any keys.
    pub(crate) fn of_any(members: BTreeMap<Key, Value>) -> Result<Self, Fault> {
        let depth = depth(members.values())?;
        Ok(Self(Arc::new(Members { depth, kind: Kind::Any(members) })))
    }

    /// A map from any key to a list.
    pub(crate) fn of_groups(members: BTreeMap<Key, Value>) -> Result<Self, Fault> {
        let depth = depth(members.values())?;
        Ok(Self(Arc::new(Members { depth, kind: Kind::Groups(members) })))
    }

    pub(crate) fn map_type(&self) -> MapType {
        match self.0.kind {
            Kind::Texts(_) => MapType::Texts,
            Kind::Any(_) => MapType::Any,
            Kind::Groups(_) => MapType::Groups,
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.0.kind {
            Kind::Texts(members) => members.len(),
            Kind::Any(members) | Kind::Groups(members) => members.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member of a text.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match &self.0.kind {
            Kind::Texts(members) => members.get(key.as_bytes()),
            Kind::Any(members) | Kind::Groups(members) => members.get(&Key::Text(key.into())),
        }
    }

    /// The member of a key. Nil stands for the empty text where keys are texts.
    ///
    /// # Errors
    /// When no such key can be there.
    pub(crate) fn look_up(&self, key: &Value) -> Result<Option<&Value>, Fault> {
        match (&self.0.kind, key) {
            (Kind::Texts(members), Value::Nil) => Ok(members.get(b"".as_slice())),
            (Kind::Texts(members), Value::Text(key)) => Ok(members.get(key)),
            (Kind::Texts(_), _) => Err(Fault::Value(format!(
                "reflect.Value.MapIndex: value of type {} is not assignable to type string",
                key.go_type()
            ))),
            (Kind::Any(members) | Kind::Groups(members), _) => Ok(members.get(&Key::of(key)?)),
        }
    }

    /// All members, in the order of their keys.
    pub fn members(&self) -> Box<dyn Iterator<Item = (Value, &Value)> + '_> {
        match &self.0.kind {
            Kind::Texts(members) => {
                Box::new(members.iter().map(|(key, value)| (Value::Text(key.clone()), value)))
            }
            Kind::Any(members) | Kind::Groups(members) => {
                Box::new(members.iter().map(|(key, value)| (key.to_value(), value)))
            }
        }
    }

    /// The members of a map whose keys are texts.
    pub(crate) fn texts(&self) -> Option<&BTreeMap<Text, Value>> {
        match &self.0.kind {
            Kind::Texts(members) => Some(members),
            Kind::Any(_) | Kind::Groups(_) => None,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.0.depth
    }

    /// Whether both are the same map in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn depth<'v>(values: impl Iterator<Item = &'v Value>) -> Result<usize, Fault> {
    let depth = 1 + values.map(Value::depth).max().unwrap_or(0);
    if depth > DEPTH_MAX { Err(Fault::Depth) } else { Ok(depth) }
}
