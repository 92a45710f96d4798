//! Reading what the server serves: aggregated discovery, or group by group from servers without it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;
use tiphys_object::Gvk;
use tracing::warn;

use super::{ApiResource, Kinds, Scope, plain_version};
use crate::connection::{Call, Connection};
use crate::error::ApiError;

/// Time for each discovery request.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// Asks for aggregated discovery, and takes the plain form from servers without it.
const ACCEPT_AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

#[derive(Deserialize)]
struct ServerVersion {
    #[serde(rename = "gitVersion")]
    git_version: String,
}

/// An answer of `/api` and `/apis` as it is read: the kind says which member counts. An enum with that tag would first keep
/// the whole answer, which may have megabytes, as a tree.
#[derive(Deserialize)]
struct RootAnswer {
    kind: RootKind,
    items: Option<Vec<AggregatedGroup>>,
    versions: Option<Vec<SmolStr>>,
    groups: Option<Vec<Group>>,
}

/// All forms of an answer of `/api` and `/apis`.
#[derive(Deserialize)]
#[serde(try_from = "RootAnswer")]
enum Root {
    Aggregated { items: Vec<AggregatedGroup> },
    Core { versions: Vec<SmolStr> },
    Groups { groups: Vec<Group> },
}

impl TryFrom<RootAnswer> for Root {
    type Error = String;

    fn try_from(answer: RootAnswer) -> Result<Self, Self::Error> {
        let RootAnswer { kind, items, versions, groups } = answer;
        let root = match kind {
            RootKind::Aggregated => items.map(|items| Self::Aggregated { items }),
            RootKind::Core => versions.map(|versions| Self::Core { versions }),
            RootKind::Groups => groups.map(|groups| Self::Groups { groups }),
        };
        root.ok_or_else(|| format!("an answer of the kind {kind:?} without its list"))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum RootKind {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated,
    #[serde(rename = "APIVersions")]
    Core,
    #[serde(rename = "APIGroupList")]
    Groups,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: SmolStr,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: SmolStr,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: SmolStr,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: SmolStr,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: SmolStr,
    #[serde(default)]
    verbs: Vec<SmolStr>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    group: SmolStr,
    version: SmolStr,
    kind: SmolStr,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: SmolStr,
    versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: SmolStr,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<PlainResource>,
}

#[derive(Deserialize)]
struct PlainResource {
    name: SmolStr,
    kind: SmolStr,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<SmolStr>,
}

/// Reads everything the cluster serves.
///
/// Groups that do not answer are recorded as unavailable and keep what `previous` knew of them (ENG-5).
///
/// # Errors
/// When nothing at all can be learned, or the server's version is not one (ENG-3).
pub async fn discover(connection: &Connection, previous: Option<&Kinds>) -> Result<Kinds, ApiError> {
    let (version, core, groups) = tokio::join!(
        get::<ServerVersion>(connection, "/version", "application/json"),
        get::<Root>(connection, "/api", ACCEPT_AGGREGATED),
        get::<Root>(connection, "/apis", ACCEPT_AGGREGATED),
    );
    let server_version = plain(&version?)?;
    let mut kinds = Kinds { server_version, ..Kinds::default() };
    add_root(connection, &mut kinds, core?).await;
    match groups {
        Ok(root) => add_root(connection, &mut kinds, root).await,
        Err(error) => {
            warn!(server = connection.server(), %error, "discovery of API groups failed");
            kinds.unavailable_all = true;
        }
    }
    if kinds.resources.is_empty() {
        return Err(ApiError::Malformed { what: "discovery", reason: "no resources".to_owned() });
    }
    if let Some(previous) = previous {
        keep_unavailable(&mut kinds, previous);
    }
    Ok(kinds)
}

/// Asks a cluster for its version, and for nothing else (ENG-3).
///
/// # Errors
/// When it does not answer, or with something that is no version.
pub async fn server_version(connection: &Connection) -> Result<SmolStr, ApiError> {
    plain(&get::<ServerVersion>(connection, "/version", "application/json").await?)
}

fn plain(version: &ServerVersion) -> Result<SmolStr, ApiError> {
    plain_version(&version.git_version).ok_or_else(|| ApiError::Malformed {
        what: "read the server version",
        reason: "its gitVersion is no version".to_owned(),
    })
}

async fn get<T: DeserializeOwned>(
    connection: &Connection,
    target: &str,
    accept: &'static str,
) -> Result<T, ApiError> {
    let call = Call { accept, ..Call::get("discover API resources", target, DISCOVERY_TIMEOUT) };
    let answer = connection.call(&call).await?;
    serde_json::from_slice(&answer.bytes).map_err(|error| ApiError::malformed(call.what, &error))
}

async fn add_root(connection: &Connection, kinds: &mut Kinds, root: Root) {
    match root {
        Root::Aggregated { items } => items.into_iter().for_each(|group| add_aggregated(kinds, group)),
        Root::Core { versions } => {
            for version in versions {
                add_plain(connection, kinds, "", &version).await;
            }
        }
        Root::Groups { groups } => {
            for group in groups {
                let preferred = group.preferred_version.map(|preferred| preferred.version);
                let others = group.versions.into_iter().map(|version| version.version);
                let others = others.filter(|version| Some(version) != preferred.as_ref());
                let ordered: Vec<SmolStr> = preferred.clone().into_iter().chain(others).collect();
                for version in ordered {
                    add_plain(connection, kinds, &group.name, &version).await;
                }
            }
        }
    }
}

fn add_aggregated(kinds: &mut Kinds, group: AggregatedGroup) {
    let or = |text: SmolStr, default: &SmolStr| if text.is_empty() { default.clone() } else { text };
    for version in group.versions {
        if version.freshness == "Stale" {
            kinds.unavailable.insert(group.metadata.name.clone());
        }
        for resource in version.resources {
            let response = resource.response_kind.unwrap_or_default();
            if response.kind.is_empty() {
                continue;
            }
            let gvk = Gvk {
                group: or(response.group, &group.metadata.name),
                version: or(response.version, &version.version),
                kind: response.kind,
            };
            let scope = if resource.scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
            kinds.add(ApiResource { gvk, plural: resource.resource, scope, verbs: lower(resource.verbs) });
        }
    }
}

async fn add_plain(connection: &Connection, kinds: &mut Kinds, group: &str, version: &str) {
    let target =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let list = match get::<ResourceList>(connection, &target, "application/json").await {
        Ok(list) => list,
        Err(error) => {
            warn!(server = connection.server(), group, version, %error, "discovery of an API group failed");
            kinds.unavailable.insert(group.into());
            return;
        }
    };
    for resource in list.resources {
        // A slash marks a subresource.
        if resource.name.contains('/') {
            continue;
        }
        let scope = if resource.namespaced { Scope::Namespaced } else { Scope::Cluster };
        kinds.add(ApiResource {
            gvk: Gvk::new(group, version, &resource.kind),
            plural: resource.name,
            scope,
            verbs: lower(resource.verbs),
        });
    }
}

fn lower(verbs: Vec<SmolStr>) -> BTreeSet<SmolStr> {
    verbs.into_iter().map(|verb| SmolStr::new(verb.to_ascii_lowercase())).collect()
}

/// What was known of a group that does not answer stays known.
fn keep_unavailable(kinds: &mut Kinds, previous: &Kinds) {
    let all = kinds.unavailable_all;
    let unavailable = kinds.unavailable.clone();
    let is_lost = |gvk: &Gvk| unavailable.contains(&gvk.group) || (all && !gvk.group.is_empty());
    for (group_kind, resource) in &previous.preferred {
        if is_lost(&resource.gvk) {
            kinds.preferred.entry(group_kind.clone()).or_insert_with(|| Arc::clone(resource));
        }
    }
    for (gvk, resource) in &previous.resources {
        if is_lost(gvk) {
            kinds.resources.entry(gvk.clone()).or_insert_with(|| Arc::clone(resource));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Served;
    use super::*;

    fn aggregated(text: &str) -> Kinds {
        let mut kinds = Kinds::default();
        let Root::Aggregated { items } = serde_json::from_str(text).unwrap() else {
            panic!("not aggregated")
        };
        for group in items {
            add_aggregated(&mut kinds, group);
        }
        kinds
    }

    const WIDGETS: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"x.io"},"versions":[
        {"version":"v1","resources":[{"resource":"widgets","responseKind":{"group":"","version":"","kind":"Widget"},
        "scope":"Namespaced","verbs":["List","WATCH"]}],"freshness":"Current"}]}]}"#;

