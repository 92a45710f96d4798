//! Compares an answer with what a test expects (EVAL-42).

use regex::Regex;
use serde_json::{Map, Value};

/// Longest value shown in a mismatch, in characters (EVAL-44).
const SHOWN_CHARACTERS: usize = 200;

/// Whether members that the expectation does not list are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    /// They are ignored.
    Allowed,
    /// They are mismatches.
    Forbidden,
}

/// One difference between expectation and answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mismatch {
    /// JSON pointer into the answer.
    pub(super) path: String,
    /// What was expected, as text.
    pub(super) expected: String,
    /// What is there, as text; `nothing` for an absent member.
    pub(super) actual: String,
}

/// All mismatches of `actual`, in the order of the expectation.
pub(super) fn compare(expected: &Value, actual: &Value, extra: Extra) -> Vec<Mismatch> {
    let mut found = Vec::new();
    compare_at(expected, Some(actual), extra, "", &mut found);
    found
}

/// A value as reports show it.
pub(super) fn show(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(&text)),
        None => text,
    }
}

fn show_seen(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), show)
}

fn compare_at(expected: &Value, actual: Option<&Value>, extra: Extra, path: &str, found: &mut Vec<Mismatch>) {
    let mut differ = |expected: String| {
        found.push(Mismatch { path: path.to_owned(), expected, actual: show_seen(actual) });
    };
    match (expected, actual) {
        (Value::Object(members), _) if let Some((name, operand)) = matcher_of(members) => {
            apply_matcher(name, operand, actual, extra, path, found);
        }
        (Value::Null, None) => {}
        (Value::Object(members), Some(Value::Object(seen))) => {
            for (key, value) in members {
                compare_at(value, seen.get(key), extra, &child(path, key), found);
            }
            if extra == Extra::Forbidden {
                for (key, value) in seen.iter().filter(|(key, _)| !members.contains_key(*key)) {
                    let path = child(path, key);
                    found.push(Mismatch { path, expected: "nothing".to_owned(), actual: show(value) });
                }
            }
        }
        (Value::Array(items), Some(Value::Array(seen))) if items.len() == seen.len() => {
            for (index, (item, one)) in items.iter().zip(seen).enumerate() {
                compare_at(item, Some(one), extra, &format!("{path}/{index}"), found);
            }
        }
        (Value::Array(items), Some(Value::Array(seen))) => {
            found.push(Mismatch {
                path: path.to_owned(),
                expected: format!("{} elements: {}", items.len(), show(expected)),
                actual: format!("{} elements: {}", seen.len(), show_seen(actual)),
            });
        }
        (Value::Number(wanted), Some(Value::Number(seen))) if equal_numbers(wanted, seen) => {}
        (wanted, Some(seen)) if wanted == seen => {}
        _ => differ(show(expected)),
    }
}

fn equal_numbers(wanted: &serde_json::Number, seen: &serde_json::Number) -> bool {
    // Integers are compared as such: as floats, large neighbours would be equal.
    match (wanted.as_i64(), seen.as_i64(), wanted.as_u64(), seen.as_u64()) {
        (Some(wanted), Some(seen), _, _) => wanted == seen,
        (_, _, Some(wanted), Some(seen)) => wanted == seen,
        _ => wanted.as_f64() == seen.as_f64(),
    }
}

