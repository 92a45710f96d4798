//! What a scalar means.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::fault::{Fault, Result};
use crate::graph::Tag;

/// The meaning of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer too large for the other.
    Uint(u64),
    /// A float, which may be infinite.
    Float(f64),
    /// A point in time, as RFC 3339 spells it.
    Time(String),
    /// The text itself.
    Text,
    /// Another text: of `!!binary`.
    Decoded(String),
}

impl Scalar {
    /// The type.
    pub(crate) fn tag(&self) -> Tag {
        match self {
            Self::Null => Tag::Null,
            Self::Bool(_) => Tag::Bool,
            Self::Int(_) | Self::Uint(_) => Tag::Int,
            Self::Float(_) => Tag::Float,
            Self::Time(_) => Tag::Timestamp,
            Self::Text => Tag::Text,
            Self::Decoded(_) => Tag::Binary,
        }
    }
}

/// What plain text means.
pub(crate) fn resolve_plain(text: &str) -> Scalar {
    meaning(text, true)
}

/// What text with a tag means.
///
/// # Errors
/// When the text is nothing of the tag's type.
pub(crate) fn resolve(tag: &Tag, text: &str) -> Result<Scalar> {
    let meaning = match tag {
        Tag::None => return Ok(resolve_plain(text)),
        Tag::Text => return Ok(Scalar::Text),
        Tag::Binary => return binary(text),
        Tag::Null | Tag::Bool | Tag::Int | Tag::Float => meaning(text, false),
        Tag::Timestamp => meaning(text, true),
        // Other types say nothing about the text.
        Tag::Sequence | Tag::Mapping | Tag::Merge | Tag::Other(_) => return Ok(Scalar::Text),
    };
    let found = meaning.tag();
    if found == *tag {
        return Ok(meaning);
    }
    #[expect(clippy::cast_precision_loss, reason = "so does the original")]
    match (tag, meaning) {
        (Tag::Float, Scalar::Int(integer)) => Ok(Scalar::Float(integer as f64)),
        _ => {
            Err(Fault::new(format!("yaml: cannot decode {} `{text}` as a {}", found.as_str(), tag.as_str())))
        }
    }
}

/// Whether YAML 1.1 takes plain text for something else than text: then kustomize puts new values in quotes.
pub(crate) fn is_old_non_text(text: &str) -> bool {
    if text.is_empty() || text.contains('\n') {
        return false;
    }
    let old = matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "on"
            | "On"
            | "ON"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "off"
            | "Off"
            | "OFF"
    );
    old || matches!(
        resolve_plain(text),
        Scalar::Null | Scalar::Bool(_) | Scalar::Int(_) | Scalar::Uint(_) | Scalar::Float(_)
    )
}

fn meaning(text: &str, times: bool) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'0'..=b'9' | b'+' | b'-') => number(text, times),
        Some(b'.') => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ => dotted(text).map_or(Scalar::Text, Scalar::Float),
        },
        Some(_) => match text {
            "~" | "null" | "Null" | "NULL" => Scalar::Null,
            "true" | "True" | "TRUE" => Scalar::Bool(true),
            "false" | "False" | "FALSE" => Scalar::Bool(false),
            _ => Scalar::Text,
        },
    }
}

fn number(text: &str, times: bool) -> Scalar {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if times && let Some(time) = timestamp(text) {
        return Scalar::Time(time);
    }
    let joined;
    let plain = if text.contains('_') {
        joined = text.replace('_', "");
        joined.as_str()
    } else {
        text
    };
    integer(plain)
        .or_else(|| is_float(plain).then(|| parse_float(plain)).flatten().map(Scalar::Float))
        .or_else(|| odd_integer(plain))
        .unwrap_or(Scalar::Text)
}

/// A date, or a date with a time of day, in the four forms the library knows; as RFC 3339.
fn timestamp(text: &str) -> Option<String> {
    // The cheap test first: nearly every text fails here.
    if text.as_bytes().get(4) != Some(&b'-') || !text.bytes().take(4).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = digits(text, 4, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 1, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 1, 2)?;
    let days = match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day < 1 || day > days {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if rest.is_empty() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let zoned = rest.starts_with(['T', 't']);
    let clock = if zoned { rest.get(1..)? } else { rest.strip_prefix(' ')?.trim_start_matches(' ') };
    let (hour, rest) = digits(clock, 1, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 1, 2)?;
    let (second, rest) = digits(rest.strip_prefix(':')?, 1, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, rest) = fraction(rest);
    let offset = if zoned { offset(rest)? } else { rest.is_empty().then(|| "Z".to_owned())? };
    Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{offset}"))
}

fn digits(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    let (digits, rest) = text.split_at_checked(count)?;
    Some((digits.parse().ok()?, rest))
}

/// `.123` without zeros at the end; digits beyond the ninth have no effect.
fn fraction(text: &str) -> (String, &str) {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return (String::new(), text) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let Some((digits, rest)) = rest.split_at_checked(count).filter(|_| count > 0) else {
        return (String::new(), text);
    };
    let shown = digits.get(..9).unwrap_or(digits).trim_end_matches('0');
    (if shown.is_empty() { String::new() } else { format!(".{shown}") }, rest)
}

fn offset(text: &str) -> Option<String> {
    if text == "Z" {
        return Some("Z".to_owned());
    }
    let sign = text.chars().next().filter(|sign| matches!(sign, '+' | '-'))?;
    let (hours, rest) = digits(text.get(1..)?, 2, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
    if hours > 24 || minutes > 60 || !rest.is_empty() {
        return None;
    }
    let total = hours * 60 + minutes;
    Some(if total == 0 { "Z".to_owned() } else { format!("{sign}{:02}:{:02}", total / 60, total % 60) })
}

/// `strconv.ParseInt` and `ParseUint` with base 0.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, signed, digits) = match text.as_bytes().first()? {
        b'-' => (true, true, text.get(1..)?),
        b'+' => (false, true, text.get(1..)?),
        _ => (false, false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match i64::try_from(magnitude) {
        Ok(integer) => Some(Scalar::Int(if negative { -integer } else { integer })),
        Err(_too_large) if negative => (magnitude == 1 << 63).then_some(Scalar::Int(i64::MIN)),
        Err(_too_large) => (!signed).then_some(Scalar::Uint(magnitude)),
    }
}

/// Whether a text has the form of a float: sign, digits with a point, exponent.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (unsigned.get(..at).unwrap_or_default(), unsigned.get(at + 1..)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_fits && exponent_fits
}

/// The value, unless it is too large.
fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|float: &f64| float.is_finite())
}

/// A float that begins with its point; underscores between digits are passed.
fn dotted(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digit_at = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let fits = text.match_indices('_').all(|(at, _)| digit_at(at.checked_sub(1)) && digit_at(Some(at + 1)));
    let plain = text.replace('_', "");
    (fits && is_float(&plain)).then(|| parse_float(&plain)).flatten()
}

/// `0b-11` and `0o-17`, which one of the library's fallbacks takes for numbers.
fn odd_integer(text: &str) -> Option<Scalar> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'b', ..] => (2, text.get(2..)?),
        [b'0', b'o', ..] => (8, text.get(2..)?),
        _ => return None,
    };
    i64::from_str_radix(digits, radix).ok().map(Scalar::Int)
}

/// Go's decoder passes line ends and is strict about the rest.
fn binary(text: &str) -> Result<Scalar> {
    const LENIENT_BITS: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let compact: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
    let bytes = LENIENT_BITS
        .decode(compact)
        .map_err(|_invalid| Fault::new("yaml: !!binary value contains invalid base64 data"))?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Scalar::Decoded(decoded))
}
