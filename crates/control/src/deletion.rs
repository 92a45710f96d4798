//! Deleting an Application: hooks before, the cascade wave by wave, hooks after, finalizers last (CTL-75..84).
//!
//! A pass works on a fresh object and does one step; deletions of live objects and the requeue bring the next.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tiphys_api::application::Application;
use tiphys_api::names::{annotation, finalizer};
use tiphys_cluster::{ApiError, Propagation, Seen, Target};
use tiphys_engine::deletion::{
    DeletionFacts, DeletionHook, DeletionStep, HookStep, hooks_to_clean_up, is_deletion_hook, next_deletion,
    next_hooks,
};
use tiphys_engine::health;
use tiphys_engine::hook::HookType;
use tiphys_installation::NoProject;
use tiphys_object::{Gvk, Object, ResourceKey};
use tiphys_policy::permit::{Own, Permit};

use crate::clusters::Unusable;
use crate::context::Context;
use crate::decide::operation::shown;
use crate::decide::refresh::{Level, Reason, Refresh, RefreshKind};
use crate::decide::status::{condition, merge_conditions};
use crate::events::Note;
use crate::execute;
use crate::operate::{self, WrittenObjects};
use crate::pass::{self, Resolved, Unresolved, Work};
use crate::persist::{self, Also};

/// Longest time until a deletion is looked at again (CTL-79).
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// By how much a watch may be late (F3).
const LATE_MAX: SignedDuration = SignedDuration::from_mins(2);
/// Time until a pass that failed is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(5);

/// What a user can do about hooks that cannot run (CTL-84).
const SKIP_HINT: &str = "annotate the application with argocd.argoproj.io/deletion-skip-hooks=true to delete it \
                         without its hooks";

/// What a user can do about a cluster that does not answer (CTL-78).
const UNREACHED_HINT: &str = "the deletion goes on when the cluster answers; to leave the objects behind, remove the \
                              finalizers of the application, or the cluster from the settings";

/// What one pass came to.
enum Step {
    /// A finalizer is done with and goes.
    Release(&'static [&'static str]),
    /// Something was deleted or is waited for.
    Wait(SignedDuration),
    /// The cluster cannot be asked now, and why. It wakes the application when it can.
    Blocked(String),
    /// Nothing is left to do.
    Done,
}

const CASCADE: [&str; 3] = [finalizer::CASCADE, finalizer::CASCADE_FOREGROUND, finalizer::CASCADE_BACKGROUND];
const ALL: [&str; 7] = [
    finalizer::CASCADE,
    finalizer::CASCADE_FOREGROUND,
    finalizer::CASCADE_BACKGROUND,
    finalizer::PRE_DELETE,
    finalizer::PRE_DELETE_CLEANUP,
    finalizer::POST_DELETE,
    finalizer::POST_DELETE_CLEANUP,
];

/// Works on the deletion of an application as far as it goes without waiting.
pub(crate) async fn run(context: &Context, work: &mut Work) {
    if context.read_only {
        return;
    }
    // One round per finalizer, and one to find that none is left.
    for _ in 0..=ALL.len() {
        let step = match step(context, work).await {
            Ok(step) => step,
            Err(error) => {
                failed(context, work, &error).await;
                look_again(context, work, RETRY);
                return;
            }
        };
        match step {
            Step::Done => return,
            Step::Blocked(error) => {
                failed(context, work, &error).await;
                look_again(context, work, LOOK_AGAIN);
                return;
            }
            Step::Wait(wait) => {
                show_error(context, work, None).await;
                look_again(context, work, wait);
                return;
            }
            Step::Release(names) => match release(context, work, names).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    failed(context, work, &error).await;
                    look_again(context, work, RETRY);
                    return;
                }
            },
        }
    }
}

fn look_again(context: &Context, work: &Work, wait: SignedDuration) {
    if let Ok(at) = context.clock.now().checked_add(wait.min(LOOK_AGAIN)) {
        context.wake_at(&work.key, at);
    }
}

