//! Progressive syncs: in which order Applications may sync (ASET section 8).
//!
//! [`advance`] is one pass over recorded facts: what stands in `status.applicationStatus`, what the live Applications
//! say, what the set generates. It answers with the next state and with the Applications whose sync is to be asked for.
//! Nothing is remembered outside of the status, so a controller that starts anew goes on where another one stopped
//! (F26).

mod config;
mod limit;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;
use tiphys_api::application::{
    ApplicationSource, Info, Operation, OperationInitiator, RetryStrategy, SyncOperation, SyncPolicy,
    are_copies,
};
use tiphys_api::applicationset::{ApplicationSetStrategy, RolloutApplicationStatus, RolloutStep};
use tiphys_api::codes::{ConditionType, OperationPhase, RolloutPhase, SetConditionType, SetReason};

use crate::live::{INITIATOR, LiveApplication};
use crate::status::{Evaluated, rfc3339};

pub use config::{is_operator, overlap_text};
pub use limit::{InvalidLimit, limit_of};
pub(crate) use steps::selects;
pub use steps::{Membership, membership};

/// Retries of a sync where the template says nothing (ASET-230).
const RETRY_LIMIT: i64 = 5;
/// Seconds that the clock of a former controller may have been ahead.
const SKEW_MAX: i64 = 600;
/// What `status.applicationStatus` says of Applications in no step.
const NO_STEP: &str = "-1";

/// An Application that the set generates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Desired<'a> {
    /// Name.
    pub name: &'a str,
    /// Labels of the generated Application.
    pub labels: &'a BTreeMap<String, String>,
    /// Whether it may be written.
    pub is_valid: bool,
    /// The sync policy of the template, before anything was switched off.
    pub sync_policy: Option<&'a SyncPolicy>,
}

/// What one pass looks at.
#[derive(Clone, Copy)]
pub struct RolloutFacts<'a> {
    /// Steps of the roll-out.
    pub steps: &'a [RolloutStep],
    /// What the set generates.
    pub desired: &'a [Desired<'a>],
    /// Live Applications of the set.
    pub live: &'a [Observed<'a>],
    /// The state that is stored.
    pub entries: &'a [RolloutApplicationStatus],
    /// The time.
    pub now: Timestamp,
}

/// A live Application as a roll-out sees it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Application.
    pub application: &'a LiveApplication,
    /// Whether the spec that was generated differs from the live one.
    pub spec_differs: bool,
    /// Whether the last comparison was made for the live spec (ASET-207).
    pub is_current: bool,
}

/// What one pass comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutPass {
    /// The new state, sorted by name (ASET-204).
    pub entries: Vec<RolloutApplicationStatus>,
    /// Applications that became Pending in this pass, sorted.
    pub promoted: Vec<String>,
    /// Applications whose sync is asked for, with the operation (ASET-230).
    pub operations: BTreeMap<String, Operation>,
    /// Whether an Application is not asked yet only because its last sync began in this very second, or later by the clock
    /// of another controller.
    pub waits_a_moment: bool,
    /// The step in progress, from 1; `None` when the roll-out is complete (ASET-216).
    pub progressing_step: Option<usize>,
    /// The conditions of the roll-out.
    pub conditions: Vec<Evaluated>,
}

