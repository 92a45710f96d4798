//! Rows of everything else: configuration, nodes, events, access, policies.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::age;
use super::row::{NONE, Row, UNKNOWN, UNSET};

pub(super) fn name_and_age(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

pub(super) fn namespace(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/status/phase").into(), row.age()]
}

pub(super) fn config_map(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), (row.count("/data") + row.count("/binaryData")).into(), row.age()]
}

pub(super) fn secret(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/type").into(), row.count("/data").into(), row.age()]
}

pub(super) fn component_status(row: &Row<'_>) -> Vec<Value> {
    let healthy = row.items("/conditions").find(|one| one.text("/type") == "Healthy");
    let text = |path| healthy.map_or("", |one| one.text(path));
    let status = match healthy.map(|one| one.text("/status")) {
        None => "Unknown",
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
    };
    vec![row.name(), status.into(), text("/message").into(), text("/error").into()]
}

/// The members have other names in `events.k8s.io/v1`.
pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let since = |paths: &[&str]| {
        let found = paths.iter().find_map(|path| row.time(path));
        age::between(found, row.now)
    };
    let first = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
    let last = ["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"];
    let [series_last, ..] = last;
    let last_seen = if row.at("/series").is_some() {
        since(&[series_last])
    } else {
        since(&[&last[..], &first[..]].concat())
    };
    let count = ["/series/count", "/count", "/deprecatedCount"]
        .iter()
        .map(|path| row.integer(path))
        .find(|count| *count != 0)
        .unwrap_or(1);
    let kind = row.first_text(&["/involvedObject/kind", "/regarding/kind"]).to_lowercase();
    let object = match row.first_text(&["/involvedObject/name", "/regarding/name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last_seen.into(),
        row.text("/type").into(),
        row.text("/reason").into(),
        object.into(),
        row.first_text(&["/involvedObject/fieldPath", "/regarding/fieldPath"]).into(),
        event_source(row).into(),
        row.first_text(&["/message", "/note"]).trim().into(),
        since(&first).into(),
        count.into(),
        row.name(),
    ]
}

