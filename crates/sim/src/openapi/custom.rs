//! Schemas of custom resources: what the definition says, and what every object has.

use serde_json::{Map, Value, json};
use tiphys_object::Gvk;

use super::component::reference;
use super::set;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// Schemas inside schemas that are followed; definitions are not deeper than that.
const DEPTH_MAX: usize = 100;

/// Name of the schema of a custom kind: the group backwards, the version, the kind.
pub(super) fn name(gvk: &Gvk) -> String {
    let mut parts: Vec<&str> = gvk.group.split('.').rev().collect();
    parts.extend([gvk.version.as_str(), gvk.kind.as_str()]);
    parts.join(".")
}

/// The schema of an object.
pub(super) fn object(schema: &Value) -> Value {
    let mut found = match schema {
        Value::Object(_) => schema.clone(),
        _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    complete(&mut found, 0);
    set(&mut found, "type", json!("object"));
    add_members(&mut found);
    found
}

/// The schema of a list of objects.
pub(super) fn list(item: &Value) -> Value {
    json!({"type": "object", "required": ["items"], "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"allOf": [reference(LIST_META)]}, "items": {"type": "array", "items": item}}})
}

/// Adds to embedded objects what every object has, and to values of two types what they may be.
fn complete(schema: &mut Value, depth: usize) {
    let Value::Object(members) = schema else { return };
    if depth > DEPTH_MAX {
        return;
    }
    for (name, member) in members.iter_mut() {
        match (name.as_str(), &mut *member) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|property| complete(property, depth + 1));
            }
            ("items" | "additionalProperties", _) => complete(member, depth + 1),
            _ => {}
        }
    }
    let is_set = |members: &Map<String, Value>, name: &str| members.get(name) == Some(&Value::Bool(true));
    if is_set(members, "x-kubernetes-int-or-string") && !members.contains_key("anyOf") {
        members.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    if is_set(members, "x-kubernetes-embedded-resource") {
        add_members(schema);
        let required = required_with_kind(schema.get("required"));
        set(schema, "required", required);
    }
}

fn required_with_kind(before: Option<&Value>) -> Value {
    let mut required = before.and_then(Value::as_array).cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|one| one == name) {
            required.push(json!(name));
        }
    }
    Value::Array(required)
}

/// `apiVersion`, `kind` and `metadata`.
fn add_members(schema: &mut Value) {
    if !schema.get("properties").is_some_and(Value::is_object) {
        set(schema, "properties", json!({}));
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for name in ["apiVersion", "kind"] {
        let described = properties.get(name).and_then(|before| before.get("description")).cloned();
        let mut text = json!({"type": "string"});
        if let Some(description) = described {
            set(&mut text, "description", description);
        }
        properties.insert(name.to_owned(), text);
    }
    properties.insert("metadata".to_owned(), json!({"allOf": [reference(OBJECT_META)]}));
}
