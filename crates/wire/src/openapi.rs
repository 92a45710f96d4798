//! The document of the REST API, `OpenAPI` 2.0 (API-9).

use serde_json::{Map, Value, json};

use crate::schema::{
    Arity, Binding, Body, Field, Kind, Message, MessageId, Method, Presence, Schema, Service, Shape,
};

/// Messages within query parameters; the tables are less deep.
const QUERY_DEPTH_MAX: usize = 3;

/// The document, for a version of the product.
pub fn document(schema: &Schema, version: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for service in schema.services() {
        for method in &service.methods {
            for (at, binding) in method.bindings.iter().enumerate() {
                let path = binding.template.text.replace("=**}", "}");
                let place = paths.entry(path).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(verbs) = place {
                    // Of two methods at one place the first one answers.
                    verbs
                        .entry(binding.verb.to_ascii_lowercase())
                        .or_insert_with(|| operation(schema, service, method, binding, at));
                }
            }
        }
    }
    let definitions: Map<String, Value> = schema
        .messages()
        .filter(|(_, message)| message.shape == Shape::Plain)
        .map(|(id, message)| (name(schema, id), definition(schema, message)))
        .collect();
    json!({
        "swagger": "2.0",
        "info": {
            "title": "Consolidate Services",
            "description": "The API of an installation that keeps clusters equal to what repositories declare",
            "version": version,
        },
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "paths": paths,
        "definitions": definitions,
    })
}

/// The name of a definition: package and message in one word.
fn name(schema: &Schema, id: MessageId) -> String {
    let message = schema.message(id);
    let full = schema.packages().get(message.package).map_or("", |package| package.full);
    let package = full.rsplit('.').next().unwrap_or_default();
    let mut letters = message.name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
    package.chars().chain(first).chain(letters).collect()
}

fn reference(schema: &Schema, id: MessageId) -> Value {
    match schema.message(id).shape {
        Shape::Plain => json!({"$ref": format!("#/definitions/{}", name(schema, id))}),
        Shape::Time | Shape::MicroTime => json!({"type": "string", "format": "date-time"}),
        Shape::Json => json!({"type": "object"}),
        Shape::IntOrString => json!({"type": "string", "format": "int-or-string"}),
        Shape::Yaml => json!({"type": "string", "title": "YAML"}),
    }
}

fn kind(schema: &Schema, kind: Kind) -> Value {
    match kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Int32 => json!({"type": "integer", "format": "int32"}),
        Kind::Int64 => json!({"type": "integer", "format": "int64"}),
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "format": "byte"}),
        Kind::Message(id) => reference(schema, id),
    }
}

fn property(schema: &Schema, field: &Field) -> Value {
    let one = kind(schema, field.kind);
    match field.arity {
        Arity::One => one,
        Arity::Many => json!({"type": "array", "items": one}),
        Arity::Map => json!({"type": "object", "additionalProperties": one}),
    }
}

fn definition(schema: &Schema, message: &Message) -> Value {
    let mut properties = Map::new();
    gather(schema, message, &mut properties);
    json!({"type": "object", "properties": properties})
}

fn gather(schema: &Schema, message: &Message, properties: &mut Map<String, Value>) {
    for field in &message.fields {
        match field.kind {
            Kind::Message(inner) if field.is_inline => gather(schema, schema.message(inner), properties),
            _ => {
                properties.insert(field.json.to_owned(), property(schema, field));
            }
        }
    }
}

fn operation(schema: &Schema, service: &Service, method: &Method, binding: &Binding, at: usize) -> Value {
    let mut parameters: Vec<Value> = binding
        .template
        .fields()
        .map(|field| json!({"name": field, "in": "path", "required": true, "type": "string"}))
        .collect();
    let request = schema.message(method.request);
    match binding.body {
        Body::All => parameters.push(
            json!({"name": "body", "in": "body", "required": true, "schema": reference(schema, method.request)}),
        ),
        Body::Field(field) => {
            let body = request.by_name(field).map_or_else(|| json!({}), |field| property(schema, field));
            parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": body}));
        }
        Body::None => {}
    }
    if binding.body != Body::All {
        let taken = |name: &str| {
            binding.template.fields().any(|field| field == name)
                || matches!(binding.body, Body::Field(field) if field == name)
        };
        query(schema, request, "", &taken, QUERY_DEPTH_MAX, &mut parameters);
    }
    let answer = reference(schema, method.response);
    let answer = if method.server_streams {
        json!({"description": "A successful response.(streaming responses)", "schema": {"type": "object",
            "properties": {"result": answer, "error": {"type": "object"}}}})
    } else {
        json!({"description": "A successful response.", "schema": answer})
    };
    let suffix = if at == 0 { String::new() } else { (at + 1).to_string() };
    json!({
        "tags": [service.name],
        "operationId": format!("{}_{}{suffix}", service.name, method.name),
        "parameters": parameters,
        "responses": {
            "200": answer,
            "default": {"description": "An unexpected error response.", "schema": {"type": "object",
                "properties": {"error": {"type": "string"}, "code": {"type": "integer", "format": "int32"},
                    "message": {"type": "string"}}}},
        },
    })
}

