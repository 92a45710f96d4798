//! `appset.rollout`: a roll-out on a clock of seconds (EVAL-503).

use super::super::world;
use super::conditions_of;
use crate::eval::fault::Fault;
use crate::eval::operation::Input;
use crate::eval::shape::{Member, Shape, default, optional, required};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tiphys_api::applicationset::{ApplicationSetStrategy, RolloutApplicationStatus};
use tiphys_api::codes::SetReason;
use tiphys_appset::live::{LiveApplication, LiveOperation};
use tiphys_appset::rollout::{Desired, Observed, RolloutFacts, RolloutPass, advance, is_rolling, steps_of};
use tiphys_appset::status::{Evaluated, failure, success};

pub(super) const DESIRED: &[Member] =
    &[required("name", Shape::Text), default("labels", Shape::TextMap, "{}")];
pub(super) const PASS: &[Member] = &[
    required("at", Shape::Integer),
    optional("strategy", Shape::Map),
    optional("desired", Shape::List(&Shape::Members(DESIRED))),
    default("observe", Shape::MapOf(&Shape::OrNull(&Shape::Members(OBSERVED))), "{}"),
];
const OBSERVED: &[Member] = &[
    optional("revision", Shape::Text),
    optional("revisions", Shape::List(&Shape::Text)),
    optional("sync", Shape::Text),
    optional("health", Shape::Text),
    optional("reconciledAt", Shape::OrNull(&Shape::Integer)),
    optional(
        "operation",
        Shape::OrNull(&Shape::Members(&[
            required("phase", Shape::Text),
            required("startedAt", Shape::Integer),
        ])),
    ),
    optional("conditions", Shape::List(&Shape::Text)),
    optional("specDiffers", Shape::Bool),
    optional("comparedCurrent", Shape::Bool),
    optional("terminating", Shape::Bool),
];

/// A second of the trace.
pub(super) fn second(value: &Value) -> Result<Timestamp, Fault> {
    let seconds = value.as_i64().unwrap_or_default();
    Timestamp::from_second(seconds).map_err(|problem| Fault::invalid(format!("{seconds} s: {problem}")))
}

/// A live application of the trace.
struct Trace {
    application: LiveApplication,
    spec_differs: bool,
    is_current: bool,
}

impl Default for Trace {
    fn default() -> Self {
        let mut application = LiveApplication::default();
        "OutOfSync".clone_into(&mut application.status.sync);
        "Missing".clone_into(&mut application.status.health);
        Self { application, spec_differs: false, is_current: true }
    }
}

impl Trace {
    /// What is said of it from now on; what is not said stays.
    fn observe(&mut self, seen: &Map<String, Value>, now: Timestamp) -> Result<(), Fault> {
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let status = &mut self.application.status;
        for (member, value) in seen {
            let text = value.as_str().unwrap_or_default();
            let flag = value.as_bool().unwrap_or_default();
            match member.as_str() {
                "revision" => status.revisions = vec![text.to_owned()],
                "revisions" => status.revisions = texts(value),
                "sync" => text.clone_into(&mut status.sync),
                "health" => text.clone_into(&mut status.health),
                "reconciledAt" => {
                    status.reconciled_at = if value.is_null() { None } else { Some(second(value)?) };
                }
                "operation" => {
                    // What was asked for has been taken.
                    self.application.has_operation = false;
                    status.operation = match value {
                        Value::Null => None,
                        operation => Some(LiveOperation {
                            phase: operation
                                .get("phase")
                                .and_then(Value::as_str)
                                .unwrap_or_default()
                                .to_owned(),
                            started_at: Some(second(operation.get("startedAt").unwrap_or(&Value::Null))?),
                            is_ours: false,
                        }),
                    };
                }
                "conditions" => status.conditions = texts(value),
                "specDiffers" => self.spec_differs = flag,
                "comparedCurrent" => self.is_current = flag,
                "terminating" => self.application.deletion_timestamp = flag.then_some(now),
                _ => {}
            }
        }
        Ok(())
    }
}

type Generated = Vec<(String, BTreeMap<String, String>)>;

fn desired_of(value: &Value) -> Generated {
    let one = |item: &Value| {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let labels = item.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        (name, labels.collect())
    };
    value.as_array().into_iter().flatten().map(one).collect()
}