/// Whether a strategy is a roll-out by steps (ASET-201).
pub fn is_rolling(strategy: Option<&ApplicationSetStrategy>) -> bool {
    strategy.is_some_and(|strategy| strategy.r#type == "RollingSync" && strategy.rolling_sync.is_some())
}

/// The steps of a roll-out.
pub fn steps_of(strategy: Option<&ApplicationSetStrategy>) -> &[RolloutStep] {
    let steps = strategy.and_then(|strategy| strategy.rolling_sync.as_ref());
    steps.map_or(&[], |steps| steps.steps.as_slice())
}

/// One pass (ASET-204..231).
pub fn advance(facts: &RolloutFacts<'_>) -> RolloutPass {
    let labels = facts.desired.iter().map(|desired| (desired.name, desired.labels));
    let membership = membership(facts.steps, labels);
    let mut entries = observe(facts, &membership);
    let allowed = allowed(facts, &membership, &entries);
    let (promoted, waits_a_moment) = promote(facts, &membership, &allowed, &mut entries);
    let operations = operations(facts, &allowed, &entries);
    let progressing_step = progressing_step(&membership, &entries);
    let progressing = match progressing_step {
        Some(step) => Evaluated::yes(
            SetConditionType::RolloutProgressing,
            SetReason::ApplicationSetModified,
            format!("ApplicationSet is performing rollout of step {step}"),
        ),
        None => Evaluated::no(
            SetConditionType::RolloutProgressing,
            SetReason::ApplicationSetRolloutComplete,
            "ApplicationSet Rollout has completed",
        ),
    };
    let conditions = vec![config::condition(facts.steps, &membership), progressing];
    RolloutPass {
        entries: entries.into_values().collect(),
        promoted,
        operations,
        waits_a_moment,
        progressing_step,
        conditions,
    }
}

type Entries = BTreeMap<String, RolloutApplicationStatus>;

/// The first half of a pass: what became of each Application (ASET-205, ASET-206).
fn observe(facts: &RolloutFacts<'_>, membership: &Membership) -> Entries {
    let stored: BTreeMap<&str, &RolloutApplicationStatus> =
        facts.entries.iter().map(|entry| (entry.application.as_str(), entry)).collect();
    // One that is on its way out takes no part (ASET-204).
    let live = facts.live.iter().filter(|observed| !observed.application.is_terminating());
    live.map(|observed| {
        let name = &observed.application.name;
        let mut entry = stored.get(name.as_str()).map_or_else(
            || first_entry(observed.application, facts.now),
            |entry| RolloutApplicationStatus::clone(entry),
        );
        entry.step = membership.step_of(name).map_or_else(|| NO_STEP.to_owned(), |step| step.to_string());
        transition(&mut entry, observed, facts.now);
        (name.clone(), entry)
    })
    .collect()
}

fn first_entry(application: &LiveApplication, now: Timestamp) -> RolloutApplicationStatus {
    RolloutApplicationStatus {
        application: application.name.clone(),
        last_transition_time: Some(rfc3339(now)),
        message: "No Application status found, defaulting status to Waiting".to_owned(),
        status: RolloutPhase::Waiting.into(),
        step: String::new(),
        target_revisions: application.status.revisions.clone(),
    }
}

fn go(entry: &mut RolloutApplicationStatus, phase: RolloutPhase, message: &str, now: Timestamp) {
    entry.status = phase.into();
    message.clone_into(&mut entry.message);
    entry.last_transition_time = Some(rfc3339(now));
}

/// The rules of ASET-205, in order.
fn transition(entry: &mut RolloutApplicationStatus, observed: &Observed<'_>, now: Timestamp) {
    let application = observed.application;
    let before = RolloutPhase::parse(&entry.status);
    let revision_differs = entry.target_revisions != application.status.revisions;
    if revision_differs || observed.spec_differs {
        entry.target_revisions.clone_from(&application.status.revisions);
        let message = match (revision_differs, observed.spec_differs) {
            (true, true) => {
                "Application has pending changes (revision and spec differ), setting status to Waiting"
            }
            (false, true) => "Application has pending changes (spec differs), setting status to Waiting",
            _ => "Application has pending changes, setting status to Waiting",
        };
        go(entry, RolloutPhase::Waiting, message, now);
    }
    // What was compared with another spec, or is about to get one, says nothing about it (ASET-207).
    let is_synced = application.is_synced() && observed.is_current && !observed.spec_differs;
    if entry.status == RolloutPhase::Waiting {
        if is_synced && application.is_healthy() {
            let message = "Application resource has synced, updating status to Healthy";
            go(entry, RolloutPhase::Healthy, message, now);
        } else if is_synced {
            let message = "Application resource has synced, updating status to Progressing";
            go(entry, RolloutPhase::Progressing, message, now);
        }
        return;
    }
    match before {
        Some(RolloutPhase::Pending) => {
            if let Some(message) = started(entry, application) {
                go(entry, RolloutPhase::Progressing, message, now);
            }
        }
        Some(RolloutPhase::Progressing) if is_synced && application.is_healthy() => {
            let message = "Application resource became Healthy, updating status from Progressing to Healthy";
            go(entry, RolloutPhase::Healthy, message, now);
        }
        _ => {}
    }
}

/// Why an Application that was Pending is Progressing; `None` while it is not.
fn started(entry: &RolloutApplicationStatus, application: &LiveApplication) -> Option<&'static str> {
    let since = time_of(entry);
    let status = &application.status;
    let operation = status
        .operation
        .as_ref()
        .filter(|operation| began_since(operation.started_at, since, operation.is_ours));
    let is_ours = operation.is_some_and(|operation| operation.is_ours);
    let is_seen = status.reconciled_at.is_none_or(|at| began_since(Some(at), since, is_ours));
    if !is_seen {
        return None;
    }
    if let Some(operation) = operation {
        return Some(match OperationPhase::parse(&operation.phase) {
            Some(OperationPhase::Succeeded) => {
                "Application resource completed a sync successfully, updating status from Pending to Progressing"
            }
            Some(OperationPhase::Failed | OperationPhase::Error) => {
                "Application resource completed a sync, updating status from Pending to Progressing"
            }
            _ => "Application resource became Progressing, updating status from Pending to Progressing",
        });
    }
    let fails =
        |kind: &String| *kind == ConditionType::InvalidSpecError || *kind == ConditionType::UnknownError;
    status
        .conditions
        .iter()
        .any(fails)
        .then_some("Application resource has error and cannot sync, updating status to Progressing")
}

