//! The dates both libraries recognise in plain text.
//!
//! The reader for kustomize makes them values of their own; the writer quotes text that looks like one.

/// A date, or a date with a time of day and an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timestamp {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanosecond: u32,
    offset_minutes: i32,
}

impl Timestamp {
    /// Recognises `2001-1-2`, `2001-1-2 3:4:5.6` and `2001-1-2T3:4:5.6+07:00` (also with `t` and `Z`).
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The cheap test first: nearly every text fails here.
        if text.len() < 8 || text.as_bytes().get(4) != Some(&b'-') {
            return None;
        }
        let mut rest = Cursor(text);
        let year = rest.digits(4, 4)?;
        let month = rest.after('-')?.digits(1, 2)?;
        let day = rest.after('-')?.digits(1, 2)?;
        let mut read =
            Self { year, month, day, hour: 0, minute: 0, second: 0, nanosecond: 0, offset_minutes: 0 };
        if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
            return None;
        }
        if rest.0.is_empty() {
            return Some(read);
        }
        let zoned = rest.0.starts_with(['T', 't']);
        if zoned {
            rest.skip();
        } else if rest.0.starts_with(' ') {
            // Go's blank in a layout stands for any number of blanks.
            rest.0 = rest.0.trim_start_matches(' ');
        } else {
            return None;
        }
        read.hour = rest.digits(1, 2)?;
        read.minute = rest.after(':')?.digits(1, 2)?;
        read.second = rest.after(':')?.digits(1, 2)?;
        read.nanosecond = rest.fraction();
        if read.hour > 23 || read.minute > 59 || read.second > 59 {
            return None;
        }
        if zoned {
            read.offset_minutes = rest.offset()?;
        }
        rest.0.is_empty().then_some(read)
    }

    /// RFC 3339 with as many fractional digits as needed.
    pub(super) fn rfc3339(&self) -> String {
        format!("{}T{}{}", self.date(), self.clock(), self.offset(":", "Z"))
    }

    /// What Go prints for a `time.Time`.
    pub(super) fn printed(&self) -> String {
        let offset = self.offset("", "+0000");
        let name = match self.offset_minutes {
            0 => "UTC".to_owned(),
            whole if whole % 60 == 0 => offset.chars().take(3).collect(),
            _ => offset.clone(),
        };
        format!("{} {} {offset} {name}", self.date(), self.clock())
    }

    fn date(&self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    fn clock(&self) -> String {
        let mut text = format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second);
        if self.nanosecond > 0 {
            let fraction = format!(".{:09}", self.nanosecond);
            text.push_str(fraction.trim_end_matches('0'));
        }
        text
    }

    fn offset(&self, colon: &str, zero: &str) -> String {
        if self.offset_minutes == 0 {
            return zero.to_owned();
        }
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let minutes = self.offset_minutes.abs();
        format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60)
    }
}

/// What is left to read.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn skip(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }

    fn after(&mut self, mark: char) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(mark)?;
        Some(self)
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.parse().ok()
    }

    /// Reads `.123`; digits beyond the ninth have no effect, no digits are no fraction.
    fn fraction(&mut self) -> u32 {
        let Some(rest) = self.0.strip_prefix(['.', ',']) else { return 0 };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        let (digits, rest) = rest.split_at_checked(count).unwrap_or((rest, ""));
        self.0 = rest;
        let nine: String = digits.chars().chain(std::iter::repeat('0')).take(9).collect();
        nine.parse().unwrap_or(0)
    }

    fn offset(&mut self) -> Option<i32> {
        if let Some(rest) = self.0.strip_prefix('Z') {
            self.0 = rest;
            return Some(0);
        }
        let sign = match self.0.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.skip();
        let hours = self.digits(2, 2)?;
        let minutes = self.after(':')?.digits(2, 2)?;
        if hours > 24 || minutes > 59 {
            return None;
        }
        Some(sign * i32::try_from(hours * 60 + minutes).ok()?)
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
