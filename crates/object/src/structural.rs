//! Schemas of custom resources: defaults, nulls and unknown members, as
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema` 0.36 treats them.
//!
//! A schema is structural when the shape of every value is told outside of `anyOf`, `allOf`, `oneOf` and `not`;
//! only then can an API server fill in and prune. Everything here is pure; recursion follows the nesting of
//! schema and object, which the readers that make them limit.

mod check;
mod read;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Members of every object that pruning leaves alone.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is no schema at all, or uses what custom resources cannot.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where, as `properties[spec].items`; empty at the root.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It is not structural; the reasons, sorted.
    #[error("{}", .0.join(", "))]
    NotStructural(Vec<String>),
}

/// A structural schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structural {
    node: Node,
}

/// One schema as it is written. Below `anyOf` and the like the same members only judge values.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    r#type: String,
    title: String,
    description: String,
    nullable: bool,
    default: Option<Value>,
    items: Option<Box<Self>>,
    properties: BTreeMap<String, Self>,
    additional: Option<Additional>,
    all_of: Vec<Self>,
    any_of: Vec<Self>,
    one_of: Vec<Self>,
    not: Option<Box<Self>>,
    pattern: String,
    preserves_unknown: bool,
    is_embedded: bool,
    is_int_or_string: bool,
    has_list_keys: bool,
    has_list_type: bool,
    has_map_type: bool,
    has_rules: bool,
    /// Whether any other member is set.
    has_more: bool,
}

/// What is said about members without a schema of their own.
#[derive(Clone, Debug, PartialEq)]
enum Additional {
    /// They are allowed, or not; nothing is known about their values.
    Bool(bool),
    /// Their schema.
    Schema(Box<Node>),
}

impl Additional {
    fn schema(&self) -> Option<&Node> {
        match self {
            Self::Bool(_) => None,
            Self::Schema(node) => Some(node),
        }
    }
}

impl Structural {
    /// Reads an `openAPIV3Schema` and checks that it is structural.
    ///
    /// # Errors
    /// When it is not; all reasons are named.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let node = read::node(schema, &mut read::Path::default())?;
        let problems = check::problems(&node);
        if problems.is_empty() { Ok(Self { node }) } else { Err(SchemaError::NotStructural(problems)) }
    }

    /// Removes nulls that are neither allowed nor replaced by a default, and fills defaults in.
    pub fn fill_in(&self, object: &mut Value) {
        remove_nulls(object, Some(&self.node));
        fill_in(object, Some(&self.node));
    }

    /// Removes members the schema does not know; type and metadata of the object stay.
    pub fn prune(&self, object: &mut Value) {
        prune(object, Some(&self.node), true);
    }
}

impl Node {
    /// Whether a null stands where the schema wants a value.
    fn refuses(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

fn remove_nulls(value: &mut Value, schema: Option<&Node>) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let schema = schema.and_then(|schema| {
                let known = schema.properties.get(key);
                known.or_else(|| schema.additional.as_ref().and_then(Additional::schema))
            });
            if schema.is_some_and(|schema| schema.refuses(value) && schema.default.is_none()) {
                return false;
            }
            remove_nulls(value, schema);
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                remove_nulls(item, schema);
            }
        }
        _ => {}
    }
}

fn fill_in(value: &mut Value, schema: Option<&Node>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(map) => {
            for (key, property) in &schema.properties {
                if let Some(default) = &property.default
                    && map.get(key).is_none_or(|value| property.refuses(value))
                {
                    map.insert(key.clone(), default.clone());
                }
            }
            let additional = schema.additional.as_ref().and_then(Additional::schema);
            for (key, value) in map.iter_mut() {
                if let Some(property) = schema.properties.get(key) {
                    fill_in(value, Some(property));
                } else {
                    fill_in_item(value, additional);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_in_item(item, schema.items.as_deref());
            }
        }
        _ => {}
    }
}

fn fill_in_item(value: &mut Value, schema: Option<&Node>) {
    if let Some(default) = schema.filter(|schema| schema.refuses(value)).and_then(|s| s.default.as_ref()) {
        *value = default.clone();
    }
    fill_in(value, schema);
}

fn prune(value: &mut Value, schema: Option<&Node>, is_root: bool) {
    if let Some(schema) = schema.filter(|schema| schema.preserves_unknown) {
        return prune_below(value, schema, is_root);
    }
    match value {
        Value::Object(map) => {
            let Some(schema) = schema else { return map.clear() };
            prune_members(map, schema, is_root, |_| false);
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                prune(item, schema, false);
            }
        }
        _ => {}
    }
}

/// Prunes where unknown members stay: only what is below known ones.
fn prune_below(value: &mut Value, schema: &Node, is_root: bool) {
    match value {
        Value::Object(map) => prune_members(map, schema, is_root, |_| true),
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                prune_below(item, schema, false);
            }
        }
        _ => {}
    }
}

fn prune_members(map: &mut Map<String, Value>, schema: &Node, is_root: bool, keeps: impl Fn(&str) -> bool) {
    map.retain(|key, value| {
        if (schema.is_embedded || is_root) && META_FIELDS.contains(&key.as_str()) {
            return true;
        }
        match (schema.properties.get(key), &schema.additional) {
            (Some(property), _) => prune(value, Some(property), false),
            (None, Some(additional)) => prune(value, additional.schema(), false),
            (None, None) => return keeps(key),
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn through(schema: &Value, mut object: Value) -> Value {
        let schema = Structural::new(schema).unwrap();
        schema.fill_in(&mut object);
        schema.prune(&mut object);
        object
    }

    #[test]
    fn eval_773_defaults_go_in_and_unknown_members_go() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer", "default": 1}, "gone": {"type": "string"}}}}});
        let object = json!({"kind": "T", "spec": {"x": 2, "gone": null}, "other": 1});
        assert_eq!(through(&schema, object), json!({"kind": "T", "spec": {"n": 1}}));
    }

    #[test]
    fn dep_20_members_of_any_shape_lose_their_contents() {
        let schema =
            json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}});
        assert_eq!(through(&schema, json!({"m": {"a": {"b": 1}, "c": 2}})), json!({"m": {"a": {}, "c": 2}}));
    }

    #[test]
    fn eval_773_all_reasons_are_named() {
        let schema = json!({"properties": {"a": {"type": "array"}, "b": {"anyOf": [{"type": "string"}]}}});
        let Err(SchemaError::NotStructural(reasons)) = Structural::new(&schema) else { panic!() };
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        assert!(Structural::new(&json!({"type": 1})).is_err());
        assert!(Structural::new(&json!({"type": "object", "$ref": "#/x"})).is_err());
    }
}
