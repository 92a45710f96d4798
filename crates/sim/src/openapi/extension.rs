//! Schemas of the kinds that the table of built-in types leaves out: definitions and aggregated services.
//!
//! They are kept as data (`data/extension-schemas.json`): names, types and merge keys as the server has them,
//! without descriptions.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use tiphys_object::Gvk;

static TEXT: &str = include_str!("../../data/extension-schemas.json");

/// The text is our own; a test reads it.
static SCHEMAS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(TEXT).unwrap_or_default());

/// Name of the schema of a kind.
pub(super) fn name(gvk: &Gvk) -> Option<&'static str> {
    let wanted = format!(".{}.{}", gvk.version, gvk.kind);
    let package = match gvk.group.as_str() {
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        _ => return None,
    };
    SCHEMAS.keys().map(String::as_str).find(|name| name.strip_prefix(package) == Some(&*wanted))
}

/// The schema with this name.
pub(super) fn schema(name: &str) -> Option<&'static Value> {
    SCHEMAS.get(name)
}

/// Names of the schemas that a schema refers to.
pub(super) fn references(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(schema, &mut found);
    found
}

fn collect(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(name) = members.get("$ref").and_then(Value::as_str) {
                found.extend(name.strip_prefix("#/components/schemas/").map(str::to_owned));
            }
            members.values().for_each(|member| collect(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_complete() {
        assert!(SCHEMAS.len() > 20);
        for schema in SCHEMAS.values() {
            for name in references(schema) {
                assert!(SCHEMAS.contains_key(&name) || name.contains(".meta.v1."), "{name}");
            }
        }
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        assert!(name(&gvk).is_some_and(|name| name.ends_with(".CustomResourceDefinition")));
    }
}
