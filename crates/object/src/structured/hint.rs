//! What the books of an object tell about its type.
//!
//! Owners of fields record the items of a list by their identity, as the schema of the server says, and what is
//! one value without anything below. For kinds whose schema is not here, the records therefore say which lists are
//! keyed or sets, and by what, and which maps are one value.

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
    records: BTreeSet<Vec<(SmolStr, ItemValue)>>,
}

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
    pub(super) fn of(&self, item: &Map<String, Value>) -> Vec<(SmolStr, ItemValue)> {
        let said: Vec<(SmolStr, ItemValue)> = self
            .names
            .iter()
            .filter_map(|name| Some((name.clone(), ItemValue::new(item.get(name.as_str())?.clone()))))
            .collect();
        if said.len() == self.names.len() || said.is_empty() {
            return said;
        }
        let mut fitting = self.records.iter().filter(|record| said.iter().all(|key| record.contains(key)));
        if let (Some(record), None) = (fitting.next(), fitting.next()) {
            return record.clone();
        }
        let unsaid = self.names.iter().filter(|name| !said.iter().any(|(said, _)| said == *name));
        let common = unsaid.filter_map(|name| self.common(name));
        let mut keys: Vec<(SmolStr, ItemValue)> = said.iter().cloned().chain(common).collect();
        keys.sort_unstable();
        keys
    }

    /// The value of a key that all records have.
    fn common(&self, name: &SmolStr) -> Option<(SmolStr, ItemValue)> {
        let first = self.records.first()?.iter().find(|(key, _)| key == name)?;
        self.records.iter().all(|record| record.contains(first)).then(|| first.clone())
    }
}
