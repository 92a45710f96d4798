//! One write at a destination, carried out: the actions of a sync, and deletions. Nothing is decided here.

use std::sync::Arc;

use tiphys_api::names::finalizer;
use tiphys_cluster::{
    ApiError, ApplyMethod, ApplyOptions, DeleteOptions, Deleted, Known, Propagation, Target, Writer, hinted,
    without_values,
};
use tiphys_engine::sync::{self, Action, Op, Outcome};
use tiphys_engine::tracking::Ownership;
use tiphys_object::{Gvk, Object};
use tiphys_policy::permit::Permit;

use super::resolve::Resolved;
use crate::world::World;

/// What an action left on the cluster.
pub(super) enum Wrote {
    /// Nothing was written.
    Nothing,
    /// An object of this version.
    Version(String),
    /// A deletion.
    Deletion,
}

/// What came of an action.
pub(super) struct Done {
    /// The answer for the engine.
    pub(super) outcome: Outcome,
    /// What was written.
    pub(super) wrote: Wrote,
}

impl Done {
    fn outcome(outcome: Outcome) -> Self {
        Self { outcome, wrote: Wrote::Nothing }
    }

    fn failed(error: &ApiError, action: &Action) -> Self {
        let objects = [&action.manifest, &action.live].into_iter().flatten();
        Self::outcome(Outcome::failed(describe(error, &action.gvk, objects)))
    }
}

/// The text of a failure; one about a Secret shows nothing of what its objects hold (SEC-37).
pub(super) fn describe<'a>(
    error: &ApiError,
    gvk: &Gvk,
    objects: impl IntoIterator<Item = &'a Arc<Object>>,
) -> String {
    let text = hinted(error, &gvk.kind);
    if gvk.kind != "Secret" || !gvk.group.is_empty() {
        return text;
    }
    objects.into_iter().fold(text, |text, object| match object.to_value() {
        Ok(value) => without_values(&text, &value),
        // Which words of the text are values cannot be told.
        Err(_) => format!("the cluster refused Secret {}", object.name()),
    })
}

/// Carries an action out. Every write is checked against the project once more, with the object that is
/// written (INV-6).
pub(super) async fn run(
    writer: &Writer,
    resolved: &Resolved,
    world: &World,
    ownership: &Ownership<'_>,
    action: &Action,
) -> Done {
    let target = Target::new(action.gvk.clone(), &action.key.namespace, &action.key.name);
    if action.op == Op::Read {
        return match writer.get(&target).await {
            Ok(object) => {
                if let Some(object) = &object {
                    resolved.destination.index.contradict(object);
                }
                Done::outcome(Outcome::Object(object))
            }
            Err(error) => Done::failed(&error, action),
        };
    }
    let Some(subject) = action.manifest.as_ref().or(action.live.as_ref()) else {
        return Done::outcome(Outcome::failed("the action names no object"));
    };
    // A kind whose definition came in this very sync is known to discovery by now; its manifest alone says
    // nothing about its scope.
    let known = resolved.scope_of(&action.gvk.group_kind());
    let checked = match known {
        Err(_) if action.op == Op::DryRun => return Done::outcome(Outcome::done()),
        Err(_) if resolved.destination.index.discovery().refresh().await.is_ok() => {
            resolved.scope_of(&action.gvk.group_kind())
        }
        known => known,
    };
    let governed = |namespaced| resolved.governed(world)?.permit(&subject.key(), namespaced);
    let permit = match checked.and_then(governed) {
        Ok(permit) => permit,
        Err(message) => return Done::outcome(Outcome::Failed { message }),
    };
    match action.op {
        Op::Read => Done::outcome(Outcome::NotFound),
        Op::DryRun | Op::Apply | Op::ServerSideApply | Op::Create | Op::Replace | Op::Update => {
            apply(writer, &permit, action).await
        }
        Op::Prune | Op::Delete => delete(writer, &permit, &target, ownership, action).await,
        Op::RemoveFinalizer => match writer.remove_finalizer(&permit, &target, finalizer::HOOK).await {
            Ok(_) => Done::outcome(Outcome::done()),
            Err(error) => Done::failed(&error, action),
        },
    }
}

