//! One pass over a living set: what is written, and what its status becomes (ASET sections 2, 5 and 6).
//!
//! ```text
//! generate ──▶ plan ──▶ (the shell writes) ──▶ conclude
//! ```
//!
//! [`plan`] decides from the set, from what was generated and from the live Applications. The shell carries out the
//! writes, in order, and the removals only where all writes succeeded ([`Plan::may_remove`]); [`conclude`] makes the
//! conditions, the rest of the status, the events and the time of the next look of it. Where nothing differs nothing is
//! written.

mod conclude;
mod prune;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::applicationset::{ApplicationSetStatus, Policy, RolloutApplicationStatus};
use tiphys_api::codes::{SetConditionType, SetReason};
use tiphys_api::project::DEFAULT_PROJECT;
use tiphys_engine::normalize::IgnoreRules;

use crate::compare::{self, Comparison, Preserved};
use crate::deletion::{self, Order, order_warnings};
use crate::events::Event;
use crate::facts::{Facts, NoAnswer};
use crate::generate::{Failure, Generated, Request, Stop};
use crate::generator::{self, Kind};
use crate::live::{LiveApplication, owner_reference};
use crate::rollout::{self, Desired, Observed, RolloutFacts};
use crate::scope::{Scope, ScopeError};
use crate::status::{Evaluated, next_conditions, status_patch};
use crate::validate::{Validation, fill_projects, validate};

pub use conclude::{Conclusion, Outcomes, Requeue, conclude};

/// How soon a pass that failed before it wrote anything is repeated (ASET-11, ASET-14).
pub const RETRY_AFTER: Duration = Duration::from_mins(3);
/// How soon a set that generates nothing any more is looked at again before its Applications go.
pub const CONFIRM_AFTER: Duration = Duration::from_mins(1);

/// How soon a set is looked at again whose roll-out waits for the next second.
const MOMENT: Duration = Duration::from_secs(1);

/// What a pass is decided from.
#[derive(Clone, Copy)]
pub struct PassFacts<'a> {
    /// The set and the settings.
    pub request: &'a Request<'a>,
    /// What was generated, or why nothing was.
    pub generated: &'a Result<Generated, Failure>,
    /// Applications of the set's namespace by name: those of the set, and those that have a generated name.
    pub live: &'a BTreeMap<String, LiveApplication>,
    /// Projects and clusters.
    pub facts: &'a dyn Facts,
    /// Differences that do not count, or why they are not known (ASET-140).
    pub ignore: Result<Option<&'a IgnoreRules>, &'a str>,
    /// Whether the last look found nothing either, where what is generated comes from outside (INV-8).
    pub emptiness_is_confirmed: bool,
    /// The time.
    pub now: Timestamp,
}

/// One write to an Application.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Its name.
    pub name: String,
    /// What is written.
    pub action: Action,
}

/// What is written to an Application.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It is created.
    Create(Value),
    /// It is changed.
    Update {
        /// Merge patch.
        patch: Value,
        /// The version that the patch was made for, where it replaces lists that others write too.
        resource_version: Option<String>,
    },
    /// It must not be written.
    Refuse(String),
}

/// An Application that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its name.
    pub name: String,
    /// Its unique id: one that was made anew meanwhile stays.
    pub uid: String,
    /// The finalizers that are left to it, where one has to go first (ASET-142).
    pub finalizers: Option<Vec<String>>,
}

/// What a pass does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Whether the set gets the finalizer before anything else (ASET-243).
    pub adds_finalizer: bool,
    /// The status after the bookkeeping of the roll-out; it is stored before anything is written (ASET-217).
    pub status: ApplicationSetStatus,
    /// Writes, sorted by name.
    pub writes: Vec<Write>,
    /// Applications that go once all writes succeeded.
    pub removals: Vec<Removal>,
    /// Applications that became Pending.
    pub promoted: Vec<String>,
    /// Names of those whose sync is asked for.
    pub operations: BTreeSet<String>,
    /// Events that do not depend on what comes of the writes.
    pub events: Vec<Event>,
    /// What is wrong already.
    problem: Option<Problem>,
    /// Whether the pass ended before anything was looked at.
    is_early: bool,
    is_suddenly_empty: bool,
    conditions: Vec<Evaluated>,
    removed_conditions: Vec<SetConditionType>,
    policy: Policy,
    requeue_after: Option<Duration>,
    /// Names of the live Applications of the set.
    own: BTreeSet<String>,
}

/// Something that is wrong without ending the pass.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    reason: SetReason,
    message: String,
    requeue_after: Option<Duration>,
}

impl Plan {
    /// Whether the removals may be carried out (ASET-142).
    pub fn may_remove(&self, outcomes: &Outcomes) -> bool {
        let refused = self.writes.iter().any(|write| matches!(write.action, Action::Refuse(_)));
        !refused && outcomes.failed.is_empty()
    }

