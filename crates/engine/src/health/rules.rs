//! Rules for kinds of well-known operators: a table of conditions, and short functions where a table cannot say
//! it (ENG-116..120).

use serde_json::Value;
use tiphys_object::Gvk;
use tiphys_object::access::{at, text, text_at};

use super::HealthCode::{Degraded, Healthy, Progressing, Suspended};
use super::reader::{Verdict, verdict};
use super::shipped::{condition, condition_is, conditions};

/// A kind whose health is one condition: True is Healthy, False is Degraded, else Progressing.
struct Ready {
    group: &'static str,
    kind: &'static str,
    condition: &'static str,
    fallback: &'static str,
}

const fn ready(group: &'static str, kind: &'static str, fallback: &'static str) -> Ready {
    Ready { group, kind, condition: "Ready", fallback }
}

const READY: [Ready; 16] = [
    ready("cert-manager.io", "Certificate", "Waiting for certificate"),
    ready("certmanager.k8s.io", "Certificate", "Waiting for certificate"),
    ready("cert-manager.io", "Issuer", "Initializing issuer"),
    ready("certmanager.k8s.io", "Issuer", "Initializing issuer"),
    ready("cert-manager.io", "ClusterIssuer", "Initializing ClusterIssuer"),
    ready("certmanager.k8s.io", "ClusterIssuer", "Initializing ClusterIssuer"),
    ready("external-secrets.io", "ExternalSecret", "Waiting for ExternalSecret"),
    ready("external-secrets.io", "SecretStore", "Waiting for SecretStore"),
    ready("external-secrets.io", "ClusterSecretStore", "Waiting for ClusterSecretStore"),
    ready("external-secrets.io", "PushSecret", "Waiting for PushSecret"),
    ready("karpenter.sh", "NodePool", "Waiting for NodePool to be ready"),
    ready("karpenter.sh", "NodeClaim", "Waiting for NodeClaim to be launched"),
    ready("camel.apache.org", "Integration", "Waiting for Integration"),
    ready("keda.sh", "ScaledObject", "Creating HorizontalPodAutoscaler Object"),
    ready("onepassword.com", "OnePasswordItem", "Waiting for controller to report status"),
    Ready {
        group: "bitnami.com",
        kind: "SealedSecret",
        condition: "Synced",
        fallback: "Waiting for Sealed Secret to be decrypted",
    },
];

/// The rule of a kind beyond the built-in ones, if there is one.
pub(super) fn judge(gvk: &Gvk, live: &Value) -> Verdict {
    let (group, kind) = (gvk.group.as_str(), gvk.kind.as_str());
    match (group, kind) {
        ("cert-manager.io" | "certmanager.k8s.io", "Certificate") => {
            if let Some(issuing) = condition_is(live, "Issuing", "True") {
                return verdict(Progressing, text(issuing, "message"));
            }
        }
        ("keda.sh", "ScaledObject") => {
            if let Some(fallback) = condition_is(live, "Fallback", "True") {
                return verdict(Degraded, text(fallback, "message"));
            }
            let is_ready = condition_is(live, "Ready", "True").is_some();
            if let Some(paused) = condition_is(live, "Paused", "True").filter(|_| is_ready) {
                return verdict(Suspended, text(paused, "message"));
            }
        }
        ("gateway.networking.k8s.io", "Gateway") => return gateway(live),
        ("gateway.networking.k8s.io", kind) if kind.ends_with("Route") => return gateway_route(live, kind),
        ("snapshot.storage.k8s.io", "VolumeSnapshot" | "VolumeSnapshotContent") => {
            return volume_snapshot(live);
        }
        ("kubevirt.io", "VirtualMachine") => return virtual_machine(live),
        ("route.openshift.io", "Route") => return openshift_route(live),
        ("serving.knative.dev", "Service") => return knative_service(live),
        ("kafka.strimzi.io", kind) => return strimzi(live, kind),
        ("source.toolkit.fluxcd.io", "HelmRepository") if text_at(live, &["spec", "type"]) == "oci" => {
            return verdict(
                Healthy,
                "Helm repositories of type 'oci' do not contain any information in the status.",
            );
        }
        ("karpenter.sh", "NodeClaim") => {
            if let Some(found) = node_claim(live) {
                return found;
            }
        }
        ("stacks.crossplane.io", "ClusterStackInstall") => return stack_install(live),
        _ => {}
    }
    if let Some(rule) = READY.iter().find(|rule| rule.group == group && rule.kind == kind) {
        return by_condition(live, rule.condition, rule.fallback);
    }
    if group.ends_with(".toolkit.fluxcd.io") {
        return flux(live, group, kind);
    }
    if group.ends_with(".services.k8s.aws") {
        return aws_controller(live);
    }
    if group.ends_with(".cnrm.cloud.google.com") && condition(live, "Ready").is_some() {
        return config_connector(live);
    }
    if group.ends_with(".aws.crossplane.io") {
        return crossplane_aws(live, kind);
    }
    if group.ends_with(".crossplane.io") || group.ends_with(".upbound.io") {
        return crossplane(live, kind);
    }
    Ok(None)
}

