//! Endpoints and `EndpointSlices` of services.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_object::access;
use tiphys_object::selector::Selector;

use super::replicas::is_ready;
use super::{create, is_kind, owner_reference, write};
use crate::state::{State, is_terminating};
use crate::store::Key;
use crate::tree::integer;

/// Services and claims of a pod's namespace look again.
pub(super) fn wake(state: &mut State, pod: &Key) {
    let others: Vec<Key> = state
        .store
        .index
        .in_namespace(&pod.namespace)
        .filter(|key| is_kind(&key.kind, "", "services") || is_kind(&key.kind, "", "persistentvolumeclaims"))
        .cloned()
        .collect();
    state.dirty.extend(others);
}

pub(super) fn reconcile(state: &mut State, key: &Key, service: &Value, now: Timestamp) {
    let Some(selector) = access::at(service, &["spec", "selector"]).filter(|selector| selector.is_object())
    else {
        return;
    };
    if access::text_at(service, &["spec", "type"]) == "ExternalName" {
        return;
    }
    let Ok(selector) = Selector::from_object(&json!({"matchLabels": selector})) else { return };
    let keys: Vec<Key> = state.store.index.in_namespace(&key.namespace).cloned().collect();
    let mut found = Vec::new();
    for pod_key in keys.iter().filter(|key| is_kind(&key.kind, "", "pods")) {
        let Some(pod) = state.tree(pod_key) else { continue };
        let is_meant = selector.matches(|label| access::label(&pod, label)) && !is_terminating(&pod);
        if is_meant && !access::text_at(&pod, &["status", "podIP"]).is_empty() {
            found.push(pod);
        }
    }
    slice(state, key, service, &found, now);
    endpoints(state, key, service, &found, now);
}

fn ports(service: &Value, pods: &[Value]) -> Vec<Value> {
    let list = access::at(service, &["spec", "ports"]).and_then(Value::as_array);
    let mut ports: Vec<Value> = list
        .into_iter()
        .flatten()
        .map(|port| {
            let target = match port.get("targetPort") {
                Some(Value::String(name)) => named_port(pods, name),
                Some(number) => number.clone(),
                None => port.get("port").cloned().unwrap_or(Value::Null),
            };
            json!({"name": access::text(port, "name"), "port": target,
                "protocol": port.get("protocol").cloned().unwrap_or(json!("TCP"))})
        })
        .collect();
    ports.retain(|port| !port["port"].is_null());
    ports
}

fn named_port(pods: &[Value], name: &str) -> Value {
    let containers =
        pods.iter().filter_map(|pod| access::at(pod, &["spec", "containers"])?.as_array()).flatten();
    let mut ports = containers.filter_map(|container| container.get("ports")?.as_array()).flatten();
    ports
        .find(|port| access::text(port, "name") == name)
        .and_then(|port| port.get("containerPort"))
        .cloned()
        .unwrap_or(Value::Null)
}

fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": access::namespace(pod), "name": access::name(pod), "uid": access::uid(pod)})
}

fn slice(state: &mut State, key: &Key, service: &Value, pods: &[Value], now: Timestamp) {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let ready = is_ready(pod);
            json!({"addresses": [access::text_at(pod, &["status", "podIP"])],
                "conditions": {"ready": ready, "serving": ready, "terminating": false},
                "nodeName": access::text_at(pod, &["spec", "nodeName"]), "targetRef": target(pod)})
        })
        .collect();
    let known = super::controlled(state, service, "discovery.k8s.io", "endpointslices");
    if let Some((slice_key, mut slice)) = known.into_iter().next() {
        let members = access::ensure_object(&mut slice);
        let is_same = members.get("endpoints") == Some(&json!(endpoints))
            && members.get("ports") == Some(&json!(ports(service, pods)));
        if !is_same {
            members.insert("endpoints".to_owned(), json!(endpoints));
            members.insert("ports".to_owned(), json!(ports(service, pods)));
            let generation = integer(&slice, &["metadata", "generation"]).unwrap_or(1);
            access::metadata_mut(&mut slice).insert("generation".to_owned(), json!(generation + 1));
            write(state, &slice_key, slice);
        }
        return;
    }
    let slice = json!({
        "metadata": {"generateName": format!("{}-", key.name), "namespace": key.namespace,
            "labels": {"kubernetes.io/service-name": key.name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "ownerReferences": [owner_reference(service)]},
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports(service, pods),
    });
    create(state, "discovery.k8s.io", "v1", "endpointslices", slice, now);
}

fn endpoints(state: &mut State, key: &Key, service: &Value, pods: &[Value], now: Timestamp) {
    let address = |pod: &Value| {
        json!({"ip": access::text_at(pod, &["status", "podIP"]),
            "nodeName": access::text_at(pod, &["spec", "nodeName"]), "targetRef": target(pod)})
    };
    let (ready, waiting): (Vec<&Value>, Vec<&Value>) = pods.iter().partition(|pod| is_ready(pod));
    let mut subset = Map::new();
    subset.insert("ports".to_owned(), json!(ports(service, pods)));
    for (member, list) in [("addresses", ready), ("notReadyAddresses", waiting)] {
        if !list.is_empty() {
            subset.insert(member.to_owned(), list.into_iter().map(address).collect());
        }
    }
    let subsets = if pods.is_empty() { Value::Null } else { json!([subset]) };
    let place = state.builtin_key("", "endpoints", &key.namespace, &key.name);
    if let Some(mut known) = state.tree(&place) {
        let members = access::ensure_object(&mut known);
        if subsets.is_null() {
            members.remove("subsets");
        } else {
            members.insert("subsets".to_owned(), subsets);
        }
        write(state, &place, known);
    } else {
        let labels = service.pointer("/metadata/labels").cloned();
        let mut made = json!({"metadata": {"name": key.name, "namespace": key.namespace}});
        if let Some(labels) = labels {
            access::metadata_mut(&mut made).insert("labels".to_owned(), labels);
        }
        if !subsets.is_null() {
            access::ensure_object(&mut made).insert("subsets".to_owned(), subsets);
        }
        create(state, "", "v1", "endpoints", made, now);
    }
}
