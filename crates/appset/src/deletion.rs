//! In which order the Applications of a set go (ASET section 9).
//!
//! [`next`] is asked again and again while a set waits for its finalizer: it says which one Application to delete now,
//! or how the pass ends. It knows nothing but the live Applications, so that a controller which starts anew goes on
//! where another one stopped. Applications of later steps are not touched in any way (ASET-247, INV-12).

mod order;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use tiphys_api::ApplicationSet;
use tiphys_api::applicationset::{ApplicationSetCondition, ApplicationSetStrategy, Policy};
use tiphys_api::codes::{SetConditionType, SetReason};
use tiphys_api::names::finalizer;
use tiphys_api::settings::{ApplicationSets, InvalidDeletionOrder, StepTimeout};

use crate::events::Event;
use crate::status::{Evaluated, holds_because};
use crate::text::cut;

pub use order::{InvalidOrder, Order, order_warnings};

/// When a deletion is looked at again (ASET-247).
pub const REQUEUE: std::time::Duration = std::time::Duration::from_secs(10);
/// Names that a text has.
const NAMES_MAX: usize = 10;
/// Annotation with the names of Applications that count as gone (ASET-251).
pub const SKIP_ANNOTATION: &str = "argocd.argoproj.io/application-set-deletion-skip";
/// Finalizers of Kubernetes (ASET-252).
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// A live Application of the set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doomed {
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Since when it is on its way out.
    pub terminating_since: Option<Timestamp>,
    /// What it waits for.
    pub finalizers: Vec<String>,
}

/// What one pass looks at.
#[derive(Clone, Copy)]
pub struct DeletionFacts<'a> {
    /// How things go.
    pub strategy: Option<&'a ApplicationSetStrategy>,
    /// What may happen to Applications.
    pub policy: Policy,
    /// Finalizers of the set.
    pub finalizers: &'a [String],
    /// Annotations of the set.
    pub annotations: &'a BTreeMap<String, String>,
    /// Conditions that are stored.
    pub conditions: &'a [ApplicationSetCondition],
    /// Live Applications of the set.
    pub live: &'a [Doomed],
    /// Settings of the controller.
    pub settings: &'a ApplicationSets,
    /// The time.
    pub now: Timestamp,
}

/// What was done in this pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Applications whose deletion was accepted.
    pub deleted: BTreeSet<String>,
    /// Applications that were found to be gone.
    pub gone: BTreeSet<String>,
    /// An Application that could not be deleted, and why.
    pub failed: Option<(String, String)>,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Delete this Application, and ask again.
    Delete(String),
    /// The pass is over.
    End(End),
}

/// How a pass ends.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// What becomes of the set.
    pub outcome: Outcome,
    /// The references to the set are taken from all its Applications first (ASET-241).
    pub orphans: bool,
    /// The condition of the set.
    pub condition: Option<Evaluated>,
    /// Events on the set.
    pub events: Vec<Event>,
}

/// What becomes of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It keeps its finalizer and is looked at again soon.
    Requeue,
    /// It keeps its finalizer and is looked at again with growing distance; the text says why.
    Error(String),
    /// Its finalizer is taken away.
    Release,
}

/// Whether a living set has to get the finalizer (ASET-243, ASET-253).
pub fn needs_finalizer(set: &ApplicationSet, settings: &ApplicationSets) -> bool {
    if !settings.progressive_syncs || set.metadata.finalizers.iter().any(|name| name == finalizer::CASCADE) {
        return false;
    }
    match Order::of(set.spec.strategy.as_ref()) {
        Ok(Order::AllAtOnce) => false,
        Ok(Order::Reverse(_) | Order::Custom(_)) => true,
        Err(_) => settings.deletion_invalid_order == InvalidDeletionOrder::Block,
    }
}

/// The next thing to do in a pass over a set that is being deleted.
pub fn next(facts: &DeletionFacts<'_>, progress: &Progress) -> Next {
    let release =
        |orphans| Next::End(End { outcome: Outcome::Release, orphans, condition: None, events: Vec::new() });
    let has = |name: &str| facts.finalizers.iter().any(|finalizer| finalizer == name);
    if has(ORPHAN) {
        return release(false);
    }
    if !facts.policy.may_delete() {
        return release(true);
    }
    match Order::of(facts.strategy) {
        Ok(Order::AllAtOnce) => release(false),
        Ok(order) if has(FOREGROUND) => bypassed(facts, progress, &order),
        Ok(order) => ordered(facts, progress, &order),
        Err(invalid) if facts.settings.deletion_invalid_order == InvalidDeletionOrder::Block => {
            blocked(facts, &invalid)
        }
        Err(_) => release(false),
    }
}

