//! The controllers that every cluster has, as steps over the state.
//!
//! Each step looks at objects that changed, or whose time has come, and writes what follows. Nothing here waits:
//! what has to happen later is a timer of the state. The same state and the same time give the same writes.

mod claims;
mod cron;
mod endpoints;
mod garbage;
mod jobs;
mod namespaces;
mod pods;
mod replicas;
mod rollout;
mod sets;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use tiphys_object::{Gvk, access};

use crate::clock::seconds;
use crate::resource::Resource;
use crate::state::{State, is_terminating};
use crate::store::{Key, Kind};
use crate::{defaults, strategy};

/// The finalizer that holds a definition while objects of it are there.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The node that runs everything.
pub(crate) const NODE: &str = "node-0";
/// Its labels.
const NODE_LABELS: [(&str, &str); 3] =
    [("kubernetes.io/os", "linux"), ("kubernetes.io/hostname", NODE), ("kubernetes.io/arch", "amd64")];
/// Objects looked at in one step at most; requests come in between.
const STEP_MAX: usize = 64;
/// How long Events are kept.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// What every cluster begins with.
pub(crate) fn begin(state: &mut State, now: Timestamp) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let key = state.builtin_key("", "namespaces", "", name);
        if state.store.get(&key).is_none() {
            create(state, "", "v1", "namespaces", json!({"metadata": {"name": name}}), now);
        }
    }
    let node = state.builtin_key("", "nodes", "", NODE);
    if state.store.get(&node).is_none() {
        create(state, "", "v1", "nodes", node_object(now), now);
    }
    let all: Vec<Key> = state
        .store
        .all()
        .map(|(kind, stored)| {
            let tree = stored.tree();
            let (namespace, name) = (access::namespace(&tree).into(), access::name(&tree).into());
            Key { kind: Arc::clone(kind), namespace, name }
        })
        .collect();
    state.dirty.extend(all);
    while !step(state, now) {}
}

fn node_object(now: Timestamp) -> Value {
    let room = json!({"cpu": "1k", "memory": "1Ti", "pods": "100k", "ephemeral-storage": "1Ti"});
    let time = seconds(now);
    let labels: Map<String, Value> =
        NODE_LABELS.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    json!({
        "metadata": {"name": NODE, "labels": labels},
        "spec": {},
        "status": {"allocatable": room, "capacity": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "simulated", "lastHeartbeatTime": time, "lastTransitionTime": time}],
            "addresses": [{"type": "Hostname", "address": NODE}, {"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.1", "osImage": "simulated", "architecture": "amd64",
                "operatingSystem": "linux", "kernelVersion": "", "containerRuntimeVersion": "simulated://1",
                "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": ""}},
    })
}

/// Looks at some objects; whether nothing is left to look at now.
pub(crate) fn step(state: &mut State, now: Timestamp) -> bool {
    while let Some((time, _)) = state.timers.first() {
        if *time > now {
            break;
        }
        if let Some((_, key)) = state.timers.pop_first() {
            state.dirty.insert(key);
        }
    }
    for _ in 0..STEP_MAX {
        let Some(key) = state.dirty.pop_first() else { return true };
        look(state, &key, now);
    }
    state.dirty.is_empty()
}

/// Does what one object asks for.
fn look(state: &mut State, key: &Key, now: Timestamp) {
    let Some(object) = state.tree(key) else {
        forget(state, key);
        return;
    };
    if garbage::collect(state, key, &object, now) {
        return;
    }
    let ends = is_terminating(&object);
    match (key.kind.group.as_str(), key.kind.plural.as_str()) {
        ("", "namespaces") => namespaces::reconcile(state, key, object, now),
        ("apiextensions.k8s.io", "customresourcedefinitions") if ends => {
            namespaces::clean_definition(state, key, &object, now);
        }
        ("", "pods") => {
            pods::reconcile(state, key, object, now);
            endpoints::wake(state, key);
        }
        ("", "services") if !ends => endpoints::reconcile(state, key, &object, now),
        ("", "persistentvolumeclaims") => claims::reconcile(state, key, object, now),
        ("", "persistentvolumes") if ends => garbage::release(state, key, claims::VOLUME_PROTECTION, now),
        ("", "events") => expire(state, key, &object, now),
        ("apps", "deployments") if !ends => rollout::reconcile(state, key, object, now),
        ("apps", "replicasets") if !ends => replicas::reconcile(state, key, object, now),
        ("apps", "statefulsets") if !ends => sets::stateful(state, key, object, now),
        ("apps", "daemonsets") if !ends => sets::daemon(state, key, object, now),
        ("batch", "jobs") if !ends => jobs::reconcile(state, key, object, now),
        ("batch", "cronjobs") if !ends => cron::reconcile(state, key, object, now),
        _ => {}
    }
}

