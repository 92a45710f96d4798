//! What the stages of a deletion share: where it happens, and how objects are deleted together.

use std::sync::Arc;

use futures::StreamExt;
use jiff::SignedDuration;
use tiphys_cluster::{Propagation, Target};
use tiphys_object::{Object, ResourceKey};

use super::error::DeletionError;
use crate::clusters::Unusable;
use crate::reconcile::actions;
use crate::reconcile::load::AppContext;
use crate::reconcile::resolve::{Resolved, account, collision};
use crate::reconcile::settle::{WrittenObjects, settle};

/// What one step came to.
pub(super) enum Step {
    /// A stage is over: its finalizers go.
    Release(&'static [&'static str]),
    /// Something was deleted or is waited for.
    Wait(SignedDuration),
}

/// Time until a cluster, or what was just written, is looked at again.
pub(super) const SOON: SignedDuration = SignedDuration::from_millis(500);
/// Longest time until a deletion is looked at again (CTL-79).
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Time until a step that failed is tried again.
pub(super) const RETRY: SignedDuration = SignedDuration::from_secs(5);

/// Project and destination of a deletion: a spec that is no longer permitted does not stop it (CTL-15), and
/// what the project forbids is invisible to the cascade. Without an answer of the cluster nothing is called deleted:
/// the finalizers stay, and what can be done is said.
pub(super) async fn destination_of(cx: &AppContext<'_>) -> Result<Result<Resolved, Step>, DeletionError> {
    let world = &cx.world;
    let cluster = world.cluster_of(&cx.app)?;
    let name = cx.app.project();
    let project = world.project(name).map_err(|why| DeletionError::Project(why.text(name)))?;
    if let Some(text) = collision(cx) {
        return Err(DeletionError::Collision(text));
    }
    let account = account(cx, project, &cluster.server)?;
    match cx.controller.clusters.get(&cluster.key()).await {
        Ok(destination) => {
            Ok(Ok(Resolved { project: Arc::clone(project), destination, account: Ok(account) }))
        }
        Err(Unusable::NotReady) => Ok(Err(Step::Wait(SOON))),
        Err(Unusable::Failed(error)) => Err(DeletionError::Unreachable(error)),
    }
}

/// Deletes objects together and waits until the index has seen it.
pub(super) async fn delete_all(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    objects: &[Arc<Object>],
    propagation: Propagation,
) -> Result<(), DeletionError> {
    let limit = cx.world.settings.controller().kubectl_parallelism_limit.unwrap_or(64).max(1);
    let previous = cx.previous();
    let ownership = &cx.ownership(&previous);
    let one = |object: Arc<Object>| async move {
        let permit = resolved.permit(&object, &cx.world).map_err(DeletionError::Forbidden)?;
        let target = Target::new(object.gvk().clone(), object.namespace(), object.name());
        let writer = &resolved.destination.writer;
        let deleted = actions::delete_marked(writer, &permit, &target, ownership, &object, propagation).await;
        deleted.map(|_| object.key()).map_err(DeletionError::from)
    };
    let results: Vec<Result<ResourceKey, DeletionError>> =
        futures::stream::iter(objects.iter().cloned().map(one)).buffered(limit).collect().await;
    let mut written = WrittenObjects::new();
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(key) => {
                written.insert(key, None);
            }
            Err(error) => errors.push(error),
        }
    }
    settle(resolved, written).await;
    if errors.is_empty() { Ok(()) } else { Err(DeletionError::Several(errors)) }
}
