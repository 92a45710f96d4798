//! Rules for the schemas in definitions.

use serde_json::{Value, json};
use tiphys_object::structural::{SchemaError, Structural};

use crate::status::FieldError;
use crate::tree::{flag, items, text};
use crate::validate::validate_value;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Errors of the schema of one version.
pub(super) fn validate(schema: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut unread = None;
    match Structural::new(schema) {
        Ok(_) => {}
        Err(SchemaError::NotStructural(problems)) => {
            errors.extend(problems.iter().map(|one| told(one, field, schema)));
        }
        Err(other) => {
            unread = Some(FieldError::invalid(field, &json!(""), &other.to_string()));
        }
    }
    node(schema, field, true, &mut errors);
    if errors.is_empty() {
        errors.extend(unread);
    }
    errors
}

/// A problem that is told as `path: text`.
fn told(problem: &str, field: &str, schema: &Value) -> FieldError {
    let (path, message) = problem.split_once(": ").unwrap_or(("", problem));
    let field = if path.is_empty() { field.to_owned() } else { format!("{field}.{path}") };
    let reason = match message.split_once(':').map_or(message, |(kind, _)| kind) {
        "Required value" => "FieldValueRequired",
        "Forbidden" => "FieldValueForbidden",
        _ => "FieldValueInvalid",
    };
    if message == "Invalid value: must be object at the root" {
        return FieldError::invalid(field, &json!(text(schema, &["type"])), "must be object at the root");
    }
    FieldError { reason, field, message: message.to_owned() }
}

fn node(schema: &Value, field: &str, is_root: bool, errors: &mut Vec<FieldError>) {
    let Value::Object(members) = schema else { return };
    let kind = text(schema, &["type"]);
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(format!("{field}.type"), &json!(kind), &TYPES));
    }
    if flag(schema, &["uniqueItems"]) {
        let problem = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{field}.uniqueItems"), problem));
    }
    if members.get("$ref").is_some_and(|reference| !reference.is_null()) {
        errors.push(FieldError::forbidden(format!("{field}.$ref"), "$ref is not supported"));
    }
    if let Some(default) = members.get("default").filter(|default| !default.is_null()) {
        for mut error in validate_value(schema, default) {
            error.field = match error.field.as_str() {
                "<nil>" => format!("{field}.default"),
                below => format!("{field}.default.{below}"),
            };
            errors.push(error);
        }
    }
    let additional = members.get("additionalProperties").filter(|one| !one.is_null());
    let properties = members.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty());
    if properties.is_some() && additional.is_some_and(|one| *one != json!(true)) {
        let problem = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{field}.additionalProperties"), problem));
    }
    if let Some(below) = additional {
        node(below, &format!("{field}.additionalProperties"), false, errors);
    }
    for (name, below) in properties.into_iter().flatten() {
        let field = format!("{field}.properties[{name}]");
        if is_root
            && matches!(name.as_str(), "apiVersion" | "kind" | "metadata")
            && below.get("default").is_some()
        {
            let problem = format!("must not be set in top-level {name}");
            errors.push(FieldError::forbidden(format!("{field}.default"), &problem));
        }
        node(below, &field, false, errors);
    }
    if let Some(not) = members.get("not") {
        node(not, &format!("{field}.not"), false, errors);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (at, below) in items(schema, &[name]).iter().enumerate() {
            node(below, &format!("{field}.{name}[{at}]"), false, errors);
        }
    }
    if let Some(below) = members.get("items") {
        node(below, &format!("{field}.items"), false, errors);
    }
    extensions(schema, kind, field, errors);
}

/// What identifies items, and how maps are merged.
fn extensions(schema: &Value, kind: &str, field: &str, errors: &mut Vec<FieldError>) {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(false)) {
        let at = format!("{field}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, &json!(false), "must be true or undefined"));
    }
    let map_type = text(schema, &["x-kubernetes-map-type"]);
    let list_type = text(schema, &["x-kubernetes-list-type"]);
    for (said, wanted, what) in
        [(map_type, "object", "x-kubernetes-map-type"), (list_type, "array", "x-kubernetes-list-type")]
    {
        if said.is_empty() || kind == wanted {
            continue;
        }
        let (at, problem) = (format!("{field}.type"), format!("must be {wanted} if {what} is specified"));
        errors.push(if kind.is_empty() {
            FieldError::required(at, &problem)
        } else {
            FieldError::invalid(at, &json!(kind), &problem)
        });
    }
    if !matches!(map_type, "" | "atomic" | "granular") {
        let at = format!("{field}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(at, &json!(map_type), &["atomic", "granular"]));
    }
    let type_field = format!("{field}.x-kubernetes-list-type");
    if !matches!(list_type, "" | "atomic" | "set" | "map") {
        errors.push(FieldError::not_supported(&type_field, &json!(list_type), &["atomic", "set", "map"]));
    }
    let keys = items(schema, &["x-kubernetes-list-map-keys"]);
    if !keys.is_empty() && list_type != "map" {
        let problem = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if list_type.is_empty() {
            FieldError::required(type_field, problem)
        } else {
            FieldError::invalid(type_field, &json!(list_type), problem)
        });
    }
    if list_type == "map" {
        keyed(schema, keys, field, errors);
    }
}

fn keyed(schema: &Value, keys: &[Value], field: &str, errors: &mut Vec<FieldError>) {
    let keys_field = format!("{field}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&keys_field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(item) = schema.get("items").filter(|items| items.is_object()) else {
        let problem = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{field}.items"), problem));
        return;
    };
    let kind = text(item, &["type"]);
    if kind != "object" {
        let problem = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{field}.items.type"), &json!(kind), problem));
        return;
    }
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or("");
        match item.get("properties").and_then(|all| all.get(name)) {
            None => {
                let problem = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_field, &json!(keys), problem));
            }
            Some(property) if matches!(text(property, &["type"]), "array" | "object") => {
                let problem = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = format!("{field}.items.properties[{name}].type");
                errors.push(FieldError::invalid(at, &json!(kind), problem));
            }
            Some(_) => {}
        }
        if keys.iter().take(at).any(|other| other == key) {
            errors.push(FieldError::invalid(&keys_field, &json!(keys), "must not contain duplicate entries"));
        }
    }
    for name in keys.iter().filter_map(Value::as_str) {
        let Some(property) = item.get("properties").and_then(|all| all.get(name)) else { continue };
        let is_required = items(item, &["required"]).iter().any(|one| one == name);
        if property.get("default").is_none_or(Value::is_null) && !is_required {
            let problem = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                           property";
            errors.push(FieldError::required(format!("{field}.items.properties[{name}].default"), problem));
        }
        if flag(property, &["nullable"]) {
            let problem = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{field}.items.properties[{name}].nullable"), problem));
        }
    }
}
