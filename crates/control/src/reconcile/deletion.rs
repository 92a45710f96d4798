//! Deleting an Application: hooks before, the cascade wave by wave, hooks after, finalizers last (CTL-75..84).
//!
//! A round works on a fresh object and does one step; deletions of live objects and the requeue bring the next.

mod cascade;
mod error;
mod hooks;
mod step;

use jiff::SignedDuration;
use tiphys_api::codes::ConditionType;
use tiphys_lifecycle::finalizers::{self, Stage, next_stage};
use tiphys_lifecycle::refresh_status::show_condition;
use tiphys_lifecycle::status_patch::PatchOptions;

use super::load::AppContext;
use super::record;
use crate::events::Note;
use crate::scheduler::Requeue;
use error::DeletionError;
use step::{LOOK_AGAIN, Step};

/// Works on the deletion of an application as far as it goes without waiting.
pub(super) async fn delete(cx: &mut AppContext<'_>) -> Requeue {
    if cx.controller.read_only {
        return Requeue::Done;
    }
    // One step per finalizer, and one to find that none is left.
    for _ in 0..=finalizers::ALL.len() {
        let (error, wait) = match step(cx).await {
            Ok(None) => return Requeue::Done,
            Ok(Some(Step::Release(names))) => match record::release(cx, names).await {
                Ok(true) => continue,
                Ok(false) => return Requeue::Done,
                Err(error) => failed(DeletionError::Record(error)),
            },
            Ok(Some(Step::Wait(wait))) => (None, wait),
            Err(error) => failed(error),
        };
        tell(cx, error.map(|error| error.to_string())).await;
        return Requeue::After(wait.min(LOOK_AGAIN));
    }
    Requeue::Done
}

fn failed(error: DeletionError) -> (Option<DeletionError>, SignedDuration) {
    let wait = error.again();
    (Some(error), wait)
}

/// The first finalizer that is there decides what is next (CTL-78); `None` when none is left.
async fn step(cx: &AppContext<'_>) -> Result<Option<Step>, DeletionError> {
    let stage = next_stage(&cx.app);
    if stage == Stage::Done {
        return Ok(None);
    }
    // A destination that does not exist can have nothing deleted in it: the objects are left behind. One that may be
    // declared by a Secret that cannot be read is no such destination (INV-8).
    if let Err(error) = cx.world.cluster_of(&cx.app) {
        return match cx.world.clusters.of_project(cx.app.project()).doubt(&error) {
            Some(_unread) => Err(error.into()),
            None => Ok(Some(Step::Release(finalizers::ALL))),
        };
    }
    let resolved = match step::destination_of(cx).await? {
        Ok(resolved) => resolved,
        Err(step) => return Ok(Some(step)),
    };
    let step = match stage {
        Stage::Done => return Ok(None),
        Stage::Cascade { in_background } => cascade::cascade(cx, &resolved, in_background).await,
        Stage::Hooks(_) | Stage::CleanUp(_) if finalizers::skips_hooks(&cx.app) => {
            Ok(Step::Release(stage.finalizers()))
        }
        Stage::Hooks(hook) => hooks::run(cx, &resolved, hook, stage.finalizers()).await,
        Stage::CleanUp(hook) => hooks::clean_up(cx, &resolved, hook, stage.finalizers()).await,
    };
    step.map(Some)
}

/// Shows why a deletion does not go on, or that it does again (CTL-79).
async fn tell(cx: &mut AppContext<'_>, error: Option<String>) {
    let mut new = cx.app.clone();
    show_condition(&mut new, ConditionType::DeletionError, error.clone(), cx.controller.clock.now());
    if new.status.conditions == cx.app.status.conditions {
        return;
    }
    // What could not be written now is told with the next step.
    record::write(cx, new, PatchOptions::default()).await;
    if let Some(error) = error {
        let text = format!("Unable to delete application resources: {error}");
        cx.note(&Note::warning("StatusRefreshed", text));
    }
}
