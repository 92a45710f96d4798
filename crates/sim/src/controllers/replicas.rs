//! `ReplicaSets`: as many pods as are wanted.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{after_real, controlled, create, delete, emit, pod_of, set_count, set_status, wake_at, write};
use crate::state::{State, condition, is_terminating};
use crate::store::Key;
use crate::tree::integer;

/// Pods made or deleted in one look; the rest follows with the next.
const BURST_MAX: i64 = 100;

pub(super) fn reconcile(state: &mut State, key: &Key, mut set: Value, now: Timestamp) {
    let mut pods = active_pods(state, &set);
    let wanted = integer(&set, &["spec", "replicas"]).unwrap_or(1);
    let have = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if have < wanted {
        let template = access::at(&set, &["spec", "template"]).cloned().unwrap_or(Value::Null);
        let prefix = format!("{}-", access::name(&set));
        for _ in 0..(wanted - have).min(BURST_MAX) {
            let pod = pod_of(&template, &set, ("generateName", &prefix), &[]);
            let Some(made) = create(state, "", "v1", "pods", pod, now) else { break };
            let message = format!("Created pod: {}", made.name);
            emit(state, &set, "SuccessfulCreate", &message, "replicaset-controller", now);
        }
    } else if have > wanted {
        // Those that are not ready go first, then the newest.
        pods.sort_by_key(|(_, pod)| {
            (
                is_ready(pod),
                std::cmp::Reverse(access::text_at(pod, &["metadata", "creationTimestamp"]).to_owned()),
            )
        });
        let count = usize::try_from((have - wanted).min(BURST_MAX)).unwrap_or(0);
        for (pod, _) in pods.iter().take(count) {
            delete(state, pod, now);
            let message = format!("Deleted pod: {}", pod.name);
            emit(state, &set, "SuccessfulDelete", &message, "replicaset-controller", now);
        }
    }
    let pods = active_pods(state, &set);
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
    let available = available(state, key, &set, &pods, now);
    let generation = integer(&set, &["metadata", "generation"]);
    set_status(
        &mut set,
        json!({"replicas": pods.len(), "fullyLabeledReplicas": pods.len(), "readyReplicas": ready,
            "availableReplicas": available, "observedGeneration": generation}),
    );
    let ending = controlled(state, &set, "", "pods").iter().filter(|(_, pod)| is_terminating(pod)).count();
    set_count(&mut set, "terminatingReplicas", i64::try_from(ending).unwrap_or(i64::MAX));
    write(state, key, set);
}

/// Pods that have been ready for as long as the set asks for; it is woken when that comes true for more of them.
fn available(state: &mut State, key: &Key, set: &Value, pods: &[(Key, Value)], now: Timestamp) -> usize {
    let least = integer(set, &["spec", "minReadySeconds"]).unwrap_or(0);
    let least = Duration::from_secs(u64::try_from(least).unwrap_or(0));
    let mut count = 0;
    for (_, pod) in pods.iter().filter(|(_, pod)| is_ready(pod)) {
        let since = ready_since(pod).unwrap_or(now);
        let due = after_real(since, least);
        if due <= now {
            count += 1;
        } else {
            wake_at(state, due, key);
        }
    }
    count
}

fn ready_since(pod: &Value) -> Option<Timestamp> {
    let conditions = access::at(pod, &["status", "conditions"])?.as_array()?;
    let ready = conditions.iter().find(|one| access::text(one, "type") == "Ready")?;
    access::text(ready, "lastTransitionTime").parse().ok()
}

/// Pods of an owner that neither end nor have ended.
pub(super) fn active_pods(state: &State, owner: &Value) -> Vec<(Key, Value)> {
    let mut pods = controlled(state, owner, "", "pods");
    pods.retain(|(_, pod)| {
        !is_terminating(pod) && !matches!(access::text_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
    });
    pods
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == Some("True")
}
