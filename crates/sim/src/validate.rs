//! Rules that objects must keep, with the words of an API server.

use serde_json::Value;

use crate::resource::Resource;
use crate::status::FieldError;

/// Errors of an object that is being made.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let _ = (resource, object);
    Vec::new()
}

/// Errors of a change from `old` to `new`.
pub(crate) fn update(resource: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    let _ = (resource, old, new);
    Vec::new()
}