/// What is known about an object goes with it.
fn forget(state: &mut State, key: &Key) {
    state.starting.remove(key);
    state.ending.remove(key);
    state.progress.remove(key);
    if is_kind(&key.kind, "", "pods") {
        endpoints::wake(state, key);
    }
}

fn expire(state: &mut State, key: &Key, event: &Value, now: Timestamp) {
    let made = access::text_at(event, &["metadata", "creationTimestamp"]).parse().unwrap_or(now);
    let end = Timestamp::checked_add(made, EVENT_LIFE).unwrap_or(now);
    if end <= now {
        state.erase(key);
    } else {
        state.timers.insert((end, key.clone()));
    }
}

/// The resource of a built-in kind.
fn builtin(state: &State, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
    state.registry.find(group, version, plural).cloned()
}

/// Makes an object, as a controller does; `None` when it is there already or may not be made.
fn create(
    state: &mut State,
    group: &str,
    version: &str,
    plural: &str,
    mut object: Value,
    now: Timestamp,
) -> Option<Key> {
    let resource = builtin(state, group, version, plural)?;
    let namespace = access::namespace(&object).to_owned();
    if !namespace.is_empty() && state.namespace_is_terminating(&namespace) != Some(false) {
        return None;
    }
    let members = access::ensure_object(&mut object);
    members.insert("apiVersion".to_owned(), json!(resource.api_version()));
    members.insert("kind".to_owned(), json!(resource.kind));
    let prefix = access::text_at(&object, &["metadata", "generateName"]).to_owned();
    if access::name(&object).is_empty() {
        let kept: String = prefix.chars().take(58).collect();
        let name = format!("{kept}{}", state.draw.rng.suffix(5));
        access::metadata_mut(&mut object).insert("name".to_owned(), json!(name));
    }
    let status = object.get("status").cloned();
    let key = state.key(&resource, &namespace, access::name(&object));
    if state.store.get(&key).is_some() {
        return None;
    }
    state.stamp(&mut object, now);
    defaults::fill_in(&Gvk::new(group, version, &resource.kind), &mut object);
    strategy::prepare_create(&resource, &mut object, &mut state.draw);
    if let Some(status) = status {
        // What a controller says about its object stays.
        access::ensure_object(&mut object).insert("status".to_owned(), status);
    }
    state.commit(&key, object);
    Some(key)
}

/// Writes an object when it differs from what is stored.
fn write(state: &mut State, key: &Key, object: Value) {
    if state.tree(key).is_some_and(|old| old != object) {
        state.commit(key, object);
    }
}

/// Deletes an object as a controller does: with its own grace, dependents in the background.
fn delete(state: &mut State, key: &Key, now: Timestamp) {
    delete_with(state, key, &crate::delete::Options::in_background(), now);
}

fn delete_with(state: &mut State, key: &Key, options: &crate::delete::Options, now: Timestamp) {
    let Some(resource) = state.resource_of(&key.kind) else { return };
    let Some(object) = state.tree(key) else { return };
    crate::delete::delete_object(state, &resource, key, object, options, now);
}

/// Objects of a kind that an owner controls.
fn controlled(state: &State, owner: &Value, group: &str, plural: &str) -> Vec<(Key, Value)> {
    let uid = access::uid(owner);
    let keys = state.store.index.dependents(uid);
    keys.filter(|key| key.kind.group == group && key.kind.plural == plural)
        .filter_map(|key| state.tree(key).map(|object| (key.clone(), object)))
        .filter(|(_, object)| controller_uid(object) == Some(uid))
        .collect()
}

fn controller_uid(object: &Value) -> Option<&str> {
    let owners = access::at(object, &["metadata", "ownerReferences"])?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    owner.get("uid").and_then(Value::as_str)
}

/// The reference of a controller to what it controls.
fn owner_reference(owner: &Value) -> Value {
    json!({"apiVersion": access::text(owner, "apiVersion"), "kind": access::text(owner, "kind"),
        "name": access::name(owner), "uid": access::uid(owner), "controller": true, "blockOwnerDeletion": true})
}

/// A pod out of a template.
fn pod_of(template: &Value, owner: &Value, name: (&str, &str), labels: &[(&str, &str)]) -> Value {
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let members = access::ensure_object(&mut metadata);
    members.retain(|member, _| matches!(member.as_str(), "labels" | "annotations" | "finalizers"));
    members.insert(name.0.to_owned(), json!(name.1));
    members.insert("namespace".to_owned(), json!(access::namespace(owner)));
    members.insert("ownerReferences".to_owned(), json!([owner_reference(owner)]));
    let all = access::member_object_mut(members, "labels");
    for (label, value) in labels {
        all.insert((*label).to_owned(), json!(value));
    }
    json!({"metadata": metadata, "spec": template.get("spec").cloned().unwrap_or(Value::Null)})
}

