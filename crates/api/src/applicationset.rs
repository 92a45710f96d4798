//! The `ApplicationSet` resource as it is on the wire (ASET-1..4).
//!
//! Generators stay as they are written: their parameters are rendered before they are read. The template is
//! kept as a value too, because every string of it is a template of its own (ASET-100).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::application::{HealthStatus, Metadata, ResourceStatus, is_false, null_as_default};

/// An `ApplicationSet` object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplicationSet {
    /// Standard metadata.
    pub metadata: Metadata,
    /// What the user declares.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ApplicationSetSpec,
    /// What the controller observed.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ApplicationSetStatus,
}

/// What the user declares (ASET-2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSetSpec {
    /// Whether templates are Go templates.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub go_template: bool,
    /// Options of the template engine, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub go_template_options: Vec<String>,
    /// Generators, as written, in order.
    #[serde(deserialize_with = "null_as_default")]
    pub generators: Vec<Map<String, Value>>,
    /// `{metadata, spec}` of an Application, unrendered.
    #[serde(deserialize_with = "null_as_default")]
    pub template: Map<String, Value>,
    /// Patch of the rendered Application, unrendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_patch: Option<String>,
    /// What may happen to generated Applications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_policy: Option<ApplicationSetSyncPolicy>,
    /// In which order they change and go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<ApplicationSetStrategy>,
    /// Labels and annotations that keep their live value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserved_fields: Option<PreservedFields>,
    /// Fields that keep their live value.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ignore_application_differences: Vec<ApplicationIgnoreDifference>,
    /// Accepted, without effect.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub apply_nested_selectors: bool,
    /// Project the set is confined to (ASET-270).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub project: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What may happen to generated Applications (ASET-130).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSetSyncPolicy {
    /// Whether Applications leave their resources behind.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub preserve_resources_on_deletion: bool,
    /// `create-only`, `create-update`, `create-delete`, `sync`; absent leaves it to the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applications_sync: Option<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What may happen to generated Applications (ASET-130).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They are created and then left alone.
    CreateOnly,
    /// They are created and changed.
    CreateUpdate,
    /// They are created, and deleted when they are generated no longer.
    CreateDelete,
    /// All of it.
    #[default]
    Sync,
}

impl Policy {
    /// Reads the word; `None` for one that is none.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "create-only" => Some(Self::CreateOnly),
            "create-update" => Some(Self::CreateUpdate),
            "create-delete" => Some(Self::CreateDelete),
            "sync" => Some(Self::Sync),
            _ => None,
        }
    }

    /// Whether Applications that exist are changed.
    pub fn may_update(self) -> bool {
        matches!(self, Self::CreateUpdate | Self::Sync)
    }

    /// Whether Applications that are generated no longer are deleted.
    pub fn may_delete(self) -> bool {
        matches!(self, Self::CreateDelete | Self::Sync)
    }
}

/// In which order Applications change and go (ASET-200, 242).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSetStrategy {
    /// Empty, `AllAtOnce` or `RollingSync`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub r#type: String,
    /// Steps of a roll-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_sync: Option<RolloutSteps>,
    /// Empty, `AllAtOnce`, `Reverse` or `Custom`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub deletion_order: String,
    /// Steps of a deletion in order `Custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_sync: Option<RolloutSteps>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Steps, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RolloutSteps {
    /// Steps.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub steps: Vec<RolloutStep>,
}

/// Which Applications a step is about (ASET-203).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStep {
    /// All must hold; none selects every Application.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub match_expressions: Vec<MatchExpression>,
    /// An integer or `"p%"`, as written (ASET-212).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_update: Option<Value>,
}

/// One condition on labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MatchExpression {
    /// Label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub key: String,
    /// `In` or `NotIn`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub operator: String,
    /// Values.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

/// Labels and annotations that keep their live value (ASET-137).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreservedFields {
    /// Annotation keys.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub annotations: Vec<String>,
    /// Label keys.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub labels: Vec<String>,
}

