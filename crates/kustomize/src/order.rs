//! The order of kinds (RND-235).

use smol_str::SmolStr;

use crate::id::Gvk;

/// Kinds that come first, in this order.
pub(crate) const FIRST: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
/// Kinds that come last, in this order.
pub(crate) const LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// The place of a kind among others, when some come first and some last.
pub(crate) fn rank(kind: &str, first: &[SmolStr], last: &[SmolStr]) -> isize {
    // A kind that is in both, or twice, has its last place.
    let signed = |at: usize| isize::try_from(at).unwrap_or(isize::MAX);
    if let Some(at) = last.iter().rposition(|name| name == kind) {
        return 1 + signed(at);
    }
    first.iter().rposition(|name| name == kind).map_or(0, |at| signed(at) - signed(first.len()))
}

/// The place of a kind by the built-in lists, and the text that decides between equals.
pub(crate) fn default_rank(gvk: &Gvk) -> (isize, String) {
    let signed = |at: usize| isize::try_from(at).unwrap_or(isize::MAX);
    let place = match (
        FIRST.iter().position(|name| *name == gvk.kind),
        LAST.iter().position(|name| *name == gvk.kind),
    ) {
        (_, Some(at)) => 1 + signed(at),
        (Some(at), None) => signed(at) - signed(FIRST.len()),
        (None, None) => 0,
    };
    (place, gvk.sort_text())
}
