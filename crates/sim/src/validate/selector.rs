//! Label selectors.

use serde_json::{Value, json};

use super::names;
use crate::status::FieldError;
use crate::tree::{items, members, text};

/// Errors of a selector.
pub(super) fn validate(selector: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = super::metadata::labels(selector, &["matchLabels"], &format!("{field}.matchLabels"));
    for (at, expression) in items(selector, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{at}]");
        let has_values = !items(expression, &["values"]).is_empty();
        match text(expression, &["operator"]) {
            "In" | "NotIn" if !has_values => errors.push(FieldError::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if has_values => errors.push(FieldError::forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{field}.operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
        let key = text(expression, &["key"]);
        let problems = names::qualified(key);
        errors
            .extend(problems.iter().map(|one| FieldError::invalid(format!("{field}.key"), &json!(key), one)));
    }
    errors
}

/// An error about a whole selector, which is printed in the order of its type.
pub(super) fn invalid(field: &str, selector: &Value, problem: &str) -> FieldError {
    let member = |name: &str| {
        let said = selector.get(name).filter(|said| !said.is_null());
        said.map(|said| format!("\"{name}\":{said}"))
    };
    let shown: Vec<String> = ["matchLabels", "matchExpressions"].into_iter().filter_map(member).collect();
    let message = format!("Invalid value: {{{}}}: {problem}", shown.join(","));
    FieldError { reason: "FieldValueInvalid", field: field.to_owned(), message }
}

/// Whether a selector says nothing.
pub(super) fn is_empty(selector: &Value) -> bool {
    members(selector, &["matchLabels"]).is_none_or(serde_json::Map::is_empty)
        && items(selector, &["matchExpressions"]).is_empty()
}

/// Whether a selector that can be read picks the labels.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let value = |key: &str| labels.get(key).and_then(Value::as_str);
    let mut pairs = members(selector, &["matchLabels"]).into_iter().flatten();
    pairs.all(|(key, wanted)| value(key) == wanted.as_str())
        && items(selector, &["matchExpressions"]).iter().all(|expression| {
            let found = value(text(expression, &["key"]));
            let is_in = || items(expression, &["values"]).iter().any(|one| one.as_str() == found);
            match text(expression, &["operator"]) {
                "In" => found.is_some() && is_in(),
                "NotIn" => found.is_none() || !is_in(),
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}
