//! The types of a custom resource, made from the schema of its definition.
//!
//! A member without a type, and a map of which nothing is told, are deduced from values. What keeps unknown
//! members hands that down to everything below it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::schema::Scalar;

/// The types of one version of a custom resource, for [`super::Types::Schema`].
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaTypes {
    pub(super) root: Node,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Scalar(Scalar),
    /// Whatever the value tells.
    Deduced,
    /// The metadata of an object.
    Metadata,
    List(ListNode),
    Map(MapNode),
}

impl Eq for SchemaTypes {}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListNode {
    pub(super) item: Box<Node>,
    pub(super) items: ItemsNode,
}

/// What identifies the items of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemsNode {
    Atomic,
    Set,
    Keyed(Vec<SmolStr>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MapNode {
    pub(super) is_atomic: bool,
    pub(super) members: BTreeMap<SmolStr, Node>,
    pub(super) defaults: BTreeMap<SmolStr, Value>,
    /// The type of members that are not named; without one there may be none.
    pub(super) rest: Option<Box<Node>>,
}

impl SchemaTypes {
    /// Reads an `openAPIV3Schema`; null stands for no schema. `preserves_unknown` is that of the whole definition.
    pub fn new(schema: &Value, preserves_unknown: bool) -> Self {
        let mut root = match schema {
            Value::Object(members) => map(members, preserves_unknown || preserves(members)),
            _ => MapNode { rest: Some(Box::new(Node::Deduced)), ..MapNode::default() },
        };
        root.is_atomic = false;
        add_identity(&mut root);
        Self { root: Node::Map(root) }
    }
}

/// Members that every object has.
fn add_identity(map: &mut MapNode) {
    for name in ["apiVersion", "kind"] {
        map.members.insert(SmolStr::new_static(name), Node::Scalar(Scalar::Text));
    }
    map.members.insert(SmolStr::new_static("metadata"), Node::Metadata);
}

fn preserves(schema: &Map<String, Value>) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Map<String, Value>, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or("")
}

fn node(schema: &Value, preserves_unknown: bool) -> Node {
    let Value::Object(schema) = schema else { return Node::Deduced };
    let preserves_unknown = preserves_unknown || preserves(schema);
    match text(schema, "type") {
        "object" => {
            let mut map = map(schema, preserves_unknown);
            if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
                add_identity(&mut map);
            }
            Node::Map(map)
        }
        "array" => Node::List(list(schema, preserves_unknown)),
        "integer" | "number" => Node::Scalar(Scalar::Number),
        "boolean" => Node::Scalar(Scalar::Bool),
        "string" if matches!(text(schema, "format"), "" | "byte") => Node::Scalar(Scalar::Text),
        "string" => Node::Scalar(Scalar::Any),
        _ => Node::Deduced,
    }
}

fn map(schema: &Map<String, Value>, preserves_unknown: bool) -> MapNode {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let rest = match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        None | Some(Value::Null) if !preserves_unknown && !properties.is_empty() => None,
        Some(below @ Value::Object(_)) => Some(Box::new(node(below, preserves_unknown))),
        _ => Some(Box::new(Node::Deduced)),
    };
    let default = |(name, property): (&String, &Value)| {
        let default = property.get("default").filter(|default| !default.is_null())?;
        Some((SmolStr::from(name), default.clone()))
    };
    MapNode {
        is_atomic: text(schema, "x-kubernetes-map-type") == "atomic",
        members: properties.iter().map(|(name, one)| (name.into(), node(one, preserves_unknown))).collect(),
        defaults: properties.iter().filter_map(default).collect(),
        rest,
    }
}

fn list(schema: &Map<String, Value>, preserves_unknown: bool) -> ListNode {
    let keys = || {
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
        keys.filter_map(Value::as_str).map(SmolStr::from).collect()
    };
    ListNode {
        item: Box::new(schema.get("items").map_or(Node::Deduced, |items| node(items, preserves_unknown))),
        items: match text(schema, "x-kubernetes-list-type") {
            "set" => ItemsNode::Set,
            "map" => ItemsNode::Keyed(keys()),
            _ => ItemsNode::Atomic,
        },
    }
}