fn query(
    schema: &Schema,
    message: &Message,
    prefix: &str,
    taken: &dyn Fn(&str) -> bool,
    depth: usize,
    parameters: &mut Vec<Value>,
) {
    for field in &message.fields {
        let name = format!("{prefix}{}", field.name);
        if taken(&name) || depth == 0 {
            continue;
        }
        let mut parameter = match (field.arity, field.kind) {
            (Arity::One, Kind::Message(inner)) if schema.message(inner).shape == Shape::Plain => {
                query(schema, schema.message(inner), &format!("{name}."), taken, depth - 1, parameters);
                continue;
            }
            (Arity::One, Kind::Message(inner)) if schema.message(inner).shape == Shape::Json => continue,
            (Arity::Many | Arity::Map, Kind::Message(_)) | (Arity::Map, _) => continue,
            (Arity::Many, kind) => {
                json!({"type": "array", "items": self::kind(schema, kind), "collectionFormat": "multi"})
            }
            (Arity::One, _) => property(schema, field),
        };
        if let Value::Object(members) = &mut parameter {
            members.insert("name".to_owned(), name.into());
            members.insert("in".to_owned(), "query".into());
            members.insert("required".to_owned(), (field.presence == Presence::Required).into());
        }
        parameters.push(parameter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::schema;

    #[test]
    fn api_9_the_document_has_every_place_of_rest() {
        let document = document(schema(), "v1");
        let verbs: usize =
            document["paths"].as_object().unwrap().values().map(|it| it.as_object().unwrap().len()).sum();
        let mut places: Vec<(&str, &str)> = schema()
            .methods()
            .flat_map(|(_, method)| {
                method.bindings.iter().map(|binding| (binding.verb, binding.template.text))
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(verbs, places.len());
        let log = &document["paths"]["/api/v1/applications/{name}/pods/{podName}/logs"]["get"];
        let names: Vec<&str> =
            log["parameters"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names[..3], ["name", "podName", "namespace"]);
        assert!(log["responses"]["200"]["schema"]["properties"]["result"].is_object());
        let update =
            &document["paths"]["/api/v1/applications/{application.metadata.name}"]["put"]["parameters"];
        assert_eq!(update[1]["schema"]["$ref"], "#/definitions/v1alpha1Application");
        assert!(!update.to_string().contains("application.spec"), "the body has it");
    }

    #[test]
    fn api_9_requests_to_the_places_of_the_document_reach_their_methods() {
        let document = document(schema(), "v1");
        let mut ids = std::collections::BTreeSet::new();
        for (path, verbs) in document["paths"].as_object().unwrap() {
            // Names of parameters have no slash.
            let pieces = path.split('/').map(|piece| {
                let is_parameter = piece.starts_with('{');
                assert!(!piece.contains('=') && is_parameter == piece.ends_with('}'), "{path}");
                if is_parameter { "x" } else { piece }
            });
            let asked = pieces.collect::<Vec<_>>().join("/");
            for (verb, operation) in verbs.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let route = crate::rest::find(schema(), &verb.to_ascii_uppercase(), &asked).unwrap();
                let name =
                    format!("{}_{}", schema().service(route.method).name, schema().method(route.method).name);
                let number = id.strip_prefix(&name).unwrap_or_else(|| panic!("{verb} {path}: {id}, {name}"));
                assert!(number.is_empty() || number.parse::<u8>().is_ok(), "{id}");
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
                let names: Vec<(&str, &str)> = operation["parameters"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| (it["in"].as_str().unwrap(), it["name"].as_str().unwrap()))
                    .collect();
                let distinct: std::collections::BTreeSet<_> = names.iter().collect();
                assert_eq!(distinct.len(), names.len(), "{verb} {path}");
            }
        }
    }

    #[test]
    fn api_9_every_reference_has_its_definition() {
        let document = document(schema(), "v1");
        let definitions = document["definitions"].as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("\"#/definitions/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(definitions.contains_key(name), "{name}");
        }
        assert_eq!(
            definitions["v1alpha1ResourceNode"]["properties"]["kind"],
            json!({"type": "string"}),
            "inlined"
        );
        assert_eq!(definitions["v1ObjectMeta"]["properties"]["creationTimestamp"]["format"], "date-time");
    }
}