    /// The patch that stores the bookkeeping of the roll-out; `None` when it is stored.
    pub fn rollout_patch(&self, stored: &Value) -> Option<Value> {
        status_patch(stored, &self.status)
    }

    /// What is wrong already, for those who only show it.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_ref().map(|problem| problem.message.as_str())
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether everything that is generated comes from outside and is gone, while Applications are there: a first look that
    /// finds this removes nothing, and one after it that finds the same is a second witness (INV-8).
    pub fn is_suddenly_empty(&self) -> bool {
        self.is_suddenly_empty
    }
}

/// Decides what a pass does. Where a rule about differences was stopped, Applications are not updated, as where a rule
/// cannot be read: the fields that it protects would be overwritten (ASET-140).
///
/// # Errors
/// When questions are open.
pub fn plan(facts: &PassFacts<'_>) -> Result<Plan, Stop> {
    let plan = planned(facts)?;
    match facts.ignore.ok().flatten().and_then(|rules| rules.stopped().pop_first()) {
        Some(note) => planned(&PassFacts { ignore: Err(&note), ..*facts }),
        None => Ok(plan),
    }
}

fn planned(facts: &PassFacts<'_>) -> Result<Plan, Stop> {
    let set = facts.request.set;
    let settings = facts.request.settings;
    let policy = settings
        .policy_for(set.spec.sync_policy.as_ref().and_then(|policy| policy.applications_sync.as_deref()));
    let mut plan = Plan {
        adds_finalizer: deletion::needs_finalizer(set, settings),
        status: set.status.clone(),
        policy,
        requeue_after: generator::requeue_after(set, settings),
        own: facts.live.values().filter(|live| live.is_of(set)).map(|live| live.name.clone()).collect(),
        removed_conditions: vec![SetConditionType::DeletionProgressing],
        ..Plan::default()
    };
    let is_rolling = settings.progressive_syncs && rollout::is_rolling(set.spec.strategy.as_ref());
    if !is_rolling {
        plan.status.application_status.clear();
        plan.removed_conditions
            .extend([SetConditionType::RolloutProgressing, SetConditionType::InvalidRolloutConfig]);
    }
    let generated = match facts.generated {
        Ok(generated) => generated,
        Err(failure) => return Ok(plan.ended(failure.reason, &failure.message)),
    };
    let mut applications = Cow::Borrowed(generated.applications.as_slice());
    let scope = match Scope::of(set, settings, facts.request.control_plane_namespace, facts.facts) {
        Ok(scope) => scope,
        Err(ScopeError::Pending) => return Err(Stop::Pending),
        Err(ScopeError::Refused(failure)) => return Ok(plan.ended(failure.reason, &failure.message)),
    };
    if scope.project().is_some() {
        fill_projects(applications.to_mut(), &scope);
    }
    let validation =
        match validate(&set.metadata.name, &applications, &scope, facts.request.matching, facts.facts) {
            Ok(validation) => validation,
            Err(NoAnswer::Pending) => return Err(Stop::Pending),
            Err(NoAnswer::Failed(reason)) => {
                return Ok(plan.ended(SetReason::ApplicationValidationError, &reason));
            }
        };
    if is_rolling && rollout::steps_of(set.spec.strategy.as_ref()).is_empty() {
        return Ok(plan.ended(SetReason::ApplicationSetRolloutError, "No steps defined for rollout"));
    }
    let owner = owner_reference(&set.metadata.name, &set.metadata.uid);
    let preserved = Preserved::of(set, settings);
    let ignore = facts.ignore.unwrap_or(None);
    let comparison = Comparison { preserved: &preserved, ignore, owner: &owner };
    if is_rolling {
        plan.roll(facts, applications.to_mut(), &validation, &comparison);
    }
    let names: BTreeSet<&str> = applications.iter().map(|app| app.metadata.name.as_str()).collect();
    let mut admitted: Vec<&Application> = applications.iter().filter(|app| validation.admits(app)).collect();
    admitted.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    plan.write(facts, &admitted, &comparison);
    plan.look_for_problems(facts, &validation);
    plan.remove(facts, &names)?;
    plan.warn(facts);
    Ok(plan)
}

impl Plan {
    /// The pass ends here: nothing is created, changed or deleted (ASET-11).
    fn ended(mut self, reason: SetReason, message: &str) -> Self {
        self.is_early = true;
        let message = message.to_owned();
        self.problem = Some(Problem { reason, message, requeue_after: Some(RETRY_AFTER) });
        self
    }

