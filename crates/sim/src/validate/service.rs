//! Services.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::container::{port_name, port_number, protocol};
use super::{metadata, names};
use crate::status::FieldError;
use crate::tree::{self, integer, items, text};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// Errors of a Service.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    let kind = text(spec, &["type"]);
    let (address, name) = (text(spec, &["clusterIP"]), text(spec, &["externalName"]));
    if let Some(old) = old {
        errors.extend(kept_address(spec, old));
    }
    let ports = items(spec, &["ports"]);
    if ports.is_empty() && address != "None" && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if matches!(kind, "NodePort" | "LoadBalancer") && address == "None" {
        let problem = format!("may not be set to 'None' for {kind} services");
        errors.push(FieldError::invalid("spec.clusterIPs[0]", &json!("None"), &problem));
    }
    if kind == "ExternalName" {
        if !address.is_empty() {
            let problem = "may not be set when `type` is 'ExternalName'";
            errors.push(FieldError::forbidden("spec.clusterIPs", problem));
        }
        if name.is_empty() {
            errors.push(FieldError::required("spec.externalName", ""));
        } else {
            let problems = names::dns_subdomain(name);
            errors.extend(
                problems.iter().map(|one| FieldError::invalid("spec.externalName", &json!(name), one)),
            );
        }
    }
    let is_named = ports.len() > 1;
    for at in 0..ports.len() {
        errors.extend(port(ports, at, is_named, &format!("spec.ports[{at}]")));
    }
    errors.extend(metadata::labels(spec, &["selector"], "spec.selector"));
    errors.extend(one_of(spec, "sessionAffinity", &["ClientIP", "None"]));
    for (list, field) in [("clusterIPs", "spec.clusterIPs"), ("externalIPs", "spec.externalIPs")] {
        for (at, found) in items(spec, &[list]).iter().enumerate() {
            let said = found.as_str().unwrap_or("");
            if said != "None" && said.parse::<IpAddr>().is_err() {
                let problem = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(FieldError::invalid(format!("{field}[{at}]"), found, problem));
            }
        }
    }
    for (at, family) in items(spec, &["ipFamilies"]).iter().enumerate() {
        if !matches!(family.as_str(), Some("IPv4" | "IPv6")) {
            errors.push(FieldError::not_supported(
                format!("spec.ipFamilies[{at}]"),
                family,
                &["IPv4", "IPv6"],
            ));
        }
    }
    if kind.is_empty() {
        errors.push(FieldError::required("spec.type", ""));
    } else if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported("spec.type", &json!(kind), &TYPES));
    }
    if kind == "ClusterIP" {
        let is_open = |port: &&(usize, &Value)| integer(port.1, &["nodePort"]).unwrap_or(0) != 0;
        for (at, _) in ports.iter().enumerate().collect::<Vec<_>>().iter().filter(is_open) {
            let problem = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("spec.ports[{at}].nodePort"), problem));
        }
    }
    errors.extend(doubled(ports));
    errors.extend(policies(spec, kind));
    errors
}

fn one_of(spec: &Value, name: &str, known: &[&str]) -> Option<FieldError> {
    let said = text(spec, &[name]);
    let is_wrong = !said.is_empty() && !known.contains(&said);
    is_wrong.then(|| FieldError::not_supported(format!("spec.{name}"), &json!(said), known))
}

fn port(ports: &[Value], at: usize, is_named: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(port) = ports.get(at) else { return errors };
    let name = text(port, &["name"]);
    if name.is_empty() && is_named {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    } else if !name.is_empty() {
        let at_name = format!("{field}.name");
        let problems = names::dns_label(name);
        errors.extend(problems.iter().map(|one| FieldError::invalid(at_name.clone(), &json!(name), one)));
        if ports.iter().take(at).any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(at_name, &json!(name)));
        }
    }
    errors.extend(port_number(integer(port, &["port"]).unwrap_or(0), format!("{field}.port")));
    errors.extend(protocol(port, field));
    let target = format!("{field}.targetPort");
    match port.get("targetPort") {
        Some(Value::String(said)) => {
            errors.extend(port_name(said).map(|problem| FieldError::invalid(target, &json!(said), problem)));
        }
        Some(number) => {
            let found = number.as_i64().unwrap_or(0);
            errors.extend(port_number(found, target));
        }
        None => {}
    }
    errors
}

/// Ports that nothing tells apart.
fn doubled(ports: &[Value]) -> Vec<FieldError> {
    let key = |port: &Value| (text(port, &["protocol"]).to_owned(), integer(port, &["port"]));
    let twice = |(at, port): &(usize, &Value)| ports.iter().take(*at).any(|other| key(other) == key(port));
    let error = |(at, port): (usize, &Value)| {
        let message = format!(
            "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
            json!(text(port, &["protocol"])),
            integer(port, &["port"]).unwrap_or(0)
        );
        FieldError { reason: "FieldValueDuplicate", field: format!("spec.ports[{at}]"), message }
    };
    ports.iter().enumerate().filter(twice).map(error).collect()
}

fn policies(spec: &Value, kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ranges = items(spec, &["loadBalancerSourceRanges"]);
    if !ranges.is_empty() && kind != "LoadBalancer" {
        let problem = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", problem));
    }
    let external = text(spec, &["externalTrafficPolicy"]);
    let is_external =
        matches!(kind, "NodePort" | "LoadBalancer") || !items(spec, &["externalIPs"]).is_empty();
    if !external.is_empty() && !is_external {
        let problem = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid("spec.externalTrafficPolicy", &json!(external), problem));
    } else {
        errors.extend(one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"]));
    }
    errors.extend(one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"]));
    errors
}

/// An address stays as long as there is one.
fn kept_address(spec: &Value, old: &Value) -> Option<FieldError> {
    let before = old.get("spec").unwrap_or(&Value::Null);
    let was = text(before, &["clusterIP"]);
    let is_kept = text(before, &["type"]) == "ExternalName" || text(spec, &["type"]) == "ExternalName";
    if is_kept || was.is_empty() || was == text(spec, &["clusterIP"]) {
        return None;
    }
    let addresses = tree::at(spec, &["clusterIPs"]).cloned().unwrap_or_default();
    Some(FieldError::invalid("spec.clusterIPs[0]", &addresses, "may not change once set"))
}
