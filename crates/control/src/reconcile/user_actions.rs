//! Actions of people on live objects of an application, or on the application itself (API-142, ENG-135..141).
//!
//! What there is and what it writes is decided by [`tiphys_engine::actions`]; here the project is asked for each
//! object that is written, and what is new is tried before anything is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tiphys_api::names::GROUP;
use tiphys_cluster::{ApiError, Target, Writer};
use tiphys_engine::actions::{self, Action, ActionError, Rules, Step};
use tiphys_object::{Object, ResourceKey, access};
use tiphys_policy::permit::Permit;

use super::bound;
use super::load::AppContext;
use super::record;
use super::resolve::Resolved;
use super::resource::failed;
use super::shown::{ShowError, begin, resolved, value_of};
use super::visible::{VisibleObjects, missing};
use crate::app_key::AppKey;
use crate::context::Context;
use crate::scripts::Programs;

/// What an action is run on.
enum Subject {
    /// A live object of the application, at its destination.
    Part { resolved: Box<Resolved>, target: Target, object: Arc<Object> },
    /// The application itself, in the control plane.
    Itself(Arc<Object>),
}

impl Subject {
    async fn of(cx: &AppContext<'_>, named: &ResourceKey) -> Result<Self, ShowError> {
        if is_itself(&cx.key, named) {
            let target = application(cx);
            let read = cx.controller.home.get(&target).await;
            let read = read.map_err(|error| ShowError::Unavailable(error.to_string()))?;
            return read.map(Self::Itself).ok_or_else(|| missing(cx, named));
        }
        let resolved = resolved(cx).await?;
        let (target, object) = {
            let objects = VisibleObjects::of(cx, &resolved);
            let node = objects.find(named).await?;
            (node.target(), objects.read(&node).await?)
        };
        Ok(Self::Part { resolved: Box::new(resolved), target, object })
    }

    fn object(&self) -> &Arc<Object> {
        let (Self::Part { object, .. } | Self::Itself(object)) = self;
        object
    }
}

fn application(cx: &AppContext<'_>) -> Target {
    Target::new(Context::application_gvk(), &cx.key.namespace, &cx.key.name)
}

/// Whether a name means the application itself. Whoever names no namespace means it, too.
fn is_itself(key: &AppKey, named: &ResourceKey) -> bool {
    let is_here = named.namespace.is_empty() || named.namespace == key.namespace;
    named.group == GROUP && named.kind == "Application" && named.name == key.name && is_here
}

/// The rules of a kind, and who runs their scripts. What actions waste is no reason to suspend what rounds run.
fn rules(cx: &AppContext<'_>, named: &ResourceKey) -> Result<(Rules, Programs), ShowError> {
    let rules = Rules::of(cx.world.settings.cm(), &named.group, &named.kind).map_err(|error| told(&error))?;
    let interpreters = &cx.controller.interpreters;
    let owner = format!("actions of {}", cx.instance);
    let runner = interpreters.runner(&owner, cx.world.settings.controller().jq_timeout);
    let project = cx.app.project();
    let programs =
        Programs::new(interpreters, &cx.controller.compute, (project, rules.is_scripted()), runner);
    Ok((rules, programs))
}

fn told(error: &ActionError) -> ShowError {
    ShowError::Failed(error.to_string())
}

/// What can be done with a live object of an application (API-142).
pub(crate) async fn available(
    controller: &Context,
    key: &AppKey,
    named: &ResourceKey,
) -> Result<Vec<Action>, ShowError> {
    let cx = begin(controller, key)?;
    let (rules, programs) = rules(&cx, named)?;
    let live = value_of(Subject::of(&cx, named).await?.object())?;
    let now = controller.clock.now();
    let found = programs.compute(1, || rules.available(&live, &programs.runner, now)).await;
    found.map_err(|error| told(&error))
}

/// A write that the project permits, and where it goes.
struct Permitted {
    step: Step,
    permit: Permit,
    target: Target,
}

/// Runs an action on a live object of an application (ENG-139, ENG-140): what it makes is first tried, then written. The
/// answer is the object as it was.
pub(crate) async fn run(
    controller: &Context,
    key: &AppKey,
    named: &ResourceKey,
    (name, params): (&str, &BTreeMap<String, String>),
) -> Result<Arc<Object>, ShowError> {
    let cx = begin(controller, key)?;
    let (rules, programs) = rules(&cx, named)?;
    let subject = Subject::of(&cx, named).await?;
    let live = value_of(subject.object())?;
    let now = controller.clock.now();
    let steps = programs.compute(1, || rules.run(&live, (name, params), &programs.runner, now)).await;
    let steps = steps.map_err(|error| told(&error))?;
    let (own, others): (Vec<Step>, Vec<Step>) = match &subject {
        // A project says what an application deploys, not who may change the application: the right to the action is
        // that, within the bounds that are checked below.
        Subject::Itself(_) => steps.into_iter().partition(|step| matches!(step, Step::Patch(_))),
        Subject::Part { .. } => (Vec::new(), steps),
    };
    let own: Vec<_> = own.iter().map(|step| actions::patch(&live, step.object())).collect();
    own.iter().try_for_each(actions::check_own).map_err(|error| told(&error))?;
    if !others.is_empty() {
        let found;
        let (resolved, target) = match &subject {
            Subject::Part { resolved, target, .. } => (&**resolved, target.clone()),
            Subject::Itself(_) => {
                found = resolved(&cx).await?;
                (&found, application(&cx))
            }
        };
        carry_out(&cx, resolved, (&target, &live), others).await?;
    }
    for patch in own {
        if !patch.is_empty() {
            let written = record::amend(controller, key, &Value::Object(patch)).await;
            written.map_err(|error| failed("change", named, &error))?;
        }
    }
    Ok(Arc::clone(subject.object()))
}

