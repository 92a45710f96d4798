//! Garbage collection: what goes with its owner, after it, or before it.

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_object::access;

use crate::delete::{FOREGROUND, ORPHAN, Options};
use crate::state::{State, finalizers, is_terminating, set_finalizers};
use crate::store::Key;
use crate::tree::integer;

/// Deletes an object without owners, and works on the finalizers of one that is being deleted. Whether the
/// object needs no further look.
pub(super) fn collect(state: &mut State, key: &Key, object: &Value, now: Timestamp) -> bool {
    if is_terminating(object) {
        let held = finalizers(object);
        if held.iter().any(|one| one == ORPHAN) {
            orphan(state, object);
            release(state, key, ORPHAN, now);
            return true;
        }
        if held.iter().any(|one| one == FOREGROUND) {
            return foreground(state, key, object, now);
        }
        return false;
    }
    let Some(owners) = access::at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array) else {
        return false;
    };
    if owners.is_empty() {
        return false;
    }
    let (mut present, mut waiting) = (0, 0);
    for owner in owners {
        if let Some(owner) = owner_of(state, key, owner) {
            let goes_first = is_terminating(&owner) && finalizers(&owner).iter().any(|one| one == FOREGROUND);
            if goes_first { waiting += 1 } else { present += 1 }
        }
    }
    if present > 0 {
        let gone = owners.len() - present - waiting;
        if gone > 0 || waiting > 0 {
            drop_owners(state, key, object);
        }
        return false;
    }
    let has_dependents = state.store.index.dependents(access::uid(object)).next().is_some();
    let options =
        if waiting > 0 && has_dependents { Options::in_foreground() } else { Options::in_background() };
    super::delete_with(state, key, &options, now);
    true
}

/// The owner that a reference names, where it is in reach: the same uid, in the same namespace or in none.
fn owner_of(state: &State, key: &Key, owner: &Value) -> Option<Value> {
    let found = state.store.index.by_uid(access::text(owner, "uid"))?;
    let in_reach = found.namespace.is_empty() || found.namespace == key.namespace;
    if !in_reach || found.name != access::text(owner, "name") {
        return None;
    }
    state.tree(found)
}

/// Takes away references to owners that are gone or wait for this object.
fn drop_owners(state: &mut State, key: &Key, object: &Value) {
    let mut object = object.clone();
    let kept: Vec<Value> = access::at(&object, &["metadata", "ownerReferences"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|owner| {
            owner_of(state, key, owner).is_some_and(|owner| {
                !(is_terminating(&owner) && finalizers(&owner).iter().any(|one| one == FOREGROUND))
            })
        })
        .cloned()
        .collect();
    access::metadata_mut(&mut object).insert("ownerReferences".to_owned(), json!(kept));
    state.commit(key, object);
}

/// Dependents lose this owner.
fn orphan(state: &mut State, owner: &Value) {
    let uid = access::uid(owner).to_owned();
    let dependents: Vec<Key> = state.store.index.dependents(&uid).cloned().collect();
    for dependent in dependents {
        let Some(mut object) = state.tree(&dependent) else { continue };
        let metadata = access::metadata_mut(&mut object);
        if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            owners.retain(|owner| access::text(owner, "uid") != uid);
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
        state.commit(&dependent, object);
    }
}

/// Deletes the dependents first; releases the owner when those that block it are gone.
fn foreground(state: &mut State, key: &Key, object: &Value, now: Timestamp) -> bool {
    let uid = access::uid(object).to_owned();
    let dependents: Vec<Key> = state.store.index.dependents(&uid).cloned().collect();
    let mut blocks = false;
    for dependent in dependents {
        let Some(tree) = state.tree(&dependent) else { continue };
        let owners = access::at(&tree, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        blocks |= owners.into_iter().flatten().any(|owner| {
            access::text(owner, "uid") == uid && owner.get("blockOwnerDeletion") == Some(&Value::Bool(true))
        });
        if !is_terminating(&tree) {
            state.dirty.insert(dependent);
        }
    }
    if blocks {
        return true;
    }
    release(state, key, FOREGROUND, now);
    true
}

/// Takes a finalizer off; the object goes when it was the last one.
pub(super) fn release(state: &mut State, key: &Key, finalizer: &str, now: Timestamp) {
    let Some(mut object) = state.tree(key) else { return };
    let held = finalizers(&object);
    let kept: Vec<SmolStr> = held.iter().filter(|one| *one != finalizer).cloned().collect();
    if !kept.is_empty() && kept.len() == held.len() {
        // Others hold it: there is nothing to do until they let go.
        return;
    }
    set_finalizers(&mut object, &kept);
    let is_pod = super::is_kind(&key.kind, "", "pods");
    let is_namespace = super::is_kind(&key.kind, "", "namespaces");
    let grace = integer(&object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    if kept.is_empty() && !(is_pod && grace > 0) && !is_namespace {
        state.erase(key);
    } else {
        super::write(state, key, object);
        state.timers.insert((now, key.clone()));
    }
}
