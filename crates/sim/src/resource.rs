//! What the server serves: built-in resources, and those that custom resource definitions add.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::structural::Structural;

/// Whether objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// One resource at one version.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty is the core group.
    pub group: SmolStr,
    /// Version.
    pub version: SmolStr,
    /// Plural name, as in paths.
    pub plural: SmolStr,
    /// Singular name.
    pub singular: SmolStr,
    /// Kind.
    pub kind: SmolStr,
    /// Kind of a list.
    pub list_kind: SmolStr,
    /// Scope.
    pub scope: Scope,
    /// Short names.
    pub short_names: Vec<SmolStr>,
    /// Categories, for example `all`.
    pub categories: Vec<SmolStr>,
    /// Verbs, sorted as discovery prints them.
    pub verbs: Vec<SmolStr>,
    /// Whether there is a `status` subresource.
    pub has_status: bool,
    /// Paths of the `scale` subresource; built-in workloads have theirs here too.
    pub scale: Option<Scale>,
    /// What a definition says; `None` for built-in resources.
    pub custom: Option<Arc<Custom>>,
}

/// Where the numbers of a scale are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Member path, without a leading dot: `spec.replicas`.
    pub spec_replicas: String,
    /// `status.replicas`.
    pub status_replicas: String,
    /// Where a selector is; `None` without one. Built-in workloads: `spec.selector`, an object.
    pub selector: Option<String>,
}

/// What one version of a definition says about its objects.
#[derive(Clone, Debug)]
pub struct Custom {
    /// Name of the definition.
    pub definition: String,
    /// Schema as it was written (`openAPIV3Schema`); null without one.
    pub schema: Value,
    /// The same, for defaults and pruning.
    pub structural: Structural,
    /// `additionalPrinterColumns`, as written.
    pub columns: Value,
    /// Whether unknown members are kept everywhere.
    pub preserves_unknown: bool,
    /// All served versions, the one clients should prefer first.
    pub served: Vec<SmolStr>,
}

/// Everything that is served, found by path and by kind.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// By group, version and plural, in the order of discovery.
    resources: BTreeMap<(SmolStr, SmolStr, SmolStr), Arc<Resource>>,
}

impl Registry {
    /// The built-in resources.
    pub fn builtin() -> Self {
        let mut registry = Self::default();
        for resource in builtin::resources() {
            registry.insert(resource);
        }
        registry
    }

    /// Adds or replaces a resource.
    pub fn insert(&mut self, resource: Resource) {
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(key, Arc::new(resource));
    }

    /// Removes every resource that a definition added.
    pub fn remove_definition(&mut self, definition: &str) {
        self.resources.retain(|_, resource| {
            resource.custom.as_ref().is_none_or(|custom| custom.definition != definition)
        });
    }

    /// The resource at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), version.into(), plural.into()))
    }

    /// The resource of a kind.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.iter().find(|one| one.group == group && one.version == version && one.kind == kind)
    }

    /// All resources, by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

mod builtin;
