//! `autoscaling/v1` knows one metric, the use of CPU; everything else it keeps as text in annotations.

use serde_json::{Map, Value, json};
use tiphys_object::access::{ensure_object, member_object_mut, text};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Members of a metric in version 2 (`/` separates levels), and in version 1.
type Members = &'static [(&'static str, &'static str)];

const SOURCES: &[(&str, Members)] = &[
    (
        "resource",
        &[
            ("name", "name"),
            ("target/averageUtilization", "targetAverageUtilization"),
            ("target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name"),
            ("container", "container"),
            ("target/averageUtilization", "targetAverageUtilization"),
            ("target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metric/name", "metricName"),
            ("metric/selector", "selector"),
            ("target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "object",
        &[
            ("describedObject", "target"),
            ("metric/name", "metricName"),
            ("metric/selector", "selector"),
            ("target/value", "targetValue"),
            ("target/averageValue", "averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("metric/name", "metricName"),
            ("metric/selector", "metricSelector"),
            ("target/value", "targetValue"),
            ("target/averageValue", "targetAverageValue"),
        ],
    ),
];

/// Whether a metric says what should be, or what is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Target,
    Current,
}

impl Side {
    /// The name of a member on this side; the tables have those of targets.
    fn of(self, name: &str) -> String {
        match (self, name.strip_prefix("target")) {
            // `target` alone is the object that is looked at.
            (Self::Current, Some(rest)) if !rest.is_empty() => format!("current{rest}"),
            _ => name.to_owned(),
        }
    }
}

/// From version 2 to version 1.
pub(super) fn to_v1(members: &mut Map<String, Value>) {
    let spec = member_object_mut(members, "spec");
    let metrics = taken_list(spec, "metrics");
    let behavior = spec.remove("behavior").filter(|behavior| !behavior.is_null());
    let (cpu, others): (Vec<Value>, Vec<Value>) =
        metrics.into_iter().partition(|metric| cpu_use(metric, "target").is_some());
    if let Some(percent) = cpu.first().and_then(|metric| cpu_use(metric, "target")) {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
    }
    let mut notes = Map::new();
    if !others.is_empty() {
        let others: Vec<Value> = others.iter().map(|metric| metric_to_v1(metric, Side::Target)).collect();
        notes.insert(METRICS.to_owned(), json!(json!(others).to_string()));
    }
    if let Some(behavior) = behavior {
        notes.insert(BEHAVIOR.to_owned(), json!(behavior.to_string()));
    }
    if members.contains_key("status") {
        let status = member_object_mut(members, "status");
        let current = taken_list(status, "currentMetrics");
        if let Some(percent) = current.iter().find_map(|metric| cpu_use(metric, "current")) {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        status.entry("currentReplicas").or_insert_with(|| json!(0));
        let conditions = taken_list(status, "conditions");
        if !current.is_empty() {
            let all: Vec<Value> = current.iter().map(|metric| metric_to_v1(metric, Side::Current)).collect();
            notes.insert(CURRENT_METRICS.to_owned(), json!(json!(all).to_string()));
        }
        if !conditions.is_empty() {
            notes.insert(CONDITIONS.to_owned(), json!(json!(conditions).to_string()));
        }
    }
    if !notes.is_empty() {
        member_object_mut(member_object_mut(members, "metadata"), "annotations").extend(notes);
    }
}

/// From version 1 to version 2.
pub(super) fn to_v2(members: &mut Map<String, Value>) {
    let mut noted = |name| taken_note(members, name);
    let (others, current) = (noted(METRICS), noted(CURRENT_METRICS));
    let (conditions, behavior) = (noted(CONDITIONS), noted(BEHAVIOR));
    let spec = member_object_mut(members, "spec");
    let percent = spec.remove("targetCPUUtilizationPercentage").filter(|percent| !percent.is_null());
    let cpu = percent.map(|percent| {
        json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent}}})
    });
    let metrics: Vec<Value> = cpu.into_iter().chain(metrics_to_v2(others, Side::Target)).collect();
    if !metrics.is_empty() {
        spec.insert("metrics".to_owned(), Value::Array(metrics));
    }
    if let Some(behavior) = behavior {
        spec.insert("behavior".to_owned(), behavior);
    }
    if !members.contains_key("status") && conditions.is_none() && current.is_none() {
        return;
    }
    let status = member_object_mut(members, "status");
    let percent = status.remove("currentCPUUtilizationPercentage").filter(|percent| !percent.is_null());
    let mut current: Vec<Value> = metrics_to_v2(current, Side::Current).collect();
    if let Some(percent) = percent
        && !current.iter().any(|metric| cpu_use(metric, "current").is_some())
    {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
        current.insert(0, cpu);
    }
    // There it is left out when it is zero.
    if status.get("currentReplicas") == Some(&json!(0)) {
        status.remove("currentReplicas");
    }
    let current = if current.is_empty() { Value::Null } else { Value::Array(current) };
    status.insert("currentMetrics".to_owned(), current);
    if let Some(conditions) = conditions {
        status.insert("conditions".to_owned(), conditions);
    }
}