/// The Application that is gone although its state says otherwise: named by the annotation, or stuck for too long
/// (ASET-251).
fn counts_as_gone(facts: &DeletionFacts<'_>, progress: &Progress, application: &Doomed) -> bool {
    let skipped = facts.annotations.get(SKIP_ANNOTATION).map_or("", String::as_str);
    let is_skipped = skipped.split(',').any(|name| name.trim() == application.name);
    is_skipped || progress.gone.contains(&application.name) || is_given_up(facts, application)
}

fn is_given_up(facts: &DeletionFacts<'_>, application: &Doomed) -> bool {
    match facts.settings.deletion_step_timeout {
        StepTimeout::Wait => false,
        StepTimeout::ProceedAfter(after) => age(facts, application).is_some_and(|age| age > signed(after)),
    }
}

fn age(facts: &DeletionFacts<'_>, application: &Doomed) -> Option<SignedDuration> {
    application.terminating_since.map(|since| facts.now.duration_since(since))
}

fn signed(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The garbage collector deletes everything at once: it is waited for (ASET-252).
fn bypassed(facts: &DeletionFacts<'_>, progress: &Progress, order: &Order<'_>) -> Next {
    let left: Vec<&Doomed> =
        facts.live.iter().filter(|application| !counts_as_gone(facts, progress, application)).collect();
    let message = format!(
        "the set is deleted in the foreground: the garbage collector deletes its Applications in parallel, deletionOrder {} \
         is not kept",
        order.name()
    );
    let events = vec![Event::warning("OrderedDeletionBypassed", message)];
    let outcome = if left.is_empty() { Outcome::Release } else { Outcome::Requeue };
    Next::End(End { outcome, orphans: false, condition: None, events })
}

fn blocked(facts: &DeletionFacts<'_>, invalid: &InvalidOrder) -> Next {
    let condition = Evaluated::yes(
        SetConditionType::DeletionProgressing,
        SetReason::ApplicationSetInvalidDeletionConfig,
        invalid.to_string(),
    );
    let events = entered(facts, &condition);
    Next::End(End { outcome: Outcome::Requeue, orphans: false, condition: Some(condition), events })
}

/// The step whose turn it is, and what is left of it.
struct Turn<'a> {
    /// Its number among those that are left and those that are over, from 1.
    number: usize,
    steps: usize,
    applications: Vec<&'a Doomed>,
    at_once: usize,
}

/// One Application after the other, one step after the other (ASET-244..249).
fn ordered(facts: &DeletionFacts<'_>, progress: &Progress, order: &Order<'_>) -> Next {
    let left: Vec<&Doomed> =
        facts.live.iter().filter(|application| !counts_as_gone(facts, progress, application)).collect();
    let mut events = given_up(facts);
    let Some(turn) = turn(facts, &left, order) else {
        return Next::End(End { outcome: Outcome::Release, orphans: false, condition: None, events });
    };
    if let Some((name, cause)) = &progress.failed {
        let condition = Evaluated::yes(
            SetConditionType::DeletionProgressing,
            SetReason::ApplicationDeletionError,
            format!("deleting Application {name}: {cause}"),
        );
        events.extend(entered(facts, &condition));
        let outcome = Outcome::Error(condition.message.clone());
        return Next::End(End { outcome, orphans: false, condition: Some(condition), events });
    }
    let is_terminating = |application: &&&Doomed| {
        application.terminating_since.is_some() || progress.deleted.contains(&application.name)
    };
    let stuck: Vec<&Doomed> = (turn.applications.iter().copied())
        .filter(|application| {
            age(facts, application).is_some_and(|age| age > signed(facts.settings.deletion_stuck_after))
        })
        .collect();
    if !stuck.is_empty() {
        return Next::End(is_stuck(facts, &stuck, events));
    }
    let terminating = turn.applications.iter().filter(is_terminating).count();
    let next = turn.applications.iter().find(|application| !is_terminating(application));
    if let Some(next) = next.filter(|_| terminating < turn.at_once) {
        return Next::Delete(next.name.clone());
    }
    let names = turn.applications.iter().filter(is_terminating).map(|application| application.name.as_str());
    let condition = Evaluated::yes(
        SetConditionType::DeletionProgressing,
        SetReason::ApplicationSetDeletionInProgress,
        format!("deleting step {} of {}: waiting for {}", turn.number, turn.steps, list(names)),
    );
    Next::End(End { outcome: Outcome::Requeue, orphans: false, condition: Some(condition), events })
}

