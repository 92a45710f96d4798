//! Rows of workloads.

use serde_json::Value;

use super::age;
use super::row::{NONE, Row, UNSET};

const CONTAINERS: &str = "/spec/template/spec/containers";

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/template/spec/containers");
    vec![row.name(), names, images, row.labels("/template/metadata/labels").into()]
}

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    let selector = row.selector("/spec/selector");
    vec![
        row.name(),
        ready(row).into(),
        row.integer("/status/updatedReplicas").into(),
        row.integer("/status/availableReplicas").into(),
        row.age(),
        names,
        images,
        if selector == NONE { "" } else { selector.as_str() }.into(),
    ]
}

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![row.name(), ready(row).into(), row.age(), names, images]
}

fn ready(row: &Row<'_>) -> String {
    format!("{}/{}", row.integer("/status/readyReplicas"), row.integer("/spec/replicas"))
}

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Value> {
    replicas(row, row.selector("/spec/selector"))
}

pub(super) fn replication_controller(row: &Row<'_>) -> Vec<Value> {
    replicas(row, row.labels("/spec/selector"))
}

fn replicas(row: &Row<'_>, selector: String) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        row.integer("/spec/replicas").into(),
        row.integer("/status/replicas").into(),
        row.integer("/status/readyReplicas").into(),
        row.age(),
        names,
        images,
        selector.into(),
    ]
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        row.integer("/status/desiredNumberScheduled").into(),
        row.integer("/status/currentNumberScheduled").into(),
        row.integer("/status/numberReady").into(),
        row.integer("/status/updatedNumberScheduled").into(),
        row.integer("/status/numberAvailable").into(),
        row.labels("/spec/template/spec/nodeSelector").into(),
        row.age(),
        names,
        images,
        row.selector("/spec/selector").into(),
    ]
}

pub(super) fn controller_revision(row: &Row<'_>) -> Vec<Value> {
    let owner = row.items("/metadata/ownerReferences").find(|owner| owner.is_set("/controller"));
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let kind = owner.text("/kind").to_lowercase();
            let name = owner.text("/name");
            match owner.text("/apiVersion").split_once('/') {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        },
    );
    vec![row.name(), controller.into(), row.integer("/revision").into(), row.age()]
}

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        job_status(row).into(),
        completions(row).into(),
        job_duration(row).into(),
        row.age(),
        names,
        images,
        row.selector("/spec/selector").into(),
    ]
}

fn job_status(row: &Row<'_>) -> &'static str {
    let is = |condition| row.condition(condition) == Some("True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if row.is_terminating() {
        "Terminating"
    } else {
        let other = ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(|name| is(name));
        other.unwrap_or("Running")
    }
}

fn completions(row: &Row<'_>) -> String {
    let done = row.integer("/status/succeeded");
    let parallelism = row.integer("/spec/parallelism");
    match row.at("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{done}/{wanted}"),
        None if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        None => format!("{done}/1"),
    }
}

fn job_duration(row: &Row<'_>) -> String {
    let Some(start) = row.time("/status/startTime") else { return String::new() };
    age::between(Some(start), row.time("/status/completionTime").unwrap_or(row.now))
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/spec/jobTemplate/spec/template/spec/containers");
    let suspend = match row.at("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = row.at("/status/lastScheduleTime").map(|_| row.since("/status/lastScheduleTime"));
    vec![
        row.name(),
        row.text("/spec/schedule").into(),
        row.text_or("/spec/timeZone", NONE).into(),
        suspend.into(),
        row.count("/status/active").into(),
        last.unwrap_or_else(|| NONE.to_owned()).into(),
        row.age(),
        names,
        images,
        row.selector("/spec/jobTemplate/spec/selector").into(),
    ]
}

pub(super) fn disruption_budget(row: &Row<'_>) -> Vec<Value> {
    let or_none = |path| Value::from(row.plain(path).unwrap_or_else(|| "N/A".to_owned()));
    vec![
        row.name(),
        or_none("/spec/minAvailable"),
        or_none("/spec/maxUnavailable"),
        row.integer("/status/disruptionsAllowed").into(),
        row.age(),
    ]
}
