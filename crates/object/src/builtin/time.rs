//! RFC 3339 times as Kubernetes types read and write them: any offset in, UTC out.

/// Sub-second digits of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// Any number of digits is read, none is written.
    Seconds,
    /// Exactly six digits are read and written.
    Micros,
}

/// The time in UTC as its type writes it; `None` when the text is no such time.
pub(super) fn to_utc(text: &str, precision: Precision) -> Option<String> {
    let mut reader = Reader { rest: text.as_bytes() };
    let year = reader.number(4)?;
    let month = reader.after(b'-')?.number(2)?;
    let day = reader.after(b'-')?.number(2)?;
    let hour = reader.after(b'T')?.number(2)?;
    let minute = reader.after(b':')?.number(2)?;
    let second = reader.after(b':')?.number(2)?;
    let valid_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !valid_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = reader.fraction();
    match precision {
        Precision::Seconds => {}
        Precision::Micros if fraction.is_some_and(|digits| digits.len() == 6) => {}
        Precision::Micros => return None,
    }
    let offset_seconds = reader.offset()?;
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    write(seconds - offset_seconds, fraction.filter(|_| precision == Precision::Micros))
}

/// A moment since 1970 as its type writes it: with six digits when microseconds are given. `None` outside of the
/// years that have four digits.
pub(super) fn from_unix(seconds: i64, micros: Option<u32>) -> Option<String> {
    let digits = micros.map(|micros| format!("{micros:06}"));
    write(seconds, digits.as_ref().map(String::as_bytes))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn after(&mut self, byte: u8) -> Option<&mut Self> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (*first == byte).then_some(self)
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        let (head, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        head.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    }

    fn fraction(&mut self) -> Option<&'a [u8]> {
        let digits = self.rest.strip_prefix(b".")?;
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, rest) = digits.split_at_checked(count).filter(|_| count > 0)?;
        self.rest = rest;
        Some(fraction)
    }

    /// The offset at the end of the text, in seconds east of Greenwich.
    fn offset(&mut self) -> Option<i64> {
        if self.rest == b"Z" {
            return Some(0);
        }
        let (sign, rest) = self.rest.split_first()?;
        self.rest = rest;
        let hours = self.number(2)?;
        let minutes = self.after(b':')?.number(2)?;
        let seconds = hours * 3600 + minutes * 60;
        match sign {
            _ if !self.rest.is_empty() || hours > 23 || minutes > 59 => None,
            b'+' => Some(seconds),
            b'-' => Some(-seconds),
            _ => None,
        }
    }
}

fn write(seconds: i64, fraction: Option<&[u8]>) -> Option<String> {
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let time = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if let Some(digits) = fraction {
        text.push('.');
        text.extend(digits.iter().map(|digit| char::from(*digit)));
    }
    text.push('Z');
    Some(text)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar; the year begins in March so that leap days come last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_57_times_become_utc() {
        let seconds = |text| to_utc(text, Precision::Seconds);
        assert_eq!(seconds("2024-02-29T13:04:05Z").as_deref(), Some("2024-02-29T13:04:05Z"));
        assert_eq!(seconds("2024-03-01T01:30:00+02:00").as_deref(), Some("2024-02-29T23:30:00Z"));
        assert_eq!(seconds("1969-12-31T23:59:59.999-00:30").as_deref(), Some("1970-01-01T00:29:59Z"));
        for wrong in [
            "",
            "2024-02-30T00:00:00Z",
            "2024-02-29",
            "2024-02-29 13:04:05Z",
            "2024-02-29T24:00:00Z",
            "2024-02-29T13:04:05",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn eng_57_micro_times_have_six_digits() {
        let micros = |text| to_utc(text, Precision::Micros);
        assert_eq!(
            micros("2024-02-29T13:04:05.123456+01:00").as_deref(),
            Some("2024-02-29T12:04:05.123456Z")
        );
        assert_eq!(micros("2024-02-29T13:04:05Z"), None);
        assert_eq!(micros("2024-02-29T13:04:05.123Z"), None);
    }
}
