//! From text to a time.

use super::layout::{Offset, Pad, Piece, pieces};
use super::print::{MONTHS, WEEKDAYS};
use super::{Moment, TimeError, Zone};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

/// Reads a time by a layout. What the layout does not name is the start of the year 0, UTC.
pub fn parse(layout: &str, text: &str) -> Result<Timestamp, TimeError> {
    Ok(parse_moment(layout, text, None)?.instant)
}

/// Reads a time by a layout, and in which zone it was written.
///
/// Without an offset or an abbreviation in the text it is a time of the given zone, or else of UTC. Abbreviations
/// that this zone does not know make one of that name that is UTC.
pub fn parse_moment(layout: &str, text: &str, zone: Option<&Zone>) -> Result<Moment, TimeError> {
    let pieces = pieces(layout);
    let mut reader = Reader { rest: text, fields: Fields::default() };
    for (index, (piece, spelled)) in pieces.iter().enumerate() {
        let before = reader.rest;
        let Some(read) = reader.piece(*piece) else {
            // Of a literal text what fits is taken.
            let rest = if matches!(piece, Piece::Literal(_)) { reader.rest } else { before };
            return Err(TimeError::Shape { rest: rest.to_owned(), wanted: (*spelled).to_owned() });
        };
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
    reader.fields.moment(zone)
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
    /// `Z` or `UTC` was read, which count more than any offset.
    utc: bool,
    offset: Option<i32>,
    zone_name: Option<String>,
}

impl Fields {
    fn moment(&self, zone: Option<&Zone>) -> Result<Moment, TimeError> {
        let local = self.local()?;
        if self.utc {
            return Moment::of_clock(local, Zone::Utc);
        }
        let known = zone.cloned().unwrap_or(Zone::Local);
        let name = self.zone_name.as_deref().unwrap_or_default();
        if let Some(offset) = self.offset {
            let zone = Zone::fixed(name, offset);
            let moment = Moment::of_clock(local, zone)?;
            let clock = known.clock(moment.instant);
            let is_known = clock.offset == offset && (name.is_empty() || name == clock.abbreviation);
            return Ok(if is_known { moment.within(known) } else { moment });
        }
        if name.is_empty() {
            return Moment::of_clock(local, zone.cloned().unwrap_or(Zone::Utc));
        }
        if let Some(offset) = known.offset_called(name, local) {
            return Ok(Moment::of_clock(local, Zone::fixed(name, offset))?.within(known));
        }
        // The clock is taken for UTC even where the name says how far from it the zone is.
        let hours = name.strip_prefix("GMT").and_then(|hours| hours.parse().ok()).unwrap_or(0);
        Ok(Moment::of_clock(local, Zone::Utc)?.within(Zone::fixed(name, 3_600 * hours)))
    }

    fn local(&self) -> Result<DateTime, TimeError> {
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
        Ok(date.at(hour, self.minute, self.second, self.nanosecond))
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
        let mut parts = [0_i32; 3];
        let present = [true, spelling.minutes, spelling.seconds];
        for (index, (part, _)) in
            parts.iter_mut().zip(present).enumerate().filter(|(_, (_, present))| *present)
        {
            if index > 0 && spelling.colons {
                self.rest = self.rest.strip_prefix(':')?;
            }
            *part = i32::from(self.number(true)?);
        }
        let [hours, minutes, seconds] = parts;
        if hours > 24 {
            return Some(Err("time zone offset hour"));
        }
        if minutes > 60 || seconds > 60 {
            return Some(Err("time zone offset minute"));
        }
        self.fields.offset = Some(sign * ((hours * 60 + minutes) * 60 + seconds));
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
            3 + signed_hours(rest).unwrap_or(0)
        } else if self.rest.starts_with(['+', '-']) {
            signed_hours(self.rest)?
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
        self.fields.zone_name = Some(name.to_owned());
        self.rest = rest;
        Some(())
    }
}

/// How long `+3` is, up to 23 hours.
fn signed_hours(text: &str) -> Option<usize> {
    let digits = text.strip_prefix(['+', '-'])?;
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let hours: i64 = digits.get(..count)?.parse().ok()?;
    (hours <= 23).then_some(count + 1)
}

fn in_range(value: i8, most: i8, name: &'static str) -> Result<(), &'static str> {
    if value > most { Err(name) } else { Ok(()) }
}
