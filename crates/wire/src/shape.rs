//! Messages whose JSON is not an object: times, and what is a number or a text (API-P5, API-P10).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Seconds of Go's zero time, the beginning of the year 1.
const ZERO_SECONDS: i64 = -62_135_596_800;
/// The first second after the year 9999, beyond which RFC 3339 has no form.
const SECONDS_END: i64 = 253_402_207_200;

/// A moment, as the binary form has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since 1970.
    pub(crate) seconds: i64,
    /// Below a second.
    pub(crate) nanos: i32,
}

impl Moment {
    /// Reads RFC 3339 as Go does; the zero time is `None` in `Ok`.
    pub(crate) fn read(text: &str) -> Result<Option<Self>, ()> {
        let (moment, nanos) = read(text).ok_or(())?;
        Ok((moment != ZERO_SECONDS).then_some(Self { seconds: moment, nanos }))
    }

    /// The text with whole seconds, in UTC; `None` when there is none.
    pub(crate) fn seconds_text(self) -> Option<String> {
        let time = self.at()?;
        Some(format!("{}", time.strftime("%Y-%m-%dT%H:%M:%SZ")))
    }

    /// The text with microseconds.
    pub(crate) fn micros_text(self) -> Option<String> {
        let time = self.at()?;
        let micros = self.nanos.clamp(0, 999_999_999) / 1_000;
        Some(format!("{}.{micros:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S")))
    }

    fn at(self) -> Option<Timestamp> {
        if !(ZERO_SECONDS..SECONDS_END).contains(&self.seconds) {
            return None;
        }
        Timestamp::from_second(self.seconds).ok()
    }
}

/// `YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm)`.
fn read(text: &str) -> Option<(i64, i32)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i32> {
        let digits = bytes.get(from..to)?;
        digits
            .iter()
            .try_fold(0_i32, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i32::from(digit - b'0')))
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let small = |value: Option<i32>| value.and_then(|value| i8::try_from(value).ok());
    let year = i16::try_from(number(0, 4)?).ok()?;
    let (month, day) = (small(number(5, 7))?, small(number(8, 10))?);
    let (hour, minute, second) = (small(number(11, 13))?, small(number(14, 16))?, small(number(17, 19))?);
    let mut at = 19;
    let mut nanos = 0_i32;
    if is(at, b'.') || is(at, b',') {
        let fraction = bytes.get(at + 1..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if fraction == 0 {
            return None;
        }
        for place in 0..9 {
            let digit = if place < fraction { number(at + 1 + place, at + 2 + place)? } else { 0 };
            nanos = nanos * 10 + digit;
        }
        at += 1 + fraction;
    }
    let offset = match bytes.get(at)? {
        b'Z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b':') => {
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let seconds = hours * 3_600 + minutes * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let civil = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    let local = Offset::UTC.to_timestamp(civil).ok()?.as_second();
    let seconds = local - i64::from(offset);
    (ZERO_SECONDS..SECONDS_END).contains(&seconds).then_some((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<i64> {
        Moment::read(text).ok().flatten().map(|moment| moment.seconds)
    }

    #[test]
    fn api_p5_times_are_rfc_3339_in_utc_with_seconds() {
        let text = "2026-01-02T03:04:05Z";
        let moment = Moment::read(text).unwrap().unwrap();
        assert_eq!(moment.seconds_text().unwrap(), text);
        assert_eq!(seconds("2026-01-02T04:34:05.5+01:30"), Some(moment.seconds));
        assert_eq!(Moment::read("2026-01-02T03:04:05.123456789Z").unwrap().unwrap().nanos, 123_456_789);
        assert_eq!(Moment::read("2026-01-02T03:04:05.1234567891Z").unwrap().unwrap().nanos, 123_456_789);
        assert_eq!(
            Moment { seconds: moment.seconds, nanos: 1_999 }.micros_text().unwrap(),
            "2026-01-02T03:04:05.000001Z"
        );
    }

    #[test]
    fn api_p5_the_zero_time_is_none() {
        assert_eq!(Moment::read("0001-01-01T00:00:00Z"), Ok(None));
        assert_eq!(
            Moment { seconds: ZERO_SECONDS, nanos: 0 }.seconds_text().unwrap(),
            "0001-01-01T00:00:00Z"
        );
        assert!(Moment { seconds: ZERO_SECONDS - 1, nanos: 0 }.seconds_text().is_none());
        assert!(Moment { seconds: i64::MAX, nanos: 0 }.seconds_text().is_none());
        let last = Moment { seconds: SECONDS_END - 1, nanos: 0 }.seconds_text().unwrap();
        assert!(last.starts_with("9999-12-3"), "{last}");
    }

    #[test]
    fn api_p5_what_is_no_time_is_refused() {
        for text in [
            "",
            "2026",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-13-02T03:04:05Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:04:05z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+25:00",
            "2026-01-02T03:04:05+01",
            "2026-01-02T03:04:05Z ",
            "２026-01-02T03:04:05Z",
        ] {
            assert_eq!(Moment::read(text), Err(()), "{text:?}");
        }
    }
}