fn by_condition(live: &Value, kind: &str, fallback: &str) -> Verdict {
    match condition(live, kind) {
        Some(found) if text(found, "status") == "True" => verdict(Healthy, text(found, "message")),
        Some(found) if text(found, "status") == "False" => verdict(Degraded, text(found, "message")),
        _ => verdict(Progressing, fallback),
    }
}

fn strimzi(live: &Value, kind: &str) -> Verdict {
    if let Some(found) = condition_is(live, "Ready", "True") {
        return verdict(Healthy, text(found, "message"));
    }
    if let Some(found) = condition_is(live, "NotReady", "True") {
        return verdict(Degraded, text(found, "message"));
    }
    let shown = match kind {
        "Kafka" => "Kafka Cluster",
        "KafkaConnect" => "Kafka Connect",
        "KafkaTopic" => "Kafka Topic",
        "KafkaUser" => "Kafka User",
        other => other,
    };
    verdict(Progressing, format!("Waiting for {shown}"))
}

/// How far a node has come that is not ready yet.
fn node_claim(live: &Value) -> Option<Verdict> {
    let ready = condition(live, "Ready").map_or("", |ready| text(ready, "status"));
    if matches!(ready, "True" | "False") {
        return None;
    }
    let steps = [
        ("Initialized", "Node initialized, waiting for Ready"),
        ("Registered", "Node registered, waiting for initialization"),
        ("Launched", "Node launched, waiting for registration"),
    ];
    let reached = steps.into_iter().find(|(kind, _)| condition_is(live, kind, "True").is_some());
    reached.map(|(_, message)| verdict(Progressing, message))
}

fn flux(live: &Value, group: &str, kind: &str) -> Verdict {
    if at(live, &["spec", "suspend"]) == Some(&Value::Bool(true)) {
        return verdict(Suspended, format!("{kind} is suspended"));
    }
    if conditions(live).is_empty() {
        return verdict(Progressing, "Status unknown");
    }
    let message = condition(live, "Ready").map_or("", |ready| text(ready, "reason"));
    let is_true = |kind: &str| condition_is(live, kind, "True").is_some();
    if condition_is(live, "Ready", "Unknown").is_some() && is_true("Reconciling") {
        return verdict(Progressing, message);
    }
    let is_healthy = match (group, kind) {
        ("helm.toolkit.fluxcd.io", "HelmRelease") => {
            ["Ready", "Released", "TestSuccess"].into_iter().filter(|kind| is_true(kind)).count() == 2
                && is_true("Ready")
        }
        ("source.toolkit.fluxcd.io", _) => is_true("Ready") && is_true("ArtifactInStorage"),
        _ => is_true("Ready"),
    };
    verdict(if is_healthy { Healthy } else { Degraded }, message)
}

/// What a list of conditions says about a part of a gateway; `None` when it is fine or says nothing.
fn gateway_problem(list: &[Value], prefix: &str) -> Option<Verdict> {
    let is = |condition: &&Value, kind: &str| text(condition, "type") == kind;
    for kind in ["ResolvedRefs", "Accepted"] {
        let failed = list.iter().find(|found| is(found, kind) && text(found, "status") == "False");
        if let Some(failed) = failed {
            let message = match text(failed, "message") {
                "" => format!("Failed condition: {kind}"),
                message => message.to_owned(),
            };
            return Some(verdict(Degraded, format!("{prefix}{message}")));
        }
    }
    let programmed = list.iter().find(|found| is(found, "Programmed") && text(found, "status") != "True");
    programmed.map(|found| verdict(Progressing, format!("{prefix}{}", text(found, "message"))))
}