/// The stored state; times are seconds.
fn entries_of(input: &Input) -> Result<Vec<RolloutApplicationStatus>, Fault> {
    let one = |(index, given): (usize, &Value)| {
        let mut given = given.clone();
        if let Some(time) = given.get_mut("lastTransitionTime").filter(|time| time.is_number()) {
            *time = second(time)?.to_string().into();
        }
        world::typed(&format!("applicationStatus[{index}]"), given)
    };
    input.list("applicationStatus").iter().enumerate().map(one).collect()
}

pub(super) fn run(input: &mut Input) -> Result<Value, Fault> {
    let mut strategy: ApplicationSetStrategy = world::typed("strategy", input.take("strategy"))?;
    let mut desired = desired_of(input.get("desired"));
    let mut entries = entries_of(input)?;
    let mut live: BTreeMap<String, Trace> = BTreeMap::new();
    let mut passes = Vec::new();
    for pass in input.list("passes") {
        let now = second(pass.get("at").unwrap_or(&Value::Null))?;
        if let Some(given) = pass.get("strategy").filter(|given| !given.is_null()) {
            strategy = world::typed("strategy", given.clone())?;
        }
        if let Some(given) = pass.get("desired").filter(|given| !given.is_null()) {
            desired = desired_of(given);
        }
        for (name, seen) in pass.get("observe").and_then(Value::as_object).into_iter().flatten() {
            match seen {
                Value::Object(seen) => {
                    let trace = live.entry(name.clone()).or_default();
                    trace.application.name.clone_from(name);
                    trace.observe(seen, now)?;
                }
                _ => drop(live.remove(name)),
            }
        }
        let outcome = one_pass(&strategy, &desired, &live, &entries, now);
        if let Some(pass) = &outcome {
            entries.clone_from(&pass.entries);
            for (name, trace) in &mut live {
                trace.application.has_operation |= pass.operations.contains_key(name);
            }
        } else if !is_rolling(Some(&strategy)) {
            entries.clear();
        }
        passes.push(shown(outcome.as_ref(), &entries, is_rolling(Some(&strategy))));
    }
    Ok(json!({"passes": passes}))
}

/// `None` where there is no roll-out.
fn one_pass(
    strategy: &ApplicationSetStrategy,
    desired: &Generated,
    live: &BTreeMap<String, Trace>,
    entries: &[RolloutApplicationStatus],
    now: Timestamp,
) -> Option<RolloutPass> {
    let steps = steps_of(Some(strategy));
    if !is_rolling(Some(strategy)) || steps.is_empty() {
        return None;
    }
    let mut seen = BTreeSet::new();
    let desired: Vec<Desired<'_>> = (desired.iter())
        .filter(|(name, _)| seen.insert(name))
        .map(|(name, labels)| Desired { name, labels, is_valid: true, sync_policy: None })
        .collect();
    let live: Vec<Observed<'_>> = live
        .values()
        .map(|trace| Observed {
            application: &trace.application,
            spec_differs: trace.spec_differs,
            is_current: trace.is_current,
        })
        .collect();
    Some(advance(&RolloutFacts { steps, desired: &desired, live: &live, entries, now }))
}

fn shown(pass: Option<&RolloutPass>, entries: &[RolloutApplicationStatus], rolls: bool) -> Value {
    let states: Map<String, Value> = entries
        .iter()
        .map(|entry| {
            let RolloutApplicationStatus { status, step, message, target_revisions, .. } = entry;
            let state = json!({"status": status, "step": step, "message": message, "targetRevisions": target_revisions});
            (entry.application.clone(), state)
        })
        .collect();
    let mut conditions: Vec<Evaluated> = pass.map(|pass| pass.conditions.clone()).unwrap_or_default();
    let overall = if rolls && pass.is_none() {
        failure(SetReason::ApplicationSetRolloutError, "No steps defined for rollout")
    } else {
        success()
    };
    conditions.extend(
        overall.into_iter().filter(|new| new.kind == tiphys_api::codes::SetConditionType::ErrorOccurred),
    );
    let operations: Vec<&String> = pass.iter().flat_map(|pass| pass.operations.keys()).collect();
    json!({
        "applicationStatus": states,
        "promoted": pass.map(|pass| pass.promoted.clone()).unwrap_or_default(),
        "operations": operations,
        "progressingStep": pass.and_then(|pass| pass.progressing_step),
        "conditions": conditions_of(&conditions),
    })
}
