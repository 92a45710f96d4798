//! Rules for the metadata of every object.

use serde_json::{Value, json};

use super::{names, too_long};
use crate::resource::{Resource, Scope};
use crate::status::FieldError;
use crate::tree;

/// Bytes of all annotations together.
const MOST_ANNOTATIONS: usize = 256 * 1024;

/// Rules for the name of a kind.
fn name_rule(resource: &Resource) -> fn(&str) -> Vec<String> {
    if resource.custom.is_some() {
        return names::dns_subdomain;
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Namespace" | "Service") => names::dns_label,
        ("rbac.authorization.k8s.io" | "flowcontrol.apiserver.k8s.io", _) => names::path_segment,
        _ => names::dns_subdomain,
    }
}

/// Errors in the metadata of a new object.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = create_with(resource.scope, object, name_rule(resource));
    if resource.custom.is_none() {
        errors.extend(unqualified_finalizers(object));
    }
    errors
}

/// The same with a rule for names.
pub(crate) fn create_with(
    scope: Scope,
    object: &Value,
    rule: impl Fn(&str) -> Vec<String>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = tree::text(object, &["metadata", "name"]);
    let generated = tree::text(object, &["metadata", "generateName"]);
    let invalid =
        |field: &str, text: &str, problem: &String| FieldError::invalid(field, &json!(text), problem);
    if !generated.is_empty() {
        // Letters follow a name that ends with a dash.
        let shown = if generated.ends_with('-') {
            format!("{}a", generated.trim_end_matches('-'))
        } else {
            generated.to_owned()
        };
        errors.extend(rule(&shown).iter().map(|one| invalid("metadata.generateName", generated, one)));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(rule(name).iter().map(|one| invalid("metadata.name", name, one)));
    }
    let namespace = tree::text(object, &["metadata", "namespace"]);
    match scope {
        Scope::Namespaced if namespace.is_empty() => {
            errors.push(FieldError::required("metadata.namespace", ""));
        }
        Scope::Namespaced => {
            let problems = names::dns_label(namespace);
            errors.extend(problems.iter().map(|one| invalid("metadata.namespace", namespace, one)));
        }
        Scope::Cluster if !namespace.is_empty() => {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
        Scope::Cluster => {}
    }
    errors.extend(maps(object));
    errors.extend(owners(object));
    errors.extend(finalizers(object));
    errors
}

/// Finalizers are qualified names; two of them exclude each other.
fn finalizers(object: &Value) -> Vec<FieldError> {
    let field = "metadata.finalizers";
    let list = tree::items(object, &["metadata", "finalizers"]);
    let mut errors = Vec::new();
    for finalizer in list.iter().filter_map(Value::as_str) {
        let problems = names::qualified(finalizer);
        errors.extend(problems.iter().map(|one| FieldError::invalid(field, &json!(finalizer), one)));
    }
    if ["orphan", "foregroundDeletion"].iter().all(|one| list.iter().any(|known| known == one)) {
        let problem = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(field, &json!(list), problem));
    }
    errors
}

/// Those of built-in kinds are well known or have a domain.
fn unqualified_finalizers(object: &Value) -> Vec<FieldError> {
    let field = "metadata.finalizers";
    let list = tree::items(object, &["metadata", "finalizers"]);
    let mut errors = Vec::new();
    for (index, finalizer) in list.iter().enumerate().filter_map(|(index, one)| Some((index, one.as_str()?)))
    {
        if !finalizer.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer) {
            let problem = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("{field}[{index}]"), &json!(finalizer), problem));
        }
    }
    errors
}

/// Errors in changed metadata. That the version is the current one is for the caller to see.
pub(crate) fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if tree::at(old, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()) {
        let before = tree::items(old, &["metadata", "finalizers"]);
        let extra = tree::items(new, &["metadata", "finalizers"]).iter().filter(|one| !before.contains(one));
        let mut extra: Vec<&str> = extra.filter_map(Value::as_str).collect();
        extra.sort_unstable();
        if !extra.is_empty() {
            let shown: Vec<String> = extra.iter().map(|one| format!("{one:?}")).collect();
            let problem = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            );
            // A server looks twice: at what all objects share, and at the kind.
            let error = FieldError::forbidden("metadata.finalizers", &problem);
            errors.extend([error.clone(), error]);
        }
    }
    for name in ["name", "namespace", "uid"] {
        let said = tree::text(new, &["metadata", name]);
        if said != tree::text(old, &["metadata", name]) {
            errors.push(super::immutable(&format!("metadata.{name}"), &json!(said)));
        }
    }
    errors.extend(maps(new));
    errors.extend(owners(new));
    errors
}

fn maps(object: &Value) -> Vec<FieldError> {
    let mut errors = labels(object, &["metadata", "labels"], "metadata.labels");
    let field = "metadata.annotations";
    let annotations = tree::members(object, &["metadata", "annotations"]);
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        let problems = names::qualified(&key.to_lowercase());
        errors.extend(problems.iter().map(|one| FieldError::invalid(field, &json!(key), one)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MOST_ANNOTATIONS {
        errors.push(too_long(field, MOST_ANNOTATIONS));
    }
    errors
}

/// Errors in labels somewhere in an object.
pub(super) fn labels(object: &Value, path: &[&str], field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in tree::members(object, path).into_iter().flatten() {
        let text = value.as_str().unwrap_or("");
        errors.extend(names::qualified(key).iter().map(|one| FieldError::invalid(field, &json!(key), one)));
        errors
            .extend(names::label_value(text).iter().map(|one| FieldError::invalid(field, &json!(text), one)));
    }
    errors
}

fn owners(object: &Value) -> Vec<FieldError> {
    let field = "metadata.ownerReferences";
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let references = tree::items(object, &["metadata", "ownerReferences"]);
    for reference in references {
        for (name, problem) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if tree::text(reference, &[name]).is_empty() {
                errors.push(FieldError::invalid(format!("{field}.{name}"), &json!(""), problem));
            }
        }
        let version = tree::text(reference, &["apiVersion"]);
        if version.matches('/').count() > 1 {
            let problem = "version must not be empty";
            errors.push(FieldError::invalid(format!("{field}.apiVersion"), &json!(version), problem));
        }
        if version == "v1" && tree::text(reference, &["kind"]) == "Event" {
            let problem = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(field, reference, problem));
        }
        if !tree::flag(reference, &["controller"]) {
            continue;
        }
        let shown = format!("{}/{}", tree::text(reference, &["kind"]), tree::text(reference, &["name"]));
        match &controller {
            None => controller = Some(shown),
            Some(first) => {
                let problem = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {shown}"
                );
                errors.push(FieldError::invalid(field, &json!(references), &problem));
            }
        }
    }
    errors
}
