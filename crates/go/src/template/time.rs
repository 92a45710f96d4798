//! `time.Time`, `time.Duration` and their kin as values of templates.

use super::error::Failure;
use super::functions::{Call, Function, Type};
use super::value::{Integer, Kind, NamedType, Number, Object, Text, Value};
use crate::duration;
use crate::time as layouts;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use std::any::Any;

/// `time.Duration`: nanoseconds.
pub(super) static DURATION: NamedType = NamedType {
    name: "time.Duration",
    kind: Kind::Int(Integer::Int64),
    methods: DURATION_METHODS,
    print: Some(|value| duration::format(SignedDuration::from_nanos(nanoseconds(value))).into()),
};

static MONTH: NamedType = NamedType {
    name: "time.Month",
    kind: Kind::Int(Integer::Int),
    methods: &[Function::new("String", &[], |call| {
        Ok(Value::Text(call.receiver().stringer().unwrap_or_default()))
    })],
    print: Some(|value| name_of(&layouts::MONTHS, nanoseconds(value) - 1, "Month", nanoseconds(value))),
};

static WEEKDAY: NamedType = NamedType {
    name: "time.Weekday",
    kind: Kind::Int(Integer::Int),
    methods: &[Function::new("String", &[], |call| {
        Ok(Value::Text(call.receiver().stringer().unwrap_or_default()))
    })],
    print: Some(|value| name_of(&layouts::WEEKDAYS, nanoseconds(value), "Weekday", nanoseconds(value))),
};

