//! `StatefulSets` and `DaemonSets`.

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::replicas::is_ready;
use super::{NODE, controlled, create, delete, hash_of, owner_reference, pod_of, set_status, write};
use crate::state::{State, is_terminating};
use crate::store::Key;
use crate::tree::integer;

const REVISION: &str = "controller-revision-hash";

/// The ordinal at the end of a pod's name.
fn ordinal(name: &str) -> i64 {
    name.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(-1)
}

fn revision_of(owner: &Value) -> String {
    let template = access::at(owner, &["spec", "template"]).cloned().unwrap_or(Value::Null);
    format!("{}-{}", access::name(owner), hash_of(&template))
}

/// A `ControllerRevision` for each template there has been.
fn keep_revision(state: &mut State, owner: &Value, name: &str, now: Timestamp) {
    let known = controlled(state, owner, "apps", "controllerrevisions");
    if known.iter().any(|(key, _)| key.name == name) {
        return;
    }
    let number = known.iter().filter_map(|(_, one)| integer(one, &["revision"])).max().unwrap_or(0) + 1;
    let labels = owner.pointer("/spec/template/metadata/labels").cloned().unwrap_or(Value::Null);
    let data = json!({"spec": {"template": owner.pointer("/spec/template").cloned().unwrap_or(Value::Null)}});
    let revision = json!({"metadata": {"name": name, "namespace": access::namespace(owner), "labels": labels,
        "ownerReferences": [owner_reference(owner)]}, "revision": number, "data": data});
    create(state, "apps", "v1", "controllerrevisions", revision, now);
}

pub(super) fn stateful(state: &mut State, key: &Key, mut set: Value, now: Timestamp) {
    let wanted = integer(&set, &["spec", "replicas"]).unwrap_or(1);
    let first = integer(&set, &["spec", "ordinals", "start"]).unwrap_or(0);
    let is_parallel = access::text_at(&set, &["spec", "podManagementPolicy"]) == "Parallel";
    let update = revision_of(&set);
    keep_revision(state, &set, &update, now);
    let mut pods = controlled(state, &set, "", "pods");
    pods.sort_by_key(|(key, _)| ordinal(&key.name));
    let mut goes_on = true;
    for number in first..first + wanted {
        if !goes_on {
            break;
        }
        let name = format!("{}-{number}", access::name(&set));
        if let Some((_, pod)) = pods.iter().find(|(key, _)| key.name == name) {
            goes_on = is_parallel || (is_ready(pod) && !is_terminating(pod));
        } else {
            make_stateful(state, &set, number, &update, now);
            goes_on = is_parallel;
        }
    }
    // Too many: the last one first, one after the other.
    for (pod, object) in pods.iter().rev() {
        if ordinal(&pod.name) < first + wanted {
            break;
        }
        if !is_terminating(object) {
            delete(state, pod, now);
        }
        if !is_parallel {
            break;
        }
    }
    replace_outdated(state, &set, &pods, &update, now);
    stateful_status(state, &mut set, &update);
    write(state, key, set);
}

fn make_stateful(state: &mut State, set: &Value, number: i64, revision: &str, now: Timestamp) {
    let name = format!("{}-{number}", access::name(set));
    let mut template = access::at(set, &["spec", "template"]).cloned().unwrap_or(Value::Null);
    let claims = access::at(set, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array).cloned();
    for claim in claims.unwrap_or_default() {
        let volume = access::name(&claim).to_owned();
        let claim_name = format!("{volume}-{name}");
        let mut made = claim.clone();
        if let Some(members) = made.as_object_mut() {
            members.remove("status");
        }
        let metadata = access::metadata_mut(&mut made);
        metadata.insert("name".to_owned(), json!(claim_name));
        metadata.insert("namespace".to_owned(), json!(access::namespace(set)));
        create(state, "", "v1", "persistentvolumeclaims", made, now);
        let spec = access::member_object_mut(access::ensure_object(&mut template), "spec");
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|one| access::text(one, "name") != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        }
    }
    let index = number.to_string();
    let labels = [
        ("statefulset.kubernetes.io/pod-name", name.as_str()),
        ("apps.kubernetes.io/pod-index", index.as_str()),
        (REVISION, revision),
    ];
    let mut pod = pod_of(&template, set, ("name", &name), &labels);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("hostname".to_owned(), json!(name));
        let service = access::text_at(set, &["spec", "serviceName"]);
        if !service.is_empty() {
            spec.insert("subdomain".to_owned(), json!(service));
        }
    }
    create(state, "", "v1", "pods", pod, now);
}

