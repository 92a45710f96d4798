//! Names of things in a cluster: group/version/kind and the key of one object.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use smol_str::SmolStr;

use crate::access;

/// API group, version and kind of an object. The core group is the empty string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group, empty for the core group.
    pub group: SmolStr,
    /// API version, for example `v1`.
    pub version: SmolStr,
    /// Kind, for example `Deployment`.
    pub kind: SmolStr,
}

impl Gvk {
    /// Makes one from its parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Reads `apiVersion` and `kind` texts; a text without `/` is a version of the core group.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// Reads `apiVersion` and `kind` of a manifest; absent members count as empty.
    pub fn of(object: &Value) -> Self {
        Self::from_api_version(access::text(object, "apiVersion"), access::text(object, "kind"))
    }

    /// `group/version`, or just the version for the core group.
    pub fn api_version(&self) -> SmolStr {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            smol_str::format_smolstr!("{}/{}", self.group, self.version)
        }
    }

    /// The pair without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl fmt::Display for Gvk {
    /// Prints as Go's `GroupVersionKind` does: `apps/v1, Kind=Deployment`, core `/v1, Kind=Pod`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// API group and kind, the version left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// API group, empty for the core group.
    pub group: SmolStr,
    /// Kind.
    pub kind: SmolStr,
}

impl GroupKind {
    /// Makes one from its parts.
    pub fn new(group: &str, kind: &str) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    /// Prints `group/Kind`; the core group prints as `/Kind`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.kind)
    }
}

/// Identity of one object in a cluster; the version is not part of it (ENG notation).
///
/// ```
/// # use tiphys_object::ResourceKey;
/// let key = ResourceKey::new("apps", "Deployment", "default", "web");
/// assert_eq!(key.to_string(), "apps/Deployment/default/web");
/// assert_eq!("/ConfigMap/default/cm".parse(), Ok(ResourceKey::new("", "ConfigMap", "default", "cm")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// API group, empty for the core group.
    pub group: SmolStr,
    /// Kind.
    pub kind: SmolStr,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: SmolStr,
    /// Name.
    pub name: SmolStr,
}

impl ResourceKey {
    /// Makes one from its parts.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Key of a manifest as it is written: no namespace defaulting.
    pub fn of(object: &Value) -> Self {
        let gvk = Gvk::of(object);
        Self {
            group: gvk.group,
            kind: gvk.kind,
            namespace: access::namespace(object).into(),
            name: access::name(object).into(),
        }
    }

    /// The group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// The same key in another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self.clone() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.group, self.kind, self.namespace, self.name)
    }
}

/// A text that is not of the form `group/Kind/namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource key {text:?} is not of the form group/Kind/namespace/name")]
pub struct KeyError {
    /// The text as given.
    pub text: String,
}

impl FromStr for ResourceKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut parts = text.splitn(4, '/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(group), Some(kind), Some(namespace), Some(name)) => {
                Ok(Self::new(group, kind, namespace, name))
            }
            _ => Err(KeyError { text: text.to_owned() }),
        }
    }
}
