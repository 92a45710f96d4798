//! The custom resource definitions, made from our own field tables (DEP 2.1).
//!
//! Names, types, enums, required members and validation are the contract with existing manifests; descriptions
//! are ours. Server-side apply is needed to install the one of `ApplicationSet`: it is larger than the annotation
//! of client-side apply may be (ASET-1). The files under `deploy/crds` are written by
//! `cargo run -p tiphys-api --example crds` and held to this module by a test.

mod application;
mod applicationset;
mod field;
mod project;

use serde_json::{Value, json};

use crate::names::{GROUP, VERSION};
use field::{Table, schema};

/// All three definitions: Application, `ApplicationSet`, `AppProject`.
pub fn manifests() -> Vec<Value> {
    vec![application_manifest(), applicationset_manifest(), project_manifest()]
}

/// Fields of an `ApplicationSet` that definitions of the reference do not have.
const OWN_SET_FIELDS: [&str; 2] = ["spec.project", "spec.strategy.deletionSync"];

/// Fields of an `ApplicationSet` that the API server would take away, because the installed definition lacks them
/// (ASET-261, ASET-286). Who is asked hands in the definition as it is served.
pub fn pruned_set_fields(definition: &Value) -> Vec<&'static str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|version| version.get("name") == Some(&Value::from(VERSION)));
    let schemas: Vec<&Value> =
        served.filter_map(|version| version.pointer("/schema/openAPIV3Schema")).collect();
    let is_pruned = |field: &&str| schemas.iter().any(|schema| !has_field(schema, field));
    OWN_SET_FIELDS.into_iter().filter(is_pruned).collect()
}

/// Whether a schema keeps a field, because it has it or because it keeps what it does not know.
fn has_field(schema: &Value, field: &str) -> bool {
    let mut at = schema;
    for name in field.split('.') {
        if at.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
            return true;
        }
        match at.get("properties").and_then(|properties| properties.get(name)) {
            Some(inner) => at = inner,
            None => return false,
        }
    }
    true
}

fn application_manifest() -> Value {
    let mut manifest = manifest("Application", "applications", &["app", "apps"], &[application::TYPES]);
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let wide =
        |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path, "priority": 10});
    // No status subresource: spec and status are written through one endpoint (CTL-1).
    set_version(
        &mut manifest,
        "additionalPrinterColumns",
        json!([
            column("Sync Status", ".status.sync.status"),
            column("Health Status", ".status.health.status"),
            wide("Revision", ".status.sync.revision"),
            wide("Project", ".spec.project"),
        ]),
    );
    manifest
}

fn applicationset_manifest() -> Value {
    let tables = [applicationset::TYPES, applicationset::GENERATORS, application::TYPES];
    let mut manifest = manifest("ApplicationSet", "applicationsets", &["appset", "appsets"], &tables);
    set_version(&mut manifest, "subresources", json!({"status": {}}));
    manifest
}

fn project_manifest() -> Value {
    manifest("AppProject", "appprojects", &["appproj", "appprojs"], &[project::TYPES])
}

fn manifest(kind: &str, plural: &str, short_names: &[&str], tables: &[Table]) -> Value {
    let name = format!("{plural}.{GROUP}");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"},
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "shortNames": short_names,
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [{
                "name": VERSION,
                "schema": {"openAPIV3Schema": schema(tables, kind)},
                "served": true,
                "storage": true,
            }],
        },
    })
}

fn set_version(manifest: &mut Value, member: &str, value: Value) {
    if let Some(version) = manifest.pointer_mut("/spec/versions/0").and_then(Value::as_object_mut) {
        version.insert(member.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
