//! One round over one application (CTL-32, CTL-44). Whoever holds the application's key runs it; nothing else writes
//! the application.
//!
//! The way is one way, and each module of it uses only those to its left:
//!
//! ```text
//! load ─▶ record ─▶ resolve ─▶ desired ─▶ compare ─▶ actions, settle, orphans ─▶ refresh, sync, deletion ─▶ reconcile
//! ```
//!
//! `load` makes the [`AppContext`]; `record` is the only writer of an Application; `resolve` finds project and
//! destination; `desired` and `compare` find out what is and what should be; `actions` carries out one write at a
//! destination; `orphans` counts objects without an application; `visible` alone decides which objects callers may see;
//! `refresh`, `sync` and `deletion` are what a round does. What a round wants next it returns: only the scheduler enqueues.

mod actions;
mod bound;
mod compare;
mod deletion;
mod desired;
mod live_changes;
mod load;
mod orphans;
pub(crate) mod predicted;
mod record;
mod refresh;
mod resolve;
pub(crate) mod resource;
mod settle;
pub(crate) mod shown;
mod sync;
#[cfg(test)]
mod tests;
pub(crate) mod user_actions;
mod visible;

use std::sync::Arc;

use tiphys_api::AppProject;
use tiphys_lifecycle::refresh::{self as timing, Level};
use tiphys_lifecycle::status_patch;
use tiphys_policy::project::{namespace_enabled, namespace_permitted};

use crate::app_key::AppKey;
use crate::context::Context;
use crate::gate::Shared;
use crate::hydration;
use crate::queue::Priority;
use crate::scheduler::Requeue;
use crate::store::AppEntry;
use load::AppContext;
pub(crate) use record::{read_stored, send_followed};

use crate::world::World;

/// Shortest time until a periodic refresh that did not succeed is tried again.
const DUE_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// Works on one application until there is nothing to do now, and says when to look again.
///
/// Where too many are busy with the cluster already, nothing happens now: the gate brings the application back.
pub(crate) async fn reconcile(controller: &Context, key: &AppKey, priority: Priority) -> Requeue {
    if let Some(held) = controller.store.held(key) {
        return record::tell_unreadable(controller, key, &held).await;
    }
    let Some(entry) = controller.store.get(key) else { return Requeue::Done };
    let Some(_places) =
        controller.gates.enter(key, priority, shared_by(&entry, key, &controller.world.load()))
    else {
        return Requeue::Done;
    };
    let mut cx = match load::load(controller, key, priority) {
        Ok(Some(cx)) => cx,
        Ok(None) => return Requeue::Done,
        Err(requeue) => return requeue,
    };
    let wanted = round(&mut cx).await;
    // Our own write showed somebody else's change, which the watch will not show as new.
    let changed = if cx.is_behind { Requeue::Now(Priority::Urgent) } else { Requeue::Done };
    wanted.soonest(changed, controller.clock.now())
}

async fn round(cx: &mut AppContext<'_>) -> Requeue {
    let controller = cx.controller;
    let settings = &cx.world.settings;
    let is_enabled = namespace_enabled(settings, &cx.key.namespace, &controller.namespace);
    if !is_enabled || timing::is_skipped(&cx.app) || is_cluster_skipped(cx) {
        return Requeue::Done;
    }
    if cx.app.metadata.deletion_timestamp.is_some() && cx.app.operation.is_none() {
        return Box::pin(deletion::delete(cx)).await;
    }
    let now = controller.clock.now();
    let intervals = Context::intervals(&cx.world, &cx.key);
    if live_changes::matter(cx).await {
        cx.memory.lock().request(Level::Recent);
    }
    let (requested, seen) = {
        let mut memory = cx.memory.lock();
        if memory.reconciled.is_none() && cx.app.operation.is_none() && status_patch::is_awaited(&cx.app) {
            // The process before this one ended between an operation and the comparison that others wait for: clients
            // (CLI-516), and a roll-out before its next step (ASET-205).
            memory.request(Level::Latest);
        }
        (memory.requested.take(), memory.reconciled)
    };
    let requested = timing::raised(requested, seen, controller.store.moved(&cx.app));
    if hydration::concerns(controller, &cx.app) {
        controller.hydrations.ask(&cx.key);
    }
    let mut requeue = Requeue::Done;
    let mut compared = None;
    let asked = cx.app.operation.clone();
    if let Some(refresh) = timing::decide(&cx.app, requested, intervals, seen, now) {
        let Ok(refreshed) = Box::pin(refresh::refresh(cx, refresh)).await else {
            // The other writer's version is read now, so that the next round does not meet it again (F11).
            record::read_again(cx).await;
            cx.memory.lock().request(refresh.level);
            return Requeue::After(record::CONFLICT_AGAIN);
        };
        requeue = refreshed.requeue;
        // An operation that came during the comparison means what the branch is after that.
        let is_newest = refresh.level == Level::ForceLatest && cx.app.operation == asked;
        compared = refreshed.compared.map(|compared| sync::Made { compared, is_newest });
    }
    if cx.app.operation.is_some() && !controller.read_only {
        let next = Box::pin(sync::carry_on(cx, compared)).await;
        requeue = requeue.soonest(next, controller.clock.now());
    }
    if let Some(due) = timing::next_due(&cx.app, intervals, cx.memory.lock().reconciled, now) {
        // A refresh that was due and could not be made stays due; it must not spin.
        let now_again = controller.clock.now();
        let earliest = now_again.checked_add(DUE_AGAIN).unwrap_or(due);
        let due = if due <= now { earliest } else { due };
        requeue = requeue.soonest(Requeue::At(due), now_again);
    }
    requeue
}

/// Whether the Secret of the destination says that nobody works on the cluster (REP-103, CTL-89).
fn is_cluster_skipped(cx: &AppContext<'_>) -> bool {
    cx.world.cluster_of(&cx.app).is_ok_and(|cluster| cluster.skip_reconcile)
}

/// What an application may make a worker wait for: everything of its project, and its cluster.
fn shared_by(entry: &AppEntry, key: &AppKey, world: &World) -> impl Iterator<Item = Shared> + use<> {
    let name = entry.declared.project.as_str();
    // Naming a project takes no places from it.
    let permits = |project: &Arc<AppProject>| {
        namespace_permitted(project, &key.name, &key.namespace, &world.namespace).permitted
    };
    let owner =
        if world.project(name).is_ok_and(permits) { name.to_owned() } else { format!("{}/", key.namespace) };
    let cluster = world.declared_cluster(&entry.declared).ok().map(|cluster| Shared::Cluster(cluster.key()));
    [Shared::Project(owner)].into_iter().chain(cluster)
}
