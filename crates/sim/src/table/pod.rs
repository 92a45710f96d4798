//! The row of a Pod.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::age;
use super::row::{NONE, Row};

/// What the statuses of a Pod's containers come to.
#[derive(Default)]
struct Summary {
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

impl Summary {
    fn count(&mut self, container: &Row<'_>) {
        self.restarts += container.integer("/restartCount");
        self.last_restart = self.last_restart.max(container.time("/lastState/terminated/finishedAt"));
    }
}

pub(super) fn cells(row: &Row<'_>) -> Vec<Value> {
    let mut summary = Summary { reason: first_reason(row), ..Summary::default() };
    let sidecars = row.items("/spec/initContainers").filter(is_restartable).count();
    let sidecar_summary = summarize_init_containers(row, &mut summary);
    if sidecar_summary.is_done || row.condition("Initialized") == Some("True") {
        summary.restarts = sidecar_summary.restarts;
        summary.last_restart = sidecar_summary.last_restart;
        summarize_containers(row, &mut summary);
    }
    let phase = row.text("/status/phase");
    if row.is_terminating() && row.text("/status/reason") == "NodeLost" {
        "Unknown".clone_into(&mut summary.reason);
    } else if row.is_terminating() && !matches!(phase, "Succeeded" | "Failed") {
        "Terminating".clone_into(&mut summary.reason);
    }
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, age::between(Some(last), row.now))
        }
        _ => summary.restarts.to_string(),
    };
    let total = row.count("/spec/containers") + sidecars;
    vec![
        row.name(),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        row.age(),
        row.filled_or("/status/podIPs/0/ip", NONE).into(),
        row.filled_or("/spec/nodeName", NONE).into(),
        row.filled_or("/status/nominatedNodeName", NONE).into(),
        readiness_gates(row).into(),
    ]
}

/// Conditions of the row of a Pod that has come to its end: `kubectl` leaves such rows out on demand.
pub(super) fn add_conditions(object: &Value, row: &mut Map<String, Value>) {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    if matches!(phase, "Succeeded" | "Failed") {
        let conditions = json!([{"type": "Completed", "status": "True", "reason": phase}]);
        row.insert("conditions".to_owned(), conditions);
    }
}

fn first_reason(row: &Row<'_>) -> String {
    let gated = row
        .items("/status/conditions")
        .any(|one| one.text("/type") == "PodScheduled" && one.text("/reason") == "SchedulingGated");
    if gated { "SchedulingGated" } else { row.first_text(&["/status/reason", "/status/phase"]) }.to_owned()
}

/// What the init containers that keep running come to.
struct Sidecars {
    restarts: i64,
    last_restart: Option<Timestamp>,
    /// Whether no init container is still at work.
    is_done: bool,
}

fn summarize_init_containers(row: &Row<'_>, summary: &mut Summary) -> Sidecars {
    let mut sidecars = Summary::default();
    let total = row.count("/spec/initContainers");
    for (place, container) in row.items("/status/initContainerStatuses").enumerate() {
        summary.count(&container);
        let is_sidecar = row
            .items("/spec/initContainers")
            .any(|one| one.text("/name") == container.text("/name") && is_restartable(&one));
        if is_sidecar {
            sidecars.count(&container);
        }
        let is_finished = container.at("/state/terminated").is_some();
        if is_finished && container.integer("/state/terminated/exitCode") == 0 {
            continue;
        }
        if is_sidecar && container.is_set("/started") {
            summary.ready += usize::from(container.is_set("/ready"));
            continue;
        }
        summary.reason = init_reason(&container, is_finished, place, total);
        return Sidecars { restarts: sidecars.restarts, last_restart: sidecars.last_restart, is_done: false };
    }
    Sidecars { restarts: sidecars.restarts, last_restart: sidecars.last_restart, is_done: true }
}

fn init_reason(container: &Row<'_>, is_finished: bool, place: usize, total: usize) -> String {
    let waits_for = container.text("/state/waiting/reason");
    if is_finished {
        format!("Init:{}", end_reason(container))
    } else if !matches!(waits_for, "" | "PodInitializing") {
        format!("Init:{waits_for}")
    } else {
        format!("Init:{place}/{total}")
    }
}

fn end_reason(container: &Row<'_>) -> String {
    let signal = container.integer("/state/terminated/signal");
    match container.text("/state/terminated/reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", container.integer("/state/terminated/exitCode")),
        reason => reason.to_owned(),
    }
}

fn summarize_containers(row: &Row<'_>, summary: &mut Summary) {
    let mut is_running = false;
    let mut error = String::new();
    for container in row.items("/status/containerStatuses").rev() {
        summary.count(&container);
        let waits_for = container.text("/state/waiting/reason");
        if !waits_for.is_empty() {
            waits_for.clone_into(&mut summary.reason);
        } else if container.at("/state/terminated").is_some() {
            summary.reason = end_reason(&container);
            if container.integer("/state/terminated/exitCode") != 0 {
                error.clone_from(&summary.reason);
            }
        } else if container.is_set("/ready") && container.at("/state/running").is_some() {
            is_running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if is_running && row.condition("Ready") == Some("True") {
            "Running".clone_into(&mut summary.reason);
        } else if !error.is_empty() {
            summary.reason = error;
        } else if is_running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
}

fn is_restartable(container: &Row<'_>) -> bool {
    container.text("/restartPolicy") == "Always"
}

fn readiness_gates(row: &Row<'_>) -> String {
    let total = row.count("/spec/readinessGates");
    if total == 0 {
        return NONE.to_owned();
    }
    let open = row
        .items("/spec/readinessGates")
        .filter(|gate| row.condition(gate.text("/conditionType")) == Some("True"))
        .count();
    format!("{open}/{total}")
}
