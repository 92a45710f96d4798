//! Carries out what was planned about Applications (ASET-141, ASET-142).

use std::collections::BTreeSet;

use futures::StreamExt as _;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_api::names::finalizer;
use tiphys_appset::reconcile::{Action, Outcomes, Plan, Removal, Write};
use tiphys_cluster::{ApiError, DeleteOptions, Deleted, Propagation, Target, error_chain};
use tiphys_policy::permit::{Own, Permit};

use super::record::SetContext;
use crate::app_key::AppKey;
use crate::applications;
use crate::context::Context;

/// Applications that are deleted at the same time, whatever the settings say about changes (ASET-142).
const REMOVALS_AT_ONCE: usize = 8;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) outcomes: Outcomes,
    /// Applications that somebody else changed meanwhile: what was planned is not what should be done now.
    pub(super) stale: BTreeSet<String>,
    /// The process stops: the next one goes on.
    pub(super) is_cut: bool,
}

/// How one write ended.
enum Ended {
    Done,
    /// It is another one by now, or not there any more.
    Stale,
    Failed(String),
}

pub(super) fn target(cx: &SetContext<'_>, name: &str) -> Target {
    Target::new(Context::application_gvk(), &cx.key.namespace, name)
}

pub(super) fn permit(cx: &SetContext<'_>, name: &str) -> Permit {
    Permit::own(Own::Application, &cx.key.namespace, name)
}

/// Writes and, where all writes succeeded, deletes.
pub(super) async fn carry_out(cx: &SetContext<'_>, plan: &Plan, at_once: usize) -> Done {
    let mut done = Done::default();
    {
        let mut writes = futures::stream::iter(0..plan.writes.len())
            .take_while(|_| std::future::ready(!cx.sets.cancel.is_cancelled()))
            .map(|at| async move {
                match plan.writes.get(at) {
                    Some(planned) => (at, write(cx, planned).await),
                    None => (at, Ended::Done),
                }
            })
            .buffer_unordered(at_once.max(1));
        while let Some((at, ended)) = writes.next().await {
            let Some(planned) = plan.writes.get(at) else { continue };
            match ended {
                Ended::Done => {}
                Ended::Stale => drop(done.stale.insert(planned.name.clone())),
                Ended::Failed(why) => drop(done.outcomes.failed.insert(planned.name.clone(), why)),
            }
        }
    }
    done.is_cut = cx.sets.cancel.is_cancelled();
    if !done.stale.is_empty() || done.is_cut || !plan.may_remove(&done.outcomes) {
        return done;
    }
    let mut removals = futures::stream::iter(plan.removals.clone())
        .map(|planned| async move {
            let ended = remove(cx, &planned).await;
            (planned, ended)
        })
        .buffer_unordered(REMOVALS_AT_ONCE);
    while let Some((planned, ended)) = removals.next().await {
        let name = planned.name;
        match ended {
            Ok(()) => {
                if planned.finalizers.is_some() {
                    done.outcomes.stripped.insert(name.clone());
                }
                done.outcomes.removed.insert(name);
            }
            Err(why) => drop(done.outcomes.not_removed.insert(name, why)),
        }
    }
    done
}

async fn write(cx: &SetContext<'_>, planned: &Write) -> Ended {
    match &planned.action {
        Action::Create(manifest) => create(cx, &planned.name, manifest).await,
        Action::Update { patch, resource_version } => {
            update(cx, &planned.name, patch, resource_version.as_deref()).await
        }
        Action::Refuse(_) => Ended::Done,
    }
}

