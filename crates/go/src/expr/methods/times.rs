//! Methods of times.

use super::{Row, row};
use crate::expr::nature::Type;
use crate::expr::value::Text;
use crate::expr::{Fault, Value};
use crate::time::{Moment, Zone, unix_nanoseconds};

const DURATION: &[Type] = &[Type::Duration];
const TIME: [Type; 1] = [Type::Time];

/// A method with more results than the first.
const fn several(row: &Row, results: usize) -> Row {
    Row {
        results,
        owner: row.owner,
        name: row.name,
        parameters: row.parameters,
        result: row.result,
        run: row.run,
    }
}

pub(super) const ROWS: &[Row] = &[
    row(Type::Time, "Add", DURATION, Type::Time, |value, arguments| {
        Ok(time(value)?.plus(duration(arguments))?.into())
    }),
    row(Type::Time, "AddDate", &[Type::Int, Type::Int, Type::Int], Type::Time, |value, arguments| {
        let mut numbers = arguments.iter().map(|number| match number {
            Value::Int(number) => *number,
            _ => 0,
        });
        let mut next = || numbers.next().unwrap_or(0);
        let (years, months, days) = (next(), next(), next());
        Ok(time(value)?.plus_date(years, months, days)?.into())
    }),
    row(Type::Time, "After", &TIME, Type::Bool, |value, arguments| {
        Ok((time(value)?.instant > other(arguments)?.instant).into())
    }),
    several(
        &row(Type::Time, "AppendBinary", &[Type::Bytes], Type::Bytes, |value, arguments| {
            Ok(appended(arguments, &binary(time(value)?)?))
        }),
        2,
    ),
    row(Type::Time, "AppendFormat", &[Type::Bytes, Type::Text], Type::Bytes, |value, arguments| {
        let shown = time(value)?.format(&text(arguments.get(1)));
        Ok(appended(arguments, shown.as_bytes()))
    }),
    several(
        &row(Type::Time, "AppendText", &[Type::Bytes], Type::Bytes, |value, arguments| {
            Ok(appended(arguments, time(value)?.rfc_3339()?.as_bytes()))
        }),
        2,
    ),
    row(Type::Time, "Before", &TIME, Type::Bool, |value, arguments| {
        Ok((time(value)?.instant < other(arguments)?.instant).into())
    }),
    several(&row(Type::Time, "Clock", &[], Type::Int, |value, _| Ok(int(time(value)?.local().hour()))), 3),
    row(Type::Time, "Compare", &TIME, Type::Int, |value, arguments| {
        let order = time(value)?.instant.cmp(&other(arguments)?.instant);
        Ok(int(order as i8))
    }),
    several(&row(Type::Time, "Date", &[], Type::Int, |value, _| Ok(int(time(value)?.local().year()))), 3),
    row(Type::Time, "Day", &[], Type::Int, |value, _| Ok(int(time(value)?.local().day()))),
    row(Type::Time, "Equal", &TIME, Type::Bool, |value, arguments| {
        Ok((time(value)?.instant == other(arguments)?.instant).into())
    }),
    row(Type::Time, "Format", &[Type::Text], Type::Text, |value, arguments| {
        Ok(time(value)?.format(&text(arguments.first())).into())
    }),
    row(Type::Time, "GoString", &[], Type::Text, |value, _| Ok(go_string(time(value)?).into())),
    several(
        &row(Type::Time, "GobEncode", &[], Type::Bytes, |value, _| {
            Ok(Value::Bytes(binary(time(value)?)?.into()))
        }),
        2,
    ),
    row(Type::Time, "Hour", &[], Type::Int, |value, _| Ok(int(time(value)?.local().hour()))),
    several(
        &row(Type::Time, "ISOWeek", &[], Type::Int, |value, _| {
            Ok(int(time(value)?.local().date().iso_week_date().year()))
        }),
        2,
    ),
    row(Type::Time, "In", &[Type::ZonePointer], Type::Time, |value, arguments| match arguments.first() {
        Some(Value::Zone { zone, .. }) => Ok(within(time(value)?, (**zone).clone())),
        _ => Err(Fault::Value("time: missing Location in call to Time.In".to_owned())),
    }),
    row(Type::Time, "IsDST", &[], Type::Bool, |value, _| {
        let time = time(value)?;
        Ok(time.zone.clock(time.instant).summer.into())
    }),
    row(Type::Time, "IsZero", &[], Type::Bool, |value, _| {
        Ok((time(value)?.instant == Moment::zero().instant).into())
    }),
    row(Type::Time, "Local", &[], Type::Time, |value, _| Ok(within(time(value)?, Zone::Local))),
    row(Type::Time, "Location", &[], Type::ZonePointer, |value, _| Ok(time(value)?.zone.clone().into())),
    several(
        &row(Type::Time, "MarshalBinary", &[], Type::Bytes, |value, _| {
            Ok(Value::Bytes(binary(time(value)?)?.into()))
        }),
        2,
    ),
    several(
        &row(Type::Time, "MarshalJSON", &[], Type::Bytes, |value, _| {
            Ok(Value::Bytes(format!("\"{}\"", time(value)?.rfc_3339()?).into()))
        }),
        2,
    ),
    several(
        &row(Type::Time, "MarshalText", &[], Type::Bytes, |value, _| {
            Ok(Value::Bytes(time(value)?.rfc_3339()?.into()))
        }),
        2,
    ),
    row(Type::Time, "Minute", &[], Type::Int, |value, _| Ok(int(time(value)?.local().minute()))),
    row(Type::Time, "Month", &[], Type::Month, |value, _| Ok(Value::Month(time(value)?.local().month()))),
    row(Type::Time, "Nanosecond", &[], Type::Int, |value, _| {
        Ok(int(time(value)?.local().subsec_nanosecond()))
    }),
    row(Type::Time, "Round", DURATION, Type::Time, |value, arguments| {
        Ok(time(value)?.rounded(duration(arguments))?.into())
    }),
    row(Type::Time, "Second", &[], Type::Int, |value, _| Ok(int(time(value)?.local().second()))),
    row(Type::Time, "String", &[], Type::Text, |value, _| Ok(time(value)?.shown().into())),
    row(Type::Time, "Sub", &TIME, Type::Duration, |value, arguments| {
        Ok(Value::Duration(time(value)?.since(other(arguments)?)))
    }),
    row(Type::Time, "Truncate", DURATION, Type::Time, |value, arguments| {
        Ok(time(value)?.truncated(duration(arguments))?.into())
    }),
    row(Type::Time, "UTC", &[], Type::Time, |value, _| Ok(within(time(value)?, Zone::Utc))),
    row(Type::Time, "Unix", &[], Type::Int64, |value, _| Ok(unix(time(value)?, 1_000_000_000))),
    row(Type::Time, "UnixMicro", &[], Type::Int64, |value, _| Ok(unix(time(value)?, 1_000))),
    row(Type::Time, "UnixMilli", &[], Type::Int64, |value, _| Ok(unix(time(value)?, 1_000_000))),
    row(Type::Time, "UnixNano", &[], Type::Int64, |value, _| {
        Ok(Value::Int64(unix_nanoseconds(time(value)?.instant)))
    }),
    row(Type::Time, "Weekday", &[], Type::Weekday, |value, _| {
        Ok(Value::Weekday(time(value)?.local().weekday().to_sunday_zero_offset()))
    }),
    row(Type::Time, "Year", &[], Type::Int, |value, _| Ok(int(time(value)?.local().year()))),
    row(Type::Time, "YearDay", &[], Type::Int, |value, _| Ok(int(time(value)?.local().day_of_year()))),
    several(
        &row(Type::Time, "Zone", &[], Type::Text, |value, _| {
            let time = time(value)?;
            Ok(time.zone.clock(time.instant).abbreviation.into_owned().into())
        }),
        2,
    ),
];

