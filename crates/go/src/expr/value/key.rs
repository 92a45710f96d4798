//! Values as keys of maps, equal where Go's are: 1 and 1.0 are different keys.

use super::list::Of;
use super::{List, Text, Value};
use crate::expr::Fault;
use crate::time::Moment;
use jiff::Timestamp;
use std::sync::Arc;

/// A key, in an order of ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Nil,
    Bool(bool),
    Int(i64),
    Int64(i64),
    Byte(u8),
    /// A float, as a number that is ordered as floats are, and the sign it has even as zero.
    Float(i64, Shared<f64>),
    Text(Text),
    Pair(Box<(Self, Self)>),
    Duration(i64),
    Month(i8),
    Weekday(i8),
    /// A time and the name of its zone.
    Time(Timestamp, Arc<str>, Shared<Moment>),
}

/// A value beside those that are compared.
#[derive(Debug, Clone)]
pub(crate) struct Shared<T>(Arc<T>);

impl<T> PartialEq for Shared<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<T> Eq for Shared<T> {}

impl<T> PartialOrd for Shared<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Shared<T> {
    fn cmp(&self, _other: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Key {
    /// The key that a value is.
    ///
    /// # Errors
    /// Lists, maps and functions are none.
    pub(crate) fn of(value: &Value) -> Result<Self, Fault> {
        Ok(match value {
            Value::Nil => Self::Nil,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(number) => Self::Int(*number),
            Value::Int64(number) => Self::Int64(*number),
            Value::Byte(byte) => Self::Byte(*byte),
            Value::Float(number) => Self::Float(ordered(*number), Shared(Arc::new(*number))),
            Value::Text(text) => Self::Text(text.clone()),
            Value::Duration(nanoseconds) => Self::Duration(*nanoseconds),
            Value::Month(month) => Self::Month(*month),
            Value::Weekday(day) => Self::Weekday(*day),
            Value::Time(time) => Self::Time(time.instant, time.zone.name().into(), Shared(Arc::clone(time))),
            Value::List(list) if list.item_type() == Of::Pair => match list.items() {
                [key, value] => Self::Pair(Box::new((Self::of(key)?, Self::of(value)?))),
                _ => return Err(unhashable(value)),
            },
            _ => return Err(unhashable(value)),
        })
    }

    /// The value it was made of.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Nil => Value::Nil,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Int64(number) => Value::Int64(*number),
            Self::Byte(byte) => Value::Byte(*byte),
            Self::Float(_, Shared(number)) => Value::Float(**number),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Duration(nanoseconds) => Value::Duration(*nanoseconds),
            Self::Month(month) => Value::Month(*month),
            Self::Weekday(day) => Value::Weekday(*day),
            Self::Time(_, _, Shared(time)) => Value::Time(Arc::clone(time)),
            Self::Pair(pair) => {
                let items = vec![pair.0.to_value(), pair.1.to_value()];
                // As deep as the list the key was made of, which was not too deep.
                List::of(Of::Pair, items).map_or(Value::Nil, Value::List)
            }
        }
    }
}

fn unhashable(value: &Value) -> Fault {
    Fault::Value(format!("runtime error: hash of unhashable type {}", value.go_type()))
}

/// A float as an integer of the same order; both zeros are one.
fn ordered(number: f64) -> i64 {
    let bits = (number + 0.0).to_bits().cast_signed();
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eval_769_floats_as_keys_are_ordered() {
        let numbers = [f64::NEG_INFINITY, -1.5, -0.25, 0.0, 1e-300, 2.5, f64::INFINITY];
        let keys: Vec<i64> = numbers.iter().map(|number| ordered(*number)).collect();
        assert!(keys.is_sorted());
        assert_eq!(ordered(-0.0), ordered(0.0));
    }
}