    /// Error is not empty: what says nothing of its groups does not say that there are none.
    #[test]
    fn eng_5_an_answer_without_its_list_is_an_error() {
        for kind in ["APIGroupDiscoveryList", "APIVersions", "APIGroupList"] {
            assert!(serde_json::from_str::<Root>(&format!(r#"{{"kind":"{kind}"}}"#)).is_err(), "{kind}");
        }
        assert!(serde_json::from_str::<Root>(r#"{"kind":"Status","items":[]}"#).is_err());
    }

    #[test]
    fn eng_4_aggregated_discovery_takes_group_and_version_from_around() {
        let kinds = aggregated(WIDGETS);
        let widget = kinds.resource(&Gvk::new("x.io", "v1", "Widget")).unwrap();
        assert!(widget.is_watchable() && widget.is_namespaced());
        assert_eq!(kinds.served(&Gvk::new("x.io", "v2", "Widget")), Served::No);
    }

    #[test]
    fn eng_5_a_stale_group_keeps_what_was_known() {
        let before = aggregated(WIDGETS);
        let stale = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"x.io"},"versions":[
            {"version":"v1","freshness":"Stale"}]}]}"#;
        let mut after = aggregated(stale);
        keep_unavailable(&mut after, &before);
        assert!(after.resource(&Gvk::new("x.io", "v1", "Widget")).is_some());
        assert_eq!(after.served(&Gvk::new("x.io", "v1", "Other")), Served::Unknown);
    }
}