    /// The bookkeeping of a roll-out; Applications get their operations (ASET-202..231).
    fn roll(
        &mut self,
        facts: &PassFacts<'_>,
        applications: &mut [Application],
        validation: &Validation,
        comparison: &Comparison<'_>,
    ) {
        let policies: Vec<_> = applications.iter().map(|app| app.spec.sync_policy.clone()).collect();
        for application in applications.iter_mut() {
            let policy = application.spec.sync_policy.as_mut();
            if let Some(automated) = policy.and_then(|policy| policy.automated.as_mut()) {
                automated.enabled = Some(false);
            }
        }
        let strategy = facts.request.set.spec.strategy.as_ref();
        let generated: BTreeMap<&str, &Application> =
            applications.iter().rev().map(|app| (app.metadata.name.as_str(), app)).collect();
        let live = facts.live.values().filter(|live| self.own.contains(&live.name));
        let observed: Vec<Observed<'_>> = live
            .map(|live| Observed {
                application: live,
                // What is not going to be written is no change that is awaited.
                spec_differs: self.policy.may_update()
                    && facts.ignore.is_ok()
                    && generated.get(live.name.as_str()).is_some_and(|generated| {
                        validation.admits(generated) && comparison.spec_differs(generated, live)
                    }),
                is_current: rollout::is_current(live),
            })
            .collect();
        let mut seen = BTreeSet::new();
        let desired: Vec<Desired<'_>> = (applications.iter().zip(&policies))
            .filter(|(app, _)| seen.insert(app.metadata.name.as_str()))
            .map(|(app, policy)| Desired {
                name: &app.metadata.name,
                labels: &app.metadata.labels,
                is_valid: validation.admits(app),
                sync_policy: policy.as_ref(),
            })
            .collect();
        let pass = rollout::advance(&RolloutFacts {
            steps: rollout::steps_of(strategy),
            desired: &desired,
            live: &observed,
            entries: &facts.request.set.status.application_status,
            now: facts.now,
        });
        self.status.application_status =
            kept_or_new(&facts.request.set.status.application_status, pass.entries);
        self.conditions = pass.conditions;
        self.promoted = pass.promoted;
        if pass.waits_a_moment {
            self.requeue_after = Some(self.requeue_after.map_or(MOMENT, |after| after.min(MOMENT)));
        }
        for application in applications.iter_mut() {
            if let Some(operation) = pass.operations.get(&application.metadata.name) {
                application.operation = Some(Box::new(operation.clone()));
                self.operations.insert(application.metadata.name.clone());
            }
        }
        self.status.conditions = next_conditions(&self.status.conditions, &self.conditions, &[], facts.now);
        let room = crate::status::room(facts.request.set);
        crate::status::bound(&mut self.status, facts.request.settings.status_resources_max, room);
    }

    /// What makes the Applications that may be written what was generated (ASET-132, ASET-133, ASET-141).
    fn write(&mut self, facts: &PassFacts<'_>, applications: &[&Application], comparison: &Comparison<'_>) {
        let set = facts.request.set;
        for application in applications {
            let name = &application.metadata.name;
            let action = match facts.live.get(name) {
                None => Some(Action::Create(compare::created(application, comparison.owner))),
                // It is made anew when it is gone (ASET-144).
                Some(live) if live.is_of(set) && live.is_terminating() => None,
                Some(live) if live.is_of(set) && !self.policy.may_update() => None,
                Some(live) => update(facts, application, live, comparison),
            };
            self.writes.extend(action.map(|action| Write { name: name.clone(), action }));
        }
        let names = self.writes.iter().map(|write| write.name.as_str());
        let written: BTreeSet<&str> = names.collect();
        self.operations.retain(|name| written.contains(name.as_str()));
    }

    fn look_for_problems(&mut self, facts: &PassFacts<'_>, validation: &Validation) {
        if let Some(message) = validation.message() {
            let reason = SetReason::ApplicationValidationError;
            let sooner = self.requeue_after.map_or(RETRY_AFTER, |after| after.min(RETRY_AFTER));
            self.problem = Some(Problem { reason, message, requeue_after: Some(sooner) });
        } else if let Err(invalid) = Order::of(facts.request.set.spec.strategy.as_ref()) {
            let reason = SetReason::ApplicationSetInvalidDeletionConfig;
            let message = invalid.to_string();
            self.problem = Some(Problem { reason, message, requeue_after: self.requeue_after });
        }
    }

