//! What the stock admission of an API server adds to Pods, and their class of service.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tiphys_object::quantity;

use super::{Draw, rules};
use crate::resource::Resource;
use crate::tree::{self, Members, default_to};

/// Where the token of a service account is mounted.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Letters of random suffixes.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Account, token, tolerations, priority, and the first status of a new Pod.
pub(super) fn on_create(resource: &Resource, object: &mut Value, draw: &mut dyn Draw) {
    if !rules::is(resource, "", "Pod") {
        return;
    }
    let mirror = ["metadata", "annotations", "kubernetes.io/config.mirror"];
    let is_mirror = tree::at(object, &mirror).is_some();
    if let Some(spec) = tree::made(object, &["spec"]) {
        if !is_mirror {
            default_to(spec, "serviceAccountName", "default");
            let account = spec.get("serviceAccountName").cloned().unwrap_or_default();
            spec.insert("serviceAccount".to_owned(), account);
            if spec.get("automountServiceAccountToken").and_then(Value::as_bool).unwrap_or(true) {
                mount_token(spec, draw);
            }
        }
        tolerate(spec);
        priority(spec);
        if spec
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
        {
            spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
        }
    }
    let class = class(object);
    let created = tree::at(object, &["metadata", "creationTimestamp"]).cloned();
    let is_gated = !tree::items(object, &["spec", "schedulingGates"]).is_empty();
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if is_gated {
        let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": created}]);
        if let Value::Object(members) = &mut status {
            members.insert("conditions".to_owned(), conditions);
        }
    }
    if let Some(members) = object.as_object_mut() {
        members.insert("status".to_owned(), status);
    }
}

/// Tolerations that a writer dropped come back.
pub(super) fn on_update(resource: &Resource, old: &Value, new: &mut Value) {
    let _ = old;
    if rules::is(resource, "", "Pod")
        && let Some(spec) = tree::made(new, &["spec"])
    {
        tolerate(spec);
    }
}

/// Adds the volume with the token, and mounts it where a container has nothing at its path.
fn mount_token(spec: &mut Members, draw: &mut dyn Draw) {
    let name = format!("kube-api-access-{}", suffix(&draw.uid()));
    let mount = json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH});
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            if let Value::Array(mounts) = mounts
                && mounts.iter().all(|mount| tree::text(mount, &["mountPath"]) != TOKEN_PATH)
            {
                mounts.push(mount.clone());
                is_needed = true;
            }
        }
    }
    if !is_needed {
        return;
    }
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    if let Value::Array(volumes) = volumes {
        volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}}));
    }
}

/// Five letters made of a random text.
fn suffix(random: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_64(random.as_bytes());
    let count = LETTERS.len() as u64;
    let letters = (0..5_u32).map(|at| {
        let index = usize::try_from(hash / count.pow(at) % count).unwrap_or(0);
        LETTERS.get(index).copied().map_or('x', char::from)
    });
    letters.collect()
}

/// Pods stay five minutes on a node that is not ready or cannot be reached, unless they say otherwise.
fn tolerate(spec: &mut Members) {
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Value::Array(tolerations) = list else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = tolerations.iter().any(|one| {
            let found = tree::text(one, &["key"]);
            let effect = tree::text(one, &["effect"]);
            (found == key || found.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if !is_tolerated {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

/// The priorities of the two classes that every cluster has; others are not looked up.
fn priority(spec: &mut Members) {
    let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or("");
    let priority = match class {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => 0,
    };
    if spec.get("priority").is_none_or(Value::is_null) {
        spec.insert("priority".to_owned(), json!(priority));
    }
    default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
}

/// The class of service: guaranteed when all containers have equal requests and limits of both resources.
fn class(object: &Value) -> &'static str {
    type Sums = BTreeMap<&'static str, Vec<String>>;
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| tree::items(object, &["spec", list]));
    let amount = |container: &Value, of: &str, name: &str| {
        let text = tree::text(container, &["resources", of, name]).to_owned();
        let is_zero = quantity::canonical_text(&text).is_ok_and(|text| text == "0");
        (!text.is_empty() && !is_zero).then_some(text)
    };
    let (mut requests, mut limits) = (Sums::new(), Sums::new());
    let mut is_guaranteed = true;
    for container in containers {
        for name in ["cpu", "memory"] {
            if let Some(found) = amount(container, "requests", name) {
                requests.entry(name).or_default().push(found);
            }
            match amount(container, "limits", name) {
                Some(found) => limits.entry(name).or_default().push(found),
                None => is_guaranteed = false,
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if is_guaranteed && requests == limits && limits.len() == 2 {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
