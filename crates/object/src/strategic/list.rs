//! Lists that are merged: their element type, their keys and the order of their items.
//!
//! Order is part of the result users see, so the rules here are those of the original to the letter, odd
//! corners included: equal keys come out reversed by one sort, and items that the reference order does not
//! name move to the front by another.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{DIRECTIVE, StrategicError};

/// What a merged list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// Objects.
    Objects,
    /// Texts, numbers or truth values.
    Scalars,
}

/// Longest list for which the quadratic rules of the original are followed; longer ones are merely put in some
/// fixed order.
const QUADRATIC_MAX: usize = 1000;

/// JSON type as far as patches tell types apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Bool,
    Integer,
    Float,
    Text,
    List,
    Object,
}

/// The type of a value.
pub(super) fn type_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Number(number) if number.is_i64() => Type::Integer,
        Value::Number(_) => Type::Float,
        Value::String(_) => Type::Text,
        Value::Array(_) => Type::List,
        Value::Object(_) => Type::Object,
    }
}

/// The one type all items of both lists have; `None` when there are no items.
pub(super) fn elements(
    name: &str,
    first: &[Value],
    second: &[Value],
) -> Result<Option<Elements>, StrategicError> {
    let mut types = first.iter().chain(second).map(type_of);
    let Some(found) = types.next() else { return Ok(None) };
    if types.any(|other| other != found) {
        return Err(StrategicError::ListElements(name.to_owned()));
    }
    match found {
        Type::Object => Ok(Some(Elements::Objects)),
        Type::Null | Type::List => Err(StrategicError::ListElements(name.to_owned())),
        Type::Bool | Type::Integer | Type::Float | Type::Text => Ok(Some(Elements::Scalars)),
    }
}

/// The object of a list item and its merge key.
pub(super) fn keyed<'a>(
    item: &'a Value,
    merge_key: &str,
) -> Result<(&'a Map<String, Value>, &'a Value), StrategicError> {
    let members = item.as_object().ok_or_else(|| StrategicError::ListElements(merge_key.to_owned()))?;
    let key = members.get(merge_key).ok_or_else(|| StrategicError::NoMergeKey(merge_key.to_owned()))?;
    Ok((members, key))
}

/// What identifies an item: its key, or itself in a list of scalars.
pub(super) fn identity<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value, StrategicError> {
    if merge_key.is_empty() { Ok(item) } else { keyed(item, merge_key).map(|(_, key)| key) }
}

/// A scalar as text for ordering.
pub(super) fn printed(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(tiphys_go::json::print_go(other)),
    }
}

/// References to items sorted by the printed form of what identifies them; equal ones come out reversed.
pub(super) fn sorted<'a>(
    items: &'a [Value],
    merge_key: &str,
) -> Result<Vec<(Cow<'a, str>, &'a Value)>, StrategicError> {
    let named = items.iter().rev().map(|item| Ok((printed(identity(item, merge_key)?), item)));
    let mut named = named.collect::<Result<Vec<_>, StrategicError>>()?;
    named.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(named)
}

/// Whether an item is a `$patch: delete` directive.
pub(super) fn is_deletion(item: &Value) -> bool {
    item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
}

/// Where an order puts items: the first place of each identity.
pub(super) struct Order<'a>(HashMap<&'a Value, usize>);

impl<'a> Order<'a> {
    /// The order of identities.
    pub(super) fn new(identities: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut places = HashMap::new();
        for (place, identity) in identities.into_iter().enumerate() {
            places.entry(identity).or_insert(place);
        }
        Self(places)
    }

    /// The order of the items of a list.
    pub(super) fn of(items: &'a [Value], merge_key: &str) -> Result<Self, StrategicError> {
        identities(items, merge_key).map(Self::new)
    }

    fn place(&self, identity: &Value) -> Option<usize> {
        self.0.get(identity).copied()
    }
}

/// What identifies each item of a list.
pub(super) fn identities<'a>(items: &'a [Value], merge_key: &str) -> Result<Vec<&'a Value>, StrategicError> {
    items.iter().map(|item| identity(item, merge_key)).collect()
}

