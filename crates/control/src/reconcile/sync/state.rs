//! The state of an operation as the round knows it and as it is stored: everything a restart needs is written before
//! anything follows from it (INV-9).

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::SignedDuration;
use tiphys_api::application::{Application, OperationState, ResourceResult, SyncResult};
use tiphys_api::codes::OperationPhase;
use tiphys_lifecycle::status_patch::PatchOptions;

use crate::memory::LedgerCopy;
use crate::reconcile::load::AppContext;
use crate::reconcile::record::{self, CONFLICT_AGAIN, Written};
use crate::scheduler::Requeue;

/// Longest time until a running operation is looked at again (CTL-45).
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Time until a state that could not be written is written again.
const WRITE_AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// What to do after a step.
pub(super) enum Next {
    /// Another step at once.
    Again,
    /// The operation is over, or cannot go on now; when to look again.
    Stop(Requeue),
}

impl Next {
    /// Waits for events, or until this long has passed.
    pub(super) fn wait(wait: SignedDuration) -> Self {
        Self::Stop(Requeue::After(wait.min(LOOK_AGAIN)))
    }
}

/// Writes a new state and goes on with what was stored.
pub(super) fn save<'a>(
    cx: &'a mut AppContext<'_>,
    mut new: Application,
    options: PatchOptions,
) -> BoxFuture<'a, Result<(), Next>> {
    // Boxed here, once: it holds two applications, and nearly every step waits for it.
    Box::pin(async move {
        // Somebody may ask for the end of the operation while a pass runs: the request must survive our write.
        // What is known is mostly what this round has read or written itself.
        let entry = cx.controller.store.get(&cx.key);
        let newer = entry.filter(|entry| !Arc::ptr_eq(&entry.object, &cx.object));
        let latest: Option<Application> = newer.and_then(|entry| entry.parse().ok());
        if latest.is_some_and(|latest| is_terminating(&latest))
            && let Some(state) = new.status.operation_state.as_mut()
            && state.phase == OperationPhase::Running
        {
            state.phase = OperationPhase::Terminating.into();
            "operation is terminating".clone_into(&mut state.message);
        }
        let written = record::write(cx, new, options).await;
        let saved = stored(cx, written).await;
        if saved.is_err() {
            // It may have been written all the same: what is stored is asked for before anything follows (INV-9).
            cx.memory.lock().confirmed = None;
        }
        saved
    })
}

/// An operation that another process began, or that a list shows, goes on only if it is what is stored: the
/// application may have been deleted since.
pub(super) async fn confirm(cx: &mut AppContext<'_>) -> Result<(), Next> {
    let started = cx.app.status.operation_state.as_ref().map(|state| state.started_at.clone());
    if cx.memory.lock().confirmed == started {
        return Ok(());
    }
    let written = record::confirm(cx).await;
    stored(cx, written).await?;
    cx.memory.lock().confirmed = started;
    Ok(())
}

/// What follows when a state could not be written or confirmed.
async fn stored(cx: &mut AppContext<'_>, written: Written) -> Result<(), Next> {
    match written {
        Written::Stored => Ok(()),
        Written::Gone => Err(Next::Stop(Requeue::Done)),
        // Nothing here is patient.
        Written::Waits | Written::Conflict => {
            record::read_again(cx).await;
            Err(Next::wait(CONFLICT_AGAIN))
        }
        Written::Failed(error) => {
            tracing::warn!(application = %cx.key, error, "the operation's state could not be written");
            Err(Next::wait(WRITE_AGAIN))
        }
    }
}

/// Shows why the operation waits.
pub(super) async fn save_message(cx: &mut AppContext<'_>, message: String) -> Next {
    let mut new = cx.app.clone();
    if let Some(state) = new.status.operation_state.as_mut() {
        state.message = message;
    }
    match save(cx, new, PatchOptions::default()).await {
        Ok(()) => Next::wait(LOOK_AGAIN),
        Err(next) => next,
    }
}

/// Writes the results of a pass that is still under way.
pub(super) async fn save_results(cx: &mut AppContext<'_>, results: &[ResourceResult]) -> Result<(), Next> {
    let mut new = cx.app.clone();
    let Some(state) = new.status.operation_state.as_mut() else { return Ok(()) };
    keep_ledger(cx, state, results);
    if let Some(result) = state.sync_result.as_mut() {
        result.resources = results.to_vec();
    }
    save(cx, new, PatchOptions::default()).await
}

/// Puts the results back that the status had no room for.
pub(super) fn restore_ledger(cx: &AppContext<'_>, state: &OperationState, result: &mut SyncResult) {
    let memory = cx.memory.lock();
    if let Some(ledger) = &memory.ledger
        && ledger.started_at == state.started_at
        && ledger.retry_count == state.retry_count
        && ledger.results.len() > result.resources.len()
    {
        result.resources.clone_from(&ledger.results);
    }
}

/// Remembers all results: the status may have room for a part only.
pub(super) fn keep_ledger(cx: &AppContext<'_>, state: &OperationState, results: &[ResourceResult]) {
    cx.memory.lock().ledger = Some(LedgerCopy {
        started_at: state.started_at.clone(),
        retry_count: state.retry_count,
        results: results.to_vec(),
    });
}

fn is_terminating(app: &Application) -> bool {
    app.status.operation_state.as_ref().is_some_and(|state| state.phase == OperationPhase::Terminating)
}
