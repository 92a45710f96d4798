//! Making patches: what to add, change and delete to get from one document to another.

use serde_json::{Map, Value};

use super::list::{
    Elements, Order, elements, identities, identity, keyed, sort_by_order, sorted, type_of, without_repeats,
};
use super::meta::Meta;
use super::{DELETE_FROM_PRIMITIVE_LIST, DIRECTIVE, RETAIN_KEYS, SET_ELEMENT_ORDER, StrategicError};

/// Which differences go into the patch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diff {
    with_changes: bool,
    with_deletions: bool,
    with_order: bool,
    /// Name the members to keep: set below a member whose type says so.
    retain_keys: bool,
}

impl Diff {
    /// Everything.
    pub(super) fn two_way() -> Self {
        Self { with_changes: true, with_deletions: true, with_order: true, retain_keys: false }
    }

    /// Additions and changes.
    pub(super) fn additions() -> Self {
        Self { with_deletions: false, ..Self::two_way() }
    }

    /// Deletions.
    pub(super) fn deletions() -> Self {
        Self { with_changes: false, ..Self::two_way() }
    }

    /// Everything but the order of lists.
    pub(super) fn changes() -> Self {
        Self { with_order: false, ..Self::two_way() }
    }

    /// The patch for the members of one object.
    pub(super) fn members(
        self,
        original: &Map<String, Value>,
        modified: &Map<String, Value>,
        meta: Meta,
    ) -> Result<Map<String, Value>, StrategicError> {
        let mut patch = Map::new();
        for (name, after) in modified {
            let Some(before) = original.get(name) else {
                if self.with_changes {
                    patch.insert(name.clone(), after.clone());
                }
                continue;
            };
            self.member(name, before, after, &mut patch, meta)?;
        }
        if self.with_deletions {
            let deleted = original.keys().filter(|name| !modified.contains_key(*name));
            patch.extend(deleted.map(|name| (name.clone(), Value::Null)));
        }
        if self.retain_keys {
            add_retain_keys(original, modified, &mut patch);
        }
        Ok(patch)
    }