/// The first finalizer that is there decides what is next (CTL-78).
async fn step(context: &Context, work: &Work) -> Result<Step, String> {
    let has = |name: &str| work.app.metadata.finalizers.iter().any(|found| found == name);
    if !ALL.iter().any(|name| has(name)) {
        return Ok(Step::Done);
    }
    // A destination that cannot be resolved can have nothing deleted in it: the objects are left behind.
    if work.world.clusters.resolve(&work.app.spec.destination).is_err() {
        return Ok(Step::Release(&ALL));
    }
    let resolved = match resolve(context, work).await? {
        Ok(resolved) => resolved,
        Err(step) => return Ok(step),
    };
    if has(finalizer::PRE_DELETE) {
        return hooks(context, work, &resolved, HookType::PreDelete, &[finalizer::PRE_DELETE]).await;
    }
    if CASCADE.iter().any(|name| has(name)) {
        return cascade(context, work, &resolved).await;
    }
    if has(finalizer::POST_DELETE) {
        return hooks(context, work, &resolved, HookType::PostDelete, &[finalizer::POST_DELETE]).await;
    }
    if has(finalizer::PRE_DELETE_CLEANUP) {
        return clean_up(context, work, &resolved, HookType::PreDelete, &[finalizer::PRE_DELETE_CLEANUP])
            .await;
    }
    clean_up(context, work, &resolved, HookType::PostDelete, &[finalizer::POST_DELETE_CLEANUP]).await
}

/// Project and destination of a deletion: a spec that is no longer permitted does not stop it (CTL-15), and
/// what the project forbids is invisible to the cascade. Without an answer of the cluster nothing is called deleted:
/// the finalizers stay, and what can be done is said.
async fn resolve(context: &Context, work: &Work) -> Result<Result<Resolved, Step>, String> {
    let world = &work.world;
    let cluster = world.clusters.resolve(&work.app.spec.destination).map_err(|error| error.to_string())?;
    let name = work.app.project();
    let project = world.project(name).map_err(|why| match why {
        NoProject::Missing => format!("Application referencing project {name} which does not exist"),
        NoProject::Unreadable(text) => text.to_owned(),
    })?;
    if let Some(text) = pass::impersonation(work, project, &cluster.server) {
        return Err(text);
    }
    match context.clusters.get(&cluster.server).await {
        Ok(destination) => Ok(Ok(Resolved { project: Arc::clone(project), destination })),
        Err(Unusable::NotReady) => Ok(Err(Step::Wait(SignedDuration::from_millis(500)))),
        Err(Unusable::Failed(error)) => Ok(Err(Step::Blocked(format!("{error}; {UNREACHED_HINT}")))),
    }
}

/// Hooks create objects: they run only where the whole spec is permitted (INV-6).
async fn check_spec(context: &Context, work: &Work) -> Result<(), String> {
    match pass::resolve(context, work).await {
        Ok(_) => Ok(()),
        Err(Unresolved::Invalid(conditions)) => {
            let texts: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
            Err(format!("deletion hooks are not run: {}; {SKIP_HINT}", texts.join("; ")))
        }
        Err(Unresolved::NotReady) => Err("the cluster is not listed yet".to_owned()),
        Err(Unresolved::Unreachable(error)) => Err(error),
    }
}

