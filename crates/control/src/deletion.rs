//! Deleting an Application: hooks before, the cascade wave by wave, hooks after, finalizers last (CTL-75..84).
//!
//! A pass works on a fresh object and does one step; deletions of live objects and the requeue bring the next.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tiphys_api::application::Application;
use tiphys_api::names::{annotation, finalizer};
use tiphys_cluster::{DeleteOptions, Permit, Propagation, Target};
use tiphys_engine::deletion::{
    DeletionFacts, DeletionHook, DeletionStep, HookStep, hooks_to_clean_up, is_deletion_hook, next_deletion,
    next_hooks,
};
use tiphys_engine::health;
use tiphys_engine::hook::HookType;
use tiphys_object::{Object, ResourceKey};

use crate::context::Context;
use crate::decide::operation::shown;
use crate::decide::refresh::{Level, Reason, Refresh, RefreshKind};
use crate::decide::status::{condition, merge_conditions};
use crate::events::Note;
use crate::operate::{self, WrittenObjects};
use crate::pass::{self, Resolved, Work};
use crate::persist::{self, Also};

/// Longest time until a deletion is looked at again (CTL-79).
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Time until a pass that failed is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(5);

/// What one pass came to.
enum Step {
    /// A finalizer is done with and goes.
    Release(&'static [&'static str]),
    /// Something was deleted or is waited for.
    Wait(SignedDuration),
    /// Nothing is left to do.
    Done,
}

const CASCADE: [&str; 3] =
    [finalizer::CASCADE, finalizer::CASCADE_FOREGROUND, finalizer::CASCADE_BACKGROUND];
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
            Step::Wait(wait) => {
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
    let resolved = resolve(context, work).await?;
    if has(finalizer::PRE_DELETE) {
        return hooks(context, work, &resolved, HookType::PreDelete, &[finalizer::PRE_DELETE]).await;
    }
    if CASCADE.iter().any(|name| has(name)) {
        return cascade(work, &resolved).await;
    }
    if has(finalizer::POST_DELETE) {
        return hooks(context, work, &resolved, HookType::PostDelete, &[finalizer::POST_DELETE]).await;
    }
    if has(finalizer::PRE_DELETE_CLEANUP) {
        return clean_up(context, work, &resolved, HookType::PreDelete, &[finalizer::PRE_DELETE_CLEANUP]).await;
    }
    clean_up(context, work, &resolved, HookType::PostDelete, &[finalizer::POST_DELETE_CLEANUP]).await
}

/// Project and destination of a deletion: a spec that is no longer permitted does not stop it (CTL-15).
async fn resolve(context: &Context, work: &Work) -> Result<Resolved, String> {
    let world = &work.world;
    let cluster = world.clusters.resolve(&work.app.spec.destination).map_err(|error| error.to_string())?;
    let name = work.app.project();
    let project = world
        .projects
        .get(name)
        .ok_or_else(|| format!("Application referencing project {name} which does not exist"))?;
    let destination = context.clusters.get(cluster, world).await?;
    Ok(Resolved { project: Arc::clone(project), destination })
}