async fn create(cx: &SetContext<'_>, name: &str, manifest: &Value) -> Ended {
    match cx.sets.shared.home.create(&permit(cx, name), manifest).await {
        Ok(_) => {
            expect(cx, name);
            Ended::Done
        }
        // It is there, and the watch has not shown it.
        Err(error) if error.is_already_exists() => {
            if let Some(held) = cx.sets.shared.store.held(&AppKey::new(&cx.key.namespace, name)) {
                return Ended::Failed(format!("Application {name} cannot be read: {}", held.reason));
            }
            expect(cx, name);
            Ended::Stale
        }
        // The answer is an Application that cannot be read; it was made.
        Err(ApiError::Malformed { .. }) => Ended::Done,
        Err(error) => Ended::Failed(error_chain(&error)),
    }
}

/// From now on it is asked for until the watch shows it.
fn expect(cx: &SetContext<'_>, name: &str) {
    if let Some(entry) = cx.sets.store.get(&cx.key) {
        entry.memory.lock().unseen.insert(SmolStr::new(name));
    }
}

async fn update(cx: &SetContext<'_>, name: &str, patch: &Value, version: Option<&str>) -> Ended {
    let mut patch = patch.clone();
    if let Some(version) = version {
        tiphys_object::access::metadata_mut(&mut patch).insert("resourceVersion".to_owned(), version.into());
    }
    match cx.sets.shared.home.merge_patch(&permit(cx, name), &target(cx, name), None, &patch).await {
        Ok(object) => {
            applications::application_written(&cx.sets.shared, object);
            Ended::Done
        }
        Err(error) if error.is_conflict() => {
            read_again(cx, name).await;
            Ended::Stale
        }
        Err(error) if error.is_not_found() => {
            read_again(cx, name).await;
            Ended::Stale
        }
        Err(ApiError::Malformed { .. }) => Ended::Done,
        Err(error) => Ended::Failed(error_chain(&error)),
    }
}

/// What the store knows is behind: the next look shall not meet the same again.
async fn read_again(cx: &SetContext<'_>, name: &str) {
    match cx.sets.shared.home.get(&target(cx, name)).await {
        Ok(Some(object)) => applications::application_written(&cx.sets.shared, object),
        Ok(None) => {
            cx.sets.shared.store.remove(&AppKey::new(&cx.key.namespace, name));
        }
        Err(error) => tracing::debug!(set = %cx.key, name, %error, "an Application cannot be read now"),
    }
}

async fn remove(cx: &SetContext<'_>, planned: &Removal) -> Result<(), String> {
    let name = planned.name.as_str();
    let home = &cx.sets.shared.home;
    if planned.finalizers.is_some() {
        let removed = home.remove_finalizer(&permit(cx, name), &target(cx, name), finalizer::CASCADE).await;
        removed.map_err(|error| error_chain(&error))?;
    }
    delete(cx, name, &planned.uid).await.map(drop).map_err(|error| error_chain(&error))
}

/// Deletes one Application, and no namesake that was made meanwhile.
pub(super) async fn delete(cx: &SetContext<'_>, name: &str, uid: &str) -> Result<Deleted, ApiError> {
    let options = DeleteOptions {
        propagation: Propagation::Background,
        uid: (!uid.is_empty()).then(|| uid.into()),
        ..DeleteOptions::default()
    };
    let deleted = cx.sets.shared.home.delete(&permit(cx, name), &target(cx, name), &options).await?;
    if deleted == Deleted::Accepted
        && !uid.is_empty()
        && let Some(entry) = cx.sets.store.get(&cx.key)
    {
        entry.memory.lock().doomed.insert(uid.into(), cx.sets.shared.clock.now());
    }
    Ok(deleted)
}

/// Takes the references to the set from its Applications, so that they stay when it goes (ASET-241). References to others
/// stay.
pub(super) async fn set_free(
    cx: &SetContext<'_>,
    name: &str,
    uid: &str,
    left: &[Value],
) -> Result<(), ApiError> {
    let patch = json!({"metadata": {"uid": uid, "ownerReferences": left}});
    match cx.sets.shared.home.merge_patch(&permit(cx, name), &target(cx, name), None, &patch).await {
        Ok(object) => applications::application_written(&cx.sets.shared, object),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
