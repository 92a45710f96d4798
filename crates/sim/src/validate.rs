//! Rules that objects must keep, with the words of an API server.
//!
//! Custom resources are held against the schema of their definition; what built-in kinds must keep is written out
//! for the kinds that people and sync tools meet, see `builtin`. Deliberately absent: rules in CEL
//! (`x-kubernetes-validations`), for which no interpreter is at hand, and checks that need other objects.
//! Errors come in the order in which a server looks; where the server's order is that of a random map, by name.

mod access;
mod config;
mod container;
mod errors;
mod job;
mod metadata;
pub(crate) mod names;
mod network;
mod pod;
mod policy;
mod schema;
mod selector;
mod service;
mod storage;
mod workload;

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
        let status =
            new.get("status").filter(|status| resource.has_status && old.get("status") != Some(status));
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
        ("", "Pod") => pod::pod(object, old),
        ("", "Service") => service::validate(object, old),
        ("", "PersistentVolumeClaim") => storage::claim(object, old),
        ("", "PersistentVolume") => storage::volume(object, old),
        ("", "Event") => policy::event(object),
        ("", "Namespace") => policy::namespace(object, old),
        ("", "ResourceQuota") => policy::quota(object),
        ("apps", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")) => {
            workload::validate(kind, object, old)
        }
        ("apps", "ControllerRevision") => policy::revision(object, old),
        ("batch", "Job") => job::job(object, old),
        ("batch", "CronJob") => job::cron_job(object),
        ("rbac.authorization.k8s.io", "Role") => access::role(object, true),
        ("rbac.authorization.k8s.io", "ClusterRole") => access::role(object, false),
        ("rbac.authorization.k8s.io", "RoleBinding") => access::binding(object, true, old),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => access::binding(object, false, old),
        ("networking.k8s.io", "Ingress") => network::ingress(object),
        ("networking.k8s.io", "IngressClass") => network::class(object, old),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(object),
        ("autoscaling", "HorizontalPodAutoscaler") => policy::autoscaler(object),
        ("policy", "PodDisruptionBudget") => policy::budget(object),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority(object, old),
        ("storage.k8s.io", "StorageClass") => storage::class(object, old),
        ("certificates.k8s.io", "CertificateSigningRequest") => policy::signing_request(object),
        ("coordination.k8s.io", "Lease") => policy::lease(object),
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