    fn member(
        self,
        name: &str,
        before: &Value,
        after: &Value,
        patch: &mut Map<String, Value>,
        meta: Meta,
    ) -> Result<(), StrategicError> {
        if name == DIRECTIVE {
            if !before.is_string() || !after.is_string() {
                return Err(StrategicError::Directive(name.to_owned()));
            }
            if before != after {
                patch.insert(name.to_owned(), after.clone());
            }
            return Ok(());
        }
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.object(name, before, after, patch, meta),
            (Value::Array(before), Value::Array(after)) => self.list(name, before, after, patch, meta),
            (before, after) => {
                if self.with_changes && (before != after || type_of(before) != type_of(after)) {
                    patch.insert(name.to_owned(), after.clone());
                }
                Ok(())
            }
        }
    }

    fn object(
        self,
        name: &str,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
        patch: &mut Map<String, Value>,
        meta: Meta,
    ) -> Result<(), StrategicError> {
        let (inner, how) = match meta.object(name) {
            Ok(found) => found,
            Err(_) if before == after => return Ok(()),
            Err(error) => return Err(error),
        };
        if how.replace {
            if self.with_changes {
                patch.insert(name.to_owned(), Value::Object(after.clone()));
            }
            return Ok(());
        }
        let members = Self { retain_keys: how.retain_keys, ..self }.members(before, after, inner)?;
        if !members.is_empty() {
            patch.insert(name.to_owned(), Value::Object(members));
        }
        Ok(())
    }

    fn list(
        self,
        name: &str,
        before: &[Value],
        after: &[Value],
        patch: &mut Map<String, Value>,
        meta: Meta,
    ) -> Result<(), StrategicError> {
        let (inner, how) = match meta.list(name) {
            Ok(found) => found,
            Err(_) if before == after => return Ok(()),
            Err(error) => return Err(error),
        };
        if !how.merge {
            if self.with_changes && before != after {
                patch.insert(name.to_owned(), Value::Array(after.to_vec()));
            }
            return Ok(());
        }
        let lists = if before.is_empty() {
            let items = if self.with_changes { after.to_vec() } else { Vec::new() };
            Lists { items, ..Lists::default() }
        } else if elements(name, before, after)? == Some(Elements::Objects) {
            let diff = Self { retain_keys: how.retain_keys, ..self };
            diff.keyed_list(before, after, how.merge_key, inner)?
        } else {
            self.scalar_list(before, after)?
        };
        let mut insert = |name: String, items: Vec<Value>| {
            if !items.is_empty() {
                patch.insert(name, Value::Array(items));
            }
        };
        insert(name.to_owned(), lists.items);
        insert(format!("{DELETE_FROM_PRIMITIVE_LIST}/{name}"), lists.deletions);
        insert(format!("{SET_ELEMENT_ORDER}/{name}"), lists.order);
        Ok(())
    }

    fn keyed_list(
        self,
        before: &[Value],
        after: &[Value],
        merge_key: &str,
        meta: Meta,
    ) -> Result<Lists, StrategicError> {
        let (mut items, deletions) = self.keyed_changes(before, after, merge_key, meta)?;
        let keys = identities(after, merge_key)?;
        if !items.is_empty() {
            items = sort_by_order(items, &Order::new(keys.iter().copied()), merge_key)?;
        }
        let mut same_order = before.len() == after.len();
        for (before, after) in before.iter().zip(after) {
            same_order = same_order && identity(before, merge_key)? == identity(after, merge_key)?;
        }
        items.extend(deletions);
        let has_items = !items.is_empty();
        let order = if self.with_order
            && ((self.with_changes && (has_items || !same_order)) || (self.with_deletions && has_items))
        {
            keys.into_iter().map(|key| Value::Object(key_only(merge_key, key))).collect()
        } else {
            Vec::new()
        };
        Ok(Lists { items, deletions: Vec::new(), order })
    }

    /// Changed and added items, and directives for deleted ones: both lists are walked in the order of keys.
    fn keyed_changes(
        self,
        before: &[Value],
        after: &[Value],
        merge_key: &str,
        meta: Meta,
    ) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
        let (mut items, mut deletions) = (Vec::new(), Vec::new());
        let mut before = sorted(before, merge_key)?.into_iter().peekable();
        let mut after = sorted(after, merge_key)?.into_iter().peekable();
        loop {
            match (before.peek(), after.peek()) {
                (Some((old_name, old)), Some((new_name, new))) if old_name == new_name => {
                    let (old, _) = keyed(old, merge_key)?;
                    let (new, key) = keyed(new, merge_key)?;
                    let mut patch = self.members(old, new, meta)?;
                    if !patch.is_empty() {
                        patch.insert(merge_key.to_owned(), key.clone());
                        items.push(Value::Object(patch));
                    }
                    before.next();
                    after.next();
                }
                (None, None) => return Ok((items, deletions)),
                (Some((old_name, old)), new) if new.is_none_or(|(new_name, _)| old_name < new_name) => {
                    if self.with_deletions {
                        let mut directive = key_only(merge_key, identity(old, merge_key)?);
                        directive.insert(DIRECTIVE.to_owned(), Value::from("delete"));
                        deletions.push(Value::Object(directive));
                    }
                    before.next();
                }
                (_, new) => {
                    if self.with_changes {
                        items.extend(new.map(|(_, new)| (*new).clone()));
                    }
                    after.next();
                }
            }
        }
    }

    fn scalar_list(self, before: &[Value], after: &[Value]) -> Result<Lists, StrategicError> {
        let (mut items, mut deletions) = (Vec::new(), Vec::new());
        let old_sorted = sorted(before, "")?;
        let new_sorted = sorted(after, "")?;
        let (mut old, mut new) = (old_sorted.iter().peekable(), new_sorted.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some((old_name, _)), Some((new_name, _))) if old_name == new_name => {
                    old.next();
                    new.next();
                }
                (Some((old_name, value)), other) if other.is_none_or(|(new_name, _)| old_name < new_name) => {
                    if self.with_deletions {
                        deletions.push((*value).clone());
                    }
                    old.next();
                }
                (_, other) => {
                    if self.with_changes {
                        items.extend(other.map(|(_, value)| (*value).clone()));
                    }
                    new.next();
                }
            }
        }
        let items = sort_by_order(items, &Order::new(after), "")?;
        // The original sorts the old list in place before it compares: an unsorted equal list has an order too.
        let changed = !old_sorted.iter().map(|(_, value)| *value).eq(after);
        let with_order = self.with_order
            && ((self.with_deletions && !deletions.is_empty()) || (self.with_changes && changed));
        let order = if with_order { after.to_vec() } else { Vec::new() };
        Ok(Lists { items, deletions: without_repeats(&deletions), order })
    }
}

/// What the patch says about one merged list.
#[derive(Default)]
struct Lists {
    items: Vec<Value>,
    deletions: Vec<Value>,
    order: Vec<Value>,
}

fn key_only(merge_key: &str, key: &Value) -> Map<String, Value> {
    Map::from_iter([(merge_key.to_owned(), key.clone())])
}

/// Names all members of `modified` when the patch has content or members have to go.
fn add_retain_keys(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    patch: &mut Map<String, Value>,
) {
    let kept: Vec<Value> = modified
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, _)| Value::from(name.as_str()))
        .collect();
    let drops = || original.iter().any(|(name, value)| !value.is_null() && !modified.contains_key(name));
    if !kept.is_empty() && (!patch.is_empty() || drops()) {
        patch.insert(RETAIN_KEYS.to_owned(), Value::Array(kept));
    }
}
