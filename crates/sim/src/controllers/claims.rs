//! Claims: bound when they name a class or a pod uses them, and held as long as a pod does.

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{garbage, is_kind, set_status, write};
use crate::state::{State, is_terminating};
use crate::store::Key;

/// The finalizer that holds a claim while a pod uses it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer that holds a volume; nothing here needs it.
pub(super) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

pub(super) fn reconcile(state: &mut State, key: &Key, claim: Value, now: Timestamp) {
    if !is_terminating(&claim) {
        bind(state, key, claim);
    } else if !is_used(state, key) {
        garbage::release(state, key, CLAIM_PROTECTION, now);
    }
}

/// There is room for everything; only a claim that names no class waits for the first pod.
fn bind(state: &mut State, key: &Key, mut claim: Value) {
    if access::text_at(&claim, &["status", "phase"]) == "Bound" {
        return;
    }
    let has_class = !access::text_at(&claim, &["spec", "storageClassName"]).is_empty();
    let has_volume = !access::text_at(&claim, &["spec", "volumeName"]).is_empty();
    if !has_class && !has_volume && !is_used(state, key) {
        return;
    }
    let volume = format!("pvc-{}", access::uid(&claim));
    let capacity = claim.pointer("/spec/resources/requests").cloned().unwrap_or_else(|| json!({}));
    let modes = claim.pointer("/spec/accessModes").cloned().unwrap_or_else(|| json!([]));
    if !has_volume {
        access::member_object_mut(access::ensure_object(&mut claim), "spec")
            .insert("volumeName".to_owned(), json!(volume));
    }
    set_status(&mut claim, json!({"phase": "Bound", "capacity": capacity, "accessModes": modes}));
    write(state, key, claim);
}

/// Whether a pod that has not ended mounts a claim.
fn is_used(state: &State, claim: &Key) -> bool {
    let pods = state.store.index.in_namespace(&claim.namespace).filter(|key| is_kind(&key.kind, "", "pods"));
    pods.filter_map(|key| state.tree(key)).any(|pod| {
        let is_over = matches!(access::text_at(&pod, &["status", "phase"]), "Succeeded" | "Failed");
        let volumes = access::at(&pod, &["spec", "volumes"]).and_then(Value::as_array);
        !is_over
            && volumes.into_iter().flatten().any(|volume| {
                access::text_at(volume, &["persistentVolumeClaim", "claimName"]) == claim.name.as_str()
            })
    })
}
