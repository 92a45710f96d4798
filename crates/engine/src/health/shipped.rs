//! Rules for kinds that are no part of a bare cluster but are met everywhere (ENG-111..115).

use serde_json::Value;
use tiphys_object::access::{self, at, text, text_at};

use super::HealthCode::{Degraded, Healthy, Progressing, Suspended, Unknown};
use super::reader::{Verdict, verdict};
use super::{Health, HealthCode, HealthError};

/// `status.conditions`, empty when absent or of another type.
pub(super) fn conditions(object: &Value) -> &[Value] {
    at(object, &["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(object).iter().find(|condition| text(condition, "type") == kind)
}

/// The first condition of a type with this status.
pub(super) fn condition_is<'a>(object: &'a Value, kind: &str, status: &str) -> Option<&'a Value> {
    conditions(object)
        .iter()
        .find(|condition| text(condition, "type") == kind && text(condition, "status") == status)
}

fn status_of(object: &Value) -> Option<&Value> {
    object.get("status").filter(|status| status.is_object())
}

pub(super) fn cron_job(object: &Value) -> Verdict {
    if at(object, &["spec", "suspend"]) == Some(&Value::Bool(true)) {
        return verdict(Healthy, "CronJob is Suspended");
    }
    let Some(status) = status_of(object) else { return verdict(Progressing, "Waiting for CronJob") };
    let scheduled = text(status, "lastScheduleTime");
    let succeeded = text(status, "lastSuccessfulTime");
    let is_active = status.get("active").and_then(Value::as_array).is_some_and(|active| !active.is_empty());
    if scheduled.is_empty() {
        verdict(Healthy, "CronJob has not been scheduled yet")
    } else if succeeded.is_empty() {
        verdict(Healthy, "The CronJob never completed successfully. It may not be healthy")
    } else if is_active {
        verdict(Healthy, "The job is running. Its last execution may not have been successful")
    } else if succeeded < scheduled {
        verdict(Degraded, "CronJob has not completed its last execution successfully")
    } else {
        verdict(Healthy, "CronJob has completed its last execution successfully")
    }
}

pub(super) fn disruption_budget(object: &Value) -> Verdict {
    let mut last = None;
    for condition in conditions(object) {
        let reason = text(condition, "reason");
        let message = format!("PodDisruptionBudget has {reason}");
        if text(condition, "status") == "False" && reason != "InsufficientPods" {
            return verdict(Degraded, message);
        }
        last = Some(message);
    }
    match last {
        Some(message) => verdict(Healthy, message),
        None => verdict(Progressing, "Waiting for status"),
    }
}

pub(super) fn resource_definition(object: &Value) -> Verdict {
    if status_of(object).is_none() {
        return Err(HealthError { message: "the definition has no status to look at".to_owned() });
    }
    if conditions(object).is_empty() {
        return verdict(Progressing, "Status conditions not found");
    }
    let message = |condition: &Value| text(condition, "message").to_owned();
    if let Some(found) = condition_is(object, "Terminating", "True") {
        return verdict(Progressing, format!("CRD is terminating: {}", message(found)));
    }
    if let Some(found) = condition_is(object, "NamesAccepted", "False") {
        return verdict(Degraded, format!("CRD names have not been accepted: {}", message(found)));
    }
    if let Some(found) = condition_is(object, "NonStructuralSchema", "True") {
        return verdict(Degraded, format!("Schema violations found: {}", message(found)));
    }
    let is_installing = |condition: &Value| {
        text(condition, "type") == "Established"
            && text(condition, "status") != "True"
            && text(condition, "reason") == "Installing"
    };
    if conditions(object).iter().any(is_installing) {
        return verdict(Progressing, "CRD is being installed");
    }
    if condition_is(object, "Established", "True").is_none() {
        return verdict(Degraded, "CRD is not established");
    }
    verdict(Healthy, "CRD is healthy")
}

pub(super) fn application_set(object: &Value) -> Verdict {
    let rows = [
        ("ErrorOccurred", "True", Degraded),
        ("ResourcesUpToDate", "False", Degraded),
        ("RolloutProgressing", "True", Progressing),
        ("ResourcesUpToDate", "True", Healthy),
    ];
    for (kind, status, code) in rows {
        if let Some(found) = condition_is(object, kind, status) {
            return verdict(code, text(found, "message"));
        }
    }
    verdict(Progressing, "Waiting for the status to be reported")
}

pub(super) fn analysis_run(object: &Value) -> Verdict {
    let names = [
        "Analysis run is running",
        "Analysis run completed successfully",
        "Analysis run failed",
        "Analysis run had an error",
    ];
    by_phase(
        object,
        "Waiting for analysis run to finish: status has not been reconciled.",
        names,
        "Analysis run was inconclusive",
    )
}

pub(super) fn experiment(object: &Value) -> Verdict {
    let is_pending = text_at(object, &["status", "phase"]) == "Pending";
    let running = if is_pending { "Experiment is pending" } else { "Experiment is running" };
    let names = [running, "Experiment is successful", "Experiment has failed", "Experiment had an error"];
    let verdict = by_phase(
        object,
        "Waiting for experiment to finish: status has not been reconciled.",
        names,
        "Experiment was inconclusive",
    );
    // An experiment's phase says enough; its message names details of one analysis.
    verdict.map(|health| {
        let phase = text_at(object, &["status", "phase"]);
        let index = ["Running", "Successful", "Failed", "Error"].iter().position(|name| *name == phase);
        match (health, index.and_then(|index| names.get(index))) {
            (Some(health), Some(name)) => Some(Health { message: (*name).to_owned(), ..health }),
            (health, _) => health,
        }
    })
}

