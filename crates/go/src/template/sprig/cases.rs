//! Upper and lower case, and the spellings of names.

use crate::template::functions::{Function, Type};
use crate::template::quote::push_character;
use crate::template::value::to_str;
use crate::unicode::{
    is_digit, is_letter, is_lower, is_number, is_punctuation, is_space, is_title, is_upper, to_lower,
    to_title, to_upper,
};

const TEXT: &[Type] = &[Type::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("camelcase", TEXT, |call| {
        let text = pascal_case(&to_str(call.bytes(0)));
        call.answer_text(text)
    }),
    Function::new("kebabcase", TEXT, |call| {
        let text = words_joined(call.bytes(0), '-');
        call.answer_text(text)
    }),
    Function::new("lower", TEXT, |call| {
        let text = mapped(call.bytes(0), to_lower);
        call.answer_text(text)
    }),
    Function::new("snakecase", TEXT, |call| {
        let text = words_joined(call.bytes(0), '_');
        call.answer_text(text)
    }),
    Function::new("swapcase", TEXT, |call| {
        let text = swap_case(&to_str(call.bytes(0)));
        call.answer_text(text)
    }),
    Function::new("title", TEXT, |call| {
        let text = title(call.bytes(0));
        call.answer_text(text)
    }),
    Function::new("untitle", TEXT, |call| {
        let text = untitle(&to_str(call.bytes(0)));
        call.answer_text(text)
    }),
    Function::new("upper", TEXT, |call| {
        let text = mapped(call.bytes(0), to_upper);
        call.answer_text(text)
    }),
];

/// `strings.Map`: a byte that is no UTF-8 becomes U+FFFD, but only if anything is mapped.
fn mapped(text: &[u8], change: fn(char) -> char) -> Vec<u8> {
    if text.is_ascii() {
        return text
            .iter()
            .map(|byte| u32::from(change(char::from(*byte))))
            .filter_map(|code| u8::try_from(code).ok())
            .collect();
    }
    let changed: String = to_str(text).chars().map(change).collect();
    changed.into_bytes()
}

/// `strings.Title`: the first letter after what is neither letter, digit nor underscore.
fn title(text: &[u8]) -> Vec<u8> {
    let mut before = ' ';
    let changed: String = to_str(text)
        .chars()
        .map(|character| {
            let first = is_separator(before);
            before = character;
            if first { to_title(character) } else { character }
        })
        .collect();
    changed.into_bytes()
}

fn is_separator(character: char) -> bool {
    if character.is_ascii() {
        return !(character.is_ascii_alphanumeric() || character == '_');
    }
    !(is_letter(character) || is_digit(character)) && is_space(character)
}

/// `goutils.Uncapitalize`: the first character of each word.
fn untitle(text: &str) -> String {
    let mut first = true;
    text.chars()
        .map(|character| {
            if is_space(character) {
                first = true;
                return character;
            }
            if std::mem::take(&mut first) { to_lower(character) } else { character }
        })
        .collect()
}

/// `goutils.SwapCase`, which makes title case of the first letters.
fn swap_case(text: &str) -> String {
    let mut space = true;
    text.chars()
        .map(|character| {
            if is_upper(character) || is_title(character) {
                space = false;
                to_lower(character)
            } else if is_lower(character) {
                if std::mem::take(&mut space) { to_title(character) } else { to_upper(character) }
            } else {
                space = is_space(character);
                character
            }
        })
        .collect()
}

fn is_connector(character: char) -> bool {
    character == '-' || character == '_' || is_space(character)
}

/// `xstrings.ToPascalCase`.
fn pascal_case(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    let mut present = None;
    let mut first_upper = false;
    // Connectors at the beginning stay.
    for character in rest.by_ref() {
        if !is_connector(character) {
            first_upper = is_upper(character);
            present = Some(to_upper(character));
            break;
        }
        out.push(character);
    }
    let rest: Vec<char> = rest.collect();
    let Some(mut present) = present else {
        // Nothing but connectors: the last comes once more.
        out.extend(text.chars().last());
        return out;
    };
    for next in rest {
        let before = std::mem::replace(&mut present, next);
        if is_connector(present) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            first_upper = is_upper(present);
            present = to_upper(present);
        } else {
            if first_upper {
                if is_upper(present) {
                    present = to_lower(present);
                } else {
                    first_upper = false;
                }
            }
            out.push(before);
        }
    }
    out.push(present);
    out
}

