//! The union of two values of one type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::items::elements;
use super::schema::{Atom, ListType, MapType, Type};
use crate::fields::PathElement;

static NULL: Value = Value::Null;

/// `config` laid over `live`: maps member by member, lists by the identity of their items, what is one value
/// taken from `config`. `None` when nothing is left.
pub(super) fn merge(live: Option<&Value>, config: Option<&Value>, of: Type<'_>) -> Option<Value> {
    match of.atom(config.or(live)) {
        Atom::Scalar(_) => leaf(live, config),
        Atom::List(list) => {
            let (live_items, config_items) = (items_of(live), items_of(config));
            if list.items.is_atomic() || (live_items.is_empty() && config_items.is_empty()) {
                return leaf(live, config);
            }
            merge_items(live_items, config_items, &list)
        }
        Atom::Map(map) => {
            let live_members = live.and_then(Value::as_object).filter(|members| !members.is_empty());
            let config_members = config.and_then(Value::as_object).filter(|members| !members.is_empty());
            if map.is_atomic || (live_members.is_none() && config_members.is_none()) {
                return leaf(live, config);
            }
            merge_members(live_members, config_members, &map)
        }
    }
}

fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

fn items_of(side: Option<&Value>) -> &[Value] {
    side.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn member_of<'a>(side: Option<&'a Map<String, Value>>, name: &str) -> Option<&'a Value> {
    side?.get(name)
}

fn merge_members(
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
    map: &MapType<'_>,
) -> Option<Value> {
    let only_config = config
        .into_iter()
        .flatten()
        .filter(|(name, _)| !live.is_some_and(|live| live.contains_key(name.as_str())));
    let merged: Map<String, Value> = live
        .into_iter()
        .flatten()
        .chain(only_config)
        .filter_map(|(name, _)| {
            let (live, config) = (member_of(live, name), member_of(config, name));
            Some((name.clone(), merge(live, config, map.member(name))?))
        })
        .collect();
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Items by identity. Twice the same one in a list stands for nothing that could be merged.
fn index<'a>(items: &'a [(PathElement, &'a Value)]) -> BTreeMap<&'a PathElement, &'a Value> {
    let mut found = BTreeMap::new();
    for (element, item) in items {
        found.entry(element).and_modify(|known| *known = &NULL).or_insert(*item);
    }
    found
}

/// The items of both lists. Those of `config` keep their order; those of live alone stay near where they were.
fn merge_items(live: &[Value], config: &[Value], list: &ListType<'_>) -> Option<Value> {
    let (live, config) = (elements(list, live), elements(list, config));
    let (in_live, in_config) = (index(&live), index(&config));
    let mut shared: VecDeque<&PathElement> =
        config.iter().map(|(element, _)| element).filter(|element| in_live.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut taken: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let both = |element: &PathElement| {
        merge(in_live.get(element).copied(), in_config.get(element).copied(), list.item)
    };
    let (mut live_rest, mut config_rest) = (live.as_slice(), config.as_slice());
    loop {
        if let ([(element, _), after @ ..], [(wanted, _), config_after @ ..]) = (live_rest, config_rest) {
            if element == wanted {
                taken.insert(element);
                merged.extend(both(element));
                (live_rest, config_rest) = (after, config_after);
                next_shared = shared.pop_front();
                continue;
            }
            if in_config.contains_key(element) && next_shared.is_some_and(|next| next != element) {
                // Shared, but its turn comes with the order of the config.
                live_rest = after;
                continue;
            }
        }
        if let [(element, item), after @ ..] = live_rest {
            if !in_config.contains_key(element) {
                merged.extend(merge(Some(item), None, list.item));
                live_rest = after;
                continue;
            }
            if taken.contains(element) {
                live_rest = after;
            }
        }
        if let [(element, _), after @ ..] = config_rest {
            taken.insert(element);
            merged.extend(both(element));
            config_rest = after;
            if next_shared == Some(element) {
                next_shared = shared.pop_front();
            }
        } else if live_rest.is_empty() {
            break;
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}
