//! Five-field cron schedules as robfig/cron 3.0.2 runs them: sync windows.
//!
//! Fields are minute, hour, day of month, month and day of week. The search walks the local clock as the
//! original does, so that a time inside a spring gap is skipped that day and one in the repeated autumn hour
//! comes twice. It gives up after five years, and it ends on days that a zone skipped entirely.
//!
//! Golden rows: `cron.jsonl`.

use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};

/// Why a schedule is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// Nothing but blanks.
    #[error("empty spec string")]
    Empty,
    /// Not five fields.
    #[error("expected exactly 5 fields, found {0}")]
    Fields(usize),
    /// `@daily` and the like.
    #[error("parser does not accept descriptors: {0}")]
    Descriptor(String),
    /// A part of a field is not a number, a name, a range or a step, or is out of bounds.
    #[error("failed to parse {0:?}")]
    Part(String),
    /// A zone that the zone data does not know.
    #[error("unknown time zone {0}")]
    Zone(String),
}

/// A schedule.
#[derive(Debug, Clone)]
pub struct Schedule {
    minutes: Bits,
    hours: Bits,
    days: Bits,
    months: Bits,
    weekdays: Bits,
    zone: TimeZone,
}

/// The values a field allows.
#[derive(Debug, Clone, Copy)]
struct Bits {
    values: u64,
    /// Whether the field says "every", which decides how days of month and of week combine.
    every: bool,
}

/// What a field may hold.
struct Bounds {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { least: 0, most: 59, names: &[] };
const HOURS: Bounds = Bounds { least: 0, most: 23, names: &[] };
const DAYS: Bounds = Bounds { least: 1, most: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds =
    Bounds { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Years after which the search ends.
const SEARCH_YEARS_MAX: i16 = 5;
/// Steps after which the search ends; an ordinary one needs some hundreds.
const SEARCH_STEPS_MAX: u32 = 20_000;
const HOUR_SECONDS: i64 = 3_600;
const DAY_SECONDS: i64 = 86_400;

/// Finds a zone by its IANA name in the zone data compiled in; empty is UTC.
pub fn zone(name: &str) -> Result<TimeZone, CronError> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    // Names are paths of files in the original, where two slashes are one.
    let path = name.split('/').filter(|part| !part.is_empty()).collect::<Vec<&str>>().join("/");
    let names_a_file = !name.starts_with('/') && !name.ends_with('/');
    // Case counts, as it does in names of files.
    let is_exact = |zone: &TimeZone| names_a_file && zone.iana_name() == Some(&path);
    let found = TimeZoneDatabase::bundled().get(&path).ok().filter(is_exact);
    found.ok_or_else(|| CronError::Zone(name.to_owned()))
}

/// The next times of a schedule after an instant, at most `count` (EVAL-755).
pub fn next_times(
    schedule: &str,
    zone_name: &str,
    after: Timestamp,
    count: usize,
) -> Result<Vec<Timestamp>, CronError> {
    let schedule = Schedule::parse(schedule, zone(zone_name)?)?;
    let mut from = Some(after);
    Ok(std::iter::from_fn(|| {
        from = schedule.next_after(from?);
        from
    })
    .take(count)
    .collect())
}

impl Schedule {
    /// Reads a schedule that runs in the given zone unless a `TZ=` or `CRON_TZ=` prefix names another.
    pub fn parse(text: &str, zone_given: TimeZone) -> Result<Self, CronError> {
        if text.is_empty() {
            return Err(CronError::Empty);
        }
        let mut zone_used = zone_given;
        let mut fields = text;
        if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let (name, rest) = rest.split_once(' ').ok_or(CronError::Fields(0))?;
            zone_used = zone(name)?;
            fields = rest.trim();
        }
        if fields.starts_with('@') {
            return Err(CronError::Descriptor(fields.to_owned()));
        }
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(CronError::Fields(fields.len()));
        };
        Ok(Self {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days: field(days, &DAYS)?,
            months: field(months, &MONTHS)?,
            weekdays: field(weekdays, &WEEKDAYS)?,
            zone: zone_used,
        })
    }

    /// The first run after an instant; `None` when there is none within five years.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let never = |bits: Bits| bits.values == 0;
        // A field of commas only names nothing; of the two about days it takes as many as in `has_day`.
        let (day, weekday) = (never(self.days), never(self.weekdays));
        let no_day = if self.days.every || self.weekdays.every { day || weekday } else { day && weekday };
        if never(self.minutes) || never(self.hours) || never(self.months) || no_day {
            return None;
        }
        Search { schedule: self, at: instant.as_second() + 1, aligned: false, steps: 0 }.run()
    }
}

/// A walk along the local clock.
struct Search<'s> {
    schedule: &'s Schedule,
    /// Seconds since 1970, UTC.
    at: i64,
    /// Whether the smaller units were set to their first values, which happens once.
    aligned: bool,
    steps: u32,
}