async fn apply(writer: &Writer, permit: &Permit, action: &Action) -> Done {
    let Some(manifest) = &action.manifest else {
        return Done::outcome(Outcome::failed("the action has no manifest"));
    };
    let method = match action.op {
        Op::ServerSideApply => ApplyMethod::ServerSide,
        Op::Replace | Op::Update | Op::Create => ApplyMethod::Replace,
        // Dry runs are client-side whatever the options (ENG-176), but an object that the server names can only be
        // created.
        Op::DryRun if action.replaces && manifest.name().is_empty() => ApplyMethod::Replace,
        _ => ApplyMethod::ClientSide,
    };
    let options = ApplyOptions {
        method,
        is_forced: action.force,
        is_dry_run: action.op == Op::DryRun,
        is_unvalidated: !action.validate,
        known: known(action),
    };
    if let Some(manager) = &action.migrate_from {
        let target = Target::new(action.gvk.clone(), &action.key.namespace, &action.key.name);
        if let Err(error) = writer.migrate_client_side_apply(permit, &target, manager).await {
            let error = describe(&error, &action.gvk, [manifest].into_iter().chain(&action.live));
            let message =
                format!("Failed to perform client-side apply migration for {}: {error}", action.key);
            return Done::outcome(Outcome::Failed { message });
        }
    }
    let desired = match manifest.to_value() {
        Ok(desired) => desired,
        Err(error) => return Done::outcome(Outcome::failed(error.to_string())),
    };
    match writer.apply(permit, &desired, &options).await {
        Ok(applied) => {
            let version =
                |object: &Arc<Object>| Wrote::Version(object.metadata().resource_version.to_string());
            let changed = applied.outcome != tiphys_cluster::Outcome::Unchanged && !options.is_dry_run;
            Done {
                outcome: Outcome::Done { message: applied.message },
                wrote: applied.object.as_ref().filter(|_| changed).map_or(Wrote::Nothing, version),
            }
        }
        Err(error) => Done::failed(&error, action),
    }
}

/// The live object at the start of the pass saves a read.
fn known(action: &Action) -> Known {
    match &action.live {
        Some(live) => Known::Present(Arc::clone(live)),
        None => Known::Absent,
    }
}

/// Deletes an object that was seen, while it still bears the marks it had then (INV-1).
pub(super) async fn delete_marked(
    writer: &Writer,
    permit: &Permit,
    target: &Target,
    ownership: &Ownership<'_>,
    seen: &Object,
    propagation: Propagation,
) -> Result<Deleted, ApiError> {
    let evidence = ownership.evidence(seen.metadata());
    let holds = |live: &Object| ownership.evidence(live.metadata()) == evidence;
    writer.delete_seen(permit, target, seen, propagation, holds).await
}

async fn delete(
    writer: &Writer,
    permit: &Permit,
    target: &Target,
    ownership: &Ownership<'_>,
    action: &Action,
) -> Done {
    let propagation = match action.propagation {
        Some(sync::Propagation::Background) => Propagation::Background,
        Some(sync::Propagation::Orphan) => Propagation::Orphan,
        Some(sync::Propagation::Foreground) | None => Propagation::Foreground,
    };
    let deleted = match &action.live {
        Some(seen) => delete_marked(writer, permit, target, ownership, seen, propagation).await,
        None => {
            writer.delete(permit, target, &DeleteOptions { propagation, ..DeleteOptions::default() }).await
        }
    };
    match deleted {
        Ok(Deleted::Accepted) => Done { outcome: Outcome::done(), wrote: Wrote::Deletion },
        Ok(Deleted::Absent) => Done::outcome(Outcome::NotFound),
        Err(error) => Done::failed(&error, action),
    }
}
