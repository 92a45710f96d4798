//! Members of custom resources that their schema does not know.

use serde_json::Value;
use tiphys_object::Gvk;
use tiphys_object::builtin::Schema;

use crate::resource::Custom;
use crate::tree::{Members, flag};

/// Members that pruning leaves alone at the root and in embedded objects.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// `unknown field …` for everything that pruning would take away, and for unknown metadata.
pub(super) fn members(custom: &Custom, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = String::new();
    if !custom.preserves_unknown {
        value(object, Some(&custom.schema), true, &mut path, &mut found);
        found.sort();
    }
    let mut metadata = Vec::new();
    let schema = Schema::of(&Gvk::new("", "v1", "ConfigMap"));
    let schema = schema.and_then(|known| known.field("metadata")).and_then(|field| field.shape.struct_type());
    if let (Some(schema), Some(Value::Object(members))) = (schema, object.get("metadata")) {
        let unknown = members.keys().filter(|name| schema.field(name).is_none());
        metadata.extend(unknown.map(|name| format!("metadata.{name}")));
    }
    metadata.extend(found);
    metadata.into_iter().map(|path| format!("unknown field \"{path}\"")).collect()
}

fn value(object: &Value, schema: Option<&Value>, is_root: bool, path: &mut String, found: &mut Vec<String>) {
    let schema = schema.filter(|schema| schema.is_object());
    let preserves = schema.is_some_and(|one| flag(one, &["x-kubernetes-preserve-unknown-fields"]));
    match object {
        Value::Object(members) => match schema {
            Some(schema) => below(members, schema, preserves, is_root, path, found),
            None => members.keys().for_each(|name| found.push(child(path, name))),
        },
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.get("items"));
            if preserves && schema.is_none() {
                return;
            }
            for (at, item) in items.iter().enumerate() {
                within(path, &format!("[{at}]"), |path| value(item, schema, false, path, found));
            }
        }
        _ => {}
    }
}

fn below(
    members: &Members,
    schema: &Value,
    preserves: bool,
    is_root: bool,
    path: &mut String,
    found: &mut Vec<String>,
) {
    let is_object = is_root || flag(schema, &["x-kubernetes-embedded-resource"]);
    for (name, member) in members {
        if is_object && META.contains(&name.as_str()) {
            continue;
        }
        let dotted = if path.is_empty() { name.clone() } else { format!(".{name}") };
        let property = schema.get("properties").and_then(|all| all.get(name));
        match (property, schema.get("additionalProperties")) {
            (Some(property), _) => {
                within(path, &dotted, |path| value(member, Some(property), false, path, found));
            }
            (None, Some(Value::Bool(false)) | None) if !preserves => found.push(child(path, name)),
            (None, Some(Value::Bool(false)) | None) => {}
            (None, Some(additional)) => {
                within(path, &dotted, |path| value(member, Some(additional), false, path, found));
            }
        }
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn within(path: &mut String, step: &str, walk: impl FnOnce(&mut String)) {
    let end = path.len();
    path.push_str(step);
    walk(path);
    path.truncate(end);
}
