//! A cluster made of JSON, for plans without a cluster: `engine.sync_plan` (EVAL-605).
//!
//! [`run`] drives the production machine, pass after pass, and writes down what it asked for. The model decides
//! only how the world answers: which calls fail, how health develops, how long deletions take.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tiphys_api::application::{Application, ResourceResult, SyncOperation};
use tiphys_api::names::annotation;
use tiphys_object::{Object, ResourceKey};

use super::action::{Action, Op, Step};
use super::facts::SyncFacts;
use super::pass::Pass;
use crate::diff::DiffSettings;
use crate::normalize::IgnoreRules;
use world::{Rules, World};

mod world;

/// Why an input is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A member is missing or of the wrong type.
    #[error("{path}: {problem}")]
    Input {
        /// Path of the member.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// Asks the project about one object; the flag says whether its kind is namespaced.
pub type Permit<'a> = &'a dyn Fn(&Object, bool) -> Result<(), String>;

/// The members of `model`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Model {
    in_sync: Option<BTreeSet<String>>,
    unserved_kinds: BTreeSet<String>,
    denied: BTreeMap<String, String>,
    dry_run_errors: BTreeMap<String, String>,
    apply_errors: BTreeMap<String, String>,
    health: BTreeMap<String, Vec<String>>,
    deletion_passes: BTreeMap<String, u64>,
    removed_after_pass: BTreeMap<String, u64>,
    terminate_at_pass: Option<u64>,
    max_passes: Option<u64>,
}

/// A kind beyond the built-in ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelKind {
    group: String,
    #[serde(rename = "kind")]
    name: String,
    namespaced: bool,
}

/// Runs the sync engine against the modelled cluster of `input` until the operation completes; the project
/// permits everything.
///
/// # Errors
/// When the input is malformed.
pub fn run(input: &Value) -> Result<Value, ModelError> {
    run_with(input, &|_, _| Ok(()))
}

/// The same, asking `permit` for every object. The start of the operation is `operation.startedAt`, else the
/// member `now`, else the epoch: there is no clock here.
///
/// # Errors
/// When the input is malformed.
pub fn run_with(input: &Value, permit: Permit<'_>) -> Result<Value, ModelError> {
    let application: Application = member(input, "application")?.unwrap_or_default();
    let operation = input.get("operation").ok_or_else(|| problem("operation", "is missing"))?;
    let sync: SyncOperation = member(operation, "sync")?.unwrap_or_default();
    let model: Model = member(input, "model")?.unwrap_or_default();
    let kinds: Vec<ModelKind> = member(input, "kinds")?.unwrap_or_default();
    let start = operation.get("startedAt").or_else(|| input.get("now")).and_then(Value::as_str);
    let started_at: Timestamp = match start {
        Some(text) => text.parse().map_err(|error| problem("operation.startedAt", format!("{error}")))?,
        None => Timestamp::UNIX_EPOCH,
    };
    let max_passes = model.max_passes.unwrap_or(100);
    let terminate_at = model.terminate_at_pass;

    let settings: BTreeMap<String, String> = member(input, "settings")?.unwrap_or_default();
    let ignore = IgnoreRules::compile(&application.spec.ignore_differences, &settings)
        .map_err(|error| problem("settings", error.to_string()))?;
    let diff =
        DiffSettings::from_settings(&settings).map_err(|error| problem("settings", error.to_string()))?;

    let mut world = World::new(
        &application,
        model,
        &kinds,
        Rules { ignore, diff: diff.for_application(application.sync_options()), permit },
    );
    world.add_targets(&objects(input, "targets")?);
    world.add_live(&objects(input, "liveObjects")?, true);
    world.add_live(&objects(input, "untracked")?, false);

    let mut results: Vec<ResourceResult> = Vec::new();
    let mut record = Record::default();
    for pass in 1..=max_passes {
        let (resources, hooks) = world.compare();
        let facts = SyncFacts {
            revision: sync.revision.clone(),
            operation: sync.clone(),
            started_at,
            destination_namespace: application.spec.destination.namespace.as_str().into(),
            managed_namespace_metadata: application
                .spec
                .sync_policy
                .as_ref()
                .and_then(|policy| policy.managed_namespace_metadata.clone()),
            deletion_approved: application
                .annotation(annotation::DELETION_APPROVED)
                .and_then(|text| text.parse().ok()),
            resources,
            hooks,
            results,
            terminate: terminate_at == Some(pass),
            ..SyncFacts::default()
        };
        let end = run_pass(facts, pass, &mut world, &mut record);
        results = end.results;
        world.end_pass(pass);
        record.end_pass(end.phase.as_str(), &end.message);
        if end.phase.is_completed() {
            break;
        }
    }
    Ok(record.into_result(&world, &results))
}