fn name_of(names: &[&'static str], at: i64, kind: &str, number: i64) -> Text {
    let name = usize::try_from(at).ok().and_then(|at| names.get(at));
    name.map_or_else(|| format!("%!{kind}({number})").into(), |name| Text::fixed(name))
}

fn nanoseconds(value: &Value) -> i64 {
    match value.number() {
        Some(Number::Int(number)) => number,
        _ => 0,
    }
}

/// A duration as a value.
pub(crate) fn duration_value(nanoseconds: i64) -> Value {
    Value::named(&DURATION, Value::int64(nanoseconds))
}

/// Where a time is told.
#[derive(Debug, Clone)]
enum Zone {
    /// UTC, which is also the local zone: a server has no other.
    Utc,
    /// An offset, with the abbreviation it was given.
    Fixed { seconds: i32, name: String },
    /// One of the zone data.
    Named(TimeZone),
}

/// A point in time and the zone that it is told in: Go's `time.Time`.
#[derive(Debug, Clone)]
pub struct Time {
    at: Timestamp,
    zone: Zone,
    /// Whether it comes from the clock, which Go remembers.
    clock: bool,
}

/// The year 1, Go's zero time.
const ZERO_SECONDS: i64 = -62_135_596_800;

impl Time {
    /// A time in UTC, which is also the local zone.
    pub fn utc(at: Timestamp) -> Self {
        Self { at, zone: Zone::Utc, clock: false }
    }

    /// What the clock says.
    pub fn now(at: Timestamp) -> Self {
        Self { clock: true, ..Self::utc(at) }
    }

    /// Go's zero time.
    pub(crate) fn zero() -> Self {
        Self::utc(Timestamp::from_second(ZERO_SECONDS).unwrap_or(Timestamp::MIN))
    }

    /// A time as a text says, by a layout.
    pub(crate) fn parse(layout: &str, text: &str) -> Result<Self, layouts::TimeError> {
        let parsed = layouts::parse_zoned(layout, text)?;
        let zone = match parsed.zone {
            layouts::ParsedZone::None | layouts::ParsedZone::Utc => Zone::Utc,
            layouts::ParsedZone::Fixed { seconds: 0, ref name } if name.is_empty() => Zone::Utc,
            layouts::ParsedZone::Fixed { seconds, name } => Zone::Fixed { seconds, name },
        };
        Ok(Self { at: parsed.at, zone, clock: false })
    }

    /// The point in time.
    pub fn timestamp(&self) -> Timestamp {
        self.at
    }

    /// The same time told in a zone of the zone data; `Local` and no name are UTC.
    pub(crate) fn within(&self, name: &str) -> Option<Self> {
        let zone = match name {
            "" | "UTC" => Zone::Utc,
            "Local" => Zone::Utc,
            _ => Zone::Named(crate::cron::zone(name).ok()?),
        };
        Some(Self { at: self.at, zone, clock: false })
    }

    /// The time by a layout.
    pub(crate) fn format(&self, layout: &str) -> String {
        match &self.zone {
            Zone::Utc => layouts::format(layout, self.at, &TimeZone::UTC),
            Zone::Fixed { seconds, name } => layouts::format_fixed(layout, self.at, *seconds, name),
            Zone::Named(zone) => layouts::format(layout, self.at, zone),
        }
    }

    fn civil(&self) -> jiff::civil::DateTime {
        self.time_zone().to_datetime(self.at)
    }

    fn time_zone(&self) -> TimeZone {
        match &self.zone {
            Zone::Utc => TimeZone::UTC,
            Zone::Fixed { seconds, .. } => {
                Offset::from_seconds(*seconds).map_or(TimeZone::UTC, Offset::to_time_zone)
            }
            Zone::Named(zone) => zone.clone(),
        }
    }

    /// The time so much later. Beyond the years that there are, the last one.
    pub(crate) fn after(&self, nanoseconds: i64) -> Self {
        let at = self.at.saturating_add(SignedDuration::from_nanos(nanoseconds));
        Self { at: at.unwrap_or(Timestamp::MAX), ..self.clone() }
    }

    /// Nanoseconds from another time to this one, within the range of a duration.
    pub(crate) fn since(&self, other: &Self) -> i64 {
        let distance = self.at.duration_since(other.at).as_nanos();
        i64::try_from(distance).unwrap_or(if distance < 0 { i64::MIN } else { i64::MAX })
    }

    fn with(&self, at: Timestamp) -> Value {
        Value::object(Self { at, ..self.clone() })
    }

    fn text(&self) -> String {
        let text = self.format("2006-01-02 15:04:05.999999999 -0700 MST");
        // What the monotonic clock says is nobody's business, and different each time.
        if self.clock { format!("{text} m=+0.000000001") } else { text }
    }
}

impl Object for Time {
    fn type_name(&self) -> &'static str {
        TIME
    }

    fn methods(&self) -> &'static [Function] {
        TIME_METHODS
    }

    fn print(&self) -> Option<Text> {
        Some(self.text().into())
    }

    fn json(&self) -> Option<Result<Value, String>> {
        let year = self.civil().year();
        Some(if (0..=9999).contains(&year) {
            Ok(Value::text(self.format(layouts::RFC_3339_NANO)))
        } else {
            Err("json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year outside of range [0,9999]"
                .to_owned())
        })
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| {
            self.at == other.at
                && self.clock == other.clock
                && format!("{:?}", self.zone) == format!("{:?}", other.zone)
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(crate) const TIME: &str = "time.Time";
const TIMES: &[Type] = &[Type::Struct(TIME)];
const DURATIONS: &[Type] = &[Type::Named(|| &DURATION)];
const TEXT: &[Type] = &[Type::Text];

/// The time whose method is called.
fn own<'c>(call: &'c Call<'_, '_>) -> Result<&'c Time, Failure> {
    call.receiver().as_object().ok_or_else(|| Failure::new("not a time"))
}

fn other<'c>(call: &'c Call<'_, '_>) -> Result<&'c Time, Failure> {
    call.value(0).as_object().ok_or_else(|| Failure::new("not a time"))
}

#[expect(clippy::unnecessary_wraps, reason = "what functions answer")]
fn int(number: impl Into<i64>) -> Result<Value, Failure> {
    Ok(Value::int(number.into()))
}

