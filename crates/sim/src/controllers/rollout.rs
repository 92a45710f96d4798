//! Deployments: one `ReplicaSet` per template, and the way from the old ones to the new.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{
    controlled, create, delete, emit, hash_of, owner_reference, set_condition, set_status, wake_at, write,
};
use crate::state::{State, condition};
use crate::store::Key;
use crate::tree::integer;

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a `ReplicaSet` does not take over from its Deployment.
const NOT_COPIED: [&str; 6] = [
    tiphys_object::LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
const HASH: &str = "pod-template-hash";
const SOURCE: &str = "deployment-controller";

/// A `ReplicaSet` of a Deployment.
struct Set {
    key: Key,
    object: Value,
}

impl Set {
    fn wanted(&self) -> i64 {
        integer(&self.object, &["spec", "replicas"]).unwrap_or(0)
    }

    fn count(&self, member: &str) -> i64 {
        integer(&self.object, &["status", member]).unwrap_or(0)
    }

    fn revision(&self) -> i64 {
        access::annotation(&self.object, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

pub(super) fn reconcile(state: &mut State, key: &Key, mut deployment: Value, now: Timestamp) {
    let mut sets: Vec<Set> = controlled(state, &deployment, "apps", "replicasets")
        .into_iter()
        .map(|(key, object)| Set { key, object })
        .collect();
    sets.sort_by_key(Set::revision);
    let is_paused = access::at(&deployment, &["spec", "paused"]) == Some(&Value::Bool(true));
    let mut current = position(&deployment, &sets);
    if current.is_none()
        && !is_paused
        && let Some(made) = make_set(state, &deployment, &sets, now)
    {
        sets.push(made);
        current = sets.len().checked_sub(1);
    }
    if let Some(index) = current {
        let new = sets.remove(index);
        sets.push(new);
        revise(state, &mut deployment, &mut sets);
        scale(state, &deployment, &mut sets, now);
        clean_up(state, &deployment, &sets, now);
    }
    report(state, key, &mut deployment, &sets, current.is_some(), now);
    write(state, key, deployment);
}

/// The template, as it identifies a `ReplicaSet`.
fn template_of(object: &Value) -> Value {
    let mut template = access::at(object, &["spec", "template"]).cloned().unwrap_or(Value::Null);
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
    }
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    template
}

fn position(deployment: &Value, sets: &[Set]) -> Option<usize> {
    let wanted = template_of(deployment);
    sets.iter().position(|set| template_of(&set.object) == wanted)
}

fn make_set(state: &mut State, deployment: &Value, sets: &[Set], now: Timestamp) -> Option<Set> {
    let hash = hash_of(&template_of(deployment));
    let mut template = access::at(deployment, &["spec", "template"]).cloned().unwrap_or(Value::Null);
    access::set_label(&mut template, HASH, &hash);
    let mut selector = access::at(deployment, &["spec", "selector"]).cloned().unwrap_or_else(|| json!({}));
    access::member_object_mut(access::ensure_object(&mut selector), "matchLabels")
        .insert(HASH.to_owned(), json!(hash));
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or(Value::Null);
    let name = format!("{}-{hash}", access::name(deployment));
    let desired = integer(deployment, &["spec", "replicas"]).unwrap_or(1);
    let (surge, _) = margins(deployment, desired);
    let revision = sets.iter().map(Set::revision).max().unwrap_or(0) + 1;
    let total: i64 = sets.iter().map(Set::wanted).sum();
    let begin = if is_recreate(deployment) {
        if total > 0 { 0 } else { desired }
    } else {
        desired.min((desired + surge - total).max(0))
    };
    let mut set = json!({
        "metadata": {"name": name, "namespace": access::namespace(deployment), "labels": labels,
            "ownerReferences": [owner_reference(deployment)],
            "annotations": {REVISION: revision.to_string(),
                DESIRED: desired.to_string(), MAX: (desired + surge).to_string()}},
        "spec": {"replicas": begin, "selector": selector, "template": template},
    });
    copy_annotations(deployment, &mut set);
    if let Some(least) = integer(deployment, &["spec", "minReadySeconds"]).filter(|least| *least > 0) {
        let spec = access::member_object_mut(access::ensure_object(&mut set), "spec");
        spec.insert("minReadySeconds".to_owned(), json!(least));
    }
    let key = create(state, "apps", "v1", "replicasets", set, now)?;
    if begin > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {begin}");
        emit(state, deployment, "ScalingReplicaSet", &message, SOURCE, now);
    }
    let object = state.tree(&key)?;
    Some(Set { key, object })
}

/// The current `ReplicaSet` has the highest revision, and the Deployment carries it.
fn revise(state: &mut State, deployment: &mut Value, sets: &mut [Set]) {
    let Some((new, old)) = sets.split_last_mut() else { return };
    let highest = old.iter().map(Set::revision).max().unwrap_or(0);
    let revision = new.revision();
    if revision <= highest {
        let history = match access::annotation(&new.object, REVISION_HISTORY) {
            Some(before) => format!("{before},{revision}"),
            None => revision.to_string(),
        };
        access::set_annotation(&mut new.object, REVISION_HISTORY, &history);
        access::set_annotation(&mut new.object, REVISION, &(highest + 1).to_string());
    }
    copy_annotations(deployment, &mut new.object);
    write(state, &new.key, new.object.clone());
    access::set_annotation(deployment, REVISION, &new.revision().to_string());
}

/// What people note down at a Deployment is found again at its `ReplicaSet`, for example the cause of a change.
fn copy_annotations(deployment: &Value, set: &mut Value) {
    let annotations = access::at(deployment, &["metadata", "annotations"]).and_then(Value::as_object);
    for (key, text) in annotations.into_iter().flatten().filter_map(|(key, text)| Some((key, text.as_str()?)))
    {
        if !NOT_COPIED.contains(&key.as_str()) {
            access::set_annotation(set, key, text);
        }
    }
}

fn is_recreate(deployment: &Value) -> bool {
    access::text_at(deployment, &["spec", "strategy", "type"]) == "Recreate"
}

/// How many more and how many fewer pods there may be: maxSurge rounded up, maxUnavailable rounded down.
fn margins(deployment: &Value, desired: i64) -> (i64, i64) {
    if is_recreate(deployment) {
        return (0, desired);
    }
    let read =
        |member: &str, up: bool| match access::at(deployment, &["spec", "strategy", "rollingUpdate", member])
        {
            Some(Value::Number(count)) => count.as_i64().unwrap_or(0),
            Some(Value::String(text)) => {
                let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(25);
                let product = desired * percent;
                if up { (product + 99).div_euclid(100) } else { product.div_euclid(100) }
            }
            _ => 0,
        };
    let (surge, unavailable) = (read("maxSurge", true), read("maxUnavailable", false));
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(desired)) }
}

