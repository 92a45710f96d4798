//! The order in which the writer puts keys: punctuation, then numbers by value, then letters.
//!
//! The library's comparison is not a consistent order for every set of names (`v1`, `v1alpha1`, `v10`), so
//! keys are sorted here by a merge that needs no more than an answer to each question.

use regex::Regex;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The members in the writer's order.
pub(super) fn sorted_keys(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let sorted: Vec<(&String, &Value)> = members.iter().collect();
    if sorted.is_sorted_by(|left, right| !less(right.0, left.0)) {
        return sorted;
    }
    merge_sort(sorted)
}

fn merge_sort<'a>(mut entries: Vec<(&'a String, &'a Value)>) -> Vec<(&'a String, &'a Value)> {
    if entries.len() < 2 {
        return entries;
    }
    let right = merge_sort(entries.split_off(entries.len() / 2));
    let left = merge_sort(entries);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut right = right.into_iter().peekable();
    for entry in left {
        while let Some(earlier) = right.next_if(|candidate| less(candidate.0, entry.0)) {
            merged.push(earlier);
        }
        merged.push(entry);
    }
    merged.extend(right);
    merged
}

/// Whether one key stands before another.
fn less(left: &str, right: &str) -> bool {
    let differs = left.chars().zip(right.chars()).position(|(left, right)| left != right);
    let Some(position) = differs else { return left.len() < right.len() };
    let offset = left.char_indices().nth(position).map_or(left.len(), |(offset, _)| offset);
    // Up to `offset` both are the same bytes.
    let (common, left_rest) = left.split_at_checked(offset).unwrap_or((left, ""));
    let right_rest = right.get(offset..).unwrap_or_default();
    let (Some(left_first), Some(right_first)) = (left_rest.chars().next(), right_rest.chars().next()) else {
        return left.len() < right.len();
    };
    match (is_letter(left_first), is_letter(right_first)) {
        (true, true) => return left_first < right_first,
        (false, false) => {}
        (_, right_is_letter) => return right_is_letter,
    }
    // A zero inside a longer number counts as a digit of it, one at its start does not.
    let inside_number = (left_first == '0' || right_first == '0')
        && common.chars().rev().take_while(|digit| is_digit(*digit)).any(|digit| digit != '0');
    let (left_number, left_digits) = leading_number(left_rest, inside_number);
    let (right_number, right_digits) = leading_number(right_rest, inside_number);
    if left_number != right_number {
        return left_number < right_number;
    }
    if left_digits != right_digits {
        return left_digits < right_digits;
    }
    left_first < right_first
}

/// The value of the digits a text starts with, and how many there are. Overflow wraps, as in the library.
fn leading_number(text: &str, inside_number: bool) -> (i64, usize) {
    let start = (i64::from(inside_number), 0);
    text.chars().take_while(|digit| is_digit(*digit)).fold(start, |(value, count), digit| {
        let digit = i64::from(u32::from(digit)) - i64::from(u32::from('0'));
        (value.wrapping_mul(10).wrapping_add(digit), count + 1)
    })
}

fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || (!character.is_ascii() && in_class(character, &LETTER))
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || (!character.is_ascii() && in_class(character, &DIGIT))
}

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}").ok());

fn in_class(character: char, class: &LazyLock<Option<Regex>>) -> bool {
    class.as_ref().is_some_and(|class| class.is_match(character.encode_utf8(&mut [0; 4])))
}