fn list_at<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn gateway(live: &Value) -> Verdict {
    if let Some(problem) = gateway_problem(conditions(live), "") {
        return problem;
    }
    let listeners = list_at(live, &["status", "listeners"]);
    for listener in listeners {
        if let Some(problem) = gateway_problem(list_at(listener, &["conditions"]), "Listener: ") {
            return problem;
        }
    }
    if conditions(live).is_empty() && listeners.is_empty() {
        return verdict(Progressing, "Waiting for Gateway status");
    }
    verdict(Healthy, "Gateway is healthy")
}

fn gateway_route(live: &Value, kind: &str) -> Verdict {
    let generation = at(live, &["metadata", "generation"]).and_then(Value::as_i64);
    let is_stale = |condition: &Value| {
        let observed = condition.get("observedGeneration").and_then(Value::as_i64);
        observed.is_some() && generation.is_some() && observed != generation
    };
    let mut has_current = false;
    for parent in list_at(live, &["status", "parents"]) {
        let list = list_at(parent, &["conditions"]);
        if list.iter().any(is_stale) {
            continue;
        }
        has_current |= !list.is_empty();
        let prefix = format!("Parent {}: ", text_at(parent, &["parentRef", "name"]));
        if let Some(problem) = gateway_problem(list, &prefix) {
            return problem;
        }
    }
    if has_current {
        verdict(Healthy, format!("{kind} is healthy"))
    } else {
        verdict(Progressing, format!("Waiting for {kind} status"))
    }
}

fn crossplane(live: &Value, kind: &str) -> Verdict {
    const STATIC: [&str; 7] = [
        "Composition",
        "CompositionRevision",
        "DeploymentRuntimeConfig",
        "ProviderConfig",
        "ClusterProviderConfig",
        "ProviderConfigUsage",
        "ControllerConfig",
    ];
    let up_to_date = || verdict(Healthy, "Resource is up-to-date.");
    let Some(status) = live.get("status").and_then(Value::as_object) else { return up_to_date() };
    if status.is_empty() && STATIC.contains(&kind) {
        return up_to_date();
    }
    if conditions(live).is_empty() {
        if kind.ends_with("ProviderConfig") && status.get("users").is_some_and(|users| !users.is_null()) {
            return verdict(Healthy, "Resource is in use.");
        }
        return verdict(Progressing, "Provisioning ...");
    }
    if let Some(unhealthy) = condition_is(live, "Healthy", "False") {
        let installed = condition(live, "Installed").map_or("", |installed| text(installed, "reason"));
        return verdict(Degraded, format!("{installed} {}", text(unhealthy, "reason")).trim());
    }
    for kind in ["Synced", "LastAsyncOperation"] {
        if let Some(failed) = condition_is(live, kind, "False") {
            return verdict(Degraded, text(failed, "message"));
        }
    }
    let good = ["Ready", "Healthy", "Offered", "Established", "ValidPipeline", "RevisionHealthy"];
    if good.into_iter().any(|kind| condition_is(live, kind, "True").is_some()) {
        return up_to_date();
    }
    verdict(Progressing, "Provisioning ...")
}

/// Resources of the older AWS provider, which says more than the others.
fn crossplane_aws(live: &Value, kind: &str) -> Verdict {
    let shown = match kind {
        "Distribution" => "distribution",
        "ResourceRecordSet" => "resourcrecordset",
        other => other,
    };
    if live.get("status").is_none_or(Value::is_null) {
        return verdict(Progressing, format!("Waiting for {shown} to be created"));
    }
    if let Some(failed) = condition_is(live, "Synced", "False") {
        return match text(failed, "reason") {
            "ReconcilePaused" => verdict(Suspended, "ReconcilePaused"),
            _ => verdict(Degraded, text(failed, "message")),
        };
    }
    match condition_is(live, "Ready", "True") {
        Some(ready) => verdict(Healthy, text(ready, "reason")),
        None => verdict(Progressing, format!("Waiting for {shown} to be available")),
    }
}

