//! From text to a time.

use super::TimeError;
use super::layout::{Offset, Pad, Piece, pieces};
use super::print::{MONTHS, WEEKDAYS};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Reads a time by a layout. What the layout does not name is the start of the year 0, UTC.
pub fn parse(layout: &str, text: &str) -> Result<Timestamp, TimeError> {
    parse_zoned(layout, text).map(|parsed| parsed.at)
}

/// A time with the zone that its text names.
pub(crate) struct Parsed {
    pub(crate) at: Timestamp,
    pub(crate) zone: ParsedZone,
}

/// The zone of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParsedZone {
    /// It names none.
    None,
    /// `Z` or `UTC`.
    Utc,
    /// An offset, with its abbreviation if there is one.
    Fixed { seconds: i32, name: String },
}

/// The same, with the zone that is read.
pub(crate) fn parse_zoned(layout: &str, text: &str) -> Result<Parsed, TimeError> {
    let pieces = pieces(layout);
    let mut reader = Reader { rest: text, fields: Fields::default() };
    for (index, (piece, spelled)) in pieces.iter().enumerate() {
        let before = reader.rest;
        let read = reader
            .piece(*piece)
            .ok_or_else(|| TimeError::Shape { rest: before.to_owned(), wanted: (*spelled).to_owned() })?;
        if let Err(out_of_range) = read {
            return Err(TimeError::Range(out_of_range));
        }
        let fraction_follows = matches!(pieces.get(index + 1), Some((Piece::Fraction { .. }, _)));
        if matches!(piece, Piece::Second { .. }) && !fraction_follows {
            // A fraction is read even when the layout has none.
            reader.free_fraction();
        }
    }
    if !reader.rest.is_empty() {
        return Err(TimeError::Extra(reader.rest.to_owned()));
    }
    let Fields { utc, offset_seconds, has_offset, ref zone_name, .. } = reader.fields;
    let zone = if utc {
        ParsedZone::Utc
    } else if has_offset || !zone_name.is_empty() {
        let seconds = i32::try_from(offset_seconds).unwrap_or(0);
        ParsedZone::Fixed { seconds, name: zone_name.clone() }
    } else {
        ParsedZone::None
    };
    Ok(Parsed { at: reader.fields.time()?, zone })
}

#[derive(Default)]
struct Fields {
    year: i16,
    month: Option<i8>,
    day: Option<i8>,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    afternoon: Option<bool>,
    offset_seconds: i64,
    /// Whether an offset was read.
    has_offset: bool,
    /// Whether the zone is UTC by its name.
    utc: bool,
    /// The abbreviation of the zone.
    zone_name: String,
}

impl Fields {
    fn time(&self) -> Result<Timestamp, TimeError> {
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let day_error = |_invalid| TimeError::Range("day");
        let date = match self.year_day {
            Some(day) => {
                let first = Date::new(self.year, 1, 1).map_err(day_error)?;
                let date = first
                    .with()
                    .day_of_year(day)
                    .build()
                    .map_err(|_invalid| TimeError::Range("day-of-year"))?;
                if self.month.is_some_and(|month| month != date.month())
                    || self.day.is_some_and(|day| day != date.day())
                {
                    return Err(TimeError::Range("day-of-year does not match the date, which is"));
                }
                date
            }
            None => {
                Date::new(self.year, self.month.unwrap_or(1), self.day.unwrap_or(1)).map_err(day_error)?
            }
        };
        let local = date.at(hour, self.minute, self.second, self.nanosecond);
        TimeZone::UTC
            .to_timestamp(local)
            .and_then(|time| time.checked_sub(SignedDuration::from_secs(self.offset_seconds)))
            .map_err(|_beyond| TimeError::Range("year"))
    }
}

struct Reader<'t> {
    rest: &'t str,
    fields: Fields,
}

/// None: the text does not fit. An error: it fits, but the number is out of range.
type Read = Option<Result<(), &'static str>>;