/// Deletes the managed objects of the highest wave (CTL-78 step 3).
async fn cascade(context: &Context, work: &Work, resolved: &Resolved) -> Result<Step, String> {
    let subject = work.subject(resolved);
    if resolved.destination.is_stopped() {
        return Err("Failed to load live state: the configuration of the cluster changed".to_owned());
    }
    let found = resolved.destination.index.managed(&work.instance);
    if let Some(error) = found.cluster_error {
        return Err(format!("Failed to load live state: {error}"));
    }
    // What cannot be read is there, and whether it is to go cannot be told (INV-17).
    if let Some((key, why)) = found.unreadable.first() {
        return Err(format!("Failed to load live state: {key}: {why}"));
    }
    // The live list is the witness here. A kind this application had objects of must be completely listed.
    let status = &work.app.status.resources;
    let kinds: BTreeSet<Gvk> = recorded(&work.app).map(|(_, gvk, _)| gvk).collect();
    let doubtful = found.incomplete.iter().find(|(kind, _)| {
        kinds.iter().any(|gvk| gvk.group_kind() == *kind)
            || found.objects.iter().any(|object| object.gvk().group_kind() == *kind)
    });
    if let Some((kind, why)) = doubtful {
        return Err(format!("Failed to load live state: {kind}: {why}"));
    }
    // Of a kind that cannot be discovered, nothing is listed at all.
    for gvk in &kinds {
        if let Some(why) = resolved.destination.index.unwatched(gvk) {
            return Err(format!("Failed to load live state: {}: {why}", gvk.group_kind()));
        }
    }
    let seen: HashSet<ResourceKey> = found.objects.iter().map(|object| object.key()).collect();
    // Copies that merely carry our mark are not ours (TRK-94b).
    let live: Vec<Arc<Object>> = found
        .objects
        .into_iter()
        .filter(|object| subject.is_visible(&object.key()))
        .filter(|object| work.tracking.goes_with_application(object))
        .collect();
    release_hooks(work, resolved, &live).await?;
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let facts = DeletionFacts {
        live,
        application: work.object.key(),
        sync_options: work.app.sync_options().iter().cloned().collect(),
        needs_confirmation: status
            .iter()
            .filter(|r| r.requires_deletion_confirmation)
            .map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name))
            .collect(),
        deletion_timestamp: time(work.app.metadata.deletion_timestamp.as_deref()),
        deletion_approved: time(work.app.annotation(annotation::DELETION_APPROVED)),
    };
    match next_deletion(&facts) {
        DeletionStep::Done => {
            let is_empty = confirm_empty(context, work, resolved, &seen).await?;
            Ok(if is_empty { Step::Release(&CASCADE) } else { Step::Wait(RETRY) })
        }
        DeletionStep::Wait { why } => {
            tracing::debug!(application = %work.key, why, "the deletion waits");
            Ok(Step::Wait(LOOK_AGAIN))
        }
        DeletionStep::Delete(objects) => {
            let first = work.app.metadata.finalizers.iter().find(|name| CASCADE.contains(&name.as_str()));
            let background = first.is_some_and(|name| name == finalizer::CASCADE_BACKGROUND);
            let propagation = if background { Propagation::Background } else { Propagation::Foreground };
            delete(work, resolved, &objects, propagation).await?;
            Ok(Step::Wait(SignedDuration::from_millis(100)))
        }
    }
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

/// Hooks of a sync that was not finished keep their finalizer until somebody has seen their result. Nobody will
/// any more, and without this the deletion would wait for ever.
async fn release_hooks(work: &Work, resolved: &Resolved, live: &[Arc<Object>]) -> Result<(), String> {
    let keeps = |object: &Object| object.metadata().finalizers.iter().any(|name| name == finalizer::HOOK);
    for object in live.iter().filter(|object| object.is_terminating() && keeps(object)) {
        let permit = pass::permit(object, resolved, &work.world)?;
        let target = Target::new(object.gvk().clone(), object.namespace(), object.name());
        let writer = &resolved.destination.writer;
        let removed = writer.remove_finalizer(&permit, &target, finalizer::HOOK).await;
        removed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// One list that shows nothing of a kind at all is not believed, and neither is a watch that may be late: what
/// the status knew of such kinds, and all it knew when a sync has just ended, is asked for once more before the
/// last finalizer goes (F3, F7). `decided` are the objects that the decision was made for; `false` means that it
/// is to be made again, because the watch has shown something since, or has not shown something yet.
async fn confirm_empty(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    decided: &HashSet<ResourceKey>,
) -> Result<bool, String> {
    let is_ours =
        |object: &Object| work.tracking.claim(object.metadata()).as_deref() == Some(work.instance.as_str());
    let counts = resolved.destination.index.counts();
    let state = work.app.status.operation_state.as_ref();
    let finished = state.and_then(|state| state.finished_at.as_deref()?.parse::<Timestamp>().ok());
    let is_fresh = finished.is_some_and(|at| context.clock.now().duration_since(at) < LATE_MAX);
    // Each once; with the version it was compared in. Hooks go by their policies, but one that was made a moment ago may
    // be there although nobody was told: its answer was lost, and the watch is late.
    let counts_now =
        |(key, _, is_hook): &(ResourceKey, Gvk, bool)| !is_hook || (is_fresh && !key.name.is_empty());
    let objects: BTreeMap<ResourceKey, Gvk> =
        recorded(&work.app).filter(counts_now).map(|(key, gvk, _)| (key, gvk)).collect();
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
            Err(error) => return Err(error.to_string()),
        };
        // Results of a sync name a namespace for objects that are in none.
        if let Some(live) = live.filter(|live| is_ours(live) && !decided.contains(&live.key())) {
            if !is_suspicious {
                return Ok(false);
            }
            resolved.destination.index.contradict(&live);
            return Err(format!(
                "Failed to load live state: {} exists, but the list of its kind is empty",
                live.key()
            ));
        }
    }
    Ok(true)
}

