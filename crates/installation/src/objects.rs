//! What `ConfigMaps` and Secrets hold.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;
use tiphys_api::application::Metadata;
use tiphys_object::Object;

/// `data` of a `ConfigMap`; members that are no texts are left out.
pub fn texts(object: &Object) -> BTreeMap<String, String> {
    // Objects that are no JSON are not taken into the data that a snapshot is built from.
    let value = object.to_value().unwrap_or_default();
    let members = value.get("data").and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Decoded `data` of a Secret; values that are no base64 of text are left out.
pub fn decoded(object: &Object) -> BTreeMap<String, String> {
    let decode = |text: String| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
        String::from_utf8(bytes).ok()
    };
    texts(object).into_iter().filter_map(|(key, text)| Some((key, decode(text)?))).collect()
}

/// The metadata in typed form.
///
/// # Errors
/// When it is no metadata.
pub fn metadata(object: &Object) -> Result<Metadata, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        metadata: Metadata,
    }
    serde_json::from_slice::<Envelope>(&object.raw()).map(|envelope| envelope.metadata)
}
