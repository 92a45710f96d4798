//! Pods: scheduled at once, running after a moment, and as `tiphys.dev/sim` says (CLI-1003).
//!
//! The marker stands in an annotation or a label of the pod: `ready-after=3s` (in a label `ready-after-3s`),
//! `fail`, `crashloop`, `never-ready`. The test bed's stages obey the same ones.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{NODE, after, emit, wake_at, write};
use crate::clock::seconds;
use crate::state::{State, finalizers, is_terminating};
use crate::store::Key;

/// Where the marker stands.
const MARKER: &str = "tiphys.dev/sim";
/// Time a container needs to start.
const START: Duration = Duration::from_millis(200);
/// Time a simulated container needs to end.
const STOP: Duration = Duration::from_millis(200);
/// What `ready-after` means without a time.
const READY_AFTER_DEFAULT: Duration = Duration::from_secs(3);

/// How a pod behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Good,
    ReadyAfter(Duration),
    Fail,
    CrashLoop,
    NeverReady,
}

fn behaviour(pod: &Value) -> Behaviour {
    let marker = access::annotation(pod, MARKER).or_else(|| access::label(pod, MARKER)).unwrap_or("");
    let may_end = matches!(access::text_at(pod, &["spec", "restartPolicy"]), "Never" | "OnFailure");
    match marker {
        "fail" if may_end => Behaviour::Fail,
        "fail" | "crashloop" => Behaviour::CrashLoop,
        "never-ready" => Behaviour::NeverReady,
        _ => match marker.strip_prefix("ready-after") {
            Some(rest) => Behaviour::ReadyAfter(read_time(rest.trim_start_matches(['=', '-']))),
            None => Behaviour::Good,
        },
    }
}

fn read_time(text: &str) -> Duration {
    match tiphys_go::duration::parse(text) {
        Ok(time) => Duration::try_from(time).unwrap_or(READY_AFTER_DEFAULT),
        Err(_) => READY_AFTER_DEFAULT,
    }
}

pub(super) fn reconcile(state: &mut State, key: &Key, pod: Value, now: Timestamp) {
    if is_terminating(&pod) {
        end(state, key, pod, now);
        return;
    }
    match access::text_at(&pod, &["status", "phase"]) {
        "Succeeded" | "Failed" => {}
        "Running" => go_on(state, key, pod, now),
        _ => start(state, key, pod, now),
    }
}

/// A pod that is being deleted ends a moment later.
fn end(state: &mut State, key: &Key, mut pod: Value, now: Timestamp) {
    let Some(due) = state.ending.get(key).copied() else {
        let due = after(state, now, STOP);
        state.ending.insert(key.clone(), due);
        wake_at(state, due, key);
        return;
    };
    if due > now {
        return;
    }
    state.ending.remove(key);
    if finalizers(&pod).is_empty() {
        state.erase(key);
        return;
    }
    access::metadata_mut(&mut pod).insert("deletionGracePeriodSeconds".to_owned(), json!(0));
    write(state, key, pod);
}

fn start(state: &mut State, key: &Key, mut pod: Value, now: Timestamp) {
    let has_gates = access::at(&pod, &["spec", "schedulingGates"])
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    if has_gates {
        return;
    }
    if access::text_at(&pod, &["spec", "nodeName"]).is_empty() {
        if !fits(&pod) {
            hold(state, key, pod, now);
            return;
        }
        let spec = access::member_object_mut(access::ensure_object(&mut pod), "spec");
        spec.insert("nodeName".to_owned(), json!(NODE));
        super::set_condition(&mut pod, "PodScheduled", true, "", "", now);
        super::set_status(&mut pod, json!({"phase": "Pending"}));
        let message =
            format!("Successfully assigned {}/{} to {NODE}", access::namespace(&pod), access::name(&pod));
        emit(state, &pod, "Scheduled", &message, "default-scheduler", now);
        write(state, key, pod);
        let due = after(state, now, START);
        wake_at(state, due, key);
        state.starting.insert(key.clone(), due);
        return;
    }
    let known = state.starting.get(key).copied();
    let due = known.unwrap_or_else(|| {
        let due = after(state, now, START);
        state.starting.insert(key.clone(), due);
        wake_at(state, due, key);
        due
    });
    if due > now {
        return;
    }
    state.starting.remove(key);
    let address = state.draw.pod_ip();
    let time = seconds(now);
    super::set_status(&mut pod, json!({"podIP": address, "podIPs": [{"ip": address}], "startTime": time}));
    super::set_condition(&mut pod, "Initialized", true, "", "", now);
    match behaviour(&pod) {
        Behaviour::Good => {
            run(&mut pod, true, now);
            emit(state, &pod, "Started", "Started container (simulated)", "kubelet", now);
            if is_of_job(&pod) {
                let due = after(state, now, START);
                wake_at(state, due, key);
            }
        }
        Behaviour::ReadyAfter(time) => {
            run(&mut pod, false, now);
            let due = after(state, now, time);
            wake_at(state, due, key);
        }
        Behaviour::NeverReady => run(&mut pod, false, now),
        Behaviour::CrashLoop => {
            crash(&mut pod, now);
            emit(state, &pod, "BackOff", "Back-off restarting failed container", "kubelet", now);
        }
        Behaviour::Fail => finish(&mut pod, false, now),
    }
    sort_conditions(&mut pod);
    write(state, key, pod);
}

