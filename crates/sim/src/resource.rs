//! What the server serves: built-in resources, and those that custom resource definitions add.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::structural::Structural;
use tiphys_object::structured::SchemaTypes;

/// Whether objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// One resource at one version.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
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
pub(crate) struct Scale {
    /// Member path, without a leading dot: `spec.replicas`.
    pub spec_replicas: String,
    /// `status.replicas`.
    pub status_replicas: String,
    /// Where a selector is; `None` without one. Built-in workloads: `spec.selector`, an object.
    pub selector: Option<String>,
}

/// What one version of a definition says about its objects.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    /// Name of the definition.
    pub definition: String,
    /// Schema as it was written (`openAPIV3Schema`); null without one.
    pub schema: Value,
    /// The same, for defaults and pruning.
    pub structural: Structural,
    /// The same, for merging.
    pub types: SchemaTypes,
    /// `additionalPrinterColumns`, as written.
    pub columns: Value,
    /// Whether unknown members are kept everywhere.
    pub preserves_unknown: bool,
    /// Schema of the version that objects are stored in, when that is another one that prunes.
    pub stored_as: Option<Structural>,
    /// What whoever uses a deprecated version is told.
    pub warning: Option<String>,
}

/// A path below an object, as discovery shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// Last part of the path, for example `log`.
    pub name: &'static str,
    /// Group of the kind that is sent and answered; empty means that of the resource.
    pub group: &'static str,
    /// Its version; empty means that of the resource.
    pub version: &'static str,
    /// The kind; empty means that of the resource.
    pub kind: &'static str,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
}

impl Resource {
    /// Group and plural under which objects are stored: resources that show the same objects share them.
    pub(crate) fn storage(&self) -> (&str, &str) {
        match (self.group.as_str(), self.plural.as_str()) {
            ("events.k8s.io", "events") => ("", "events"),
            own => own,
        }
    }

    /// An object of the same [storage](Self::storage), in whatever version, as this resource shows it. Built-in
    /// autoscalers and Events change their members, everything else only its `apiVersion`.
    pub(crate) fn view(&self, object: Value) -> Value {
        view(&self.group, &self.plural, &self.api_version(), object)
    }

    /// `v1`, or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether requests with this verb are answered.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    /// Everything that is served below objects, in the order of discovery.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        let status = self.has_status.then_some(subresource::STATUS);
        let scale = self.scale.as_ref().map(|_| subresource::SCALE);
        let mut found: Vec<Subresource> = status.into_iter().chain(scale).collect();
        if self.custom.is_none() {
            found.extend_from_slice(subresource::others(&self.group, &self.plural));
            found.sort_unstable_by_key(|one| one.name);
        }
        found
    }
}

/// The versions of one group that are served.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    /// Name; empty is the core group.
    pub name: &'a str,
    /// The preferred version first.
    pub versions: Vec<GroupVersion<'a>>,
}

/// The resources of one version of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupVersion<'a> {
    /// Name of the version.
    pub name: &'a str,
    /// By plural.
    pub resources: Vec<&'a Arc<Resource>>,
}

/// Group, version and plural.
type Names = (SmolStr, SmolStr, SmolStr);

/// Everything that is served, found by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    /// By group, version and plural.
    resources: BTreeMap<Names, Arc<Resource>>,
}

impl Registry {
    /// The built-in resources.
    pub(crate) fn builtin() -> Self {
        let mut registry = Self::default();
        for resource in builtin::resources() {
            registry.insert(resource);
        }
        registry
    }

    /// Adds or replaces a resource.
    pub(crate) fn insert(&mut self, resource: Resource) {
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(key, Arc::new(resource));
    }

    /// Removes every resource that a definition added.
    pub(crate) fn remove_definition(&mut self, definition: &str) {
        self.resources.retain(|_, resource| {
            resource.custom.as_ref().is_none_or(|custom| custom.definition != definition)
        });
    }

    /// The resource at a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), version.into(), plural.into()))
    }

    /// All resources, by group, version and plural.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// All groups in the order of discovery: built-in ones as a server ranks them, then the others by name.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for resource in self.resources.values() {
            if groups.last().is_none_or(|last| last.name != resource.group) {
                groups.push(Group { name: &resource.group, versions: Vec::new() });
            }
            let Some(group) = groups.last_mut() else { continue };
            if group.versions.last().is_none_or(|last| last.name != resource.version) {
                group.versions.push(GroupVersion { name: &resource.version, resources: Vec::new() });
            }
            if let Some(version) = group.versions.last_mut() {
                version.resources.push(resource);
            }
        }
        for group in &mut groups {
            group.versions.sort_by_cached_key(|one| version::rank(one.name));
        }
        groups.sort_by_key(|group| (builtin::group_rank(group.name), group.name));
        groups
    }

    /// One group; `None` when nothing of it is served.
    pub(crate) fn group(&self, name: &str) -> Option<Group<'_>> {
        self.groups().into_iter().find(|group| group.name == name)
    }

    /// The resources of one version of a group, by plural; empty when it is not served.
    pub(crate) fn of_version<'a>(
        &'a self,
        group: &str,
        version: &str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        let (group, version) = (SmolStr::from(group), SmolStr::from(version));
        let start = (group.clone(), version.clone(), SmolStr::default());
        self.resources
            .range(start..)
            .map(|(_, resource)| resource)
            .take_while(move |resource| resource.group == group && resource.version == version)
    }
}

mod builtin;
mod subresource;
mod version;
mod view;

pub(crate) use view::view;

#[cfg(test)]
mod tests;
