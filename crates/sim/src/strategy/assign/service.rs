//! Addresses and ports of Services. The cluster has one address family, IPv4.

use serde_json::{Value, json};

use super::texts;
use crate::strategy::Draw;
use crate::tree::{self, Members, lacks};

/// Assigns what a new Service lacks.
pub(super) fn on_create(object: &mut Value, draw: &mut dyn Draw) {
    let Some(spec) = tree::made(object, &["spec"]) else { return };
    mirror_address(spec);
    families(spec);
    address(spec, draw);
    node_ports(spec, draw);
}

/// Keeps what the old Service had and the new one does not mention, drops what only the old type needs.
pub(super) fn on_update(old: &Value, new: &mut Value, draw: &mut dyn Draw) {
    let Some(before) = old.get("spec").and_then(Value::as_object) else { return };
    let Some(spec) = tree::made(new, &["spec"]) else { return };
    if needs_address(before) && needs_address(spec) {
        keep_address(before, spec);
    }
    if needs_node_port(before) && needs_node_port(spec) {
        keep_node_ports(before, spec);
    }
    if needs_health_port(before) && needs_health_port(spec) && number(spec, "healthCheckNodePort") == 0 {
        keep(before, spec, "healthCheckNodePort");
    }
    drop_unneeded(before, spec);
    families(spec);
    address(spec, draw);
    node_ports(spec, draw);
}

fn kind(spec: &Members) -> &str {
    spec.get("type").and_then(Value::as_str).unwrap_or("ClusterIP")
}

fn number(spec: &Members, name: &str) -> i64 {
    spec.get(name).and_then(Value::as_i64).unwrap_or(0)
}

fn keep(before: &Members, spec: &mut Members, name: &str) {
    if let Some(value) = before.get(name) {
        spec.insert(name.to_owned(), value.clone());
    }
}

fn needs_address(spec: &Members) -> bool {
    kind(spec) != "ExternalName"
}

fn needs_node_port(spec: &Members) -> bool {
    match kind(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool).unwrap_or(true),
        _ => false,
    }
}

fn needs_health_port(spec: &Members) -> bool {
    let policy = spec.get("externalTrafficPolicy").and_then(Value::as_str);
    kind(spec) == "LoadBalancer" && policy == Some("Local")
}

