//! Go's quotes: `strconv.Quote` and its relatives, and the way back.

use crate::unicode::is_printed;
use std::fmt::Write as _;

/// Quotes a text as `strconv.Quote` does.
pub(crate) fn quote(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(&mut out, text, '"', false);
    out
}

/// Quotes a text with a kind of quotes, only with ASCII if wanted.
pub(crate) fn quote_into(out: &mut String, text: &[u8], mark: char, ascii: bool) {
    out.push(mark);
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            quoted_character(out, character, mark, ascii);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _infallible = write!(out, "\\x{byte:02x}");
        }
    }
    out.push(mark);
}

fn quoted_character(out: &mut String, character: char, mark: char, ascii: bool) {
    if character == mark || character == '\\' {
        out.push('\\');
        out.push(character);
        return;
    }
    let plain = if ascii { matches!(character, ' '..='~') } else { is_printed(character) };
    if plain {
        out.push(character);
        return;
    }
    let escape = match character {
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        _ => {
            let code = u32::from(character);
            let _infallible = match code {
                0..0x20 | 0x7f => write!(out, "\\x{code:02x}"),
                0x20..0x1_0000 => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
            return;
        }
    };
    out.push_str(escape);
}

/// Whether a text can stand in back quotes (`strconv.CanBackquote`).
pub(crate) fn can_back_quote(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| {
        text.chars().all(|character| {
            character != '\u{feff}'
                && character != '`'
                && character != '\u{7f}'
                && (character >= ' ' || character == '\t')
        })
    })
}

/// Takes a text out of its quotes (`strconv.Unquote`): double quotes, back quotes, single quotes around one character.
pub(crate) fn unquote(quoted: &[u8]) -> Option<Vec<u8>> {
    let (mark, inner) = match quoted {
        [mark @ (b'"' | b'`' | b'\''), inner @ .., last] if last == mark => (*mark, inner),
        _ => return None,
    };
    if mark == b'`' {
        return (!inner.contains(&b'`'))
            .then(|| inner.iter().copied().filter(|byte| *byte != b'\r').collect());
    }
    if inner.contains(&b'\n') {
        return None;
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    let mut count = 0;
    while !rest.is_empty() {
        if rest.first() == Some(&mark) {
            return None;
        }
        let (unit, after) = unquote_one(rest, mark)?;
        match unit {
            Unit::Byte(byte) => out.push(byte),
            Unit::Character(character) => push_character(&mut out, character),
        }
        rest = after;
        count += 1;
    }
    (mark != b'\'' || count == 1).then_some(out)
}

/// What an escape stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A byte, from `\x` or an octal escape, or one that is not UTF-8 (which Go keeps).
    Byte(u8),
    /// A character.
    Character(char),
}

/// Appends a character.
pub(crate) fn push_character(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Reads one character or escape (`strconv.UnquoteChar`).
pub(crate) fn unquote_one(text: &[u8], mark: u8) -> Option<(Unit, &[u8])> {
    match text {
        [first, ..] if *first == mark && matches!(mark, b'"' | b'\'') => None,
        [b'\\', rest @ ..] => escape(rest, mark),
        [first, rest @ ..] if first.is_ascii() => Some((Unit::Character(char::from(*first)), rest)),
        [] => None,
        [first, rest @ ..] => {
            let head = text.get(..4.min(text.len()))?;
            match head.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next()) {
                Some(character) => {
                    Some((Unit::Character(character), text.get(character.len_utf8()..).unwrap_or_default()))
                }
                None => Some((Unit::Byte(*first), rest)),
            }
        }
    }
}

fn escape(text: &[u8], mark: u8) -> Option<(Unit, &[u8])> {
    let (kind, rest) = text.split_first()?;
    let simple = |character: char| Some((Unit::Character(character), rest));
    match kind {
        b'a' => simple('\u{7}'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'v' => simple('\u{b}'),
        b'\\' => simple('\\'),
        b'\'' | b'"' => (*kind == mark).then_some((Unit::Character(char::from(*kind)), rest)),
        b'x' => {
            let (value, rest) = hexadecimal(rest, 2)?;
            Some((Unit::Byte(u8::try_from(value).ok()?), rest))
        }
        b'u' | b'U' => {
            let (value, rest) = hexadecimal(rest, if *kind == b'u' { 4 } else { 8 })?;
            Some((Unit::Character(char::from_u32(value)?), rest))
        }
        b'0'..=b'7' => {
            let digits = text.get(..3)?;
            let mut value: u32 = 0;
            for digit in digits {
                value = value * 8 + char::from(*digit).to_digit(8)?;
            }
            Some((Unit::Byte(u8::try_from(value).ok()?), text.get(3..)?))
        }
        _ => None,
    }
}

fn hexadecimal(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    let (head, rest) = text.split_at_checked(digits)?;
    let mut value: u32 = 0;
    for digit in head {
        value = value.checked_mul(16)? + char::from(*digit).to_digit(16)?;
    }
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_183_quotes_are_those_of_go() {
        assert_eq!(
            quote("a\"\\\n\u{7f}\u{a0}é\u{1F600}\u{e000}".as_bytes()),
            r#""a\"\\\n\x7f\u00a0é😀\ue000""#
        );
        assert_eq!(quote(b"a\xff"), r#""a\xff""#);
        assert_eq!(unquote(br#""\x41\101\u00e9\n\"""#).as_deref(), Some("AAé\n\"".as_bytes()));
        assert_eq!(unquote(b"`a\\n\r`").as_deref(), Some(b"a\\n".as_slice()));
        for bad in ["\"", "\"a", "'ab'", r#""\'""#, r#""\ud800""#, r#""\400""#, "\"\n\"", "``x`"] {
            assert_eq!(unquote(bad.as_bytes()), None, "{bad}");
        }
    }
}
