//! What the books of an object tell about its type.
//!
//! Owners of fields record the items of a list by their identity, as the schema of the server says. For kinds
//! whose schema is not here, the records therefore say which lists are keyed or sets, and by what.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::fields::{FieldSet, ItemValue, PathElement};

/// The shape of a value, as far as its owners recorded it.
#[derive(Debug, Default)]
pub(super) struct Hint {
    members: BTreeMap<SmolStr, Self>,
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
    /// By these members. The value is what a member is when an item leaves it out: the one all items have.
    Keyed(Vec<(SmolStr, Option<ItemValue>)>),
}

impl Hint {
    /// Takes in one record.
    pub(super) fn add(&mut self, fields: &FieldSet) {
        let none = FieldSet::default();
        let below = |element| fields.children.get(element).unwrap_or(&none);
        for element in fields.members.iter().chain(fields.children.keys()) {
            match element {
                PathElement::Field(name) => {
                    self.members.entry(name.clone()).or_default().add(below(element));
                }
                PathElement::Key(keys) => {
                    self.add_keys(keys);
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

    fn add_keys(&mut self, keys: &[(SmolStr, ItemValue)]) {
        let ItemHint::Keyed(known) = &mut self.items else {
            let first = keys.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
            self.items = ItemHint::Keyed(first.collect());
            return;
        };
        for (name, value) in keys {
            match known.iter_mut().find(|(known, _)| known == name) {
                Some((_, common)) if common.as_ref() != Some(value) => *common = None,
                Some(_) => {}
                None => known.push((name.clone(), None)),
            }
        }
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