/// Deletes the managed objects of the highest wave (CTL-78 step 3).
async fn cascade(work: &Work, resolved: &Resolved) -> Result<Step, String> {
    let subject = work.subject(resolved);
    let found = resolved.destination.index.managed(&work.instance);
    if let Some(error) = found.cluster_error {
        return Err(format!("Failed to load live state: {error}"));
    }
    // The live list is the witness here. A kind this application had objects of must be completely listed.
    let status = &work.app.status.resources;
    let doubtful = found.incomplete.iter().find(|(kind, _)| {
        status.iter().any(|r| r.group == kind.group.as_str() && r.kind == kind.kind.as_str())
            || found.objects.iter().any(|object| object.gvk().group_kind() == *kind)
    });
    if let Some((kind, why)) = doubtful {
        return Err(format!("Failed to load live state: {kind}: {why}"));
    }
    // Copies that merely carry our mark are not ours (TRK-94b).
    let live: Vec<Arc<Object>> = found
        .objects
        .into_iter()
        .filter(|object| subject.is_visible(&object.key()))
        .filter(|object| work.tracking.is_self_referenced(None, Some(object)))
        .collect();
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let facts = DeletionFacts {
        live,
        application: work.object.key(),
        sync_options: work.app.sync_options().to_vec(),
        needs_confirmation: status
            .iter()
            .filter(|r| r.requires_deletion_confirmation)
            .map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name))
            .collect(),
        deletion_timestamp: time(work.app.metadata.deletion_timestamp.as_deref()),
        deletion_approved: time(work.app.annotation(annotation::DELETION_APPROVED)),
    };
    match next_deletion(&facts) {
        DeletionStep::Done => Ok(Step::Release(&CASCADE)),
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
        let namespaced = !object.namespace().is_empty();
        pass::permitted(&object, namespaced, resolved, &work.world)?;
        let permit = Permit::checked();
        let target = Target::new(object.gvk().clone(), object.namespace(), object.name());
        let options =
            DeleteOptions { propagation, uid: Some(object.metadata().uid.clone()), is_dry_run: false };
        let deleted = resolved.destination.writer.delete(&permit, &target, &options).await;
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
    let targets = pass::load_targets(context, work, refresh).await.map_err(|error| {
        format!(
            "Failed to load target state: {error}; annotate the application with \
             argocd.argoproj.io/deletion-skip-hooks=true to delete it without its hooks"
        )
    })?;
    let mut hooks = Vec::new();
    for target in targets.objects.iter().filter(|object| is_deletion_hook(object, hook_type)) {
        let target = with_namespace(target, &work.app, resolved);
        let key = Target::new(target.gvk().clone(), target.namespace(), target.name());
        let live = resolved.destination.writer.get(&key).await.map_err(|error| error.to_string())?;
        let health = match &live {
            Some(live) => {
                health::evaluate(&live.to_value(), &work.world.health).map_err(|error| error.to_string())?
            }
            None => None,
        };
        hooks.push(DeletionHook { target, live, health });
    }
    Ok(hooks)
}

fn with_namespace(target: &Arc<Object>, app: &Application, resolved: &Resolved) -> Arc<Object> {
    let namespace = &app.spec.destination.namespace;
    let kinds = resolved.destination.index.discovery().snapshot();
    let cluster_scoped = kinds.and_then(|kinds| kinds.scope(&target.gvk().group_kind()))
        == Some(tiphys_cluster::Scope::Cluster);
    if !target.namespace().is_empty() || namespace.is_empty() || cluster_scoped {
        return Arc::clone(target);
    }
    let mut value = target.to_value();
    tiphys_object::access::metadata_mut(&mut value).insert("namespace".to_owned(), namespace.as_str().into());
    Object::from_value(&value).map_or_else(|_| Arc::clone(target), Arc::new)
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
    let hooks = load_hooks(context, work, resolved, hook_type).await?;
    match next_hooks(hook_type, &hooks) {
        HookStep::Done => Ok(Step::Release(finalizers)),
        HookStep::Wait { why } => {
            tracing::debug!(application = %work.key, why, "the deletion waits");
            Ok(Step::Wait(LOOK_AGAIN))
        }
        HookStep::Create(objects) => {
            for object in objects {
                pass::permitted(&object, !object.namespace().is_empty(), resolved, &work.world)?;
                match resolved.destination.writer.create(&Permit::checked(), &object.to_value()).await {
                    Ok(_) => {}
                    Err(error) if error.is_already_exists() => {}
                    Err(error) => return Err(error.to_string()),
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
    let keeps = work.world.settings.param("controller.delete.hooks.keep.default", "").is_some_and(|v| v == "true");
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
    // Applications are the installation's own objects.
    match context.home.merge_patch(&Permit::checked(), &target, None, &patch).await {
        Ok(stored) => {
            persist::remember(context, &stored);
            work.adopt(stored);
            Ok(!work.app.metadata.finalizers.is_empty())
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
    let old = work.app.clone();
    let mut new = old.clone();
    let found = vec![condition("DeletionError", error)];
    let now = shown(context.clock.now());
    new.status.conditions = merge_conditions(&old.status.conditions, &["DeletionError"], found, &now);
    if new.status.conditions == old.status.conditions {
        return;
    }
    let note = Note::warning("StatusRefreshed", format!("Unable to delete application resources: {error}"));
    context.note(&work.object, &work.app, &note);
    let object = Arc::clone(&work.object);
    if let persist::Written::Stored(stored) = persist::write(context, &object, &old, &mut new, Also::default()).await {
        work.adopt(stored);
    }
}
