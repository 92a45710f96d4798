//! The source of an application: where its manifests come from and how each tool renders them (CTL-4).
//!
//! Blocks of tools that are there and empty count as there: `helm: {}` makes a Helm source (RND-61).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{is_false, null_as_default};

/// One place that manifests come from (CTL-4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSource {
    /// URL of the repository.
    #[serde(rename = "repoURL", deserialize_with = "null_as_default")]
    pub repo_url: String,
    /// Directory inside the repository.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub path: String,
    /// Branch, tag, commit, range or chart version; empty means `HEAD`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub target_revision: String,
    /// Name of a Helm chart.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub chart: String,
    /// Name under which other sources use this one.
    #[serde(rename = "ref", skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub r#ref: String,
    /// Name of the source, for people and flags.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Prefix of the tags a version range looks at.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub tag_prefix: String,
    /// Options of Helm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<Box<HelmSource>>,
    /// Options of Kustomize.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<Box<KustomizeSource>>,
    /// Options of plain manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectorySource>,
    /// Options of a config management plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Box<PluginSource>>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Options of Helm (RND section 10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmSource {
    /// Value files, in order; later ones win.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub value_files: Vec<String>,
    /// Values set one by one; they win over files.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub parameters: Vec<HelmParameter>,
    /// Values set to the content of files.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub file_parameters: Vec<HelmFileParameter>,
    /// Name of the release; empty means the application's name (RND-91).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub release_name: String,
    /// Values as YAML text.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub values: String,
    /// Values as a mapping; when it is there, also empty, `values` is not read (RND-94).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_object: Option<Map<String, Value>>,
    /// Whether value files that do not exist are skipped.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub ignore_missing_value_files: bool,
    /// Whether the chart's CRDs are left out.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub skip_crds: bool,
    /// Whether the chart's test hooks are left out.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub skip_tests: bool,
    /// Whether values are not checked against the chart's schema.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub skip_schema_validation: bool,
    /// Whether credentials are sent to all hosts of the repository.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub pass_credentials: bool,
    /// Version of Helm: empty, `v3` or `v4` (RND-91).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub version: String,
    /// Version of Kubernetes that templates see; empty means the cluster's.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kube_version: String,
    /// API versions that templates see; empty means the cluster's.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_versions: Vec<String>,
    /// Namespace that templates see; empty means the destination's.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A value set by its path (RND-95..97).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmParameter {
    /// Path of the value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// The value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
    /// Whether numbers and booleans stay text.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub force_string: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A value set to the content of a file (RND-102).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmFileParameter {
    /// Path of the value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// File with the value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub path: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Edits of the kustomization file (RND section 9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KustomizeSource {
    /// Prefix of all names.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name_prefix: String,
    /// Suffix of all names.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name_suffix: String,
    /// Image overrides in Kustomize's notation (RND-83).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub images: Vec<String>,
    /// Labels of all objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub common_labels: BTreeMap<String, String>,
    /// Annotations of all objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub common_annotations: BTreeMap<String, String>,
    /// Whether build variables are replaced in `commonAnnotations`.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub common_annotations_envsubst: bool,
    /// Whether `commonLabels` win over existing ones.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub force_common_labels: bool,
    /// Whether `commonAnnotations` win over existing ones.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub force_common_annotations: bool,
    /// Whether `commonLabels` stay out of selectors.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub label_without_selector: bool,
    /// Whether `commonLabels` also go into pod templates.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub label_include_templates: bool,
    /// Namespace of all objects.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Registered version of Kustomize to use (RND-87).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub version: String,
    /// Version of Kubernetes that charts see.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kube_version: String,
    /// API versions that charts see.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub api_versions: Vec<String>,
    /// Replica overrides.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub replicas: Vec<KustomizeReplica>,
    /// Patches, appended to those of the file.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub patches: Vec<KustomizePatch>,
    /// Components to add.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<String>,
    /// Whether components that do not exist are skipped.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub ignore_missing_components: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// How many replicas one workload has (RND-84).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KustomizeReplica {
    /// Name of the workload.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Number of replicas.
    #[serde(deserialize_with = "null_as_default")]
    pub count: IntOrString,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A number, or text that should be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// Text.
    Text(String),
}