fn is_stuck(facts: &DeletionFacts<'_>, stuck: &[&Doomed], mut events: Vec<Event>) -> End {
    let described = stuck.iter().map(|application| {
        let seconds = age(facts, application).map_or(0, |age| age.as_secs());
        let finalizers = application.finalizers.join(", ");
        format!("{} (for {seconds} s, finalizers [{finalizers}])", application.name)
    });
    let limit = facts.settings.deletion_stuck_after.as_secs();
    let over = if limit > 0 && limit.is_multiple_of(60) {
        format!("{} minutes", limit / 60)
    } else {
        format!("{limit} seconds")
    };
    let error = format!("application has not been deleted in over {over}");
    let condition = Evaluated::yes(
        SetConditionType::DeletionProgressing,
        SetReason::ApplicationDeletionStuck,
        format!("{error}: {}", list_of(described)),
    );
    events.extend(entered(facts, &condition));
    End { outcome: Outcome::Error(error), orphans: false, condition: Some(condition), events }
}

/// When an Application with these labels has its turn, from 0; those in no step are the last (ASET-244..246).
fn place(order: &Order<'_>, labels: &BTreeMap<String, String>) -> usize {
    let steps = order.steps();
    let first = steps.iter().position(|step| crate::rollout::selects(step, labels));
    first.map_or(steps.len(), |at| order.position(at))
}

/// Applications in the order in which they go, group after group, for those who show it.
pub fn groups<'l>(
    order: &Order<'_>,
    applications: impl IntoIterator<Item = (&'l str, &'l BTreeMap<String, String>)>,
) -> Vec<Vec<&'l str>> {
    let mut groups: BTreeMap<usize, Vec<&'l str>> = BTreeMap::new();
    for (name, labels) in applications {
        groups.entry(place(order, labels)).or_default().push(name);
    }
    for group in groups.values_mut() {
        group.sort_unstable();
    }
    groups.into_values().collect()
}

/// The first step that has Applications left. Those in no step are the last one (ASET-246).
fn turn<'a>(facts: &DeletionFacts<'_>, left: &[&'a Doomed], order: &Order<'_>) -> Option<Turn<'a>> {
    let steps = order.steps();
    let step_of = |application: &Doomed| place(order, &application.labels);
    let mut buckets: BTreeMap<usize, Vec<&'a Doomed>> = BTreeMap::new();
    for application in left {
        buckets.entry(step_of(application)).or_default().push(application);
    }
    let has_rest = facts.live.iter().any(|application| step_of(application) == steps.len());
    let (position, mut applications) = buckets.pop_first()?;
    applications.sort_by(|a, b| a.name.cmp(&b.name));
    let at_once = order.at_once(position, applications.len());
    Some(Turn { number: position + 1, steps: steps.len() + usize::from(has_rest), applications, at_once })
}

/// Events about Applications that are not waited for any longer (ASET-251).
fn given_up(facts: &DeletionFacts<'_>) -> Vec<Event> {
    let given_up = facts.live.iter().filter(|application| is_given_up(facts, application));
    given_up
        .map(|application| {
            let message = format!(
                "Application {} is not waited for any longer: it has not been deleted within deletion.step.timeout",
                application.name
            );
            Event::warning("DeletionStepTimeout", message)
        })
        .collect()
}

/// A warning when a condition is entered, not while it lasts (ASET-250).
fn entered(facts: &DeletionFacts<'_>, condition: &Evaluated) -> Vec<Event> {
    if holds_because(facts.conditions, condition.kind, condition.reason) {
        return Vec::new();
    }
    vec![Event::warning(condition.reason.as_str(), condition.message.clone())]
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    list_of(names.map(str::to_owned))
}

fn list_of(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", cut(&shown.join(", "), 4_000))
}

#[cfg(test)]
mod tests;