/// Whether something happened after a state was entered. Times are stored in whole seconds: of what happened in the same
/// second only our own operation is known to have come later: nobody becomes Pending in the second in which an operation
/// began ([`promote`]).
fn began_since(at: Option<Timestamp>, since: Option<Timestamp>, is_ours: bool) -> bool {
    match (at, since) {
        (Some(at), Some(since)) => at > since || (is_ours && at == since),
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn time_of(entry: &RolloutApplicationStatus) -> Option<Timestamp> {
    entry.last_transition_time.as_deref().and_then(|text| text.parse().ok())
}

/// Which Applications may sync: all of each step up to the first that has one which is not there and Healthy (ASET-210).
fn allowed(facts: &RolloutFacts<'_>, membership: &Membership, entries: &Entries) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for step in 1..=facts.steps.len() {
        let members: Vec<&str> = membership.members(step).collect();
        allowed.extend(members.iter().map(|name| (*name).to_owned()));
        let arrived =
            |name: &&str| entries.get(*name).is_some_and(|entry| entry.status == RolloutPhase::Healthy);
        if !members.iter().all(arrived) {
            break;
        }
    }
    allowed
}

/// The second half of a pass: who is asked to sync next (ASET-211..213), and whether somebody would be a moment later.
fn promote(
    facts: &RolloutFacts<'_>,
    membership: &Membership,
    allowed: &BTreeSet<String>,
    entries: &mut Entries,
) -> (Vec<String>, bool) {
    let now = facts.now.as_second();
    let just_began = |observed: &&Observed<'_>| {
        let operation = observed.application.status.operation.as_ref();
        let ours = operation.filter(|operation| operation.is_ours);
        let at = ours.and_then(|operation| operation.started_at).map(Timestamp::as_second);
        at.is_some_and(|at| (now..=now.saturating_add(SKEW_MAX)).contains(&at))
    };
    let began = facts.live.iter().filter(just_began).map(|observed| observed.application.name.as_str());
    let began: BTreeSet<&str> = began.collect();
    let mut waits_a_moment = false;
    // Applications in no step count nowhere (ASET-213).
    let mut total = vec![0_usize; facts.steps.len() + 1];
    let mut busy = vec![0_usize; facts.steps.len() + 1];
    let is_busy = |entry: &RolloutApplicationStatus| {
        entry.status == RolloutPhase::Pending || entry.status == RolloutPhase::Progressing
    };
    for (name, entry) in entries.iter() {
        let Some(step) = membership.step_of(name) else { continue };
        if let Some(count) = total.get_mut(step) {
            *count += 1;
        }
        if let Some(count) = busy.get_mut(step).filter(|_| is_busy(entry)) {
            *count += 1;
        }
    }
    let mut promoted = Vec::new();
    for (name, entry) in entries.iter_mut() {
        let Some(step) = membership.step_of(name).filter(|_| allowed.contains(name)) else { continue };
        if entry.status != RolloutPhase::Waiting {
            continue;
        }
        let max_update = facts.steps.get(step - 1).and_then(|step| step.max_update.as_ref());
        let members = total.get(step).copied().unwrap_or(0);
        let Some(busy) = busy.get_mut(step) else { continue };
        if limit_of(max_update, members).unwrap_or(Some(1)).is_some_and(|limit| *busy >= limit) {
            continue;
        }
        // Later it could not be told from the sync that this asks for.
        if began.contains(name.as_str()) {
            waits_a_moment = true;
            continue;
        }
        *busy += 1;
        let message =
            "Application moved to Pending status, watching for the Application resource to start Progressing";
        go(entry, RolloutPhase::Pending, message, facts.now);
        promoted.push(name.clone());
    }
    (promoted, waits_a_moment)
}

