//! `CronJobs`: a Job whenever the schedule says so.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tiphys_go::cron;
use tiphys_object::access;

use super::{controlled, create, delete, owner_reference, set_status, wake_at, write};
use crate::clock::seconds;
use crate::state::{State, condition};
use crate::store::Key;
use crate::tree::integer;

pub(super) fn reconcile(state: &mut State, key: &Key, mut cron_job: Value, now: Timestamp) {
    let zone = match access::text_at(&cron_job, &["spec", "timeZone"]) {
        "" => TimeZone::UTC,
        name => cron::zone(name).unwrap_or(TimeZone::UTC),
    };
    let Ok(schedule) = cron::Schedule::parse(access::text_at(&cron_job, &["spec", "schedule"]), zone) else {
        return;
    };
    let made: Timestamp =
        access::text_at(&cron_job, &["metadata", "creationTimestamp"]).parse().unwrap_or(now);
    let last =
        access::text_at(&cron_job, &["status", "lastScheduleTime"]).parse::<Timestamp>().unwrap_or(made);
    let jobs = controlled(state, &cron_job, "batch", "jobs");
    let is_over =
        |job: &Value| ["Complete", "Failed"].iter().any(|kind| condition(job, kind) == Some("True"));
    clean_up(state, &cron_job, &jobs, now);
    let active: Vec<Value> = jobs
        .iter()
        .filter(|(_, job)| !is_over(job))
        .map(|(_, job)| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": access::name(job),
                "namespace": access::namespace(job), "uid": access::uid(job),
                "resourceVersion": access::text_at(job, &["metadata", "resourceVersion"])})
        })
        .collect();
    let is_suspended = access::at(&cron_job, &["spec", "suspend"]) == Some(&Value::Bool(true));
    if !is_suspended && let Some(due) = schedule.next_after(last) {
        if due > now {
            wake_at(state, due, key);
        } else {
            // Of times that were missed only the last counts.
            let mut due = due;
            while let Some(next) = schedule.next_after(due).filter(|next| *next <= now) {
                due = next;
            }
            let policy = access::text_at(&cron_job, &["spec", "concurrencyPolicy"]);
            let may_start = active.is_empty() || policy != "Forbid";
            if policy == "Replace" {
                for (job, _) in jobs.iter().filter(|(_, job)| !is_over(job)) {
                    delete(state, job, now);
                }
            }
            if may_start {
                start(state, &cron_job, due, now);
                set_status(&mut cron_job, json!({"lastScheduleTime": seconds(due)}));
            }
            if let Some(next) = schedule.next_after(now) {
                wake_at(state, next, key);
            }
        }
    }
    let active = if active.is_empty() { Value::Null } else { json!(active) };
    set_status(&mut cron_job, json!({"active": active}));
    let succeeded = jobs
        .iter()
        .filter(|(_, job)| condition(job, "Complete") == Some("True"))
        .map(|(_, job)| access::text_at(job, &["status", "completionTime"]).to_owned())
        .max();
    if let Some(time) = succeeded {
        set_status(&mut cron_job, json!({"lastSuccessfulTime": time}));
    }
    write(state, key, cron_job);
}

fn start(state: &mut State, cron_job: &Value, due: Timestamp, now: Timestamp) {
    let template = access::at(cron_job, &["spec", "jobTemplate"]).cloned().unwrap_or(Value::Null);
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let members = access::ensure_object(&mut metadata);
    members.insert("name".to_owned(), json!(format!("{}-{}", access::name(cron_job), due.as_second() / 60)));
    members.insert("namespace".to_owned(), json!(access::namespace(cron_job)));
    members.insert("ownerReferences".to_owned(), json!([owner_reference(cron_job)]));
    access::member_object_mut(members, "annotations")
        .insert("batch.kubernetes.io/cronjob-scheduled-timestamp".to_owned(), json!(seconds(due)));
    let job = json!({"metadata": metadata, "spec": template.get("spec").cloned().unwrap_or(Value::Null)});
    create(state, "batch", "v1", "jobs", job, now);
}

/// Jobs beyond the history go, the oldest first.
fn clean_up(state: &mut State, cron_job: &Value, jobs: &[(Key, Value)], now: Timestamp) {
    for (kind, member, usual) in
        [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)]
    {
        let limit = integer(cron_job, &["spec", member]).unwrap_or(usual);
        let mut over: Vec<&(Key, Value)> =
            jobs.iter().filter(|(_, job)| condition(job, kind) == Some("True")).collect();
        over.sort_by_key(|(_, job)| access::text_at(job, &["metadata", "creationTimestamp"]).to_owned());
        let surplus = over.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for (job, _) in over.into_iter().take(surplus) {
            delete(state, job, now);
        }
    }
}
