//! Reading a schema from JSON. Members nobody knows are passed over, as API servers do.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Additional, Node, SchemaError};

/// Members custom resources cannot use when they say anything.
const UNSUPPORTED: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
/// Members that judge values and say nothing about their shape; `null` is as good as absent.
const JUDGING: [&str; 9] = [
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
];

/// Where in the schema a node is.
#[derive(Default)]
pub(super) struct Path {
    parts: Vec<String>,
}

impl Path {
    fn within<T>(&mut self, part: impl Into<String>, read: impl FnOnce(&mut Self) -> T) -> T {
        self.parts.push(part.into());
        let result = read(self);
        self.parts.pop();
        result
    }

    fn fail(&self, problem: impl Into<String>) -> SchemaError {
        SchemaError::Invalid { path: self.parts.join("."), problem: problem.into() }
    }
}

struct Members<'a> {
    map: &'a Map<String, Value>,
}

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str, path: &Path) -> Result<String, SchemaError> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(path.fail(format!("{name} must be a string"))),
        }
    }

    fn flag(&self, name: &str, path: &Path) -> Result<bool, SchemaError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(path.fail(format!("{name} must be true or false"))),
        }
    }

    fn list(&self, name: &str, path: &Path) -> Result<&'a [Value], SchemaError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(path.fail(format!("{name} must be a list"))),
        }
    }

    fn nodes(&self, name: &str, path: &mut Path) -> Result<Vec<Node>, SchemaError> {
        let items = self.list(name, path)?.iter().enumerate();
        items.map(|(at, item)| path.within(format!("{name}[{at}]"), |path| node(item, path))).collect()
    }
}

/// Reads one schema with everything below it.
pub(super) fn node(schema: &Value, path: &mut Path) -> Result<Node, SchemaError> {
    let map = match schema {
        Value::Object(map) => map,
        // A null stands for a schema that says nothing.
        Value::Null => return Ok(Node::default()),
        _ => return Err(path.fail("a schema must be an object")),
    };
    let members = Members { map };
    for name in UNSUPPORTED {
        let is_said = |value: &Value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Object(map) => name == "additionalItems" || !map.is_empty(),
            _ => true,
        };
        if members.get(name).is_some_and(is_said) {
            return Err(path.fail(format!("OpenAPIV3Schema '{name}' is not supported")));
        }
    }
    if let Some(Value::Bool(false)) = members.get("x-kubernetes-preserve-unknown-fields") {
        return Err(path.fail("'x-kubernetes-preserve-unknown-fields' must be true or undefined"));
    }
    let items = match members.get("items") {
        None => None,
        Some(Value::Array(_)) => {
            return Err(path.fail("OpenAPIV3Schema 'items' must be a schema, but is an array"));
        }
        Some(items @ Value::Object(_)) => Some(Box::new(path.within("items", |path| node(items, path))?)),
        // What is neither a schema nor a list of schemas is passed over by API servers.
        Some(_) => None,
    };
    let properties = match members.get("properties") {
        None => BTreeMap::new(),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(key, value)| {
                let read = path.within(format!("properties[{key}]"), |path| node(value, path))?;
                Ok((key.clone(), read))
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(path.fail("properties must be an object")),
    };
    let additional = match members.get("additionalProperties") {
        None => None,
        Some(Value::Bool(allowed)) => Some(Additional::Bool(*allowed)),
        Some(schema) => Some(Additional::Schema(Box::new(
            path.within("additionalProperties", |path| node(schema, path))?,
        ))),
    };
    let not = match members.get("not") {
        None => None,
        Some(schema) => Some(Box::new(path.within("not", |path| node(schema, path))?)),
    };
    for name in JUDGING {
        let fits = |value: &Value| match name {
            "maximum" | "minimum" | "multipleOf" => value.is_number(),
            _ => value.is_i64(),
        };
        if !members.get(name).is_none_or(fits) {
            return Err(path.fail(format!("{name} must be a number")));
        }
    }
    for (name, is_text) in
        [("required", true), ("x-kubernetes-list-map-keys", true), ("x-kubernetes-validations", false)]
    {
        let fits = |item: &Value| item.is_null() || if is_text { item.is_string() } else { item.is_object() };
        if !members.list(name, path)?.iter().all(fits) {
            return Err(path.fail(format!("{name} has an item of the wrong type")));
        }
    }
    members.text("x-kubernetes-list-type", path)?;
    members.text("x-kubernetes-map-type", path)?;
    let has_more = JUDGING.iter().any(|name| members.get(name).is_some())
        || ["exclusiveMaximum", "exclusiveMinimum", "uniqueItems"]
            .into_iter()
            .try_fold(false, |found, name| Ok(found || members.flag(name, path)?))?
        || !members.text("format", path)?.is_empty()
        || !members.list("enum", path)?.is_empty()
        || ["required", "externalDocs", "example"].iter().any(|name| members.get(name).is_some());
    Ok(Node {
        r#type: members.text("type", path)?,
        title: members.text("title", path)?,
        description: members.text("description", path)?,
        nullable: members.flag("nullable", path)?,
        default: members.get("default").cloned(),
        items,
        properties,
        additional,
        all_of: members.nodes("allOf", path)?,
        any_of: members.nodes("anyOf", path)?,
        one_of: members.nodes("oneOf", path)?,
        not,
        pattern: members.text("pattern", path)?,
        preserves_unknown: members.flag("x-kubernetes-preserve-unknown-fields", path)?,
        is_embedded: members.flag("x-kubernetes-embedded-resource", path)?,
        is_int_or_string: members.flag("x-kubernetes-int-or-string", path)?,
        has_list_keys: !members.list("x-kubernetes-list-map-keys", path)?.is_empty(),
        has_list_type: members.get("x-kubernetes-list-type").is_some(),
        has_map_type: members.get("x-kubernetes-map-type").is_some(),
        has_rules: !members.list("x-kubernetes-validations", path)?.is_empty(),
        has_more,
    })
}
