//! A time and where it is shown: Go's `Time`.

use super::print::Shown;
use super::{RFC_3339_NANO, TimeError, Zone};
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// A time in a zone. Times between the years -9999 and 9999 exist; Go's go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub instant: Timestamp,
    /// Whose clock shows it.
    pub zone: Zone,
}

/// The layout of `String`.
const STRING: &str = "2006-01-02 15:04:05.999999999 -0700 MST";
const DAY_SECONDS: i128 = 86_400;
const SECOND_NANOS: i128 = 1_000_000_000;
/// From the start of the year 1, from which Go counts, to 1970.
const UNIX_FROM_YEAR_1: i128 = 62_135_596_800;

impl Moment {
    /// A time in UTC.
    pub fn utc(instant: Timestamp) -> Self {
        Self { instant, zone: Zone::Utc }
    }

    /// Go's zero time, the start of the year 1.
    pub fn zero() -> Self {
        let start = i64::try_from(-UNIX_FROM_YEAR_1).unwrap_or_default();
        Self::utc(Timestamp::from_second(start).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// The time at which a zone's clock shows this.
    pub(super) fn of_clock(clock: DateTime, zone: Zone) -> Result<Self, TimeError> {
        let seconds = Offset::UTC.to_timestamp(clock).map_err(|_beyond| TimeError::Range("year"))?;
        let nanoseconds = i128::from(clock.subsec_nanosecond());
        // Seconds round towards zero, and before 1970 that is up.
        let whole = (seconds.as_nanosecond() - nanoseconds).div_euclid(SECOND_NANOS);
        Self::of_parts(whole, nanoseconds, zone)
    }

    fn of_parts(clock: i128, nanoseconds: i128, zone: Zone) -> Result<Self, TimeError> {
        let beyond = || TimeError::Range("year");
        let clock = i64::try_from(clock).map_err(|_beyond| beyond())?;
        let seconds = i128::from(zone.seconds_of(clock));
        let instant = Timestamp::from_nanosecond(seconds * SECOND_NANOS + nanoseconds);
        Ok(Self { instant: instant.map_err(|_beyond| beyond())?, zone })
    }

    /// The same time on another clock.
    #[must_use]
    pub fn within(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// What the clock shows.
    pub fn local(&self) -> DateTime {
        let offset = Offset::from_seconds(self.zone.clock(self.instant).offset).unwrap_or(Offset::UTC);
        offset.to_datetime(self.instant)
    }

    /// Prints it by a layout.
    pub fn format(&self, layout: &str) -> String {
        let clock = self.zone.clock(self.instant);
        Shown { local: self.local(), offset: clock.offset, zone: &clock.abbreviation }.print(layout)
    }

    /// What `String` gives.
    pub fn shown(&self) -> String {
        self.format(STRING)
    }

    /// RFC 3339 with up to nine fractional digits, as JSON has it.
    ///
    /// # Errors
    /// When the year or the offset has no such spelling.
    pub fn rfc_3339(&self) -> Result<String, TimeError> {
        if self.local().year() < 0 {
            return Err(TimeError::Range("year"));
        }
        if self.zone.clock(self.instant).offset.abs() >= 24 * 3_600 {
            return Err(TimeError::Range("timezone hour"));
        }
        Ok(self.format(RFC_3339_NANO))
    }

    /// Later by so many nanoseconds.
    ///
    /// # Errors
    /// When there is no such time.
    pub fn plus(&self, nanoseconds: i64) -> Result<Self, TimeError> {
        let later = self.instant.checked_add(SignedDuration::from_nanos(nanoseconds));
        let instant = later.map_err(|_beyond| TimeError::Range("year"))?;
        Ok(Self { instant, zone: self.zone.clone() })
    }

    /// Nanoseconds since another time, at most as many as a duration has.
    pub fn since(&self, other: &Self) -> i64 {
        let apart = self.instant.as_nanosecond() - other.instant.as_nanosecond();
        i64::try_from(apart.clamp(i64::MIN.into(), i64::MAX.into())).unwrap_or_default()
    }

    /// Later by years, months and days on the calendar; the 31st of April is the first of May.
    ///
    /// # Errors
    /// When there is no such time.
    pub fn plus_date(&self, years: i64, months: i64, days: i64) -> Result<Self, TimeError> {
        let beyond = || TimeError::Range("year");
        let local = self.local();
        let months = i128::from(local.month()) - 1 + i128::from(months);
        let year = i128::from(local.year()) + i128::from(years) + months.div_euclid(12);
        let year = i16::try_from(year).map_err(|_beyond| beyond())?;
        let month = i8::try_from(months.rem_euclid(12) + 1).map_err(|_beyond| beyond())?;
        let first = Date::new(year, month, 1).map_err(|_beyond| beyond())?;
        let midnight = Offset::UTC.to_timestamp(first.at(0, 0, 0, 0)).map_err(|_beyond| beyond())?;
        let days = i128::from(local.day()) - 1 + i128::from(days);
        let of_day =
            i128::from(local.hour()) * 3_600 + i128::from(local.minute()) * 60 + i128::from(local.second());
        let clock = i128::from(midnight.as_second()) + days * DAY_SECONDS + of_day;
        Self::of_parts(clock, i128::from(local.subsec_nanosecond()), self.zone.clone())
    }

    /// Nanoseconds since the start of the year 1.
    fn since_year_1(&self) -> i128 {
        self.instant.as_nanosecond() + UNIX_FROM_YEAR_1 * SECOND_NANOS
    }

    /// Cut down to a multiple of so many nanoseconds since the year 1.
    ///
    /// # Errors
    /// When there is no such time.
    pub fn truncated(&self, nanoseconds: i64) -> Result<Self, TimeError> {
        if nanoseconds <= 0 {
            return Ok(self.clone());
        }
        let over = self.since_year_1().rem_euclid(nanoseconds.into());
        self.plus(-i64::try_from(over).unwrap_or_default())
    }

    /// Rounded to the nearest multiple of so many nanoseconds since the year 1, half of it up.
    ///
    /// # Errors
    /// When there is no such time.
    pub fn rounded(&self, nanoseconds: i64) -> Result<Self, TimeError> {
        if nanoseconds <= 0 {
            return Ok(self.clone());
        }
        let over = self.since_year_1().rem_euclid(nanoseconds.into());
        let over = i64::try_from(over).unwrap_or_default();
        let down = i128::from(over) * 2 < i128::from(nanoseconds);
        self.plus(if down { -over } else { nanoseconds - over })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::parse_moment;

    #[test]
    fn eval_761_a_time_remembers_the_zone_it_was_written_in() {
        let berlin = Zone::find("Europe/Berlin").unwrap();
        for (layout, text, zone, shown) in [
            ("15:04 MST", "10:00 GMT+3", None, "0000-01-01 13:00:00 +0300 GMT+3"),
            ("15:04 MST", "10:00 CET", None, "0000-01-01 10:00:00 +0000 CET"),
            ("15:04 MST", "10:00 UTC", None, "0000-01-01 10:00:00 +0000 UTC"),
            ("15:04 MST", "10:00 +03", None, "0000-01-01 10:00:00 +0000 +03"),
            ("15:04 MST -0700", "10:00 CET +0200", None, "0000-01-01 10:00:00 +0200 CET"),
            (
                "2006-01-02T15:04:05Z07:00",
                "2024-02-29T10:00:00+02:00",
                None,
                "2024-02-29 10:00:00 +0200 +0200",
            ),
            (
                "2006-01-02T15:04:05Z07:00",
                "2024-02-29T10:00:00+24:60",
                None,
                "2024-02-29 10:00:00 +2500 +2500",
            ),
            ("2006-01-02 15:04 MST", "2024-07-29 10:00 CET", Some(&berlin), "2024-07-29 11:00:00 +0200 CEST"),
            ("2006-01-02 15:04", "2024-03-31 02:30", Some(&berlin), "2024-03-31 03:30:00 +0200 CEST"),
            ("2006-01-02 15:04", "2024-10-27 02:30", Some(&berlin), "2024-10-27 02:30:00 +0100 CET"),
        ] {
            assert_eq!(parse_moment(layout, text, zone).unwrap().shown(), shown, "{text}");
        }
    }

    #[test]
    fn eval_761_dates_are_counted_on_the_calendar() {
        let day = parse_moment("2006-01-02", "2024-01-31", None).unwrap();
        assert_eq!(day.plus_date(0, 1, 0).unwrap().format("2006-01-02"), "2024-03-02");
        assert_eq!(day.plus_date(-1, -13, 400).unwrap().format("2006-01-02"), "2023-02-04");
        assert!(day.plus_date(i64::MAX, i64::MAX, i64::MAX).is_err());
        assert!(day.plus_date(8_000, 0, 0).is_err());
        assert_eq!(day.since(&Moment::zero()), i64::MAX);
    }

    #[test]
    fn eval_761_times_are_rounded_from_the_year_1_on() {
        let time = parse_moment(RFC_3339_NANO, "2024-02-29T13:44:50.5Z", None).unwrap();
        let minutes = |count: i64| count * 60_000_000_000;
        assert_eq!(time.truncated(minutes(60)).unwrap().format("15:04:05"), "13:00:00");
        assert_eq!(time.rounded(minutes(60)).unwrap().format("15:04:05"), "14:00:00");
        assert_eq!(time.rounded(1_000_000_000).unwrap().format("15:04:05"), "13:44:51");
        assert_eq!(time.truncated(0).unwrap(), time);
    }
}
