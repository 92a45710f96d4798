//! Jobs: pods until enough have succeeded, or too many have failed.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{controlled, create, delete, emit, pod_of, set_condition, set_status, wake_at, write};
use crate::clock::seconds;
use crate::state::{State, condition, is_terminating};
use crate::store::Key;
use crate::tree::integer;

const SOURCE: &str = "job-controller";
/// The back-off doubles from here with each failure.
const BACK_OFF: Duration = Duration::from_millis(500);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

pub(super) fn reconcile(state: &mut State, key: &Key, mut job: Value, now: Timestamp) {
    let is_over = ["Complete", "Failed"].iter().any(|kind| condition(&job, kind) == Some("True"));
    if is_over {
        expire(state, key, &job, now);
        return;
    }
    if access::at(&job, &["spec", "suspend"]) == Some(&Value::Bool(true)) {
        for (pod, _) in controlled(state, &job, "", "pods") {
            delete(state, &pod, now);
        }
        set_status(&mut job, json!({"active": null, "startTime": null}));
        set_condition(&mut job, "Suspended", true, "JobSuspended", "Job suspended", now);
        write(state, key, job);
        return;
    }
    if condition(&job, "Suspended") == Some("True") {
        set_condition(&mut job, "Suspended", false, "JobResumed", "Job resumed", now);
    }
    if access::text_at(&job, &["status", "startTime"]).is_empty() {
        set_status(&mut job, json!({"startTime": seconds(now)}));
    }
    let pods = controlled(state, &job, "", "pods");
    let count = |phase: &str| {
        pods.iter().filter(|(_, pod)| access::text_at(pod, &["status", "phase"]) == phase).count()
    };
    let (succeeded, failed) = (count("Succeeded"), count("Failed"));
    let active: Vec<&(Key, Value)> = pods
        .iter()
        .filter(|(_, pod)| {
            !is_terminating(pod)
                && !matches!(access::text_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
        })
        .collect();
    let wanted = usize::try_from(integer(&job, &["spec", "completions"]).unwrap_or(1)).unwrap_or(1);
    let parallel = usize::try_from(integer(&job, &["spec", "parallelism"]).unwrap_or(1)).unwrap_or(1);
    let limit = usize::try_from(integer(&job, &["spec", "backoffLimit"]).unwrap_or(6)).unwrap_or(6);
    let mut running = active.len();
    if failed > limit {
        let message = "Job has reached the specified backoff limit";
        fail(state, &mut job, &pods, "BackoffLimitExceeded", message, now);
        running = 0;
    } else if is_late(state, key, &job, now) {
        let message = "Job was active longer than specified deadline";
        fail(state, &mut job, &pods, "DeadlineExceeded", message, now);
        running = 0;
    } else if succeeded >= wanted {
        complete(state, &mut job, now);
    } else {
        let missing = parallel.min(wanted - succeeded).saturating_sub(running);
        running += make(state, key, &job, &pods, missing, failed, now);
    }
    let ready = active.iter().filter(|(_, pod)| condition(pod, "Ready") == Some("True")).count();
    set_status(
        &mut job,
        json!({"active": running, "succeeded": succeeded, "failed": failed, "uncountedTerminatedPods": {}}),
    );
    let status = access::member_object_mut(access::ensure_object(&mut job), "status");
    status.insert("ready".to_owned(), json!(ready));
    status.insert("terminating".to_owned(), json!(0));
    write(state, key, job);
}

/// Makes pods that are missing; after failures only when the back-off is over. How many were made.
fn make(
    state: &mut State,
    key: &Key,
    job: &Value,
    pods: &[(Key, Value)],
    missing: usize,
    failed: usize,
    now: Timestamp,
) -> usize {
    if missing == 0 {
        return 0;
    }
    let last_failure = pods
        .iter()
        .filter(|(_, pod)| access::text_at(pod, &["status", "phase"]) == "Failed")
        .filter_map(|(_, pod)| {
            let ended = "/status/containerStatuses/0/state/terminated/finishedAt";
            pod.pointer(ended).and_then(Value::as_str).and_then(|time| time.parse::<Timestamp>().ok())
        })
        .max();
    if let Some(last) = last_failure {
        let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(10).min(10);
        let wait = BACK_OFF.saturating_mul(1 << doublings).min(BACK_OFF_MAX);
        let due = super::after(state, last, wait);
        if due > now {
            wake_at(state, due, key);
            return 0;
        }
    }
    let is_indexed = access::text_at(job, &["spec", "completionMode"]) == "Indexed";
    let mut made = 0;
    let mut taken: Vec<String> = pods
        .iter()
        .filter(|(_, pod)| access::text_at(pod, &["status", "phase"]) != "Failed")
        .filter_map(|(_, pod)| {
            access::annotation(pod, "batch.kubernetes.io/job-completion-index").map(str::to_owned)
        })
        .collect();
    for _ in 0..missing {
        let template = access::at(job, &["spec", "template"]).cloned().unwrap_or(Value::Null);
        let mut prefix = format!("{}-", access::name(job));
        let mut pod = pod_of(&template, job, ("generateName", &prefix), &[]);
        if is_indexed {
            let mut indexes = (0..=taken.len()).map(|index| index.to_string());
            let index = indexes.find(|index| !taken.contains(index));
            let index = index.unwrap_or_default();
            prefix = format!("{}-{index}-", access::name(job));
            access::metadata_mut(&mut pod).insert("generateName".to_owned(), json!(prefix));
            access::set_annotation(&mut pod, "batch.kubernetes.io/job-completion-index", &index);
            access::set_label(&mut pod, "batch.kubernetes.io/job-completion-index", &index);
            taken.push(index);
        }
        let Some(pod) = create(state, "", "v1", "pods", pod, now) else { break };
        emit(state, job, "SuccessfulCreate", &format!("Created pod: {}", pod.name), SOURCE, now);
        made += 1;
    }
    made
}

fn complete(state: &mut State, job: &mut Value, now: Timestamp) {
    let message = "Reached expected number of succeeded pods";
    set_condition(job, "SuccessCriteriaMet", true, "CompletionsReached", message, now);
    set_condition(job, "Complete", true, "CompletionsReached", message, now);
    probe_times(job, now);
    set_status(job, json!({"completionTime": seconds(now)}));
    emit(state, job, "Completed", "Job completed", SOURCE, now);
}

fn fail(
    state: &mut State,
    job: &mut Value,
    pods: &[(Key, Value)],
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    for (pod, object) in pods {
        if !matches!(access::text_at(object, &["status", "phase"]), "Succeeded" | "Failed") {
            delete(state, pod, now);
        }
    }
    set_condition(job, "FailureTarget", true, reason, message, now);
    set_condition(job, "Failed", true, reason, message, now);
    probe_times(job, now);
    emit(state, job, reason, message, SOURCE, now);
}

/// Conditions of Jobs carry the time of their last probe.
fn probe_times(job: &mut Value, now: Timestamp) {
    let conditions = job.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.entry("lastProbeTime").or_insert_with(|| json!(seconds(now)));
    }
}

