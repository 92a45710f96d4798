//! Lists and objects, and what definitions say beyond a plain schema.

use serde_json::{Map, Value, json};

use super::{Outcome, node, shown, value_error};
use crate::resource::Resource;
use crate::status::FieldError;
use crate::tree::{flag, integer, items, text};
use crate::validate::{dns_1035_label, too_many};

/// Items, their number, and whether they differ.
pub(super) fn list(schema: &Value, found: &[Value], old: Option<&Value>, path: &str) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(below) = schema.get("items").filter(|below| below.is_object()) {
        for (at, item) in found.iter().enumerate() {
            let before = before(schema, item, old);
            outcome.merge(node(below, item, before, &format!("{path}[{at}]")));
        }
    }
    let count = found.len();
    let size = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(least) = integer(schema, &["minItems"]).filter(|least| size < *least) {
        let problem = format!("should have at least {least} items");
        outcome.errors.push(value_error(path, &json!(count), &problem));
    }
    if let Some(most) = integer(schema, &["maxItems"]).filter(|most| size > *most) {
        outcome.errors.push(too_many(shown(path), count, most));
    }
    let is_twice = |(at, item): (usize, &Value)| found.iter().take(at).any(|other| other == item);
    if flag(schema, &["uniqueItems"]) && found.iter().enumerate().any(is_twice) {
        outcome.errors.push(value_error(path, &json!(""), "shouldn't contain duplicates"));
    }
    outcome.judged += 1;
    outcome
}

/// The item of an old list that has the keys of this one.
fn before<'a>(schema: &Value, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    if text(schema, &["x-kubernetes-list-type"]) != "map" {
        return None;
    }
    let keys = items(schema, &["x-kubernetes-list-map-keys"]);
    let same =
        |other: &&Value| keys.iter().filter_map(Value::as_str).all(|key| other.get(key) == item.get(key));
    old?.as_array()?.iter().find(same)
}

/// Number of members, members by name, and those that must be there.
pub(super) fn object(schema: &Value, found: &Map<String, Value>, old: Option<&Value>, path: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let size = i64::try_from(found.len()).unwrap_or(i64::MAX);
    if let Some(least) = integer(schema, &["minProperties"]).filter(|least| size < *least) {
        let problem = format!("should have at least {least} properties");
        outcome.errors.push(value_error(path, &json!(size), &problem));
    }
    if let Some(most) = integer(schema, &["maxProperties"]).filter(|most| size > *most) {
        outcome.errors.push(too_many(shown(path), found.len(), most));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = |name: &str| properties.is_some_and(|all| all.contains_key(name));
    let before = |name: &str| old.and_then(|old| old.get(name));
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            for name in found.keys().filter(|name| !known(name)) {
                let message = format!("{path}.{name} in body is a forbidden property");
                outcome.errors.push(FieldError::invalid(shown(path), &json!(name), &message));
            }
        }
        Some(below @ Value::Object(_)) => {
            for (name, value) in found.iter().filter(|(name, _)| !known(name)) {
                outcome.merge(node(below, value, before(name), &format!("{path}.{name}")));
            }
        }
        _ => {}
    }
    for (name, below) in properties.into_iter().flatten() {
        if let Some(value) = found.get(name) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            outcome.merge(node(below, value, before(name), &path));
        }
    }
    for name in items(schema, &["required"]).iter().filter_map(Value::as_str) {
        if !found.contains_key(name) {
            outcome.errors.push(FieldError::required(shown(&format!("{path}.{name}")), ""));
        }
    }
    outcome
}

/// Items of sets and keyed lists that are there twice.
pub(in super::super) fn lists(schema: &Value, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, object, "", &mut |schema, value, path| {
        if let Value::Array(items) = value {
            errors.extend(doubles(schema, items, path));
        }
    });
    errors
}

/// Visits every value that a schema describes.
fn walk(schema: &Value, value: &Value, path: &str, visit: &mut dyn FnMut(&Value, &Value, &str)) {
    visit(schema, value, path);
    match value {
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, member) in members {
                if let Some(below) = properties.and_then(|all| all.get(name)) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    walk(below, member, &path, visit);
                } else if let Some(below) = schema.get("additionalProperties").filter(|one| one.is_object()) {
                    walk(below, member, &format!("{path}[{name}]"), visit);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.get("items").filter(|below| below.is_object()) else { return };
            for (at, item) in items.iter().enumerate() {
                walk(below, item, &format!("{path}[{at}]"), visit);
            }
        }
        _ => {}
    }
}

