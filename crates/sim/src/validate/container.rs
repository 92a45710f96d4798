//! Containers.

use serde_json::{Value, json};
use tiphys_object::quantity::Quantity;

use super::pod::{is_field_path, is_said};
use super::{names, workload};
use crate::status::FieldError;
use crate::tree::{integer, items, members, text};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Errors of all containers of a spec whose volumes have these names.
pub(super) fn all(spec: &Value, field: &str, volumes: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let main = items(spec, &["containers"]);
    if main.is_empty() {
        errors.push(FieldError::required(format!("{field}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        for (at, container) in items(spec, &[list]).iter().enumerate() {
            let field = format!("{field}.{list}[{at}]");
            let name = text(container, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{field}.name"), ""));
            } else {
                let at_name = format!("{field}.name");
                let problems = names::dns_label(name);
                errors.extend(
                    problems.iter().map(|one| FieldError::invalid(at_name.clone(), &json!(name), one)),
                );
                if seen.contains(&name) {
                    errors.push(FieldError::duplicate(at_name, &json!(name)));
                }
                seen.push(name);
            }
            errors.extend(one(container, &field, volumes));
        }
    }
    errors
}

fn one(container: &Value, field: &str, volumes: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let image = text(container, &["image"]);
    if image.is_empty() {
        errors.push(FieldError::required(format!("{field}.image"), ""));
    } else if image.trim() != image && !field.contains("template") {
        // Templates may say what Pods may not.
        let problem = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{field}.image"), &json!(image), problem));
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get(name).filter(|probe| probe.is_object()) {
            errors.extend(self::probe(probe, &format!("{field}.{name}"), name != "readinessProbe"));
        }
    }
    errors.extend(ports(container, field));
    errors.extend(variables(container, field));
    errors.extend(mounts(container, field, volumes));
    let policy = text(container, &["imagePullPolicy"]);
    if !policy.is_empty() && !PULL_POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(
            format!("{field}.imagePullPolicy"),
            &json!(policy),
            &PULL_POLICIES,
        ));
    }
    errors.extend(resources(container, field));
    errors
}

/// A port number.
pub(super) fn port_number(found: i64, field: String) -> Option<FieldError> {
    let problem = "must be between 1 and 65535, inclusive";
    (!(1..=65535).contains(&found)).then(|| FieldError::invalid(field, &json!(found), problem))
}

/// The name of a port; the first problem is told.
pub(super) fn port_name(name: &str) -> Option<&'static str> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 15 {
        Some("must be no more than 15 characters")
    } else if !name.bytes().all(is_inner) {
        Some("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    } else if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Some("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Some("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("must not begin or end with a hyphen")
    } else {
        None
    }
}

fn ports(container: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ports = items(container, &["ports"]);
    for (at, port) in ports.iter().enumerate() {
        let field = format!("{field}.ports[{at}]");
        let name = text(port, &["name"]);
        if let Some(problem) = port_name(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(format!("{field}.name"), &json!(name), problem));
        } else if !name.is_empty() && ports.iter().take(at).any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), &json!(name)));
        }
        match integer(port, &["containerPort"]).unwrap_or(0) {
            0 => errors.push(FieldError::required(format!("{field}.containerPort"), "")),
            found => errors.extend(port_number(found, format!("{field}.containerPort"))),
        }
        if let Some(host) = integer(port, &["hostPort"]).filter(|host| *host != 0) {
            errors.extend(port_number(host, format!("{field}.hostPort")));
        }
        errors.extend(protocol(port, &field));
    }
    errors
}

/// The protocol of a port.
pub(super) fn protocol(port: &Value, field: &str) -> Option<FieldError> {
    let said = text(port, &["protocol"]);
    if said.is_empty() {
        return Some(FieldError::required(format!("{field}.protocol"), ""));
    }
    (!PROTOCOLS.contains(&said))
        .then(|| FieldError::not_supported(format!("{field}.protocol"), &json!(said), &PROTOCOLS))
}

fn variables(container: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, variable) in items(container, &["env"]).iter().enumerate() {
        let field = format!("{field}.env[{at}]");
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
            let problem = "a valid environment variable name must consist only of printable ASCII characters other than \
                           '='";
            errors.push(FieldError::invalid(format!("{field}.name"), &json!(name), problem));
        }
        if let Some(from) = variable.get("valueFrom").filter(|from| from.is_object()) {
            let has_value = !text(variable, &["value"]).is_empty();
            errors.extend(source(from, has_value, &format!("{field}.valueFrom")));
        }
    }
    errors
}

