//! Applying patches, and combining two patches into one.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::list::{
    Elements, Order, elements, identities, identity, interleave, is_deletion, joined, keyed, split, type_of,
};
use super::meta::Meta;
use super::{DELETE_FROM_PRIMITIVE_LIST, DIRECTIVE, RETAIN_KEYS, SET_ELEMENT_ORDER, StrategicError};

/// What becomes of directives and nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// A patch is applied to a document: they are carried out.
    Apply,
    /// A patch is added to another patch: they are kept.
    Combine,
}

impl Merge {
    /// Merges the members of a patch into those of an object.
    pub(super) fn members(
        self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        meta: Meta,
    ) -> Result<Map<String, Value>, StrategicError> {
        if let Some(directive) = patch.remove(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Map::new()),
                _ => Err(StrategicError::Directive(DIRECTIVE.to_owned())),
            };
        }
        self.retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(&mut original, &mut patch, meta)?;
        for (name, change) in patch {
            self.member(&mut original, name, change, meta)?;
        }
        Ok(original)
    }

    fn member(
        self,
        original: &mut Map<String, Value>,
        name: String,
        change: Value,
        meta: Meta,
    ) -> Result<(), StrategicError> {
        let is_delete_list = name.starts_with(DELETE_FROM_PRIMITIVE_LIST);
        if is_delete_list && self == Self::Combine {
            original.insert(name, change);
            return Ok(());
        }
        let name =
            if is_delete_list { list_name(&name, DELETE_FROM_PRIMITIVE_LIST)?.to_owned() } else { name };
        if change.is_null() {
            original.remove(&name);
            if self == Self::Apply {
                return Ok(());
            }
        }
        let merged = match (original.remove(&name), change) {
            (Some(before), change) if is_delete_list && type_of(&before) != type_of(&change) => Some(before),
            (None, _) if is_delete_list => None,
            (Some(Value::Object(before)), Value::Object(change)) => {
                let (inner, how) = meta.object(&name)?;
                let members = if how.replace { change } else { self.members(before, change, inner)? };
                Some(Value::Object(members))
            }
            (Some(Value::Array(before)), Value::Array(change)) => {
                let (inner, how) = meta.list(&name)?;
                let list = List { name: &name, merge_key: how.merge_key, meta: inner };
                let items = match (is_delete_list, how.merge) {
                    (true, _) => list.without(before, change, self)?,
                    (false, true) => self.list(before, change, &list)?,
                    (false, false) => change,
                };
                Some(Value::Array(items))
            }
            (_, change) if self == Self::Apply => fresh(&name, change, meta)?,
            (_, change) => without_directives(change),
        };
        original.extend(merged.map(|value| (name, value)));
        Ok(())
    }

    /// Carries out `$retainKeys`: members it does not name are dropped.
    fn retain_keys(
        self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
    ) -> Result<(), StrategicError> {
        let Some(names) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
        let malformed = || StrategicError::Directive(RETAIN_KEYS.to_owned());
        if self == Self::Combine {
            if original.get(RETAIN_KEYS).is_some_and(|other| *other != names) {
                return Err(malformed());
            }
            original.insert(RETAIN_KEYS.to_owned(), names);
            return Ok(());
        }
        let names: HashSet<&str> =
            names.as_array().ok_or_else(malformed)?.iter().filter_map(Value::as_str).collect();
        let is_named = |name: &str| names.contains(name);
        let is_directive =
            |name: &str| name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        if patch.iter().any(|(name, value)| !value.is_null() && !is_directive(name) && !is_named(name)) {
            return Err(malformed());
        }
        original.retain(|name, _| is_named(name));
        Ok(())
    }

    /// Merges the lists for which the patch has a `$setElementOrder`; nothing about them is left in the patch.
    fn ordered_lists(
        self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        meta: Meta,
    ) -> Result<(), StrategicError> {
        let directives: Vec<String> =
            patch.keys().filter(|name| name.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
        for directive in directives {
            let Some(order) = patch.remove(&directive) else { continue };
            let name = list_name(&directive, SET_ELEMENT_ORDER)?;
            self.ordered_list(original, patch.remove(name), (name, &order), meta)?;
            if self == Self::Combine {
                if original.get(&directive).is_some_and(|other| *other != order) {
                    return Err(StrategicError::Directive(directive));
                }
                original.insert(directive, order);
            }
        }
        Ok(())
    }

    fn ordered_list(
        self,
        original: &mut Map<String, Value>,
        patch: Option<Value>,
        (name, order): (&str, &Value),
        meta: Meta,
    ) -> Result<(), StrategicError> {
        let malformed = || StrategicError::Directive(format!("{SET_ELEMENT_ORDER}/{name}"));
        let order = order.as_array().ok_or_else(malformed)?;
        let list_of = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(StrategicError::ListElements(name.to_owned())),
        };
        let before = list_of(original.remove(name))?;
        let change = list_of(patch)?;
        let (inner, how) = meta.list(name)?;
        let list = List { name, merge_key: how.merge_key, meta: inner };
        let order = identities(order, how.merge_key)?;
        list.check_order(change.as_deref().unwrap_or(&[]), &order)?;
        let order = Order::new(order);
        let found = elements(name, before.as_deref().unwrap_or(&[]), change.as_deref().unwrap_or(&[]))?;
        if found.is_none() && meta.is_strict() && (before.is_some() || change.is_some()) {
            return Err(StrategicError::ListElements(name.to_owned()));
        }
        let server_order: Vec<Value> = match (&before, &change) {
            (Some(before), Some(change)) if how.merge => list.server_order(before, change)?,
            (Some(before), _) => identities(before, how.merge_key)?.into_iter().cloned().collect(),
            (None, _) => Vec::new(),
        };
        let merged = match (before, change) {
            (Some(before), None) => before,
            (None, Some(change)) if self == Self::Apply => fresh_items(change, inner)?,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(change)) if how.merge => self.list(before, change, &list)?,
            (Some(_), Some(change)) => change,
            (None, None) => return Ok(()),
        };
        let parts = split(merged, &order, how.merge_key)?;
        let items = interleave(parts, &order, &Order::new(&server_order), how.merge_key)?;
        original.insert(name.to_owned(), Value::Array(items));
        Ok(())
    }

    /// Merges a list by key or as a set.
    fn list(
        self,
        before: Vec<Value>,
        change: Vec<Value>,
        list: &List<'_>,
    ) -> Result<Vec<Value>, StrategicError> {
        match elements(list.name, &before, &change)? {
            None => Ok(before),
            Some(Elements::Scalars) => {
                let (merged, server) = joined(&before, &change);
                list.arrange(merged, &change, &server)
            }
            Some(Elements::Objects) if list.merge_key.is_empty() => {
                Err(StrategicError::NoMergeKey(list.name.to_owned()))
            }
            Some(Elements::Objects) => {
                let (before, change) = list.without_special(before, change)?;
                let merged = self.items(before.clone(), change.clone(), list)?;
                list.arrange(merged, &change, &before)
            }
        }
    }

    /// Merges items with equal keys and appends the others.
    fn items(
        self,
        mut merged: Vec<Value>,
        change: Vec<Value>,
        list: &List<'_>,
    ) -> Result<Vec<Value>, StrategicError> {
        let mut places = HashMap::new();
        for (place, item) in merged.iter().enumerate() {
            if let Some(key) = item.get(list.merge_key) {
                places.entry(key.clone()).or_insert(place);
            }
        }
        for item in change {
            let (_, key) = keyed(&item, list.merge_key)?;
            let found = places.get(key).and_then(|place| merged.get_mut(*place));
            match (found, item) {
                (Some(Value::Object(before)), Value::Object(members)) => {
                    *before = self.members(std::mem::take(before), members, list.meta)?;
                }
                (_, item) => {
                    places.insert(key_of(&item, list), merged.len());
                    if self == Self::Apply {
                        merged.extend(fresh_item(item, list.meta)?);
                    } else {
                        merged.push(item);
                    }
                }
            }
        }
        Ok(merged)
    }
}

