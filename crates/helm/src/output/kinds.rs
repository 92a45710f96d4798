//! The order in which kinds are installed (RND-204).

use crate::HelmVersion;

use super::Manifest;

const ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    // Helm 3 does not know the rest.
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Kinds that Helm 3 ranks.
const RANKED_IN_V3: usize = 36;

fn rank(kind: &str, version: HelmVersion) -> usize {
    let known = match version {
        HelmVersion::V3 => RANKED_IN_V3,
        HelmVersion::V4 => ORDER.len(),
    };
    ORDER.iter().take(known).position(|ranked| *ranked == kind).unwrap_or(known)
}

/// Sorts manifests by their kinds: those with a rank, then the others by name. Equal kinds keep their order.
pub(super) fn sort(manifests: Vec<Manifest>, kinds: Vec<String>, version: HelmVersion) -> Vec<Manifest> {
    let unknown = rank("", version);
    let mut ranked: Vec<(usize, String, Manifest)> = kinds
        .into_iter()
        .zip(manifests)
        .map(|(kind, manifest)| {
            let rank = rank(&kind, version);
            (rank, if rank == unknown { kind } else { String::new() }, manifest)
        })
        .collect();
    ranked.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    ranked.into_iter().map(|(_, _, manifest)| manifest).collect()
}
