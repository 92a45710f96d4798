//! OpenAPI documents, made from the types of built-in resources and the schemas of definitions.

use serde_json::Value;

use crate::resource::Registry;

/// `GET /openapi/v3`: the paths of the documents, each with a hash of its content.
pub(crate) fn index(registry: &Registry) -> Value {
    let _ = registry;
    Value::Null
}

/// `GET /openapi/v3/api/v1`, `GET /openapi/v3/apis/{group}/{version}`; `None` when there is no such version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let _ = (registry, group, version);
    None
}

/// `GET /openapi/v2`, as JSON.
pub(crate) fn v2(registry: &Registry) -> Value {
    let _ = registry;
    Value::Null
}