impl Search<'_> {
    fn run(mut self) -> Option<Timestamp> {
        let last_year = self.local()?.year() + SEARCH_YEARS_MAX;
        while self.local()?.year() <= last_year {
            if self.find_month()?
                && self.find_day()?
                && self.find_hour()?
                && self.find_minute()?
                && self.find_second()?
            {
                return Timestamp::from_second(self.at).ok();
            }
        }
        None
    }

    /// Each `find_` moves to the next allowed value and says whether it did so without wrapping around.
    fn find_month(&mut self) -> Option<bool> {
        while !self.schedule.months.has(self.local()?.month()) {
            if !self.aligned {
                self.aligned = true;
                self.at = self.midnight(self.local()?.date().first_of_month())?;
            }
            // The clock goes on in the next month, where it need not be midnight: a zone may have moved it.
            let local = self.local()?;
            let next = local.date().first_of_month().checked_add(1.month()).ok()?;
            let next = next.checked_add(i64::from(local.day() - 1).days()).ok()?;
            self.at = self.instant(next.to_datetime(local.time()))?;
            self.step()?;
            if self.local()?.month() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn find_day(&mut self) -> Option<bool> {
        while !self.schedule.has_day(self.local()?) {
            let local = self.local()?;
            if !self.aligned {
                self.aligned = true;
                self.at = self.midnight(local.date())?;
            }
            let before = self.at;
            let local = self.local()?;
            let next = local.checked_add(1.day()).ok()?;
            self.at = self.instant(next)?;
            // Midnight does not exist on some days; the nearest one is meant.
            let hour = i64::from(self.local()?.hour());
            if hour > 12 {
                self.at += (24 - hour) * HOUR_SECONDS;
            } else {
                self.at -= hour * HOUR_SECONDS;
            }
            // On a day that the zone skipped the original would come back here for ever.
            if self.at <= before {
                self.at = before + DAY_SECONDS;
            }
            self.step()?;
            if self.local()?.day() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn find_hour(&mut self) -> Option<bool> {
        while !self.schedule.hours.has(self.local()?.hour()) {
            if !self.aligned {
                self.aligned = true;
                let local = self.local()?;
                self.at = self.instant(local.date().at(local.hour(), 0, 0, 0))?;
            }
            self.at += HOUR_SECONDS;
            self.step()?;
            if self.local()?.hour() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn find_minute(&mut self) -> Option<bool> {
        while !self.schedule.minutes.has(self.local()?.minute()) {
            if !self.aligned {
                self.aligned = true;
                self.at -= self.at.rem_euclid(60);
            }
            self.at += 60;
            self.step()?;
            if self.local()?.minute() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn find_second(&mut self) -> Option<bool> {
        while self.local()?.second() != 0 {
            self.aligned = true;
            self.at += 1;
            self.step()?;
            if self.local()?.second() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps < SEARCH_STEPS_MAX).then_some(())
    }

    fn local(&self) -> Option<DateTime> {
        Some(self.schedule.zone.to_datetime(Timestamp::from_second(self.at).ok()?))
    }

    fn midnight(&self, date: Date) -> Option<i64> {
        self.instant(date.at(0, 0, 0, 0))
    }

    /// The instant of a local time. Where it does not exist, Go's choice: the offset that holds at the time
    /// one gets with the offset that holds when the clock is read as UTC.
    fn instant(&self, local: DateTime) -> Option<i64> {
        let as_utc = TimeZone::UTC.to_timestamp(local).ok()?.as_second();
        let offset = |seconds: i64| {
            let instant = Timestamp::from_second(seconds).ok()?;
            Some(i64::from(self.schedule.zone.to_offset(instant).seconds()))
        };
        let first = offset(as_utc)?;
        Some(as_utc - offset(as_utc - first)?)
    }
}

impl Schedule {
    fn has_day(&self, local: DateTime) -> bool {
        let day = self.days.has(local.day());
        let weekday = self.weekdays.has(local.weekday().to_sunday_zero_offset());
        if self.days.every || self.weekdays.every { day && weekday } else { day || weekday }
    }
}

impl Bits {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.values & (1 << value) != 0)
    }
}

fn field(text: &str, bounds: &Bounds) -> Result<Bits, CronError> {
    let mut bits = Bits { values: 0, every: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let found = range(part, bounds).ok_or_else(|| CronError::Part(part.to_owned()))?;
        bits.values |= found.values;
        bits.every |= found.every;
    }
    Ok(bits)
}

/// Reads `*`, `5`, `5-10`, each with an optional step; `5/10` runs to the end of the field.
fn range(text: &str, bounds: &Bounds) -> Option<Bits> {
    let mut around_slash = text.split('/');
    let (values, step) = (around_slash.next()?, around_slash.next());
    if around_slash.next().is_some() {
        return None;
    }
    let mut around_hyphen = values.split('-');
    let (first, second) = (around_hyphen.next()?, around_hyphen.next());
    let mut every = matches!(first, "*" | "?");
    let (least, mut most) = if every {
        (bounds.least, bounds.most)
    } else {
        let least = value(first, bounds)?;
        let most = second.map_or(Some(least), |second| value(second, bounds))?;
        if around_hyphen.next().is_some() {
            return None;
        }
        (least, most)
    };
    let step = match step {
        None => 1,
        Some(step) => {
            if second.is_none() {
                most = bounds.most;
            }
            let step = number(step)?;
            every &= step <= 1;
            step
        }
    };
    if least < bounds.least || most > bounds.most || least > most || step == 0 {
        return None;
    }
    let step = usize::try_from(step).ok()?;
    let values = (least..=most).step_by(step).fold(0, |bits, value| bits | 1 << value);
    Some(Bits { values, every })
}

fn value(text: &str, bounds: &Bounds) -> Option<u32> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(index) => Some(bounds.least + u32::try_from(index).ok()?),
        None => number(text),
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}
