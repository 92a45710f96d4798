//! What a cluster serves: discovery in two requests, kept as an immutable snapshot.
//!
//! A group whose API server does not answer is *unavailable*, which is another thing than not served:
//! [`Served`] has three values, and the resources known from before stay known (ENG-5).

mod discovery;
mod filter;
mod handle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::{GroupKind, Gvk};

use crate::error::ApiError;

/// Characters of a wrong name that an error shows.
const SHOWN_MAX: usize = 100;

pub use discovery::{discover, server_version};
pub use filter::{FilterError, ResourceFilter};
pub use handle::Discovery;

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects belong to a namespace.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// One kind in one version, as the cluster serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// Plural name used in paths, for example `deployments`.
    pub plural: SmolStr,
    /// Whether objects live in namespaces.
    pub scope: Scope,
    /// Verbs, lower case.
    pub verbs: BTreeSet<SmolStr>,
}

impl ApiResource {
    /// Whether a verb is supported, compared case-insensitively.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.contains(verb.to_ascii_lowercase().as_str())
    }

    /// Whether the kind can be indexed (ENG-4).
    pub fn is_watchable(&self) -> bool {
        self.supports("list") && self.supports("watch")
    }

    /// Whether objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Path of the collection, or of one object. An empty namespace means all namespaces.
    pub(crate) fn path(&self, namespace: &str, name: Option<&str>) -> String {
        use std::fmt::Write as _;
        let mut path = if self.gvk.group.is_empty() {
            format!("/api/{}", self.gvk.version)
        } else {
            format!("/apis/{}/{}", self.gvk.group, self.gvk.version)
        };
        // Writing to a text cannot fail.
        if self.is_namespaced() && !namespace.is_empty() {
            let _ = write!(path, "/namespaces/{}", crate::connection::encode(namespace));
        }
        let _ = write!(path, "/{}", self.plural);
        if let Some(name) = name {
            let _ = write!(path, "/{}", crate::connection::encode(name));
        }
        path
    }

    /// Path of one object. An empty name would be the path of all objects of the kind, and a `/`, encoded or not,
    /// that of another object than the one that was permitted (INV-6): the server decodes before it splits.
    ///
    /// # Errors
    /// When namespace or name is no path segment.
    pub(crate) fn object_path(&self, namespace: &str, name: &str) -> Result<String, ApiError> {
        if name.is_empty() {
            return Err(ApiError::Name("resource name may not be empty".to_owned()));
        }
        segment(name)?;
        segment(namespace)?;
        Ok(self.path(namespace, Some(name)))
    }

    /// Path of all objects in a namespace.
    ///
    /// # Errors
    /// When the namespace is no path segment.
    pub(crate) fn collection_path(&self, namespace: &str) -> Result<String, ApiError> {
        segment(namespace)?;
        Ok(self.path(namespace, None))
    }
}

/// Whether a text stands for itself inside a path.
fn segment(text: &str) -> Result<(), ApiError> {
    if matches!(text, "." | "..") || text.contains(['/', '%']) {
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        return Err(ApiError::Name(format!(
            "invalid resource name {shown:?}: it may not be \".\" or \"..\" nor contain '/' or '%'"
        )));
    }
    Ok(())
}

/// Answer to "is this kind served?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It is, like this.
    Yes(Arc<ApiResource>),
    /// It is not; discovery of its group was complete.
    No,
    /// Its group did not answer.
    Unknown,
}

/// Everything a cluster serves at one moment.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    resources: BTreeMap<Gvk, Arc<ApiResource>>,
    preferred: BTreeMap<GroupKind, Arc<ApiResource>>,
    unavailable: BTreeSet<SmolStr>,
    unavailable_all: bool,
    server_version: SmolStr,
}

impl Kinds {
    /// One kind in one version.
    pub fn resource(&self, gvk: &Gvk) -> Option<&Arc<ApiResource>> {
        self.resources.get(gvk)
    }

    /// One kind in the version the server prefers.
    pub fn preferred(&self, group_kind: &GroupKind) -> Option<&Arc<ApiResource>> {
        self.preferred.get(group_kind)
    }

    /// Scope of a kind in any version; `None` when it is not known.
    pub fn scope(&self, group_kind: &GroupKind) -> Option<Scope> {
        self.preferred.get(group_kind).map(|resource| resource.scope)
    }

    /// Whether a kind is served in exactly this version.
    pub fn served(&self, gvk: &Gvk) -> Served {
        match self.resources.get(gvk) {
            Some(resource) => Served::Yes(Arc::clone(resource)),
            None if self.unavailable_all || self.unavailable.contains(&gvk.group) => Served::Unknown,
            None => Served::No,
        }
    }

    /// Preferred version of each kind that can be listed and watched (ENG-4 list b, before the filter).
    pub fn watchable(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.preferred.values().filter(|resource| resource.is_watchable())
    }