/// Asks the project for everything, tries what is new, and writes.
async fn carry_out(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    (target, live): (&Target, &Value),
    steps: Vec<Step>,
) -> Result<(), ShowError> {
    let steps = steps.into_iter().map(|step| permitted(cx, resolved, target, step));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    let writer = &resolved.destination.writer;
    let refused = |target: &Target| {
        let key = target.key();
        move |error: ApiError| failed("change", &key, &error)
    };
    for Permitted { step, permit, target } in &steps {
        if let Step::Create(value) = step {
            writer.try_create(permit, value).await.map_err(refused(target))?;
        }
    }
    for Permitted { step, permit, target } in &steps {
        let (patch, live) = match step {
            Step::Create(value) => {
                drop(writer.create(permit, value).await.map_err(refused(target))?);
                continue;
            }
            Step::Patch(value) => (actions::patch(live, value), Some(live)),
            Step::Merge(value) => (value.as_object().cloned().unwrap_or_default(), None),
        };
        match live {
            Some(live) => write_bound(cx, writer, (permit, target), (live, patch)).await?,
            None => write(writer, permit, target, patch).await.map_err(refused(target))?,
        }
    }
    Ok(())
}

/// Asks the project about one write. An object that names no namespace is in that of the object that the action is run
/// on, else where the application deploys to.
fn permitted(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    subject: &Target,
    step: Step,
) -> Result<Permitted, ShowError> {
    let read = |value: &Value| {
        Object::from_value(value)
            .map_err(|error| ShowError::Failed(format!("what the action returned: {error}")))
    };
    let mut object = read(step.object())?;
    if object.name().is_empty() && object.metadata().generate_name.is_empty() {
        return Err(ShowError::Failed("an object that the action returned has no name".to_owned()));
    }
    let mut step = step;
    let is_namespaced = resolved.scope_of(&object.gvk().group_kind()) == Ok(true);
    if is_namespaced && object.namespace().is_empty() {
        let own = [subject.namespace.as_str(), &cx.app.spec.destination.namespace];
        let namespace = own.into_iter().find(|own| !own.is_empty()).unwrap_or_default();
        let mut value = step.object().clone();
        let metadata = access::ensure_object(&mut value).entry("metadata").or_insert(Value::Null);
        access::ensure_object(metadata).insert("namespace".to_owned(), namespace.into());
        step = step.with_object(value);
        object = read(step.object())?;
    }
    let key = object.key();
    let target = match &step {
        // Seen in a version that it was written in; the script has no say in that.
        Step::Patch(_) => subject.clone(),
        Step::Merge(_) | Step::Create(_) => Target::of(step.object()),
    };
    match resolved.permit(&object, &cx.world) {
        Ok(permit) => Ok(Permitted { step, permit, target }),
        Err(_refusal) => {
            let ResourceKey { group, kind, namespace, name } = key;
            let text = format!("application is not permitted to manage {group}/{kind}/{name} in {namespace}");
            Err(ShowError::Denied(text))
        }
    }
}

/// The same for the object that the action was run on, and for no other one of its name.
async fn write_bound(
    cx: &AppContext<'_>,
    writer: &Writer,
    (permit, target): (&Permit, &Target),
    (live, mut patch): (&Value, Map<String, Value>),
) -> Result<(), ShowError> {
    let uid = access::uid(live);
    if let Some(status) = patch.remove("status") {
        let change = bound::of_status(live, &status, uid);
        match writer.json_patch(permit, target, Some("status"), &change).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                patch.insert("status".to_owned(), status);
            }
            Err(error) => return Err(bound::refused(cx, writer, (target, uid), ("change", error)).await),
        }
    }
    if patch.is_empty() {
        return Ok(());
    }
    let patch = Value::Object(bound::merged(patch, uid).map_err(ShowError::Failed)?);
    match writer.merge_patch(permit, target, None, &patch).await {
        Ok(_) => Ok(()),
        Err(error) => Err(bound::refused(cx, writer, (target, uid), ("change", error)).await),
    }
}

/// Writes what became another: the status to where it has a place of its own (ENG-140).
async fn write(
    writer: &Writer,
    permit: &Permit,
    target: &Target,
    mut patch: Map<String, Value>,
) -> Result<(), ApiError> {
    if let Some(status) = patch.remove("status") {
        match writer.merge_patch(permit, target, Some("status"), &json!({"status": status})).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                patch.insert("status".to_owned(), status);
            }
            Err(error) => return Err(error),
        }
    }
    if !patch.is_empty() {
        writer.merge_patch(permit, target, None, &Value::Object(patch)).await?;
    }
    Ok(())
}
