//! Custom resource definitions: what they add, and whether they may.
//!
//! Definitions are in no table of types: members that nobody knows are kept as written.

mod names;
mod rules;
mod schema;
mod status;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use tiphys_object::structural::Structural;
use tiphys_object::structured::SchemaTypes;

use crate::resource::{Custom, Registry, Resource, Scale, Scope};
use crate::status::FieldError;
use crate::tree::{self, default_to, flag, items, text};

/// Verbs of custom resources, as discovery prints them.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Defaults of a definition (names.singular, names.listKind, conversion, …), as the server fills them in, and the
/// version that is stored among those of the status.
pub(crate) fn fill_in(definition: &mut Value) {
    let kind = text(definition, &["spec", "names", "kind"]).to_owned();
    if let Some(names) = tree::made(definition, &["spec", "names"]) {
        default_to(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            default_to(names, "listKind", format!("{kind}List"));
        }
    }
    if let Some(spec) = tree::existing(definition, &["spec"]) {
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
        if spec.get("preserveUnknownFields") == Some(&json!(false)) {
            spec.remove("preserveUnknownFields");
        }
    }
    let service = ["spec", "conversion", "webhook", "clientConfig", "service"];
    if let Some(service) = tree::existing(definition, &service) {
        default_to(service, "port", 443);
    }
    let mut stored = items(definition, &["status", "storedVersions"]).to_vec();
    let versions = items(definition, &["spec", "versions"]);
    let storage = versions.iter().find(|version| flag(version, &["storage"]));
    if let Some(name) = storage.and_then(|version| version.get("name"))
        && !stored.contains(name)
    {
        stored.push(name.clone());
    }
    if let Some(status) = tree::made(definition, &["status"]) {
        status.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
        status.entry("conditions").or_insert(Value::Null);
        status
            .insert("storedVersions".to_owned(), if stored.is_empty() { Value::Null } else { json!(stored) });
    }
    let Some(Value::Array(versions)) = definition.pointer_mut("/spec/versions") else { return };
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        for name in ["served", "storage"] {
            version.entry(name).or_insert(json!(false));
        }
    }
}

/// Errors of a definition.
pub(crate) fn validate(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    rules::validate(definition, old)
}

/// The resources that a valid definition adds, one per served version. A version whose schema cannot be read is
/// left out.
pub(crate) fn resources(definition: &Value) -> Vec<Resource> {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let versions = items(spec, &["versions"]);
    let is_served = |version: &&Value| flag(version, &["served"]);
    versions.iter().filter(is_served).filter_map(|one| resource(definition, spec, one)).collect()
}

fn resource(definition: &Value, spec: &Value, version: &Value) -> Option<Resource> {
    let schema = tree::at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or(Value::Null);
    let structural = Structural::new(&schema).ok()?;
    let names = |name: &str| -> Vec<SmolStr> {
        items(spec, &["names", name]).iter().filter_map(Value::as_str).map(SmolStr::from).collect()
    };
    let has = |name: &str| tree::at(version, &["subresources", name]).is_some_and(|one| !one.is_null());
    let path =
        |name: &str| text(version, &["subresources", "scale", name]).trim_start_matches('.').to_owned();
    let scale = has("scale").then(|| Scale {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: Some(path("labelSelectorPath")).filter(|selector| !selector.is_empty()),
    });
    let preserves_unknown = flag(spec, &["preserveUnknownFields"]);
    let custom = Custom {
        types: SchemaTypes::new(&schema, preserves_unknown),
        definition: text(definition, &["metadata", "name"]).to_owned(),
        schema,
        structural,
        columns: version.get("additionalPrinterColumns").cloned().unwrap_or(Value::Null),
        preserves_unknown,
        stored_as: stored_as(spec, version).filter(|_| !preserves_unknown),
        warning: flag(version, &["deprecated"]).then(|| warning(spec, version)),
    };
    let is_cluster = text(spec, &["scope"]) == "Cluster";
    Some(Resource {
        group: text(spec, &["group"]).into(),
        version: text(version, &["name"]).into(),
        plural: text(spec, &["names", "plural"]).into(),
        singular: text(spec, &["names", "singular"]).into(),
        kind: text(spec, &["names", "kind"]).into(),
        list_kind: text(spec, &["names", "listKind"]).into(),
        scope: if is_cluster { Scope::Cluster } else { Scope::Namespaced },
        short_names: names("shortNames"),
        categories: names("categories"),
        verbs: VERBS.into_iter().map(SmolStr::new_static).collect(),
        has_status: has("status"),
        scale,
        custom: Some(Arc::new(custom)),
    })
}

/// The schema of the version that objects are stored in, when it is another than this one.
fn stored_as(spec: &Value, version: &Value) -> Option<Structural> {
    let stored = items(spec, &["versions"]).iter().find(|one| flag(one, &["storage"]))?;
    if stored.get("name") == version.get("name") {
        return None;
    }
    Structural::new(tree::at(stored, &["schema", "openAPIV3Schema"])?).ok()
}

/// What is said about a deprecated version.
fn warning(spec: &Value, version: &Value) -> String {
    match text(version, &["deprecationWarning"]) {
        "" => format!(
            "{}/{} {} is deprecated",
            text(spec, &["group"]),
            text(version, &["name"]),
            text(spec, &["names", "kind"])
        ),
        said => said.to_owned(),
    }
}

/// The status that the definition gets: accepted names, stored versions, and the conditions `NamesAccepted` and
/// `Established` (each false with a reason when names are taken by somebody else in `registry`).
pub(crate) fn status(definition: &Value, registry: &Registry, now: &str) -> Value {
    status::status(definition, registry, now)
}

/// A definition that is deleted says so before its objects go.
pub(crate) fn mark_pending(definition: &mut Value, now: &str) {
    let Some(status) = tree::made(definition, &["status"]) else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        conditions.retain(|one| text(one, &["type"]) != "Terminating");
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        conditions.push(json!({"type": "Terminating", "status": "True", "lastTransitionTime": now,
            "reason": "InstanceDeletionPending", "message": message}));
    }
}

/// A copy of an object without some members.
fn without(value: &Value, gone: &[&str]) -> Map<String, Value> {
    let members = value.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !gone.contains(&name.as_str()))
        .map(|(name, one)| (name.clone(), one.clone()))
        .collect()
}