fn resize(state: &mut State, deployment: &Value, set: &mut Set, count: i64, now: Timestamp) {
    let before = set.wanted();
    if before == count {
        return;
    }
    if let Some(spec) = set.object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".to_owned(), json!(count));
    }
    let desired = integer(deployment, &["spec", "replicas"]).unwrap_or(1);
    let (surge, _) = margins(deployment, desired);
    access::set_annotation(&mut set.object, DESIRED, &desired.to_string());
    access::set_annotation(&mut set.object, MAX, &(desired + surge).to_string());
    let generation = integer(&set.object, &["metadata", "generation"]).unwrap_or(1);
    access::metadata_mut(&mut set.object).insert("generation".to_owned(), json!(generation + 1));
    write(state, &set.key, set.object.clone());
    let way = if count > before { "up" } else { "down" };
    let message = format!("Scaled {way} replica set {} from {before} to {count}", access::name(&set.object));
    emit(state, deployment, "ScalingReplicaSet", &message, SOURCE, now);
}

/// One step of the way from the old sets to the new one, which is the last.
fn scale(state: &mut State, deployment: &Value, sets: &mut [Set], now: Timestamp) {
    let desired = integer(deployment, &["spec", "replicas"]).unwrap_or(1);
    let (surge, unavailable) = margins(deployment, desired);
    let Some((new, old)) = sets.split_last_mut() else { return };
    if is_recreate(deployment) {
        let mut left = 0;
        for set in old.iter_mut() {
            resize(state, deployment, set, 0, now);
            left += set.count("replicas");
        }
        if left == 0 {
            resize(state, deployment, new, desired, now);
        }
        return;
    }
    if new.wanted() > desired {
        resize(state, deployment, new, desired, now);
    }
    let total: i64 = old.iter().map(Set::wanted).sum::<i64>() + new.wanted();
    let room = (desired + surge - total).max(0);
    let grown = (new.wanted() + room).min(desired);
    resize(state, deployment, new, grown.max(new.wanted().min(desired)), now);
    let least = desired - unavailable;
    let new_missing = (new.wanted() - new.count("availableReplicas")).max(0);
    let total: i64 = old.iter().map(Set::wanted).sum::<i64>() + new.wanted();
    let mut may_go = (total - least - new_missing).max(0);
    // Pods that do not work cost nothing to remove.
    for set in old.iter_mut() {
        let broken = (set.wanted() - set.count("availableReplicas")).max(0).min(may_go);
        may_go -= broken;
        let count = set.wanted() - broken;
        resize(state, deployment, set, count, now);
    }
    let available: i64 = old.iter().map(|set| set.count("availableReplicas").min(set.wanted())).sum::<i64>()
        + new.count("availableReplicas");
    let mut may_go = may_go.min((available - least).max(0));
    for set in old.iter_mut() {
        let count = set.wanted().min(may_go);
        may_go -= count;
        let left = set.wanted() - count;
        resize(state, deployment, set, left, now);
    }
}

