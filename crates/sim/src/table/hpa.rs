//! The row of a `HorizontalPodAutoscaler`, of either version.

use serde_json::Value;

use super::row::{NONE, Row, UNKNOWN, UNSET};

/// Metrics that the cell shows before it says how many more there are.
const SHOWN: usize = 2;

pub(super) fn cells(row: &Row<'_>) -> Vec<Value> {
    let reference =
        format!("{}/{}", row.text("/spec/scaleTargetRef/kind"), row.text("/spec/scaleTargetRef/name"));
    vec![
        row.name(),
        reference.into(),
        targets(row).into(),
        row.plain("/spec/minReplicas").unwrap_or_else(|| UNSET.to_owned()).into(),
        row.integer("/spec/maxReplicas").into(),
        row.integer("/status/currentReplicas").into(),
        row.age(),
    ]
}

fn targets(row: &Row<'_>) -> String {
    if let Some(target) = row.plain("/spec/targetCPUUtilizationPercentage") {
        let current = row.plain("/status/currentCPUUtilizationPercentage");
        return format!("cpu: {}/{target}%", percent(current));
    }
    let mut statuses = row.items("/status/currentMetrics");
    let all: Vec<String> = row.items("/spec/metrics").map(|spec| metric(&spec, statuses.next())).collect();
    let shown = all.get(..SHOWN.min(all.len())).unwrap_or_default().join(", ");
    match all.len().checked_sub(SHOWN) {
        _ if all.is_empty() => NONE.to_owned(),
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

fn metric(spec: &Row<'_>, status: Option<Row<'_>>) -> String {
    let (member, is_resource) = match spec.text("/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = |name: &str| spec.plain(&format!("/{member}/target/{name}"));
    let current =
        |name: &str| status.as_ref().and_then(|status| status.plain(&format!("/{member}/current/{name}")));
    let text = |found: Option<String>, otherwise: &str| found.unwrap_or_else(|| otherwise.to_owned());
    if is_resource {
        let name = spec.text(&format!("/{member}/name"));
        if let Some(target) = target("averageValue") {
            return format!("{name}: {}/{target}", text(current("averageValue"), UNKNOWN));
        }
        let target = target("averageUtilization").map(|number| format!("{number}%"));
        return format!("{name}: {}/{}", percent(current("averageUtilization")), text(target, "<auto>"));
    }
    match (member, target("averageValue")) {
        ("pods", target) => {
            format!("{}/{}", text(current("averageValue"), UNKNOWN), text(target, "<nil>"))
        }
        (_, Some(target)) => format!("{}/{target} (avg)", text(current("averageValue"), UNKNOWN)),
        (_, None) => format!("{}/{}", text(current("value"), UNKNOWN), text(target("value"), "<nil>")),
    }
}

fn percent(number: Option<String>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), |number| format!("{number}%"))
}
