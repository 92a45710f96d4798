use serde_json::Value;
use tiphys_object::structural::Structural;

use super::*;

/// A custom resource without a schema.
fn custom(group: &str, version: &str, plural: &str, kind: &str) -> Resource {
    let custom = Custom {
        definition: format!("{plural}.{group}"),
        schema: Value::Null,
        structural: Structural::default(),
        types: SchemaTypes::new(&serde_json::Value::Null, true),
        columns: Value::Null,
        preserves_unknown: true,
        stored_as: None,
        warning: None,
    };
    Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: kind.to_ascii_lowercase().into(),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        scope: Scope::Namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: vec!["get".into()],
        has_status: true,
        scale: None,
        custom: Some(Arc::new(custom)),
    }
}

#[test]
fn resources_are_found_by_path() {
    let registry = Registry::builtin();
    let deployment = registry.find("apps", "v1", "deployments").unwrap();
    assert_eq!((deployment.kind.as_str(), deployment.scope), ("Deployment", Scope::Namespaced));
    assert!(registry.find("apps", "v1beta1", "deployments").is_none());
    assert_eq!(registry.find("", "v1", "endpoints").unwrap().singular, "endpoints");
    assert!(!registry.find("", "v1", "namespaces").unwrap().has_verb("deletecollection"));
}

#[test]
fn versions_and_twins_share_their_objects() {
    let registry = Registry::builtin();
    assert_eq!(registry.find("events.k8s.io", "v1", "events").unwrap().storage(), ("", "events"));
    let of = |version| registry.find("autoscaling", version, "horizontalpodautoscalers").unwrap().storage();
    assert_eq!(of("v1"), of("v2"));
}

#[test]
fn groups_are_ranked_and_versions_are_by_stability() {
    let mut registry = Registry::builtin();
    for version in ["v1alpha1", "v2beta1", "v1"] {
        registry.insert(custom("example.com", version, "widgets", "Widget"));
    }
    registry.insert(custom("argoproj.io", "v1alpha1", "applications", "Application"));
    let groups = registry.groups();
    let names: Vec<&str> = groups.iter().map(|group| group.name).collect();
    assert!(names.starts_with(&["", "apiregistration.k8s.io", "apps", "events.k8s.io"]));
    assert!(names.ends_with(&["flowcontrol.apiserver.k8s.io", "argoproj.io", "example.com"]));
    let versions = |name| -> Vec<&str> {
        registry.group(name).unwrap().versions.iter().map(|version| version.name).collect()
    };
    assert_eq!(versions("example.com"), ["v1", "v2beta1", "v1alpha1"]);
    assert_eq!(versions("autoscaling"), ["v2", "v1"]);
}

#[test]
fn a_definition_goes_with_all_its_versions() {
    let mut registry = Registry::builtin();
    registry.insert(custom("example.com", "v1", "widgets", "Widget"));
    registry.insert(custom("example.com", "v2", "widgets", "Widget"));
    registry.insert(custom("example.com", "v1", "widgets", "Gadget"));
    assert_eq!(registry.find("example.com", "v1", "widgets").unwrap().kind, "Gadget");
    registry.remove_definition("widgets.example.com");
    assert!(registry.group("example.com").is_none());
    assert!(registry.find("example.com", "v2", "widgets").is_none());
    assert_eq!(registry.iter().count(), Registry::builtin().iter().count());
}

#[test]
fn subresources_are_by_name() {
    let registry = Registry::builtin();
    let names = |group, plural| -> Vec<&str> {
        let found = registry.find(group, "v1", plural).unwrap().subresources();
        found.iter().map(|one| one.name).collect()
    };
    assert_eq!(names("apps", "deployments"), ["scale", "status"]);
    assert_eq!(names("", "namespaces"), ["finalize", "status"]);
    assert_eq!(names("", "pods").len(), 10);
    assert_eq!(names("", "configmaps"), [""; 0]);
}