    /// Applications that are not generated any more (ASET-142, ASET-259).
    fn remove(&mut self, facts: &PassFacts<'_>, names: &BTreeSet<&str>) -> Result<(), Stop> {
        let is_stale =
            |live: &&LiveApplication| self.own.contains(&live.name) && !names.contains(live.name.as_str());
        let stale: Vec<&LiveApplication> = facts.live.values().filter(is_stale).collect();
        if stale.is_empty() || !self.policy.may_delete() {
            return Ok(());
        }
        // Those on their way out need no witness any more.
        let living = stale.iter().filter(|live| !live.is_terminating()).count();
        self.is_suddenly_empty = names.is_empty() && living > 0 && comes_from_outside(facts);
        if self.is_suddenly_empty && !facts.emptiness_is_confirmed {
            let message = format!(
                "the generators found nothing where {living} Applications exist; they are deleted when the next look finds \
                 nothing either"
            );
            let reason = SetReason::ApplicationGenerationFromParamsError;
            self.problem = Some(Problem { reason, message, requeue_after: Some(CONFIRM_AFTER) });
            return Ok(());
        }
        let removals = match prune::removals(facts, &stale) {
            Ok(removals) => removals,
            Err(Stop::Pending) => return Err(Stop::Pending),
            // What is not known of those that go keeps nobody else from being made or changed.
            Err(Stop::Failed(Failure { reason, message, .. })) => {
                let problem = Problem { reason, message, requeue_after: Some(RETRY_AFTER) };
                self.problem.get_or_insert(problem);
                return Ok(());
            }
        };
        if prune::is_ordered(facts) {
            let sooner = self.requeue_after.map_or(deletion::REQUEUE, |after| after.min(deletion::REQUEUE));
            self.requeue_after = Some(sooner);
        }
        self.removals = removals;
        Ok(())
    }

    fn warn(&mut self, facts: &PassFacts<'_>) {
        let own = facts.live.values().filter(|live| self.own.contains(&live.name));
        let labelled = own.map(|live| (live.name.as_str(), &live.labels));
        self.events.extend(order_warnings(facts.request.set.spec.strategy.as_ref(), labelled));
    }
}

/// What makes a live Application what was generated; `None` where nothing has to be written.
fn update(
    facts: &PassFacts<'_>,
    application: &Application,
    live: &LiveApplication,
    comparison: &Comparison<'_>,
) -> Option<Action> {
    let is_own = live.is_of(facts.request.set);
    let project = match application.spec.project.as_str() {
        "" => DEFAULT_PROJECT,
        named => named,
    };
    if !is_own && live.project() != project {
        // Whose it is, and what owns it, is not for this set to tell (SEC-25); nor does adopting move it (INV-16).
        return Some(Action::Refuse(format!(
            "Object {}/{} exists already, and this set did not make it: it is neither changed nor deleted",
            live.namespace, live.name
        )));
    }
    if let Some(controller) = live.controller()
        && !is_own
    {
        let text = |name: &str| controller.get(name).and_then(Value::as_str).unwrap_or("");
        let (kind, owner) = (text("kind"), text("name"));
        let (namespace, name) = (&live.namespace, &live.name);
        return Some(Action::Refuse(format!(
            "Object {namespace}/{name} is already owned by another {kind} controller {owner}"
        )));
    }
    if live.is_terminating() {
        return None;
    }
    if let Err(reason) = facts.ignore {
        return Some(Action::Refuse(reason.to_owned()));
    }
    let patch = comparison.patch(application, live)?;
    let replaces_lists = ["finalizers", "ownerReferences"]
        .iter()
        .any(|list| patch.pointer(&format!("/metadata/{list}")).is_some());
    // What was seen may be older than an operation that runs already (ASET-231).
    let is_guarded = replaces_lists || patch.get("operation").is_some();
    let resource_version =
        (is_guarded && !live.resource_version.is_empty()).then(|| live.resource_version.clone());
    Some(Action::Update { patch, resource_version })
}

/// Whether what is generated is found out by asking somebody who may be mistaken for a moment (INV-8, F24).
fn comes_from_outside(facts: &PassFacts<'_>) -> bool {
    generator::uses(facts.request.set, |kind| {
        matches!(kind, Kind::Plugin | Kind::ScmProvider | Kind::PullRequest | Kind::ClusterDecisionResource)
    })
}

/// Entries that only have another time stay as they are stored (ASET-217).
fn kept_or_new(
    stored: &[RolloutApplicationStatus],
    new: Vec<RolloutApplicationStatus>,
) -> Vec<RolloutApplicationStatus> {
    let stored: BTreeMap<&str, &RolloutApplicationStatus> =
        stored.iter().map(|entry| (entry.application.as_str(), entry)).collect();
    let is_same = |a: &RolloutApplicationStatus, b: &RolloutApplicationStatus| {
        a.status == b.status
            && a.step == b.step
            && a.message == b.message
            && a.target_revisions == b.target_revisions
    };
    new.into_iter()
        .map(|entry| match stored.get(entry.application.as_str()) {
            Some(old) if is_same(old, &entry) => RolloutApplicationStatus::clone(old),
            _ => entry,
        })
        .collect()
}

#[cfg(test)]
mod tests;