/// Sorts items by their place in `order`; deletion directives go last.
pub(super) fn sort_by_order(
    items: Vec<Value>,
    order: &Order<'_>,
    merge_key: &str,
) -> Result<Vec<Value>, StrategicError> {
    let (deletions, kept): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| !merge_key.is_empty() && is_deletion(item));
    let mut placed = kept
        .into_iter()
        .map(|item| Ok((order.place(identity(&item, merge_key)?), item)))
        .collect::<Result<Vec<_>, StrategicError>>()?;
    insertion_sort(&mut placed);
    Ok(placed.into_iter().map(|(_, item)| item).chain(deletions).collect())
}

/// Items without a position trade places with every neighbour before them, as in the original.
fn insertion_sort(items: &mut [(Option<usize>, Value)]) {
    let is_before = |a: Option<usize>, b: Option<usize>| a.zip(b).is_none_or(|(a, b)| a < b);
    if items.len() > QUADRATIC_MAX || items.iter().all(|(place, _)| place.is_some()) {
        items.sort_by_key(|(place, _)| *place);
        return;
    }
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            let (Some(before), Some(after)) = (items.get(at - 1), items.get(at)) else { break };
            if !is_before(after.0, before.0) {
                break;
            }
            items.swap(at - 1, at);
        }
    }
}

/// Items of a merged list, apart: those the patch orders and those only the server has.
pub(super) struct Split {
    pub(super) ordered: Vec<Value>,
    pub(super) server_only: Vec<Value>,
}

/// Parts a merged list by whether `order` names an item.
pub(super) fn split(merged: Vec<Value>, order: &Order<'_>, merge_key: &str) -> Result<Split, StrategicError> {
    let mut split = Split { ordered: Vec::new(), server_only: Vec::new() };
    for item in merged {
        let is_named = order.place(identity(&item, merge_key)?).is_some();
        if is_named { split.ordered.push(item) } else { split.server_only.push(item) }
    }
    Ok(split)
}

/// Puts both parts together: each in its own order, server-only items before the first ordered item that
/// followed them on the server.
pub(super) fn interleave(
    split: Split,
    patch_order: &Order<'_>,
    server_order: &Order<'_>,
    merge_key: &str,
) -> Result<Vec<Value>, StrategicError> {
    let ordered = sort_by_order(split.ordered, patch_order, merge_key)?;
    let server_only = sort_by_order(split.server_only, server_order, merge_key)?;
    let mut all = Vec::with_capacity(ordered.len() + server_only.len());
    let mut server_only = server_only.into_iter().peekable();
    for item in ordered {
        let place = server_order.place(identity(&item, merge_key)?);
        while let Some(candidate) = server_only.peek() {
            let own = server_order.place(identity(candidate, merge_key)?);
            if own.zip(place).is_none_or(|(own, place)| own >= place) {
                break;
            }
            all.extend(server_only.next());
        }
        all.push(item);
    }
    all.extend(server_only);
    Ok(all)
}

/// Removes repeated scalars; the last item takes the place of a removed one, except in very long lists.
pub(super) fn without_repeats(items: &[Value]) -> Vec<Value> {
    joined(&[], items).0
}

/// Two lists of scalars in one without repetitions, and the first one as it is afterwards.
///
/// The last item takes the place of a removed one, except in very long lists. The original does that in the
/// memory of the first list when the second one fits behind it, and looks at that again when it puts items in
/// order. Its lists come from a JSON decoder, which doubles their memory whenever it is full.
pub(super) fn joined(before: &[Value], change: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let mut items: Vec<Value> = before.iter().chain(change).cloned().collect();
    let mut seen = HashSet::new();
    if items.iter().all(|item| seen.insert(item)) {
        return (items, before.to_vec());
    }
    if items.len() > QUADRATIC_MAX {
        let mut kept = HashSet::new();
        items.retain(|item| kept.insert(item.clone()));
        return (items, before.to_vec());
    }
    let is_shared = !before.is_empty() && items.len() <= before.len().next_power_of_two();
    let mut length = items.len();
    let mut at = 0;
    while at < length {
        let mut other = at + 1;
        while other < length {
            if items.get(at) == items.get(other) {
                length -= 1;
                if let Some(last) = items.get(length).cloned()
                    && let Some(place) = items.get_mut(other)
                {
                    *place = last;
                }
            } else {
                other += 1;
            }
        }
        at += 1;
    }
    let server = if is_shared { items.get(..before.len()).unwrap_or(before) } else { before }.to_vec();
    items.truncate(length);
    (items, server)
}
