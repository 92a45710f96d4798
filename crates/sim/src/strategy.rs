//! What a server does to an object between reading and storing it: systems fields, generation, status.

mod assign;
mod pod;
mod rules;

use serde_json::{Value, json};

use crate::crd;
use crate::resource::Resource;
use crate::tree::{self, Members};

/// What numbers and addresses are drawn from; implemented by the state.
pub(crate) trait Draw {
    /// A free cluster address.
    fn cluster_ip(&mut self) -> String;
    /// A free node port.
    fn node_port(&mut self) -> u16;
    /// A random UUID.
    fn uid(&mut self) -> String;
}

/// Metadata that no write changes.
const KEPT_METADATA: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// Readies an object for its creation: drops what a creator may not say (status), assigns what is assigned
/// (generation 1, cluster addresses, node ports, `spec.finalizers` of namespaces, labels and selectors of Jobs,
/// the data of `stringData`). uid, creationTimestamp, name, and resourceVersion are the caller's work, done
/// before: the labels of Jobs name both. A missing uid is drawn.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value, draw: &mut dyn Draw) {
    if tree::text(object, &["metadata", "uid"]).is_empty() {
        let uid = draw.uid();
        if let Some(metadata) = tree::made(object, &["metadata"]) {
            metadata.insert("uid".to_owned(), uid.into());
        }
    }
    if let Some(metadata) = tree::made(object, &["metadata"]) {
        for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(name);
        }
        if rules::has_generation(resource) {
            metadata.insert("generation".to_owned(), json!(1));
        }
    }
    drop_status(resource, object);
    if is_definition(resource) {
        crd::fill_in(object);
    }
    assign::on_create(resource, object, draw);
    pod::on_create(resource, object, draw);
}

/// Sets what a write through a resource or subresource does not change to what it is in `live`.
pub(crate) fn keep_reset(resource: &Resource, live: &Value, said: &mut Value, subresource: &str) {
    match subresource {
        "status" => rules::keep_all_but_status(resource, live, said),
        "approval" => {}
        _ if resource.has_status => keep_member(live, said, "status"),
        _ => {}
    }
}

/// Defaults that are in no table, and what another form of the same object stands for.
pub(crate) fn fill_in(resource: &Resource, object: &mut Value) {
    if rules::is(resource, "", "Secret") {
        assign::encode_texts(object);
    } else if rules::is(resource, "apps", "DaemonSet") {
        assign::count_templates(object);
    } else if is_definition(resource) {
        crd::fill_in(object);
    } else if rules::is(resource, "apiregistration.k8s.io", "APIService") {
        if let Some(service) = tree::existing(object, &["spec", "service"]) {
            tree::default_to(service, "port", 443);
        }
        if let Some(members) = object.as_object_mut() {
            members.entry("status").or_insert_with(|| json!({}));
        }
    }
}

fn is_definition(resource: &Resource) -> bool {
    rules::is(resource, "apiextensions.k8s.io", "CustomResourceDefinition")
}

/// An object of a kind of which nothing has been said.
pub(crate) fn empty(resource: &Resource) -> Value {
    rules::empty(resource)
}

/// The status of a new object is what its type says without one.
fn drop_status(resource: &Resource, object: &mut Value) {
    if !resource.has_status || !rules::drops_status(resource) {
        return;
    }
    let initial = rules::initial_status(resource);
    if let Some(members) = object.as_object_mut() {
        match initial {
            Some(status) => members.insert("status".to_owned(), status),
            None => members.remove("status"),
        };
    }
}

/// Readies a change: `status` keeps the old status (or, on the status subresource, everything else), immutable
/// metadata is carried over, the generation rises when the spec changed.
pub(crate) fn prepare_update(
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    subresource: &str,
    draw: &mut dyn Draw,
) {
    keep_metadata(old, new);
    match subresource {
        "status" => rules::keep_all_but_status(resource, old, new),
        _ if resource.has_status => keep_member(old, new, "status"),
        _ => {}
    }
    if is_definition(resource) {
        crd::fill_in(new);
    }
    // The finalizers of a namespace have a path of their own, and nothing else goes through it.
    if subresource != "status" && subresource != "finalize" {
        assign::on_update(resource, old, new, draw);
        pod::on_update(resource, old, new);
    }
    let generation = tree::integer(old, &["metadata", "generation"]);
    let rises =
        subresource != "status" && rules::has_generation(resource) && rules::differs(resource, old, new);
    if let Some(metadata) = tree::made(new, &["metadata"]) {
        match generation {
            Some(found) => metadata.insert("generation".to_owned(), json!(found + i64::from(rises))),
            None => metadata.remove("generation"),
        };
    }
}

fn keep_metadata(old: &Value, new: &mut Value) {
    let kept = old.get("metadata").and_then(Value::as_object);
    let Some(metadata) = tree::made(new, &["metadata"]) else { return };
    for name in KEPT_METADATA {
        copy(kept, metadata, name);
    }
}

/// Sets a member to what it was before, also when it was not there.
fn copy(from: Option<&Members>, to: &mut Members, name: &str) {
    match from.and_then(|from| from.get(name)) {
        Some(value) => to.insert(name.to_owned(), value.clone()),
        None => to.remove(name),
    };
}

fn keep_member(old: &Value, new: &mut Value, name: &str) {
    if let Some(members) = new.as_object_mut() {
        copy(old.as_object(), members, name);
    }
}