/// Sets members of the status; those that are 0 or null are removed, as Go leaves them out.
fn set_status(object: &mut Value, members: Value) {
    let status = access::member_object_mut(access::ensure_object(object), "status");
    let Value::Object(members) = members else { return };
    for (member, value) in members {
        let is_left_out =
            value.is_null() || value == 0 && member != "replicas" && member != "observedGeneration";
        if is_left_out {
            status.remove(&member);
        } else {
            status.insert(member, value);
        }
    }
}

/// Sets a number of the status that is there even when it is 0.
fn set_count(object: &mut Value, member: &str, count: i64) {
    access::member_object_mut(access::ensure_object(object), "status")
        .insert(member.to_owned(), json!(count));
}

/// Sets a condition; its time of transition moves only when its status does.
fn set_condition(object: &mut Value, kind: &str, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let time = seconds(now);
    let status = access::member_object_mut(access::ensure_object(object), "status");
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    let text = if is_true { "True" } else { "False" };
    if let Some(old) = list.iter_mut().find(|one| access::text(one, "type") == kind) {
        let is_new = access::text(old, "status") != text;
        let has_changed =
            is_new || access::text(old, "reason") != reason || access::text(old, "message") != message;
        if !has_changed {
            return;
        }
        let members = access::ensure_object(old);
        let has_update_time = members.contains_key("lastUpdateTime");
        members.insert("status".to_owned(), json!(text));
        put_text(members, "reason", reason);
        put_text(members, "message", message);
        if is_new {
            members.insert("lastTransitionTime".to_owned(), json!(time));
        }
        if has_update_time {
            members.insert("lastUpdateTime".to_owned(), json!(time));
        }
        return;
    }
    let mut members = Map::new();
    members.insert("type".to_owned(), json!(kind));
    members.insert("status".to_owned(), json!(text));
    put_text(&mut members, "reason", reason);
    put_text(&mut members, "message", message);
    members.insert("lastTransitionTime".to_owned(), json!(time));
    if matches!(kind, "Available" | "Progressing") {
        members.insert("lastUpdateTime".to_owned(), json!(time));
    }
    list.push(Value::Object(members));
}

fn put_text(members: &mut Map<String, Value>, member: &str, text: &str) {
    if text.is_empty() {
        members.remove(member);
    } else {
        members.insert(member.to_owned(), json!(text));
    }
}

/// Records what a controller did, for `kubectl describe`.
fn emit(state: &mut State, about: &Value, reason: &str, message: &str, source: &str, now: Timestamp) {
    let kind = if matches!(reason, "BackOff" | "BackoffLimitExceeded" | "Failed" | "FailedScheduling") {
        "Warning"
    } else {
        "Normal"
    };
    let time = seconds(now);
    let namespace = match access::namespace(about) {
        "" => "default",
        namespace => namespace,
    };
    let name = format!("{}.{:016x}", access::name(about), state.draw.rng.next_u64());
    let event = json!({
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": access::text(about, "apiVersion"), "kind": access::text(about, "kind"),
            "name": access::name(about), "namespace": access::namespace(about), "uid": access::uid(about),
            "resourceVersion": access::text_at(about, &["metadata", "resourceVersion"])},
        "reason": reason, "message": message, "type": kind, "count": 1,
        "source": {"component": source}, "reportingComponent": source, "reportingInstance": "",
        "firstTimestamp": time, "lastTimestamp": time, "eventTime": null,
    });
    create(state, "", "v1", "events", event, now);
}

/// A delay of the simulation, at its speed.
fn after(state: &State, now: Timestamp, delay: Duration) -> Timestamp {
    let scaled = delay.div_f64(state.speed.max(0.001));
    let delay = SignedDuration::try_from(scaled).unwrap_or(SignedDuration::ZERO);
    now.checked_add(delay).unwrap_or(now)
}

/// A delay that users name, whatever the speed.
fn after_real(since: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    since.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// Wakes the controllers of an object at a time.
fn wake_at(state: &mut State, time: Timestamp, key: &Key) {
    state.timers.insert((time, key.clone()));
}

/// A hash of a value, in the letters of generated names.
fn hash_of(value: &Value) -> String {
    let mut rng = crate::clock::Rng::new(xxhash_rust::xxh3::xxh3_64(value.to_string().as_bytes()));
    rng.suffix(10)
}

/// Whether a place is of a built-in kind.
fn is_kind(kind: &Kind, group: &str, plural: &str) -> bool {
    kind.group == group && kind.plural == plural
}
