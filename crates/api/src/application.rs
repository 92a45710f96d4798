//! The Application resource as it is on the wire (CTL-1..10).
//!
//! Members are what the CRD has, optional ones absent when empty. Unknown members survive a round trip.

mod abridged;
mod hydrator;
mod source;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::codes::ConditionType;
pub use abridged::{OMITTED, are_copies};
pub use hydrator::Hydrator;
pub use source::{
    ApplicationSource, DirectorySource, HelmFileParameter, HelmParameter, HelmSource, IntOrString,
    JsonnetSource, JsonnetVariable, KustomizePatch, KustomizeReplica, KustomizeSelector, KustomizeSource,
    PluginParameter, PluginSource, PluginVariable,
};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// `null` reads as the default, as the Kubernetes decoders do.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// Where the objects of an application go: exactly one of server and name (CTL-11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Destination {
    /// URL of the API server.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub server: String,
    /// Namespace for objects that have none.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What the user declares (CTL-3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSpec {
    /// Name of the `AppProject`; empty means `default`.
    #[serde(deserialize_with = "null_as_default")]
    pub project: String,
    /// Where the objects go.
    pub destination: Destination,
    /// The only source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Several sources; wins over `source`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sources: Vec<ApplicationSource>,
    /// Where the manifests are rendered from and committed to; wins over `source` and `sources`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_hydrator: Option<Hydrator>,
    /// When and how to sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_policy: Option<SyncPolicy>,
    /// Differences that do not count.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ignore_differences: Vec<IgnoreDifference>,
    /// Notes for display.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub info: Vec<Info>,
    /// Entries of history to keep; absent means 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i64>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// When and how to sync (CTL-3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncPolicy {
    /// Automatic sync; absent means manual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated: Option<AutomatedSync>,
    /// Sync options, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sync_options: Vec<String>,
    /// What to do after a failed sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryStrategy>,
    /// Metadata of the created namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_namespace_metadata: Option<NamespaceMetadata>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Automatic sync (CTL-3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutomatedSync {
    /// Whether objects that left the source are deleted.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub prune: bool,
    /// Whether live changes are undone.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub self_heal: bool,
    /// Whether a source without objects may be synced.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub allow_empty: bool,
    /// Absent counts as true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What to do after a failed sync (CTL-49).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryStrategy {
    /// Number of retries; negative means unlimited.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_as_default")]
    pub limit: i64,
    /// How long to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Whether a retry takes the newest revision.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub refresh: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Exponential waiting (CTL-49).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Backoff {
    /// First wait, a Go duration or seconds.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub duration: String,
    /// Growth per retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<i64>,
    /// Longest wait.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub max_duration: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Labels and annotations of the created namespace (ENG-157).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// One rule of `ignoreDifferences` (ENG-64).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IgnoreDifference {
    /// Glob on the API group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// Glob on the kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Exact name, empty matches all.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Exact namespace, empty matches all.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// JSON pointers to ignore.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub json_pointers: Vec<String>,
    /// jq paths to ignore.
    #[serde(
        rename = "jqPathExpressions",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub jq_path_expressions: Vec<String>,
    /// Field managers whose changes are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub managed_fields_managers: Vec<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A note for display.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Info {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Value.
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What the last comparison was made with (CTL-9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComparedTo {
    /// The source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// The sources.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sources: Vec<ApplicationSource>,
    /// The destination.
    pub destination: Destination,
    /// The ignore rules.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ignore_differences: Vec<IgnoreDifference>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Result of the last comparison (CTL-9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncStatus {
    /// `Synced`, `OutOfSync` or `Unknown`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// Inputs of the comparison.
    pub compared_to: ComparedTo,
    /// Resolved revision of the only source.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub revision: String,
    /// Resolved revisions, one per source.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub revisions: Vec<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Health of an application or an object (ENG-96).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthStatus {
    /// One of the six codes, or empty.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub status: String,
    /// Reason, for people.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub message: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// State of one object of an application (CTL-9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceStatus {
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kind: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Sync status.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub status: String,
    /// Health, when stored inline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthStatus>,
    /// Whether it is a hook.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub hook: bool,
    /// Whether it left the source.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub requires_pruning: bool,
    /// Sync wave.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_as_default")]
    pub sync_wave: i64,
    /// Whether a deletion needs confirmation.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub requires_deletion_confirmation: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An observation about an application (CTL-16).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type; one that ends in `Error` is an error.
    #[serde(deserialize_with = "null_as_default")]
    pub r#type: String,
    /// Text for people.
    #[serde(deserialize_with = "null_as_default")]
    pub message: String,
    /// When it appeared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Condition {
    /// A condition without a time; whoever stores it keeps the time of one that was there before.
    pub fn new(kind: ConditionType, message: impl Into<String>) -> Self {
        Self { r#type: kind.into(), message: message.into(), ..Self::default() }
    }
}

/// Who started an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationInitiator {
    /// User.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub username: String,
    /// Whether automatic sync did.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub automated: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A requested operation (CTL-7).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Operation {
    /// The sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncOperation>,
    /// Who asked.
    pub initiated_by: OperationInitiator,
    /// Notes.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub info: Vec<Info>,
    /// Retries.
    pub retry: RetryStrategy,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Parameters of a sync (CTL-7).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncOperation {
    /// Revision of the only source.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub revision: String,
    /// Whether to delete what left the source.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub prune: bool,
    /// Whether to change nothing.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub dry_run: bool,
    /// Apply or hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_strategy: Option<SyncStrategy>,
    /// Objects of a partial sync.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<SyncResource>,
    /// Source that replaces the one of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Local manifests.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub manifests: Vec<String>,
    /// Sync options.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sync_options: Vec<String>,
    /// Sources that replace those of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sources: Vec<ApplicationSource>,
    /// Revisions, one per source.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub revisions: Vec<String>,
    /// Self-heal attempts so far.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_as_default")]
    pub auto_heal_attempts_count: i64,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// How to sync (CTL-7, CTL-8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncStrategy {
    /// Without hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply: Option<StrategyForce>,
    /// With hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<StrategyForce>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Options of a strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyForce {
    /// Delete and recreate where a patch fails.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub force: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Selector of one object of a partial sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncResource {
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// State of the running or last operation (CTL-9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationState {
    /// The operation.
    pub operation: Operation,
    /// `Running`, `Terminating`, `Succeeded`, `Failed` or `Error`.
    #[serde(deserialize_with = "null_as_default")]
    pub phase: String,
    /// Text for people.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub message: String,
    /// Results so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_result: Option<SyncResult>,
    /// Start, RFC 3339.
    #[serde(deserialize_with = "null_as_default")]
    pub started_at: String,
    /// End, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Retries so far.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_as_default")]
    pub retry_count: i64,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Results of a sync (CTL-9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncResult {
    /// One entry per object and phase.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<ResourceResult>,
    /// Resolved revision.
    #[serde(deserialize_with = "null_as_default")]
    pub revision: String,
    /// Source used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// Sources used.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sources: Vec<ApplicationSource>,
    /// Resolved revisions.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub revisions: Vec<String>,
    /// Namespace metadata used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_namespace_metadata: Option<NamespaceMetadata>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Result of one object (ENG-189).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceResult {
    /// API group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Namespace.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// `Synced`, `SyncFailed`, `Pruned`, `PruneSkipped` or empty.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub status: String,
    /// Text for people.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub message: String,
    /// Phase, for hooks.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub hook_type: String,
    /// Operation phase of the task.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub hook_phase: String,
    /// Sync phase.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub sync_phase: String,
    /// Images.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub images: Vec<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// One successful deployment (CTL-54).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryEntry {
    /// Resolved revision.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub revision: String,
    /// When it ended.
    #[serde(deserialize_with = "null_as_default")]
    pub deployed_at: String,
    /// Number, from 0.
    #[serde(deserialize_with = "null_as_default")]
    pub id: i64,
    /// Source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ApplicationSource>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_started_at: Option<String>,
    /// Sources.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sources: Vec<ApplicationSource>,
    /// Revisions.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub revisions: Vec<String>,
    /// Who asked.
    pub initiated_by: OperationInitiator,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What the tree shows at a glance (ENG-202).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// URLs.
    #[serde(
        rename = "externalURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub external_urls: Vec<String>,
    /// Images.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub images: Vec<String>,
    /// Whether it manages Applications.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub is_app_of_apps: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What the controller observed (CTL-9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationStatus {
    /// Objects, sorted by key.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<ResourceStatus>,
    /// Result of the last comparison.
    pub sync: SyncStatus,
    /// Health.
    pub health: HealthStatus,
    /// Deployments, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub history: Vec<HistoryEntry>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    /// Last comparison at level 2 or above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled_at: Option<String>,
    /// When the application was last observed; older versions wrote it, and it is kept as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<String>,
    /// Running or last operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_state: Option<Box<OperationState>>,
    /// Type of the only source.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub source_type: String,
    /// Images and links.
    pub summary: Summary,
    /// Where health of objects is kept.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_health_source: String,
    /// Types of the sources.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub source_types: Vec<String>,
    /// Namespace of the controller.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub controller_namespace: String,
    /// Hydrator state, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_hydrator: Option<Map<String, Value>>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An Application object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Application {
    /// Standard metadata.
    pub metadata: Metadata,
    /// What the user declares.
    pub spec: ApplicationSpec,
    /// What the controller observed.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ApplicationStatus,
    /// The requested operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<Operation>>,
}

/// The members of standard metadata that the product reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    pub name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unique id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version of the stored object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Generation of the spec.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Creation time, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Deletion time, RFC 3339, while the object waits for its finalizers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
}

impl Application {
    /// `metadata.annotations[key]`.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// The project's name; empty means `default` (CTL-3).
    pub fn project(&self) -> &str {
        if self.spec.project.is_empty() { "default" } else { &self.spec.project }
    }

    /// The sources in force: that of the hydrated branch when there is a hydrator, else `sources` when non-empty, else
    /// `source` (CTL-5, CTL-135).
    pub fn sources(&self) -> &[ApplicationSource] {
        match &self.spec.source_hydrator {
            Some(hydrator) => std::slice::from_ref(hydrator.sync_source()),
            None if self.spec.sources.is_empty() => self.spec.source.as_slice(),
            None => &self.spec.sources,
        }
    }

    /// The only source in force; `None` where there are several, or none.
    pub fn single_source(&self) -> Option<&ApplicationSource> {
        if self.is_multi_source() { None } else { self.sources().first() }
    }

    /// Whether a source was rendered by a plugin when it was compared last.
    pub fn was_plugin(&self) -> bool {
        let types = self.status.source_types.iter().map(String::as_str);
        types.chain([self.status.source_type.as_str()]).any(|kind| kind == "Plugin")
    }

    /// Whether `spec.sources` is in force.
    pub fn is_multi_source(&self) -> bool {
        self.spec.source_hydrator.is_none() && !self.spec.sources.is_empty()
    }

    /// Whether automatic sync is on: the block is present and `enabled` is not false (CTL-3).
    pub fn automated(&self) -> Option<&AutomatedSync> {
        let automated = self.spec.sync_policy.as_ref()?.automated.as_ref()?;
        (automated.enabled != Some(false)).then_some(automated)
    }

    /// The sync options of the spec.
    pub fn sync_options(&self) -> &[String] {
        self.spec.sync_policy.as_ref().map_or(&[], |policy| policy.sync_options.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sty_42_unknown_members_survive_a_round_trip() {
        let text = r#"{"metadata":{"name":"a"},"spec":{"project":"p","destination":{"server":"s","x":1},
            "source":{"repoURL":"u","future":{"a":[1]},"helm":{"values":"b"}}},"status":{"sync":{"status":""},"health":{}}}"#;
        let app: Application = serde_json::from_str(text).unwrap();
        let back = serde_json::to_value(&app).unwrap();
        assert_eq!(back["spec"]["source"]["future"]["a"][0], 1);
        assert_eq!(back["spec"]["destination"]["x"], 1);
        assert_eq!(back["spec"]["source"]["helm"]["values"], "b");
    }

    #[test]
    fn ctl_3_null_lists_and_status_read_as_absent() {
        let text = r#"{"metadata":{"name":"a","labels":null},"spec":{"project":"p","destination":{},"sources":null},"status":null}"#;
        let app: Application = serde_json::from_str(text).unwrap();
        assert!(app.sources().is_empty());
        assert!(app.automated().is_none());
    }
}