fn stack_install(live: &Value) -> Verdict {
    let list = list_at(live, &["status", "conditionedStatus", "conditions"]);
    match list.iter().find(|condition| text(condition, "type") == "Ready") {
        None => verdict(Progressing, "Waiting for stack to be installed"),
        Some(ready) if text(ready, "status") == "True" => verdict(Healthy, text(ready, "reason")),
        Some(ready) => verdict(Progressing, text(ready, "reason")),
    }
}

fn aws_controller(live: &Value) -> Verdict {
    let message = |condition: &Value| {
        let message = text(condition, "message");
        if message.is_empty() { text(condition, "reason").to_owned() } else { message.to_owned() }
    };
    if let Some(terminal) = condition_is(live, "ACK.Terminal", "True") {
        return verdict(Degraded, message(terminal));
    }
    let ready = condition(live, "Ready").or_else(|| condition(live, "ACK.ResourceSynced"));
    match ready {
        Some(ready) if text(ready, "status") == "True" => verdict(Healthy, message(ready)),
        Some(ready) => verdict(Progressing, message(ready)),
        None => verdict(Progressing, "Waiting for resource to be ready"),
    }
}

fn config_connector(live: &Value) -> Verdict {
    let count = |path: &[&str]| at(live, path).and_then(Value::as_i64);
    let updating = || verdict(Progressing, "Update in progress");
    let is_current = count(&["metadata", "generation"]) == count(&["status", "observedGeneration"]);
    let Some(ready) = condition(live, "Ready").filter(|_| is_current) else { return updating() };
    let message = text(ready, "message");
    match text(ready, "reason") {
        "UpToDate" if text(ready, "status") == "True" => verdict(Healthy, message),
        "UpdateFailed" | "DependencyNotFound" => verdict(Degraded, message),
        "DependencyNotReady" => verdict(Suspended, message),
        _ => updating(),
    }
}

fn volume_snapshot(live: &Value) -> Verdict {
    if at(live, &["status", "readyToUse"]) == Some(&Value::Bool(true)) {
        return verdict(Healthy, "Ready to use");
    }
    match at(live, &["status", "error"]).filter(|error| error.is_object()) {
        Some(error) => verdict(Degraded, text(error, "message")),
        None => verdict(Progressing, "Waiting for status"),
    }
}

fn virtual_machine(live: &Value) -> Verdict {
    let message = text_at(live, &["status", "printableStatus"]);
    if message.is_empty() && conditions(live).is_empty() {
        return verdict(Progressing, "No status available");
    }
    let is_created = at(live, &["status", "created"]) == Some(&Value::Bool(true));
    let status = if condition_is(live, "Paused", "True").is_some() {
        Suspended
    } else if condition_is(live, "Ready", "True").is_some() {
        Healthy
    } else if is_created {
        Progressing
    } else {
        Suspended
    };
    verdict(status, message)
}

fn openshift_route(live: &Value) -> Verdict {
    let ingresses = list_at(live, &["status", "ingress"]);
    let mut admitted = 0;
    for condition in ingresses.iter().flat_map(|ingress| list_at(ingress, &["conditions"])) {
        if text(condition, "type") != "Admitted" {
            continue;
        }
        match text(condition, "status") {
            "True" => admitted += 1,
            "False" => return verdict(Degraded, text(condition, "message")),
            _ => {}
        }
    }
    if !ingresses.is_empty() && admitted == ingresses.len() {
        verdict(Healthy, "Route is healthy")
    } else {
        verdict(Progressing, "Route is still getting admitted")
    }
}

fn knative_service(live: &Value) -> Verdict {
    let kinds = ["ConfigurationsReady", "RoutesReady", "Ready"];
    if kinds.into_iter().all(|kind| condition_is(live, kind, "True").is_some()) {
        return verdict(Healthy, "Knative Service is healthy.");
    }
    let mut message = String::new();
    for found in conditions(live) {
        let (kind, status) = (text(found, "type"), text(found, "status"));
        if kinds.contains(&kind) && status != "True" {
            let line =
                format!("{kind} is {status}, since {}. {}\n", text(found, "reason"), text(found, "message"));
            message.push_str(&line);
        }
    }
    let is_failed = kinds.into_iter().any(|kind| condition_is(live, kind, "False").is_some());
    verdict(if is_failed { Degraded } else { Progressing }, message)
}