/// Conditions are in the order of a life backwards, as a kubelet writes them.
fn sort_conditions(pod: &mut Value) {
    let order = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    if let Some(Value::Array(list)) = pod.pointer_mut("/status/conditions") {
        list.sort_by_key(|one| order.iter().position(|kind| *kind == access::text(one, "type")));
    }
}

/// Whether the node has the labels that a pod selects.
fn fits(pod: &Value) -> bool {
    let selector = access::at(pod, &["spec", "nodeSelector"]).and_then(Value::as_object);
    let has = |(label, value): (&String, &Value)| {
        super::NODE_LABELS.iter().any(|(known, text)| known == label && *value == *text)
    };
    selector.into_iter().flatten().all(has)
}

/// A pod that has no place waits.
fn hold(state: &mut State, key: &Key, mut pod: Value, now: Timestamp) {
    let message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims \
                   to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    super::set_condition(&mut pod, "PodScheduled", false, "Unschedulable", message, now);
    super::set_status(&mut pod, json!({"phase": "Pending"}));
    if state.tree(key).is_some_and(|old| old != pod) {
        emit(state, &pod, "FailedScheduling", message, "default-scheduler", now);
        write(state, key, pod);
    }
}

/// A running pod becomes ready, or its job is done.
fn go_on(state: &mut State, key: &Key, mut pod: Value, now: Timestamp) {
    let started: Timestamp = access::text_at(&pod, &["status", "startTime"]).parse().unwrap_or(now);
    let due = match behaviour(&pod) {
        Behaviour::Good if is_of_job(&pod) => started,
        Behaviour::ReadyAfter(time) => after(state, started, time),
        _ => return,
    };
    let is_ready = crate::state::condition(&pod, "Ready") == Some("True");
    if is_ready && !is_of_job(&pod) {
        return;
    }
    if due > now {
        wake_at(state, due, key);
        return;
    }
    if is_of_job(&pod) {
        finish(&mut pod, true, now);
    } else {
        run(&mut pod, true, now);
    }
    write(state, key, pod);
}

fn is_of_job(pod: &Value) -> bool {
    let owners = access::at(pod, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| access::text(owner, "kind") == "Job")
}

/// Statuses of all containers, by what one looks like.
fn containers(pod: &Value, one: impl Fn(&Value) -> Value) -> Value {
    let list = access::at(pod, &["spec", "containers"]).and_then(Value::as_array);
    let statuses: Vec<Value> = list
        .into_iter()
        .flatten()
        .map(|container| {
            let mut status = one(container);
            let members = access::ensure_object(&mut status);
            members.insert("name".to_owned(), json!(access::text(container, "name")));
            members.insert("image".to_owned(), json!(access::text(container, "image")));
            members.insert("imageID".to_owned(), json!(""));
            status
        })
        .collect();
    json!(statuses)
}

fn run(pod: &mut Value, is_ready: bool, now: Timestamp) {
    let started =
        access::at(pod, &["status", "containerStatuses", "0", "state", "running", "startedAt"]).cloned();
    let time = started.unwrap_or_else(|| json!(access::text_at(pod, &["status", "startTime"])));
    let statuses = containers(pod, |_| {
        json!({"ready": is_ready, "restartCount": 0, "state": {"running": {"startedAt": time}},
            "lastState": {}})
    });
    super::set_status(pod, json!({"phase": "Running", "containerStatuses": statuses}));
    let reason = if is_ready { "" } else { "ContainersNotReady" };
    for kind in ["ContainersReady", "Ready"] {
        super::set_condition(pod, kind, is_ready, reason, "", now);
    }
}

fn crash(pod: &mut Value, now: Timestamp) {
    let time = seconds(now);
    let statuses = containers(pod, |_| {
        json!({"ready": false, "started": false, "restartCount": 3,
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": time, "finishedAt": time}},
            "state": {"waiting": {"reason": "CrashLoopBackOff",
                "message": "back-off restarting failed container"}}})
    });
    super::set_status(pod, json!({"phase": "Running", "containerStatuses": statuses}));
    for kind in ["ContainersReady", "Ready"] {
        super::set_condition(pod, kind, false, "ContainersNotReady", "", now);
    }
}

fn finish(pod: &mut Value, is_good: bool, now: Timestamp) {
    let time = seconds(now);
    let started = access::text_at(pod, &["status", "startTime"]).to_owned();
    let statuses = containers(pod, |_| {
        let ended = if is_good {
            json!({"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": time})
        } else {
            json!({"exitCode": 1, "reason": "Error", "message": "told to fail", "startedAt": started,
                "finishedAt": time})
        };
        json!({"ready": false, "started": false, "restartCount": 0, "state": {"terminated": ended}, "lastState": {}})
    });
    let (phase, reason) = if is_good { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
    super::set_status(pod, json!({"phase": phase, "containerStatuses": statuses}));
    for kind in ["ContainersReady", "Ready"] {
        super::set_condition(pod, kind, false, reason, "", now);
    }
}
