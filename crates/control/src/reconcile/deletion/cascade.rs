//! Deleting the managed objects, wave by wave; nothing is called gone on the word of one list (CTL-78, INV-1, INV-17).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tiphys_api::Application;
use tiphys_api::codes::ResultCode;
use tiphys_api::names::{annotation, finalizer};
use tiphys_cluster::{ApiError, Propagation, Seen, Target};
use tiphys_engine::deletion::{DeletionFacts, DeletionStep, next_deletion};
use tiphys_engine::tracking::Ownership;
use tiphys_lifecycle::finalizers::CASCADES;
use tiphys_object::{Gvk, Object, ResourceKey};

use super::error::{DeletionError, LiveError};
use super::step::{LOOK_AGAIN, RETRY, SOON, Step, delete_all};
use crate::reconcile::compare::{Subject, managed, recorded_root, with_recognised};
use crate::reconcile::load::AppContext;
use crate::reconcile::resolve::Resolved;

/// By how much a watch may be late (F3).
const LATE_MAX: SignedDuration = SignedDuration::from_mins(2);
/// Time until the next wave is looked for; the deletions bring the application back earlier.
const NEXT_WAVE: SignedDuration = SignedDuration::from_millis(100);

/// Deletes the managed objects of the highest wave (CTL-78 step 3).
pub(super) async fn cascade(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    in_background: bool,
) -> Result<Step, DeletionError> {
    let subject = Subject { cx, resolved };
    if resolved.destination.is_stopped() {
        return Err(LiveError::Reconfigured.into());
    }
    let previous = cx.previous();
    let ownership = cx.ownership(&previous);
    let found = managed(subject, &ownership, &ownership.ways());
    if !found.is_looked_for && found.cluster_error.is_none() {
        return not_looked_for(cx, &ownership);
    }
    if let Some(error) = found.cluster_error {
        return Err(LiveError::Cluster(error).into());
    }
    // What cannot be read is there, and whether it is to go cannot be told (INV-17).
    if let Some((key, why)) = found.unreadable.first().cloned() {
        return Err(LiveError::Object { key, why }.into());
    }
    // The live list is the witness here. A kind this application had objects of must be completely listed.
    let status = &cx.app.status.resources;
    let kinds: BTreeSet<Gvk> = recorded(&cx.app).map(|(_, gvk, _)| gvk).collect();
    let doubtful = found.incomplete.iter().find(|(kind, _)| {
        kinds.iter().any(|gvk| gvk.group_kind() == *kind)
            || found.objects.iter().any(|object| object.gvk().group_kind() == *kind)
    });
    if let Some((kind, why)) = doubtful.cloned() {
        return Err(LiveError::Kind { kind, why }.into());
    }
    // Of a kind that cannot be discovered, nothing is listed at all.
    for gvk in &kinds {
        if let Some(why) = resolved.destination.index.unwatched(gvk) {
            return Err(LiveError::Kind { kind: gvk.group_kind(), why }.into());
        }
    }
    let (objects, unread) = with_recognised(subject, &ownership, found.objects, &HashSet::new()).await;
    if let Some((key, why)) = unread {
        return Err(LiveError::Object { key, why }.into());
    }
    let mut seen: HashSet<ResourceKey> = objects.iter().map(|object| object.key()).collect();
    let in_passing = marked_in_passing(subject, &ownership, &seen).await?;
    seen.extend(in_passing.iter().map(|object| object.key()));
    // Copies that merely carry our mark are not ours (TRK-94b).
    let live: Vec<Arc<Object>> = objects
        .into_iter()
        .filter(|object| subject.is_visible(&object.key()))
        .filter(|object| ownership.goes_with_application(object))
        .chain(in_passing)
        .collect();
    release_hooks(cx, resolved, &live).await?;
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let facts = DeletionFacts {
        live,
        application: cx.object.key(),
        sync_options: cx.app.sync_options().iter().cloned().collect(),
        needs_confirmation: status
            .iter()
            .filter(|r| r.requires_deletion_confirmation)
            .map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name))
            .collect(),
        deletion_timestamp: time(cx.app.metadata.deletion_timestamp.as_deref()),
        deletion_approved: time(cx.app.annotation(annotation::DELETION_APPROVED)),
    };
    match next_deletion(&facts) {
        DeletionStep::Done => {
            let is_empty = confirm_empty(cx, resolved, &seen).await?;
            Ok(if is_empty { Step::Release(CASCADES) } else { Step::Wait(RETRY) })
        }
        DeletionStep::Wait { why } => {
            tracing::debug!(application = %cx.key, why, "the deletion waits");
            Ok(Step::Wait(LOOK_AGAIN))
        }
        DeletionStep::Delete(objects) => {
            let propagation = if in_background { Propagation::Background } else { Propagation::Foreground };
            delete_all(cx, resolved, &objects, propagation).await?;
            Ok(Step::Wait(NEXT_WAVE))
        }
    }
}

/// Nobody looks for everything that the application may have marked. That passes, but where there are too many former ways
/// of marking; then a person has to say that nothing was marked in that one.
fn not_looked_for(cx: &AppContext<'_>, ownership: &Ownership<'_>) -> Result<Step, DeletionError> {
    let readings = cx.controller.store.readings();
    // The settings may have changed in the middle of the round.
    if !readings.has(ownership.current_way()) || ownership.ways().into_iter().all(|way| readings.has(way)) {
        return Ok(Step::Wait(SOON));
    }
    Err(DeletionError::TooManyWays)
}

