//! Taking values out of values.

use super::methods;
use super::numbers::to_int;
use super::value::{Called, List, MapType, Of};
use super::{Budget, Fault, Value, equal};

/// Fields of Go's times, which nobody outside may read.
const TIME_FIELDS: [&str; 3] = ["wall", "ext", "loc"];
/// The same of zones.
const ZONE_FIELDS: [&str; 7] = ["name", "zone", "tx", "extend", "cacheStart", "cacheEnd", "cacheZone"];

fn unfetchable(from: &Value, property: &Value) -> Fault {
    let name = match property {
        Value::Text(name) => name.to_string(),
        other => other.go_type().to_owned(),
    };
    Fault::Value(format!("cannot fetch {name} from {}", from.go_type()))
}

fn method_of(from: &Value, property: &Value) -> Option<Value> {
    let Value::Text(name) = property else { return None };
    let method = methods::of_value(from, &name.to_str())?;
    Some(Value::Function(super::value::Callable(Called::Method(Box::new(from.clone()), method))))
}

/// The place in so many items that an index means: negative ones count from the end.
fn place(index: i64, len: usize) -> Option<usize> {
    let from_end = if index < 0 { i64::try_from(len).ok()?.checked_add(index)? } else { index };
    usize::try_from(from_end).ok().filter(|place| *place < len)
}

/// `from[property]` and `from.property`.
pub(super) fn fetch(from: &Value, property: &Value) -> Result<Value, Fault> {
    if let Some(method) = method_of(from, property) {
        return Ok(method);
    }
    match from {
        Value::Text(_) | Value::Bytes(_) | Value::Range(_) | Value::List(_) => {
            let (index, len) = (to_int(property)?, from.len().unwrap_or(0));
            place(index, len).and_then(|place| from.item(place)).ok_or_else(|| {
                let index =
                    if index < 0 { index.saturating_add(i64::try_from(len).unwrap_or(0)) } else { index };
                Fault::Value(format!("index out of range: {index} (array length is {len})"))
            })
        }
        Value::Map(map) => Ok(match map.look_up(property)? {
            Some(value) => value.clone(),
            None if map.map_type() == MapType::Groups => Value::List(List::nil(Of::Any)),
            None => Value::Nil,
        }),
        Value::Object(object) => match property {
            Value::Text(name) => object.member(&name.to_str()).ok_or_else(|| unfetchable(from, property)),
            _ => Err(unfetchable(from, property)),
        },
        _ => Err(unfetchable(from, property)),
    }
}

/// A method that is known to belong to the type of a value.
pub(super) fn bind(from: &Value, method: methods::Method) -> Result<Value, Fault> {
    let name = method.name.into();
    match methods::of_value(from, method.name) {
        Some(found) if std::ptr::eq(found, method) => {
            method_of(from, &name).ok_or_else(|| unfetchable(from, &name))
        }
        _ => Err(unfetchable(from, &name)),
    }
}

/// The function `get`: as [`fetch`], with nil for most of what is not there.
pub(super) fn get(from: &Value, property: &Value) -> Result<Value, Fault> {
    if let Some(method) = method_of(from, property) {
        return Ok(method);
    }
    match from {
        Value::Text(_) | Value::Bytes(_) | Value::Range(_) | Value::List(_) => {
            let place = place(to_int(property)?, from.len().unwrap_or(0));
            Ok(place.and_then(|place| from.item(place)).unwrap_or(Value::Nil))
        }
        Value::Map(map) => Ok(map.look_up(property)?.cloned().unwrap_or(Value::Nil)),
        Value::Time(_) | Value::Zone { .. } => {
            let fields: &[&str] = if matches!(from, Value::Time(_)) { &TIME_FIELDS } else { &ZONE_FIELDS };
            match property {
                Value::Text(name) if !fields.contains(&&*name.to_str()) => Ok(Value::Nil),
                _ => Err(unfetchable(from, property)),
            }
        }
        Value::Object(object) => match property {
            Value::Text(name) => Ok(object.member(&name.to_str()).unwrap_or(Value::Nil)),
            _ => Err(unfetchable(from, property)),
        },
        _ => Ok(Value::Nil),
    }
}

/// `array[from:to]`, which takes what there is.
pub(super) fn slice(array: &Value, from: &Value, to: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    let Some(len) = array.len() else {
        return Err(Fault::Value(format!("cannot slice {}", array.go_type())));
    };
    let end = |value: &Value| -> Result<usize, Fault> {
        let index = to_int(value)?;
        let signed = i64::try_from(len).unwrap_or(i64::MAX);
        let index = if index < 0 { signed.saturating_add(index) } else { index };
        Ok(usize::try_from(index).unwrap_or(0).min(len))
    };
    let (from, to) = (end(from)?, end(to)?);
    part(array, from.min(to), to, budget)
}

/// The items from one place to another, of the same type.
pub(super) fn part(array: &Value, from: usize, to: usize, budget: &mut Budget) -> Result<Value, Fault> {
    let bytes = |bytes: &[u8], budget: &mut Budget| {
        budget.text(to.saturating_sub(from))?;
        Ok::<_, Fault>(bytes.get(from..to).unwrap_or_default().into())
    };
    Ok(match array {
        Value::Text(text) => Value::Text(bytes(text.as_bytes(), budget)?),
        Value::Bytes(text) => Value::Bytes(bytes(text.as_bytes(), budget)?),
        Value::Range(range) => Value::Range(range.part(from, to)),
        Value::List(list) if list.is_nil() => array.clone(),
        Value::List(list) => {
            budget.list(to.saturating_sub(from))?;
            // A part of a pair is a list of anything.
            let of = if list.item_type() == Of::Pair { Of::Any } else { list.item_type() };
            Value::List(List::of(of, list.items().get(from..to).unwrap_or_default().to_vec())?)
        }
        other => return Err(Fault::Value(format!("cannot slice {}", other.go_type()))),
    })
}

/// `needle in array`.
pub(super) fn is_in(needle: &Value, array: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    match array {
        Value::Nil => Ok(false),
        Value::Bytes(_) | Value::Range(_) | Value::List(_) => {
            for index in 0..array.len().unwrap_or(0) {
                let item = array.item(index).unwrap_or(Value::Nil);
                if equal::equal(&item, needle, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.look_up(needle)?.is_some()),
        // They have no fields that anybody may see.
        Value::Time(_) | Value::Zone { .. } => match needle {
            Value::Text(_) => Ok(false),
            _ => Err(Fault::Value(format!(
                "cannot use {} as field name of {}",
                needle.go_type(),
                array.go_type()
            ))),
        },
        Value::Object(object) => match needle {
            Value::Text(name) => Ok(object.member(&name.to_str()).is_some()),
            _ => Ok(false),
        },
        _ => Err(Fault::Value(format!("operator \"in\" not defined on {}", array.go_type()))),
    }
}
