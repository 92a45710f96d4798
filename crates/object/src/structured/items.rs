//! What identifies the items of a list.

use serde_json::Value;
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
        Items::Keyed(keys) => key_of(
            item,
            keys.iter().map(|key| {
                (SmolStr::new_static(key), list.item.default_of(key).cloned().map(ItemValue::new))
            }),
        ),
        Items::Recorded(keys) => key_of(item, keys.iter().cloned()),
    }
}

/// The element of an item with some keys, each with what it is when the item leaves it out.
fn key_of(
    item: &Value,
    keys: impl Iterator<Item = (SmolStr, Option<ItemValue>)>,
) -> Result<PathElement, &'static str> {
    let Value::Object(item) = item else { return Err("an item of a keyed list must be a map") };
    let value = |name: &SmolStr| item.get(name.as_str()).cloned().map(ItemValue::new);
    let mut found: Vec<(SmolStr, ItemValue)> = keys
        .filter_map(|(name, default)| {
            let value = value(&name).or(default)?;
            Some((name, value))
        })
        .collect();
    if found.is_empty() {
        return Err("an item of a keyed list has none of the keys");
    }
    found.sort_unstable();
    Ok(PathElement::Key(found))
}

/// The items that have an identity, each with it. All have one in a value that was checked.
pub(super) fn elements<'a>(list: &ListType<'_>, items: &'a [Value]) -> Vec<(PathElement, &'a Value)> {
    items.iter().filter_map(|item| Some((element(list, item).ok()?, item))).collect()
}
