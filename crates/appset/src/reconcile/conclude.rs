//! What a pass comes to once its writes were tried.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tiphys_api::applicationset::ApplicationSetStatus;
use tiphys_api::codes::SetReason;

use super::{Action, PassFacts, Plan, Problem};
use crate::events::Event;
use crate::live::LiveApplication;
use crate::status::{self, next_conditions, status_patch};

/// What came of the writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Applications that could not be created or changed, with the reasons.
    pub failed: BTreeMap<String, String>,
    /// Applications that were deleted, or whose deletion was accepted.
    pub removed: BTreeSet<String>,
    /// Applications whose finalizer was taken away first.
    pub stripped: BTreeSet<String>,
    /// Applications that could not be deleted, with the reasons.
    pub not_removed: BTreeMap<String, String>,
}

/// When a set is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When something happens.
    OnEvent,
    /// After a time.
    After(Duration),
    /// With growing distance.
    Backoff,
}

/// What a pass comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The status.
    pub status: ApplicationSetStatus,
    /// The patch that stores it; `None` when it is stored.
    pub patch: Option<Value>,
    /// Events on the set.
    pub events: Vec<Event>,
    /// Whether the pass succeeded, so that the annotation that asked for it is taken away (ASET-182).
    pub succeeded: bool,
    /// When the set is looked at again.
    pub requeue: Requeue,
}

/// Makes status, events and the next look of what came of the writes. `stored` is the status as it is stored now.
pub fn conclude(facts: &PassFacts<'_>, plan: &Plan, outcomes: &Outcomes, stored: &Value) -> Conclusion {
    let problem = problem(plan, outcomes);
    let mut status = plan.status.clone();
    let mut evaluated = plan.conditions.clone();
    evaluated.extend(match &problem {
        Some((problem, _)) => status::failure(problem.reason, &problem.message),
        None => status::success(),
    });
    status.conditions = next_conditions(&status.conditions, &evaluated, &plan.removed_conditions, facts.now);
    status.health = Some(status::health(&status.conditions));
    // What could not be generated says nothing about what exists (ASET-154).
    if !plan.is_early {
        let live = live_after(facts, plan, outcomes);
        status.resources_count = i64::try_from(live.len()).ok();
        status.resources = status::resources(&live);
    }
    let room = status::room(facts.request.set);
    status::bound(&mut status, facts.request.settings.status_resources_max, room);
    let requeue = match &problem {
        Some((_, requeue)) => *requeue,
        None => plan.requeue_after.map_or(Requeue::OnEvent, Requeue::After),
    };
    Conclusion {
        patch: status_patch(stored, &status),
        status,
        events: events(plan, outcomes),
        succeeded: problem.is_none(),
        requeue,
    }
}

/// What is wrong, the last step first: a write that failed, a removal that failed, what was known before.
fn problem(plan: &Plan, outcomes: &Outcomes) -> Option<(Problem, Requeue)> {
    let refused = plan.writes.iter().filter_map(|write| match &write.action {
        Action::Refuse(reason) => Some((write.name.as_str(), reason.as_str())),
        Action::Create(_) | Action::Update { .. } => None,
    });
    let failed = outcomes.failed.iter().map(|(name, reason)| (name.as_str(), reason.as_str()));
    // The reported error is that of the first name (ASET-141).
    if let Some((_, reason)) = refused.chain(failed).min() {
        let kind = if plan.policy.may_update() {
            SetReason::UpdateApplicationError
        } else {
            SetReason::CreateApplicationError
        };
        return Some((failure(kind, reason), Requeue::Backoff));
    }
    if let Some((_, reason)) = outcomes.not_removed.first_key_value() {
        return Some((failure(SetReason::DeleteApplicationError, reason), Requeue::Backoff));
    }
    let problem = plan.problem.clone()?;
    let requeue = problem.requeue_after.map_or(Requeue::OnEvent, Requeue::After);
    Some((problem, requeue))
}

fn failure(reason: SetReason, message: &str) -> Problem {
    Problem { reason, message: message.to_owned(), requeue_after: None }
}

/// The live Applications of the set after the pass: without those that are gone, with those that were made.
fn live_after(facts: &PassFacts<'_>, plan: &Plan, outcomes: &Outcomes) -> Vec<LiveApplication> {
    let is_gone = |live: &LiveApplication| {
        let waits = !live.finalizers.is_empty() && !outcomes.stripped.contains(&live.name);
        outcomes.removed.contains(&live.name) && !waits
    };
    let written = |name: &str| !outcomes.failed.contains_key(name);
    let mut live: Vec<LiveApplication> = facts
        .live
        .values()
        .filter(|live| plan.own.contains(&live.name) && !is_gone(live))
        .map(summary)
        .collect();
    for write in plan.writes.iter().filter(|write| written(&write.name) && !plan.own.contains(&write.name)) {
        match &write.action {
            Action::Create(manifest) => live.push(LiveApplication {
                name: write.name.clone(),
                namespace: tiphys_object::access::namespace(manifest).to_owned(),
                ..LiveApplication::default()
            }),
            // One that belonged to nobody is the set's now.
            Action::Update { .. } => live.extend(facts.live.get(&write.name).map(summary)),
            Action::Refuse(_) => {}
        }
    }
    live
}

/// What a status says of an Application.
fn summary(live: &LiveApplication) -> LiveApplication {
    let mut short = LiveApplication {
        name: live.name.clone(),
        namespace: live.namespace.clone(),
        ..LiveApplication::default()
    };
    short.status.sync.clone_from(&live.status.sync);
    short.status.health.clone_from(&live.status.health);
    short
}

/// Events about what was written (ASET-143).
fn events(plan: &Plan, outcomes: &Outcomes) -> Vec<Event> {
    let mut events = plan.events.clone();
    for write in plan.writes.iter().filter(|write| !outcomes.failed.contains_key(&write.name)) {
        let name = &write.name;
        match &write.action {
            Action::Create(_) => {
                events.push(Event::normal("created", format!("created Application {name:?}")));
            }
            Action::Update { .. } => {
                events.push(Event::normal("updated", format!("updated Application {name:?}")));
            }
            Action::Refuse(_) => {}
        }
    }
    for name in &outcomes.stripped {
        let message = format!(
            "Updated Application {name:?} finalizer before deletion, because application has an invalid destination"
        );
        events.push(Event::normal("Updated", message));
    }
    for name in &outcomes.removed {
        events.push(Event::normal("Deleted", format!("Deleted Application {name:?}")));
    }
    events
}