fn is_late(state: &mut State, key: &Key, job: &Value, now: Timestamp) -> bool {
    let Some(limit) = integer(job, &["spec", "activeDeadlineSeconds"]) else { return false };
    let started = access::text_at(job, &["status", "startTime"]).parse().unwrap_or(now);
    let due = super::after_real(started, Duration::from_secs(u64::try_from(limit).unwrap_or(0)));
    if due > now {
        wake_at(state, due, key);
    }
    due <= now
}

/// Jobs that are over go when they say so.
fn expire(state: &mut State, key: &Key, job: &Value, now: Timestamp) {
    let Some(lasts) = integer(job, &["spec", "ttlSecondsAfterFinished"]) else { return };
    let conditions = access::at(job, &["status", "conditions"]).and_then(Value::as_array);
    let ended = conditions
        .into_iter()
        .flatten()
        .filter(|one| matches!(access::text(one, "type"), "Complete" | "Failed"))
        .filter_map(|one| access::text(one, "lastTransitionTime").parse::<Timestamp>().ok())
        .max()
        .unwrap_or(now);
    let due = super::after_real(ended, Duration::from_secs(u64::try_from(lasts).unwrap_or(0)));
    if due > now {
        wake_at(state, due, key);
    } else {
        delete(state, key, now);
    }
}
