//! Jobs and `CronJob`s.

use serde_json::{Value, json};

use super::workload::at_least_zero;
use super::{immutable, pod, selector};
use crate::status::FieldError;
use crate::tree::{self, flag, integer, text};

/// Errors of a Job.
pub(super) fn job(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = of_spec(spec, "spec");
    let uid = text(object, &["metadata", "uid"]);
    let found = spec.get("selector").unwrap_or(&Value::Null);
    let labels = tree::at(spec, &["template", "metadata", "labels"]).unwrap_or(&Value::Null);
    if !selector::matches(found, labels) {
        let problem = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, problem));
    }
    let name = text(object, &["metadata", "name"]);
    let generated = json!({"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/job-name": name});
    if !flag(spec, &["manualSelector"]) && !uid.is_empty() && !selector::matches(found, &generated) {
        errors.insert(0, selector::invalid("spec.selector", found, "`selector` not auto-generated"));
    }
    let Some(before) = old.and_then(|old| old.get("spec")) else { return errors };
    let is_indexed = text(spec, &["completionMode"]) == "Indexed";
    let suspended = flag(before, &["suspend"]);
    for name in
        ["completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"]
    {
        // What an old server did not know of, and scheduling of Jobs that have not begun, may change.
        if spec.get(name) == before.get(name)
            || (name == "completions" && is_indexed)
            || (name == "template" && suspended && same_but_scheduling(spec, before))
        {
            continue;
        }
        // Deviation: the server prints its own types, which are long and unlike those of the manifest.
        if name == "selector" && !selector::matches(found, labels) {
            // What is wrong with a changed selector is found twice.
            let problem = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid("spec.template.metadata.labels", labels, problem));
        }
        let below = if name == "template" { "template.spec" } else { name };
        let path: Vec<&str> = below.split('.').collect();
        errors.push(immutable(&format!("spec.{below}"), tree::at(spec, &path).unwrap_or(&Value::Null)));
    }
    errors
}

fn same_but_scheduling(spec: &Value, before: &Value) -> bool {
    let rest = |spec: &Value| {
        let mut template = spec.get("template").cloned().unwrap_or_default();
        for path in ["/metadata", "/spec"] {
            let Some(Value::Object(members)) = template.pointer_mut(path) else { continue };
            members.retain(|name, _| {
                !matches!(
                    name.as_str(),
                    "labels"
                        | "annotations"
                        | "nodeSelector"
                        | "tolerations"
                        | "affinity"
                        | "schedulingGates"
                )
            });
        }
        template
    };
    rest(spec) == rest(before)
}

fn of_spec(spec: &Value, field: &str) -> Vec<FieldError> {
    let numbers =
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];
    let mut errors = at_least_zero(spec, field, &numbers);
    if text(spec, &["completionMode"]) == "Indexed" && integer(spec, &["completions"]).is_none() {
        let problem = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{field}.completions"), problem));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    errors.extend(pod::template(template, &format!("{field}.template")));
    let policy = text(template, &["spec", "restartPolicy"]);
    let at = format!("{field}.template.spec.restartPolicy");
    match policy {
        "Always" | "" => errors.push(FieldError::required(at, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(at, &json!(other), &["OnFailure", "Never"])),
    }
    errors
}

/// Errors of a `CronJob`.
pub(super) fn cron_job(object: &Value) -> Vec<FieldError> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    let schedule = text(spec, &["schedule"]);
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if schedule.contains("TZ") {
        let problem = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid("spec.schedule", &json!(schedule), problem));
    } else if !schedule.starts_with('@') && fields.len() != 5 {
        let problem = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
        errors.push(FieldError::invalid("spec.schedule", &json!(schedule), &problem));
    }
    let zone = text(spec, &["timeZone"]);
    if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
        let problem = format!("unknown time zone {zone}");
        errors.push(FieldError::invalid("spec.timeZone", &json!(zone), &problem));
    }
    let policy = text(spec, &["concurrencyPolicy"]);
    match policy {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.push(FieldError::required("spec.concurrencyPolicy", "")),
        other => errors.push(FieldError::not_supported(
            "spec.concurrencyPolicy",
            &json!(other),
            &["Allow", "Forbid", "Replace"],
        )),
    }
    let numbers = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    errors.extend(at_least_zero(spec, "spec", &numbers));
    let job = tree::at(spec, &["jobTemplate", "spec"]).unwrap_or(&Value::Null);
    errors.extend(of_spec(job, "spec.jobTemplate.spec"));
    let name = text(object, &["metadata", "name"]);
    if name.len() > 52 {
        errors.push(FieldError::invalid("metadata.name", &json!(name), "must be no more than 52 characters"));
    }
    errors
}