/// A merged list.
struct List<'a> {
    name: &'a str,
    merge_key: &'static str,
    meta: Meta,
}

impl List<'_> {
    fn arrange(
        &self,
        merged: Vec<Value>,
        order: &[Value],
        server: &[Value],
    ) -> Result<Vec<Value>, StrategicError> {
        let (order, server) = (Order::of(order, self.merge_key)?, Order::of(server, self.merge_key)?);
        let parts = split(merged, &order, self.merge_key)?;
        interleave(parts, &order, &server, self.merge_key)
    }

    /// Items left after a `$deleteFromPrimitiveList`.
    fn without(
        &self,
        before: Vec<Value>,
        deleted: Vec<Value>,
        merge: Merge,
    ) -> Result<Vec<Value>, StrategicError> {
        if elements(self.name, &before, &deleted)? == Some(Elements::Objects) {
            return merge.list(before, deleted, self);
        }
        let deleted: HashSet<&Value> = deleted.iter().collect();
        Ok(before.into_iter().filter(|item| !deleted.contains(item)).collect())
    }

    /// Carries out `$patch` directives among the items of a patch.
    fn without_special(
        &self,
        mut before: Vec<Value>,
        change: Vec<Value>,
    ) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
        let mut plain = Vec::with_capacity(change.len());
        let mut deleted = HashSet::new();
        let mut replaces = false;
        for item in change {
            match item.get(DIRECTIVE).map(Value::as_str) {
                None => plain.push(item),
                Some(Some("delete")) => {
                    deleted.insert(keyed(&item, self.merge_key)?.1.clone());
                }
                Some(Some("replace")) => replaces = true,
                Some(_) => return Err(StrategicError::Directive(DIRECTIVE.to_owned())),
            }
        }
        if !deleted.is_empty() {
            before.retain(|item| !item.get(self.merge_key).is_some_and(|key| deleted.contains(key)));
        }
        Ok(if replaces { (plain, Vec::new()) } else { (before, plain) })
    }

    /// The items of a patch must stand in the order that `$setElementOrder` gives.
    fn check_order(&self, items: &[Value], order: &[&Value]) -> Result<(), StrategicError> {
        if order.is_empty() || items.is_empty() {
            return Ok(());
        }
        let mut order = order.iter();
        for item in items {
            if item.get(DIRECTIVE).is_some() {
                continue;
            }
            let wanted = identity(item, self.merge_key)?;
            if !order.any(|other| *other == wanted) {
                return Err(StrategicError::Directive(format!("{SET_ELEMENT_ORDER}/{}", self.name)));
            }
        }
        Ok(())
    }

    /// Identities that the original sees as the order on the server while it merges: it deletes and appends in
    /// the same memory, so that an appended item takes the place a deleted one left, and a place left empty
    /// shows what was last then.
    fn server_order(&self, before: &[Value], change: &[Value]) -> Result<Vec<Value>, StrategicError> {
        if self.merge_key.is_empty() {
            return Ok(joined(before, change).1);
        }
        let mut kept: Vec<Option<&Value>> =
            identities(before, self.merge_key)?.into_iter().map(Some).collect();
        let all = kept.clone();
        let mut places: HashMap<&Value, Vec<usize>> = HashMap::new();
        for (place, key) in all.iter().flatten().enumerate() {
            places.entry(key).or_default().push(place);
        }
        let (mut left, mut added, mut end) = (Vec::new(), Vec::new(), kept.len());
        for item in change {
            let key = identity(item, self.merge_key)?;
            if !is_deletion(item) {
                added.extend(item.get(DIRECTIVE).is_none().then_some(key));
                continue;
            }
            for place in places.remove(key).unwrap_or_default() {
                while end > 0 && kept.get(end - 1).is_some_and(Option::is_none) {
                    end -= 1;
                }
                left.extend(end.checked_sub(1).and_then(|last| all.get(last)).copied().flatten());
                if let Some(deleted) = kept.get_mut(place) {
                    *deleted = None;
                }
            }
        }
        let mut order: Vec<Value> = kept.into_iter().flatten().cloned().collect();
        let mut known: HashSet<&Value> = places.into_keys().collect();
        for key in added {
            if known.insert(key) && left.pop().is_some() {
                order.push(key.clone());
            }
        }
        order.extend(left.into_iter().rev().cloned());
        Ok(order)
    }
}

