//! Times and durations.

use super::numbers::parse_decimal;
use crate::duration;
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::time::{SECOND, TIME, Time, round_duration};
use crate::template::value::Value;
use crate::time::{TimeError, quote};
use jiff::{SignedDuration, Timestamp};

const ANY: &[Type] = &[Type::Any];
const TEXT_ANY: &[Type] = &[Type::Text, Type::Any];
const TEXT_TIME: &[Type] = &[Type::Text, Type::Struct(TIME)];
const TWO_TEXTS: &[Type] = &[Type::Text, Type::Text];
const DAY: &str = "2006-01-02";

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("ago", ANY, |call| {
        let time = match call.value(0) {
            Value::Int(crate::template::value::Integer::Int32, _) => now(call),
            value => time_of(value).unwrap_or_else(|| now(call)),
        };
        let since = round_duration(now(call).since(&time), SECOND);
        call.answer_text(duration::format(SignedDuration::from_nanos(since)))
    }),
    Function::new("date", TEXT_ANY, |call| formatted(call, Some(0), 1, None)),
    IN_ZONE,
    MODIFY,
    IN_ZONE.renamed("date_in_zone"),
    MODIFY.renamed("date_modify"),
    Function::new("duration", ANY, |call| {
        let seconds = match call.value(0) {
            Value::Text(text) => text.as_str().and_then(parse_decimal).unwrap_or(0),
            Value::Int(crate::template::value::Integer::Int64, seconds) => *seconds,
            _ => 0,
        };
        call.answer_text(duration::format(SignedDuration::from_nanos(seconds.wrapping_mul(SECOND))))
    }),
    Function::new("durationRound", ANY, duration_round),
    Function::new("htmlDate", ANY, |call| formatted(call, None, 0, None)),
    Function::new("htmlDateInZone", &[Type::Any, Type::Text], |call| formatted(call, None, 0, Some(1))),
    MUST_MODIFY,
    Function::new("mustToDate", TWO_TEXTS, |call| {
        Ok(Value::object(read(call).map_err(|problem| Failure::new(told(call, &problem)))?))
    }),
    MUST_MODIFY.renamed("must_date_modify"),
    Function::new("now", &[], |call| Ok(Value::object(now(call)))),
    Function::new("toDate", TWO_TEXTS, |call| Ok(Value::object(read(call).unwrap_or_else(|_| Time::zero())))),
    Function::new("unixEpoch", &[Type::Struct(TIME)], |call| {
        let seconds = call.value(0).as_object::<Time>().map_or(0, |time| time.timestamp().as_second());
        call.answer_text(seconds.to_string())
    }),
];

const IN_ZONE: Function = Function::new("dateInZone", &[Type::Text, Type::Any, Type::Text], |call| {
    formatted(call, Some(0), 1, Some(2))
});
const MODIFY: Function =
    Function::new("dateModify", TEXT_TIME, |call| Ok(modified(call).unwrap_or_else(|_| call.take(1))));
const MUST_MODIFY: Function = Function::new("mustDateModify", TEXT_TIME, modified);

fn now(call: &Call<'_, '_>) -> Time {
    Time::now(call.environment().now())
}

/// The time that a value is: itself, or seconds since 1970.
fn time_of(value: &Value) -> Option<Time> {
    use crate::template::value::Integer;
    match value {
        Value::Int(Integer::Int | Integer::Int32 | Integer::Int64, seconds) => {
            Some(Time::utc(Timestamp::from_second(*seconds).unwrap_or(Timestamp::MAX)))
        }
        value => value.as_object::<Time>().cloned(),
    }
}

fn formatted(
    call: &mut Call<'_, '_>,
    layout: Option<usize>,
    at: usize,
    zone: Option<usize>,
) -> Result<Value, Failure> {
    let time = time_of(call.value(at)).unwrap_or_else(|| now(call));
    let zone = zone.map_or_else(|| "Local".to_owned(), |zone| call.text(zone).to_str().into_owned());
    let layout = layout.map_or_else(|| DAY.to_owned(), |layout| call.text(layout).to_str().into_owned());
    // A zone that nobody knows is UTC.
    let time = time.within(&zone).or_else(|| time.within("UTC")).unwrap_or(time);
    call.makes_text(layout.len().saturating_mul(4))?;
    call.answer_text(time.format(&layout))
}

fn modified(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let text = call.text(0).to_str();
    let by = duration::parse(&text)
        .map_err(|_invalid| format!("time: invalid duration {}", quote(call.bytes(0))))?;
    let time = call.value(1).as_object::<Time>().cloned().unwrap_or_else(Time::zero);
    let nanoseconds = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
    Ok(Value::object(time.after(nanoseconds)))
}

fn read(call: &Call<'_, '_>) -> Result<Time, TimeError> {
    Time::parse(&call.text(0).to_str(), &call.text(1).to_str())
}

/// The text of Go's error, which says what was read, and as what.
fn told(call: &Call<'_, '_>, problem: &TimeError) -> String {
    let text = problem.to_string();
    let Some(rest) = text.strip_prefix("parsing time: ") else { return text };
    let read = quote(call.bytes(1));
    match problem {
        TimeError::Shape { .. } => format!("parsing time {read} as {}: {rest}", quote(call.bytes(0))),
        _ => format!("parsing time {read}: {rest}"),
    }
}

/// `durationRound`: the largest unit, and how many of it.
fn duration_round(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    const HOUR: u64 = 3_600;
    const UNITS: [(u64, &str); 6] =
        [(HOUR * 24 * 365, "y"), (HOUR * 24 * 30, "mo"), (HOUR * 24, "d"), (HOUR, "h"), (60, "m"), (1, "s")];
    let nanoseconds = match call.value(0) {
        Value::Text(text) => {
            let read = duration::parse(&text.to_str());
            read.map_or(0, |read| i64::try_from(read.as_nanos()).unwrap_or(0))
        }
        Value::Int(crate::template::value::Integer::Int64, nanoseconds) => *nanoseconds,
        value => value.as_object::<Time>().map_or(0, |time| now(call).since(time)),
    };
    let magnitude = nanoseconds.unsigned_abs();
    for (seconds, name) in UNITS {
        let unit = seconds * 1_000_000_000;
        if magnitude > unit {
            return call.answer_text(format!("{}{name}", magnitude / unit));
        }
    }
    Ok(Value::text("0s"))
}
