//! Layouts, cut into pieces.

/// One piece of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'l> {
    /// Text that stands for itself.
    Literal(&'l str),
    LongMonth,
    Month,
    /// Month as a number; whether always two digits.
    NumberMonth {
        padded: bool,
    },
    LongWeekday,
    Weekday,
    Day(Pad),
    YearDay(Pad),
    Hour,
    Hour12 {
        padded: bool,
    },
    Minute {
        padded: bool,
    },
    Second {
        padded: bool,
    },
    LongYear,
    Year,
    /// `PM`, or `pm`.
    HalfDay {
        upper: bool,
    },
    ZoneName,
    Offset(Offset),
    /// A separator and fractional digits of the second.
    Fraction {
        separator: char,
        digits: usize,
        trimmed: bool,
    },
}

/// How a day is filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pad {
    None,
    Blank,
    Zero,
}

/// How an offset from UTC is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Whether `Z` stands for none.
    pub(super) zulu: bool,
    pub(super) colons: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
}

/// The pieces of a layout with the text each was cut from, literal text joined.
pub(super) fn pieces(layout: &str) -> Vec<(Piece<'_>, &str)> {
    let mut pieces = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while let Some(rest) = layout.get(at..).filter(|rest| !rest.is_empty()) {
        match special(rest) {
            Some((piece, length)) => {
                if let Some(text) = layout.get(literal..at).filter(|text| !text.is_empty()) {
                    pieces.push((Piece::Literal(text), text));
                }
                pieces.push((piece, rest.get(..length).unwrap_or_default()));
                at += length;
                literal = at;
            }
            // `_2006` is an underscore and the year.
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    if let Some(text) = layout.get(literal..).filter(|text| !text.is_empty()) {
        pieces.push((Piece::Literal(text), text));
    }
    pieces
}

/// Names with a fixed spelling, longer ones before those they begin with.
const NAMED: &[(&str, Piece<'static>)] = &[
    ("January", Piece::LongMonth),
    ("Monday", Piece::LongWeekday),
    ("MST", Piece::ZoneName),
    ("2006", Piece::LongYear),
    ("002", Piece::YearDay(Pad::Zero)),
    ("__2", Piece::YearDay(Pad::Blank)),
    ("01", Piece::NumberMonth { padded: true }),
    ("02", Piece::Day(Pad::Zero)),
    ("03", Piece::Hour12 { padded: true }),
    ("04", Piece::Minute { padded: true }),
    ("05", Piece::Second { padded: true }),
    ("06", Piece::Year),
    ("15", Piece::Hour),
    ("PM", Piece::HalfDay { upper: true }),
    ("pm", Piece::HalfDay { upper: false }),
    ("1", Piece::NumberMonth { padded: false }),
    ("2", Piece::Day(Pad::None)),
    ("3", Piece::Hour12 { padded: false }),
    ("4", Piece::Minute { padded: false }),
    ("5", Piece::Second { padded: false }),
];

fn special(text: &str) -> Option<(Piece<'static>, usize)> {
    let lower_follows = |length: usize| {
        text.get(length..).is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_lowercase()))
    };
    if text.starts_with("_2") {
        return (!text.starts_with("_2006")).then_some((Piece::Day(Pad::Blank), 2));
    }
    if let Some((name, piece)) = NAMED.iter().find(|(name, _)| text.starts_with(name)) {
        return Some((*piece, name.len()));
    }
    match text.get(..3) {
        Some("Jan") if !lower_follows(3) => return Some((Piece::Month, 3)),
        Some("Mon") if !lower_follows(3) => return Some((Piece::Weekday, 3)),
        _ => {}
    }
    offset(text).or_else(|| fraction(text))
}

fn offset(text: &str) -> Option<(Piece<'static>, usize)> {
    let zulu = text.starts_with('Z');
    let digits = text.strip_prefix(['Z', '-'])?;
    let (colons, minutes, seconds, length) = if digits.starts_with("070000") {
        (false, true, true, 7)
    } else if digits.starts_with("07:00:00") {
        (true, true, true, 9)
    } else if digits.starts_with("0700") {
        (false, true, false, 5)
    } else if digits.starts_with("07:00") {
        (true, true, false, 6)
    } else if digits.starts_with("07") {
        (false, false, false, 3)
    } else {
        return None;
    };
    Some((Piece::Offset(Offset { zulu, colons, minutes, seconds }), length))
}

/// Reads `.000` or `,999`; other digits after it make it plain text.
fn fraction(text: &str) -> Option<(Piece<'static>, usize)> {
    let separator = text.chars().next().filter(|separator| matches!(separator, '.' | ','))?;
    let after = text.get(1..)?;
    let kind = after.chars().next().filter(|kind| matches!(kind, '0' | '9'))?;
    let digits = after.chars().take_while(|digit| *digit == kind).count();
    let more = after.get(digits..)?.starts_with(|next: char| next.is_ascii_digit());
    (!more).then_some((Piece::Fraction { separator, digits, trimmed: kind == '9' }, digits + 1))
}
