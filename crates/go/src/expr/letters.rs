//! Characters as Go's `unicode` package sorts and maps them.

use regex::Regex;
use std::sync::LazyLock;

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\p{L}").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\p{Nd}").ok());

/// Whether a character may stand in a name that it does not begin, or, without digits, begin one.
pub(super) fn is_alphanumeric(character: char) -> bool {
    is_alphabetic(character) || is_digit(character)
}

/// Whether a character may begin a name.
pub(super) fn is_alphabetic(character: char) -> bool {
    match character {
        '_' | '$' => true,
        _ if character.is_ascii() => character.is_ascii_alphabetic(),
        _ => is_match(&LETTER, character),
    }
}

fn is_digit(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_digit() } else { is_match(&DIGIT, character) }
}

fn is_match(class: &LazyLock<Option<Regex>>, character: char) -> bool {
    let mut bytes = [0; 4];
    class.as_ref().is_some_and(|class| class.is_match(character.encode_utf8(&mut bytes)))
}

/// The upper-case form of a character that is one character.
pub(super) fn upper(character: char) -> char {
    // Greek letters with an iota below, whose full forms are two letters.
    let beyond = match character {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => return single(character, character.to_uppercase()),
    };
    char::from_u32(u32::from(character) + beyond).unwrap_or(character)
}

/// The lower-case form of a character that is one character.
pub(super) fn lower(character: char) -> char {
    if character == '\u{130}' { 'i' } else { single(character, character.to_lowercase()) }
}

fn single(character: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(mapped), None) => mapped,
        _ => character,
    }
}
