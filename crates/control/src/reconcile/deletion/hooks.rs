//! The hooks of a deletion: run before and after the cascade, and cleaned up at its end (CTL-76, CTL-81..84).

use std::sync::Arc;

use tiphys_api::Application;
use tiphys_cluster::{Propagation, Target};
use tiphys_engine::deletion::{DeletionHook, HookStep, hooks_to_clean_up, is_deletion_hook, next_hooks};
use tiphys_engine::health;
use tiphys_engine::hook::HookType;
use tiphys_lifecycle::refresh::{Level, Reason, Refresh, RefreshKind};
use tiphys_object::Object;

use super::error::{DeletionError, HookError};
use super::step::{LOOK_AGAIN, SOON, Step, delete_all};
use crate::reconcile::actions;
use crate::reconcile::desired;
use crate::reconcile::load::AppContext;
use crate::reconcile::resolve::{Resolved, Unresolved, resolve};

/// Runs the hooks of one type (CTL-81, CTL-82).
pub(super) async fn run(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    hook_type: HookType,
    finalizers: &'static [&'static str],
) -> Result<Step, DeletionError> {
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
                let permit = resolved.permit(&object, &cx.world).map_err(DeletionError::Forbidden)?;
                let manifest = object.to_value()?;
                match resolved.destination.writer.create(&permit, &manifest).await {
                    Ok(_) => {}
                    Err(error) if error.is_already_exists() => {}
                    Err(source) => {
                        let text = actions::describe(&source, object.gvk(), [&object]);
                        return Err(DeletionError::Refused { text, source });
                    }
                }
            }
            Ok(Step::Wait(SOON))
        }
        HookStep::Fail { delete: objects, message } => {
            delete_all(cx, resolved, &objects, Propagation::Background).await?;
            Err(HookError::Failed(message).into())
        }
    }
}

/// Deletes the hooks that their policies do not keep (CTL-83).
pub(super) async fn clean_up(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    hook_type: HookType,
    finalizers: &'static [&'static str],
) -> Result<Step, DeletionError> {
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
async fn check_spec(cx: &AppContext<'_>) -> Result<(), DeletionError> {
    match resolve(cx).await {
        Ok(_) => Ok(()),
        Err(Unresolved::Invalid(conditions)) => {
            let texts: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
            Err(HookError::Spec(texts.join("; ")).into())
        }
        Err(Unresolved::NotReady) => Err(HookError::NotReady.into()),
        Err(Unresolved::Unreachable(error)) => Err(DeletionError::Unreachable(error)),
    }
}

/// The hooks of one type with what is known of them. Their manifests come from the sources (CTL-81).
async fn load_hooks(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    hook_type: HookType,
) -> Result<Vec<DeletionHook>, DeletionError> {
    let refresh = Refresh { level: Level::Latest, kind: RefreshKind::Normal, reason: Reason::Internal };
    let targets = desired::load_newest(cx, resolved, refresh).await.map_err(HookError::Targets)?;
    let previous = cx.previous();
    let ownership = cx.ownership(&previous);
    let mut hooks = Vec::new();
    for target in targets.objects.iter().filter(|object| is_deletion_hook(object, hook_type)) {
        let target = placed(target, &cx.app, resolved)?;
        if target.name().is_empty() {
            return Err(HookError::Nameless(target.gvk().kind.to_string()).into());
        }
        // Asked before anybody looks: whether somebody else's object exists is not to be told, not even by which of
        // two errors follows (SEC-25, SEC-26, SEC-53).
        resolved.permit(&target, &cx.world).map_err(HookError::Forbidden)?;
        let key = Target::new(target.gvk().clone(), target.namespace(), target.name());
        let live = resolved.destination.writer.get(&key).await?;
        // An object of the hook's name that is not ours is neither judged nor deleted.
        if let Some(live) = &live
            && !ownership.owns(live)
        {
            return Err(HookError::Foreign(live.key()).into());
        }
        let health = match &live {
            Some(live) => {
                let value = live.to_value()?;
                let (overrides, runner) = (&cx.world.health, &cx.programs.runner);
                let judge = || health::evaluate_with(&value, overrides, runner);
                cx.programs
                    .compute(1, judge)
                    .await
                    .map_err(|error| DeletionError::Programs(error.to_string()))?
            }
            None => None,
        };
        hooks.push(DeletionHook { target, live, health });
    }
    Ok(hooks)
}

/// The hook where it belongs: cluster-scoped kinds lose a namespace, others get the destination's (ENG-41).
fn placed(
    target: &Arc<Object>,
    app: &Application,
    resolved: &Resolved,
) -> Result<Arc<Object>, DeletionError> {
    let namespaced = resolved.scope_of(&target.gvk().group_kind()).map_err(DeletionError::Forbidden)?;
    let namespace = app.spec.destination.namespace.as_str();
    let mut value = target.to_value()?;
    let metadata = tiphys_object::access::metadata_mut(&mut value);
    if !namespaced {
        metadata.remove("namespace");
    } else if target.namespace().is_empty() && !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    } else {
        return Ok(Arc::clone(target));
    }
    Ok(Object::from_value(&value).map(Arc::new)?)
}