fn doubles(schema: &Value, found: &[Value], path: &str) -> Vec<FieldError> {
    let is_keyed = match text(schema, &["x-kubernetes-list-type"]) {
        "set" => false,
        "map" => true,
        _ => return Vec::new(),
    };
    let keys = items(schema, &["x-kubernetes-list-map-keys"]);
    let identity = |item: &Value| -> Value {
        if !is_keyed {
            return item.clone();
        }
        let said = keys.iter().filter_map(Value::as_str);
        let said = said.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())));
        Value::Object(said.collect())
    };
    let problem = |(at, item): (usize, &Value)| {
        let field = format!("{path}[{at}]");
        is_keyed
            .then(|| FieldError::invalid(field, item, "must be an object for an array of list-type map"))
            .filter(|_| !item.is_object() && !item.is_null())
    };
    if let Some(error) = found.iter().enumerate().find_map(problem) {
        return vec![error];
    }
    let identities: Vec<Value> = found.iter().map(identity).collect();
    let seen = |at: usize, one: &Value| identities.iter().take(at).filter(|other| *other == one).count();
    let twice = identities.iter().enumerate().filter(|(at, one)| seen(*at, one) == 1);
    twice.map(|(at, one)| FieldError::duplicate(format!("{path}[{at}]"), one)).collect()
}

/// Objects inside of objects say what they are.
pub(in super::super) fn embedded(schema: &Value, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, object, "", &mut |schema, value, path| {
        if !flag(schema, &["x-kubernetes-embedded-resource"]) || !value.is_object() || path.is_empty() {
            return;
        }
        let field = |name: &str| format!("{path}.{name}");
        for name in ["apiVersion", "kind"] {
            match value.get(name) {
                None => errors.push(FieldError::required(field(name), "")),
                Some(Value::String(text)) if text.is_empty() => {
                    errors.push(FieldError::invalid(field(name), &json!(""), "must not be empty"));
                }
                Some(Value::String(text)) if name == "kind" => {
                    let problems = dns_1035_label(&text.to_lowercase()).join(",");
                    if !problems.is_empty() {
                        let message = format!("may have mixed case, but should otherwise match: {problems}");
                        errors.push(FieldError::invalid(field(name), &json!(text), &message));
                    }
                }
                Some(Value::String(_)) => {}
                Some(other) => errors.push(FieldError::invalid(field(name), other, "must be a string")),
            }
        }
    });
    errors
}

/// Numbers of replicas are those of a scale.
pub(in super::super) fn scale(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let Some(scale) = &resource.scale else { return Vec::new() };
    let mut errors = Vec::new();
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let steps: Vec<&str> = path.split('.').collect();
        if let Some(problem) = accessor_problem(object, path, &steps) {
            errors.push(FieldError::invalid(format!(".{path}"), &json!(0), &problem));
            continue;
        }
        let Some(found) = integer(object, &steps) else { continue };
        let problem = match found {
            ..0 => "should be a non-negative integer".to_owned(),
            found if found > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
            _ => continue,
        };
        errors.push(FieldError::invalid(format!(".{path}"), &json!(found), &problem));
    }
    errors
}

/// What a walk along a path says about something on the way that has no members.
fn accessor_problem(object: &Value, path: &str, steps: &[&str]) -> Option<String> {
    let mut found = object;
    for step in steps {
        match found {
            Value::Object(members) => found = members.get(*step)?,
            Value::Null => return None,
            other => {
                let kind = match other {
                    Value::Array(_) => "[]interface {}",
                    Value::String(_) => "string",
                    Value::Bool(_) => "bool",
                    _ => "int64",
                };
                let shown = tiphys_object::structured::go_text(other);
                return Some(format!(
                    ".{path} accessor error: {shown} is of the type {kind}, expected map[string]interface{{}}"
                ));
            }
        }
    }
    None
}
