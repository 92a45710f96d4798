//! Ingresses and network policies.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{immutable, names};
use crate::status::FieldError;
use crate::tree::{items, text};

const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

/// Errors of an Ingress.
pub(super) fn ingress(object: &Value) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    let rules = items(spec, &["rules"]);
    let backend = spec.get("defaultBackend").filter(|backend| !backend.is_null());
    if rules.is_empty() && backend.is_none() {
        let problem = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", &Value::Null, problem));
    }
    if let Some(backend) = backend {
        errors.extend(self::backend(backend, "spec.defaultBackend"));
    }
    for (at, tls) in items(spec, &["tls"]).iter().enumerate() {
        for (index, host) in items(tls, &["hosts"]).iter().enumerate() {
            let said = host.as_str().unwrap_or("");
            let problems = host_problems(said);
            let field = format!("spec.tls[{at}].hosts[{index}]");
            errors.extend(problems.iter().map(|one| FieldError::invalid(field.clone(), host, one)));
        }
    }
    for (at, rule) in rules.iter().enumerate() {
        errors.extend(self::rule(rule, &format!("spec.rules[{at}]")));
    }
    let class = text(spec, &["ingressClassName"]);
    if !class.is_empty() {
        let problems = names::dns_subdomain(class);
        errors.extend(
            problems.iter().map(|one| FieldError::invalid("spec.ingressClassName", &json!(class), one)),
        );
    }
    errors
}

/// A name, with or without an asterisk before it.
fn host_problems(host: &str) -> Vec<String> {
    match host.strip_prefix("*.") {
        Some(rest) if names::dns_subdomain(rest).is_empty() => Vec::new(),
        Some(_) => vec![
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
             lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
             '*.example.com', regex used for validation is \
             '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        ],
        None => names::dns_subdomain(host),
    }
}

fn rule(rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let host = text(rule, &["host"]);
    if host.parse::<IpAddr>().is_ok() {
        let problem = "must be a DNS name, not an IP address";
        errors.push(FieldError::invalid(format!("{field}.host"), &json!(host), problem));
    } else if !host.is_empty() {
        let problems = host_problems(host);
        errors.extend(
            problems.iter().map(|one| FieldError::invalid(format!("{field}.host"), &json!(host), one)),
        );
    }
    let Some(http) = rule.get("http").filter(|http| !http.is_null()) else { return errors };
    let paths = items(http, &["paths"]);
    if paths.is_empty() {
        errors.push(FieldError::required(format!("{field}.http.paths"), ""));
    }
    for (at, path) in paths.iter().enumerate() {
        errors.extend(self::path(path, &format!("{field}.http.paths[{at}]")));
    }
    errors
}

fn path(path: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let said = text(path, &["path"]);
    let invalid = |problem: &str| FieldError::invalid(format!("{field}.path"), &json!(said), problem);
    match text(path, &["pathType"]) {
        "" => return vec![FieldError::required(format!("{field}.pathType"), "pathType must be specified")],
        "Exact" | "Prefix" => {
            if !said.starts_with('/') {
                errors.push(invalid("must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| said.contains(part)) {
                errors.push(invalid(&format!("must not contain '{part}'")));
            }
            for end in ["/..", "/."].into_iter().filter(|end| said.ends_with(end)) {
                errors.push(invalid(&format!("cannot end with '{end}'")));
            }
        }
        "ImplementationSpecific" => {
            if !said.is_empty() && !said.starts_with('/') {
                errors.push(invalid("must be an absolute path"));
            }
        }
        other => {
            errors.push(FieldError::not_supported(format!("{field}.pathType"), &json!(other), &PATH_TYPES));
        }
    }
    let backend = path.get("backend").unwrap_or(&Value::Null);
    errors.extend(self::backend(backend, &format!("{field}.backend")));
    errors
}

fn backend(backend: &Value, field: &str) -> Vec<FieldError> {
    let has = |name: &str| backend.get(name).is_some_and(|one| !one.is_null());
    let invalid = |problem: &str| vec![FieldError::invalid(field, &json!(""), problem)];
    match (has("resource"), has("service")) {
        (true, true) => return invalid("cannot set both resource and service backends"),
        (true, false) => return Vec::new(),
        (false, false) => return invalid("resource or service backend is required"),
        (false, true) => {}
    }
    let mut errors = Vec::new();
    let name = text(backend, &["service", "name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.service.name"), ""));
    } else {
        let problems = names::dns_label(name);
        let at = format!("{field}.service.name");
        errors.extend(problems.iter().map(|one| FieldError::invalid(at.clone(), &json!(name), one)));
    }
    let port = |name: &str| backend.pointer(&format!("/service/port/{name}")).cloned();
    let number = port("number").and_then(|number| number.as_i64()).unwrap_or(0);
    let has_name = port("name").is_some_and(|name| name.as_str().is_some_and(|name| !name.is_empty()));
    match (has_name, number) {
        (false, 0) => errors.push(FieldError::required(field, "port name or number is required")),
        (true, 0) => {}
        (true, _) => {
            errors.push(FieldError::invalid(field, &json!(""), "cannot set both port name & port number"));
        }
        (false, found) => {
            errors.extend(super::container::port_number(found, format!("{field}.service.port.number")));
        }
    }
    errors
}

/// Errors of a class of Ingresses.
pub(super) fn class(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let controller = text(object, &["spec", "controller"]);
    if controller.is_empty() {
        return vec![FieldError::required("spec.controller", "")];
    }
    let changed = old.is_some_and(|old| text(old, &["spec", "controller"]) != controller);
    if changed { vec![immutable("spec.controller", &json!(controller))] } else { Vec::new() }
}

/// Errors of a network policy.
pub(super) fn policy(object: &Value) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors =
        super::selector::validate(spec.get("podSelector").unwrap_or(&Value::Null), "spec.podSelector");
    for (list, member) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in items(spec, &[list]).iter().enumerate() {
            for (index, peer) in items(rule, &[member]).iter().enumerate() {
                errors.extend(self::peer(peer, &format!("spec.{list}[{at}].{member}[{index}]")));
            }
        }
    }
    for (at, kind) in items(spec, &["policyTypes"]).iter().enumerate() {
        if !matches!(kind.as_str(), Some("Ingress" | "Egress")) {
            let field = format!("spec.policyTypes[{at}]");
            errors.push(FieldError::not_supported(field, kind, &["Ingress", "Egress"]));
        }
    }
    errors
}

fn peer(peer: &Value, field: &str) -> Vec<FieldError> {
    let has = |name: &str| peer.get(name).is_some_and(|one| !one.is_null());
    let has_selector = has("podSelector") || has("namespaceSelector");
    if !has("ipBlock") {
        return if has_selector {
            Vec::new()
        } else {
            vec![FieldError::required(field, "must specify a peer")]
        };
    }
    if has_selector {
        return vec![FieldError::forbidden(field, "may not specify both ipBlock and another peer")];
    }
    let said = text(peer, &["ipBlock", "cidr"]);
    let bits = said.split_once('/').and_then(|(address, bits)| {
        let most = if address.parse::<IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().ok().filter(|bits| *bits <= most)
    });
    if bits.is_some() {
        return Vec::new();
    }
    let problem = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    vec![FieldError::invalid(format!("{field}.ipBlock.cidr"), &json!(said), problem)]
}
