//! The Applications that a look is about: those of the set, and those that have a generated name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use smol_str::SmolStr;
use tiphys_appset::live::LiveApplication;
use tiphys_cluster::{Target, error_chain};
use tiphys_object::Object;

use super::record::SetContext;
use crate::app_key::AppKey;
use crate::context::Context;

/// Applications that are asked for at the same time.
const AT_ONCE: usize = 8;

/// Applications by name, as they are known now.
///
/// # Errors
/// When it is not known of one what it is.
pub(super) async fn applications(
    cx: &SetContext<'_>,
    names: BTreeSet<String>,
) -> Result<BTreeMap<String, LiveApplication>, String> {
    let store = &cx.sets.shared.store;
    let of_set = store.by_set(&cx.key).into_iter().map(|key| key.name.to_string());
    let wanted: BTreeSet<String> = of_set.chain(names).collect();
    let key = |name: &str| AppKey::new(&cx.key.namespace, name);
    let mut found: Vec<Arc<Object>> =
        wanted.iter().filter_map(|name| store.get(&key(name)).map(|entry| entry.object)).collect();
    found.extend(unseen(cx).await?);
    let mut live = cx.sets.shared.compute.run(move || read(&found)).await??;
    overlay(cx, &mut live);
    Ok(live)
}

/// Applications as decisions read them, by name.
///
/// # Errors
/// When one cannot be read.
pub(super) fn read(found: &[Arc<Object>]) -> Result<BTreeMap<String, LiveApplication>, String> {
    let read = |object: &Arc<Object>| {
        LiveApplication::read(&object.raw())
            .map(|live| (live.name.clone(), live))
            .map_err(|error| format!("Application {} cannot be read: {error}", object.name()))
    };
    found.iter().map(read).collect()
}

/// Applications that were answered to exist and that the watch has not shown yet: they are asked for.
async fn unseen(cx: &SetContext<'_>) -> Result<Vec<Arc<Object>>, String> {
    let shared = &cx.sets.shared;
    let Some(entry) = cx.sets.store.get(&cx.key) else { return Ok(Vec::new()) };
    let key = |name: &str| AppKey::new(&cx.key.namespace, name);
    let unseen: Vec<SmolStr> = {
        let mut memory = entry.memory.lock();
        memory.unseen.retain(|name| shared.store.get(&key(name)).is_none());
        memory.unseen.iter().cloned().collect()
    };
    let asked = futures::stream::iter(unseen)
        .map(|name| async move {
            let target = Target::new(Context::application_gvk(), &cx.key.namespace, &name);
            (name, shared.home.get(&target).await)
        })
        .buffer_unordered(AT_ONCE);
    let answers: Vec<_> = asked.collect().await;
    let mut found = Vec::new();
    for (name, answer) in answers {
        match answer.map_err(|error| error_chain(&error))? {
            // The watch may have shown it meanwhile; then both are the same one.
            Some(object) => found.push(object),
            None => drop(entry.memory.lock().unseen.remove(&name)),
        }
    }
    Ok(found)
}

/// A late watch shows Applications whose deletion was accepted as they were before.
fn overlay(cx: &SetContext<'_>, live: &mut BTreeMap<String, LiveApplication>) {
    let Some(entry) = cx.sets.store.get(&cx.key) else { return };
    let mut memory = entry.memory.lock();
    memory.doomed.retain(|uid, at| {
        let Some(known) = live.values_mut().find(|live| *uid == live.uid) else { return false };
        if known.is_terminating() {
            return false;
        }
        known.deletion_timestamp = Some(*at);
        true
    });
}
