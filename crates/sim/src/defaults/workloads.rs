//! Defaults of workloads, and of what scales them.

use serde_json::{Map, Value, json};

use crate::tree::{self, Members, default_to, lacks};

/// Old name and new name of the account mirror each other.
pub(super) fn pod_spec(members: &mut Members) {
    if !lacks(members, "serviceAccountName") {
        let name = members.get("serviceAccountName").cloned().unwrap_or_default();
        members.insert("serviceAccount".to_owned(), name);
    } else if !lacks(members, "serviceAccount") {
        let name = members.get("serviceAccount").cloned().unwrap_or_default();
        members.insert("serviceAccountName".to_owned(), name);
    }
}

/// What only Pods get: requests from limits, links to services.
pub(super) fn pod(object: &mut Value) {
    let Some(spec) = tree::existing(object, &["spec"]) else { return };
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            for container in containers {
                if let Some(resources) = container.get_mut("resources") {
                    requests_from_limits(resources);
                }
            }
        }
    }
    if let Some(resources) = spec.get_mut("resources") {
        requests_from_limits(resources);
    }
    if spec.get("enableServiceLinks").is_none_or(Value::is_null) {
        spec.insert("enableServiceLinks".to_owned(), json!(true));
    }
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        host_ports(spec);
    }
}

/// On the network of the host, the ports of containers are those of the host.
fn host_ports(spec: &mut Members) {
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers {
            let Some(Value::Array(ports)) = container.get_mut("ports") else { continue };
            for port in ports.iter_mut().filter_map(Value::as_object_mut) {
                let is_unset = port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) == 0;
                if is_unset && let Some(number) = port.get("containerPort").cloned() {
                    port.insert("hostPort".to_owned(), number);
                }
            }
        }
    }
}

/// Templates of claims say what they are.
pub(super) fn stateful_set(members: &mut Members) {
    let Some(Value::Array(claims)) = members.get_mut("volumeClaimTemplates") else { return };
    for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
        default_to(claim, "apiVersion", "v1");
        default_to(claim, "kind", "PersistentVolumeClaim");
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Value::Object(resources) = resources else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(requests) = requests {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

pub(super) fn replication_controller(members: &mut Members) {
    let Some(labels) =
        members.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned()
    else {
        return;
    };
    if let Some(Value::Object(spec)) = members.get_mut("spec") {
        spec.entry("selector").or_insert_with(|| labels.clone());
    }
    metadata_labels(members, &labels);
}

fn metadata_labels(members: &mut Members, labels: &Value) {
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        let is_empty = metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty);
        if is_empty && labels.as_object().is_some_and(|labels| !labels.is_empty()) {
            metadata.insert("labels".to_owned(), labels.clone());
        }
    }
}

fn is_rolling(members: &Members) -> bool {
    members.get("type").and_then(Value::as_str) == Some("RollingUpdate")
}

fn rolling(members: &mut Members, defaults: &[(&str, Value)]) {
    let rolling = members.entry("rollingUpdate").or_insert(Value::Null);
    if rolling.is_null() {
        *rolling = json!({});
    }
    if let Value::Object(rolling) = rolling {
        for (name, default) in defaults {
            if rolling.get(*name).is_none_or(Value::is_null) {
                rolling.insert((*name).to_owned(), default.clone());
            }
        }
    }
}

pub(super) fn deployment_strategy(members: &mut Members) {
    if is_rolling(members) {
        rolling(members, &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    }
}

pub(super) fn daemon_set_strategy(members: &mut Members) {
    if is_rolling(members) {
        rolling(members, &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
    }
}

pub(super) fn stateful_set_strategy(members: &mut Members) {
    let is_unset = lacks(members, "type");
    if is_unset {
        default_to(members, "type", "RollingUpdate");
    }
    let has_rolling = members.get("rollingUpdate").is_some_and(|rolling| !rolling.is_null());
    if is_rolling(members) && (is_unset || has_rolling) {
        rolling(members, &[("partition", json!(0))]);
    }
}

/// A Job by itself; the template of a `CronJob` stays as it is.
pub(super) fn job_spec(members: &mut Members) {
    let is_unset = |members: &Members, name: &str| members.get(name).is_none_or(Value::is_null);
    if is_unset(members, "completions") && is_unset(members, "parallelism") {
        members.insert("completions".to_owned(), json!(1));
    }
    let limit = if is_unset(members, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    let replacement = if is_unset(members, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    for (name, default) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(limit)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!(replacement)),
        ("manualSelector", json!(false)),
    ] {
        if is_unset(members, name) {
            members.insert(name.to_owned(), default);
        }
    }
}

pub(super) fn autoscaler(members: &mut Members) {
    let has_metrics = members.get("metrics").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !has_metrics {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}});
        members.insert("metrics".to_owned(), json!([metric]));
    }
    let Some(Value::Object(behavior)) = members.get_mut("behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (name, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        let rules = behavior.entry(name).or_insert(Value::Null);
        if rules.is_null() {
            *rules = json!({});
        }
        let (Value::Object(rules), Value::Object(defaults)) = (rules, defaults) else { continue };
        for (name, default) in defaults {
            if rules.get(&name).is_none_or(Value::is_null) {
                rules.insert(name, default);
            }
        }
    }
}