/// Fields that keep their live value (ASET-140).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationIgnoreDifference {
    /// Only this Application.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// JSON pointers.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub json_pointers: Vec<String>,
    /// jq paths.
    #[serde(
        rename = "jqPathExpressions",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub jq_path_expressions: Vec<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What the controller observed (ASET-4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSetStatus {
    /// Conditions, sorted by type.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<ApplicationSetCondition>,
    /// Roll-out state, sorted by Application.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub application_status: Vec<RolloutApplicationStatus>,
    /// Generated Applications, sorted by name, possibly cut.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resources: Vec<ResourceStatus>,
    /// Number of generated Applications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_count: Option<i64>,
    /// Summary of the conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthStatus>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An observation about a set (ASET-150).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSetCondition {
    /// Type.
    #[serde(deserialize_with = "null_as_default")]
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// Reason, for machines.
    #[serde(deserialize_with = "null_as_default")]
    pub reason: String,
    /// Text for people.
    #[serde(deserialize_with = "null_as_default")]
    pub message: String,
    /// When status, reason or message last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// Roll-out state of one Application (ASET-204).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutApplicationStatus {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub application: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Text for people.
    #[serde(deserialize_with = "null_as_default")]
    pub message: String,
    /// `Waiting`, `Pending`, `Progressing` or `Healthy`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// Step, from 1, as text.
    #[serde(deserialize_with = "null_as_default")]
    pub step: String,
    /// Revisions the state is about; written even when empty (ASET-4).
    #[serde(deserialize_with = "null_as_default")]
    pub target_revisions: Vec<String>,
}

impl ApplicationSet {
    /// The project of the template, unrendered; empty when absent (ASET-46).
    pub fn template_project(&self) -> &str {
        self.spec
            .template
            .get("spec")
            .and_then(|spec| spec.get("project"))
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    /// Projects that templates of generators put in place of the template's, unrendered (ASET-26).
    pub fn generator_projects(&self) -> impl Iterator<Item = &str> {
        let blocks = self.spec.generators.iter().flat_map(Map::values);
        let projects =
            blocks.filter_map(|block| block.pointer("/template/spec/project").and_then(Value::as_str));
        projects.filter(|project| !project.is_empty())
    }

    /// The project that stands for the set in permissions: its own, else the template's, else `default`
    /// (ASET-279).
    pub fn rbac_project(&self) -> &str {
        [self.spec.project.as_str(), self.template_project()]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or(crate::project::DEFAULT_PROJECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aset_4_target_revisions_are_written_even_when_empty() {
        let text = r#"{"status":{"applicationStatus":[{"application":"a","targetRevisions":null}]}}"#;
        let set: ApplicationSet = serde_json::from_str(text).unwrap();
        let back = serde_json::to_value(&set).unwrap();
        assert_eq!(back["status"]["applicationStatus"][0]["targetRevisions"], serde_json::json!([]));
    }

    #[test]
    fn aset_279_the_sets_own_project_wins() {
        let read = |text: &str| serde_json::from_str::<ApplicationSet>(text).unwrap();
        assert_eq!(
            read(r#"{"spec":{"project":"p","template":{"spec":{"project":"q"}}}}"#).rbac_project(),
            "p"
        );
        assert_eq!(read(r#"{"spec":{"template":{"spec":{"project":"q"}}}}"#).rbac_project(), "q");
        assert_eq!(read(r#"{"spec":{"template":{"spec":{}}}}"#).rbac_project(), "default");
    }

    #[test]
    fn sty_42_generators_and_unknown_members_survive() {
        let text = r#"{"spec":{"future":1,"generators":[{"list":{"elements":[{"a":1}]},"x":{}}],"template":{"metadata":{}}}}"#;
        let set: ApplicationSet = serde_json::from_str(text).unwrap();
        let back = serde_json::to_value(&set).unwrap();
        assert_eq!(back["spec"]["generators"][0]["list"]["elements"][0]["a"], 1);
        assert_eq!(back["spec"]["future"], 1);
    }
}
