use std::sync::Arc;

use tiphys_object::structural::Structural;

use super::*;
use crate::resource::Registry;

const NOW: &str = "2026-01-02T00:00:00Z";

fn cells(group: &str, version: &str, plural: &str, object: &Value) -> Vec<Value> {
    let registry = Registry::builtin();
    row_of(registry.find(group, version, plural).unwrap(), object)
}

fn row_of(resource: &Resource, object: &Value) -> Vec<Value> {
    let now = NOW.parse().unwrap();
    let made = table(resource, std::slice::from_ref(object), json!({}), IncludeObject::None, now);
    let row = made["rows"][0]["cells"].as_array().unwrap().clone();
    let shown = made["columnDefinitions"].as_array().unwrap().len();
    assert!(row.len() >= shown, "{row:?}");
    row
}

/// The status column of a Pod with these statuses.
fn pod(spec: &Value, status: &Value) -> (String, String, String) {
    let mut spec = spec.clone();
    spec["containers"] = json!([{"name": "a"}, {"name": "b"}]);
    let object = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
    let row = cells("", "v1", "pods", &object);
    let text = |at: usize| row[at].as_str().unwrap().to_owned();
    (text(1), text(2), text(3))
}

fn is(found: &(String, String, String), wanted: (&str, &str, &str)) {
    assert_eq!((found.0.as_str(), found.1.as_str(), found.2.as_str()), wanted);
}

#[test]
fn a_pod_shows_what_its_worst_container_does() {
    let crashed = json!({"phase": "Running", "containerStatuses": [
        {"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T23:00:00Z"}}},
        {"restartCount": 2, "ready": true, "state": {"running": {}}}]});
    is(&pod(&json!({}), &crashed), ("1/2", "CrashLoopBackOff", "9 (60m ago)"));
    let ended = json!({"phase": "Failed", "containerStatuses": [
        {"state": {"terminated": {"exitCode": 3}}}, {"state": {"terminated": {"exitCode": 0, "signal": 9}}}]});
    is(&pod(&json!({}), &ended), ("0/2", "ExitCode:3", "0"));
    let half = |ready: &str| {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [
            {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"ready": true, "state": {"running": {}}}]})
    };
    is(&pod(&json!({}), &half("True")), ("1/2", "Running", "0"));
    is(&pod(&json!({}), &half("False")), ("1/2", "NotReady", "0"));
    is(&pod(&json!({}), &json!({"phase": "Failed", "reason": "Evicted"})), ("0/2", "Evicted", "0"));
}

#[test]
fn a_pod_shows_its_init_containers_first() {
    let spec = json!({"initContainers": [{"name": "i", "restartPolicy": "Always"}, {"name": "j"}]});
    let starting = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "i", "started": true, "ready": true, "restartCount": 4, "state": {"running": {}}},
        {"name": "j", "restartCount": 1, "state": {"running": {}}}]});
    is(&pod(&spec, &starting), ("1/3", "Init:1/2", "5"));
    let failed = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "j", "state": {"terminated": {"exitCode": 2}}}]});
    is(&pod(&spec, &failed), ("0/3", "Init:ExitCode:2", "0"));
    let running = json!({"phase": "Running", "initContainerStatuses": [
        {"name": "i", "started": true, "ready": true, "restartCount": 4, "state": {"running": {}}},
        {"name": "j", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [{"ready": true, "state": {"running": {}}}]});
    is(&pod(&spec, &running), ("2/3", "Running", "4"));
}

#[test]
fn finished_pods_have_a_condition_in_their_row() {
    let registry = Registry::builtin();
    let object = json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}});
    let pods = registry.find("", "v1", "pods").unwrap();
    let made = table(pods, &[object], json!({}), IncludeObject::Metadata, NOW.parse().unwrap());
    assert_eq!(
        made["rows"][0]["conditions"],
        json!([{"type": "Completed", "status": "True", "reason": "Succeeded"}])
    );
    assert_eq!(
        made["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "p"}})
    );
}

#[test]
fn workloads_show_their_counts() {
    let object = json!({"metadata": {"name": "d", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}, "matchExpressions": [
            {"key": "x", "operator": "In", "values": ["b", "a"]}]},
            "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}},
        "status": {"readyReplicas": 2, "updatedReplicas": 3}});
    assert_eq!(
        json!(cells("apps", "v1", "deployments", &object)),
        json!(["d", "2/3", 3, 0, "24h", "a,b", "i:1,j", "app=d,x in (a,b)"])
    );
    let job = json!({"metadata": {"name": "j"}, "spec": {"parallelism": 3}, "status": {"succeeded": 1,
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:02:05Z",
        "conditions": [{"type": "Complete", "status": "True"}]}});
    assert_eq!(
        json!(cells("batch", "v1", "jobs", &job)),
        json!(["j", "Complete", "1/1 of 3", "2m5s", "<unknown>", "", "", "<none>"])
    );
}

