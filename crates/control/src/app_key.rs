//! How applications and their sets are named inside the controller.

use std::fmt;

use smol_str::SmolStr;

/// Namespace and name of an application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AppKey {
    /// Namespace of the Application object.
    pub(crate) namespace: SmolStr,
    /// Its name.
    pub(crate) name: SmolStr,
}

impl AppKey {
    /// Makes one from its parts.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Namespace and name of an `ApplicationSet`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SetKey {
    /// Namespace of the set, which is that of its applications.
    pub(crate) namespace: SmolStr,
    /// Its name.
    pub(crate) name: SmolStr,
}

impl SetKey {
    /// Makes one from its parts.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for SetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