fn child(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// An object with exactly one key that starts with `$` is a matcher.
fn matcher_of(members: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut entries = members.iter();
    match (entries.next(), entries.next()) {
        (Some((key, operand)), None) => key.strip_prefix('$').map(|name| (name, operand)),
        _ => None,
    }
}

fn matches(expected: &Value, actual: Option<&Value>, extra: Extra) -> bool {
    let mut found = Vec::new();
    compare_at(expected, actual, extra, "", &mut found);
    found.is_empty()
}

fn apply_matcher(
    name: &str,
    operand: &Value,
    actual: Option<&Value>,
    extra: Extra,
    path: &str,
    found: &mut Vec<Mismatch>,
) {
    let text = actual.and_then(Value::as_str);
    let list = actual.and_then(Value::as_array);
    let holds = match (name, operand) {
        ("any", Value::Bool(true)) => actual.is_some(),
        ("absent", Value::Bool(true)) => actual.is_none(),
        ("not", inner) => !matches(inner, actual, extra),
        ("exact", inner) => {
            return compare_at(inner, actual, Extra::Forbidden, path, found);
        }
        ("contains", Value::String(part)) if text.is_some() => text.is_some_and(|text| text.contains(part)),
        ("contains", inner) => {
            list.is_some_and(|list| list.iter().any(|one| matches(inner, Some(one), extra)))
        }
        ("prefix", Value::String(prefix)) => text.is_some_and(|text| text.starts_with(prefix)),
        ("regex", Value::String(pattern)) => match Regex::new(pattern) {
            Ok(pattern) => text.is_some_and(|text| pattern.is_match(text)),
            Err(_) => return refuse("a regular expression", operand, path, found),
        },
        ("length", Value::Number(wanted)) => {
            length(actual).is_some_and(|length| wanted.as_u64() == u64::try_from(length).ok())
        }
        ("unordered", Value::Array(wanted)) => list.is_some_and(|list| pairs_up(wanted, list, extra)),
        _ => return refuse("a known matcher", operand, path, found),
    };
    if !holds {
        let expected = format!("${name} {}", show(operand));
        found.push(Mismatch { path: path.to_owned(), expected, actual: show_seen(actual) });
    }
}

fn refuse(what: &str, operand: &Value, path: &str, found: &mut Vec<Mismatch>) {
    let expected = format!("{what} in the expectation");
    found.push(Mismatch { path: path.to_owned(), expected, actual: show(operand) });
}

fn length(actual: Option<&Value>) -> Option<usize> {
    match actual? {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(members) => Some(members.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Whether every expectation gets an element of its own. Greedy choice could take the only partner of a later one, so
/// this looks for augmenting paths.
fn pairs_up(wanted: &[Value], seen: &[Value], extra: Extra) -> bool {
    if wanted.len() != seen.len() {
        return false;
    }
    let fits: Vec<Vec<bool>> = wanted
        .iter()
        .map(|one| seen.iter().map(|other| matches(one, Some(other), extra)).collect())
        .collect();
    let mut partner_of: Vec<Option<usize>> = vec![None; seen.len()];
    (0..wanted.len()).all(|one| find_partner(one, &fits, &mut vec![false; seen.len()], &mut partner_of))
}

fn find_partner(
    one: usize,
    fits: &[Vec<bool>],
    tried: &mut [bool],
    partner_of: &mut [Option<usize>],
) -> bool {
    let Some(row) = fits.get(one) else { return false };
    for (other, fit) in row.iter().enumerate() {
        let Some(tried_here) = tried.get_mut(other) else { continue };
        if !*fit || *tried_here {
            continue;
        }
        *tried_here = true;
        let holder = partner_of.get(other).copied().flatten();
        if holder.is_none_or(|holder| find_partner(holder, fits, tried, partner_of)) {
            if let Some(slot) = partner_of.get_mut(other) {
                *slot = Some(one);
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn subset(expected: &Value, actual: &Value) -> Vec<String> {
        compare(expected, actual, Extra::Allowed)
            .into_iter()
            .map(|one| format!("{}: {} / {}", one.path, one.expected, one.actual))
            .collect()
    }

    #[test]
    fn eval_42_listed_members_must_match() {
        let actual = json!({"allowed": true, "n": 1, "list": [1, 2], "a/b": "x"});
        assert!(subset(&json!({"allowed": true, "n": 1.0, "gone": null}), &actual).is_empty());
        assert_eq!(subset(&json!({"allowed": false}), &actual), ["/allowed: false / true"]);
        assert_eq!(subset(&json!({"a/b": "y"}), &actual), ["/a~1b: \"y\" / \"x\""]);
        assert_eq!(subset(&json!({"list": [1]}), &actual).len(), 1);
        assert_eq!(subset(&json!({"n": "1"}), &actual).len(), 1);
        assert_eq!(compare(&json!({"n": 1}), &actual, Extra::Forbidden).len(), 3);
    }

    #[test]
    fn eval_42_matchers() {
        let actual = json!({"text": "billing api", "list": ["a", "b", "c"], "map": {"x": 1, "y": 2}});
        for (expected, holds) in [
            (json!({"text": {"$contains": "ing"}}), true),
            (json!({"text": {"$contains": "ink"}}), false),
            (json!({"list": {"$contains": "b"}}), true),
            (json!({"list": {"$contains": "d"}}), false),
            (json!({"text": {"$prefix": "bill"}}), true),
            (json!({"text": {"$regex": "^b.*i$"}}), true),
            (json!({"text": {"$regex": "("}}), false),
            (json!({"list": {"$unordered": ["c", "a", "b"]}}), true),
            (json!({"list": {"$unordered": [{"$any": true}, "a", {"$regex": "[ab]"}]}}), true),
            (json!({"list": {"$unordered": ["c", "a"]}}), false),
            (json!({"map": {"$exact": {"x": 1}}}), false),
            (json!({"map": {"$exact": {"x": 1, "y": 2}}}), true),
            (json!({"list": {"$length": 3}}), true),
            (json!({"text": {"$not": {"$prefix": "a"}}}), true),
            (json!({"text": {"$any": true}}), true),
            (json!({"gone": {"$any": true}}), false),
            (json!({"gone": {"$absent": true}}), true),
            (json!({"text": {"$absent": true}}), false),
            (json!({"text": {"$unknown": true}}), false),
        ] {
            assert_eq!(subset(&expected, &actual).is_empty(), holds, "{expected}");
        }
    }

    #[test]
    fn eval_44_long_values_are_cut() {
        let shown = show(&json!("x".repeat(500)));
        assert_eq!(shown.chars().count(), SHOWN_CHARACTERS + 1);
    }
}
