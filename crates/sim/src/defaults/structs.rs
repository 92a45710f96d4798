//! Defaults of a struct that depend on several of its members.

use serde_json::{Map, Value, json};

use super::workloads;
use crate::tree::{self, Members, default_to, lacks};

/// Sets what follows from several members of a struct.
pub(super) fn fill_in(members: &mut Members, name: &str) {
    match name {
        "core/v1.Container" | "core/v1.EphemeralContainer" => {
            pull_policy(members, "image", "imagePullPolicy");
        }
        "core/v1.ImageVolumeSource" => pull_policy(members, "reference", "pullPolicy"),
        "core/v1.Volume" => volume(members),
        "core/v1.PodSpec" => workloads::pod_spec(members),
        "core/v1.Pod" => with_object(members, workloads::pod),
        "core/v1.Service" => with_object(members, service),
        "core/v1.Namespace" => namespace(members),
        "core/v1.ReplicationController" => workloads::replication_controller(members),
        "core/v1.LimitRangeItem" => limit_range(members),
        "core/v1.NodeStatus" => node_status(members),
        "apps/v1.DeploymentStrategy" => workloads::deployment_strategy(members),
        "apps/v1.DaemonSetUpdateStrategy" => workloads::daemon_set_strategy(members),
        "apps/v1.StatefulSetUpdateStrategy" => workloads::stateful_set_strategy(members),
        "apps/v1.StatefulSetSpec" => workloads::stateful_set(members),
        "batch/v1.Job" => with_member(members, "spec", workloads::job_spec),
        "autoscaling/v2.HorizontalPodAutoscalerSpec" => workloads::autoscaler(members),
        "networking/v1.NetworkPolicySpec" => network_policy(members),
        "rbac/v1.Subject" => subject(members),
        "resource/v1.ExactDeviceRequest" | "resource/v1.DeviceSubRequest" => device_request(members),
        _ => {}
    }
}

fn with_member(members: &mut Members, name: &str, change: impl FnOnce(&mut Members)) {
    if let Some(Value::Object(below)) = members.get_mut(name) {
        change(below);
    }
}

/// Runs a change that looks at the whole object.
fn with_object(members: &mut Members, change: impl FnOnce(&mut Value)) {
    let mut object = Value::Object(std::mem::take(members));
    change(&mut object);
    if let Value::Object(changed) = object {
        *members = changed;
    }
}

/// Images without a tag, or with the tag `latest`, are always pulled.
fn pull_policy(members: &mut Members, image: &str, policy: &str) {
    let text = members.get(image).and_then(Value::as_str).unwrap_or("");
    let value = if is_latest(text) { "Always" } else { "IfNotPresent" };
    default_to(members, policy, value);
}

/// Whether an image reference names the tag `latest`, or neither a tag nor a digest. A text that is no reference
/// has no tag either, but then the tag is not taken to be `latest`.
fn is_latest(image: &str) -> bool {
    if !is_reference(image) {
        return false;
    }
    let (name, digest) = image.split_once('@').map_or((image, ""), |(name, digest)| (name, digest));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_empty(),
    }
}

/// Whether a text may be an image reference, as far as its characters tell.
fn is_reference(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or(image);
    let path = name.split_once('/').map_or(name, |(_, path)| path);
    let path = path.split(':').next().unwrap_or(path);
    !name.is_empty()
        && !name.contains(char::is_whitespace)
        && !path.is_empty()
        && !path.contains(|letter: char| letter.is_ascii_uppercase())
        && path
            .split('/')
            .all(|part| !part.is_empty() && part.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

fn volume(members: &mut Members) {
    if members.iter().all(|(name, value)| name == "name" || value.is_null()) {
        members.insert("emptyDir".to_owned(), json!({}));
    }
}

fn namespace(members: &mut Members) {
    let mut object = Value::Object(std::mem::take(members));
    let name = tree::text(&object, &["metadata", "name"]).to_owned();
    if !name.is_empty()
        && let Some(labels) = tree::made(&mut object, &["metadata", "labels"])
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), Value::from(name));
    }
    if let Value::Object(changed) = object {
        *members = changed;
    }
}

fn service(object: &mut Value) {
    let has_ingress = object.pointer("/status/loadBalancer/ingress").is_some();
    let Some(spec) = tree::existing(object, &["spec"]) else { return };
    default_to(spec, "sessionAffinity", "None");
    default_to(spec, "type", "ClusterIP");
    session(spec);
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            let is_unset = match port.get("targetPort") {
                None | Some(Value::Null) => true,
                Some(Value::String(text)) => text.is_empty(),
                Some(target) => target.as_i64() == Some(0),
            };
            if is_unset && let Some(number) = port.get("port").cloned() {
                port.insert("targetPort".to_owned(), number);
            }
        }
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
    let has_external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && has_external) {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP")
        && spec.get("internalTrafficPolicy").is_none_or(Value::is_null)
    {
        spec.insert("internalTrafficPolicy".to_owned(), json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
        if has_ingress {
            ingress_modes(object);
        }
    }
}

fn session(spec: &mut Members) {
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let config = spec.entry("sessionAffinityConfig").or_insert(Value::Null);
            if config.pointer("/clientIP/timeoutSeconds").is_none_or(Value::is_null) {
                *config = json!({"clientIP": {"timeoutSeconds": 10800}});
            }
        }
        _ => {}
    }
}

fn ingress_modes(object: &mut Value) {
    let Some(Value::Array(items)) = object.pointer_mut("/status/loadBalancer/ingress") else { return };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        if !lacks(item, "ip") {
            default_to(item, "ipMode", "VIP");
        }
    }
}

fn limit_range(members: &mut Members) {
    if members.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(Value::Object(known)) = members.get(from).cloned() else { continue };
        let target = members.entry(to).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(target) = target {
            for (name, value) in known {
                target.entry(name).or_insert(value);
            }
        }
    }
}

fn node_status(members: &mut Members) {
    if members.get("allocatable").is_none()
        && let Some(capacity) = members.get("capacity").cloned()
    {
        members.insert("allocatable".to_owned(), capacity);
    }
}

fn network_policy(members: &mut Members) {
    let is_empty =
        |members: &Members, name: &str| members.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
    if is_empty(members, "policyTypes") {
        let types =
            if is_empty(members, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        members.insert("policyTypes".to_owned(), types);
    }
}

fn subject(members: &mut Members) {
    if matches!(members.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
        default_to(members, "apiGroup", "rbac.authorization.k8s.io");
    }
}

fn device_request(members: &mut Members) {
    default_to(members, "allocationMode", "ExactCount");
    let is_counted = members.get("allocationMode").and_then(Value::as_str) == Some("ExactCount");
    if is_counted && members.get("count").and_then(Value::as_i64).unwrap_or(0) == 0 {
        members.insert("count".to_owned(), json!(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_always_pulled_when_their_tag_is_latest_or_missing() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:1", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:latest", true),
            ("nginx@sha256:0000000000000000000000000000000000000000000000000000000000000000", false),
            ("", false),
            ("Nginx", false),
            ("my image", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
