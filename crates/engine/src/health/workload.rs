//! Built-in rules of workloads and their neighbours (ENG-100..104, ENG-106..109).

use serde_json::Value;
use tiphys_object::access::text;

use super::HealthCode::{Degraded, Healthy, Progressing, Suspended, Unknown};
use super::HealthError;
use super::reader::{Reader, Verdict, verdict};

pub(super) fn deployment(reader: Reader<'_>) -> Verdict {
    if reader.flag(&["spec", "paused"])? {
        return verdict(Suspended, "Deployment is paused");
    }
    if reader.generation()? > reader.observed()? {
        return verdict(
            Progressing,
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        );
    }
    let progressing = reader.conditions()?.iter().find(|condition| text(condition, "type") == "Progressing");
    if progressing.is_some_and(|condition| text(condition, "reason") == "ProgressDeadlineExceeded") {
        let name = reader.text(&["metadata", "name"])?;
        return verdict(Degraded, format!("Deployment \"{name}\" exceeded its progress deadline"));
    }
    let updated = reader.count(&["status", "updatedReplicas"])?;
    if let Some(replicas) = reader.integer(&["spec", "replicas"])?
        && updated < replicas
    {
        return verdict(
            Progressing,
            format!(
                "Waiting for rollout to finish: {updated} out of {replicas} new replicas have been updated..."
            ),
        );
    }
    let old = reader.count(&["status", "replicas"])?.saturating_sub(updated);
    if old > 0 {
        return verdict(
            Progressing,
            format!("Waiting for rollout to finish: {old} old replicas are pending termination..."),
        );
    }
    let available = reader.count(&["status", "availableReplicas"])?;
    if available < updated {
        return verdict(
            Progressing,
            format!(
                "Waiting for rollout to finish: {available} of {updated} updated replicas are available..."
            ),
        );
    }
    verdict(Healthy, "")
}

pub(super) fn stateful_set(reader: Reader<'_>) -> Verdict {
    let observed = reader.observed()?;
    if observed == 0 || reader.generation()? > observed {
        return verdict(Progressing, "Waiting for statefulset spec update to be observed...");
    }
    let replicas = reader.integer(&["spec", "replicas"])?;
    let ready = reader.count(&["status", "readyReplicas"])?;
    if let Some(replicas) = replicas.filter(|replicas| ready < *replicas) {
        return verdict(
            Progressing,
            format!("Waiting for {} pods to be ready...", replicas.saturating_sub(ready)),
        );
    }
    let updated = reader.count(&["status", "updatedReplicas"])?;
    let strategy = reader.text(&["spec", "updateStrategy", "type"])?;
    let rolling = reader.object.pointer("/spec/updateStrategy/rollingUpdate").is_some_and(Value::is_object);
    if strategy == "RollingUpdate" && rolling {
        let partition = reader.integer(&["spec", "updateStrategy", "rollingUpdate", "partition"])?;
        if let (Some(replicas), Some(partition)) = (replicas, partition) {
            let wanted = replicas.saturating_sub(partition);
            if updated < wanted {
                return verdict(
                    Progressing,
                    format!(
                        "Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods have been updated..."
                    ),
                );
            }
        }
        return verdict(
            Healthy,
            format!("partitioned roll out complete: {updated} new pods have been updated..."),
        );
    }
    if strategy == "OnDelete" {
        return verdict(Healthy, format!("statefulset has {ready} ready pods"));
    }
    let update = reader.text(&["status", "updateRevision"])?;
    let current = reader.text(&["status", "currentRevision"])?;
    if update != current {
        return verdict(
            Progressing,
            format!(
                "waiting for statefulset rolling update to complete {updated} pods at revision {update}..."
            ),
        );
    }
    let pods = reader.count(&["status", "currentReplicas"])?;
    verdict(Healthy, format!("statefulset rolling update complete {pods} pods at revision {current}..."))
}

pub(super) fn daemon_set(reader: Reader<'_>) -> Verdict {
    if reader.generation()? > reader.observed()? {
        return verdict(
            Progressing,
            "Waiting for rollout to finish: observed daemon set generation less than desired generation",
        );
    }
    let updated = reader.count(&["status", "updatedNumberScheduled"])?;
    let desired = reader.count(&["status", "desiredNumberScheduled"])?;
    let available = reader.count(&["status", "numberAvailable"])?;
    let name = reader.text(&["metadata", "name"])?;
    if reader.text(&["spec", "updateStrategy", "type"])? == "OnDelete" {
        return verdict(Healthy, format!("daemon set {updated} out of {desired} new pods have been updated"));
    }
    if updated < desired {
        return verdict(
            Progressing,
            format!(
                "Waiting for daemon set \"{name}\" rollout to finish: {updated} out of {desired} new pods have been updated..."
            ),
        );
    }
    if available < desired {
        return verdict(
            Progressing,
            format!(
                "Waiting for daemon set \"{name}\" rollout to finish: {available} of {desired} updated pods are available..."
            ),
        );
    }
    verdict(Healthy, "")
}