impl IntOrString {
    /// The number, when it is one or spells one.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A patch (RND-86).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KustomizePatch {
    /// File with the patch.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub path: String,
    /// The patch itself.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub patch: String,
    /// Objects to patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<KustomizeSelector>,
    /// Switches of the patch.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub options: BTreeMap<String, bool>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Which objects a patch is for; every pattern that is set has to match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KustomizeSelector {
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// API version.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kind: String,
    /// Pattern of the name.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Pattern of the namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Label selector.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub label_selector: String,
    /// Annotation selector.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub annotation_selector: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Options of a directory of plain manifests (RND section 8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectorySource {
    /// Whether subdirectories are read.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub recurse: bool,
    /// Glob of files to take.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub include: String,
    /// Glob of files to leave out.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub exclude: String,
    /// Whether files of any name are taken.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub disable_extension_filter: bool,
    /// Options of Jsonnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jsonnet: Option<JsonnetSource>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Options of Jsonnet (RND-78..80).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JsonnetSource {
    /// External variables.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ext_vars: Vec<JsonnetVariable>,
    /// Top-level arguments.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub tlas: Vec<JsonnetVariable>,
    /// Library directories; later ones win.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub libs: Vec<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A variable or an argument of Jsonnet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JsonnetVariable {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Value.
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    /// Whether the value is Jsonnet instead of text.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub code: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Options of a config management plugin (RND section 13).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginSource {
    /// Name of the plugin; empty means that it is discovered.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub env: Vec<PluginVariable>,
    /// Parameters, in the form that the plugin is given them (RND-134).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub parameters: Vec<PluginParameter>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An environment variable of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginVariable {
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

/// A parameter of a plugin; empty and absent values differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginParameter {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Value, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// Value, if it is a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Vec<String>>,
    /// Value, if it is a mapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<BTreeMap<String, String>>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round(value: &Value) -> Result<Value, String> {
        let source: ApplicationSource =
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(source).unwrap())
    }

    #[test]
    fn sty_42_unknown_members_of_every_block_survive() {
        let value = json!({"repoURL": "u",
            "helm": {"future": 1, "parameters": [{"name": "a", "value": "b", "new": true}]},
            "kustomize": {"future": {"a": [1]}, "replicas": [{"name": "w", "count": "2", "x": 1}],
                "patches": [{"patch": "p", "target": {"kind": "Job", "y": 1}}]},
            "directory": {"jsonnet": {"tlas": [{"name": "n", "value": "v", "z": 1}]}},
            "plugin": {"parameters": [{"name": "n", "array": [], "future": {}}]}});
        assert_eq!(round(&value).unwrap(), value);
    }

    #[test]
    fn rnd_61_an_empty_block_is_there_and_null_is_not() {
        assert_eq!(round(&json!({"repoURL": "u", "helm": {}})).unwrap(), json!({"repoURL": "u", "helm": {}}));
        assert_eq!(round(&json!({"repoURL": "u", "helm": null})).unwrap(), json!({"repoURL": "u"}));
        let empty = json!({"repoURL": "u", "helm": {"valuesObject": {}, "values": "a: 1"}});
        assert_eq!(round(&empty).unwrap(), empty);
    }

    #[test]
    fn rnd_84_counts_are_numbers_or_text() {
        let counts = |count: Value| {
            let value = json!({"repoURL": "u", "kustomize": {"replicas": [{"name": "w", "count": count}]}});
            let source: ApplicationSource = serde_json::from_value(value).unwrap();
            let count = &source.kustomize.unwrap().replicas[0].count;
            (count.number(), count.to_string())
        };
        assert_eq!(counts(json!(3)), (Some(3), "3".to_owned()));
        assert_eq!(counts(json!("3")), (Some(3), "3".to_owned()));
        assert_eq!(counts(json!("many")), (None, "many".to_owned()));
    }

    #[test]
    fn ctl_4_blocks_of_another_shape_are_refused() {
        for block in [
            json!({"helm": 7}),
            json!({"helm": {"parameters": [{"name": "a", "value": 1}]}}),
            json!({"helm": {"valuesObject": ["a"]}}),
            json!({"kustomize": {"commonLabels": {"a": 1}}}),
            json!({"plugin": {"env": "a"}}),
        ] {
            assert!(round(&block).is_err(), "{block}");
        }
    }
}
