//! What identifies the items of a list.

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::schema::{Items, ListType};
use crate::fields::{ItemValue, PathElement};

/// The path element of an item; the text says why it has none.
pub(super) fn element(list: &ListType<'_>, item: &Value) -> Result<PathElement, &'static str> {
    match list.items {
        Items::Atomic => Err("the items of an atomic list have no identity"),
        Items::Set => match item {
            Value::Object(_) | Value::Array(_) => Err("an item of a set must be a scalar"),
            Value::Null => Err("an item of a set must not be null"),
            scalar => Ok(PathElement::Value(ItemValue::new(scalar.clone()))),
        },
        Items::Keyed(keys) => key_of(item, |item| {
            let value = |key: &str| item.get(key).or_else(|| list.item.default_of(key)).cloned();
            let said =
                keys.iter().filter_map(|key| Some((SmolStr::new_static(key), ItemValue::new(value(key)?))));
            let mut found: Vec<(SmolStr, ItemValue)> = said.collect();
            found.sort_unstable();
            found
        }),
        Items::Named(keys) => key_of(item, |item| {
            let value = |key: &str| item.get(key).or_else(|| list.item.default_of(key)).cloned();
            let said = keys.iter().filter_map(|key| Some((key.clone(), ItemValue::new(value(key)?))));
            let mut found: Vec<(SmolStr, ItemValue)> = said.collect();
            found.sort_unstable();
            found
        }),
        Items::Recorded(keys) => key_of(item, |item| keys.of(item)),
    }
}

fn key_of(
    item: &Value,
    keys: impl Fn(&Map<String, Value>) -> Vec<(SmolStr, ItemValue)>,
) -> Result<PathElement, &'static str> {
    let Value::Object(item) = item else { return Err("an item of a keyed list must be a map") };
    match keys(item) {
        found if found.is_empty() => Err("an item of a keyed list has none of the keys"),
        found => Ok(PathElement::Key(found)),
    }
}

/// The items that have an identity, each with it. All have one in a value that was checked.
pub(super) fn elements<'a>(list: &ListType<'_>, items: &'a [Value]) -> Vec<(PathElement, &'a Value)> {
    items.iter().filter_map(|item| Some((element(list, item).ok()?, item))).collect()
}
