//! `time.Time`, `time.Duration` and their kin as values of templates.

use super::error::Failure;
use super::functions::{Call, Function, Type};
use super::value::{Integer, Kind, NamedType, Number, Object, Text, Value};
use crate::duration;
use crate::time::{self as layouts, Moment, Zone};
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

/// A point in time and the zone that it is told in: Go's `time.Time`.
#[derive(Debug, Clone)]
pub struct Time {
    moment: Moment,
    /// Whether it comes from the clock, which Go remembers.
    clock: bool,
}

impl Time {
    /// A time in UTC, which is also the local zone: a server has no other.
    pub fn utc(at: Timestamp) -> Self {
        Self { moment: Moment::utc(at), clock: false }
    }

    /// What the clock says.
    pub fn now(at: Timestamp) -> Self {
        Self { clock: true, ..Self::utc(at) }
    }

    /// Go's zero time.
    pub(crate) fn zero() -> Self {
        Self { moment: Moment::zero(), clock: false }
    }

    /// A time as a text says, by a layout.
    pub(crate) fn parse(layout: &str, text: &str) -> Result<Self, layouts::TimeError> {
        Ok(Self { moment: layouts::parse_moment(layout, text, None)?, clock: false })
    }

    /// The point in time.
    pub fn timestamp(&self) -> Timestamp {
        self.moment.instant
    }

    /// The same time told in a zone of the zone data; `Local` and no name are UTC.
    pub(crate) fn within(&self, name: &str) -> Option<Self> {
        let zone = Zone::find(name).ok()?;
        Some(Self { moment: self.moment.clone().within(zone), clock: false })
    }

    /// The time by a layout.
    pub(crate) fn format(&self, layout: &str) -> String {
        self.moment.format(layout)
    }

    fn civil(&self) -> jiff::civil::DateTime {
        self.moment.local()
    }

    /// The time so much later. Beyond the years that there are, the last one.
    pub(crate) fn after(&self, nanoseconds: i64) -> Self {
        let at = self.timestamp().saturating_add(SignedDuration::from_nanos(nanoseconds));
        self.at(at.unwrap_or(Timestamp::MAX))
    }

    /// Nanoseconds from another time to this one, within the range of a duration.
    pub(crate) fn since(&self, other: &Self) -> i64 {
        self.moment.since(&other.moment)
    }

    /// Another point in time in the same zone.
    fn at(&self, instant: Timestamp) -> Self {
        Self { moment: Moment { instant, zone: self.moment.zone.clone() }, clock: self.clock }
    }

    /// A time that was reckoned from this one; where it is beyond the years that there are, this one.
    fn moved(&self, moment: Result<Moment, layouts::TimeError>) -> Value {
        let moment = moment.unwrap_or_else(|_beyond| self.moment.clone());
        Value::object(Self { moment, clock: self.clock })
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

    fn go_string(&self) -> Option<String> {
        let civil = self.civil();
        let month = usize::try_from(civil.month() - 1)
            .ok()
            .and_then(|at| layouts::MONTHS.get(at))
            .copied()
            .unwrap_or_default();
        let zone = match &self.moment.zone {
            Zone::Utc => "time.UTC".to_owned(),
            Zone::Local => "time.Local".to_owned(),
            other => format!("time.Location({})", layouts::quote(other.name().as_bytes())),
        };
        Some(format!(
            "time.Date({}, time.{month}, {}, {}, {}, {}, {}, {zone})",
            civil.year(),
            civil.day(),
            civil.hour(),
            civil.minute(),
            civil.second(),
            civil.subsec_nanosecond()
        ))
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
        other
            .as_any()
            .downcast_ref::<Self>()
            .is_some_and(|other| self.moment == other.moment && self.clock == other.clock)
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
    Function::new("After", TIMES, |call| Ok(Value::Bool(own(call)?.timestamp() > other(call)?.timestamp()))),
    Function::new("Before", TIMES, |call| Ok(Value::Bool(own(call)?.timestamp() < other(call)?.timestamp()))),
    Function::unfit("Clock", "function Clock has 3 return values; should be 1 or 2"),
    Function::new("Compare", TIMES, |call| int(own(call)?.timestamp().cmp(&other(call)?.timestamp()) as i8)),
    Function::unfit("Date", "function Date has 3 return values; should be 1 or 2"),
    Function::new("Day", &[], |call| int(own(call)?.civil().day())),
    Function::new("Equal", TIMES, |call| Ok(Value::Bool(own(call)?.timestamp() == other(call)?.timestamp()))),
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
        Ok(Value::Bool(time.moment.zone.clock(time.timestamp()).summer))
    }),
    Function::new("IsZero", &[], |call| Ok(Value::Bool(own(call)?.timestamp() == Moment::zero().instant))),
    Function::new("Local", &[], |call| Ok(Value::object(Time::utc(own(call)?.timestamp())))),
    Function::new("Minute", &[], |call| int(own(call)?.civil().minute())),
    Function::new("Month", &[], |call| {
        Ok(Value::named(&MONTH, Value::int(i64::from(own(call)?.civil().month()))))
    }),
    Function::new("Nanosecond", &[], |call| int(own(call)?.civil().subsec_nanosecond())),
    Function::new("Round", DURATIONS, |call| {
        let time = own(call)?;
        Ok(time.moved(time.moment.rounded(nanoseconds(call.value(0)))))
    }),
    Function::new("Second", &[], |call| int(own(call)?.civil().second())),
    Function::new("String", &[], |call| Ok(Value::text(own(call)?.text()))),
    Function::new("Sub", TIMES, |call| Ok(duration_value(own(call)?.since(other(call)?)))),
    Function::new("Truncate", DURATIONS, |call| {
        let time = own(call)?;
        Ok(time.moved(time.moment.truncated(nanoseconds(call.value(0)))))
    }),
    Function::new("UTC", &[], |call| Ok(Value::object(Time::utc(own(call)?.timestamp())))),
    Function::new("Unix", &[], |call| Ok(Value::int64(own(call)?.timestamp().as_second()))),
    Function::new("UnixMicro", &[], |call| Ok(Value::int64(own(call)?.timestamp().as_microsecond()))),
    Function::new("UnixMilli", &[], |call| Ok(Value::int64(own(call)?.timestamp().as_millisecond()))),
    Function::new("UnixNano", &[], |call| {
        Ok(Value::int64(layouts::unix_nanoseconds(own(call)?.timestamp())))
    }),
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

fn add_date(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let time = own(call)?;
    Ok(time.moved(time.moment.plus_date(call.int(0), call.int(1), call.int(2))))
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