static TIME_METHODS: &[Function] = &[
    Function::new("Add", DURATIONS, |call| Ok(Value::object(own(call)?.after(nanoseconds(call.value(0)))))),
    Function::new("AddDate", &[Type::INT, Type::INT, Type::INT], add_date),
    Function::new("After", TIMES, |call| Ok(Value::Bool(own(call)?.at > other(call)?.at))),
    Function::new("Before", TIMES, |call| Ok(Value::Bool(own(call)?.at < other(call)?.at))),
    Function::unfit("Clock", "function Clock has 3 return values; should be 1 or 2"),
    Function::new("Compare", TIMES, |call| int(own(call)?.at.cmp(&other(call)?.at) as i8)),
    Function::unfit("Date", "function Date has 3 return values; should be 1 or 2"),
    Function::new("Day", &[], |call| int(own(call)?.civil().day())),
    Function::new("Equal", TIMES, |call| Ok(Value::Bool(own(call)?.at == other(call)?.at))),
    Function::new("Format", TEXT, |call| {
        let text = own(call)?.format(&call.text(0).to_str());
        call.answer_text(text)
    }),
    Function::new("Hour", &[], |call| int(own(call)?.civil().hour())),
    Function::unfit(
        "ISOWeek",
        "invalid function signature for ISOWeek: second return value should be error; is int",
    ),
    Function::new("IsDST", &[], |call| {
        let time = own(call)?;
        Ok(Value::Bool(time.time_zone().to_offset_info(time.at).dst().is_dst()))
    }),
    Function::new("IsZero", &[], |call| {
        let at = own(call)?.at;
        Ok(Value::Bool(at.as_second() == ZERO_SECONDS && at.subsec_nanosecond() == 0))
    }),
    Function::new("Local", &[], |call| Ok(Value::object(Time::utc(own(call)?.at)))),
    Function::new("Minute", &[], |call| int(own(call)?.civil().minute())),
    Function::new("Month", &[], |call| {
        Ok(Value::named(&MONTH, Value::int(i64::from(own(call)?.civil().month()))))
    }),
    Function::new("Nanosecond", &[], |call| int(own(call)?.civil().subsec_nanosecond())),
    Function::new("Round", DURATIONS, |call| {
        let (time, unit) = (own(call)?, i128::from(nanoseconds(call.value(0))));
        Ok(time.with(rounded(time.at, unit, true)))
    }),
    Function::new("Second", &[], |call| int(own(call)?.civil().second())),
    Function::new("String", &[], |call| Ok(Value::text(own(call)?.text()))),
    Function::new("Sub", TIMES, |call| Ok(duration_value(own(call)?.since(other(call)?)))),
    Function::new("Truncate", DURATIONS, |call| {
        let (time, unit) = (own(call)?, i128::from(nanoseconds(call.value(0))));
        Ok(time.with(rounded(time.at, unit, false)))
    }),
    Function::new("UTC", &[], |call| Ok(Value::object(Time::utc(own(call)?.at)))),
    Function::new("Unix", &[], |call| Ok(Value::int64(own(call)?.at.as_second()))),
    Function::new("UnixMicro", &[], |call| Ok(Value::int64(own(call)?.at.as_microsecond()))),
    Function::new("UnixMilli", &[], |call| Ok(Value::int64(own(call)?.at.as_millisecond()))),
    Function::new("UnixNano", &[], |call| Ok(Value::int64(layouts::unix_nanoseconds(own(call)?.at)))),
    Function::new("Weekday", &[], |call| {
        let day = own(call)?.civil().weekday().to_sunday_zero_offset();
        Ok(Value::named(&WEEKDAY, Value::int(i64::from(day))))
    }),
    Function::new("Year", &[], |call| int(own(call)?.civil().year())),
    Function::new("YearDay", &[], |call| int(own(call)?.civil().day_of_year())),
    Function::unfit(
        "Zone",
        "invalid function signature for Zone: second return value should be error; is int",
    ),
    Function::unfit(
        "ZoneBounds",
        "invalid function signature for ZoneBounds: second return value should be error; is time.Time",
    ),
];