/// The merge key of an item, null when it has none.
fn key_of(item: &Value, list: &List<'_>) -> Value {
    item.get(list.merge_key).cloned().unwrap_or(Value::Null)
}

fn list_name<'a>(directive: &'a str, prefix: &str) -> Result<&'a str, StrategicError> {
    let name = directive.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
    name.ok_or_else(|| StrategicError::Directive(directive.to_owned()))
}

/// What a patch makes of a member the document does not have, or has with another type.
fn fresh(name: &str, mut change: Value, meta: Meta) -> Result<Option<Value>, StrategicError> {
    if meta.is_strict() {
        drop_nulls(&mut change);
        return Ok(without_directives(change));
    }
    Ok(match change {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            Some(Value::Object(Merge::Apply.members(Map::new(), members, meta.object(name)?.0)?))
        }
        Value::Array(items) => Some(Value::Array(fresh_items(items, meta.list(name)?.0)?)),
        scalar => Some(scalar),
    })
}

fn fresh_items(items: Vec<Value>, meta: Meta) -> Result<Vec<Value>, StrategicError> {
    if meta.is_strict() {
        return Ok(items.into_iter().filter_map(without_directives).collect());
    }
    items.into_iter().filter_map(|item| fresh_item(item, meta).transpose()).collect()
}

/// What a patch makes of a list item the document does not have.
fn fresh_item(item: Value, meta: Meta) -> Result<Option<Value>, StrategicError> {
    match item {
        Value::Object(members) if !meta.is_strict() => {
            if members.contains_key(DIRECTIVE) {
                return Ok(None);
            }
            Merge::Apply.members(Map::new(), members, meta).map(|members| Some(Value::Object(members)))
        }
        item => Ok(Some(item)),
    }
}

/// The value less everything that is a `$patch` directive; `None` when it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => return None,
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter_map(|(name, member)| without_directives(member).map(|member| (name, member)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_directives).collect()),
        other => other,
    })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|_, member| {
            drop_nulls(member);
            !member.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
