//! What a server assigns to objects of some kinds: data of Secrets, addresses and ports of Services, finalizers,
//! labels of Jobs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Draw, copy};
use crate::resource::Resource;
use crate::tree::{self, Members};

mod service;

/// The annotation that counts changes of a `DaemonSet`'s template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// What is assigned to a new object.
pub(super) fn on_create(resource: &Resource, object: &mut Value, draw: &mut dyn Draw) {
    if resource.custom.is_some() {
        return;
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Secret") => encode_texts(object),
        ("", "Service") => service::on_create(object, draw),
        ("", "Namespace") => namespace(object),
        ("", "PersistentVolumeClaim") => {
            finalizer(object, "kubernetes.io/pvc-protection");
            data_sources(object);
        }
        ("", "PersistentVolume") => volume(object),
        ("", "Node") => node(object),
        ("batch", "Job") => {
            job(object);
            job_labels(object);
        }
        ("apps", "DaemonSet") => template_generation(object, 1),
        _ => {}
    }
}

/// What is assigned to, or kept of, an object that changes.
pub(super) fn on_update(resource: &Resource, old: &Value, new: &mut Value, draw: &mut dyn Draw) {
    if resource.custom.is_some() {
        return;
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Secret") => {
            encode_texts(new);
            // A type cannot be taken away.
            if tree::text(new, &["type"]).is_empty()
                && let Some(members) = new.as_object_mut()
            {
                copy(old.as_object(), members, "type");
            }
        }
        ("", "Service") => service::on_update(old, new, draw),
        ("", "Namespace") => {
            let spec = old.get("spec").and_then(Value::as_object);
            if let Some(members) = tree::made(new, &["spec"]) {
                copy(spec, members, "finalizers");
            }
        }
        ("", "PersistentVolumeClaim") => data_sources(new),
        ("batch", "Job") => job_labels(new),
        ("apps", "DaemonSet") => {
            let annotation = tree::text(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
            let count: i64 = annotation.parse().unwrap_or(1);
            let changed = old.pointer("/spec/template") != new.pointer("/spec/template");
            template_generation(new, count + i64::from(changed));
        }
        _ => {}
    }
}

/// Texts of a Secret become data.
pub(super) fn encode_texts(object: &mut Value) {
    let Some(members) = object.as_object_mut() else { return };
    let Some(Value::Object(texts)) = members.remove("stringData") else { return };
    let data = members.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        for (name, text) in texts {
            data.insert(name, Value::from(STANDARD.encode(text.as_str().unwrap_or(""))));
        }
        if data.is_empty() {
            members.remove("data");
        }
    }
}

fn namespace(object: &mut Value) {
    let Some(spec) = tree::made(object, &["spec"]) else { return };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(items) = finalizers
        && !items.contains(&json!("kubernetes"))
    {
        items.push(json!("kubernetes"));
    }
    if let Some(status) = tree::made(object, &["status"]) {
        status.insert("phase".to_owned(), json!("Active"));
    }
}

fn finalizer(object: &mut Value, name: &str) {
    let Some(metadata) = tree::made(object, &["metadata"]) else { return };
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(items) = finalizers
        && !items.contains(&json!(name))
    {
        items.push(json!(name));
    }
}

/// The phase of a volume began when the volume did.
fn volume(object: &mut Value) {
    finalizer(object, "kubernetes.io/pv-protection");
    let created =
        tree::at(object, &["metadata", "creationTimestamp"]).filter(|time| time.is_string()).cloned();
    if let (Some(created), Some(status)) = (created, tree::made(object, &["status"])) {
        status.insert("lastPhaseTransitionTime".to_owned(), created);
    }
}

/// The old and the new way to name a source of data say the same.
fn data_sources(object: &mut Value) {
    let Some(spec) = tree::existing(object, &["spec"]) else { return };
    let (old, new) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
    let is_local = |value: &Value| tree::text(value, &["namespace"]).is_empty();
    match (old, new) {
        (Some(old), None) => spec.insert("dataSourceRef".to_owned(), old),
        (None, Some(new)) if is_local(&new) => spec.insert("dataSource".to_owned(), new),
        _ => None,
    };
}

/// Pods of a Job are found by the uid of the Job, which is in the template under an old and a new name.
fn job(object: &mut Value) {
    if tree::flag(object, &["spec", "manualSelector"]) {
        return;
    }
    let name = tree::text(object, &["metadata", "name"]).to_owned();
    let uid = tree::text(object, &["metadata", "uid"]).to_owned();
    if let Some(labels) = tree::made(object, &["spec", "template", "metadata", "labels"]) {
        for (label, value) in [
            ("job-name", &name),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("batch.kubernetes.io/controller-uid", &uid),
        ] {
            labels.entry(label).or_insert_with(|| json!(value));
        }
    }
    if let Some(labels) = tree::made(object, &["spec", "selector", "matchLabels"]) {
        labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| json!(uid));
    }
}

/// A Job without labels has those of its template.
fn job_labels(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    let is_bare = tree::members(object, &["metadata", "labels"]).is_none_or(Map::is_empty);
    if let Some(labels) = labels.filter(|_| is_bare)
        && let Some(metadata) = tree::made(object, &["metadata"])
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// A node is not ready before it has said so.
fn node(object: &mut Value) {
    let Some(spec) = tree::made(object, &["spec"]) else { return };
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    if let Value::Array(taints) = taints
        && !taints.contains(&taint)
    {
        taints.push(taint);
    }
}

/// A count of templates is always there, though it begins with nothing.
pub(super) fn count_templates(object: &mut Value) {
    if tree::text(object, &["metadata", "annotations", TEMPLATE_GENERATION]).is_empty() {
        template_generation(object, 0);
    }
}

fn template_generation(object: &mut Value, count: i64) {
    if let Some(annotations) = tree::made(object, &["metadata", "annotations"]) {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), json!(count.to_string()));
    }
}

/// The texts of a list.
fn texts(members: &Members, name: &str) -> Vec<String> {
    let items = members.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
