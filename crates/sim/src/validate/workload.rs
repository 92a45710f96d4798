//! Deployments, `ReplicaSet`s, `StatefulSet`s and `DaemonSet`s.

use serde_json::{Map, Value, json};

use super::{immutable, pod, selector};
use crate::status::FieldError;
use crate::tree::{self, integer, text};

/// Members of a `StatefulSet` that may change.
const STATEFUL_SET_MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Errors of a workload with replicas of a template.
pub(super) fn validate(kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    if let Some(old) = old.filter(|old| old.get("status") != object.get("status") && kind == "Deployment") {
        return deployment_status(object, old);
    }
    if kind == "StatefulSet" {
        errors.extend(stateful_set(spec));
    }
    errors.extend(at_least_zero(spec, "spec", &["replicas"]));
    if kind != "StatefulSet" && kind != "DaemonSet" {
        errors.extend(at_least_zero(spec, "spec", &["minReadySeconds"]));
    }
    let picked = spec.get("selector").filter(|selector| !selector.is_null());
    match picked {
        None if kind == "DaemonSet" => {}
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(found) => {
            let problems = selector::validate(found, "spec.selector");
            let is_broken = !problems.is_empty();
            errors.extend(problems);
            if is_broken && kind == "Deployment" {
                errors.push(selector::invalid("spec.selector", found, "invalid label selector"));
                return finish(kind, spec, errors, object, old);
            }
            if selector::is_empty(found) {
                let problem = format!("empty selector is invalid for {}", kind.to_lowercase());
                errors.push(selector::invalid("spec.selector", found, &problem));
                return finish(kind, spec, errors, object, old);
            }
        }
    }
    let labels = tree::at(spec, &["template", "metadata", "labels"]).unwrap_or(&Value::Null);
    if !picked.is_some_and(|found| selector::matches(found, labels)) {
        let problem = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, problem));
    }
    finish(kind, spec, errors, object, old)
}

/// Numbers in the status of a Deployment, which no write of the Deployment itself changes.
fn deployment_status(object: &Value, old: &Value) -> Vec<FieldError> {
    let status = object.get("status").unwrap_or(&Value::Null);
    let numbers =
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
    let mut errors = at_least_zero(status, "status", &numbers);
    let count = |name: &str| integer(status, &[name]).unwrap_or(0);
    for name in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        if count(name) > count("replicas") {
            let problem = "cannot be greater than status.replicas";
            errors.push(FieldError::invalid(format!("status.{name}"), &json!(count(name)), problem));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let problem = "cannot be greater than readyReplicas";
        let shown = json!(count("availableReplicas"));
        errors.push(FieldError::invalid("status.availableReplicas", &shown, problem));
    }
    let collisions = |of: &Value| integer(of, &["status", "collisionCount"]);
    if let Some(was) = collisions(old) {
        let now = collisions(object);
        if now.is_none_or(|now| now < was) {
            let shown = json!(now);
            errors.push(FieldError::invalid("status.collisionCount", &shown, "cannot be decremented"));
        }
    }
    errors
}

/// The template, what rolls it out, and what may not change.
fn finish(
    kind: &str,
    spec: &Value,
    mut errors: Vec<FieldError>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let template = spec.get("template").unwrap_or(&Value::Null);
    errors.extend(pod::template(template, "spec.template"));
    let policy = text(template, &["spec", "restartPolicy"]);
    if policy != "Always" && !policy.is_empty() {
        let field = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(field, &json!(policy), &["Always"]));
    }
    match kind {
        "Deployment" => errors.extend(deployment(spec)),
        "DaemonSet" => errors.extend(daemon_set(spec)),
        _ => {}
    }
    let Some(old) = old else { return errors };
    if kind == "StatefulSet" {
        let rest = |object: &Value| -> Map<String, Value> {
            let members = tree::members(object, &["spec"]).into_iter().flatten();
            let rest = members.filter(|(name, _)| !STATEFUL_SET_MUTABLE.contains(&name.as_str()));
            rest.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        if rest(old) != rest(object) {
            errors.push(FieldError::forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                 'minReadySeconds' are forbidden",
            ));
        }
    } else if old.pointer("/spec/selector") != object.pointer("/spec/selector") {
        let found = spec.get("selector").unwrap_or(&Value::Null);
        errors.push(match found {
            Value::Null => immutable("spec.selector", found),
            found => selector::invalid("spec.selector", found, "field is immutable"),
        });
    }
    errors
}

