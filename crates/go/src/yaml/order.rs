//! The order in which the writer puts keys: punctuation, then numbers by value, then letters.
//!
//! The library's comparison is not a consistent order for every set of names (`v1`, `v1alpha1`, `v10`), so
//! keys are sorted here by a merge that needs no more than an answer to each question.

use crate::unicode::{is_digit, is_letter};

/// The members in the writer's order; in that of the third version of the library, a letter stands before another
/// character where digits come before both.
pub(super) fn sorted_keys<K: AsRef<str>, V>(members: Vec<(K, V)>, third: bool) -> Vec<(K, V)> {
    if members.is_sorted_by(|left, right| !less(right.0.as_ref(), left.0.as_ref(), third)) {
        return members;
    }
    merge_sort(members, third)
}

fn merge_sort<K: AsRef<str>, V>(mut entries: Vec<(K, V)>, third: bool) -> Vec<(K, V)> {
    if entries.len() < 2 {
        return entries;
    }
    let right = merge_sort(entries.split_off(entries.len() / 2), third);
    let left = merge_sort(entries, third);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut right = right.into_iter().peekable();
    for entry in left {
        while let Some(earlier) =
            right.next_if(|candidate| less(candidate.0.as_ref(), entry.0.as_ref(), third))
        {
            merged.push(earlier);
        }
        merged.push(entry);
    }
    merged.extend(right);
    merged
}

/// Whether one key stands before another.
fn less(left: &str, right: &str, third: bool) -> bool {
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
        (left_is_letter, right_is_letter) => {
            let after_digits = third && common.chars().next_back().is_some_and(is_digit);
            return if after_digits { left_is_letter } else { right_is_letter };
        }
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
