//! Defaults of controllers, services and autoscalers.

use serde_json::{Map, Value, json};

use super::fill::{TypeName, is_absent, items, made, object, set, text};

pub(super) fn fill(known: TypeName<'_>, map: &mut Map<String, Value>) {
    match (known.area, known.name) {
        ("apps", "DeploymentSpec") => {
            set(map, "replicas", 1);
            set(map, "revisionHistoryLimit", 10);
            set(map, "progressDeadlineSeconds", 600);
            fill_strategy(map, "strategy", &[("maxSurge", "25%".into()), ("maxUnavailable", "25%".into())]);
        }
        ("apps", "StatefulSetSpec") => {
            set(map, "replicas", 1);
            set(map, "podManagementPolicy", "OrderedReady");
            set(map, "revisionHistoryLimit", 10);
            fill_strategy(map, "updateStrategy", &[("partition", 0.into())]);
            if let Some(policy) = made(map, "persistentVolumeClaimRetentionPolicy") {
                set(policy, "whenDeleted", "Retain");
                set(policy, "whenScaled", "Retain");
            }
        }
        ("apps", "DaemonSetSpec") => {
            set(map, "revisionHistoryLimit", 10);
            fill_strategy(map, "updateStrategy", &[("maxUnavailable", 1.into()), ("maxSurge", 0.into())]);
        }
        ("apps" | "extensions", "ReplicaSetSpec") | ("extensions", "DeploymentSpec") => {
            set(map, "replicas", 1);
        }
        ("core", "ReplicationController") => fill_replication_controller(map),
        ("core", "ServiceSpec") => fill_service(map),
        ("batch", "Job") => fill_job(map),
        ("batch", "PodFailurePolicyOnPodConditionsPattern") => set(map, "status", "True"),
        ("batch", "CronJobSpec") => {
            set(map, "concurrencyPolicy", "Allow");
            set(map, "suspend", false);
            set(map, "successfulJobsHistoryLimit", 3);
            set(map, "failedJobsHistoryLimit", 1);
        }
        ("autoscaling", "HorizontalPodAutoscalerSpec") => {
            set(map, "minReplicas", 1);
            if known.version == "v2" {
                fill_autoscaler(map);
            }
        }
        _ => {}
    }
}

/// The update strategy is rolling unless it says otherwise, and a rolling one has numbers.
fn fill_strategy(spec: &mut Map<String, Value>, member: &str, numbers: &[(&str, Value)]) {
    let Some(strategy) = made(spec, member) else { return };
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = made(strategy, "rollingUpdate")
    {
        for (key, value) in numbers {
            set(rolling, key, value.clone());
        }
    }
}

fn template_labels(spec: &Map<String, Value>) -> Option<Map<String, Value>> {
    let labels = spec.get("template")?.get("metadata")?.get("labels")?.as_object()?;
    (!labels.is_empty()).then(|| labels.clone())
}

fn set_labels(object: &mut Map<String, Value>, labels: Map<String, Value>) {
    if let Some(metadata) = made(object, "metadata") {
        let is_empty = metadata.get("labels").is_none_or(|found| found.as_object().is_none_or(Map::is_empty));
        if is_empty {
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
    }
}

fn fill_replication_controller(controller: &mut Map<String, Value>) {
    let Some(spec) = object(controller, "spec") else { return };
    set(spec, "replicas", 1);
    if let Some(labels) = template_labels(spec) {
        set(spec, "selector", labels.clone());
        set_labels(controller, labels);
    }
}

fn fill_service(spec: &mut Map<String, Value>) {
    set(spec, "sessionAffinity", "None");
    set(spec, "type", "ClusterIP");
    if text(spec, "sessionAffinity") == "ClientIP"
        && let Some(client) = made(spec, "sessionAffinityConfig").and_then(|config| made(config, "clientIP"))
    {
        set(client, "timeoutSeconds", 10800);
    }
    for port in items(spec, "ports") {
        set(port, "protocol", "TCP");
        let is_unset = |target: &Value| target == &json!(0) || target == &json!("");
        if port.get("targetPort").is_none_or(|target| target.is_null() || is_unset(target))
            && let Some(number) = port.get("port").cloned()
        {
            port.insert("targetPort".to_owned(), number);
        }
    }
    match text(spec, "type") {
        "ClusterIP" => set(spec, "internalTrafficPolicy", "Cluster"),
        "NodePort" => {
            set(spec, "internalTrafficPolicy", "Cluster");
            set(spec, "externalTrafficPolicy", "Cluster");
        }
        "LoadBalancer" => {
            set(spec, "internalTrafficPolicy", "Cluster");
            set(spec, "externalTrafficPolicy", "Cluster");
            set(spec, "allocateLoadBalancerNodePorts", true);
        }
        _ => {}
    }
}

fn fill_job(job: &mut Map<String, Value>) {
    let Some(spec) = object(job, "spec") else { return };
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let limit = if is_absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "manualSelector", false);
    let policy = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    set(spec, "podReplacementPolicy", policy);
    if let Some(labels) = template_labels(spec) {
        set_labels(job, labels);
    }
}

fn fill_autoscaler(spec: &mut Map<String, Value>) {
    if spec.get("metrics").is_none_or(|found| found.as_array().is_none_or(Vec::is_empty)) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    let Some(behavior) = object(spec, "behavior") else { return };
    if let Some(up) = made(behavior, "scaleUp") {
        set(up, "stabilizationWindowSeconds", 0);
        set(up, "selectPolicy", "Max");
        set(
            up,
            "policies",
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}
            ]),
        );
    }
    if let Some(down) = made(behavior, "scaleDown") {
        set(down, "selectPolicy", "Max");
        set(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}
