//! Defaults of configuration, storage, access, network and admission types.

use serde_json::{Map, Value, json};

use super::fill::{TypeName, items, made, object, set, text};

/// API group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn fill(known: TypeName<'_>, map: &mut Map<String, Value>) {
    match known.area {
        "core" => fill_core(known.name, map),
        "storage" => fill_storage(known.name, map),
        "rbac" => fill_access(known.name, map),
        "networking" | "extensions" | "discovery" => fill_network(known.name, map),
        "admissionregistration" => fill_admission(known.name, map),
        "flowcontrol" => fill_flow(known.name, map),
        "scheduling" if known.name == "PriorityClass" => set(map, "preemptionPolicy", "PreemptLowerPriority"),
        _ => {}
    }
}

fn fill_core(name: &str, map: &mut Map<String, Value>) {
    match name {
        "Secret" => set(map, "type", "Opaque"),
        "Namespace" => {
            let own = map.get("metadata").and_then(|metadata| metadata.get("name")).cloned();
            if let Some(name) = own
                && let Some(labels) = made(map, "metadata").and_then(|metadata| made(metadata, "labels"))
            {
                set(labels, "kubernetes.io/metadata.name", name);
            }
        }
        "PersistentVolumeSpec" => {
            set(map, "persistentVolumeReclaimPolicy", "Retain");
            set(map, "volumeMode", "Filesystem");
        }
        "PersistentVolumeClaimSpec" => set(map, "volumeMode", "Filesystem"),
        "EndpointPort" => set(map, "protocol", "TCP"),
        "LimitRangeItem" if text(map, "type") == "Container" => fill_limits(map),
        _ => {}
    }
}

/// `default` from `max`, `defaultRequest` from `default`, then from `min`.
fn fill_limits(item: &mut Map<String, Value>) {
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(amounts) =
            item.get(from).and_then(Value::as_object).filter(|found| !found.is_empty()).cloned()
        else {
            continue;
        };
        let Some(target) = made(item, to) else { continue };
        for (name, amount) in amounts {
            set(target, &name, amount);
        }
    }
}

fn fill_storage(name: &str, map: &mut Map<String, Value>) {
    match name {
        "StorageClass" => {
            set(map, "reclaimPolicy", "Delete");
            set(map, "volumeBindingMode", "Immediate");
        }
        "CSIDriverSpec" => {
            set(map, "attachRequired", true);
            for member in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
                set(map, member, false);
            }
            set(map, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            if map.get("volumeLifecycleModes").is_none_or(|found| found.as_array().is_none_or(Vec::is_empty))
            {
                map.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
            }
        }
        _ => {}
    }
}

fn fill_access(name: &str, map: &mut Map<String, Value>) {
    match name {
        "RoleRef" => set(map, "apiGroup", RBAC),
        "Subject" if matches!(text(map, "kind"), "User" | "Group") => set(map, "apiGroup", RBAC),
        _ => {}
    }
}

fn fill_network(name: &str, map: &mut Map<String, Value>) {
    match name {
        "NetworkPolicyPort" | "EndpointPort" => set(map, "protocol", "TCP"),
        "NetworkPolicySpec" => {
            let has_egress =
                map.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            if map.get("policyTypes").is_none_or(|found| found.as_array().is_none_or(Vec::is_empty)) {
                let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
                map.insert("policyTypes".to_owned(), types);
            }
        }
        "IngressClassParametersReference" => set(map, "scope", "Cluster"),
        _ => {}
    }
}

fn fill_admission(name: &str, map: &mut Map<String, Value>) {
    match name {
        "ValidatingWebhook" | "MutatingWebhook" => {
            set(map, "failurePolicy", "Fail");
            set(map, "matchPolicy", "Equivalent");
            set(map, "namespaceSelector", Map::new());
            set(map, "objectSelector", Map::new());
            set(map, "timeoutSeconds", 10);
            if name == "MutatingWebhook" {
                set(map, "reinvocationPolicy", "Never");
            }
            for rule in items(map, "rules") {
                set(rule, "scope", "*");
            }
        }
        "ServiceReference" => set(map, "port", 443),
        "ValidatingAdmissionPolicySpec" | "MutatingAdmissionPolicySpec" => set(map, "failurePolicy", "Fail"),
        "MatchResources" => {
            set(map, "matchPolicy", "Equivalent");
            set(map, "namespaceSelector", Map::new());
            set(map, "objectSelector", Map::new());
        }
        "NamedRuleWithOperations" => set(map, "scope", "*"),
        _ => {}
    }
}

fn fill_flow(name: &str, map: &mut Map<String, Value>) {
    match name {
        "FlowSchemaSpec" => set(map, "matchingPrecedence", 1000),
        "ExemptPriorityLevelConfiguration" => {
            set(map, "nominalConcurrencyShares", 0);
            set(map, "lendablePercent", 0);
        }
        "LimitedPriorityLevelConfiguration" => {
            set(map, "nominalConcurrencyShares", 30);
            set(map, "lendablePercent", 0);
            let Some(response) = object(map, "limitResponse") else { return };
            if text(response, "type") == "Queue"
                && let Some(queuing) = made(response, "queuing")
            {
                set(queuing, "queues", 64);
                set(queuing, "handSize", 8);
                set(queuing, "queueLengthLimit", 50);
            }
        }
        _ => {}
    }
}