/// Pods of an earlier template go, the last one first, when all others are well.
fn replace_outdated(state: &mut State, set: &Value, pods: &[(Key, Value)], update: &str, now: Timestamp) {
    if access::text_at(set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return;
    }
    let partition = integer(set, &["spec", "updateStrategy", "rollingUpdate", "partition"]).unwrap_or(0);
    for (key, pod) in pods.iter().rev() {
        if ordinal(&key.name) < partition {
            return;
        }
        if access::label(pod, REVISION) != Some(update) {
            if !is_terminating(pod) {
                delete(state, key, now);
            }
            return;
        }
        if !is_ready(pod) || is_terminating(pod) {
            return;
        }
    }
}

fn stateful_status(state: &State, set: &mut Value, update: &str) {
    let wanted = integer(set, &["spec", "replicas"]).unwrap_or(1);
    let pods = controlled(state, set, "", "pods");
    let count = |test: &dyn Fn(&Value) -> bool| pods.iter().filter(|(_, pod)| test(pod)).count();
    let is_updated = |pod: &Value| access::label(pod, REVISION) == Some(update);
    let (ready, updated) = (count(&is_ready), count(&is_updated));
    let total = pods.len();
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let is_done = updated == total && total == wanted && ready == wanted;
    let before = access::text_at(set, &["status", "currentRevision"]).to_owned();
    let current = if is_done || before.is_empty() { update.to_owned() } else { before };
    let on_current = count(&|pod| access::label(pod, REVISION) == Some(current.as_str()));
    let generation = integer(set, &["metadata", "generation"]);
    set_status(
        set,
        json!({"observedGeneration": generation, "replicas": total, "readyReplicas": ready,
            "availableReplicas": ready, "currentReplicas": on_current, "updatedReplicas": updated,
            "currentRevision": current, "updateRevision": update, "collisionCount": null}),
    );
    let status = access::member_object_mut(access::ensure_object(set), "status");
    status.insert("availableReplicas".to_owned(), json!(ready));
    status.insert("collisionCount".to_owned(), json!(0));
}

pub(super) fn daemon(state: &mut State, key: &Key, mut set: Value, now: Timestamp) {
    let update = revision_of(&set);
    keep_revision(state, &set, &update, now);
    let pods = controlled(state, &set, "", "pods");
    let alive: Vec<&(Key, Value)> = pods.iter().filter(|(_, pod)| !is_terminating(pod)).collect();
    let short = update.rsplit('-').next().unwrap_or("").to_owned();
    if pods.is_empty() {
        let template = access::at(&set, &["spec", "template"]).cloned().unwrap_or(Value::Null);
        let prefix = format!("{}-", access::name(&set));
        let generation = integer(&set, &["metadata", "generation"]).unwrap_or(1).to_string();
        let labels = [(REVISION, short.as_str()), ("pod-template-generation", generation.as_str())];
        let mut pod = pod_of(&template, &set, ("generateName", &prefix), &labels);
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("nodeName".to_owned(), json!(NODE));
        }
        create(state, "", "v1", "pods", pod, now);
    } else if access::text_at(&set, &["spec", "updateStrategy", "type"]) != "OnDelete" {
        for (pod, object) in alive {
            if access::label(object, REVISION) != Some(short.as_str()) {
                delete(state, pod, now);
            }
        }
    }
    let pods = controlled(state, &set, "", "pods");
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod) && !is_terminating(pod)).count();
    let updated = pods.iter().filter(|(_, pod)| access::label(pod, REVISION) == Some(short.as_str())).count();
    let generation = integer(&set, &["metadata", "generation"]);
    set_status(
        &mut set,
        json!({"observedGeneration": generation, "updatedNumberScheduled": updated, "numberAvailable": ready,
            "numberUnavailable": 1_usize.saturating_sub(ready)}),
    );
    let status = access::member_object_mut(access::ensure_object(&mut set), "status");
    let scheduled = pods.len().min(1);
    for (member, count) in [
        ("currentNumberScheduled", scheduled),
        ("desiredNumberScheduled", 1),
        ("numberMisscheduled", 0),
        ("numberReady", ready),
    ] {
        status.insert(member.to_owned(), json!(count));
    }
    write(state, key, set);
}