#[test]
fn services_show_their_addresses() {
    let object = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"],
        "externalIPs": ["8.8.8.8"], "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"},
            {"port": 53, "protocol": "UDP"}]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "b"}, {"ip": "10.9.9.9"}]}}});
    assert_eq!(
        json!(cells("", "v1", "services", &object)),
        json!([
            "s",
            "LoadBalancer",
            "10.0.0.1",
            "10.9.9.9,b,8.8.8.8",
            "80:30080/TCP,53/UDP",
            "<unknown>",
            "<none>"
        ])
    );
    let endpoints = json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.1.1.1"}, {"ip": "::1"}],
        "ports": [{"port": 80}, {"port": 81}]}]});
    assert_eq!(
        json!(cells("", "v1", "endpoints", &endpoints)),
        json!(["e", "10.1.1.1:80,[::1]:80,10.1.1.1:81 + 1 more...", "<unknown>"])
    );
}

#[test]
fn events_of_both_groups_look_the_same() {
    let core = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Why",
        "message": " text ", "type": "Normal", "count": 3, "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T23:59:00Z", "source": {"component": "c", "host": "h"}});
    let wanted = json!(["60s", "Normal", "Why", "pod/p", "", "c, h", "text", "24h", 3, "e"]);
    assert_eq!(json!(cells("", "v1", "events", &core)), wanted);
    let new = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "reason": "Why",
        "note": "text", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 3, "lastObservedTime": "2026-01-01T23:59:00.000000Z"}, "reportingController": "c",
        "reportingInstance": "h"});
    assert_eq!(json!(cells("events.k8s.io", "v1", "events", &new)), wanted);
}

#[test]
fn autoscalers_show_two_metrics() {
    let object = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "minReplicas": 1,
        "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}},
            {"type": "External", "external": {"target": {"averageValue": "10"}}},
            {"type": "Pods", "pods": {"target": {"averageValue": "10"}}}]},
        "status": {"currentReplicas": 2, "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 20}}}]}});
    assert_eq!(
        json!(cells("autoscaling", "v2", "horizontalpodautoscalers", &object)),
        json!(["h", "Deployment/d", "cpu: 20%/50%, <unknown>/10 (avg) + 1 more...", "1", 3, 2, "<unknown>"])
    );
}

#[test]
fn autoscalers_of_version_1_show_their_metrics_too() {
    let object = json!({"apiVersion": "autoscaling/v1", "metadata": {"name": "h", "annotations": {
        "autoscaling.alpha.kubernetes.io/metrics": "[{\"type\":\"Pods\",\"pods\":{\"targetAverageValue\":\"10\"}}]"}},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}});
    let row = cells("autoscaling", "v1", "horizontalpodautoscalers", &object);
    assert_eq!(row[2], "cpu: <unknown>/50%, <unknown>/10");
}

#[test]
fn kinds_without_columns_show_when_they_were_made() {
    let object = json!({"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let row = cells("rbac.authorization.k8s.io", "v1", "clusterroles", &object);
    assert_eq!(json!(row), json!(["r", "2026-01-01T00:00:00Z"]));
}

#[test]
fn custom_resources_have_the_columns_of_their_definition() {
    let registry = Registry::builtin();
    let mut resource = Resource::clone(registry.find("", "v1", "configmaps").unwrap());
    let mut custom = Custom {
        definition: "widgets.example.com".to_owned(),
        schema: Value::Null,
        structural: Structural::default(),
        types: tiphys_object::structured::SchemaTypes::new(&Value::Null, true),
        columns: json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
            {"name": "Spec", "type": "string", "jsonPath": ".spec"},
            {"name": "None", "type": "string", "jsonPath": ".none"},
            {"name": "Wrong", "type": "integer", "jsonPath": ".metadata.name"}]),
        preserves_unknown: true,
        stored_as: None,
        warning: None,
    };
    let object = json!({"metadata": {"name": "w", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"size": 3}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    resource.custom = Some(Arc::new(custom.clone()));
    let row = row_of(&resource, &object);
    assert_eq!(json!(row), json!(["w", 3, "True", "24h", "{\"size\":3}", null, null]));
    custom.columns = Value::Null;
    resource.custom = Some(Arc::new(custom));
    assert_eq!(json!(row_of(&resource, &object)), json!(["w", "24h"]));
}

#[test]
fn every_column_has_a_type() {
    let definitions = column::definitions("Name|Up-to-date:integer|Selector*");
    assert_eq!(
        definitions,
        json!([
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Up-to-date", "type": "integer", "format": "", "description": "", "priority": 0},
            {"name": "Selector", "type": "string", "format": "", "description": "", "priority": 1}])
    );
}
