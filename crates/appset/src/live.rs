//! Applications that exist, as far as a set looks at them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tiphys_api::ApplicationSet;
use tiphys_api::codes::{HealthCode, SyncStatusCode};
use tiphys_api::names::{GROUP, VERSION};
use tiphys_api::project::DEFAULT_PROJECT;

use crate::scope::may_make;

/// Kind of sets in references to owners.
const SET_KIND: &str = "ApplicationSet";
/// Who starts the operations of roll-outs (ASET-230).
pub const INITIATOR: &str = "applicationset-controller";

/// An Application that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveApplication {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Unique id.
    pub uid: String,
    /// Version of the stored object.
    pub resource_version: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// References to owners, as written.
    pub owner_references: Vec<Value>,
    /// Since when it waits for its finalizers.
    pub deletion_timestamp: Option<Timestamp>,
    /// What it declares, as written.
    pub spec: Map<String, Value>,
    /// Whether an operation was asked for that has not been taken yet.
    pub has_operation: bool,
    /// What the application controller observed.
    pub status: LiveStatus,
}

/// What the application controller observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveStatus {
    /// Resolved revisions, one for each source.
    pub revisions: Vec<String>,
    /// Sync status.
    pub sync: String,
    /// Health.
    pub health: String,
    /// What the last comparison was made for; null when there was none.
    pub compared_to: Value,
    /// Last comparison.
    pub reconciled_at: Option<Timestamp>,
    /// Running or last operation.
    pub operation: Option<LiveOperation>,
    /// Types of conditions.
    pub conditions: Vec<String>,
}

/// Running or last operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveOperation {
    /// Its phase.
    pub phase: String,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// Whether a roll-out began it.
    pub is_ours: bool,
}

