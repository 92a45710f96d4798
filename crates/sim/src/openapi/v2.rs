//! The same in the language of version 2, where a reference stands for itself and bodies are parameters.

use serde_json::{Map, Value, json};

use super::set;

const FROM: &str = "#/components/schemas/";
const TO: &str = "#/definitions/";

/// All documents in one.
#[derive(Debug, Default)]
pub(super) struct Merged {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
}

impl Merged {
    /// Adds a document of version 3.
    pub(super) fn add(&mut self, mut document: Value) {
        if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas").map(Value::take) {
            for (name, schema) in schemas {
                // A type that is a kind says so only in the documents that serve it.
                if schema.get("x-kubernetes-group-version-kind").is_some()
                    || !self.definitions.contains_key(&name)
                {
                    self.definitions.insert(name, definition(schema));
                }
            }
        }
        if let Some(Value::Object(paths)) = document.get_mut("paths").map(Value::take) {
            self.paths.extend(paths.into_iter().map(|(path, item)| (path, path_item(item))));
        }
    }

    /// The whole document.
    pub(super) fn into_document(self) -> Value {
        json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.1"},
            "paths": self.paths, "definitions": self.definitions,
            "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
            "security": [{"BearerToken": []}]})
    }
}

fn definition(schema: Value) -> Value {
    let Value::Object(mut members) = schema else { return schema };
    // What may be of several types is a text.
    if members.remove("oneOf").is_some() {
        members.insert("type".to_owned(), json!("string"));
    }
    for name in ["anyOf", "not", "nullable"] {
        members.remove(name);
    }
    let one = members.remove("allOf").and_then(|all| all.get(0).cloned());
    if let Some(reference) = one.filter(|one| one.get("$ref").is_some()) {
        members.insert("$ref".to_owned(), reference.get("$ref").cloned().unwrap_or_default());
    }
    for (name, member) in &mut members {
        match (name.as_str(), &mut *member) {
            ("$ref", Value::String(text)) => {
                if let Some(rest) = text.strip_prefix(FROM) {
                    *text = format!("{TO}{rest}");
                }
            }
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|property| *property = definition(property.take()));
            }
            ("items" | "additionalProperties", Value::Object(_)) => *member = definition(member.take()),
            _ => {}
        }
    }
    Value::Object(members)
}

fn path_item(item: Value) -> Value {
    let Value::Object(mut members) = item else { return item };
    for (name, member) in &mut members {
        *member = if name == "parameters" { parameters(member.take()) } else { operation(member.take()) };
    }
    Value::Object(members)
}

fn parameters(list: Value) -> Value {
    let Value::Array(list) = list else { return list };
    list.into_iter()
        .map(|mut parameter| {
            if let (Some(Value::Object(schema)), Some(members)) =
                (parameter.get_mut("schema").map(Value::take), parameter.as_object_mut())
            {
                members.remove("schema");
                members.extend(schema);
            }
            parameter
        })
        .collect()
}

fn operation(operation: Value) -> Value {
    let Value::Object(mut members) = operation else { return operation };
    let mut listed = match members.remove("parameters").map(parameters) {
        Some(Value::Array(listed)) => listed,
        _ => Vec::new(),
    };
    let mut consumes = vec![json!("*/*")];
    if let Some(mut body) = members.remove("requestBody") {
        let is_required = body.get("required") == Some(&Value::Bool(true));
        if let Some(Value::Object(content)) = body.get_mut("content").map(Value::take) {
            consumes = content.keys().map(|name| json!(name)).collect();
            let schema =
                content.into_iter().next().and_then(|(_, mut one)| one.get_mut("schema").map(Value::take));
            let schema = definition(schema.unwrap_or_default());
            listed
                .insert(0, json!({"name": "body", "in": "body", "required": is_required, "schema": schema}));
        }
    }
    if let Some(Value::Object(responses)) = members.get_mut("responses") {
        for response in responses.values_mut() {
            if let Some(content) = response.as_object_mut().and_then(|one| one.remove("content"))
                && let Some(schema) = content.pointer("/application~1json/schema")
            {
                set(response, "schema", definition(schema.clone()));
            }
        }
    }
    members.insert("consumes".to_owned(), Value::Array(consumes));
    members.insert("produces".to_owned(), json!(["application/json"]));
    members.insert("schemes".to_owned(), json!(["https"]));
    if !listed.is_empty() {
        members.insert("parameters".to_owned(), Value::Array(listed));
    }
    Value::Object(members)
}
