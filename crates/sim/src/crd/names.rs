//! Names of a definition.

use serde_json::{Value, json};

use crate::status::FieldError;
use crate::tree::{items, text};
use crate::validate::dns_1035_label;

/// Errors of names that are there.
pub(super) fn validate(names: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |field: String, name: &str, is_kind: bool| {
        let problems = dns_1035_label(&if is_kind { name.to_lowercase() } else { name.to_owned() }).join(",");
        if !name.is_empty() && !problems.is_empty() {
            let before = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(field, &json!(name), &format!("{before}{problems}")));
        }
    };
    for (name, is_kind) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        check(format!("{field}.{name}"), text(names, &[name]), is_kind);
    }
    for (at, name) in items(names, &["shortNames"]).iter().enumerate() {
        check(format!("{field}.shortNames[{at}]"), name.as_str().unwrap_or(""), false);
    }
    for (at, name) in items(names, &["categories"]).iter().enumerate() {
        check(format!("{field}.categories[{at}]"), name.as_str().unwrap_or(""), false);
    }
    let kind = text(names, &["kind"]);
    if !kind.is_empty() && kind == text(names, &["listKind"]) {
        let problem = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{field}.listKind"), &json!(kind), problem));
    }
    errors
}
