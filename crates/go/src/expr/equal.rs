//! Equality.

use super::numbers::Number;
use super::value::{MapType, Of};
use super::{Budget, Fault, Value};

/// Whether `==` holds.
///
/// Numbers are equal by value and lists by items; inside of maps, types have to be the same too.
pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    budget.value()?;
    if let (Some(left), Some(right)) = (Number::of(left), Number::of(right)) {
        return Ok(match (left, right) {
            (Number::Int(left), Number::Int(right)) => left == right,
            #[expect(clippy::float_cmp, reason = "equality is what is asked for")]
            (left, right) => left.float() == right.float(),
        });
    }
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            budget.scan(left.len().min(right.len()))?;
            return Ok(left == right);
        }
        (Value::Time(left), Value::Time(right)) => return Ok(left.instant == right.instant),
        _ => {}
    }
    if are_plain(left, right) {
        let len = left.len().unwrap_or(0);
        if Some(len) != right.len() {
            return Ok(false);
        }
        for index in 0..len {
            let (left, right) = (left.item(index), right.item(index));
            if !equal(&left.unwrap_or(Value::Nil), &right.unwrap_or(Value::Nil), budget)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if left.is_nil() && right.is_nil() {
        return Ok(true);
    }
    same(left, right, budget)
}

/// Whether both are lists of which at least one has items of any type, or both are of one type of scalars.
fn are_plain(left: &Value, right: &Value) -> bool {
    #[derive(PartialEq)]
    enum Items {
        Any,
        Ints,
        Texts,
        Bytes,
    }
    let items = |value: &Value| match value {
        Value::List(list) => match list.item_type() {
            Of::Any => Some(Items::Any),
            Of::Text => Some(Items::Texts),
            Of::Pair | Of::Pairs => None,
        },
        Value::Range(_) => Some(Items::Ints),
        Value::Bytes(_) => Some(Items::Bytes),
        _ => None,
    };
    match (items(left), items(right)) {
        (Some(left), Some(right)) => left == Items::Any || right == Items::Any || left == right,
        _ => false,
    }
}

/// Whether both have the same type and the same content, as `reflect.DeepEqual` sees it.
fn same(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    budget.value()?;
    Ok(match (left, right) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right))
        | (Value::Int64(left), Value::Int64(right))
        | (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::Byte(left), Value::Byte(right)) => left == right,
        (Value::Month(left), Value::Month(right)) | (Value::Weekday(left), Value::Weekday(right)) => {
            left == right
        }
        #[expect(clippy::float_cmp, reason = "equality is what is asked for")]
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::Text(left), Value::Text(right)) | (Value::Bytes(left), Value::Bytes(right)) => {
            budget.scan(left.len().min(right.len()))?;
            left == right
        }
        (Value::Range(left), Value::Range(right)) => {
            left.len == right.len && (left.len == 0 || left.first == right.first)
        }
        (Value::Time(left), Value::Time(right)) => left == right,
        (
            Value::Zone { zone: left, pointer: left_pointer },
            Value::Zone { zone: right, pointer: right_pointer },
        ) => left == right && left_pointer == right_pointer,
        (Value::Object(left), Value::Object(right)) => std::sync::Arc::ptr_eq(left, right),
        (Value::List(left), Value::List(right)) => {
            if left.item_type() != right.item_type() || left.is_nil() != right.is_nil() {
                return Ok(false);
            }
            if left.is_same(right) {
                return Ok(true);
            }
            if left.items().len() != right.items().len() {
                return Ok(false);
            }
            for (left, right) in left.items().iter().zip(right.items()) {
                if !same(left, right, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.map_type() != right.map_type() || left.len() != right.len() {
                return Ok(false);
            }
            if left.is_same(right) {
                return Ok(true);
            }
            for (key, value) in left.members() {
                // Texts are looked up by themselves; nil, which stands for the empty one, is no key of theirs.
                let other = match (&key, left.map_type()) {
                    (Value::Text(key), MapType::Texts) => right.texts().and_then(|texts| texts.get(key)),
                    _ => right.look_up(&key)?,
                };
                match other {
                    Some(other) if same(value, other, budget)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        _ => false,
    })
}