/// Numbers that are not below zero.
pub(super) fn at_least_zero(holder: &Value, field: &str, names: &[&str]) -> Vec<FieldError> {
    let below =
        names.iter().filter_map(|name| Some((name, integer(holder, &[name]).filter(|found| *found < 0)?)));
    let error = |(name, found): (&&str, i64)| {
        FieldError::invalid(format!("{field}.{name}"), &json!(found), "must be greater than or equal to 0")
    };
    below.map(error).collect()
}

/// A strategy as the server prints it.
fn printed(strategy: &Value) -> Value {
    json!({"Type": text(strategy, &["type"]), "RollingUpdate": null})
}

/// Prints members in the order of the Go type, which is not that of the alphabet.
fn strategy_error(field: &str, reason: &'static str, strategy: &Value, rest: &str) -> FieldError {
    let kind = printed(strategy).get("Type").cloned().unwrap_or_default();
    let word = if reason == "FieldValueInvalid" { "Invalid" } else { "Unsupported" };
    let message = format!("{word} value: {{\"Type\":{kind},\"RollingUpdate\":null}}: {rest}");
    FieldError { reason, field: field.to_owned(), message }
}

fn deployment(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let strategy = spec.get("strategy").unwrap_or(&Value::Null);
    let rolling = strategy.get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match text(strategy, &["type"]) {
        "Recreate" if rolling.is_some() => errors.push(FieldError::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        "RollingUpdate" => errors.extend(rolling_update(rolling.unwrap_or(&Value::Null))),
        "Recreate" => {}
        _ => errors.push(strategy_error(
            "spec.strategy",
            "FieldValueNotSupported",
            strategy,
            "supported values: \"Recreate\", \"RollingUpdate\"",
        )),
    }
    errors.extend(at_least_zero(spec, "spec", &["revisionHistoryLimit"]));
    if let Some(deadline) = integer(spec, &["progressDeadlineSeconds"]) {
        errors.extend(at_least_zero(spec, "spec", &["progressDeadlineSeconds"]));
        if deadline <= integer(spec, &["minReadySeconds"]).unwrap_or(0) {
            let problem = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", &json!(deadline), problem));
        }
    }
    errors
}

fn rolling_update(rolling: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = "spec.strategy.rollingUpdate";
    for name in ["maxUnavailable", "maxSurge"] {
        if let Some(value) = rolling.get(name) {
            errors.extend(share(value, &format!("{field}.{name}")));
        }
    }
    let is_zero = |name: &str| match rolling.get(name) {
        Some(Value::String(text)) => text.trim_end_matches('%').parse() == Ok(0),
        Some(value) => value.as_i64() == Some(0),
        None => true,
    };
    if errors.is_empty() && is_zero("maxUnavailable") && is_zero("maxSurge") {
        let value = rolling.get("maxUnavailable").cloned().unwrap_or_default();
        let problem = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(format!("{field}.maxUnavailable"), &value, problem));
    }
    errors
}

/// A number, or a percentage of one.
pub(super) fn share(value: &Value, field: &str) -> Vec<FieldError> {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or("");
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let problem = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                               '93%', regex used for validation is '[0-9]+%')";
                return vec![FieldError::invalid(field, value, problem)];
            }
            if field.ends_with("maxSurge") || digits.parse::<u64>().is_ok_and(|found| found <= 100) {
                return Vec::new();
            }
            vec![FieldError::invalid(field, value, "must not be greater than 100%")]
        }
        value if value.as_i64().is_some_and(|found| found < 0) => {
            vec![FieldError::invalid(field, value, "must be greater than or equal to 0")]
        }
        _ => Vec::new(),
    }
}

fn daemon_set(spec: &Value) -> Vec<FieldError> {
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    match text(strategy, &["type"]) {
        "RollingUpdate" | "OnDelete" => Vec::new(),
        _ => vec![strategy_error(
            "spec.updateStrategy",
            "FieldValueNotSupported",
            strategy,
            "supported values: \"RollingUpdate\", \"OnDelete\"",
        )],
    }
}

fn stateful_set(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy = text(spec, &["podManagementPolicy"]);
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let problem = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", &json!(policy), problem));
    }
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    if !matches!(text(strategy, &["type"]), "RollingUpdate" | "OnDelete") {
        let problem = "must be 'RollingUpdate' or 'OnDelete'";
        errors.push(strategy_error("spec.updateStrategy", "FieldValueInvalid", strategy, problem));
    }
    errors
}