impl Reader<'_> {
    fn piece(&mut self, piece: Piece<'_>) -> Read {
        match piece {
            Piece::Literal(text) => self.literal(text)?,
            Piece::LongMonth => self.fields.month = Some(self.name(&MONTHS, usize::MAX)? + 1),
            Piece::Month => self.fields.month = Some(self.name(&MONTHS, 3)? + 1),
            Piece::LongWeekday => drop(self.name(&WEEKDAYS, usize::MAX)?),
            Piece::Weekday => drop(self.name(&WEEKDAYS, 3)?),
            Piece::NumberMonth { padded } => {
                let month = self.number(padded)?;
                if !(1..=12).contains(&month) {
                    return Some(Err("month"));
                }
                self.fields.month = Some(month);
            }
            Piece::Day(pad) => {
                if pad == Pad::Blank {
                    self.skip_blank();
                }
                self.fields.day = Some(self.number(pad == Pad::Zero)?);
            }
            Piece::YearDay(pad) => {
                if pad == Pad::Blank {
                    self.skip_blank();
                    self.skip_blank();
                }
                self.fields.year_day =
                    Some(self.digits(if pad == Pad::Zero { 3 } else { 1 }, 3)?.parse().ok()?);
            }
            Piece::Hour => {
                self.fields.hour = self.number(false)?;
                return Some(in_range(self.fields.hour, 23, "hour"));
            }
            Piece::Hour12 { padded } => {
                self.fields.hour = self.number(padded)?;
                return Some(in_range(self.fields.hour, 12, "hour"));
            }
            Piece::Minute { padded } => {
                self.fields.minute = self.number(padded)?;
                return Some(in_range(self.fields.minute, 59, "minute"));
            }
            Piece::Second { padded } => {
                self.fields.second = self.number(padded)?;
                return Some(in_range(self.fields.second, 59, "second"));
            }
            Piece::LongYear => self.fields.year = self.digits(4, 4)?.parse().ok()?,
            Piece::Year => {
                // Any number of two characters, a sign included.
                let (text, rest) = self.rest.split_at_checked(2)?;
                self.rest = rest;
                let year: i16 = text.parse().ok()?;
                self.fields.year = if year >= 69 { year + 1_900 } else { year + 2_000 };
            }
            Piece::HalfDay { upper } => self.half_day(upper)?,
            Piece::ZoneName => self.zone_name()?,
            Piece::Offset(spelling) => return self.offset(spelling),
            Piece::Fraction { digits, trimmed, .. } => self.fraction(digits, trimmed)?,
        }
        Some(Ok(()))
    }

    /// Matches literal text; blanks in it stand for any number of blanks, also none at the end.
    fn literal(&mut self, text: &str) -> Option<()> {
        let mut wanted = text;
        while let Some(first) = wanted.chars().next() {
            if first == ' ' {
                if !self.rest.is_empty() && !self.rest.starts_with(' ') {
                    return None;
                }
                wanted = wanted.trim_start_matches(' ');
                self.rest = self.rest.trim_start_matches(' ');
            } else {
                wanted = wanted.strip_prefix(first)?;
                self.rest = self.rest.strip_prefix(first)?;
            }
        }
        Some(())
    }

    fn skip_blank(&mut self) {
        self.rest = self.rest.strip_prefix(' ').unwrap_or(self.rest);
    }

    /// Finds one of some names, in any case, by at most `length` characters.
    fn name(&mut self, names: &[&str], length: usize) -> Option<i8> {
        for (index, name) in names.iter().enumerate() {
            let name = name.get(..length.min(name.len())).unwrap_or(name);
            let Some((head, rest)) = self.rest.split_at_checked(name.len()) else { continue };
            if head.eq_ignore_ascii_case(name) {
                self.rest = rest;
                return i8::try_from(index).ok();
            }
        }
        None
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<&str> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(count).filter(|_| count >= least)?;
        self.rest = rest;
        Some(digits)
    }

    fn number(&mut self, padded: bool) -> Option<i8> {
        self.digits(if padded { 2 } else { 1 }, 2)?.parse().ok()
    }

    fn half_day(&mut self, upper: bool) -> Option<()> {
        let (head, rest) = self.rest.split_at_checked(2)?;
        self.fields.afternoon = Some(match (head, upper) {
            ("PM", true) | ("pm", false) => true,
            ("AM", true) | ("am", false) => false,
            _ => return None,
        });
        self.rest = rest;
        Some(())
    }

    fn free_fraction(&mut self) {
        let digit = self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if self.rest.starts_with(['.', ',']) && digit {
            self.rest = self.rest.get(1..).unwrap_or_default();
            self.nanoseconds(usize::MAX);
        }
    }

    fn fraction(&mut self, digits: usize, trimmed: bool) -> Option<()> {
        if trimmed {
            self.free_fraction();
            return Some(());
        }
        let count = self.rest.bytes().skip(1).take(digits).take_while(u8::is_ascii_digit).count();
        if !self.rest.starts_with(['.', ',']) || count < digits {
            return None;
        }
        self.rest = self.rest.get(1..)?;
        self.nanoseconds(digits);
        Some(())
    }

    /// Reads fractional digits; those beyond the ninth have no effect.
    fn nanoseconds(&mut self, most: usize) {
        let digits = self.digits(0, most).unwrap_or_default();
        let nine: String = digits.chars().chain(std::iter::repeat('0')).take(9).collect();
        self.fields.nanosecond = nine.parse().unwrap_or(0);
    }

    fn offset(&mut self, spelling: Offset) -> Read {
        if spelling.zulu
            && let Some(rest) = self.rest.strip_prefix('Z')
        {
            self.rest = rest;
            self.fields.utc = true;
            return Some(Ok(()));
        }
        let sign = match self.rest.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = self.rest.get(1..)?;
        let mut parts = [0_i64; 3];
        let present = [true, spelling.minutes, spelling.seconds];
        for (index, (part, _)) in
            parts.iter_mut().zip(present).enumerate().filter(|(_, (_, present))| *present)
        {
            if index > 0 && spelling.colons {
                self.rest = self.rest.strip_prefix(':')?;
            }
            *part = i64::from(self.number(true)?);
        }
        let [hours, minutes, seconds] = parts;
        if hours > 24 {
            return Some(Err("time zone offset hour"));
        }
        if minutes > 60 || seconds > 60 {
            return Some(Err("time zone offset minute"));
        }
        self.fields.offset_seconds = sign * ((hours * 60 + minutes) * 60 + seconds);
        self.fields.has_offset = true;
        Some(Ok(()))
    }

    /// Reads what looks like the abbreviation of a zone.
    fn zone_name(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix("UTC") {
            self.rest = rest;
            self.fields.utc = true;
            return Some(());
        }
        let length = if self.rest.starts_with("ChST") || self.rest.starts_with("MeST") {
            4
        } else if let Some(rest) = self.rest.strip_prefix("GMT") {
            let signed = signed_hours(rest);
            self.fields.offset_seconds = signed.map_or(0, |(hours, _)| hours * 3_600);
            3 + signed.map_or(0, |(_, length)| length)
        } else if self.rest.starts_with(['+', '-']) {
            signed_hours(self.rest)?.1
        } else {
            let upper = self.rest.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
            let name = self.rest.get(..upper)?;
            let known = match upper {
                3 => true,
                4 => name.ends_with('T') || name == "WITA",
                5 => name.ends_with('T'),
                _ => false,
            };
            if !known {
                return None;
            }
            upper
        };
        let (name, rest) = self.rest.split_at_checked(length)?;
        name.clone_into(&mut self.fields.zone_name);
        self.rest = rest;
        Some(())
    }
}

/// Reads `+3` up to 23: the hours and the length.
fn signed_hours(text: &str) -> Option<(i64, usize)> {
    let digits = text.strip_prefix(['+', '-'])?;
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let hours: i64 = digits.get(..count)?.parse().ok().filter(|hours| *hours <= 23)?;
    Some((if text.starts_with('-') { -hours } else { hours }, count + 1))
}

fn in_range(value: i8, most: i8, name: &'static str) -> Result<(), &'static str> {
    if value > most { Err(name) } else { Ok(()) }
}
