//! The hooks of a deletion: run before and after the cascade, and cleaned up at its end (CTL-76, CTL-81..84).

use std::sync::Arc;

use tiphys_api::Application;
use tiphys_cluster::{Propagation, Target};
use tiphys_engine::deletion::{DeletionHook, HookStep, hooks_to_clean_up, is_deletion_hook, next_hooks};
use tiphys_engine::health;
use tiphys_engine::hook::HookType;
use tiphys_lifecycle::refresh::{Level, Reason, Refresh, RefreshKind};
use tiphys_object::Object;

use super::step::{LOOK_AGAIN, SOON, Step, delete_all};
use crate::reconcile::actions;
use crate::reconcile::desired;
use crate::reconcile::load::AppContext;
use crate::reconcile::resolve::{Resolved, Unresolved, resolve};

/// What a user can do about hooks that cannot run (CTL-84).
const SKIP_HINT: &str = "annotate the application with argocd.argoproj.io/deletion-skip-hooks=true to delete it \
                         without its hooks";

/// Runs the hooks of one type (CTL-81, CTL-82).
pub(super) async fn run(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    hook_type: HookType,
    finalizers: &'static [&'static str],
) -> Result<Step, String> {
    check_spec(cx).await?;
    let hooks = load_hooks(cx, resolved, hook_type).await?;
    match next_hooks(hook_type, &hooks) {
        HookStep::Done => Ok(Step::Release(finalizers)),
        HookStep::Wait { why } => {
            tracing::debug!(application = %cx.key, why, "the deletion waits");
            Ok(Step::Wait(LOOK_AGAIN))
        }
        HookStep::Create(objects) => {
            for object in objects {
                let permit = resolved.permit(&object, &cx.world)?;
                let manifest = object.to_value().map_err(|error| error.to_string())?;
                match resolved.destination.writer.create(&permit, &manifest).await {
                    Ok(_) => {}
                    Err(error) if error.is_already_exists() => {}
                    Err(error) => return Err(actions::describe(&error, object.gvk(), [&object])),
                }
            }
            Ok(Step::Wait(SOON))
        }
        HookStep::Fail { delete: objects, message } => {
            delete_all(cx, resolved, &objects, Propagation::Background).await?;
            Err(message)
        }
    }
}

/// Deletes the hooks that their policies do not keep (CTL-83).
pub(super) async fn clean_up(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    hook_type: HookType,
    finalizers: &'static [&'static str],
) -> Result<Step, String> {
    let hooks = load_hooks(cx, resolved, hook_type).await?;
    let keeps =
        cx.world.settings.param("controller.delete.hooks.keep.default", "").is_some_and(|v| v == "true");
    let objects = hooks_to_clean_up(&hooks, !keeps);
    if objects.is_empty() {
        return Ok(Step::Release(finalizers));
    }
    let remaining: Vec<Arc<Object>> = objects.into_iter().filter(|object| !object.is_terminating()).collect();
    delete_all(cx, resolved, &remaining, Propagation::Background).await?;
    Ok(Step::Wait(SOON))
}

/// Hooks create objects: they run only where the whole spec is permitted (INV-6).
async fn check_spec(cx: &AppContext<'_>) -> Result<(), String> {
    match resolve(cx).await {
        Ok(_) => Ok(()),
        Err(Unresolved::Invalid(conditions)) => {
            let texts: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
            Err(format!("deletion hooks are not run: {}; {SKIP_HINT}", texts.join("; ")))
        }
        Err(Unresolved::NotReady) => Err("the cluster is not listed yet".to_owned()),
        Err(Unresolved::Unreachable(error)) => Err(error),
    }
}

/// The hooks of one type with what is known of them. Their manifests come from the sources (CTL-81).
async fn load_hooks(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    hook_type: HookType,
) -> Result<Vec<DeletionHook>, String> {
    let refresh = Refresh { level: Level::Latest, kind: RefreshKind::Normal, reason: Reason::Internal };
    let targets = desired::load_newest(cx, resolved, refresh)
        .await
        .map_err(|error| format!("Failed to load target state: {error}; {SKIP_HINT}"))?;
    let previous = cx.previous();
    let ownership = cx.ownership(&previous);
    let mut hooks = Vec::new();
    for target in targets.objects.iter().filter(|object| is_deletion_hook(object, hook_type)) {
        let target = placed(target, &cx.app, resolved)?;
        if target.name().is_empty() {
            return Err(format!("a {} hook has no name; {SKIP_HINT}", target.gvk().kind));
        }
        // Asked before anybody looks: whether somebody else's object exists is not to be told, not even by which of
        // two errors follows (SEC-25, SEC-26, SEC-53).
        resolved.permit(&target, &cx.world).map_err(|error| format!("{error}; {SKIP_HINT}"))?;
        let key = Target::new(target.gvk().clone(), target.namespace(), target.name());
        let live = resolved.destination.writer.get(&key).await.map_err(|error| error.to_string())?;
        // An object of the hook's name that is not ours is neither judged nor deleted.
        if let Some(live) = &live
            && !ownership.owns(live)
        {
            return Err(format!("{} exists and is not part of the application; {SKIP_HINT}", live.key()));
        }
        let health = match &live {
            Some(live) => {
                let value = live.to_value().map_err(|error| error.to_string())?;
                let (overrides, runner) = (&cx.world.health, &cx.programs.runner);
                let judge = || health::evaluate_with(&value, overrides, runner);
                cx.programs.compute(1, judge).await.map_err(|error| error.to_string())?
            }
            None => None,
        };
        hooks.push(DeletionHook { target, live, health });
    }
    Ok(hooks)
}

/// The hook where it belongs: cluster-scoped kinds lose a namespace, others get the destination's (ENG-41).
fn placed(target: &Arc<Object>, app: &Application, resolved: &Resolved) -> Result<Arc<Object>, String> {
    let namespaced = resolved.scope_of(&target.gvk().group_kind())?;
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
