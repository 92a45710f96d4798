//! What Go's `unicode` and `strconv` say of characters, by the version of Unicode that Go 1.26 has.
//!
//! The standard library of Rust follows other properties (`is_alphabetic` is more than letters), maps one letter to
//! several, and knows newer letters; templates compare byte by byte.

mod tables;

use tables::{CASES, DIGIT, LETTER, LOWER, NUMBER, PRINTED, PUNCTUATION, TITLE, UPPER};

/// First and last character, and the step from one to the next.
type Span = (u32, u32, u32);
/// First and last character, and how far upper, lower and title case are from them.
type Case = (u32, u32, [i32; 3]);

/// Upper and lower case letters take turns.
const ALTERNATING: i32 = i32::MAX;

fn is_in(table: &[Span], character: char) -> bool {
    let code = u32::from(character);
    let at = table.partition_point(|(_, last, _)| *last < code);
    table.get(at).is_some_and(|(first, _, step)| *first <= code && (code - first).is_multiple_of(*step))
}

/// `unicode.IsLetter`.
pub(crate) fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || (!character.is_ascii() && is_in(LETTER, character))
}

/// `unicode.IsDigit`.
pub(crate) fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || (!character.is_ascii() && is_in(DIGIT, character))
}

/// `unicode.IsNumber`.
pub(crate) fn is_number(character: char) -> bool {
    is_in(NUMBER, character)
}

/// `unicode.IsPunct`.
pub(crate) fn is_punctuation(character: char) -> bool {
    is_in(PUNCTUATION, character)
}

/// `unicode.IsUpper`.
pub(crate) fn is_upper(character: char) -> bool {
    is_in(UPPER, character)
}

/// `unicode.IsLower`.
pub(crate) fn is_lower(character: char) -> bool {
    is_in(LOWER, character)
}

/// `unicode.IsTitle`.
pub(crate) fn is_title(character: char) -> bool {
    is_in(TITLE, character)
}

/// `unicode.IsSpace`, which is Rust's white space.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace()
}

/// `strconv.IsPrint`: what quoting leaves as it is.
pub(crate) fn is_printed(character: char) -> bool {
    matches!(character, ' '..='~') || (!character.is_ascii() && is_in(PRINTED, character))
}

#[derive(Clone, Copy)]
enum Column {
    Upper,
    Lower,
    Title,
}

fn mapped(character: char, column: Column) -> char {
    let code = u32::from(character);
    let at = CASES.partition_point(|(_, last, _)| *last < code);
    let Some((first, _, [upper, lower, title])) = CASES.get(at).filter(|(first, _, _)| *first <= code) else {
        return character;
    };
    let delta = match column {
        Column::Upper => *upper,
        Column::Lower => *lower,
        Column::Title => *title,
    };
    let to = if delta == ALTERNATING {
        let place = (code - first) & !1;
        first + place + u32::from(matches!(column, Column::Lower))
    } else {
        code.saturating_add_signed(delta)
    };
    char::from_u32(to).unwrap_or(character)
}

/// `unicode.ToUpper`.
pub(crate) fn to_upper(character: char) -> char {
    if character.is_ascii() { character.to_ascii_uppercase() } else { mapped(character, Column::Upper) }
}

/// `unicode.ToLower`.
pub(crate) fn to_lower(character: char) -> char {
    if character.is_ascii() { character.to_ascii_lowercase() } else { mapped(character, Column::Lower) }
}

/// `unicode.ToTitle`.
pub(crate) fn to_title(character: char) -> char {
    if character.is_ascii() { character.to_ascii_uppercase() } else { mapped(character, Column::Title) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_20_one_letter_becomes_one_letter() {
        let upper: String = "ßéžǆıſ".chars().map(to_upper).collect();
        assert_eq!(upper, "ßÉŽǄIS");
        let lower: String = "İÉŽǅΣ".chars().map(to_lower).collect();
        assert_eq!(lower, "iéžǆσ");
        assert_eq!(to_title('ǆ'), 'ǅ');
        assert!(is_letter('ª') && !is_lower('ª') && is_number('Ⅷ') && !is_digit('Ⅷ') && !is_upper('Ⅷ'));
        assert!(is_printed('é') && !is_printed('\u{a0}') && !is_printed('\u{200b}') && !is_printed('\u{7f}'));
    }
}
