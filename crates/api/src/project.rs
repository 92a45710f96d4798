//! The `AppProject` resource as it is on the wire (REP-120).
//!
//! Absent and empty lists differ only for `namespaceResourceWhitelist` (REP-150), which therefore is an
//! `Option`. Permissions are decided in `tiphys-policy`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::application::{Metadata, is_false, is_zero, null_as_default};

/// Name of the project an Application without one belongs to (REP-121).
pub const DEFAULT_PROJECT: &str = "default";

/// Whether a project could have this name: that of a Kubernetes object.
pub fn is_project_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part = |part: &str| {
        !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(is_letter)
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// An `AppProject` object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppProject {
    /// Standard metadata.
    pub metadata: Metadata,
    /// Rules.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: AppProjectSpec,
    /// Tokens of the roles.
    #[serde(skip_serializing_if = "AppProjectStatus::is_empty", deserialize_with = "null_as_default")]
    pub status: AppProjectStatus,
    /// Rights by what belongs to the project; never stored or sent.
    #[serde(skip)]
    pub owned: OwnedRights,
}

/// Rights that a project has because repositories and clusters belong to it (REP-122). They reach these alone: a URL is
/// no pattern here, and a server is the project's own entry of it, not a shared one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedRights {
    /// URLs of repositories.
    pub repositories: Vec<String>,
    /// Servers of clusters, each with the namespaces that it is registered for.
    pub destinations: Vec<ProjectDestination>,
    /// Where both stand among the rules of the project when it is shown.
    pub places: (usize, usize),
}

/// Rules of a project (REP-120).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppProjectSpec {
    /// Patterns of repositories, `!` negates.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub source_repos: Vec<String>,
    /// Permitted destinations, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub destinations: Vec<ProjectDestination>,
    /// Text for people, at most 255 bytes.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub description: String,
    /// Roles.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub roles: Vec<ProjectRole>,
    /// Cluster-scoped kinds that are permitted; absent permits none.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_resource_whitelist: Vec<ClusterResourceItem>,
    /// Namespaced kinds that are forbidden.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub namespace_resource_blacklist: Vec<ResourceItem>,
    /// Presence turns orphan monitoring on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphaned_resources: Option<OrphanedResources>,
    /// Sync windows; a `null` entry is skipped but keeps its position (REP-181).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub sync_windows: Vec<Option<SyncWindow>>,
    /// Namespaced kinds that are permitted; absent permits all, empty none (REP-150).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_resource_whitelist: Option<Vec<ResourceItem>>,
    /// Keys that may sign commits.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub signature_keys: Vec<SignatureKey>,
    /// Cluster-scoped kinds that are forbidden.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_resource_blacklist: Vec<ClusterResourceItem>,
    /// Namespaces whose Applications may use the project.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub source_namespaces: Vec<String>,
    /// Whether only clusters of this project may be used.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub permit_only_project_scoped_clusters: bool,
    /// Accounts that syncs impersonate.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub destination_service_accounts: Vec<DestinationServiceAccount>,
    /// Rules about signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_integrity: Option<SourceIntegrity>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// One permitted (or, with `!`, forbidden) destination (REP-140).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectDestination {
    /// Glob on the server URL.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub server: String,
    /// Glob on the namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Glob on the cluster's name.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A role of a project (REP-160).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectRole {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Text for people.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub description: String,
    /// Policy lines.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub policies: Vec<String>,
    /// Tokens.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub jwt_tokens: Vec<JwtToken>,
    /// Groups of the identity provider.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub groups: Vec<String>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What is stored about an issued token (REP-164).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JwtToken {
    /// Time of issue, Unix seconds.
    #[serde(deserialize_with = "null_as_default")]
    pub iat: i64,
    /// Expiry, Unix seconds, 0 for none.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_as_default")]
    pub exp: i64,
    /// Id.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub id: String,
}

/// A namespaced kind (REP-152).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceItem {
    /// File glob on the group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// File glob on the kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
}

/// A cluster-scoped kind, optionally narrowed by name (REP-152).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterResourceItem {
    /// File glob on the group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: String,
    /// File glob on the kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// File glob on the name; empty means any.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
}

/// Orphan monitoring (REP-195).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OrphanedResources {
    /// Whether orphans make a condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn: Option<bool>,
    /// Objects that do not count.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ignore: Vec<OrphanedResourceKey>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Objects that do not count as orphans (REP-196).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrphanedResourceKey {
    /// Glob on the group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// Glob on the kind; empty means any.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kind: String,
    /// Glob on the name; empty means any.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
}

/// When syncs are allowed or denied (REP-170).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncWindow {
    /// `allow` or `deny`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub kind: String,
    /// Five cron fields.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub schedule: String,
    /// Go duration.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub duration: String,
    /// Globs on the Application's name.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub applications: Vec<String>,
    /// Globs on the destination namespace.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub namespaces: Vec<String>,
    /// Globs on the destination's server or name.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<String>,
    /// Whether manual syncs are free.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub manual_sync: bool,
    /// IANA time zone; empty means UTC.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub time_zone: String,
    /// Whether every non-empty selector must match.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub and_operator: bool,
    /// Text for people, at most 255 bytes.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub description: String,
    /// Whether a sync that began in time may end.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_as_default")]
    pub sync_overrun: bool,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A key that may sign (REP-201).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignatureKey {
    /// Key ID.
    #[serde(rename = "keyID", deserialize_with = "null_as_default")]
    pub key_id: String,
}

