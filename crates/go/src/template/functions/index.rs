//! `index`, `slice` and `len`.

use super::{Call, Operand};
use crate::template::error::Failure;
use crate::template::value::{Element, Number, Text, Unsigned, Value};

pub(super) fn index(call: &mut Call<'_, '_>) -> Result<Operand, Failure> {
    let mut item = call.operand(0);
    if item.value.is_nil() {
        return Err(Failure::new("index of untyped nil"));
    }
    item.boxed = false;
    for at in 1..call.len() {
        let index = call.value(at);
        if item.value.is_nil() {
            return Err(Failure::new("index of nil pointer"));
        }
        item = one_index(&item.value, index)?;
    }
    Ok(item)
}

fn one_index(item: &Value, index: &Value) -> Result<Operand, Failure> {
    match item.underlying() {
        Value::Text(text) => {
            let place = place(index, text.len())?;
            let byte = text
                .as_bytes()
                .get(place)
                .ok_or_else(|| Failure::new("reflect: string index out of range"))?;
            Ok(Operand::plain(Value::Uint(Unsigned::Uint8, u64::from(*byte))))
        }
        Value::Map(map) => {
            let Some(key) = index.as_text() else {
                return Err(Failure::new(if index.is_nil() {
                    "value is nil; should be of type string".to_owned()
                } else {
                    format!("value has type {}; should be string", index.type_name())
                }));
            };
            let member = map.map_type().member;
            Ok(boxed_as(member, map.get(key.as_bytes()).unwrap_or_else(|| member.zero())))
        }
        value => {
            let Some(items) = value.items() else {
                return Err(Failure::new(format!("can't index item of type {}", item.type_name())));
            };
            let place = place(index, items.len())?;
            let value = items.get(place).ok_or_else(|| Failure::new("reflect: slice index out of range"))?;
            Ok(boxed_as(items.list_type().item, value))
        }
    }
}

fn boxed_as(element: Element, value: Value) -> Operand {
    Operand::held(value, element.is_interface())
}

/// An index between 0 and what there is room for.
fn place(index: &Value, capacity: usize) -> Result<usize, Failure> {
    let number = match index.number() {
        Some(Number::Int(number)) => number,
        #[expect(clippy::cast_possible_wrap, reason = "Go wraps, and then finds it out of range")]
        Some(Number::Uint(number)) => number as i64,
        _ if index.is_nil() => return Err(Failure::new("cannot index slice/array with nil")),
        _ => return Err(Failure::new(format!("cannot index slice/array with type {}", index.type_name()))),
    };
    usize::try_from(number)
        .ok()
        .filter(|place| *place <= capacity)
        .ok_or_else(|| Failure::new(format!("index out of range: {number}")))
}

pub(super) fn slice(call: &mut Call<'_, '_>) -> Result<Operand, Failure> {
    let item = call.value(0).clone();
    if item.is_nil() {
        return Err(Failure::new("slice of untyped nil"));
    }
    let indexes = call.len() - 1;
    if indexes > 3 {
        return Err(Failure::new(format!("too many slice indexes: {indexes}")));
    }
    let (length, capacity) = match item.underlying() {
        Value::Text(_) if indexes == 3 => return Err(Failure::new("cannot 3-index slice a string")),
        Value::Text(text) => (text.len(), text.len()),
        Value::List(list) => (list.len(), list.capacity()),
        Value::Bytes(bytes) => {
            let length = bytes.as_ref().map_or(0, |bytes| bytes.len());
            (length, length)
        }
        _ => return Err(Failure::new(format!("can't slice item of type {}", item.type_name()))),
    };
    let mut bounds = [0, length, capacity];
    for (bound, at) in bounds.iter_mut().zip(1..call.len()) {
        *bound = place(call.value(at), capacity)?;
    }
    let [start, end, most] = bounds;
    if start > end {
        return Err(Failure::new(format!("invalid slice index: {start} > {end}")));
    }
    if end > most {
        return Err(Failure::new(format!("invalid slice index: {end} > {most}")));
    }
    let value = match item.underlying() {
        Value::Text(text) => {
            Value::Text(Text::from_bytes(text.as_bytes().get(start..end).unwrap_or_default()))
        }
        Value::List(list) => Value::List(list.part(start, end, most - start)),
        Value::Bytes(Some(bytes)) => Value::Bytes(bytes.get(start..end).map(Into::into)),
        other => other.clone(),
    };
    Ok(Operand::plain(value))
}

pub(super) fn length(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let operand = call.operand(0);
    let length = match operand.value.underlying() {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len()),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Nil if operand.boxed => return Err(Failure::new("len of nil pointer")),
        Value::Nil => return Err(Failure::new("reflect: call of reflect.Value.Type on zero Value")),
        _ => return Err(Failure::new(format!("len of type {}", operand.value.type_name()))),
    };
    Ok(Value::int(i64::try_from(length).unwrap_or(i64::MAX)))
}