/// How much of the CPU is wanted or used, when that is what the metric says.
fn cpu_use<'a>(metric: &'a Value, side: &str) -> Option<&'a Value> {
    let resource = metric.get("resource").filter(|resource| text(resource, "name") == "cpu")?;
    resource.get(side)?.get("averageUtilization").filter(|percent| !percent.is_null())
}

fn taken_list(members: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match members.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// What an annotation holds; the annotation goes.
fn taken_note(members: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let annotations = members.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?;
    let note = annotations.remove(name)?;
    serde_json::from_str(note.as_str()?).ok()
}

fn metric_to_v1(metric: &Value, side: Side) -> Value {
    let mut found = json!({"type": text(metric, "type")});
    for (source, names) in SOURCES {
        let Some(before) = metric.get(source) else { continue };
        let mut after = Map::new();
        for (new, old) in *names {
            let path = format!("/{}", side_path(new, side));
            if let Some(value) = before.pointer(&path).filter(|value| !value.is_null()) {
                after.insert(side.of(old), value.clone());
            }
        }
        ensure_object(&mut found).insert((*source).to_owned(), Value::Object(after));
    }
    found
}

fn metrics_to_v2(metrics: Option<Value>, side: Side) -> impl Iterator<Item = Value> {
    let metrics = match metrics {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    metrics.into_iter().map(move |metric| metric_to_v2(&metric, side))
}

fn metric_to_v2(metric: &Value, side: Side) -> Value {
    let mut found = json!({"type": text(metric, "type")});
    for (source, names) in SOURCES {
        let Some(before) = metric.get(source) else { continue };
        let mut after = Map::new();
        for (new, old) in *names {
            let Some(value) = before.get(side.of(old)).filter(|value| !value.is_null()) else { continue };
            let path = side_path(new, side);
            match path.split_once('/') {
                Some((outer, inner)) => {
                    let inside = member_object_mut(&mut after, outer);
                    inside.insert(inner.to_owned(), value.clone());
                    if outer == "target" {
                        inside.insert("type".to_owned(), json!(target_type(inner)));
                    }
                }
                None => drop(after.insert(path, value.clone())),
            }
        }
        ensure_object(&mut found).insert((*source).to_owned(), Value::Object(after));
    }
    found
}

fn side_path(path: &str, side: Side) -> String {
    match path.strip_prefix("target/") {
        Some(rest) if side == Side::Current => format!("current/{rest}"),
        _ => path.to_owned(),
    }
}

fn target_type(member: &str) -> &'static str {
    match member {
        "averageUtilization" => "Utilization",
        "averageValue" => "AverageValue",
        _ => "Value",
    }
}

#[cfg(test)]
mod tests {
    use super::super::view;
    use super::*;

    #[test]
    fn version_1_keeps_what_it_does_not_know_in_annotations() {
        let two = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h", "annotations": {"a": "b"}},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Service"}, "metric": {"name": "o"},
                    "target": {"type": "Value", "value": "10"}}}]},
            "status": {"currentReplicas": 3, "conditions": [{"type": "AbleToScale"}], "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 20, "averageValue": "1"}}},
                {"type": "Pods", "pods": {"metric": {"name": "p"}, "current": {"averageValue": "5"}}}]}});
        let one = view("autoscaling", "horizontalpodautoscalers", "autoscaling/v1", two.clone());
        assert_eq!(one["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(one["status"], json!({"currentReplicas": 3, "currentCPUUtilizationPercentage": 20}));
        let note = |name: &str| -> Value {
            serde_json::from_str(one["metadata"]["annotations"][name].as_str().unwrap()).unwrap()
        };
        assert_eq!(
            note(METRICS),
            json!([{"type": "Object", "object": {"target": {"kind": "Service"}, "metricName": "o", "targetValue": "10"}}])
        );
        assert_eq!(
            note(CURRENT_METRICS),
            json!([{"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 20,
                "currentAverageValue": "1"}},
                {"type": "Pods", "pods": {"metricName": "p", "currentAverageValue": "5"}}])
        );
        assert_eq!(view("autoscaling", "horizontalpodautoscalers", "autoscaling/v2", one), two);
    }

    #[test]
    fn the_use_of_cpu_is_a_metric_of_version_2() {
        let one = json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3,
            "targetCPUUtilizationPercentage": 80}});
        let two = view("autoscaling", "horizontalpodautoscalers", "autoscaling/v2", one.clone());
        assert_eq!(
            two["spec"]["metrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}])
        );
        assert_eq!(two.get("status"), None);
        assert_eq!(view("autoscaling", "horizontalpodautoscalers", "autoscaling/v1", two), one);
    }
}