/// A time cut to a multiple of a unit since the year 1, or the nearest such.
fn rounded(at: Timestamp, unit: i128, nearest: bool) -> Timestamp {
    if unit <= 0 {
        return at;
    }
    let since_zero = at.as_nanosecond() - i128::from(ZERO_SECONDS) * 1_000_000_000;
    let rest = since_zero.rem_euclid(unit);
    let up = nearest && rest * 2 >= unit;
    let moved = at.as_nanosecond() - rest + if up { unit } else { 0 };
    Timestamp::from_nanosecond(moved).unwrap_or(at)
}

fn add_date(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let time = own(call)?;
    let civil = time.civil();
    // A month that is no month moves the year, a day that is no day the month.
    let months = (i128::from(civil.year()) + i128::from(call.int(0))) * 12 + i128::from(civil.month()) - 1
        + i128::from(call.int(1));
    let year = i16::try_from(months.div_euclid(12)).unwrap_or(i16::MAX).clamp(-9_998, 9_998);
    let month = i8::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
    let days = call.int(2).clamp(-8_000_000, 8_000_000) + i64::from(civil.day()) - 1;
    let date = jiff::civil::Date::new(year, month, 1).ok();
    let date = date.map(|date| date.saturating_add(jiff::Span::new().days(days)));
    let at = date.and_then(|date| {
        let local = date.to_datetime(civil.time());
        time.time_zone().to_ambiguous_timestamp(local).compatible().ok()
    });
    Ok(time.with(at.unwrap_or(time.at)))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::unnecessary_wraps,
    reason = "as Go divides; what functions answer"
)]
fn float_of(call: &Call<'_, '_>, unit: i64) -> Result<Value, Failure> {
    let whole = nanoseconds(call.receiver());
    // Whole units and the rest are divided apart, which keeps digits.
    Ok(Value::Float((whole / unit) as f64 + (whole % unit) as f64 / unit as f64))
}

pub(crate) const SECOND: i64 = 1_000_000_000;

static DURATION_METHODS: &[Function] = &[
    Function::new("Abs", &[], |call| {
        let nanoseconds = nanoseconds(call.receiver());
        Ok(duration_value(nanoseconds.checked_abs().unwrap_or(i64::MAX)))
    }),
    Function::new("Hours", &[], |call| float_of(call, 3_600 * SECOND)),
    Function::new("Microseconds", &[], |call| Ok(Value::int64(nanoseconds(call.receiver()) / 1_000))),
    Function::new("Milliseconds", &[], |call| Ok(Value::int64(nanoseconds(call.receiver()) / 1_000_000))),
    Function::new("Minutes", &[], |call| float_of(call, 60 * SECOND)),
    Function::new("Nanoseconds", &[], |call| Ok(Value::int64(nanoseconds(call.receiver())))),
    Function::new("Round", DURATIONS, |call| {
        Ok(duration_value(round_duration(nanoseconds(call.receiver()), nanoseconds(call.value(0)))))
    }),
    Function::new("Seconds", &[], |call| float_of(call, SECOND)),
    Function::new("String", &[], |call| Ok(Value::Text(call.receiver().stringer().unwrap_or_default()))),
    Function::new("Truncate", DURATIONS, |call| {
        Ok(duration_value(truncate_duration(nanoseconds(call.receiver()), nanoseconds(call.value(0)))))
    }),
];

/// `Duration.Round`: the nearest multiple, a half away from zero; within the range of durations.
pub(crate) fn round_duration(duration: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return duration;
    }
    let rest = (duration % unit).unsigned_abs();
    let (rest, unit) = (i128::from(rest), i128::from(unit));
    let magnitude = i128::from(duration.unsigned_abs());
    let rounded = if rest * 2 < unit { magnitude - rest } else { magnitude - rest + unit };
    let signed = if duration < 0 { -rounded } else { rounded };
    i64::try_from(signed).unwrap_or(if duration < 0 { i64::MIN } else { i64::MAX })
}

/// `Duration.Truncate`: toward zero.
pub(crate) fn truncate_duration(duration: i64, unit: i64) -> i64 {
    if unit <= 0 { duration } else { duration - duration % unit }
}