/// Deletes objects together and waits until the index has seen it.
async fn delete(
    work: &Work,
    resolved: &Resolved,
    objects: &[Arc<Object>],
    propagation: Propagation,
) -> Result<(), String> {
    use futures::StreamExt;
    let limit = work.world.settings.controller().kubectl_parallelism_limit.unwrap_or(64).max(1);
    let one = |object: Arc<Object>| async move {
        let permit = pass::permit(&object, resolved, &work.world)?;
        let target = Target::new(object.gvk().clone(), object.namespace(), object.name());
        let writer = &resolved.destination.writer;
        let deleted =
            execute::delete_marked(writer, &permit, &target, &work.tracking, &object, propagation).await;
        deleted.map(|_| object.key()).map_err(|error| error.to_string())
    };
    let results: Vec<Result<ResourceKey, String>> =
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
    operate::settle(resolved, written).await;
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// The hooks of one type with what is known of them. Their manifests come from the sources (CTL-81).
async fn load_hooks(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    hook_type: HookType,
) -> Result<Vec<DeletionHook>, String> {
    let refresh = Refresh { level: Level::Latest, kind: RefreshKind::Normal, reason: Reason::Internal };
    let targets = pass::load_targets(context, work, resolved, refresh)
        .await
        .map_err(|error| format!("Failed to load target state: {error}; {SKIP_HINT}"))?;
    let mut hooks = Vec::new();
    for target in targets.objects.iter().filter(|object| is_deletion_hook(object, hook_type)) {
        let target = placed(target, &work.app, resolved)?;
        if target.name().is_empty() {
            return Err(format!("a {} hook has no name; {SKIP_HINT}", target.gvk().kind));
        }
        // Asked before anybody looks: whether somebody else's object exists is not to be told, not even by which of
        // two errors follows (SEC-25, SEC-26, SEC-53).
        pass::permit(&target, resolved, &work.world).map_err(|error| format!("{error}; {SKIP_HINT}"))?;
        let key = Target::new(target.gvk().clone(), target.namespace(), target.name());
        let live = resolved.destination.writer.get(&key).await.map_err(|error| error.to_string())?;
        // An object of the hook's name that is not ours is neither judged nor deleted.
        if let Some(live) = &live
            && work.tracking.claim(live.metadata()).as_deref() != Some(work.instance.as_str())
        {
            return Err(format!("{} exists and is not part of the application; {SKIP_HINT}", live.key()));
        }
        let health = match &live {
            Some(live) => {
                let value = live.to_value().map_err(|error| error.to_string())?;
                let (overrides, runner) = (&work.world.health, &work.programs.runner);
                let judge = || health::evaluate_with(&value, overrides, runner);
                work.programs.compute(1, judge).await.map_err(|error| error.to_string())?
            }
            None => None,
        };
        hooks.push(DeletionHook { target, live, health });
    }
    Ok(hooks)
}

/// The hook where it belongs: cluster-scoped kinds lose a namespace, others get the destination's (ENG-41).
fn placed(target: &Arc<Object>, app: &Application, resolved: &Resolved) -> Result<Arc<Object>, String> {
    let namespaced = pass::scope_of(&target.gvk().group_kind(), resolved)?;
    let namespace = app.spec.destination.namespace.as_str();
    let mut value = target.to_value().map_err(|error| error.to_string())?;
    let metadata = tiphys_object::access::metadata_mut(&mut value);
    if !namespaced {
        metadata.remove("namespace");
    } else if target.namespace().is_empty() && !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    } else {
        return Ok(Arc::clone(target));
    }
    Object::from_value(&value).map(Arc::new).map_err(|error| error.to_string())
}

fn skips_hooks(app: &Application) -> bool {
    app.annotation("argocd.argoproj.io/deletion-skip-hooks") == Some("true")
}