impl LiveApplication {
    /// Reads a stored object without building what a set does not look at.
    ///
    /// # Errors
    /// When it is no Application.
    pub fn read(raw: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<Wire>(raw).map(Self::from)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// When it is no Application.
    pub fn from_value(manifest: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value::<Wire>(manifest).map(Self::from)
    }

    /// The reference to the owner that controls it.
    pub fn controller(&self) -> Option<&Value> {
        self.owner_references.iter().find(|reference| reference.get("controller") == Some(&Value::Bool(true)))
    }

    /// Its project.
    pub fn project(&self) -> &str {
        let project = self.spec.get("project").and_then(Value::as_str).unwrap_or_default();
        if project.is_empty() { DEFAULT_PROJECT } else { project }
    }

    /// Whether a set controls it. After a backup was brought back the set has another unique id than its Applications name
    /// (ASET-131); then the project has to be one that the set makes Applications of, because whoever writes an
    /// Application writes its owner, too, and a name proves nothing (INV-16). A set without a unique id is not stored: it is
    /// only shown what it would do.
    pub fn is_of(&self, set: &ApplicationSet) -> bool {
        let ApplicationSet { metadata, .. } = set;
        self.controller().is_some_and(|reference| {
            let uid = reference.get("uid").and_then(Value::as_str).unwrap_or_default();
            is_set(reference, &metadata.name)
                && (metadata.uid.is_empty() || uid == metadata.uid || may_make(set, self.project()))
        })
    }

    /// Whether it is on its way out.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether it is what it should be, by its own account.
    pub fn is_synced(&self) -> bool {
        self.status.sync == SyncStatusCode::Synced
    }

    /// Whether it works.
    pub fn is_healthy(&self) -> bool {
        self.status.health == HealthCode::Healthy
    }
}

/// Whether a reference means a set of a name.
pub(crate) fn is_set(reference: &Value, set: &str) -> bool {
    let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or("");
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    group == GROUP && text("kind") == SET_KIND && text("name") == set
}

/// The reference by which a set controls its Applications (ASET-131).
pub fn owner_reference(set: &str, uid: &str) -> Value {
    serde_json::json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": SET_KIND,
        "name": set,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// A time; one that cannot be read is none.
fn time<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.and_then(|text| text.parse().ok()))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    metadata: WireMetadata,
    #[serde(deserialize_with = "null_as_default")]
    spec: Map<String, Value>,
    operation: Option<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "null_as_default")]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    #[serde(deserialize_with = "null_as_default")]
    namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    resource_version: String,
    #[serde(deserialize_with = "null_as_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    finalizers: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    owner_references: Vec<Value>,
    #[serde(deserialize_with = "time")]
    deletion_timestamp: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    #[serde(deserialize_with = "null_as_default")]
    sync: WireSync,
    #[serde(deserialize_with = "null_as_default")]
    health: WireHealth,
    #[serde(deserialize_with = "time")]
    reconciled_at: Option<Timestamp>,
    operation_state: Option<WireOperationState>,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSync {
    #[serde(deserialize_with = "null_as_default")]
    status: String,
    #[serde(deserialize_with = "null_as_default")]
    revision: String,
    #[serde(deserialize_with = "null_as_default")]
    revisions: Vec<String>,
    compared_to: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireHealth {
    #[serde(deserialize_with = "null_as_default")]
    status: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireOperationState {
    #[serde(deserialize_with = "null_as_default")]
    phase: String,
    #[serde(deserialize_with = "time")]
    started_at: Option<Timestamp>,
    #[serde(deserialize_with = "null_as_default")]
    operation: WireOperation,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireOperation {
    #[serde(deserialize_with = "null_as_default")]
    initiated_by: WireInitiator,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireInitiator {
    #[serde(deserialize_with = "null_as_default")]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireCondition {
    #[serde(deserialize_with = "null_as_default")]
    r#type: String,
}

impl From<Wire> for LiveApplication {
    fn from(wire: Wire) -> Self {
        let WireMetadata {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            annotations,
            finalizers,
            owner_references,
            deletion_timestamp,
        } = wire.metadata;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            annotations,
            finalizers,
            owner_references,
            deletion_timestamp,
            spec: wire.spec,
            has_operation: wire.operation.is_some(),
            status: wire.status.into(),
        }
    }
}

impl From<WireStatus> for LiveStatus {
    fn from(status: WireStatus) -> Self {
        let WireSync { status: sync, revision, revisions, compared_to } = status.sync;
        let revisions = match (revisions.is_empty(), revision.is_empty()) {
            (false, _) => revisions,
            (true, false) => vec![revision],
            (true, true) => Vec::new(),
        };
        let operation = status.operation_state.map(|state| LiveOperation {
            phase: state.phase,
            started_at: state.started_at,
            is_ours: state.operation.initiated_by.username == INITIATOR,
        });
        Self {
            revisions,
            sync,
            health: status.health.status,
            compared_to,
            reconciled_at: status.reconciled_at,
            operation,
            conditions: status.conditions.into_iter().map(|condition| condition.r#type).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aset_131_the_controlling_owner_is_a_set_of_the_name() {
        let read = |references: Value| {
            LiveApplication::from_value(json!({"metadata": {"name": "a", "ownerReferences": references}}))
                .unwrap()
        };
        let set = |name: &str, project: &str| -> ApplicationSet {
            let spec = json!({"project": project, "template": {"spec": {"project": ""}}});
            serde_json::from_value(json!({"metadata": {"name": name, "uid": "u"}, "spec": spec})).unwrap()
        };
        let (s, t) = (set("s", ""), set("t", ""));
        let ours = owner_reference("s", "u");
        assert!(read(json!([ours])).is_of(&s));
        assert!(!read(json!([ours])).is_of(&t));
        let mut other = owner_reference("s", "u");
        other["controller"] = json!(false);
        assert!(!read(json!([other])).is_of(&s));
        other["controller"] = json!(true);
        other["apiVersion"] = json!("other.io/v1");
        assert!(!read(json!([other])).is_of(&s));
        assert!(!read(Value::Null).is_of(&s));
        // One of another unique id counts in the project of the set.
        let restored = read(json!([owner_reference("s", "before")]));
        assert!(restored.is_of(&s));
        assert!(!restored.is_of(&set("s", "blue")), "it is of project default");
        assert!(read(json!([ours])).is_of(&set("s", "blue")), "the set was moved");
    }

    #[test]
    fn aset_205_revisions_are_a_list() {
        let revisions = |sync: Value| {
            let manifest = json!({"metadata": {"name": "a"}, "status": {"sync": sync}});
            LiveApplication::from_value(manifest).unwrap().status.revisions
        };
        assert_eq!(revisions(json!({"revision": "r"})), ["r"]);
        assert_eq!(revisions(json!({"revision": "r", "revisions": ["a", "b"]})), ["a", "b"]);
        assert_eq!(revisions(Value::Null), [] as [&str; 0]);
    }
}
