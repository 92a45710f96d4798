//! `OpenAPI` documents, made from the types of built-in resources and the schemas of definitions.
//!
//! Version 3 has an index and one document per group version; version 2 is all of them in one, in the older
//! language. Clients take from them how lists are merged, which parameters an operation has, and what
//! `kubectl explain` prints. Built-in types come without descriptions; those of definitions are the user's.
//! Making a document is a walk over the types below its kinds: nothing is kept, the caller may.

use serde_json::{Value, json};
use tiphys_object::access::ensure_object;
use xxhash_rust::xxh3::Xxh3;

use crate::resource::Registry;
use component::Components;

/// Rises when documents change although nothing that is served does: clients keep documents by their hash.
const EDITION: u64 = 2;

/// `GET /openapi/v3`: the paths of the documents, each with a hash of its content.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = serde_json::Map::new();
    for group in registry.groups() {
        for version in &group.versions {
            let path = path::root(group.name, version.name);
            let url = format!("/openapi/v3{path}?hash={}", hash(registry, group.name, version.name));
            paths.insert(path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Hash of what a document is made from.
fn hash(registry: &Registry, group: &str, version: &str) -> String {
    let mut hash = Xxh3::with_seed(EDITION);
    for resource in registry.of_version(group, version) {
        hash.update(resource.plural.as_bytes());
        hash.update(resource.kind.as_bytes());
        hash.update(&[u8::from(resource.has_status), u8::from(resource.scale.is_some())]);
        if let Some(custom) = &resource.custom {
            hash.update(custom.schema.to_string().as_bytes());
        }
    }
    format!("{:032X}", hash.digest128())
}

/// `GET /openapi/v3/api/v1`, `GET /openapi/v3/apis/{group}/{version}`; `None` when there is no such version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut components = Components::default();
    let mut paths = serde_json::Map::new();
    for resource in registry.of_version(group, version) {
        let names = components.add_resource(resource);
        path::add(&mut paths, resource, &names);
    }
    if paths.is_empty() {
        return None;
    }
    let token = json!({"type": "apiKey", "name": "authorization", "in": "header"});
    Some(json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.1"}, "paths": paths,
        "components": {"schemas": components.into_schemas(), "securitySchemes": {"BearerToken": token}}}))
}

/// `GET /openapi/v2`, as JSON.
pub(crate) fn v2(registry: &Registry) -> Value {
    let mut merged = v2::Merged::default();
    for group in registry.groups() {
        for version in &group.versions {
            if let Some(document) = document(registry, group.name, version.name) {
                merged.add(document);
            }
        }
    }
    merged.into_document()
}

/// `Content-Type` of an answer with [`v2_protobuf`]. Clients ask with an `@` before `v1.0`, which they would not
/// take in an answer.
pub(crate) const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `GET /openapi/v2` with an `Accept` of `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
pub(crate) fn v2_protobuf(registry: &Registry) -> Vec<u8> {
    protobuf::document(&v2(registry))
}

/// Adds a member to an object.
fn set(object: &mut Value, member: &str, content: impl Into<Value>) {
    ensure_object(object).insert(member.to_owned(), content.into());
}

mod component;
mod custom;
mod extension;
mod path;
mod protobuf;
mod v2;

#[cfg(test)]
mod tests;
