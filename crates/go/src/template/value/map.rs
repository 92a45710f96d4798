//! Maps from text, shared by reference.

use super::text::Text;
use super::types::MapType;
use super::{Value, release};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// A map whose keys are texts. Copies are references: who sets a member is seen by everybody.
///
/// Members are in the order of their keys' bytes, the order in which Go ranges over maps and prints them.
#[derive(Clone)]
pub struct Map {
    map_type: &'static MapType,
    /// The nil map has none.
    members: Option<Rc<Shared>>,
}

struct Shared {
    members: RefCell<Members>,
    /// Somebody has written down that this map has to be emptied at the end.
    listed: Cell<bool>,
}

/// A map that is emptied when a run ends, see [`Map::emptied_later`].
pub(crate) struct Emptied(Weak<Shared>);

impl Drop for Emptied {
    fn drop(&mut self) {
        let Some(shared) = self.0.upgrade() else { return };
        let members = std::mem::replace(&mut *shared.members.borrow_mut(), Members::Few(Vec::new()));
        drop(members);
    }
}

/// A sorted list is faster and smaller than a tree as long as it is short.
enum Members {
    Few(Vec<(Text, Value)>),
    Many(BTreeMap<Text, Value>),
}

/// From this many members on they are kept in a tree.
const FEW_MAX: usize = 256;

impl Map {
    /// An empty `map[string]interface {}`.
    pub fn new() -> Self {
        Self::typed(&MapType::ANY)
    }

    /// An empty map of a type.
    pub fn typed(map_type: &'static MapType) -> Self {
        Self { map_type, members: Some(Shared::new(Members::Few(Vec::new()))) }
    }

    /// The nil map of a type: reading finds nothing, setting fails.
    pub fn nil(map_type: &'static MapType) -> Self {
        Self { map_type, members: None }
    }

    /// A map of members whose keys come in order, none twice.
    pub(crate) fn from_sorted(map_type: &'static MapType, members: Vec<(Text, Value)>) -> Self {
        let members = if members.len() > FEW_MAX {
            Members::Many(members.into_iter().collect())
        } else {
            Members::Few(members)
        };
        Self { map_type, members: Some(Shared::new(members)) }
    }

    /// The type.
    pub fn map_type(&self) -> &'static MapType {
        self.map_type
    }

    /// Whether it is the nil map.
    pub fn is_nil(&self) -> bool {
        self.members.is_none()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.as_ref().map_or(0, |shared| shared.members.borrow().len())
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        match &*self.members.as_ref()?.members.borrow() {
            Members::Few(members) => {
                let at = members.binary_search_by(|(name, _)| name.as_bytes().cmp(key)).ok()?;
                members.get(at).map(|(_, value)| value.clone())
            }
            Members::Many(members) => members.get(key).cloned(),
        }
    }

    /// Whether there is a member of this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.members.as_ref().is_some_and(|shared| match &*shared.members.borrow() {
            Members::Few(members) => members.binary_search_by(|(name, _)| name.as_bytes().cmp(key)).is_ok(),
            Members::Many(members) => members.contains_key(key),
        })
    }

    /// Sets a member; false when this is the nil map.
    pub fn set(&self, key: Text, value: Value) -> bool {
        let Some(shared) = &self.members else { return false };
        // What is replaced goes only after the map is no longer borrowed.
        let replaced = shared.members.borrow_mut().insert(key, value);
        drop(replaced);
        true
    }

    /// Removes a member.
    pub fn remove(&self, key: &[u8]) {
        let Some(shared) = &self.members else { return };
        let removed = match &mut *shared.members.borrow_mut() {
            Members::Few(members) => {
                let found = members.binary_search_by(|(name, _)| name.as_bytes().cmp(key));
                found.ok().map(|at| members.remove(at).1)
            }
            Members::Many(members) => members.remove(key),
        };
        drop(removed);
    }

    /// All members, in the order of their keys.
    pub fn members(&self) -> Vec<(Text, Value)> {
        match &self.members {
            None => Vec::new(),
            Some(shared) => match &*shared.members.borrow() {
                Members::Few(members) => members.clone(),
                Members::Many(members) => {
                    members.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
                }
            },
        }
    }

    /// All keys, in order.
    pub fn keys(&self) -> Vec<Text> {
        match &self.members {
            None => Vec::new(),
            Some(shared) => match &*shared.members.borrow() {
                Members::Few(members) => members.iter().map(|(key, _)| key.clone()).collect(),
                Members::Many(members) => members.keys().cloned().collect(),
            },
        }
    }

    /// The same members under another type that Go takes for the same, such as a named one.
    #[must_use]
    pub fn retyped(&self, map_type: &'static MapType) -> Self {
        Self { map_type, members: self.members.clone() }
    }

    /// Something that empties the map when it goes, once per map.
    ///
    /// A map that a template puts into itself would never go; every circle has such a map in it, because lists
    /// and new maps only hold what was there before them.
    pub(crate) fn emptied_later(&self) -> Option<Emptied> {
        let shared = self.members.as_ref()?;
        (!shared.listed.replace(true)).then(|| Emptied(Rc::downgrade(shared)))
    }

    /// Takes the values out if nobody else has the map.
    pub(super) fn take_unshared(&mut self) -> Vec<Value> {
        match self.members.as_mut().and_then(Rc::get_mut) {
            Some(shared) => shared.members.get_mut().take_values(),
            None => Vec::new(),
        }
    }

    /// Whether two are the same map.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.members, &other.members) {
            (Some(own), Some(others)) => Rc::ptr_eq(own, others),
            _ => false,
        }
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        let map = Self::new();
        for (key, value) in members {
            map.set(key.into(), value);
        }
        map
    }
}

impl Shared {
    fn new(members: Members) -> Rc<Self> {
        Rc::new(Self { members: RefCell::new(members), listed: Cell::new(false) })
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        release(self.take_values());
    }
}

impl Members {
    fn take_values(&mut self) -> Vec<Value> {
        match self {
            Self::Few(members) => std::mem::take(members).into_iter().map(|(_, value)| value).collect(),
            Self::Many(members) => std::mem::take(members).into_values().collect(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(members) => members.len(),
            Self::Many(members) => members.len(),
        }
    }

    /// Sets a member and hands back what it replaces.
    fn insert(&mut self, key: Text, value: Value) -> Option<Value> {
        match self {
            Self::Few(members) => {
                // Most maps are filled in order.
                if members.last().is_none_or(|(last, _)| *last < key) {
                    members.push((key, value));
                } else {
                    match members.binary_search_by(|(name, _)| name.cmp(&key)) {
                        Ok(at) => {
                            return members.get_mut(at).map(|(_, old)| std::mem::replace(old, value));
                        }
                        Err(at) => members.insert(at, (key, value)),
                    }
                }
                if members.len() > FEW_MAX {
                    *self = Self::Many(std::mem::take(members).into_iter().collect());
                }
                None
            }
            Self::Many(members) => members.insert(key, value),
        }
    }
}
