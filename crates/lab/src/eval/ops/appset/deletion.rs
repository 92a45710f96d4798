//! `appset.deletion`: a set that is being deleted, on a clock of seconds (EVAL-504).

use super::super::world;
use super::rollout::second;
use super::{conditions_of, events_of};
use crate::eval::fault::Fault;
use crate::eval::operation::Input;
use crate::eval::shape::{Member, Shape, default, optional, required};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tiphys_api::applicationset::{ApplicationSetCondition, ApplicationSetStrategy, Policy};
use tiphys_appset::deletion::{DeletionFacts, Doomed, End, Next, Outcome, Progress, next};
use tiphys_appset::status::{Evaluated, next_conditions};

pub(super) const PASS: &[Member] = &[
    required("at", Shape::Integer),
    optional("strategy", Shape::Map),
    optional("annotations", Shape::TextMap),
    default("observe", Shape::MapOf(&Shape::OrNull(&Shape::Members(OBSERVED))), "{}"),
    default("deleteErrors", Shape::TextMap, "{}"),
];
const OBSERVED: &[Member] = &[
    optional("terminatingSince", Shape::OrNull(&Shape::Integer)),
    optional("finalizers", Shape::List(&Shape::Text)),
];

/// A set on its way out.
struct Trace {
    strategy: ApplicationSetStrategy,
    annotations: BTreeMap<String, String>,
    live: BTreeMap<String, Doomed>,
    conditions: Vec<ApplicationSetCondition>,
    released: bool,
}

pub(super) fn run(input: &mut Input) -> Result<Value, Fault> {
    let settings = world::settings(input);
    let word = input.text("policy");
    let policy = if word.is_empty() { Some(Policy::Sync) } else { Policy::parse(word) };
    let policy = policy.ok_or_else(|| Fault::invalid(format!("policy: {word:?} does not exist")))?;
    let finalizers: Vec<String> = input.texts("finalizers").into_iter().map(str::to_owned).collect();
    let mut trace = Trace {
        strategy: world::typed("strategy", input.take("strategy"))?,
        annotations: BTreeMap::new(),
        live: input.list("applications").iter().map(doomed).map(|app| (app.name.clone(), app)).collect(),
        conditions: Vec::new(),
        released: false,
    };
    let mut passes = Vec::new();
    for pass in input.list("passes") {
        trace.observe(pass)?;
        let now = second(pass.get("at").unwrap_or(&Value::Null))?;
        let errors = texts(pass.get("deleteErrors"));
        let live: Vec<Doomed> = trace.live.values().cloned().collect();
        let facts = DeletionFacts {
            strategy: Some(&trace.strategy),
            policy,
            finalizers: &finalizers,
            annotations: &trace.annotations,
            conditions: &trace.conditions,
            live: &live,
            settings: settings.application_sets(),
            now,
        };
        let (deleted, progress, end) = if trace.released {
            let outcome = Outcome::Release;
            (
                Vec::new(),
                Progress::default(),
                End { outcome, orphans: false, condition: None, events: Vec::new() },
            )
        } else {
            carry_out(&facts, &errors)
        };
        let evaluated: Vec<Evaluated> = end.condition.iter().cloned().collect();
        passes.push(shown(&live, &deleted, &end, &evaluated));
        trace.conditions = next_conditions(&trace.conditions, &evaluated, &[], now);
        trace.live.retain(|name, _| !progress.gone.contains(name));
        trace.released |= end.outcome == Outcome::Release;
    }
    Ok(json!({"passes": passes}))
}

/// One pass: every call, in order, and how it ends.
fn carry_out(facts: &DeletionFacts<'_>, errors: &BTreeMap<String, String>) -> (Vec<String>, Progress, End) {
    let mut progress = Progress::default();
    let mut deleted = Vec::new();
    loop {
        match next(facts, &progress) {
            Next::End(end) => return (deleted, progress, end),
            Next::Delete(name) => {
                deleted.push(name.clone());
                match errors.get(&name).map(String::as_str) {
                    None => drop(progress.deleted.insert(name)),
                    Some("NotFound") => drop(progress.gone.insert(name)),
                    Some(code) => progress.failed = Some((name, code.to_owned())),
                }
            }
        }
    }
}

fn shown(live: &[Doomed], deleted: &[String], end: &End, evaluated: &[Evaluated]) -> Value {
    let outcome = match end.outcome {
        Outcome::Requeue => "requeue",
        Outcome::Error(_) => "error",
        Outcome::Release => "released",
    };
    let freed: BTreeSet<&String> = live.iter().filter(|_| end.orphans).map(|app| &app.name).collect();
    json!({
        "deleted": deleted,
        "outcome": outcome,
        "ownerReferencesRemoved": freed,
        "written": [],
        "conditions": conditions_of(evaluated),
        "events": events_of(&end.events),
    })
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn doomed(given: &Value) -> Doomed {
    Doomed {
        name: given.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        labels: texts(given.get("labels")),
        ..Doomed::default()
    }
}

impl Trace {
    fn observe(&mut self, pass: &Value) -> Result<(), Fault> {
        if let Some(given) = pass.get("strategy").filter(|given| !given.is_null()) {
            self.strategy = world::typed("strategy", given.clone())?;
        }
        if let Some(given) = pass.get("annotations").filter(|given| !given.is_null()) {
            self.annotations = texts(Some(given));
        }
        for (name, seen) in pass.get("observe").and_then(Value::as_object).into_iter().flatten() {
            if seen.is_null() {
                self.live.remove(name);
                continue;
            }
            let Some(application) = self.live.get_mut(name) else { continue };
            if let Some(since) = seen.get("terminatingSince") {
                application.terminating_since = if since.is_null() { None } else { Some(second(since)?) };
            }
            if let Some(finalizers) = seen.get("finalizers").and_then(Value::as_array) {
                application.finalizers =
                    finalizers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            }
        }
        Ok(())
    }
}
