//! Which type a piece of text has: the rules for plain scalars and for tags.

use super::timestamp::Timestamp;
use super::{Dialect, YamlError};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// A scalar with its type. Sizes matter: the libraries print the same number differently as `Int` or `Float`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond the largest `Int`.
    Uint(u64),
    Float(f64),
    Text(String),
    /// Only in the dialect of kustomize.
    Time(Timestamp),
}

/// Tags that name a type; texts are compared after the common prefix is cut off.
const PREFIX: &str = "tag:yaml.org,2002:";

/// The merge key's tag.
pub(super) const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Gives a scalar its type, by its tag and its text.
pub(super) fn resolve(
    dialect: Dialect,
    tag: Option<&str>,
    plain: bool,
    text: &str,
) -> Result<Scalar, YamlError> {
    let Some(tag) = tag else {
        return Ok(if plain { guess(dialect, text) } else { Scalar::Text(text.to_owned()) });
    };
    let guessed = match tag.strip_prefix(PREFIX) {
        Some("str") => return Ok(Scalar::Text(text.to_owned())),
        Some("binary") => return binary(text),
        Some("bool" | "int" | "float" | "null" | "timestamp") => guess(dialect, text),
        _ => return Ok(Scalar::Text(text.to_owned())),
    };
    let short = tag.strip_prefix(PREFIX).unwrap_or(tag);
    match (short, guessed) {
        ("bool", fit @ Scalar::Bool(_))
        | ("int", fit @ (Scalar::Int(_) | Scalar::Uint(_)))
        | ("float", fit @ Scalar::Float(_))
        | ("null", fit @ Scalar::Null)
        | ("timestamp", fit @ Scalar::Time(_)) => Ok(fit),
        #[expect(clippy::cast_precision_loss, reason = "the library converts with the same loss")]
        ("float", Scalar::Int(integer)) => Ok(Scalar::Float(integer as f64)),
        ("timestamp", Scalar::Text(_)) if Timestamp::parse(text).is_some() => {
            Ok(Scalar::Text(text.to_owned()))
        }
        _ => Err(YamlError::Tag { text: text.to_owned(), tag: short.to_owned() }),
    }
}

/// Guesses the type of plain text.
pub(super) fn guess(dialect: Dialect, text: &str) -> Scalar {
    let kept = || Scalar::Text(text.to_owned());
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(dialect, text).unwrap_or_else(kept)
        }
        Some(b'.') => dotted(text).unwrap_or_else(kept),
        Some(b'+' | b'-') => match text {
            "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
            _ => number(text).unwrap_or_else(kept),
        },
        Some(b'0'..=b'9') => match Timestamp::parse(text) {
            Some(time) if dialect == Dialect::V3 => Scalar::Time(time),
            Some(_) => kept(),
            None => number(text).unwrap_or_else(kept),
        },
        Some(_) => kept(),
    }
}

/// Whether plain text would be read as text again by the library that writes.
pub(super) fn stays_text(text: &str) -> bool {
    matches!(guess(Dialect::V3, text), Scalar::Text(_))
        && word(Dialect::Sigs, text).is_none()
        && !sexagesimal(text)
}

fn word(dialect: Dialect, text: &str) -> Option<Scalar> {
    match text {
        "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
        "true" | "True" | "TRUE" => Some(Scalar::Bool(true)),
        "false" | "False" | "FALSE" => Some(Scalar::Bool(false)),
        _ if dialect == Dialect::V3 => None,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(Scalar::Bool(true)),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(Scalar::Bool(false)),
        _ => None,
    }
}

fn dotted(text: &str) -> Option<Scalar> {
    match text {
        ".inf" | ".Inf" | ".INF" => Some(Scalar::Float(f64::INFINITY)),
        ".nan" | ".NaN" | ".NAN" => Some(Scalar::Float(f64::NAN)),
        _ => float(&without_underscores(text)?),
    }
}

/// The text without underscores; each must stand between digits.
fn without_underscores(text: &str) -> Option<String> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let fits =
        |at: usize| is_digit(at.checked_sub(1).and_then(|at| bytes.get(at))) && is_digit(bytes.get(at + 1));
    let all_fit = text.match_indices('_').all(|(at, _)| fits(at));
    all_fit.then(|| text.replace('_', ""))
}

fn number(text: &str) -> Option<Scalar> {
    let joined;
    let plain = if text.contains('_') {
        joined = text.replace('_', "");
        joined.as_str()
    } else {
        text
    };
    integer(plain).or_else(|| float(plain)).or_else(|| odd_binary(plain))
}

/// Reads an integer as `strconv` does with base 0: signs, `0x`, `0o`, `0b`, and `0` alone for octal.
fn integer(text: &str) -> Option<Scalar> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (Some(false), text.get(1..)?),
        b'-' => (Some(true), text.get(1..)?),
        _ => (None, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // `from_str_radix` would take one more sign.
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (sign, i64::try_from(magnitude)) {
        (Some(true), Ok(integer)) => Some(Scalar::Int(-integer)),
        (Some(true), Err(_)) => (magnitude == 1 << 63).then_some(Scalar::Int(i64::MIN)),
        (_, Ok(integer)) => Some(Scalar::Int(integer)),
        (None, Err(_)) => Some(Scalar::Uint(magnitude)),
        (Some(false), Err(_)) => None,
    }
}

/// Reads `[-+]?(digits[.digits] | .digits)[exponent]`; what is too large for a float is no float.
fn float(text: &str) -> Option<Scalar> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
    {
        return None;
    }
    let float: f64 = text.parse().ok()?;
    float.is_finite().then_some(Scalar::Float(float))
}

/// Reads `0b-11`, which one of the libraries' fallbacks takes for a number.
fn odd_binary(text: &str) -> Option<Scalar> {
    i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(Scalar::Int)
}

/// Whether text is a base 60 number of YAML 1.1, such as `1:30`: read as text, but written in quotes.
fn sexagesimal(text: &str) -> bool {
    if !text.contains(':') {
        return false;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    first.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && first.bytes().all(digit)
        && parts.all(|part| match part.as_bytes() {
            [low] => low.is_ascii_digit(),
            [b'0'..=b'5', low] => low.is_ascii_digit(),
            _ => false,
        })
        && fraction.bytes().all(digit)
}

/// Go's decoder skips line ends and is strict about the rest.
fn binary(text: &str) -> Result<Scalar, YamlError> {
    const LENIENT_BITS: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    let compact: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
    let bytes = LENIENT_BITS.decode(compact).map_err(|_invalid| YamlError::Binary)?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Scalar::Text(decoded))
}