fn source(from: &Value, has_value: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let said: Vec<&str> = SOURCES.into_iter().filter(|name| is_said(from, name)).collect();
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if !said.contains(&name) {
            continue;
        }
        let key = text(from, &[name, "key"]);
        let at = format!("{field}.{name}.key");
        if key.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else {
            let problems = names::config_key(key);
            errors.extend(problems.iter().map(|one| FieldError::invalid(at.clone(), &json!(key), one)));
        }
    }
    if said.contains(&"fieldRef") {
        let path = text(from, &["fieldRef", "fieldPath"]);
        let at = format!("{field}.fieldRef.fieldPath");
        if path.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !is_field_path(path) {
            let problem = format!("error converting fieldPath: field label not supported: {path}");
            errors.push(FieldError::invalid(at, &json!(path), &problem));
        }
    }
    let problem = match (said.len(), has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, _) => return errors,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(field, &json!(""), problem));
    errors
}

fn mounts(container: &Value, field: &str, volumes: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mounts = items(container, &["volumeMounts"]);
    for (at, mount) in mounts.iter().enumerate() {
        let field = format!("{field}.volumeMounts[{at}]");
        let (name, path) = (text(mount, &["name"]), text(mount, &["mountPath"]));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        }
        if !volumes.contains(&name) {
            let message = format!("Not found: {}", json!(name));
            errors.push(FieldError { reason: "FieldValueNotFound", field: format!("{field}.name"), message });
        }
        if path.is_empty() {
            errors.push(FieldError::required(format!("{field}.mountPath"), ""));
        } else if mounts.iter().take(at).any(|other| text(other, &["mountPath"]) == path) {
            errors.push(FieldError::invalid(format!("{field}.mountPath"), &json!(path), "must be unique"));
        }
    }
    errors
}

fn probe(probe: &Value, field: &str, is_vital: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let said: Vec<&str> = HANDLERS.into_iter().filter(|name| is_said(probe, name)).collect();
    for (at, name) in said.iter().enumerate() {
        let field = format!("{field}.{name}");
        if at > 0 {
            errors.push(FieldError::forbidden(field, "may not specify more than 1 handler type"));
            continue;
        }
        if *name == "exec" && items(probe, &["exec", "command"]).is_empty() {
            errors.push(FieldError::required(format!("{field}.command"), ""));
        }
        if let Some(port) = integer(probe, &[name, "port"]) {
            errors.extend(port_number(port, format!("{field}.port")));
        } else if let Some(problem) = port_name(text(probe, &[name, "port"])).filter(|_| *name != "exec") {
            let port = text(probe, &[name, "port"]);
            errors.push(FieldError::invalid(format!("{field}.port"), &json!(port), problem));
        }
    }
    if said.is_empty() {
        errors.push(FieldError::required(field, "must specify a handler type"));
    }
    let numbers =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    errors.extend(workload::at_least_zero(probe, field, &numbers));
    if let Some(found) = integer(probe, &["successThreshold"]).filter(|found| is_vital && *found != 1) {
        errors.push(FieldError::invalid(format!("{field}.successThreshold"), &json!(found), "must be 1"));
    }
    errors
}

fn resources(container: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let limit = |name: &str| text(container, &["resources", "limits", name]);
    for list in ["limits", "requests"] {
        for (name, amount) in members(container, &["resources", list]).into_iter().flatten() {
            let field = format!("{field}.resources.{list}[{name}]");
            let amount = amount.as_str().unwrap_or("");
            if !is_standard(name) {
                for problem in [
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                ] {
                    errors.push(FieldError::invalid(field.clone(), &json!(name), problem));
                }
            }
            if is_less(amount, "0") {
                let problem = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(field, &json!(amount), problem));
            }
        }
    }
    for (name, amount) in members(container, &["resources", "requests"]).into_iter().flatten() {
        let amount = amount.as_str().unwrap_or("");
        if !limit(name).is_empty() && is_less(limit(name), amount) {
            let problem = format!("must be less than or equal to {name} limit of {}", limit(name));
            errors.push(FieldError::invalid(format!("{field}.resources.requests"), &json!(amount), &problem));
        }
    }
    errors
}

/// Whether one amount is less than another; amounts that cannot be read are not.
pub(super) fn is_less(a: &str, b: &str) -> bool {
    match (Quantity::parse(a), Quantity::parse(b)) {
        (Ok(a), Ok(b)) => a.compare(&b).is_lt(),
        _ => false,
    }
}

fn is_standard(name: &str) -> bool {
    name.contains('/')
        || name.starts_with("hugepages-")
        || matches!(name, "cpu" | "memory" | "ephemeral-storage")
}
