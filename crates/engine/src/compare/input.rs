//! The facts a comparison needs, taken at one instant.

use std::fmt;
use std::sync::Arc;

use tiphys_api::Application;
use tiphys_api::application::NamespaceMetadata;
use tiphys_object::{GroupKind, Object, ResourceKey};

use crate::diff::DiffSettings;
use crate::normalize::IgnoreRules;
use crate::seen::Seen;
use crate::tracking::Ownership;

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They do.
    Namespaced,
    /// They do not.
    Cluster,
}

/// Everything [`compare`](super::compare) looks at.
#[derive(Clone, Copy)]
pub struct CompareInput<'a> {
    /// Namespace of the application.
    pub application_namespace: &'a str,
    /// Name of the application.
    pub application_name: &'a str,
    /// Namespace for objects that have none; empty when the destination names none.
    pub destination_namespace: &'a str,
    /// Desired objects in generation order, as generated, marks included.
    pub targets: &'a [Arc<Object>],
    /// Live root objects that may be the application's (TRK-87), completely listed.
    pub managed: &'a [Arc<Object>],
    /// Looks one live object up.
    pub by_key: &'a dyn Fn(&ResourceKey) -> Seen<Arc<Object>>,
    /// Scope of a kind; `None` when the cluster does not say.
    pub scope: &'a dyn Fn(&GroupKind) -> Option<Scope>,
    /// Whether the settings exclude a kind (ENG-7).
    pub excluded: &'a dyn Fn(&GroupKind) -> bool,
    /// Whether the project lets the application see a live object (ENG-44).
    pub permitted_live: &'a dyn Fn(&Object) -> bool,
    /// Whether the project permits the group, kind and name (ENG-51).
    pub permitted_kind: &'a dyn Fn(&ResourceKey) -> bool,
    /// What is the application's.
    pub ownership: Ownership<'a>,
    /// Compiled ignore rules.
    pub ignore: &'a IgnoreRules,
    /// Settings of the comparison itself.
    pub diff: &'a DiffSettings,
    /// Sync options of the application.
    pub sync_options: &'a [String],
    /// `syncPolicy.managedNamespaceMetadata`.
    pub managed_namespace: Option<&'a NamespaceMetadata>,
    /// Whether that differs from the last sync's; see [`managed_namespace_changed`].
    pub managed_namespace_changed: bool,
}

impl fmt::Debug for CompareInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompareInput")
            .field("ownership", &self.ownership)
            .field("targets", &self.targets.len())
            .field("managed", &self.managed.len())
            .finish_non_exhaustive()
    }
}

/// Whether the metadata of the managed namespace was changed since the last sync (ENG-51). False without such
/// metadata and before the first sync.
pub fn managed_namespace_changed(application: &Application) -> bool {
    let Some(wanted) =
        application.spec.sync_policy.as_ref().and_then(|policy| policy.managed_namespace_metadata.as_ref())
    else {
        return false;
    };
    application
        .status
        .operation_state
        .as_ref()
        .and_then(|state| state.sync_result.as_ref())
        .is_some_and(|result| result.managed_namespace_metadata.as_ref() != Some(wanted))
}

/// Cluster-scoped kinds of the groups that Kubernetes itself serves.
const CLUSTER_SCOPED: &[(&str, &[&str])] = &[
    ("", &["ComponentStatus", "Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("authentication.k8s.io", &["SelfSubjectReview", "TokenReview"]),
    ("authorization.k8s.io", &["SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"]),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "DeviceTaintRule", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// Groups that Kubernetes itself serves and that have only namespaced kinds.
const NAMESPACED_GROUPS: [&str; 8] = [
    "apps",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "metrics.k8s.io",
];

/// Scope of a kind of the groups that Kubernetes itself serves, for work without a cluster; `None` for others.
pub fn builtin_scope(kind: &GroupKind) -> Option<Scope> {
    if let Some((_, kinds)) = CLUSTER_SCOPED.iter().find(|(group, _)| *group == kind.group) {
        let is_cluster = kinds.contains(&kind.kind.as_str());
        return Some(if is_cluster { Scope::Cluster } else { Scope::Namespaced });
    }
    NAMESPACED_GROUPS.contains(&kind.group.as_str()).then_some(Scope::Namespaced)
}
