//! Autoscalers, disruption budgets, priorities, namespaces, and what else is small.

use serde_json::{Value, json};

use super::container::is_less;
use super::immutable;
use super::names::qualified;
use super::workload::share;
use crate::status::FieldError;
use crate::tree::{integer, members, text};

/// Errors of an autoscaler.
pub(super) fn autoscaler(object: &Value) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    let (least, most) = (integer(spec, &["minReplicas"]), integer(spec, &["maxReplicas"]).unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        let problem = "must be greater than or equal to 1";
        errors.push(FieldError::invalid("spec.minReplicas", &json!(least), problem));
    }
    if most < 1 {
        errors.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let problem = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", &json!(most), problem));
    }
    let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    for name in ["kind", "name"] {
        if text(target, &[name]).is_empty() {
            errors.push(FieldError::required(format!("spec.scaleTargetRef.{name}"), ""));
        }
    }
    if text(target, &["apiVersion"]).is_empty() && text(target, &["kind"]) != "ReplicationController" {
        let problem = "apiVersion must specify API group";
        errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", &json!(""), problem));
    }
    let has_outside = crate::tree::items(spec, &["metrics"])
        .iter()
        .any(|metric| matches!(text(metric, &["type"]), "Object" | "External"));
    if least == Some(0) && !has_outside {
        let problem =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", problem));
    }
    errors
}

/// Errors of a disruption budget.
pub(super) fn budget(object: &Value) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    if let (Some(least), Some(most)) = (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        let selector = spec.get("selector").unwrap_or(&Value::Null);
        let eviction = spec.get("unhealthyPodEvictionPolicy").unwrap_or(&Value::Null);
        let message = format!(
            "Invalid value: {{\"MinAvailable\":{least},\"Selector\":{selector},\"MaxUnavailable\":{most},\
             \"UnhealthyPodEvictionPolicy\":{eviction}}}: minAvailable and maxUnavailable cannot be both set"
        );
        errors.push(FieldError { reason: "FieldValueInvalid", field: "spec".to_owned(), message });
    }
    for name in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get(name) {
            errors.extend(share(value, &format!("spec.{name}")));
        }
    }
    if let Some(selector) = spec.get("selector") {
        errors.extend(super::selector::validate(selector, "spec.selector"));
    }
    errors
}

/// Errors of a class of priorities.
pub(super) fn priority(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const MOST: i64 = 1_000_000_000;
    let value = integer(object, &["value"]).unwrap_or(0);
    if let Some(old) = old {
        let mut errors = Vec::new();
        if integer(old, &["value"]).unwrap_or(0) != value {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        if old.get("preemptionPolicy") != object.get("preemptionPolicy") {
            errors
                .push(immutable("preemptionPolicy", object.get("preemptionPolicy").unwrap_or(&Value::Null)));
        }
        return errors;
    }
    let name = text(object, &["metadata", "name"]);
    let is_system = matches!(name, "system-node-critical" | "system-cluster-critical");
    if name.starts_with("system-") && !is_system {
        let problem = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        return vec![FieldError::forbidden("metadata.name", &problem)];
    }
    if value > MOST && !is_system {
        let problem = format!("maximum allowed value of a user defined priority is {MOST}");
        return vec![FieldError::forbidden("value", &problem)];
    }
    Vec::new()
}

/// The phase of a namespace tells whether it is being deleted.
pub(super) fn namespace(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let phase = text(object, &["status", "phase"]);
    let is_deleted = !text(object, &["metadata", "deletionTimestamp"]).is_empty();
    if old.is_none() || is_deleted == (phase != "Active") {
        return Vec::new();
    }
    let problem = if is_deleted {
        "may only be 'Terminating' if `deletionTimestamp` is not empty"
    } else {
        "may only be 'Active' if `deletionTimestamp` is empty"
    };
    vec![FieldError::invalid("status.Phase", &json!(phase), problem)]
}

/// Errors of a quota.
pub(super) fn quota(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in members(object, &["spec", "hard"]).into_iter().flatten() {
        let mut invalid = |value: &Value, problem: &str| {
            errors.push(FieldError::invalid(format!("spec.hard[{name}]"), value, problem));
        };
        for problem in qualified(name) {
            invalid(&json!(name), &problem);
        }
        if !name.contains('/') && !name.starts_with("hugepages-") && !QUOTAS.contains(&name.as_str()) {
            invalid(&json!(name), "must be a standard resource for quota");
        }
        if amount.as_str().is_some_and(|amount| is_less(amount, "0")) {
            invalid(amount, "must be greater than or equal to 0");
        }
    }
    errors
}

/// What a quota without a domain may limit.
const QUOTAS: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// Errors of a lease.
pub(super) fn lease(object: &Value) -> Vec<FieldError> {
    let found = integer(object, &["spec", "leaseDurationSeconds"]).filter(|seconds| *seconds <= 0);
    let error =
        |seconds| FieldError::invalid("spec.leaseDurationSeconds", &json!(seconds), "must be greater than 0");
    let mut errors: Vec<FieldError> = found.map(error).into_iter().collect();
    if let Some(times) = integer(object, &["spec", "leaseTransitions"]).filter(|times| *times < 0) {
        let problem = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.leaseTransitions", &json!(times), problem));
    }
    errors
}

/// Errors of a revision.
pub(super) fn revision(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let data = object.get("data").filter(|data| !data.is_null());
    match (data, old) {
        (None, _) => vec![FieldError::required("data", "data is mandatory")],
        (Some(data), Some(old)) if old.get("data") != Some(data) => vec![immutable("data", data)],
        _ => Vec::new(),
    }
}

/// An event is where the object is that it is about, unless it says when it was in the newer way.
pub(super) fn event(object: &Value) -> Vec<FieldError> {
    if object.get("eventTime").is_some_and(|time| !time.is_null()) {
        return Vec::new();
    }
    let about = text(object, &["involvedObject", "namespace"]);
    let is_in = text(object, &["metadata", "namespace"]);
    let is_fine = if about.is_empty() { matches!(is_in, "" | "default") } else { about == is_in };
    if is_fine {
        return Vec::new();
    }
    vec![FieldError::invalid("involvedObject.namespace", &json!(about), "does not match event.namespace")]
}

/// A request for a certificate is one in PEM.
pub(super) fn signing_request(object: &Value) -> Vec<FieldError> {
    use base64::Engine as _;
    let request = text(object, &["spec", "request"]);
    let decoded = base64::engine::general_purpose::STANDARD.decode(request).unwrap_or_default();
    if String::from_utf8_lossy(&decoded).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        return Vec::new();
    }
    let problem = "PEM block type must be CERTIFICATE REQUEST";
    vec![FieldError::invalid("spec.request", &json!(request), problem)]
}