fn event_source(row: &Row<'_>) -> String {
    let component = row.first_text(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    let host = row.first_text(&["/source/host", "/deprecatedSource/host", "/reportingInstance"]);
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let mut status = match row.condition("Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.is_set("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |r#type: &str| -> Value {
        let found = row.items("/status/addresses").find(|one| one.text("/type") == r#type);
        found.map_or(NONE, |one| one.text("/address")).into()
    };
    let mut kernel = row.filled_or("/status/nodeInfo/kernelVersion", UNKNOWN).to_owned();
    let architecture = row.text("/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        let _ = write!(kernel, " ({architecture})");
    }
    vec![
        row.name(),
        status.into(),
        roles(row).into(),
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        row.filled_or("/status/nodeInfo/osImage", UNKNOWN).into(),
        kernel.into(),
        row.filled_or("/status/nodeInfo/containerRuntimeVersion", UNKNOWN).into(),
    ]
}

fn roles(row: &Row<'_>) -> String {
    let labels = row.at("/metadata/labels").and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => value.as_str().filter(|_| key == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<&str> = roles.into_iter().collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

pub(super) fn resource_quota(row: &Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let used = row.at("/status/used").and_then(Value::as_object);
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (name, hard) in row.at("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = used.and_then(|used| used.get(name)).map_or_else(|| "0".to_owned(), plain);
        let text = format!("{name}: {used}/{}", plain(hard));
        if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
}

pub(super) fn role_binding(row: &Row<'_>) -> Vec<Value> {
    let of = |kind: &str| -> Value {
        let subjects = row.items("/subjects").filter(|one| one.text("/kind") == kind);
        let names: Vec<String> = subjects
            .map(|one| match one.text("/namespace") {
                namespace if kind == "ServiceAccount" && !namespace.is_empty() => {
                    format!("{namespace}/{}", one.text("/name"))
                }
                _ => one.text("/name").to_owned(),
            })
            .collect();
        names.join(", ").into()
    };
    let role = format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name"));
    vec![row.name(), role.into(), row.age(), of("User"), of("Group"), of("ServiceAccount")]
}

pub(super) fn lease(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/spec/holderIdentity").into(), row.age()]
}

pub(super) fn priority_class(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.integer("/value").into(),
        row.is_set("/globalDefault").into(),
        row.age(),
        row.text("/preemptionPolicy").into(),
    ]
}

pub(super) fn runtime_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/handler").into(), row.age()]
}

pub(super) fn webhooks(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count("/webhooks").into(), row.age()]
}

pub(super) fn validating_policy(row: &Row<'_>) -> Vec<Value> {
    policy(row, "/spec/validations")
}

pub(super) fn mutating_policy(row: &Row<'_>) -> Vec<Value> {
    policy(row, "/spec/mutations")
}

fn policy(row: &Row<'_>, rules: &str) -> Vec<Value> {
    let parameters = row.at("/spec/paramKind").map_or_else(
        || UNSET.to_owned(),
        |_| format!("{}/{}", row.text("/spec/paramKind/apiVersion"), row.text("/spec/paramKind/kind")),
    );
    vec![row.name(), row.count(rules).into(), parameters.into(), row.age()]
}

pub(super) fn policy_binding(row: &Row<'_>) -> Vec<Value> {
    let name = row.text("/spec/paramRef/name");
    let parameters = match row.text("/spec/paramRef/namespace") {
        _ if name.is_empty() && row.at("/spec/paramRef/selector").is_some() => {
            row.selector("/spec/paramRef/selector")
        }
        _ if name.is_empty() => UNSET.to_owned(),
        "" => format!("*/{name}"),
        namespace => format!("{namespace}/{name}"),
    };
    vec![row.name(), row.text("/spec/policyName").into(), parameters.into(), row.age()]
}

pub(super) fn api_service(row: &Row<'_>) -> Vec<Value> {
    let service = row.at("/spec/service").map_or_else(
        || "Local".to_owned(),
        |_| format!("{}/{}", row.text("/spec/service/namespace"), row.text("/spec/service/name")),
    );
    let condition = row.items("/status/conditions").find(|one| one.text("/type") == "Available");
    let available = condition.map_or_else(
        || "Unknown".to_owned(),
        |one| match one.text("/status") {
            "True" => "True".to_owned(),
            status => format!("{status} ({})", one.text("/reason")),
        },
    );
    vec![row.name(), service.into(), available.into(), row.age()]
}

pub(super) fn signing_request(row: &Row<'_>) -> Vec<Value> {
    let has = |r#type| row.condition(r#type).is_some();
    let mut status = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row.at("/spec/expirationSeconds").and_then(Value::as_i64);
    vec![
        row.name(),
        row.age(),
        row.filled_or("/spec/signerName", NONE).into(),
        row.text("/spec/username").into(),
        duration.map_or_else(|| NONE.to_owned(), age::human).into(),
        status.into(),
    ]
}

pub(super) fn flow_schema(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/priorityLevelConfiguration/name").into(),
        row.integer("/spec/matchingPrecedence").into(),
        row.text_or("/spec/distinguisherMethod/type", NONE).into(),
        row.age(),
        row.condition("Dangling").unwrap_or("?").into(),
    ]
}

pub(super) fn priority_level(row: &Row<'_>) -> Vec<Value> {
    let number = |path: &str| row.at(path).cloned().unwrap_or_else(|| NONE.into());
    vec![
        row.name(),
        row.text("/spec/type").into(),
        number("/spec/limited/nominalConcurrencyShares"),
        number("/spec/limited/limitResponse/queuing/queues"),
        number("/spec/limited/limitResponse/queuing/handSize"),
        number("/spec/limited/limitResponse/queuing/queueLengthLimit"),
        row.age(),
    ]
}

pub(super) fn resource_claim(row: &Row<'_>) -> Vec<Value> {
    let is_allocated = row.at("/status/allocation").is_some();
    let states = [
        ("deleted", row.is_terminating()),
        ("pending", !is_allocated && !row.is_terminating()),
        ("allocated", is_allocated),
        ("reserved", is_allocated && row.count("/status/reservedFor") > 0),
    ];
    let states: Vec<&str> = states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect();
    vec![row.name(), states.join(",").into(), row.age()]
}

pub(super) fn resource_slice(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/nodeName").into(),
        row.text("/spec/driver").into(),
        row.text("/spec/pool/name").into(),
        row.age(),
    ]
}
