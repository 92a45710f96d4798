//! Judges one live object: built-in rules, shipped rules, and the user's Lua (ENG section 6).
//!
//! [`evaluate`] is the whole decision in the order of ENG-97; [`assess`] is the same with a failing rule turned
//! into `Unknown`, which is what everybody but the sync engine wants. [`HealthOverrides`] is the user's part,
//! read from `argocd-cm` once and shared. Scripts are run by whoever is handed in ([`evaluate_with`]).

use serde_json::Value;
use tiphys_api::names::finalizer;
use tiphys_object::{Gvk, access};

use crate::scripts::{HealthScript, Runner};

mod lua;
mod overrides;
mod pod;
mod reader;
mod rules;
mod shipped;
mod workload;

pub use overrides::{HealthOverrides, ScriptClock};
use reader::Reader;
pub use tiphys_api::codes::HealthCode;

/// A verdict with its reason; the message is empty when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub status: HealthCode,
    /// The reason, for people.
    pub message: String,
}

impl Health {
    /// Makes a verdict.
    pub fn new(status: HealthCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// Why an object could not be judged; the text is what users see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HealthError {
    /// Single-line text of the failing rule.
    pub message: String,
}

impl From<tiphys_object::ObjectError> for HealthError {
    fn from(error: tiphys_object::ObjectError) -> Self {
        Self { message: format!("the object cannot be read: {error}") }
    }
}

/// What a script's status outside the six codes becomes (ENG-132).
const INVALID_STATUS: &str = "Lua returned an invalid health status";

/// Health of a live object; `None` when its kind has none. A failing rule is an error.
///
/// # Errors
/// When the rule of its kind failed.
pub fn evaluate(live: &Value, overrides: &HealthOverrides) -> Result<Option<Health>, HealthError> {
    evaluate_with(live, overrides, &Runner::default())
}

/// The same, with scripts run by somebody else.
///
/// # Errors
/// When the rule of its kind failed, or its script was stopped.
pub fn evaluate_with(
    live: &Value,
    overrides: &HealthOverrides,
    scripts: &Runner,
) -> Result<Option<Health>, HealthError> {
    let is_going = access::at(live, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    if is_going && !has_hook_finalizer(live) {
        return Ok(Some(Health::new(HealthCode::Progressing, "Pending deletion")));
    }
    let gvk = Gvk::of(live);
    let key = if gvk.group.is_empty() { gvk.kind.to_string() } else { gvk.group_kind().to_string() };
    if let Some(script) = overrides.script(&key) {
        let now = overrides.clock.as_ref().map(|clock| clock());
        let script = HealthScript { text: &script.text, open_libraries: script.open_libraries, now };
        return scripts.health(script, live);
    }
    builtin(&gvk, live)
}

/// Whether the health of an object is said by a script of the user.
pub fn is_scripted(live: &Value, overrides: &HealthOverrides) -> bool {
    let gvk = Gvk::of(live);
    let key = if gvk.group.is_empty() { gvk.kind.to_string() } else { gvk.group_kind().to_string() };
    overrides.script(&key).is_some()
}

/// Runs a script over a live object, here and now.
pub(crate) fn run_script(script: HealthScript<'_>, live: &Value) -> Result<Option<Health>, HealthError> {
    let HealthScript { text, open_libraries, now } = script;
    lua::run(crate::lua::Script { text, open_libraries, now, params: None }, live)
}

/// Health of a live object; `None` when its kind has none. A failing rule reads as `Unknown` (ENG-97).
pub fn assess(live: &Value, overrides: &HealthOverrides) -> Option<Health> {
    assess_with(live, overrides, &Runner::default())
}

/// [`assess`], with scripts run by `scripts`.
pub fn assess_with(live: &Value, overrides: &HealthOverrides, scripts: &Runner) -> Option<Health> {
    evaluate_with(live, overrides, scripts)
        .unwrap_or_else(|error| Some(Health::new(HealthCode::Unknown, error.message)))
}

fn has_hook_finalizer(live: &Value) -> bool {
    let finalizers = access::at(live, &["metadata", "finalizers"]).and_then(Value::as_array);
    finalizers.is_some_and(|list| list.iter().any(|name| name == finalizer::HOOK))
}

/// The rule of a kind, whatever its version (ENG-99).
fn builtin(gvk: &Gvk, live: &Value) -> reader::Verdict {
    let reader = Reader { object: live };
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment") => workload::deployment(reader),
        ("apps", "StatefulSet") => workload::stateful_set(reader),
        ("apps", "DaemonSet") => workload::daemon_set(reader),
        ("apps", "ReplicaSet") => workload::replica_set(reader),
        ("", "Service") => workload::service(reader),
        ("", "PersistentVolumeClaim") => workload::volume_claim(reader),
        ("", "Pod") => pod::pod(reader),
        ("networking.k8s.io" | "extensions", "Ingress") => workload::ingress(reader),
        ("batch", "Job") => workload::job(reader),
        ("autoscaling", "HorizontalPodAutoscaler") => workload::autoscaler(reader),
        ("apiregistration.k8s.io", "APIService") => workload::api_service(reader),
        ("argoproj.io", "Workflow") => workload::workflow(reader),
        ("batch", "CronJob") => shipped::cron_job(live),
        ("policy", "PodDisruptionBudget") => shipped::disruption_budget(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => shipped::resource_definition(live),
        ("argoproj.io", "Rollout") => shipped::rollout(live),
        ("argoproj.io", "ApplicationSet") => shipped::application_set(live),
        ("argoproj.io", "AnalysisRun") => shipped::analysis_run(live),
        ("argoproj.io", "Experiment") => shipped::experiment(live),
        ("argoproj.io", "CronWorkflow") => shipped::cron_workflow(live),
        ("argoproj.io", "EventBus") => shipped::event_bus(live),
        _ => rules::judge(gvk, live),
    }
}

#[cfg(test)]
mod tests;
