//! What names a resource: group, version and kind, name, namespace.
//!
//! Which kinds belong to no namespace is data of the schema ([`crate::schema`]), and part of a [`Gvk`] that was
//! made with it. A gvk that stands in a selector, or in the history of a resource, does not know.

use std::fmt;

use smol_str::SmolStr;

/// Stands for the namespace of kinds that have none.
const NO_NAMESPACE_AT_ALL: &str = "_non_namespaceable_";
const DEFAULT_NAMESPACE: &str = "default";

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gvk {
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) kind: SmolStr,
    /// Whether objects of the kind certainly belong to no namespace.
    pub(crate) is_cluster_scoped: bool,
}

impl Gvk {
    /// Of an `apiVersion` and a kind.
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        Self { group: group.into(), version: version.into(), kind: kind.into(), is_cluster_scoped: false }
    }

    /// The same three, whatever is known about the scope.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.group == other.group && self.version == other.version && self.kind == other.kind
    }

    /// Whether every part that the selector has is equal.
    pub(crate) fn is_selected(&self, selector: &Self) -> bool {
        let fits = |wanted: &SmolStr, found: &SmolStr| wanted.is_empty() || wanted == found;
        fits(&selector.group, &self.group)
            && fits(&selector.version, &self.version)
            && fits(&selector.kind, &self.kind)
    }

    /// The `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The text that sorts kinds.
    pub(crate) fn sort_text(&self) -> String {
        let or =
            |text: &SmolStr, none: &'static str| if text.is_empty() { none.into() } else { text.clone() };
        format!("{}_{}_{}", or(&self.group, "~G"), or(&self.version, "~V"), or(&self.kind, "~K"))
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or =
            |text: &SmolStr, none: &'static str| if text.is_empty() { none.into() } else { text.clone() };
        write!(
            f,
            "{}.{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]")
        )
    }
}

/// Group and version of an `apiVersion`.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// What names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ResourceId {
    pub(crate) gvk: Gvk,
    pub(crate) name: SmolStr,
    pub(crate) namespace: SmolStr,
}

impl ResourceId {
    /// The namespace, where none and `default` are the same.
    pub(crate) fn effective_namespace(&self) -> &str {
        if self.gvk.is_cluster_scoped {
            NO_NAMESPACE_AT_ALL
        } else if self.namespace.is_empty() {
            DEFAULT_NAMESPACE
        } else {
            &self.namespace
        }
    }

    /// Whether kind and name are equal.
    pub(crate) fn is_same_name(&self, other: &Self) -> bool {
        self.name == other.name && self.gvk.equals(&other.gvk)
    }

    /// Whether both name the same resource.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.is_same_name(other) && self.is_same_namespace(other)
    }

    /// Whether both are in the same namespace, or in none.
    pub(crate) fn is_same_namespace(&self, other: &Self) -> bool {
        self.effective_namespace() == other.effective_namespace()
    }

    /// Whether every part that the selector has is equal.
    pub(crate) fn is_selected_by(&self, selector: &Self) -> bool {
        (selector.name.is_empty() || selector.name == self.name)
            && (selector.namespace.is_empty() || selector.is_same_namespace(self))
            && self.gvk.is_selected(&selector.gvk)
    }

    /// Whether the id says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "[noName]" } else { &self.name };
        let namespace = if self.namespace.is_empty() { "[noNs]" } else { &self.namespace };
        write!(f, "{}/{name}.{namespace}", self.gvk)
    }
}
