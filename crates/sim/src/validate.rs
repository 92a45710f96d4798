//! Rules that objects must keep, with the words of an API server.
//!
//! Custom resources are held against the schema of their definition; what built-in kinds must keep is written out
//! for the kinds that people and sync tools meet, see the list in `create`. Deliberately absent: rules in CEL
//! (`x-kubernetes-validations`), for which no interpreter is at hand, and checks that need other objects.
//! Errors come in the order in which a server looks; where the server's order is that of a random map, by name.

mod config;
mod errors;
mod metadata;
mod names;
mod schema;

use serde_json::Value;

use crate::crd;
use crate::resource::Resource;
use crate::status::FieldError;

/// Errors of an object that is being made.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    if let Some(custom) = &resource.custom {
        let mut errors = metadata::create(resource, object);
        errors.extend(schema::validate(&custom.schema, object, None));
        errors.extend(schema::scale(resource, object));
        errors.extend(schema::embedded(&custom.schema, object));
        errors.extend(schema::lists(&custom.schema, object));
        return errors;
    }
    if is_definition(resource) {
        return crd::validate(object, None);
    }
    let mut errors = metadata::create(resource, object);
    errors.extend(builtin(resource, object, None));
    errors
}

/// Errors of a change from `old` to `new`.
pub(crate) fn update(resource: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    if let Some(custom) = &resource.custom {
        let mut errors = metadata::update(old, new);
        // Where there is a subresource for the status, nothing else changes it, and it changes nothing else.
        let status = new.get("status").filter(|status| resource.has_status && old.get("status") != Some(status));
        match status {
            Some(status) => errors.extend(schema::status(&custom.schema, status, old.get("status"))),
            None => errors.extend(schema::validate(&custom.schema, new, Some(old))),
        }
        errors.extend(schema::scale(resource, new));
        errors.extend(schema::embedded(&custom.schema, new));
        if schema::lists(&custom.schema, old).is_empty() {
            errors.extend(schema::lists(&custom.schema, new));
        }
        return errors;
    }
    if is_definition(resource) {
        return crd::validate(new, Some(old));
    }
    let mut errors = metadata::update(old, new);
    errors.extend(builtin(resource, new, Some(old)));
    errors
}

fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.kind == "CustomResourceDefinition"
}

/// What a kind demands; `old` is there on updates.
fn builtin(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "ConfigMap") => config::config_map(object, old),
        ("", "Secret") => config::secret(object, old),
        _ => Vec::new(),
    }
}

pub(crate) use errors::{immutable, too_long, too_many};
pub(crate) use metadata::{create_with as metadata_create_with, update as metadata_update};
pub(crate) use names::{dns_1035_label, dns_subdomain};

/// Errors of a value that is held against a schema, such as a default.
pub(crate) fn validate_value(schema: &Value, value: &Value) -> Vec<FieldError> {
    schema::validate(schema, value, None)
}
