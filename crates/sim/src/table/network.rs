//! Rows of services, endpoints and ingresses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::row::{NONE, Row, UNKNOWN, UNSET, first_of};

/// Items that a cell shows before it says how many more there are.
const SHOWN: usize = 3;

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .items("/spec/ports")
        .map(|port| {
            let (number, protocol) = (port.integer("/port"), port.text_or("/protocol", "TCP"));
            match port.integer("/nodePort") {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() { NONE.to_owned() } else { ports.join(",") };
    let cluster_ip = row.first_text(&["/spec/clusterIPs/0", "/spec/clusterIP"]);
    vec![
        row.name(),
        row.text("/spec/type").into(),
        if cluster_ip.is_empty() { NONE } else { cluster_ip }.into(),
        external_ip(row).into(),
        ports.into(),
        row.age(),
        row.labels("/spec/selector").into(),
    ]
}

fn external_ip(row: &Row<'_>) -> String {
    let external = row.texts("/spec/externalIPs");
    match row.text("/spec/type") {
        "ClusterIP" | "NodePort" if external.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let mut all: Vec<&str> = load_balancer(row).into_iter().collect();
            all.extend(external);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// Addresses and names that a load balancer has, sorted.
fn load_balancer<'a>(row: &Row<'a>) -> BTreeSet<&'a str> {
    row.items("/status/loadBalancer/ingress")
        .map(|ingress| ingress.first_text(&["/ip", "/hostname"]))
        .filter(|text| !text.is_empty())
        .collect()
}

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), subsets(row).into(), row.age()]
}

fn subsets(row: &Row<'_>) -> String {
    if row.count("/subsets") == 0 {
        return NONE.to_owned();
    }
    let mut all = Vec::new();
    for subset in row.items("/subsets") {
        let addresses: Vec<&str> = subset.items("/addresses").map(|one| one.text("/ip")).collect();
        if subset.count("/ports") == 0 {
            all.extend(addresses.iter().map(|ip| (*ip).to_owned()));
        }
        for port in subset.items("/ports") {
            let port = port.integer("/port");
            let host_port = |ip: &&str| {
                if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
            };
            all.extend(addresses.iter().map(host_port));
        }
    }
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    first_of(&all, SHOWN).unwrap_or_default()
}

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .items("/ports")
        .map(|port| match (port.plain("/port"), port.at("/name").and_then(Value::as_str)) {
            (Some(number), _) => number,
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let addresses: Vec<&str> =
        row.items("/endpoints").flat_map(|endpoint| endpoint.texts("/addresses")).collect();
    vec![
        row.name(),
        row.text("/addressType").into(),
        or_unset(&ports).into(),
        or_unset(&addresses).into(),
        row.age(),
    ]
}

fn or_unset(items: &[&str]) -> String {
    first_of(items, SHOWN).filter(|text| !text.is_empty()).unwrap_or_else(|| UNSET.to_owned())
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let addresses: Vec<&str> = load_balancer(row).into_iter().collect();
    vec![
        row.name(),
        row.text_or("/spec/ingressClassName", NONE).into(),
        hosts(row).into(),
        addresses.join(",").into(),
        if row.count("/spec/tls") == 0 { "80" } else { "80, 443" }.into(),
        row.age(),
    ]
}

/// Rules without a host do not show, and only those behind three shown hosts count as more.
fn hosts(row: &Row<'_>) -> String {
    let mut shown = Vec::new();
    let mut has_more = false;
    for rule in row.items("/spec/rules") {
        has_more |= shown.len() == SHOWN;
        let host = rule.text("/host");
        if !has_more && !host.is_empty() {
            shown.push(host);
        }
    }
    let more = row.count("/spec/rules").saturating_sub(SHOWN);
    match (shown.is_empty(), has_more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {more} more...", shown.join(",")),
        (false, false) => shown.join(","),
    }
}

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let parameters = row.at("/spec/parameters").map(|_| {
        let (kind, name) = (row.text("/spec/parameters/kind"), row.text("/spec/parameters/name"));
        match row.at("/spec/parameters/apiGroup").and_then(Value::as_str) {
            Some(group) => format!("{kind}.{group}/{name}"),
            None => format!("{kind}/{name}"),
        }
    });
    vec![
        default_name(row, &["/metadata/annotations/ingressclass.kubernetes.io~1is-default-class"]).into(),
        row.text("/spec/controller").into(),
        parameters.unwrap_or_else(|| NONE.to_owned()).into(),
        row.age(),
    ]
}

/// The name, with a remark when an annotation says that this one is the default.
pub(super) fn default_name(row: &Row<'_>, annotations: &[&str]) -> String {
    let name = row.text("/metadata/name");
    let is_default = annotations.iter().any(|path| row.text(path) == "true");
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.selector("/spec/podSelector").into(), row.age()]
}

pub(super) fn service_cidr(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.texts("/spec/cidrs").join(",").into(), row.age()]
}

pub(super) fn ip_address(row: &Row<'_>) -> Vec<Value> {
    let parent = row.at("/spec/parentRef").map(|_| {
        let mut text = row.text("/spec/parentRef/resource").to_lowercase();
        for (separator, path) in [
            ('.', "/spec/parentRef/group"),
            ('/', "/spec/parentRef/namespace"),
            ('/', "/spec/parentRef/name"),
        ] {
            let part = row.text(path);
            if !part.is_empty() {
                text.push(separator);
                text.push_str(part);
            }
        }
        text
    });
    vec![row.name(), parent.unwrap_or_else(|| NONE.to_owned()).into(), row.age()]
}
