//! Whether noted changes of live objects are a reason to compare (CTL-95).

use tiphys_cluster::Seen;
use tiphys_engine::health::{self, HealthCode};
use tiphys_engine::tracking::Ownership;
use tiphys_engine::updates::UpdateRules;
use tiphys_object::{Object, ResourceKey};

use super::load::AppContext;
use super::resolve::resolve;

/// Whether any of the noted changes is a reason to compare.
pub(super) async fn matter(cx: &AppContext<'_>) -> bool {
    let noted = cx.memory.lock().changes.take_noted();
    if noted.is_empty() {
        return false;
    }
    let Some(rules) = cx.world.updates.clone() else { return true };
    let Ok(resolved) = resolve(cx).await else { return true };
    let index = &resolved.destination.index;
    let previous = cx.previous();
    let ownership = cx.ownership(&previous);
    let look = |key: ResourceKey| {
        let print = match index.get(&key) {
            Seen::Present(object) => fingerprint(cx, &ownership, &rules, &object),
            // Not to know is a reason too.
            Seen::Reference { .. } | Seen::Absent | Seen::Unknown(_) => None,
        };
        (key, print)
    };
    let objects = noted.len();
    let looks = || -> Vec<(ResourceKey, Option<u64>)> { noted.into_iter().map(look).collect() };
    // Their health may be a matter of the user's scripts, which run where they can be stopped (ENG-69).
    let prints = cx.programs.compute(objects, looks).await;
    let mut memory = cx.memory.lock();
    let mut matters = false;
    for (key, print) in prints {
        matters |= memory.changes.replace(&key, print);
    }
    matters
}

/// `None` for an object that is no longer the application's, or cannot be read: that is always a reason.
fn fingerprint(
    cx: &AppContext<'_>,
    ownership: &Ownership<'_>,
    rules: &UpdateRules,
    object: &Object,
) -> Option<u64> {
    if !ownership.owns(object) || !object.metadata().owner_references.is_empty() {
        return None;
    }
    let value = object.to_value().ok()?;
    let health = match health::evaluate_with(&value, &cx.world.health, &cx.programs.runner) {
        Ok(health) => health.map(|health| health.status),
        Err(_) => Some(HealthCode::Unknown),
    };
    Some(rules.fingerprint(value, health))
}
