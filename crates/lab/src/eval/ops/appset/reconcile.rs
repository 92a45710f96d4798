//! `appset.reconcile`: one pass over a living set, carried out on the applications of the request (EVAL-502).

use super::environment::Environment;
use super::{condition, events_of};
use crate::eval::fault::Fault;
use crate::eval::operation::Input;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tiphys_api::Application;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_appset::compare::ignore_rules;
use tiphys_appset::generate::{Stop, generate};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::reconcile::{Action, Outcomes, PassFacts, Plan, Requeue, conclude, plan};
use tiphys_engine::scripts::Runner;
use tiphys_object::{access, merge_patch};

/// An application as a manifest.
pub(super) fn manifest(application: &Application) -> Value {
    let mut manifest = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Application",
        "metadata": application.metadata,
        "spec": application.spec,
    });
    if let (Some(operation), Value::Object(members)) = (&application.operation, &mut manifest) {
        members.insert("operation".to_owned(), json!(operation));
    }
    manifest
}

/// The applications of the request.
struct Stored {
    /// Those of the set's namespace, by name.
    here: BTreeMap<String, Value>,
    live: BTreeMap<String, LiveApplication>,
    elsewhere: BTreeMap<String, Value>,
}

impl Stored {
    fn read(input: &Input, namespace: &str, control_plane: &str) -> Result<Self, Fault> {
        let (mut here, mut live, mut elsewhere) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (index, given) in input.list("liveApplications").iter().enumerate() {
            let mut given = given.clone();
            if access::namespace(&given).is_empty() {
                access::metadata_mut(&mut given).insert("namespace".to_owned(), control_plane.into());
            }
            let name = access::name(&given).to_owned();
            if access::namespace(&given) != namespace {
                elsewhere.insert(name, given);
                continue;
            }
            let read = LiveApplication::from_value(given.clone())
                .map_err(|problem| Fault::invalid(format!("liveApplications[{index}]: {problem}")))?;
            live.insert(name.clone(), read);
            here.insert(name, given);
        }
        Ok(Self { here, live, elsewhere })
    }
}

pub(super) fn run(input: &mut Input) -> Result<Value, Fault> {
    let environment = Environment::read(input)?;
    if environment.set.metadata.deletion_timestamp.is_some() {
        return Err(Fault::invalid("the ApplicationSet is being deleted: use appset.deletion"));
    }
    let stored = Stored::read(input, &environment.set.metadata.namespace, &environment.control_plane)?;
    environment.with_request(|request| {
        let generated = match generate(request, &environment) {
            Ok(generated) => Ok(generated),
            Err(Stop::Failed(failure)) => match environment.needed() {
                Some(fault) => return Err(fault),
                None => Err(failure),
            },
            Err(stop @ Stop::Pending) => return Err(super::stopped(stop)),
        };
        let rules = ignore_rules(&environment.set.spec.ignore_application_differences, Runner::default())
            .map_err(|error| error.to_string());
        let facts = PassFacts {
            request,
            generated: &generated,
            live: &stored.live,
            facts: &environment,
            ignore: rules.as_ref().map(Option::as_ref).map_err(String::as_str),
            emptiness_is_confirmed: true,
            now: environment.now,
        };
        let plan = environment.answer(plan(&facts))?;
        Ok(answer(&facts, &plan, &stored))
    })
}

/// Carries the plan out and shows what comes of it.
fn answer(facts: &PassFacts<'_>, plan: &Plan, stored: &Stored) -> Value {
    let mut after = stored.here.clone();
    let mut outcomes = Outcomes::default();
    let (mut created, mut updated) = (BTreeSet::new(), BTreeSet::new());
    for write in &plan.writes {
        let name = write.name.clone();
        match &write.action {
            Action::Create(manifest) => {
                after.insert(name.clone(), manifest.clone());
                created.insert(name);
            }
            Action::Update { patch, .. } => {
                let before = after.remove(&name).unwrap_or_default();
                after.insert(name.clone(), merge_patch::apply(before, patch));
                updated.insert(name);
            }
            Action::Refuse(_) => {}
        }
    }
    if plan.may_remove(&outcomes) {
        for removal in &plan.removals {
            if removal.finalizers.is_some() {
                outcomes.stripped.insert(removal.name.clone());
            }
            after.remove(&removal.name);
            outcomes.removed.insert(removal.name.clone());
        }
    }
    let unchanged =
        stored.here.keys().filter(|name| !updated.contains(*name) && !outcomes.removed.contains(*name));
    let unchanged: BTreeSet<&String> = unchanged.chain(stored.elsewhere.keys()).collect();
    let conclusion = conclude(facts, plan, &outcomes, &Value::Null);
    let conditions: Map<String, Value> = (conclusion.status.conditions.iter())
        .map(|found| (found.r#type.clone(), condition(found.status == "True", &found.reason, &found.message)))
        .collect();
    let requeue = match conclusion.requeue {
        Requeue::After(after) => Some(after.as_secs()),
        Requeue::OnEvent | Requeue::Backoff => None,
    };
    let updated: Vec<&String> = updated.difference(&outcomes.removed).collect();
    after.extend(stored.elsewhere.clone());
    json!({
        "conditions": conditions,
        "created": created,
        "updated": updated,
        "deleted": outcomes.removed,
        "unchanged": unchanged,
        "applications": after,
        "finalizerRemovedBeforeDelete": outcomes.stripped,
        "finalizerAdded": plan.adds_finalizer,
        "events": events_of(&conclusion.events),
        "requeueAfterSeconds": requeue,
    })
}
