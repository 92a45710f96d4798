//! Times read and printed by Go's layouts (Go 1.26 `time`), such as `Jan _2 15:04 MST`.
//!
//! A layout shows how the second of January 2006, 15:04:05, would look. Zones of the output come from the
//! zone data compiled in; an abbreviation of a zone in the input says nothing about the time, as in a Go program that
//! runs in UTC.
//!
//! Golden rows: `time.jsonl`.

mod layout;
mod moment;
mod print;
mod read;
mod zone;

use jiff::{SignedDuration, Timestamp};
pub use moment::Moment;
pub use print::format;
pub(crate) use print::{MONTHS, WEEKDAYS};
pub use read::{parse, parse_moment};
pub use zone::{Clock, Zone};

/// The layout of RFC 3339.
pub const RFC_3339: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of RFC 3339 with as many fractional digits as needed.
pub const RFC_3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

/// Why a text is not read as a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The text does not look like the layout.
    #[error("parsing time: cannot parse {} as {}", quote(rest.as_bytes()), quote(wanted.as_bytes()))]
    Shape {
        /// What was left to read.
        rest: String,
        /// The part of the layout that did not fit.
        wanted: String,
    },
    /// The text goes on after the end of the layout.
    #[error("parsing time: extra text: {}", quote(.0.as_bytes()))]
    Extra(String),
    /// A number is too large for what it counts.
    #[error("parsing time: {0} out of range")]
    Range(&'static str),
    /// A zone that the zone data does not know.
    #[error("unknown time zone {0}")]
    Zone(String),
}

/// A text in errors about times and durations: bytes that are not printable ASCII are told as numbers.
pub(crate) fn quote(text: &[u8]) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => {
                let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
                quoted.extend(['\\', 'x', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    quoted.push('"');
    quoted
}

/// How a time is read and shown. Empty texts stand for the defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conversion<'t> {
    /// Layout of the input; RFC 3339 by default.
    pub layout: &'t str,
    /// Layout of the output; RFC 3339 with up to nine fractional digits by default.
    pub out_layout: &'t str,
    /// IANA name of the zone of the output; UTC by default.
    pub zone: &'t str,
}

/// Reads a time with one layout and shows it with another; also the nanoseconds since 1970, which wrap
/// around outside the years 1678 to 2262 (EVAL-761).
pub fn convert(text: &str, how: Conversion<'_>) -> Result<(String, i64), TimeError> {
    let zone = crate::cron::zone(how.zone).map_err(|_unknown| TimeError::Zone(how.zone.to_owned()))?;
    let time = parse(or_default(how.layout, RFC_3339), text)?;
    Ok((format(or_default(how.out_layout, RFC_3339_NANO), time, &zone), unix_nanoseconds(time)))
}

fn or_default<'t>(layout: &'t str, default: &'t str) -> &'t str {
    if layout.is_empty() { default } else { layout }
}

/// Nanoseconds since 1970; outside the years 1678 to 2262 they wrap around, as `UnixNano` does.
pub fn unix_nanoseconds(time: Timestamp) -> i64 {
    let since: SignedDuration = time.duration_since(Timestamp::UNIX_EPOCH);
    since.as_secs().wrapping_mul(1_000_000_000).wrapping_add(i64::from(since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RND-191: found by the fuzzer.
    #[test]
    fn rnd_191_errors_about_times_tell_bytes_that_are_no_printable_ascii_as_numbers() {
        assert_eq!(quote("a\"b\\\u{7f}".as_bytes()), "\"a\\\"b\\\\\u{7f}\"");
        assert_eq!(quote("é\n".as_bytes()), r#""\xc3\xa9\x0a""#);
        let error = parse("15:04", "12:30é").map_err(|error| error.to_string());
        assert_eq!(error, Err(r#"parsing time: extra text: "\xc3\xa9""#.to_owned()));
        let error = crate::duration::parse("1é").map_err(|error| error.to_string());
        assert_eq!(error, Err(r#"time: invalid duration "1\xc3\xa9""#.to_owned()));
    }
}