fn by_phase(object: &Value, unreconciled: &str, names: [&str; 4], inconclusive: &str) -> Verdict {
    if status_of(object).is_none() {
        return verdict(Progressing, unreconciled);
    }
    let [running, successful, failed, error] = names;
    let (status, name) = match text_at(object, &["status", "phase"]) {
        "" | "Pending" | "Running" => (Progressing, running),
        "Successful" => (Healthy, successful),
        "Failed" => (Degraded, failed),
        "Error" => (Degraded, error),
        "Inconclusive" => (Unknown, inconclusive),
        _ => (Unknown, ""),
    };
    let message = text_at(object, &["status", "message"]);
    verdict(status, if message.is_empty() { name } else { message })
}

pub(super) fn cron_workflow(object: &Value) -> Verdict {
    for kind in ["SpecError", "SubmissionError"] {
        if let Some(found) = condition_is(object, kind, "True") {
            return verdict(Degraded, text(found, "message"));
        }
    }
    let completed = condition_is(object, "Completed", "True").map(|found| text(found, "message"));
    verdict(Healthy, completed.unwrap_or("CronWorkflow is healthy."))
}

pub(super) fn event_bus(object: &Value) -> Verdict {
    let Some(found) = condition(object, "Deployed") else {
        return verdict(Progressing, "Waiting for initialization");
    };
    let message = text(found, "message");
    let message = if message.is_empty() { text(found, "reason") } else { message };
    match text(found, "status") {
        "True" => verdict(Healthy, message),
        "False" => verdict(Degraded, message),
        _ => verdict(Progressing, "Waiting for initialization"),
    }
}

/// Rollouts, of controllers that report a phase and of older ones (ENG-114).
pub(super) fn rollout(object: &Value) -> Verdict {
    let unobserved = || verdict(Progressing, "Waiting for rollout spec update to be observed");
    let Some(status) = status_of(object) else { return unobserved() };
    if !is_rollout_observed(object, status) {
        return unobserved();
    }
    let phase = text(status, "phase");
    if !phase.is_empty() {
        let code = if phase == "Paused" { Some(Suspended) } else { HealthCode::parse(phase) };
        let message = text(status, "message");
        return match code {
            Some(code) => verdict(code, message),
            None => verdict(Unknown, super::INVALID_STATUS),
        };
    }
    let broken = |condition: &&Value| match text(condition, "type") {
        "InvalidSpec" => true,
        "Progressing" => matches!(text(condition, "reason"), "RolloutAborted" | "ProgressDeadlineExceeded"),
        _ => false,
    };
    if let Some(found) = conditions(object).iter().find(broken) {
        return verdict(Degraded, text(found, "message"));
    }
    let has_pauses =
        status.get("pauseConditions").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if has_pauses || at(object, &["spec", "paused"]) == Some(&Value::Bool(true)) {
        return verdict(Suspended, "Rollout is paused");
    }
    match rollout_waits_for(object, status) {
        Some(reason) => verdict(Progressing, format!("Waiting for roll out to finish: {reason}")),
        None => verdict(Healthy, ""),
    }
}

fn is_rollout_observed(object: &Value, status: &Value) -> bool {
    let generation = at(object, &["metadata", "generation"]).and_then(Value::as_f64);
    let observed = match status.get("observedGeneration") {
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        other => other.and_then(Value::as_f64),
    };
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return false;
    }
    let refers = at(object, &["spec", "workloadRef"]).is_some_and(|reference| !reference.is_null());
    let wanted = access::annotation(object, "rollout.argoproj.io/workload-generation");
    let seen = match status.get("workloadObservedGeneration") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    !refers || wanted.map(str::to_owned) == seen
}

/// Why a Rollout of an older controller is not done.
fn rollout_waits_for(object: &Value, status: &Value) -> Option<&'static str> {
    let count = |value: Option<&Value>| value.and_then(Value::as_i64);
    let hash = text(status, "currentPodHash");
    if hash.is_empty() {
        return Some("the pod template is not observed yet");
    }
    let updated = count(status.get("updatedReplicas")).unwrap_or(0);
    let available = count(status.get("availableReplicas")).unwrap_or(0);
    let total = count(status.get("replicas")).unwrap_or(0);
    let wanted = count(at(object, &["spec", "replicas"])).unwrap_or(1);
    if updated < wanted {
        return Some("More replicas need to be updated");
    }
    if at(object, &["spec", "strategy", "blueGreen"]).is_some_and(|strategy| !strategy.is_null()) {
        let active = text_at(status, &["blueGreen", "activeSelector"]);
        let active = if active.is_empty() { text(status, "activeSelector") } else { active };
        if active != hash {
            return Some("active service cut over pending");
        }
        return (available < updated).then_some("updated replicas are still becoming available");
    }
    if total > updated {
        return Some("old replicas are pending termination");
    }
    if available < updated {
        return Some("updated replicas are still becoming available");
    }
    let stable = text(status, "stableRS");
    let stable = if stable.is_empty() { text_at(status, &["canary", "stableRS"]) } else { stable };
    (stable != hash).then_some("the last steps are not done")
}
