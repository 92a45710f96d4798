//! Which kinds have columns of their own.

use serde_json::Value;

use super::row::Row;
use super::{cluster, hpa, network, pod, storage, workload};

/// The columns and cells of a kind.
#[derive(Clone, Copy)]
pub(super) struct Printer {
    /// As [`super::column::definitions`] reads them.
    pub(super) columns: &'static str,
    /// One value per column.
    pub(super) cells: fn(&Row<'_>) -> Vec<Value>,
}

type Entry = (&'static str, &'static str, &'static str, fn(&Row<'_>) -> Vec<Value>);

/// The printer of a built-in resource; `None` for those that show their name and creation only.
pub(super) fn of(group: &str, plural: &str) -> Option<Printer> {
    let tables = [CORE, WORKLOADS, NETWORK, STORAGE, CLUSTER];
    let (.., columns, cells) =
        tables.into_iter().flatten().find(|entry| (entry.0, entry.1) == (group, plural))?;
    Some(Printer { columns, cells: *cells })
}

const EVENT_COLUMNS: &str =
    "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*";
const REPLICA_COLUMNS: &str =
    "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*";
const BINDING_COLUMNS: &str = "Name|Role|Age|Users*|Groups*|ServiceAccounts*";
const WEBHOOK_COLUMNS: &str = "Name|Webhooks:integer|Age";
const POLICY_BINDING_COLUMNS: &str = "Name|PolicyName|ParamRef|Age";

const CORE: &[Entry] = &[
    ("", "componentstatuses", "Name|Status|Message|Error", cluster::component_status),
    ("", "configmaps", "Name|Data|Age", cluster::config_map),
    ("", "endpoints", "Name|Endpoints|Age", network::endpoints),
    ("", "events", EVENT_COLUMNS, cluster::event),
    ("", "namespaces", "Name|Status|Age", cluster::namespace),
    (
        "",
        "nodes",
        "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
        cluster::node,
    ),
    (
        "",
        "persistentvolumeclaims",
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
        storage::claim,
    ),
    (
        "",
        "persistentvolumes",
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age\
         |VolumeMode*",
        storage::volume,
    ),
    ("", "pods", "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*", pod::cells),
    ("", "podtemplates", "Name|Containers|Images|Pod Labels", workload::pod_template),
    ("", "replicationcontrollers", REPLICA_COLUMNS, workload::replication_controller),
    ("", "resourcequotas", "Name|Request|Limit|Age", cluster::resource_quota),
    ("", "secrets", "Name|Type|Data|Age", cluster::secret),
    ("", "serviceaccounts", "Name|Age", cluster::name_and_age),
    ("", "services", "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*", network::service),
];

const WORKLOADS: &[Entry] = &[
    ("apps", "controllerrevisions", "Name|Controller|Revision|Age", workload::controller_revision),
    (
        "apps",
        "daemonsets",
        "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector\
         |Age|Containers*|Images*|Selector*",
        workload::daemon_set,
    ),
    (
        "apps",
        "deployments",
        "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
        workload::deployment,
    ),
    ("apps", "replicasets", REPLICA_COLUMNS, workload::replica_set),
    ("apps", "statefulsets", "Name|Ready|Age|Containers*|Images*", workload::stateful_set),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        hpa::cells,
    ),
    (
        "batch",
        "cronjobs",
        "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
        workload::cron_job,
    ),
    ("batch", "jobs", "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*", workload::job),
    (
        "policy",
        "poddisruptionbudgets",
        "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
        workload::disruption_budget,
    ),
];

const NETWORK: &[Entry] = &[
    ("discovery.k8s.io", "endpointslices", "Name|AddressType|Ports|Endpoints|Age", network::endpoint_slice),
    ("networking.k8s.io", "ingressclasses", "Name|Controller|Parameters|Age", network::ingress_class),
    ("networking.k8s.io", "ingresses", "Name|Class|Hosts|Address|Ports|Age", network::ingress),
    // The server sends an age behind these two columns too, and clients show what has a header.
    ("networking.k8s.io", "ipaddresses", "Name|ParentRef", network::ip_address),
    ("networking.k8s.io", "networkpolicies", "Name|Pod-Selector|Age", network::network_policy),
    ("networking.k8s.io", "servicecidrs", "Name|CIDRs|Age", network::service_cidr),
];

const STORAGE: &[Entry] = &[
    (
        "storage.k8s.io",
        "csidrivers",
        "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests\
         |RequiresRepublish:boolean|Modes|Age",
        storage::driver,
    ),
    ("storage.k8s.io", "csinodes", "Name|Drivers:integer|Age", storage::node),
    (
        "storage.k8s.io",
        "storageclasses",
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        storage::class,
    ),
    (
        "storage.k8s.io",
        "volumeattachments",
        "Name|Attacher|PV|Node|Attached:boolean|Age",
        storage::attachment,
    ),
    ("storage.k8s.io", "volumeattributesclasses", "Name|DriverName|Age", storage::attributes_class),
];

const CLUSTER: &[Entry] = &[
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        "Name|Mutations:integer|ParamKind|Age",
        cluster::mutating_policy,
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        POLICY_BINDING_COLUMNS,
        cluster::policy_binding,
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", WEBHOOK_COLUMNS, cluster::webhooks),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        "Name|Validations:integer|ParamKind|Age",
        cluster::validating_policy,
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        POLICY_BINDING_COLUMNS,
        cluster::policy_binding,
    ),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", WEBHOOK_COLUMNS, cluster::webhooks),
    ("apiregistration.k8s.io", "apiservices", "Name|Service|Available|Age", cluster::api_service),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "Name|Age|SignerName|Requestor|RequestedDuration|Condition",
        cluster::signing_request,
    ),
    ("coordination.k8s.io", "leases", "Name|Holder|Age", cluster::lease),
    ("events.k8s.io", "events", EVENT_COLUMNS, cluster::event),
    (
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
        cluster::flow_schema,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
        cluster::priority_level,
    ),
    ("node.k8s.io", "runtimeclasses", "Name|Handler|Age", cluster::runtime_class),
    ("rbac.authorization.k8s.io", "clusterrolebindings", BINDING_COLUMNS, cluster::role_binding),
    ("rbac.authorization.k8s.io", "rolebindings", BINDING_COLUMNS, cluster::role_binding),
    ("resource.k8s.io", "deviceclasses", "Name|Age", cluster::name_and_age),
    ("resource.k8s.io", "resourceclaims", "Name|State|Age", cluster::resource_claim),
    ("resource.k8s.io", "resourceclaimtemplates", "Name|Age", cluster::name_and_age),
    ("resource.k8s.io", "resourceslices", "Name|Node|Driver|Pool|Age", cluster::resource_slice),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
        cluster::priority_class,
    ),
];