/// The operations that are written in this pass (ASET-230, ASET-231).
fn operations(
    facts: &RolloutFacts<'_>,
    allowed: &BTreeSet<String>,
    entries: &Entries,
) -> BTreeMap<String, Operation> {
    let live: BTreeMap<&str, &LiveApplication> = facts
        .live
        .iter()
        .map(|observed| (observed.application.name.as_str(), observed.application))
        .collect();
    let is_asked_for = |desired: &&Desired<'_>| {
        let entry = entries.get(desired.name).filter(|entry| entry.status == RolloutPhase::Pending);
        let (Some(entry), Some(application)) = (entry, live.get(desired.name)) else { return false };
        let runs =
            application.status.operation.as_ref().is_some_and(|operation| {
                began_since(operation.started_at, time_of(entry), operation.is_ours)
            });
        desired.is_valid && allowed.contains(desired.name) && !application.has_operation && !runs
    };
    let asked = facts.desired.iter().filter(is_asked_for);
    asked.map(|desired| (desired.name.to_owned(), operation_of(desired.sync_policy))).collect()
}

fn operation_of(policy: Option<&SyncPolicy>) -> Operation {
    let automated = policy.and_then(|policy| policy.automated.as_ref());
    let automated = automated.filter(|automated| automated.enabled != Some(false));
    Operation {
        sync: Some(SyncOperation {
            prune: automated.is_some_and(|automated| automated.prune),
            sync_options: policy.map(|policy| policy.sync_options.clone()).unwrap_or_default(),
            ..SyncOperation::default()
        }),
        initiated_by: OperationInitiator {
            username: INITIATOR.to_owned(),
            automated: true,
            ..OperationInitiator::default()
        },
        info: vec![Info {
            name: "Reason".to_owned(),
            value: "ApplicationSet RollingSync triggered a sync of this Application resource".to_owned(),
            ..Info::default()
        }],
        retry: policy
            .and_then(|policy| policy.retry.clone())
            .unwrap_or_else(|| RetryStrategy { limit: RETRY_LIMIT, ..RetryStrategy::default() }),
        ..Operation::default()
    }
}

/// The lowest step with an Application that has not arrived (ASET-216).
fn progressing_step(membership: &Membership, entries: &Entries) -> Option<usize> {
    let under_way = entries.iter().filter(|(_, entry)| entry.status != RolloutPhase::Healthy);
    under_way.filter_map(|(name, _)| membership.step_of(name)).min()
}

/// The lowest step with an Application that has not arrived, as it is stored; `None` when the roll-out is complete
/// (ASET-312).
pub fn step_in_progress(entries: &[RolloutApplicationStatus]) -> Option<usize> {
    let under_way = entries.iter().filter(|entry| entry.status != RolloutPhase::Healthy);
    under_way.filter_map(|entry| entry.step.parse().ok()).filter(|step| *step > 0).min()
}

/// Whether the last comparison of an Application was made for the spec it has (ASET-207).
pub fn is_current(application: &LiveApplication) -> bool {
    let compared = &application.status.compared_to;
    let part = |name: &str| {
        let canonical = |value: Option<&serde_json::Value>| {
            let holder = json!({name: value.cloned().unwrap_or_default()});
            holder.as_object().map(crate::canonical::spec).unwrap_or_default()
        };
        let (copy, declared) = (compared.get(name), application.spec.get(name));
        canonical(copy) == canonical(declared) || is_abridged(copy, declared)
    };
    let several = application.spec.get("sources").and_then(|sources| sources.as_array());
    // Of several sources all are compared; those of a hydrator are not in the spec.
    let sources = if several.is_some_and(|sources| !sources.is_empty()) {
        part("sources")
    } else {
        application.spec.get("source").is_none_or(serde_json::Value::is_null) || part("source")
    };
    !compared.is_null() && sources && part("destination") && part("ignoreDifferences")
}

/// Whether a status has digests in place of the options of these sources (CTL-36).
fn is_abridged(copy: Option<&serde_json::Value>, declared: Option<&serde_json::Value>) -> bool {
    let sources = |value: Option<&serde_json::Value>| -> Option<Vec<ApplicationSource>> {
        let value = value?.clone();
        let list = if value.is_array() { value } else { serde_json::Value::Array(vec![value]) };
        serde_json::from_value(list).ok()
    };
    sources(copy).zip(sources(declared)).is_some_and(|(copy, declared)| {
        copy.iter().any(ApplicationSource::is_abridged) && are_copies(&copy, &declared)
    })
}

#[cfg(test)]
mod tests;