    /// Every kind in every version that can be listed and watched (ENG-4 list a).
    pub fn resources(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.resources.values().filter(|resource| resource.is_watchable())
    }

    /// API versions for renderers: sorted `group/version` and `group/version/Kind` texts (ENG-6).
    pub fn api_versions(&self) -> Vec<String> {
        let mut texts = BTreeSet::new();
        for resource in self.resources() {
            let api_version = resource.gvk.api_version();
            texts.insert(format!("{api_version}/{}", resource.gvk.kind));
            texts.insert(api_version.to_string());
        }
        texts.into_iter().collect()
    }

    /// Server version as `v<major>.<minor>.<patch>` (ENG-3).
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// API groups that did not answer.
    pub fn unavailable_groups(&self) -> impl Iterator<Item = &str> {
        self.unavailable.iter().map(SmolStr::as_str)
    }

    /// Adds a kind; the first version seen of a kind is the preferred one. The watchable version wins.
    fn add(&mut self, resource: ApiResource) {
        let resource = Arc::new(resource);
        let group_kind = resource.gvk.group_kind();
        match self.preferred.get(&group_kind) {
            Some(known) if known.is_watchable() || !resource.is_watchable() => {}
            _ => {
                self.preferred.insert(group_kind, Arc::clone(&resource));
            }
        }
        self.resources.insert(resource.gvk.clone(), resource);
    }
}

/// Parses a server's `gitVersion` (ENG-3).
fn plain_version(git_version: &str) -> Option<SmolStr> {
    let numbers = git_version.trim().strip_prefix('v')?;
    let mut parts = numbers.splitn(3, '.');
    let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let patch: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_number(major) && is_number(minor) && is_number(&patch)) {
        return None;
    }
    Some(smol_str::format_smolstr!("v{major}.{minor}.{patch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn resource(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        scope: Scope,
    ) -> ApiResource {
        let verbs = ["get", "list", "watch"].into_iter().map(SmolStr::new).collect();
        ApiResource { gvk: Gvk::new(group, version, kind), plural: plural.into(), scope, verbs }
    }

    #[test]
    fn eng_3_vendor_suffixes_go() {
        assert_eq!(plain_version("v1.33.2-gke.100").as_deref(), Some("v1.33.2"));
        assert_eq!(plain_version("v1.36.1").as_deref(), Some("v1.36.1"));
        assert_eq!(plain_version("v1.36+"), None);
    }

    #[test]
    fn eng_6_api_versions_are_sorted_and_distinct() {
        let mut kinds = Kinds::default();
        kinds.add(resource("", "v1", "Pod", "pods", Scope::Namespaced));
        kinds.add(resource("apps", "v1", "Deployment", "deployments", Scope::Namespaced));
        assert_eq!(kinds.api_versions(), ["apps/v1", "apps/v1/Deployment", "v1", "v1/Pod"]);
    }

    #[test]
    fn eng_4_the_first_version_is_preferred() {
        let mut kinds = Kinds::default();
        kinds.add(resource("g", "v2", "A", "as", Scope::Namespaced));
        kinds.add(resource("g", "v1", "A", "as", Scope::Namespaced));
        assert_eq!(kinds.preferred(&GroupKind::new("g", "A")).unwrap().gvk.version, "v2");
        assert_eq!(kinds.resources().count(), 2);
    }

    #[test]
    fn paths_of_collections_and_objects() {
        let deployment = resource("apps", "v1", "Deployment", "deployments", Scope::Namespaced);
        assert_eq!(deployment.path("", None), "/apis/apps/v1/deployments");
        assert_eq!(deployment.path("n", Some("a")), "/apis/apps/v1/namespaces/n/deployments/a");
        let node = resource("", "v1", "Node", "nodes", Scope::Cluster);
        assert_eq!(node.path("n", Some("a")), "/api/v1/nodes/a");
    }

    /// INV-6, INV-1: no name leads to another object than the one that was checked, nor to all of them.
    #[test]
    fn inv_6_a_name_is_one_segment_of_a_path() {
        let job = resource("batch", "v1", "Job", "jobs", Scope::Namespaced);
        assert_eq!(job.object_path("n", "a").unwrap(), "/apis/batch/v1/namespaces/n/jobs/a");
        for (namespace, name) in
            [("n", ""), ("n", "."), ("n", ".."), ("n", "a/b"), ("n", "a%2Fb"), ("n/jobs", "a"), ("..", "a")]
        {
            assert!(job.object_path(namespace, name).is_err(), "{namespace:?} {name:?}");
        }
        assert!(job.collection_path("n/secrets").is_err());
        let namespaces = resource("", "v1", "Namespace", "namespaces", Scope::Cluster);
        let error = namespaces.object_path("", "kube-system/secrets/token").unwrap_err();
        assert!(error.to_string().contains("kube-system/secrets/token"), "{error}");
        assert!(namespaces.object_path("", &"/".repeat(9000)).unwrap_err().to_string().len() < 700);
    }
}