/// Old sets beyond the history go.
fn clean_up(state: &mut State, deployment: &Value, sets: &[Set], now: Timestamp) {
    let limit = integer(deployment, &["spec", "revisionHistoryLimit"]).unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    let Some((_, old)) = sets.split_last() else { return };
    let idle: Vec<&Set> = old.iter().filter(|set| set.wanted() == 0 && set.count("replicas") == 0).collect();
    for set in idle.iter().take(idle.len().saturating_sub(limit)) {
        delete(state, &set.key, now);
    }
}

fn report(state: &mut State, key: &Key, deployment: &mut Value, sets: &[Set], has_new: bool, now: Timestamp) {
    let desired = integer(deployment, &["spec", "replicas"]).unwrap_or(1);
    let (_, unavailable) = margins(deployment, desired);
    let sum = |member: &str| sets.iter().map(|set| set.count(member)).sum::<i64>();
    let (all, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let new = if has_new { sets.last() } else { None };
    let updated = new.map_or(0, |set| set.count("replicas"));
    let generation = integer(deployment, &["metadata", "generation"]);
    set_status(
        deployment,
        json!({"observedGeneration": generation, "replicas": all, "updatedReplicas": updated,
            "readyReplicas": ready, "availableReplicas": available,
            "unavailableReplicas": (desired.max(all) - available).max(0)}),
    );
    super::set_count(deployment, "terminatingReplicas", sum("terminatingReplicas"));
    if all == 0 {
        // Go leaves out a zero here, unlike in ReplicaSets.
        set_status(deployment, json!({"replicas": null}));
    }
    if available >= desired - unavailable {
        let message = "Deployment has minimum availability.";
        set_condition(deployment, "Available", true, "MinimumReplicasAvailable", message, now);
    } else {
        let message = "Deployment does not have minimum availability.";
        set_condition(deployment, "Available", false, "MinimumReplicasUnavailable", message, now);
    }
    let Some(new) = new else { return };
    let name = access::name(&new.object).to_owned();
    let is_complete = updated == desired && all == desired && available == desired;
    if is_complete {
        let message = format!("ReplicaSet {name:?} has successfully progressed.");
        set_condition(deployment, "Progressing", true, "NewReplicaSetAvailable", &message, now);
        return;
    }
    progress(state, key, deployment, &name, (updated, available), now);
}

/// Says that the roll-out goes on, or that it has not for too long.
fn progress(
    state: &mut State,
    key: &Key,
    deployment: &mut Value,
    name: &str,
    counts: (i64, i64),
    now: Timestamp,
) {
    let deadline = integer(deployment, &["spec", "progressDeadlineSeconds"]).unwrap_or(600);
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or(600));
    // A roll-out has progressed when its numbers changed.
    let mark = (counts, integer(deployment, &["metadata", "generation"]).unwrap_or(0));
    let known = state.progress.get(key).copied();
    let since = match known {
        Some((old, since)) if old == mark => since,
        _ => {
            state.progress.insert(key.clone(), (mark, now));
            now
        }
    };
    let due = super::after_real(since, deadline);
    if due <= now {
        let message = format!("ReplicaSet {name:?} has timed out progressing.");
        set_condition(deployment, "Progressing", false, "ProgressDeadlineExceeded", &message, now);
        return;
    }
    wake_at(state, due, key);
    if condition(deployment, "Progressing") == Some("False") && known.is_some_and(|(old, _)| old == mark) {
        return;
    }
    let message = format!("ReplicaSet {name:?} is progressing.");
    set_condition(deployment, "Progressing", true, "ReplicaSetUpdated", &message, now);
}