fn run_pass(facts: SyncFacts, number: u64, world: &mut World<'_>, record: &mut Record) -> super::PassEnd {
    let view = world.view(number);
    let mut pass = Pass::start(facts, view);
    let mut outcomes = Vec::new();
    loop {
        match pass.next(outcomes) {
            Step::Finish(end) => return end,
            Step::Do(actions) => {
                outcomes = actions.iter().map(|action| world.act(number, action)).collect();
                record.group(number, &actions, |action| world.apply_error(action));
            }
        }
    }
}

/// What was asked for.
#[derive(Debug, Default)]
struct Record {
    dry_run: Vec<String>,
    operations: Vec<Value>,
    passes: Vec<Value>,
    last: Option<(String, String)>,
}

impl Record {
    fn group(&mut self, pass: u64, actions: &[Action], error: impl Fn(&Action) -> Option<String>) {
        let dry = actions.iter().filter(|action| pass == 1 && action.op == Op::DryRun);
        self.dry_run.extend(dry.map(|action| action.key.to_string()));
        let mut group: Vec<(String, Value)> = actions
            .iter()
            .filter(|action| action.op.is_write())
            .map(|action| (action.key.to_string(), operation(action, error(action))))
            .collect();
        group.sort_by(|(a, _), (b, _)| a.cmp(b));
        if !group.is_empty() {
            self.operations.push(group.into_iter().map(|(_, operation)| operation).collect());
        }
    }

    fn end_pass(&mut self, phase: &str, message: &str) {
        let operations = std::mem::take(&mut self.operations);
        self.passes.push(json!({"operations": operations, "phase": phase, "message": message}));
        self.last = Some((phase.to_owned(), message.to_owned()));
    }

    fn into_result(self, world: &World<'_>, results: &[ResourceResult]) -> Value {
        let (phase, message) = self.last.unwrap_or_else(|| ("Running".to_owned(), String::new()));
        let results: Vec<Value> = results.iter().map(|result| result_of(world, result)).collect();
        json!({
            "dryRun": self.dry_run,
            "passes": self.passes,
            "final": {"phase": phase, "message": message},
            "results": results,
        })
    }
}

fn operation(action: &Action, error: Option<String>) -> Value {
    let op = match action.op {
        Op::Read => "read",
        Op::DryRun => "dry-run",
        Op::Apply => "apply",
        Op::ServerSideApply => "server-side-apply",
        Op::Create => "create",
        Op::Replace => "replace",
        Op::Update => "update",
        Op::Prune => "prune",
        Op::Delete => "delete",
        Op::RemoveFinalizer => "remove-finalizer",
    };
    let mut members = Map::new();
    members.insert("op".to_owned(), op.into());
    members.insert("key".to_owned(), action.key.to_string().into());
    members.insert("phase".to_owned(), action.phase.as_str().into());
    members.insert("wave".to_owned(), action.wave.0.into());
    if action.force {
        members.insert("force".to_owned(), true.into());
    }
    if !action.validate {
        members.insert("validate".to_owned(), false.into());
    }
    if let Some(propagation) = action.propagation {
        members.insert("propagation".to_owned(), propagation.as_str().into());
    }
    if let Some(error) = error {
        members.insert("error".to_owned(), error.into());
    }
    Value::Object(members)
}

fn result_of(world: &World<'_>, result: &ResourceResult) -> Value {
    let mut key = ResourceKey::new(&result.group, &result.kind, &result.namespace, &result.name);
    if !world.is_namespaced(&key.group, &key.kind) {
        key.namespace = "".into();
    }
    let mut members = Map::new();
    members.insert("key".to_owned(), key.to_string().into());
    members.insert("syncPhase".to_owned(), result.sync_phase.as_str().into());
    members.insert("status".to_owned(), result.status.as_str().into());
    members.insert("hookPhase".to_owned(), result.hook_phase.as_str().into());
    if !result.hook_type.is_empty() {
        members.insert("hookType".to_owned(), result.hook_type.as_str().into());
    }
    members.insert("message".to_owned(), result.message.as_str().into());
    Value::Object(members)
}

fn problem(path: &str, problem: impl Into<String>) -> ModelError {
    ModelError::Input { path: path.to_owned(), problem: problem.into() }
}

fn member<T: DeserializeOwned>(object: &Value, name: &str) -> Result<Option<T>, ModelError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            serde_json::from_value(value.clone()).map(Some).map_err(|error| problem(name, error.to_string()))
        }
    }
}

fn objects(input: &Value, name: &str) -> Result<Vec<Value>, ModelError> {
    let list: Vec<Value> = member(input, name)?.unwrap_or_default();
    match list.iter().position(|object| !object.is_object()) {
        Some(index) => Err(problem(&format!("{name}[{index}]"), "is no object")),
        None => Ok(list),
    }
}

#[cfg(test)]
mod tests;
