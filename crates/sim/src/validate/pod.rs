//! Pods, and the templates of Pods.

use serde_json::{Map, Value, json};

use super::{container, metadata, names};
use crate::status::FieldError;
use crate::tree::{self, integer, items, text};

/// What is wrong with a name.
type Rule = fn(&str) -> Vec<String>;

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// What must be named in a kind of volume, by its member.
const VOLUME_NAMES: [(&str, &str); 5] = [
    ("configMap", "name"),
    ("secret", "secretName"),
    ("hostPath", "path"),
    ("persistentVolumeClaim", "claimName"),
    ("csi", "driver"),
];

/// Errors of a Pod.
pub(super) fn pod(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = self::spec(spec, "spec");
    let Some(old) = old else { return errors };
    if mutable(object) != mutable(old) {
        errors.push(FieldError::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
             tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        ));
    }
    errors
}

/// The spec without what may change.
fn mutable(object: &Value) -> Value {
    let mut spec = object.get("spec").cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            for container in containers.iter_mut().filter_map(Value::as_object_mut) {
                container.remove("image");
            }
        }
    }
    if let Value::Object(members) = &mut spec {
        for name in
            ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "ephemeralContainers"]
        {
            members.remove(name);
        }
        if members.contains_key("schedulingGates") {
            for name in ["schedulingGates", "nodeSelector", "affinity"] {
                members.remove(name);
            }
        }
    }
    spec
}

/// Errors of a template.
pub(super) fn template(template: &Value, field: &str) -> Vec<FieldError> {
    // The server leaves `metadata` out of these paths.
    let mut errors = metadata::labels(template, &["metadata", "labels"], &format!("{field}.labels"));
    let spec = template.get("spec").unwrap_or(&Value::Null);
    errors.extend(self::spec(spec, &format!("{field}.spec")));
    errors
}

fn spec(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = volumes(spec, field);
    let known: Vec<&str> = items(spec, &["volumes"]).iter().map(|one| text(one, &["name"])).collect();
    errors.extend(container::all(spec, field, &known));
    let policy = text(spec, &["restartPolicy"]);
    if !policy.is_empty() && !RESTART_POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(
            format!("{field}.restartPolicy"),
            &json!(policy),
            &RESTART_POLICIES,
        ));
    }
    let policy = text(spec, &["dnsPolicy"]);
    if !policy.is_empty() && !DNS_POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(format!("{field}.dnsPolicy"), &json!(policy), &DNS_POLICIES));
    }
    errors.extend(metadata::labels(spec, &["nodeSelector"], &format!("{field}.nodeSelector")));
    let named: [(&str, Rule); 4] = [
        ("serviceAccountName", names::dns_subdomain),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
    ];
    for (name, rule) in named {
        let said = text(spec, &[name]);
        if !said.is_empty() {
            let at = format!("{field}.{name}");
            errors.extend(rule(said).iter().map(|one| FieldError::invalid(at.clone(), &json!(said), one)));
        }
    }
    if let Some(seconds) = integer(spec, &["activeDeadlineSeconds"]).filter(|seconds| *seconds < 1) {
        let problem = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{field}.activeDeadlineSeconds"), &json!(seconds), problem));
    }
    for (at, toleration) in items(spec, &["tolerations"]).iter().enumerate() {
        errors.extend(self::toleration(toleration, &format!("{field}.tolerations[{at}]")));
    }
    errors
}

fn toleration(toleration: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let operator = text(toleration, &["operator"]);
    let key = text(toleration, &["key"]);
    if !matches!(operator, "" | "Equal" | "Exists") {
        let at = format!("{field}.operator");
        errors.push(FieldError::not_supported(at, &json!(operator), &["Equal", "Exists"]));
    }
    if key.is_empty() && operator != "Exists" {
        let problem =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(format!("{field}.operator"), &json!(operator), problem));
    }
    let effect = text(toleration, &["effect"]);
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !known.contains(&effect) {
        errors.push(FieldError::not_supported(format!("{field}.effect"), &json!(effect), &known));
    }
    errors
}

fn volumes(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let volumes = items(spec, &["volumes"]);
    for (at, volume) in volumes.iter().enumerate() {
        let field = format!("{field}.volumes[{at}]");
        let name = text(volume, &["name"]);
        let none = Map::new();
        let members = volume.as_object().unwrap_or(&none);
        let kinds: Vec<&String> = members.keys().filter(|member| *member != "name").collect();
        let is_first = |kind: &str| kinds.iter().any(|other| rank(other) < rank(kind));
        for kind in &kinds {
            if is_first(kind) {
                let problem = "may not specify more than 1 volume type";
                errors.push(FieldError::forbidden(format!("{field}.{kind}"), problem));
                continue;
            }
            let wanted = VOLUME_NAMES.iter().find(|(member, _)| member == kind);
            if let Some((_, member)) = wanted.filter(|(_, member)| text(volume, &[kind, member]).is_empty()) {
                errors.push(FieldError::required(format!("{field}.{kind}.{member}"), ""));
            }
        }
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
            continue;
        }
        let at_name = format!("{field}.name");
        let problems = names::dns_label(name);
        errors.extend(problems.iter().map(|one| FieldError::invalid(at_name.clone(), &json!(name), one)));
        if volumes.iter().take(at).any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(at_name, &json!(name)));
        }
    }
    errors
}

/// The order in which a server looks at kinds of volumes, as far as it matters.
fn rank(kind: &str) -> usize {
    let order = [
        "emptyDir",
        "hostPath",
        "gitRepo",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "flocker",
        "persistentVolumeClaim",
        "rbd",
        "cinder",
        "cephfs",
        "quobyte",
        "downwardAPI",
        "fc",
        "flexVolume",
        "configMap",
    ];
    order.iter().position(|one| *one == kind).unwrap_or(order.len())
}

/// Whether a path is one that a field reference may have.
pub(super) fn is_field_path(path: &str) -> bool {
    const KNOWN: [&str; 13] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.hostname",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let is_keyed =
        ["metadata.annotations['", "metadata.labels['"].iter().any(|start| path.starts_with(start));
    KNOWN.contains(&path) || (is_keyed && path.ends_with("']"))
}

/// Whether the object is there and says something.
pub(super) fn is_said(holder: &Value, name: &str) -> bool {
    tree::at(holder, &[name]).is_some_and(|value| !value.is_null())
}