/// The single address is the first of the list.
fn mirror_address(spec: &mut Members) {
    if texts(spec, "clusterIPs").is_empty()
        && let Some(address) = spec.get("clusterIP").filter(|_| !lacks(spec, "clusterIP")).cloned()
    {
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

fn families(spec: &mut Members) {
    if !needs_address(spec) {
        return;
    }
    let is_open = spec.get("clusterIP").and_then(Value::as_str) == Some("None")
        && spec.get("selector").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    if lacks(spec, "ipFamilyPolicy") {
        let policy = if is_open { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy".to_owned(), json!(policy));
    }
    let is_single = spec.get("ipFamilyPolicy").and_then(Value::as_str) == Some("SingleStack");
    let mut known = texts(spec, "ipFamilies");
    if known.is_empty() {
        known.push("IPv4".to_owned());
    }
    if is_open && !is_single && known.len() == 1 {
        let other = if known.contains(&"IPv4".to_owned()) { "IPv6" } else { "IPv4" };
        known.push(other.to_owned());
    }
    spec.insert("ipFamilies".to_owned(), json!(known));
}

fn address(spec: &mut Members, draw: &mut dyn Draw) {
    if needs_address(spec) && lacks(spec, "clusterIP") && texts(spec, "clusterIPs").is_empty() {
        let address = draw.cluster_ip();
        spec.insert("clusterIP".to_owned(), json!(address));
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

/// Ports of one number, say of TCP and UDP, share a node port.
fn node_ports(spec: &mut Members, draw: &mut dyn Draw) {
    if needs_node_port(spec)
        && let Some(Value::Array(ports)) = spec.get_mut("ports")
    {
        let mut known: Vec<(i64, i64)> = Vec::new();
        for port in ports.iter().filter_map(Value::as_object) {
            if number(port, "nodePort") != 0 {
                known.push((number(port, "port"), number(port, "nodePort")));
            }
        }
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            if number(port, "nodePort") != 0 {
                continue;
            }
            let wanted = number(port, "port");
            let found = known.iter().find(|(number, _)| *number == wanted).map(|(_, node)| *node);
            let node = found.unwrap_or_else(|| i64::from(draw.node_port()));
            known.push((wanted, node));
            port.insert("nodePort".to_owned(), json!(node));
        }
    }
    if needs_health_port(spec) && number(spec, "healthCheckNodePort") == 0 {
        spec.insert("healthCheckNodePort".to_owned(), json!(draw.node_port()));
    }
}

fn keep_address(before: &Members, spec: &mut Members) {
    let was = before.get("clusterIP").and_then(Value::as_str).unwrap_or("");
    let said = spec.get("clusterIP").and_then(Value::as_str).unwrap_or("");
    if said.is_empty() {
        keep(before, spec, "clusterIP");
    } else if said != was && texts(spec, "clusterIPs") == texts(before, "clusterIPs") {
        let address = json!([said]);
        spec.insert("clusterIPs".to_owned(), address);
    }
    if texts(spec, "clusterIPs").is_empty() {
        if spec.get("clusterIP") == before.get("clusterIP") {
            keep(before, spec, "clusterIPs");
        } else {
            mirror_address(spec);
        }
    }
    for name in ["ipFamilyPolicy", "ipFamilies"] {
        if spec.get(name).is_none() {
            keep(before, spec, name);
        }
    }
}

/// A port keeps its node port by its name, unless another port has taken that over.
fn keep_node_ports(before: &Members, spec: &mut Members) {
    let ports = |spec: &Members| spec.get("ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |port: &Value| tree::text(port, &["name"]).to_owned();
    let node = |port: &Value| tree::integer(port, &["nodePort"]).unwrap_or(0);
    let used: Vec<i64> = ports(spec).iter().map(node).filter(|node| *node != 0).collect();
    let old = ports(before);
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
    for port in ports {
        let was = old.iter().find(|one| name(one) == name(port)).map_or(0, node);
        if node(port) == 0
            && was != 0
            && !used.contains(&was)
            && let Some(port) = port.as_object_mut()
        {
            port.insert("nodePort".to_owned(), json!(was));
        }
    }
}

/// What the old type needed and the new one does not goes, unless the writer changed it.
fn drop_unneeded(before: &Members, spec: &mut Members) {
    let unchanged = |spec: &Members, name: &str| spec.get(name) == before.get(name);
    let mut gone: Vec<&str> = Vec::new();
    if needs_address(before) && !needs_address(spec) {
        gone.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if needs_health_port(before) && !needs_health_port(spec) {
        gone.push("healthCheckNodePort");
    }
    if kind(before) == "LoadBalancer" && kind(spec) != "LoadBalancer" {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    let is_external = |spec: &Members| {
        matches!(kind(spec), "NodePort" | "LoadBalancer") || !texts(spec, "externalIPs").is_empty()
    };
    if is_external(before) && !is_external(spec) {
        gone.push("externalTrafficPolicy");
    }
    for name in gone {
        if unchanged(spec, name) {
            spec.remove(name);
        }
    }
    if needs_node_port(before) && !needs_node_port(spec) {
        let old: Vec<i64> = before.get("ports").and_then(Value::as_array).map_or_else(Vec::new, |ports| {
            ports.iter().map(|port| tree::integer(port, &["nodePort"]).unwrap_or(0)).collect()
        });
        let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
        let same = ports.len() == old.len()
            && ports
                .iter()
                .zip(&old)
                .all(|(port, old)| tree::integer(port, &["nodePort"]).unwrap_or(0) == *old);
        if same {
            for port in ports.iter_mut().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
}
