//! Errors that several rules give.

use serde_json::Value;

use crate::status::FieldError;

/// A value that may not change.
pub(crate) fn immutable(field: &str, value: &Value) -> FieldError {
    FieldError::invalid(field, value, "field is immutable")
}

/// A text that is too long; the server does not repeat it.
pub(crate) fn too_long(field: impl Into<String>, most: usize) -> FieldError {
    let unit = if most == 1 { "byte" } else { "bytes" };
    let message = format!("Too long: may not be more than {most} {unit}");
    FieldError { reason: "FieldValueTooLong", field: field.into(), message }
}

/// A list that is too long.
pub(crate) fn too_many(field: impl Into<String>, count: usize, most: i64) -> FieldError {
    let unit = if most == 1 { "item" } else { "items" };
    let message = format!("Too many: {count}: must have at most {most} {unit}");
    FieldError { reason: "FieldValueTooMany", field: field.into(), message }
}