/// The account a destination is synced with (REP-190).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DestinationServiceAccount {
    /// Glob on the server URL.
    #[serde(deserialize_with = "null_as_default")]
    pub server: String,
    /// Glob on the namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// `account` or `namespace:account`.
    #[serde(deserialize_with = "null_as_default")]
    pub default_service_account: String,
}

/// Rules about signatures (REP-200).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceIntegrity {
    /// Rules for git repositories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitIntegrity>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Rules for git repositories (REP-200).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitIntegrity {
    /// Policies.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub policies: Vec<GitIntegrityPolicy>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// One policy (REP-200).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitIntegrityPolicy {
    /// Repositories it is about.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub repos: Vec<IntegrityRepo>,
    /// What must be signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpg: Option<GpgPolicy>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Pattern of repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntegrityRepo {
    /// Glob on the URL, `!` negates.
    #[serde(deserialize_with = "null_as_default")]
    pub url: String,
}

/// What must be signed, and by whom (REP-202).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpgPolicy {
    /// `none`, `head` or `strict`.
    #[serde(deserialize_with = "null_as_default")]
    pub mode: String,
    /// Key IDs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub keys: Vec<String>,
}

/// Tokens by role (REP-164).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppProjectStatus {
    /// Role name to tokens.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub jwt_tokens_by_role: BTreeMap<String, JwtTokens>,
    /// Members this version does not know; written back as they were read (STY-42).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl AppProjectStatus {
    fn is_empty(&self) -> bool {
        self.jwt_tokens_by_role.is_empty() && self.unknown.is_empty()
    }
}

/// Tokens of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JwtTokens {
    /// Newest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub items: Vec<JwtToken>,
}

impl AppProject {
    /// The project's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The project as it is shown to people: with its rights by what belongs to it among the rules. Decisions are never
    /// made on it.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        let OwnedRights { repositories, destinations, places: (first, second) } =
            std::mem::take(&mut shown.owned);
        let at = first.min(shown.spec.source_repos.len());
        shown.spec.source_repos.splice(at..at, repositories);
        let at = second.min(shown.spec.destinations.len());
        shown.spec.destinations.splice(at..at, destinations);
        shown
    }

    /// Windows with their positions; `null` entries are left out.
    pub fn windows(&self) -> impl Iterator<Item = (usize, &SyncWindow)> {
        self.spec.sync_windows.iter().enumerate().filter_map(|(at, window)| Some((at, window.as_ref()?)))
    }

    /// The spec of the `default` project that is created when it is missing (REP-121).
    pub fn default_project(namespace: &str) -> Self {
        let all = || "*".to_owned();
        Self {
            metadata: Metadata {
                name: DEFAULT_PROJECT.to_owned(),
                namespace: namespace.to_owned(),
                ..Metadata::default()
            },
            spec: AppProjectSpec {
                source_repos: vec![all()],
                destinations: vec![ProjectDestination {
                    server: all(),
                    namespace: all(),
                    ..ProjectDestination::default()
                }],
                cluster_resource_whitelist: vec![ClusterResourceItem {
                    group: all(),
                    kind: all(),
                    name: String::new(),
                }],
                ..AppProjectSpec::default()
            },
            status: AppProjectStatus::default(),
            owned: OwnedRights::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_150_absent_and_empty_whitelists_stay_apart() {
        let read = |text: &str| serde_json::from_str::<AppProject>(text).unwrap();
        assert_eq!(read(r#"{"spec":{}}"#).spec.namespace_resource_whitelist, None);
        assert_eq!(
            read(r#"{"spec":{"namespaceResourceWhitelist":null}}"#).spec.namespace_resource_whitelist,
            None
        );
        let empty = read(r#"{"spec":{"namespaceResourceWhitelist":[]}}"#);
        assert_eq!(empty.spec.namespace_resource_whitelist, Some(vec![]));
        assert_eq!(
            serde_json::to_value(&empty).unwrap()["spec"]["namespaceResourceWhitelist"],
            serde_json::json!([])
        );
    }

    #[test]
    fn rep_181_null_windows_keep_positions() {
        let project: AppProject =
            serde_json::from_str(r#"{"spec":{"syncWindows":[null,{"kind":"deny"}]}}"#).unwrap();
        let positions: Vec<_> = project.windows().map(|(at, window)| (at, window.kind.as_str())).collect();
        assert_eq!(positions, [(1, "deny")]);
    }

    #[test]
    fn rep_121_the_default_project_permits_everything() {
        let spec = serde_json::to_value(AppProject::default_project("argocd").spec).unwrap();
        assert_eq!(
            spec,
            serde_json::json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}]})
        );
    }

    #[test]
    fn sty_42_unknown_members_survive() {
        let text = r#"{"metadata":{"name":"p"},"spec":{"future":1,"signatureKeys":[{"keyID":"A"}],
            "destinations":[{"server":"s","x":2}]}}"#;
        let project: AppProject = serde_json::from_str(text).unwrap();
        let back = serde_json::to_value(&project).unwrap();
        assert_eq!(back["spec"]["future"], 1);
        assert_eq!(back["spec"]["destinations"][0]["x"], 2);
        assert_eq!(back["spec"]["signatureKeys"][0]["keyID"], "A");
    }
}
