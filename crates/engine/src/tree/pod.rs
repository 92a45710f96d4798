//! What a Pod shows: the status column people know from the command line (ENG-199).

use std::collections::HashSet;

use serde_json::Value;
use tiphys_object::access::{at, text, text_at};

use super::{InfoItem, push};

/// Adds the entries of a Pod.
pub(super) fn add_info(pod: &Value, info: &mut Vec<InfoItem>) {
    let containers = list(pod, &["status", "containerStatuses"]);
    let inits = list(pod, &["status", "initContainerStatuses"]);
    let (mut reason, is_initializing) = starting_reason(pod, inits);
    let mut ready = 0_usize;
    let mut restarts: i64 = inits.iter().map(restart_count).sum();
    if !is_initializing {
        restarts = 0;
        let mut is_running = false;
        for container in containers.iter().rev() {
            restarts = restarts.saturating_add(restart_count(container));
            if let Some(found) = stopped_reason(container) {
                reason = found;
            } else if is_ready(container) && at(container, &["state", "running"]).is_some() {
                is_running = true;
                ready = ready.saturating_add(1);
            }
        }
        if reason == "Completed" && is_running {
            let is_pod_ready = list(pod, &["status", "conditions"])
                .iter()
                .any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True");
            reason = String::from(if is_pod_ready { "Running" } else { "NotReady" });
        }
    }
    if at(pod, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()) {
        let is_lost = text_at(pod, &["status", "reason"]) == "NodeLost";
        reason = String::from(if is_lost { "Unknown" } else { "Terminating" });
    }
    if !reason.is_empty() {
        push(info, "Status Reason", reason);
    }
    let node = text_at(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        push(info, "Node", node);
    }
    let total = list(pod, &["spec", "containers"]).len();
    push(info, "Containers", format!("{ready}/{total}"));
    if restarts > 0 {
        push(info, "Restart Count", restarts.to_string());
    }
}

fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn restart_count(container: &Value) -> i64 {
    container.get("restartCount").and_then(Value::as_i64).unwrap_or(0)
}

fn is_ready(container: &Value) -> bool {
    container.get("ready") == Some(&Value::Bool(true))
}

/// The reason while init containers run, and whether they still do.
fn starting_reason(pod: &Value, inits: &[Value]) -> (String, bool) {
    let phase = text_at(pod, &["status", "phase"]);
    let reason = text_at(pod, &["status", "reason"]);
    let start = if reason.is_empty() { phase } else { reason };
    let specs = list(pod, &["spec", "initContainers"]);
    let total = specs.len();
    let sidecars: HashSet<&str> = specs
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    for (index, container) in inits.iter().enumerate() {
        let terminated = at(container, &["state", "terminated"]);
        if terminated.is_some_and(|state| exit_code(state) == 0) {
            continue;
        }
        if container.get("started") == Some(&Value::Bool(true)) && sidecars.contains(text(container, "name"))
        {
            continue;
        }
        let waiting = text_at(container, &["state", "waiting", "reason"]);
        let found = match terminated {
            Some(state) => ended_reason(state),
            None if !waiting.is_empty() && waiting != "PodInitializing" => waiting.to_owned(),
            None => format!("{index}/{total}"),
        };
        return (format!("Init:{found}"), true);
    }
    (start.to_owned(), false)
}

fn exit_code(terminated: &Value) -> i64 {
    terminated.get("exitCode").and_then(Value::as_i64).unwrap_or(0)
}

fn ended_reason(terminated: &Value) -> String {
    let reason = text(terminated, "reason");
    let signal = terminated.get("signal").and_then(Value::as_i64).unwrap_or(0);
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", exit_code(terminated))
    }
}

/// Why a container does not run, if it does not.
fn stopped_reason(container: &Value) -> Option<String> {
    let waiting = text_at(container, &["state", "waiting", "reason"]);
    if !waiting.is_empty() {
        return Some(waiting.to_owned());
    }
    at(container, &["state", "terminated"]).filter(|state| state.is_object()).map(ended_reason)
}
