//! Which kinds have a generation, and what makes it rise; what a status write may change.

use serde_json::{Map, Value, json};
use tiphys_object::Gvk;
use tiphys_object::builtin::Schema;

use super::{copy, keep_member};
use crate::defaults;
use crate::resource::Resource;
use crate::tree;

/// Kinds whose generation begins at one and rises with `spec`, by group.
const WITH_GENERATION: [(&str, &[&str]); 12] = [
    ("", &["Pod", "PodTemplate", "ReplicationController"]),
    ("apps", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("batch", &["CronJob", "Job"]),
    ("networking.k8s.io", &["Ingress", "IngressClass", "NetworkPolicy"]),
    ("policy", &["PodDisruptionBudget"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("resource.k8s.io", &["DeviceClass", "ResourceSlice", "DeviceTaintRule"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &[]),
];

/// Whether a resource is that of a built-in kind.
pub(super) fn is(resource: &Resource, group: &str, kind: &str) -> bool {
    resource.custom.is_none() && resource.group == group && resource.kind == kind
}

/// Whether objects have a generation.
pub(super) fn has_generation(resource: &Resource) -> bool {
    if resource.custom.is_some() {
        return true;
    }
    let kinds = WITH_GENERATION.iter().find(|(group, _)| *group == resource.group);
    kinds.is_some_and(|(_, kinds)| kinds.contains(&resource.kind.as_str()))
}

/// Whether a change raises the generation.
pub(super) fn differs(resource: &Resource, old: &Value, new: &Value) -> bool {
    if resource.custom.is_some() {
        return rest_differs(old, new);
    }
    let changed = |path: &[&str]| tree::at(old, path) != tree::at(new, path);
    match resource.kind.as_str() {
        "Deployment" => changed(&["spec"]) || changed(&["metadata", "annotations"]),
        "PodTemplate" => changed(&["template"]),
        "EndpointSlice" => rest_differs(old, new) || changed(&["metadata", "labels"]),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => changed(&["webhooks"]),
        "PriorityClass" => false,
        _ => changed(&["spec"]),
    }
}

/// Whether anything outside of metadata changed.
fn rest_differs(old: &Value, new: &Value) -> bool {
    let rest = |value: &Value| -> Map<String, Value> {
        let members = value.as_object().into_iter().flatten();
        let rest = members.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "apiVersion" | "kind"));
        rest.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    rest(old) != rest(new)
}

/// Whether a creator's status is dropped; that of a node is kept.
pub(super) fn drops_status(resource: &Resource) -> bool {
    !is(resource, "", "Node")
}

/// The status of a new object: what its type says when nobody said anything.
pub(super) fn initial_status(resource: &Resource) -> Option<Value> {
    if resource.custom.is_some() {
        return None;
    }
    if is(resource, "apiregistration.k8s.io", "APIService") {
        return Some(json!({}));
    }
    let gvk = gvk(resource);
    let mut members = Map::new();
    defaults::complete(&mut members, Schema::of(&gvk)?);
    let mut object = Value::Object(members);
    defaults::fill_in(&gvk, &mut object);
    object.get_mut("status").map(Value::take)
}

/// What the type of a kind holds before anything is set.
pub(super) fn empty(resource: &Resource) -> Value {
    let gvk = gvk(resource);
    let mut members = Map::new();
    if let Some(schema) = Schema::of(&gvk).filter(|_| resource.custom.is_none()) {
        defaults::complete(&mut members, schema);
        if is(resource, "apps", "ControllerRevision") {
            // Anything may stand there, and nothing is no value of it.
            members.remove("data");
        }
    } else if is(resource, "apiextensions.k8s.io", "CustomResourceDefinition") {
        let names = json!({"plural": "", "kind": ""});
        members
            .insert("spec".to_owned(), json!({"group": "", "names": names, "scope": "", "versions": null}));
    } else if is(resource, "apiregistration.k8s.io", "APIService") {
        members.insert("spec".to_owned(), json!({"groupPriorityMinimum": 0, "versionPriority": 0}));
        members.insert("status".to_owned(), json!({}));
    }
    members.insert("apiVersion".to_owned(), Value::from(gvk.api_version().as_str()));
    members.insert("kind".to_owned(), Value::from(resource.kind.as_str()));
    Value::Object(members)
}

fn gvk(resource: &Resource) -> Gvk {
    Gvk::new(resource.group.as_str(), resource.version.as_str(), resource.kind.as_str())
}

/// What a write to the status leaves as it was.
pub(super) fn keep_all_but_status(resource: &Resource, old: &Value, new: &mut Value) {
    if resource.custom.is_some() {
        let status = new.get("status").cloned();
        let books = tree::at(new, &["metadata", "managedFields"]).cloned();
        let version = tree::at(new, &["metadata", "resourceVersion"]).cloned();
        new.clone_from(old);
        let restored = [("managedFields", books), ("resourceVersion", version)];
        if let Some(metadata) = tree::made(new, &["metadata"]) {
            for (name, value) in restored {
                match value {
                    Some(value) => metadata.insert(name.to_owned(), value),
                    None => metadata.remove(name),
                };
            }
        }
        if let Some(members) = new.as_object_mut() {
            match status {
                Some(status) => members.insert("status".to_owned(), status),
                None => members.remove("status"),
            };
        }
        return;
    }
    keep_member(old, new, "spec");
    let kept: &[&str] = match resource.kind.as_str() {
        "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet" if resource.group == "apps" => &["labels"],
        "Pod" => &["ownerReferences"],
        _ => &[],
    };
    let metadata = old.get("metadata").and_then(Value::as_object);
    if let Some(target) = tree::made(new, &["metadata"]) {
        for name in kept {
            copy(metadata, target, name);
        }
    }
}