/// Runs the hooks of one type (CTL-81, CTL-82).
async fn hooks(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    hook_type: HookType,
    finalizers: &'static [&'static str],
) -> Result<Step, String> {
    if skips_hooks(&work.app) {
        return Ok(Step::Release(finalizers));
    }
    check_spec(context, work).await?;
    let hooks = load_hooks(context, work, resolved, hook_type).await?;
    match next_hooks(hook_type, &hooks) {
        HookStep::Done => Ok(Step::Release(finalizers)),
        HookStep::Wait { why } => {
            tracing::debug!(application = %work.key, why, "the deletion waits");
            Ok(Step::Wait(LOOK_AGAIN))
        }
        HookStep::Create(objects) => {
            for object in objects {
                let permit = pass::permit(&object, resolved, &work.world)?;
                let manifest = object.to_value().map_err(|error| error.to_string())?;
                match resolved.destination.writer.create(&permit, &manifest).await {
                    Ok(_) => {}
                    Err(error) if error.is_already_exists() => {}
                    Err(error) => return Err(execute::in_words(&error, object.gvk(), [&object])),
                }
            }
            Ok(Step::Wait(SignedDuration::from_millis(500)))
        }
        HookStep::Fail { delete: objects, message } => {
            delete(work, resolved, &objects, Propagation::Background).await?;
            Err(message)
        }
    }
}

/// Deletes the hooks that their policies do not keep (CTL-83).
async fn clean_up(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    hook_type: HookType,
    finalizers: &'static [&'static str],
) -> Result<Step, String> {
    if skips_hooks(&work.app) {
        return Ok(Step::Release(finalizers));
    }
    let hooks = load_hooks(context, work, resolved, hook_type).await?;
    let keeps =
        work.world.settings.param("controller.delete.hooks.keep.default", "").is_some_and(|v| v == "true");
    let objects = hooks_to_clean_up(&hooks, !keeps);
    if objects.is_empty() {
        return Ok(Step::Release(finalizers));
    }
    let remaining: Vec<Arc<Object>> = objects.into_iter().filter(|object| !object.is_terminating()).collect();
    delete(work, resolved, &remaining, Propagation::Background).await?;
    Ok(Step::Wait(SignedDuration::from_millis(500)))
}

/// Removes finalizers; `false` means that the object is gone.
async fn release(context: &Context, work: &mut Work, names: &[&str]) -> Result<bool, String> {
    let target = Target::new(Context::application_gvk(), &work.key.namespace, &work.key.name);
    let keep: Vec<&String> =
        work.app.metadata.finalizers.iter().filter(|name| !names.contains(&name.as_str())).collect();
    let patch = json!({"metadata": {
        "finalizers": keep,
        "resourceVersion": work.object.metadata().resource_version,
    }});
    let permit = Permit::own(Own::Application, &work.key.namespace, &work.key.name);
    match context.home.merge_patch(&permit, &target, None, &patch).await {
        Ok(stored) => {
            if stored.metadata().finalizers.is_empty() {
                // It is gone, and its version may be that of before: the store would keep the finalizers.
                context.store.bury(&work.key, &work.object.metadata().uid);
                return Ok(false);
            }
            persist::remember(context, &stored);
            work.adopt(stored);
            Ok(true)
        }
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) if error.is_conflict() => {
            let latest = context.home.get(&target).await.map_err(|error| error.to_string())?;
            let Some(latest) = latest else { return Ok(false) };
            persist::remember(context, &latest);
            work.adopt(latest);
            Ok(true)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Shows why a deletion does not go on (CTL-79).
async fn failed(context: &Context, work: &mut Work, error: &str) {
    if show_error(context, work, Some(error)).await {
        let note =
            Note::warning("StatusRefreshed", format!("Unable to delete application resources: {error}"));
        context.note(&work.object, &work.app, &note);
    }
}

/// Writes the condition `DeletionError`, or its end; says whether anything was to be written.
async fn show_error(context: &Context, work: &mut Work, error: Option<&str>) -> bool {
    let old = work.app.clone();
    let mut new = old.clone();
    let found = error.map(|error| condition("DeletionError", error)).into_iter().collect();
    let now = shown(context.clock.now());
    new.status.conditions = merge_conditions(&old.status.conditions, &["DeletionError"], found, &now);
    if new.status.conditions == old.status.conditions {
        return false;
    }
    let object = Arc::clone(&work.object);
    if let persist::Written::Stored(stored) =
        persist::write(context, &object, &old, &mut new, Also::default()).await
    {
        work.adopt(stored);
    }
    true
}
