//! What a server does to an object between reading and storing it: systems fields, generation, status.

use serde_json::Value;

use crate::resource::Resource;

/// What numbers and addresses are drawn from; implemented by the state.
pub(crate) trait Draw {
    /// A free cluster address.
    fn cluster_ip(&mut self) -> String;
    /// A free node port.
    fn node_port(&mut self) -> u16;
    /// A random UUID.
    fn uid(&mut self) -> String;
}

/// Readies an object for its creation: drops what a creator may not say (status), assigns what is assigned
/// (generation 1, cluster addresses, node ports, `spec.finalizers` of namespaces, labels and selectors of Jobs,
/// the data of `stringData`). uid, creationTimestamp, name, and resourceVersion are the caller's work.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value, draw: &mut dyn Draw) {
    let _ = (resource, object, draw);
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
    let _ = (resource, old, new, subresource, draw);
}