pub(super) fn replica_set(reader: Reader<'_>) -> Verdict {
    if reader.generation()? > reader.observed()? {
        return verdict(
            Progressing,
            "Waiting for rollout to finish: observed replica set generation less than desired generation",
        );
    }
    let failure = reader.conditions()?.iter().find(|condition| text(condition, "type") == "ReplicaFailure");
    if let Some(failure) = failure.filter(|condition| text(condition, "status") == "True") {
        return verdict(Degraded, text(failure, "message"));
    }
    let available = reader.count(&["status", "availableReplicas"])?;
    if let Some(replicas) = reader.integer(&["spec", "replicas"])?
        && available < replicas
    {
        return verdict(
            Progressing,
            format!(
                "Waiting for rollout to finish: {available} out of {replicas} new replicas are available..."
            ),
        );
    }
    verdict(Healthy, "")
}

pub(super) fn service(reader: Reader<'_>) -> Verdict {
    let is_balancer = reader.text(&["spec", "type"])? == "LoadBalancer";
    let waits = is_balancer && reader.list(&["status", "loadBalancer", "ingress"])?.is_empty();
    verdict(if waits { Progressing } else { Healthy }, "")
}

pub(super) fn ingress(reader: Reader<'_>) -> Verdict {
    let waits = reader.list(&["status", "loadBalancer", "ingress"])?.is_empty();
    verdict(if waits { Progressing } else { Healthy }, "")
}

pub(super) fn volume_claim(reader: Reader<'_>) -> Verdict {
    let status = match reader.text(&["status", "phase"])? {
        "Lost" => Degraded,
        "Pending" => Progressing,
        "Bound" => Healthy,
        _ => Unknown,
    };
    verdict(status, "")
}

/// Conditions count whatever their status, so a resumed Job is Healthy while it runs (ENG-106).
pub(super) fn job(reader: Reader<'_>) -> Verdict {
    let (mut complete, mut failed, mut suspended) = (false, false, false);
    let (mut message, mut failure) = ("", "");
    for condition in reader.conditions()? {
        match text(condition, "type") {
            "Failed" => {
                (failed, complete) = (true, true);
                failure = text(condition, "message");
                message = failure;
            }
            "Complete" => {
                complete = true;
                message = text(condition, "message");
            }
            "Suspended" => {
                complete = true;
                message = text(condition, "message");
                suspended |= text(condition, "status") == "True";
            }
            _ => {}
        }
    }
    match (complete, failed, suspended) {
        (false, _, _) => verdict(Progressing, message),
        (true, true, _) => verdict(Degraded, failure),
        (true, false, true) => verdict(Suspended, message),
        (true, false, false) => verdict(Healthy, message),
    }
}

const AUTOSCALING: &str = "autoscaling.alpha.kubernetes.io/conditions";

pub(super) fn autoscaler(reader: Reader<'_>) -> Verdict {
    let waiting = || verdict(Progressing, "Waiting to Autoscale");
    if text(reader.object, "apiVersion") != "autoscaling/v1" {
        return judge_autoscaler(reader.conditions()?).map_or_else(waiting, |health| Ok(Some(health)));
    }
    let annotation = reader.text(&["metadata", "annotations", AUTOSCALING])?;
    if annotation.is_empty() {
        return waiting();
    }
    let conditions: Vec<Value> = serde_json::from_str(annotation).map_err(|error| HealthError {
        message: format!("failed to convert conditions annotation to typed: {error}"),
    })?;
    judge_autoscaler(&conditions).map_or_else(waiting, |health| Ok(Some(health)))
}

fn judge_autoscaler(conditions: &[Value]) -> Option<super::Health> {
    let is_degraded = |condition: &&Value| {
        matches!(
            (text(condition, "type"), text(condition, "reason")),
            ("AbleToScale", "FailedGetScale" | "FailedUpdateScale")
                | (
                    "ScalingActive",
                    "FailedGetResourceMetric"
                        | "FailedGetObjectMetric"
                        | "FailedGetPodsMetric"
                        | "FailedGetExternalMetric"
                        | "FailedComputeMetricsReplicas"
                        | "InvalidSelector"
                )
        )
    };
    let is_healthy = |condition: &&Value| {
        matches!(text(condition, "type"), "AbleToScale" | "ScalingLimited")
            && text(condition, "status") == "True"
    };
    let found = |status, condition: &Value| super::Health::new(status, text(condition, "message"));
    if let Some(condition) = conditions.iter().find(is_degraded) {
        return Some(found(Degraded, condition));
    }
    conditions.iter().find(is_healthy).map(|condition| found(Healthy, condition))
}

pub(super) fn api_service(reader: Reader<'_>) -> Verdict {
    let available = reader.conditions()?.iter().find(|condition| text(condition, "type") == "Available");
    let Some(available) = available else { return verdict(Progressing, "Waiting to be processed") };
    let message = format!("{}: {}", text(available, "reason"), text(available, "message"));
    verdict(if text(available, "status") == "True" { Healthy } else { Progressing }, message)
}

pub(super) fn workflow(reader: Reader<'_>) -> Verdict {
    let status = match reader.text(&["status", "phase"])? {
        "" | "Pending" | "Running" => Progressing,
        "Succeeded" => Healthy,
        "Failed" | "Error" => Degraded,
        _ => Unknown,
    };
    verdict(status, reader.text(&["status", "message"])?)
}
