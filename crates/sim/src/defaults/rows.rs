//! Defaults that are one value for one member of a struct, wherever the struct stands.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;
use tiphys_object::builtin::{Shape, StructType};

use crate::tree::Members;

/// A struct, and members with the JSON that they default to.
const ROWS: &str = r#"
core/v1.AzureDiskVolumeSource cachingMode="ReadWrite" fsType="ext4" kind="Shared" readOnly=false
core/v1.ConfigMapVolumeSource defaultMode=420
core/v1.ContainerPort protocol="TCP"
core/v1.Container terminationMessagePath="/dev/termination-log" terminationMessagePolicy="File"
core/v1.DownwardAPIVolumeSource defaultMode=420
core/v1.EndpointPort protocol="TCP"
core/v1.EphemeralContainer terminationMessagePath="/dev/termination-log" terminationMessagePolicy="File"
core/v1.FileKeySelector optional=false
core/v1.GRPCAction service=""
core/v1.HTTPGetAction path="/" scheme="HTTP"
core/v1.HostPathVolumeSource type=""
core/v1.ISCSIPersistentVolumeSource iscsiInterface="default"
core/v1.ISCSIVolumeSource iscsiInterface="default"
core/v1.NamespaceStatus phase="Active"
core/v1.ObjectFieldSelector apiVersion="v1"
core/v1.PersistentVolumeClaimSpec volumeMode="Filesystem"
core/v1.PersistentVolumeClaimStatus phase="Pending"
core/v1.PersistentVolumeSpec persistentVolumeReclaimPolicy="Retain" volumeMode="Filesystem"
core/v1.PersistentVolumeStatus phase="Pending"
core/v1.PodSpec dnsPolicy="ClusterFirst" restartPolicy="Always" securityContext={} terminationGracePeriodSeconds=30 schedulerName="default-scheduler"
core/v1.Probe timeoutSeconds=1 periodSeconds=10 successThreshold=1 failureThreshold=3
core/v1.ProjectedVolumeSource defaultMode=420
core/v1.RBDPersistentVolumeSource pool="rbd" user="admin" keyring="/etc/ceph/keyring"
core/v1.RBDVolumeSource pool="rbd" user="admin" keyring="/etc/ceph/keyring"
core/v1.ReplicationControllerSpec replicas=1
core/v1.ScaleIOPersistentVolumeSource storageMode="ThinProvisioned" fsType="xfs"
core/v1.ScaleIOVolumeSource storageMode="ThinProvisioned" fsType="xfs"
core/v1.Secret type="Opaque"
core/v1.SecretVolumeSource defaultMode=420
core/v1.ServiceAccountTokenProjection expirationSeconds=3600
core/v1.ServicePort protocol="TCP"
apps/v1.DaemonSetSpec revisionHistoryLimit=10
apps/v1.DaemonSetUpdateStrategy type="RollingUpdate"
apps/v1.DeploymentSpec replicas=1 revisionHistoryLimit=10 progressDeadlineSeconds=600
apps/v1.DeploymentStrategy type="RollingUpdate"
apps/v1.ReplicaSetSpec replicas=1
apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted="Retain" whenScaled="Retain"
apps/v1.StatefulSetSpec podManagementPolicy="OrderedReady" replicas=1 revisionHistoryLimit=10 persistentVolumeClaimRetentionPolicy={}
batch/v1.CronJobSpec concurrencyPolicy="Allow" suspend=false successfulJobsHistoryLimit=3 failedJobsHistoryLimit=1
batch/v1.PodFailurePolicyOnPodConditionsPattern status="True"
autoscaling/v1.HorizontalPodAutoscalerSpec minReplicas=1 targetCPUUtilizationPercentage=80
autoscaling/v2.HorizontalPodAutoscalerSpec minReplicas=1
networking/v1.IngressClassParametersReference scope="Cluster"
networking/v1.NetworkPolicyPort protocol="TCP"
rbac/v1.RoleRef apiGroup="rbac.authorization.k8s.io"
storage/v1.CSIDriverSpec attachRequired=true podInfoOnMount=false storageCapacity=false fsGroupPolicy="ReadWriteOnceWithFSType" volumeLifecycleModes=["Persistent"] requiresRepublish=false seLinuxMount=false
storage/v1.StorageClass reclaimPolicy="Delete" volumeBindingMode="Immediate"
scheduling/v1.PriorityClass preemptionPolicy="PreemptLowerPriority"
admissionregistration/v1.ValidatingWebhook failurePolicy="Fail" matchPolicy="Equivalent" namespaceSelector={} objectSelector={} timeoutSeconds=10
admissionregistration/v1.MutatingWebhook failurePolicy="Fail" matchPolicy="Equivalent" namespaceSelector={} objectSelector={} timeoutSeconds=10 reinvocationPolicy="Never"
admissionregistration/v1.RuleWithOperations scope="*"
admissionregistration/v1.NamedRuleWithOperations scope="*"
admissionregistration/v1.ServiceReference port=443
admissionregistration/v1.ValidatingAdmissionPolicySpec failurePolicy="Fail"
admissionregistration/v1.MutatingAdmissionPolicySpec failurePolicy="Fail"
admissionregistration/v1.MatchResources matchPolicy="Equivalent" namespaceSelector={} objectSelector={}
discovery/v1.EndpointPort name="" protocol="TCP"
flowcontrol/v1.FlowSchemaSpec matchingPrecedence=1000
flowcontrol/v1.ExemptPriorityLevelConfiguration nominalConcurrencyShares=0 lendablePercent=0
flowcontrol/v1.LimitedPriorityLevelConfiguration nominalConcurrencyShares=30 lendablePercent=0
flowcontrol/v1.QueuingConfiguration handSize=8 queues=64 queueLengthLimit=50
resource/v1.DeviceToleration operator="Equal"
"#;

static TABLE: LazyLock<HashMap<&'static str, Vec<(&'static str, Value)>>> = LazyLock::new(|| {
    let read = |word: &'static str| {
        let (name, json) = word.split_once('=')?;
        Some((name, serde_json::from_str(json).ok()?))
    };
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        Some((words.next()?, words.filter_map(read).collect()))
    };
    ROWS.lines().filter(|text| !text.is_empty()).filter_map(line).collect()
});

/// Sets the members of a struct that have a default of their own.
pub(super) fn fill_in(members: &mut Members, schema: &StructType) {
    let Some(defaults) = TABLE.get(schema.name()) else { return };
    for (name, default) in defaults {
        let Some(field) = schema.field(name) else { continue };
        if is_unset(members.get(*name), field.shape) {
            members.insert((*name).to_owned(), default.clone());
        }
    }
}

/// Whether the value is the zero of its type. What a pointer points to is never that.
fn is_unset(value: Option<&Value>, shape: Shape) -> bool {
    match (value, shape) {
        (None | Some(Value::Null), _) => true,
        (_, Shape::Pointer(_)) => false,
        (Some(Value::String(text)), _) => text.is_empty(),
        (Some(Value::Number(number)), _) => number.as_i64() == Some(0),
        (Some(Value::Array(items)), _) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let words = ROWS.split_whitespace().filter(|word| word.contains('=')).count();
        assert_eq!(TABLE.values().map(Vec::len).sum::<usize>(), words);
    }
}