/// Kinds of words that names are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// `xstrings.ToSnakeCase` and `ToKebabCase`.
fn words_joined(text: &[u8], connector: char) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    if text.is_empty() {
        return out;
    }
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            lowered(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Number => {
                while matches!(kind, Word::Alphabet | Word::Number) {
                    lowered(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Invalid | Word::Punctuation | Word::Connector) {
                    push_character(&mut out, connector);
                }
            }
            Word::Connector => lowered(&mut out, before, last, connector),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    push_character(&mut out, connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Alphabet {
                    // The number belongs to the word before it.
                    lowered(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        push_character(&mut out, connector);
                    }
                    continue;
                }
                push_character(&mut out, connector);
                lowered(&mut out, Word::Number, number, connector);
                while matches!(kind, Word::Alphabet | Word::Number) {
                    lowered(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Invalid | Word::Connector | Word::Punctuation) {
                    push_character(&mut out, connector);
                }
            }
        }
    }
    lowered(&mut out, kind, word, connector);
    out
}

fn lowered(out: &mut Vec<u8>, kind: Word, word: &[u8], connector: char) {
    if kind != Word::Upper && kind != Word::Connector {
        out.extend_from_slice(word);
        return;
    }
    for character in to_str(word).chars() {
        let written = if is_connector(character) {
            connector
        } else if is_upper(character) {
            to_lower(character)
        } else {
            character
        };
        push_character(out, written);
    }
}

/// A letter that words are made of; each of the others is a word.
fn is_alphabet(character: char) -> bool {
    is_letter(character)
        && !matches!(
            character,
            '\u{4e00}'..='\u{9fcc}' | '\u{3400}'..='\u{4d85}' | '\u{20000}'..='\u{2b81d}'
        )
}

/// The next character that is valid, and the bytes up to its end; at the end of the text, the one before.
fn next_valid(text: &[u8], before: char) -> (char, usize) {
    let mut size = 0;
    // A character has four bytes at most. Looking at more for each would take as long as the text for each.
    while let Some(rest) = text.get(size..).filter(|rest| !rest.is_empty())
        && let Some(chunk) = rest.get(..4).unwrap_or(rest).utf8_chunks().next()
    {
        let Some(character) = chunk.valid().chars().next() else {
            size += chunk.invalid().len();
            continue;
        };
        size += character.len_utf8();
        // A replacement character counts as invalid.
        if character != char::REPLACEMENT_CHARACTER {
            return (character, size);
        }
    }
    (before, size)
}

fn next_word(text: &[u8]) -> (Word, &[u8], &[u8]) {
    if text.is_empty() {
        return (Word::Invalid, b"", b"");
    }
    let (first, size) = next_valid(text, char::REPLACEMENT_CHARACTER);
    let (kind, length) = if first == char::REPLACEMENT_CHARACTER {
        (Word::Invalid, size)
    } else if is_connector(first) {
        (Word::Connector, run(text, size, first, is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(text, size, first, is_punctuation))
    } else if is_upper(first) {
        (Word::Upper, upper_word(text, size, first))
    } else if is_alphabet(first) {
        (Word::Alphabet, run(text, size, first, |next| is_alphabet(next) && !is_upper(next)))
    } else if is_number(first) {
        (Word::Number, run(text, size, first, is_number))
    } else {
        let other = |next: char| {
            !(is_connector(next) || is_alphabet(next) || is_number(next) || is_punctuation(next))
        };
        (Word::Other, run(text, size, first, other))
    };
    let (word, rest) = text.split_at_checked(length).unwrap_or((text, b""));
    (kind, word, rest)
}

/// The length of a word that goes on as long as its characters are of a kind.
fn run(text: &[u8], start: usize, first: char, goes_on: impl Fn(char) -> bool) -> usize {
    let (mut length, mut before) = (start, first);
    while let Some(rest) = text.get(length..).filter(|rest| !rest.is_empty()) {
        let (next, size) = next_valid(rest, before);
        if !goes_on(next) || size == 0 {
            break;
        }
        length += size;
        before = next;
    }
    length
}

/// A word that begins with a capital: `HTTP` of `HTTPStatus`, or `Status`.
fn upper_word(text: &[u8], start: usize, first: char) -> usize {
    let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) else { return start };
    let (second, size) = next_valid(rest, first);
    if is_upper(second) {
        let (mut length, mut before, mut last, mut next) = (start + size, second, size, second);
        while let Some(rest) = text.get(length..).filter(|rest| !rest.is_empty()) {
            let size;
            (next, size) = next_valid(rest, before);
            if !is_upper(next) {
                break;
            }
            last = size;
            length += size;
            before = next;
        }
        // The last capital of several begins the next word.
        if length < text.len() && is_alphabet(next) {
            length -= last;
        }
        return length;
    }
    if is_alphabet(second) {
        return run(text, start + size, second, |next| is_alphabet(next) && !is_upper(next));
    }
    start
}
