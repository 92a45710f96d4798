//! From a time to text.

use super::layout::{Offset, Pad, Piece, pieces};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fmt::Write as _;

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Prints a time as it is in a zone, by a layout.
pub fn format(layout: &str, time: Timestamp, zone: &TimeZone) -> String {
    let info = zone.to_offset_info(time);
    let shown =
        Shown { local: zone.to_datetime(time), offset: info.offset().seconds(), zone: info.abbreviation() };
    shown.print(layout)
}

/// A time on the clocks of a zone.
pub(super) struct Shown<'z> {
    pub(super) local: DateTime,
    /// Seconds that the zone is ahead of UTC.
    pub(super) offset: i32,
    /// What the zone is called at that time; may be empty.
    pub(super) zone: &'z str,
}

impl Shown<'_> {
    pub(super) fn print(&self, layout: &str) -> String {
        let mut out = String::new();
        for (piece, _) in pieces(layout) {
            // Writing to a string cannot fail.
            let _written = self.write(&mut out, piece);
        }
        out
    }

    fn write(&self, out: &mut String, piece: Piece<'_>) -> std::fmt::Result {
        let local = self.local;
        let hour12 = (local.hour() + 11) % 12 + 1;
        let month = MONTHS.get(usize::try_from(local.month() - 1).unwrap_or(0)).copied().unwrap_or_default();
        let weekday = usize::try_from(local.weekday().to_sunday_zero_offset()).unwrap_or(0);
        let weekday = WEEKDAYS.get(weekday).copied().unwrap_or_default();
        match piece {
            Piece::Literal(text) => out.write_str(text),
            Piece::LongMonth => out.write_str(month),
            Piece::Month => out.write_str(month.get(..3).unwrap_or(month)),
            Piece::NumberMonth { padded } => number(out, local.month(), padded),
            Piece::LongWeekday => out.write_str(weekday),
            Piece::Weekday => out.write_str(weekday.get(..3).unwrap_or(weekday)),
            Piece::Day(Pad::None) => write!(out, "{}", local.day()),
            Piece::Day(Pad::Blank) => write!(out, "{:2}", local.day()),
            Piece::Day(Pad::Zero) => write!(out, "{:02}", local.day()),
            Piece::YearDay(Pad::Zero) => write!(out, "{:03}", local.day_of_year()),
            Piece::YearDay(Pad::Blank | Pad::None) => write!(out, "{:3}", local.day_of_year()),
            Piece::Hour => write!(out, "{:02}", local.hour()),
            Piece::Hour12 { padded } => number(out, hour12, padded),
            Piece::Minute { padded } => number(out, local.minute(), padded),
            Piece::Second { padded } => number(out, local.second(), padded),
            Piece::LongYear if local.year() < 0 => write!(out, "-{:04}", -local.year()),
            Piece::LongYear => write!(out, "{:04}", local.year()),
            Piece::Year => write!(out, "{:02}", local.year().unsigned_abs() % 100),
            Piece::HalfDay { upper } => out.write_str(match (local.hour() >= 12, upper) {
                (true, true) => "PM",
                (true, false) => "pm",
                (false, true) => "AM",
                (false, false) => "am",
            }),
            // A zone without a name is known by its offset alone.
            Piece::ZoneName if self.zone.is_empty() => {
                self.offset(out, Offset { zulu: false, colons: false, minutes: true, seconds: false })
            }
            Piece::ZoneName => out.write_str(self.zone),
            Piece::Offset(spelling) => self.offset(out, spelling),
            Piece::Fraction { separator, digits, trimmed } => self.fraction(out, separator, digits, trimmed),
        }
    }

    fn offset(&self, out: &mut String, spelling: Offset) -> std::fmt::Result {
        if spelling.zulu && self.offset == 0 {
            return out.write_str("Z");
        }
        // The sign is that of the whole minutes.
        let sign = if self.offset / 60 < 0 { '-' } else { '+' };
        let colon = if spelling.colons { ":" } else { "" };
        let seconds = self.offset.abs();
        write!(out, "{sign}{:02}", seconds / 3_600)?;
        if spelling.minutes {
            write!(out, "{colon}{:02}", seconds / 60 % 60)?;
        }
        if spelling.seconds {
            write!(out, "{colon}{:02}", seconds % 60)?;
        }
        Ok(())
    }

    fn fraction(&self, out: &mut String, separator: char, digits: usize, trimmed: bool) -> std::fmt::Result {
        let nine = format!("{:09}", self.local.subsec_nanosecond());
        let shown = nine.get(..digits.min(9)).unwrap_or(&nine);
        let shown = if trimmed { shown.trim_end_matches('0') } else { shown };
        if trimmed && shown.is_empty() { Ok(()) } else { write!(out, "{separator}{shown}") }
    }
}

fn number(out: &mut String, value: i8, padded: bool) -> std::fmt::Result {
    if padded { write!(out, "{value:02}") } else { write!(out, "{value}") }
}
