//! The duration functions of Helm 4.3.

use crate::duration;
use crate::template::error::Failure;
use crate::template::fmt::format_float;
use crate::template::functions::{Call, Function, Type};
use crate::template::number::{parse_float, to_i64};
use crate::template::quote::quote;
use crate::template::sprig::trim_space;
use crate::template::time::{SECOND, duration_value, round_duration, truncate_duration};
use crate::template::value::{Number, Value, to_str};

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("durationDays", ANY, |call| Ok(Value::Float(hours(call) / 24.0))),
    Function::new("durationHours", ANY, |call| Ok(Value::Float(hours(call)))),
    Function::new("durationMicroseconds", ANY, |call| Ok(Value::int64(or_zero(call) / 1_000))),
    Function::new("durationMilliseconds", ANY, |call| Ok(Value::int64(or_zero(call) / 1_000_000))),
    Function::new("durationMinutes", ANY, |call| Ok(Value::Float(in_units(or_zero(call), 60 * SECOND)))),
    Function::new("durationNanoseconds", ANY, |call| Ok(Value::int64(or_zero(call)))),
    Function::new("durationRoundTo", TWO, |call| Ok(to_multiple(call, round_duration))),
    Function::new("durationSeconds", ANY, |call| Ok(Value::Float(in_units(or_zero(call), SECOND)))),
    Function::new("durationTruncateTo", TWO, |call| Ok(to_multiple(call, truncate_duration))),
    Function::new("durationWeeks", ANY, |call| Ok(Value::Float(hours(call) / 24.0 / 7.0))),
    Function::new("mustToDuration", ANY, |call| {
        Ok(duration_value(duration_of(call.value(0)).map_err(Failure::new)?))
    }),
];

fn or_zero(call: &Call<'_, '_>) -> i64 {
    duration_of(call.value(0)).unwrap_or(0)
}

fn hours(call: &Call<'_, '_>) -> f64 {
    in_units(or_zero(call), 3_600 * SECOND)
}

#[expect(clippy::cast_precision_loss, reason = "as Go divides")]
fn in_units(nanoseconds: i64, unit: i64) -> f64 {
    (nanoseconds / unit) as f64 + (nanoseconds % unit) as f64 / unit as f64
}

fn to_multiple(call: &Call<'_, '_>, to: fn(i64, i64) -> i64) -> Value {
    let duration = or_zero(call);
    duration_value(match (duration_of(call.value(0)), duration_of(call.value(1))) {
        (Ok(_), Ok(unit)) => to(duration, unit),
        _ => duration,
    })
}

/// Nanoseconds of a duration, of a text, or of seconds.
fn duration_of(value: &Value) -> Result<i64, String> {
    match value {
        Value::Named(named) if named.named_type.name == "time.Duration" => {
            return Ok(match named.value {
                Value::Int(_, nanoseconds) => nanoseconds,
                _ => 0,
            });
        }
        Value::Text(text) => {
            let trimmed = to_str(trim_space(text.as_bytes()));
            if trimmed.is_empty() {
                return Err("empty duration".to_owned());
            }
            if let Ok(read) = duration::parse(&trimmed) {
                return Ok(i64::try_from(read.as_nanos()).unwrap_or(i64::MAX));
            }
            let seconds = parse_float(&trimmed);
            let seconds =
                seconds.ok_or_else(|| format!("could not parse duration {}", quote(text.as_bytes())))?;
            return of_seconds(seconds);
        }
        Value::Nil => return Err("invalid duration".to_owned()),
        _ => {}
    }
    let overflow = |seconds: String| format!("duration seconds overflow: {seconds}");
    match value.number() {
        Some(Number::Int(seconds)) => {
            seconds.checked_mul(SECOND).ok_or_else(|| overflow(seconds.to_string()))
        }
        Some(Number::Uint(seconds)) => {
            let nanoseconds = i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(SECOND));
            nanoseconds.ok_or_else(|| overflow(seconds.to_string()))
        }
        Some(Number::Float(seconds)) => of_seconds(seconds),
        None => Err(format!("unsupported duration type {}", value.type_name())),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Go compares")]
fn of_seconds(seconds: f64) -> Result<i64, String> {
    const MOST: f64 = i64::MAX as f64;
    const LEAST: f64 = i64::MIN as f64;
    let spelled = |number: f64| format_float(number, 'g', None);
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", spelled(seconds)));
    }
    let unit = SECOND as f64;
    if seconds > MOST / unit || seconds < LEAST / unit {
        return Err(format!("duration seconds overflow: {}", spelled(seconds)));
    }
    let nanoseconds = seconds * unit;
    if !(LEAST..=MOST).contains(&nanoseconds) {
        return Err(format!("duration nanoseconds overflow: {}", spelled(nanoseconds)));
    }
    Ok(to_i64(nanoseconds))
}
