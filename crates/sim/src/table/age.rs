//! How long ago something was, as `kubectl` shows it.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY_HOURS: i64 = 24;
const YEAR_HOURS: i64 = 365 * DAY_HOURS;

/// A span of seconds with two or three digits of meaning, as Go's `duration.HumanDuration` writes it.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / MINUTE, seconds / HOUR);
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

/// The time from one moment to another; what is not a time is unknown.
pub(super) fn between(from: Option<Timestamp>, to: Timestamp) -> String {
    from.map_or_else(|| "<unknown>".to_owned(), |from| human(to.duration_since(from).as_secs()))
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
