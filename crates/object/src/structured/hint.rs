//! What the books of an object tell about its type.
//!
//! Owners of fields record the items of a list by their identity, as the schema of the server says, and what is
//! one value without anything below. For kinds whose schema is not here, the records therefore say which lists are
//! keyed or sets, and by what, and which maps are one value.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::fields::{FieldSet, ItemValue, PathElement};

/// The shape of a value, as far as its owners recorded it.
#[derive(Debug, Default)]
pub(super) struct Hint {
    members: BTreeMap<SmolStr, Self>,
    /// Whether someone owns the value.
    is_owned: bool,
    pub(super) items: ItemHint,
    item: Option<Box<Self>>,
}

/// How the items of a list were recorded.
#[derive(Debug, Default)]
pub(super) enum ItemHint {
    /// Not at all.
    #[default]
    None,
    /// By value.
    Set,
    /// By some members.
    Keyed(Keys),
}

/// The keys of a list, as recorded.
#[derive(Debug, Default)]
pub(super) struct Keys {
    names: BTreeSet<SmolStr>,
    records: BTreeSet<Key>,
    /// Records by what they say under some of the names, made when first asked for.
    lookup: RefCell<BTreeMap<Vec<SmolStr>, Lookup>>,
    /// What all records say.
    common: OnceCell<Key>,
}

/// What identifies an item.
type Key = Vec<(SmolStr, ItemValue)>;
/// The record that says something, when only one does.
type Lookup = BTreeMap<Key, Option<Key>>;

/// Names of keys that a list may have; one whose records name more is one value.
const NAMES_MAX: usize = 16;
/// Different sets of names that the items of a list may have left out; of further ones only what all records say
/// counts.
const NAME_SETS_MAX: usize = 16;

impl Hint {
    /// Takes in one record.
    pub(super) fn add(&mut self, fields: &FieldSet) {
        let none = FieldSet::default();
        let below = |element| fields.children.get(element).unwrap_or(&none);
        for element in fields.members.iter().chain(fields.children.keys()) {
            match element {
                PathElement::Field(name) => {
                    let member = self.members.entry(name.clone()).or_default();
                    member.is_owned |= fields.members.contains(element);
                    member.add(below(element));
                }
                PathElement::Key(keys) => {
                    if !matches!(self.items, ItemHint::Keyed(_)) {
                        self.items = ItemHint::Keyed(Keys::default());
                    }
                    if let ItemHint::Keyed(known) = &mut self.items {
                        known.names.extend(keys.iter().map(|(name, _)| name.clone()));
                        known.records.insert(keys.clone());
                    }
                    self.item.get_or_insert_default().add(below(element));
                }
                PathElement::Value(_) => {
                    if matches!(self.items, ItemHint::None) {
                        self.items = ItemHint::Set;
                    }
                }
                PathElement::Index(_) => {}
            }
        }
    }

    /// Whether a map that holds something is one value: someone owns it, nobody owns anything in it.
    pub(super) fn is_whole(&self) -> bool {
        self.is_owned && self.members.is_empty()
    }

    /// What is known about a member.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        self.members.get(name)
    }

    /// What is known about every item.
    pub(super) fn item(&self) -> Option<&Self> {
        self.item.as_deref()
    }
}

impl Keys {
    /// The key of an item. Of what the item leaves out, the server knows the default; it is taken from the record
    /// that fits, or that all have.
    pub(super) fn of(&self, item: &Map<String, Value>) -> Key {
        if self.names.len() > NAMES_MAX {
            return Key::new();
        }
        let said: Key = self
            .names
            .iter()
            .filter_map(|name| Some((name.clone(), ItemValue::new(item.get(name.as_str())?.clone()))))
            .collect();
        if said.len() == self.names.len() || said.is_empty() {
            return said;
        }
        if let Some(record) = self.fitting(&said) {
            return record;
        }
        let common = self.common.get_or_init(|| self.said_by_all());
        let unsaid = common.iter().filter(|(name, _)| !said.iter().any(|(said, _)| said == name));
        let mut keys: Key = said.iter().chain(unsaid).cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// The one record that says this.
    fn fitting(&self, said: &Key) -> Option<Key> {
        let names: Vec<SmolStr> = said.iter().map(|(name, _)| name.clone()).collect();
        let mut lookup = self.lookup.borrow_mut();
        if lookup.len() >= NAME_SETS_MAX && !lookup.contains_key(&names) {
            return None;
        }
        let lookup = lookup.entry(names).or_insert_with_key(|names| self.look_up(names));
        lookup.get(said).cloned().flatten()
    }

    fn look_up(&self, names: &[SmolStr]) -> Lookup {
        let mut lookup = Lookup::new();
        for record in &self.records {
            let of = |name: &SmolStr| record.iter().find(|(key, _)| key == name).cloned();
            if let Some(said) = names.iter().map(of).collect::<Option<Key>>() {
                lookup.entry(said).and_modify(|one| *one = None).or_insert_with(|| Some(record.clone()));
            }
        }
        lookup
    }

    /// What all records say.
    fn said_by_all(&self) -> Key {
        let mut common = self.records.first().cloned().unwrap_or_default();
        common.retain(|key| self.records.iter().all(|record| record.contains(key)));
        common
    }
}
