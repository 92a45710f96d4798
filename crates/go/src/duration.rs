//! Durations as Go's `time` package (Go 1.26) reads and prints them.
//!
//! A duration is at most 2^63 nanoseconds, about 292 years; longer ones are refused when read.
//!
//! Golden rows: `duration.jsonl`.

use jiff::SignedDuration;

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time: invalid duration {}", crate::time::quote(.0.as_bytes()))]
pub struct DurationError(String);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Reads a duration: `1h30m`, `-1.5s`, `0`; numbers with units `ns`, `us`, `µs`, `ms`, `s`, `m`, `h`.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let nanoseconds = nanoseconds(text).ok_or_else(|| DurationError(text.to_owned()))?;
    Ok(SignedDuration::from_nanos(nanoseconds))
}

/// Prints a duration as Go does: `1h30m0s`, `1.5s`, `2ms`, `0s`.
///
/// Durations beyond Go's range are cut to it.
pub fn format(duration: SignedDuration) -> String {
    let total = duration.as_nanos();
    let limit = if total < 0 { 1 << 63 } else { (1 << 63) - 1 };
    let magnitude = u64::try_from(total.unsigned_abs()).unwrap_or(u64::MAX).min(limit);
    let sign = if total < 0 { "-" } else { "" };
    let (unit, name) = match magnitude {
        0 => return "0s".to_owned(),
        _ if magnitude < MICROSECOND => return format!("{sign}{magnitude}ns"),
        _ if magnitude < MILLISECOND => (MICROSECOND, "µs"),
        _ if magnitude < SECOND => (MILLISECOND, "ms"),
        _ => (SECOND, "s"),
    };
    if unit < SECOND {
        return format!("{sign}{}{name}", decimal(magnitude, unit));
    }
    let seconds = decimal(magnitude % MINUTE, SECOND);
    let (hours, minutes) = (magnitude / HOUR, magnitude / MINUTE % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Spells `value / unit` with as many fractional digits as needed.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = one_part(rest)?;
        // Go wraps: twice 2^63 is none at all.
        total = Some(total.wrapping_add(part)).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

/// Reads a number with its unit.
fn one_part(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = leading_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => leading_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end =
        rest.find(|character: char| character == '.' || character.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(end)?;
    let unit = match unit {
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let value = whole.checked_mul(unit).filter(|value| *value <= 1 << 63)?;
    let value = value.checked_add(part_of(fraction, unit)).filter(|value| *value <= 1 << 63)?;
    Some((value, rest))
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The nanoseconds in a fraction of a unit. Go computes with a float, which is part of the result.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rounding is what is imitated"
)]
fn part_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale): (u64, f64) = (0, 1.0);
    for digit in digits.bytes() {
        // Digits that no longer fit have no effect.
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match next.filter(|next| *next <= 1 << 63) {
            Some(next) => (value, scale) = (next, scale * 10.0),
            None => break,
        }
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

/// A span of seconds with two or three digits of meaning, as `HumanDuration` of apimachinery's `duration` writes it.
pub fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const DAY_HOURS: i64 = 24;
    const YEAR_HOURS: i64 = 365 * DAY_HOURS;
    let (minutes, hours) = (seconds / MINUTE, seconds / (60 * MINUTE));
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if seconds < 0 {
        "0s".to_owned()
    } else if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % MINUTE, 's')
    } else if minutes < 3 * 60 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 2 * DAY_HOURS {
        format!("{hours}h")
    } else if hours < 8 * DAY_HOURS {
        two(hours / DAY_HOURS, 'd', hours % DAY_HOURS, 'h')
    } else if hours < 2 * YEAR_HOURS {
        format!("{}d", hours / DAY_HOURS)
    } else if hours < 8 * YEAR_HOURS {
        two(hours / YEAR_HOURS, 'y', hours / DAY_HOURS % 365, 'd')
    } else {
        format!("{}y", hours / YEAR_HOURS)
    }
}

fn two(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_or_three_digits_of_meaning() {
        let (m, h, d, y) = (60, 3600, 86400, 365 * 86400);
        let rows = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * m - 1, "9m59s"),
            (10 * m + 5, "10m"),
            (3 * h - 1, "179m"),
            (3 * h, "3h"),
            (4 * h + 5 * m, "4h5m"),
            (8 * h + 59 * m, "8h"),
            (47 * h, "47h"),
            (2 * d, "2d"),
            (7 * d + 23 * h, "7d23h"),
            (8 * d + h, "8d"),
            (2 * y - h, "729d"),
            (2 * y, "2y"),
            (3 * y + 4 * d, "3y4d"),
            (8 * y + 300 * d, "8y"),
        ];
        for (seconds, wanted) in rows {
            assert_eq!(human(seconds), wanted, "{seconds}");
        }
    }
}
