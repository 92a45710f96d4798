use std::sync::Arc;

use tiphys_object::structural::Structural;

use super::*;
use crate::resource::{Custom, Resource};

fn schema(document: &Value, name: &str) -> Value {
    document["components"]["schemas"].get(name).unwrap_or_else(|| panic!("no {name}")).clone()
}

/// Everything that is served, and Widgets.
fn with_widgets(schema: Value) -> Registry {
    let mut registry = Registry::builtin();
    let mut widget = Resource::clone(registry.find("", "v1", "configmaps").unwrap());
    widget.group = "example.com".into();
    widget.plural = "widgets".into();
    widget.kind = "Widget".into();
    widget.list_kind = "WidgetList".into();
    widget.custom = Some(Arc::new(Custom {
        definition: "widgets.example.com".to_owned(),
        schema,
        structural: Structural::default(),
        types: tiphys_object::structured::SchemaTypes::new(&Value::Null, true),
        columns: Value::Null,
        preserves_unknown: false,
        stored_as: None,
        warning: None,
    }));
    registry.insert(widget);
    registry
}

#[test]
fn types_say_how_their_lists_are_merged() {
    let apps = document(&Registry::builtin(), "apps", "v1").unwrap();
    let pod = schema(&apps, "io.k8s.api.core.v1.PodSpec");
    let volumes = &pod["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(volumes["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(volumes["x-kubernetes-list-type"], "map");
    assert_eq!(
        volumes["items"],
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Volume"}]})
    );
    assert_eq!(pod["required"], json!(["containers"]));
    let port = schema(&apps, "io.k8s.api.core.v1.ContainerPort");
    assert_eq!(
        port["properties"]["protocol"],
        json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]})
    );
    let meta = schema(&apps, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert_eq!(meta["properties"]["finalizers"]["x-kubernetes-list-type"], "set");
    let selector = schema(&apps, "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let deployment = schema(&apps, "io.k8s.api.apps.v1.Deployment");
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
}

#[test]
fn every_reference_leads_to_a_schema() {
    let registry = with_widgets(json!({"type": "object"}));
    for group in registry.groups() {
        for version in &group.versions {
            let document = document(&registry, group.name, version.name).unwrap();
            for name in extension::references(&document) {
                assert!(!schema(&document, &name).is_null(), "{name}");
            }
        }
    }
}

#[test]
fn patches_take_validation_and_name_their_kind() {
    let registry = with_widgets(json!({"type": "object"}));
    let patch =
        |group: &str, path: &str| document(&registry, group, "v1").unwrap()["paths"][path]["patch"].clone();
    let names = |operation: &Value| -> Vec<String> {
        let listed = operation["parameters"].as_array().unwrap();
        listed.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let builtin = patch("apps", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    assert_eq!(names(&builtin), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert_eq!(builtin["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(builtin["tags"], json!(["apps_v1"]));
    let strategic = "application/strategic-merge-patch+json";
    assert!(builtin["requestBody"]["content"].get(strategic).is_some());
    let custom = patch("example.com", "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}");
    assert_eq!(
        custom["x-kubernetes-group-version-kind"],
        json!({"group": "example.com", "version": "v1", "kind": "Widget"})
    );
    assert!(custom["requestBody"]["content"].get(strategic).is_none());
}

#[test]
fn the_schema_of_a_definition_is_passed_on() {
    let written = json!({"type": "object", "description": "A widget.", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer", "description": "How large."},
            "port": {"x-kubernetes-int-or-string": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}}});
    let found = document(&with_widgets(written), "example.com", "v1").unwrap();
    let widget = schema(&found, "com.example.v1.Widget");
    assert_eq!(widget["description"], "A widget.");
    let metadata =
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]});
    assert_eq!(widget["properties"]["metadata"], metadata);
    let spec = &widget["properties"]["spec"]["properties"];
    assert_eq!(spec["size"], json!({"type": "integer", "description": "How large."}));
    assert_eq!(spec["port"]["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));
    assert_eq!(spec["template"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(spec["template"]["properties"]["metadata"], metadata);
    let list = schema(&found, "com.example.v1.WidgetList");
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/com.example.v1.Widget");
}

#[test]
fn the_index_changes_with_a_definition() {
    let url = |registry: &Registry, path: &str| index(registry)["paths"][path]["serverRelativeURL"].clone();
    let (before, after) = (
        with_widgets(json!({"type": "object"})),
        with_widgets(json!({"type": "object", "properties": {"spec": {"type": "string"}}})),
    );
    let path = "apis/example.com/v1";
    assert!(url(&before, path).as_str().unwrap().starts_with("/openapi/v3/apis/example.com/v1?hash="));
    assert_ne!(url(&before, path), url(&after, path));
    assert_eq!(url(&before, "api/v1"), url(&after, "api/v1"));
    assert_eq!(url(&Registry::builtin(), path), Value::Null);
}

#[test]
fn definitions_themselves_have_a_schema() {
    let found = document(&Registry::builtin(), "apiextensions.k8s.io", "v1").unwrap();
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    assert_eq!(
        schema(&found, name)["x-kubernetes-group-version-kind"][0]["kind"],
        "CustomResourceDefinition"
    );
}

#[test]
fn version_2_has_everything_in_one_document() {
    let found = v2(&with_widgets(json!({"type": "object", "properties": {
        "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}}})));
    assert!(!found.to_string().contains("#/components/"));
    assert_eq!(
        found["definitions"]["com.example.v1.Widget"]["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
    let deployment = &found["definitions"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["properties"]["spec"],
        json!({"$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"})
    );
    assert!(
        found["definitions"]["io.k8s.api.core.v1.PersistentVolumeClaim"]["x-kubernetes-group-version-kind"]
            .is_array()
    );
    let patch = &found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["parameters"][0]["in"], "body");
    assert_eq!(
        patch["parameters"][3],
        json!({"name": "fieldValidation", "in": "query", "type": "string",
        "uniqueItems": true})
    );
}