fn time(value: &Value) -> Result<&Moment, Fault> {
    match value {
        Value::Time(time) => Ok(time),
        other => Err(Fault::Value(format!("cannot take {} for a time", other.go_type()))),
    }
}

fn other(arguments: &[Value]) -> Result<&Moment, Fault> {
    time(arguments.first().unwrap_or(&Value::Nil))
}

fn duration(arguments: &[Value]) -> i64 {
    match arguments.first() {
        Some(Value::Duration(nanoseconds)) => *nanoseconds,
        _ => 0,
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn int(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}

fn within(time: &Moment, zone: Zone) -> Value {
    time.clone().within(zone).into()
}

fn appended(arguments: &[Value], added: &[u8]) -> Value {
    let mut bytes = match arguments.first() {
        Some(Value::Bytes(bytes)) => bytes.as_bytes().to_vec(),
        _ => Vec::new(),
    };
    bytes.extend_from_slice(added);
    Value::Bytes(Text::from(bytes))
}

/// The time since 1970 in units of so many nanoseconds, rounded down.
fn unix(time: &Moment, unit: i128) -> Value {
    Value::Int64(i64::try_from(time.instant.as_nanosecond().div_euclid(unit)).unwrap_or_default())
}

/// The time as Go writes it down in Go.
fn go_string(time: &Moment) -> String {
    let local = time.local();
    let zone = match &time.zone {
        Zone::Utc => "time.UTC".to_owned(),
        Zone::Local => "time.Local".to_owned(),
        other => format!("time.Location({:?})", other.name()),
    };
    format!(
        "time.Date({}, time.{}, {}, {}, {}, {}, {}, {zone})",
        local.year(),
        time.format("January"),
        local.day(),
        local.hour(),
        local.minute(),
        local.second(),
        local.subsec_nanosecond()
    )
}

/// The time in the bytes that Go stores.
fn binary(time: &Moment) -> Result<Vec<u8>, Fault> {
    const NO_OFFSET: i16 = -1;
    let offset = time.zone.clock(time.instant).offset;
    let (version, minutes, seconds) = match time.zone {
        Zone::Utc => (1, NO_OFFSET, 0),
        _ if offset % 60 == 0 => (1, i16::try_from(offset / 60).unwrap_or_default(), 0),
        _ => (2, i16::try_from(offset / 60).unwrap_or_default(), offset % 60),
    };
    if time.zone != Zone::Utc && minutes == NO_OFFSET {
        return Err(Fault::Value("Time.MarshalBinary: unexpected zone offset".to_owned()));
    }
    let since = time.instant.as_nanosecond() - Moment::zero().instant.as_nanosecond();
    let second = i64::try_from(since.div_euclid(1_000_000_000)).unwrap_or_default();
    let nanosecond = i32::try_from(since.rem_euclid(1_000_000_000)).unwrap_or_default();
    let mut bytes: Vec<u8> = vec![version];
    bytes.extend(second.to_be_bytes());
    bytes.extend(nanosecond.to_be_bytes());
    bytes.extend(minutes.to_be_bytes());
    if version == 2 {
        bytes.extend(i8::try_from(seconds).unwrap_or_default().to_be_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::RFC_3339_NANO;

    #[test]
    fn ntf_121_layouts_and_methods_of_times_have_no_double() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        assert!(names.is_sorted());
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        let zero: Value = Moment::zero().into();
        let find = |name: &str| ROWS.iter().find(|row| row.name == name).unwrap();
        assert_eq!(
            find("Format").call(&zero, &[RFC_3339_NANO.into()], false).unwrap().to_string(),
            "0001-01-01T00:00:00Z"
        );
        assert!(find("In").call(&zero, &[Value::Nil], false).is_err());
        assert!(find("Add").call(&zero, &[Value::Nil], true).is_err());
        assert!(find("Add").call(&zero, &[Value::Nil], false).is_ok());
        assert_eq!(binary(&Moment::zero()).unwrap(), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]);
    }
}
