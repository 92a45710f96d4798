//! Methods of durations, months, weekdays and zones.

use super::{Row, row};
use crate::duration;
use crate::expr::nature::Type;
use crate::expr::numbers::float;
use crate::expr::{Fault, Value};
use crate::time::{MONTHS, WEEKDAYS};
use jiff::SignedDuration;

pub(super) const ROWS: &[Row] = &[
    row(Type::Duration, "Abs", &[], Type::Duration, |value, _| {
        let nanoseconds = nanoseconds(value);
        Ok(Value::Duration(nanoseconds.checked_abs().unwrap_or(i64::MAX)))
    }),
    row(Type::Duration, "Hours", &[], Type::Float, |value, _| Ok(units(value, 3_600_000_000_000))),
    row(Type::Duration, "Microseconds", &[], Type::Int64, |value, _| {
        Ok(Value::Int64(nanoseconds(value) / 1_000))
    }),
    row(Type::Duration, "Milliseconds", &[], Type::Int64, |value, _| {
        Ok(Value::Int64(nanoseconds(value) / 1_000_000))
    }),
    row(Type::Duration, "Minutes", &[], Type::Float, |value, _| Ok(units(value, 60_000_000_000))),
    row(Type::Duration, "Nanoseconds", &[], Type::Int64, |value, _| Ok(Value::Int64(nanoseconds(value)))),
    row(Type::Duration, "Round", &[Type::Duration], Type::Duration, |value, arguments| {
        Ok(Value::Duration(rounded(nanoseconds(value), argument(arguments))))
    }),
    row(Type::Duration, "Seconds", &[], Type::Float, |value, _| Ok(units(value, 1_000_000_000))),
    row(Type::Duration, "String", &[], Type::Text, |value, _| Ok(shown(nanoseconds(value)).into())),
    row(Type::Duration, "Truncate", &[Type::Duration], Type::Duration, |value, arguments| {
        let (nanoseconds, unit) = (nanoseconds(value), argument(arguments));
        let over = if unit <= 0 { 0 } else { nanoseconds.wrapping_rem(unit) };
        Ok(Value::Duration(nanoseconds - over))
    }),
    row(Type::Month, "String", &[], Type::Text, |value, _| Ok(name(value).into())),
    row(Type::Weekday, "String", &[], Type::Text, |value, _| Ok(name(value).into())),
    row(Type::ZonePointer, "String", &[], Type::Text, |value, _| match value {
        Value::Zone { zone, .. } => Ok(zone.name().into()),
        _ => Err(Fault::Value("a zone is needed".to_owned())),
    }),
];

/// A duration as Go prints it.
pub(in crate::expr) fn shown(nanoseconds: i64) -> String {
    duration::format(SignedDuration::from_nanos(nanoseconds))
}

/// What a month or weekday is called.
pub(in crate::expr) fn name(value: &Value) -> &'static str {
    let (names, index) = match value {
        Value::Month(month) => (MONTHS.as_slice(), i32::from(*month) - 1),
        Value::Weekday(day) => (WEEKDAYS.as_slice(), i32::from(*day)),
        _ => return "",
    };
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

fn nanoseconds(value: &Value) -> i64 {
    match value {
        Value::Duration(nanoseconds) => *nanoseconds,
        _ => 0,
    }
}

fn argument(arguments: &[Value]) -> i64 {
    arguments.first().map_or(0, nanoseconds)
}

/// The duration in a unit of so many nanoseconds.
fn units(value: &Value, unit: i64) -> Value {
    let nanoseconds = nanoseconds(value);
    // Whole units and the rest one after the other, as Go does, which is part of the result.
    Value::Float(float(nanoseconds / unit) + float(nanoseconds % unit) / float(unit))
}

/// To the nearest multiple, half of it away from zero, as far as there are durations.
fn rounded(nanoseconds: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return nanoseconds;
    }
    let over = nanoseconds % unit;
    let down = i128::from(over).abs() * 2 < i128::from(unit);
    if down {
        nanoseconds - over
    } else if nanoseconds < 0 {
        (nanoseconds - over).checked_sub(unit).unwrap_or(i64::MIN)
    } else {
        (nanoseconds - over).checked_add(unit).unwrap_or(i64::MAX)
    }
}
