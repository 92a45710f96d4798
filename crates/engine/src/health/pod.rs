//! The built-in rule of Pods (ENG-105).

use serde_json::Value;
use tiphys_api::names::annotation;
use tiphys_object::access::{self, text, text_at};

use super::HealthCode::{Degraded, Healthy, Progressing, Unknown};
use super::reader::{Reader, Verdict, verdict};
use crate::hook::Role;

pub(super) fn pod(reader: Reader<'_>) -> Verdict {
    let policy = reader.text(&["spec", "restartPolicy"])?;
    let overridden = access::annotation(reader.object, annotation::IGNORE_RESTART_POLICY) == Some("true")
        && !Role::of(reader.object).is_hook();
    let is_long_running = policy == "Always" || overridden;
    let containers = reader.list(&["status", "containerStatuses"])?;
    let message = reader.text(&["status", "message"])?;

    if is_long_running {
        let waiting: Vec<&Value> = containers
            .iter()
            .filter_map(|container| access::at(container, &["state", "waiting"]))
            .filter(|waiting| is_failing(text(waiting, "reason")))
            .collect();
        if !waiting.is_empty() {
            let messages: Vec<&str> = waiting.into_iter().map(|waiting| text(waiting, "message")).collect();
            return verdict(Degraded, messages.join(", "));
        }
    }
    match reader.text(&["status", "phase"])? {
        "Pending" => verdict(Progressing, message),
        "Succeeded" => verdict(Healthy, message),
        "Failed" if !message.is_empty() => verdict(Degraded, message),
        "Failed" => {
            let mut all = reader.list(&["status", "initContainerStatuses"])?.iter().chain(containers);
            verdict(Degraded, all.find_map(failure).unwrap_or_default())
        }
        "Running" if is_long_running => {
            let is_ready =
                |condition: &Value| text(condition, "type") == "Ready" && text(condition, "status") == "True";
            let has_crashed = |container: &Value| {
                access::at(container, &["lastState", "terminated"]).is_some_and(Value::is_object)
            };
            if reader.conditions()?.iter().any(is_ready) {
                verdict(Healthy, message)
            } else if containers.iter().any(has_crashed) {
                verdict(Degraded, message)
            } else {
                verdict(Progressing, message)
            }
        }
        "Running" if matches!(policy, "OnFailure" | "Never") => verdict(Progressing, message),
        _ => verdict(Unknown, message),
    }
}

fn is_failing(reason: &str) -> bool {
    reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff")
}

/// Why a container ended without success.
fn failure(container: &Value) -> Option<String> {
    let terminated = access::at(container, &["state", "terminated"])?;
    let message = text(terminated, "message");
    if !message.is_empty() {
        return Some(message.to_owned());
    }
    if text(terminated, "reason") == "OOMKilled" {
        return Some("OOMKilled".to_owned());
    }
    let code = terminated.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0)?;
    Some(format!("container \"{}\" failed with exit code {code}", text_at(container, &["name"])))
}