/// Objects this application has or had, as far as its status knows, and whether they are hooks: what was compared,
/// and what the last sync made, which may not have been compared yet.
fn recorded(app: &Application) -> impl Iterator<Item = (ResourceKey, Gvk, bool)> {
    let result = app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let synced = result.into_iter().flat_map(|result| &result.resources);
    let synced =
        synced.map(|r| (&r.group, &r.version, &r.kind, &r.namespace, &r.name, !r.hook_type.is_empty()));
    let compared = app.status.resources.iter();
    let compared = compared.map(|r| (&r.group, &r.version, &r.kind, &r.namespace, &r.name, r.hook));
    synced.chain(compared).map(|(group, version, kind, namespace, name, is_hook)| {
        (ResourceKey::new(group, kind, namespace, name), Gvk::new(group, version, kind), is_hook)
    })
}

/// What the last sync applied and no mark in use finds: the tracking settings changed in the middle of it, and changed
/// again before anything else was synced (TRK-102).
async fn marked_in_passing(
    subject: Subject<'_>,
    ownership: &Ownership<'_>,
    known: &HashSet<ResourceKey>,
) -> Result<Vec<Arc<Object>>, DeletionError> {
    let destination = &subject.resolved.destination;
    let mut found = BTreeMap::new();
    for (key, gvk) in applied(&subject.cx.app) {
        // Results name a namespace for objects that are in none.
        for key in [key.in_namespace(""), key] {
            if known.contains(&key) || !subject.is_visible(&key) || found.contains_key(&key) {
                continue;
            }
            let live = recorded_root(destination, &key, gvk.clone())
                .await
                .map_err(|why| LiveError::Object { key: key.clone(), why })?;
            if let Some(live) = live.filter(|live| ownership.is_marked_in_passing(live)) {
                found.insert(key, live);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Objects that the last sync has applied; hooks go by their policies.
fn applied(app: &Application) -> impl Iterator<Item = (ResourceKey, Gvk)> {
    let result = app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let synced = result.into_iter().flat_map(|result| &result.resources);
    let synced = synced.filter(|r| r.hook_type.is_empty() && r.status == ResultCode::Synced);
    synced.map(|r| {
        (ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name), Gvk::new(&r.group, &r.version, &r.kind))
    })
}

/// Hooks of a sync that was not finished keep their finalizer until somebody has seen their result. Nobody will
/// any more, and without this the deletion would wait for ever.
async fn release_hooks(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    live: &[Arc<Object>],
) -> Result<(), DeletionError> {
    let keeps = |object: &Object| object.metadata().finalizers.iter().any(|name| name == finalizer::HOOK);
    for object in live.iter().filter(|object| object.is_terminating() && keeps(object)) {
        let permit = resolved.permit(object, &cx.world).map_err(DeletionError::Forbidden)?;
        let target = Target::new(object.gvk().clone(), object.namespace(), object.name());
        let writer = &resolved.destination.writer;
        writer.remove_finalizer(&permit, &target, finalizer::HOOK).await?;
    }
    Ok(())
}

/// One list that shows nothing of a kind at all is not believed, and neither is a watch that may be late: what
/// the status knew of such kinds, and all it knew when a sync has just ended, is asked for once more before the
/// last finalizer goes (F3, F7). `decided` are the objects that the decision was made for; `false` means that it
/// is to be made again, because the watch has shown something since, or has not shown something yet.
async fn confirm_empty(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    decided: &HashSet<ResourceKey>,
) -> Result<bool, DeletionError> {
    let previous = cx.previous();
    let ownership = cx.ownership(&previous);
    let is_ours = |object: &Object| ownership.owns(object);
    let counts = resolved.destination.index.counts();
    let state = cx.app.status.operation_state.as_ref();
    let finished = state.and_then(|state| state.finished_at.as_deref()?.parse::<Timestamp>().ok());
    let is_fresh = finished.is_some_and(|at| cx.controller.clock.now().duration_since(at) < LATE_MAX);
    // Each once; with the version it was compared in. Hooks go by their policies, but one that was made a moment ago may
    // be there although nobody was told: its answer was lost, and the watch is late.
    let counts_now =
        |(key, _, is_hook): &(ResourceKey, Gvk, bool)| !is_hook || (is_fresh && !key.name.is_empty());
    let objects: BTreeMap<ResourceKey, Gvk> =
        recorded(&cx.app).filter(counts_now).map(|(key, gvk, _)| (key, gvk)).collect();
    for (key, gvk) in objects {
        let is_suspicious = counts.get(&gvk.group_kind()).copied() == Some(0);
        if !is_fresh && !is_suspicious {
            continue;
        }
        match resolved.destination.index.get(&key) {
            // It came while others were asked for. What has an owner goes with it.
            Seen::Present(object)
                if is_ours(&object)
                    && object.metadata().owner_references.is_empty()
                    && !decided.contains(&key) =>
            {
                return Ok(false);
            }
            // What was decided upon is kept, or waits for its turn.
            Seen::Present(_) | Seen::Reference { .. } => continue,
            Seen::Absent | Seen::Unknown(_) => {}
        }
        let target = Target::new(gvk, &key.namespace, &key.name);
        let live = match resolved.destination.writer.get(&target).await {
            Ok(live) => live,
            // The kind went with all its objects.
            // The settings of the cluster leave it to others (ENG-22).
            Err(ApiError::NotServed(_) | ApiError::NotManaged(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        // Results of a sync name a namespace for objects that are in none.
        if let Some(live) = live.filter(|live| is_ours(live) && !decided.contains(&live.key())) {
            if !is_suspicious {
                return Ok(false);
            }
            resolved.destination.index.contradict(&live);
            return Err(LiveError::Contradiction(live.key()).into());
        }
    }
    Ok(true)
}
