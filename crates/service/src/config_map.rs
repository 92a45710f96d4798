//! `ConfigMaps` that the product writes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::names::{PART_OF, PART_OF_LABEL};
use tiphys_installation::objects;
use tiphys_object::Object;

use crate::change::{Change, Sealed};
use crate::managed;

/// The entries of a `ConfigMap`; none where there is none.
pub(crate) fn data(stored: Option<&Object>) -> BTreeMap<String, String> {
    stored.map(objects::texts).unwrap_or_default()
}

/// Sets entries of a `ConfigMap`, and removes those that are null; other entries stay. One without the label that
/// makes it count gets it.
pub(crate) fn put(
    stored: Option<&Object>,
    (namespace, name): (&str, &str),
    data: &Map<String, Value>,
) -> Change {
    let labels = json!({PART_OF_LABEL: PART_OF});
    match stored {
        Some(object) => managed::patch(object, json!({"metadata": {"labels": labels}, "data": data})),
        None => Change::Create(Sealed::new(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {PART_OF_LABEL: PART_OF, "app.kubernetes.io/name": name},
            },
            "data": data,
        }))),
    }
}
