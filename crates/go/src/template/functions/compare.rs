//! Comparisons: only what is of one kind can be compared.

use super::Call;
use crate::template::error::Failure;
use crate::template::fmt;
use crate::template::value::{Kind, Value};
use std::cmp::Ordering;

/// Kinds that comparisons tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basic {
    None,
    Bool,
    Complex,
    Int,
    Float,
    Text,
    Uint,
}

fn basic(value: &Value) -> Basic {
    match value.kind() {
        Kind::Bool => Basic::Bool,
        Kind::Int(_) => Basic::Int,
        Kind::Uint(_) => Basic::Uint,
        Kind::Float64 => Basic::Float,
        Kind::Complex128 => Basic::Complex,
        Kind::String => Basic::Text,
        _ => Basic::None,
    }
}

pub(super) fn eq(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    if call.len() < 2 {
        return Err(Failure::new("missing argument for comparison"));
    }
    let first = call.operand(0).value;
    for at in 1..call.len() {
        if equal(&first, call.value(at))? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

pub(super) fn ne(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(Value::Bool(!equal(call.value(0), call.value(1))?))
}

pub(super) fn lt(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(Value::Bool(less(call.value(0), call.value(1))?))
}

pub(super) fn le(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(Value::Bool(less_or_equal(call.value(0), call.value(1))?))
}

pub(super) fn gt(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(Value::Bool(!less_or_equal(call.value(0), call.value(1))?))
}

pub(super) fn ge(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(Value::Bool(!less(call.value(0), call.value(1))?))
}

fn less_or_equal(left: &Value, right: &Value) -> Result<bool, Failure> {
    Ok(less(left, right)? || equal(left, right)?)
}

fn incompatible(left: &Value, right: &Value) -> Failure {
    let (left, right) = (left.type_name(), right.type_name());
    Failure::new(format!("incompatible types for comparison: {left} and {right}"))
}

fn equal(left: &Value, right: &Value) -> Result<bool, Failure> {
    let (left_kind, right_kind) = (basic(left), basic(right));
    if left_kind != right_kind {
        return match (left.underlying(), right.underlying()) {
            (Value::Int(_, int), Value::Uint(_, uint)) | (Value::Uint(_, uint), Value::Int(_, int)) => {
                Ok(u64::try_from(*int).is_ok_and(|int| int == *uint))
            }
            _ if left.is_nil() || right.is_nil() => Ok(false),
            _ => Err(incompatible(left, right)),
        };
    }
    match (left.underlying(), right.underlying()) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Complex(left), Value::Complex(right)) => Ok(left == right),
        #[expect(clippy::float_cmp, reason = "equal is equal in Go")]
        (Value::Float(left), Value::Float(right)) => Ok(left == right),
        (Value::Int(_, left), Value::Int(_, right)) => Ok(left == right),
        (Value::Text(left), Value::Text(right)) => Ok(left == right),
        (Value::Uint(_, left), Value::Uint(_, right)) => Ok(left == right),
        _ => other_equal(left, right),
    }
}

/// Equality of what has no kind that can be compared: only nil equals nil, and objects may equal each other.
fn other_equal(left: &Value, right: &Value) -> Result<bool, Failure> {
    let comparable = left.kind() == right.kind() || left.is_nil() || right.is_nil();
    if !comparable {
        let shown = |value: &Value| fmt::sprint(value);
        return Err(Failure::new(format!(
            "non-comparable types {}: {}, {}: {}",
            reflected(left),
            left.type_name(),
            right.type_name(),
            shown(right)
        )));
    }
    let (left_nil, right_nil) = (is_nil(left), is_nil(right));
    if left_nil || right_nil {
        return Ok(left_nil == right_nil);
    }
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => Ok(left.equals(&**right)),
        _ => Err(Failure::new(format!("non-comparable type {}: {}", reflected(right), right.type_name()))),
    }
}

/// A value as `%s` prints a `reflect.Value` of it.
fn reflected(value: &Value) -> String {
    let mut out = Vec::new();
    fmt::print_value(&mut out, value, 's', fmt::Flags::default());
    crate::template::value::to_str(&out).into_owned()
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil | Value::Bytes(None) => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

fn less(left: &Value, right: &Value) -> Result<bool, Failure> {
    let bad = || Failure::new("invalid type for comparison");
    let (left_kind, right_kind) = (basic(left), basic(right));
    if left_kind == Basic::None || right_kind == Basic::None {
        return Err(bad());
    }
    Ok(match (left.underlying(), right.underlying()) {
        (Value::Int(_, left), Value::Uint(_, right)) => {
            u64::try_from(*left).is_ok_and(|left| left < *right) || *left < 0
        }
        (Value::Uint(_, left), Value::Int(_, right)) => {
            u64::try_from(*right).is_ok_and(|right| *left < right)
        }
        _ if left_kind != right_kind => return Err(incompatible(left, right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right) == Some(Ordering::Less),
        (Value::Int(_, left), Value::Int(_, right)) => left < right,
        (Value::Text(left), Value::Text(right)) => left < right,
        (Value::Uint(_, left), Value::Uint(_, right)) => left < right,
        _ => return Err(bad()),
    })
}
