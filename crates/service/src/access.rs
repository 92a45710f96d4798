//! On whose behalf a call is made.

use std::fmt;

use tiphys_policy::rbac::scoped_object;
pub use tiphys_policy::rbac::{Located, Resource};

/// Actions of the RBAC rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at it.
    Get,
    /// Make it.
    Create,
    /// Change it.
    Update,
    /// Remove it.
    Delete,
}

impl Action {
    /// The word in a policy line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// One question: may the caller do this?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// What kind of thing it is about.
    pub resource: Resource,
    /// What is to be done.
    pub action: Action,
    /// What it is about.
    pub object: Object<'a>,
}

/// What an access is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// Something by its name; empty where there is none.
    Name(&'a str),
    /// Something by its address, in a project or in the shared scope (REP-41).
    Address(Located<'a>),
}

impl<'a> Access<'a> {
    pub(crate) fn named(resource: Resource, action: Action, name: &'a str) -> Self {
        Self { resource, action, object: Object::Name(name) }
    }

    pub(crate) fn located(resource: Resource, action: Action, located: &Located<'a>) -> Self {
        Self { resource, action, object: Object::Address(*located) }
    }

    /// The object of the rules, for example `<project>/<url>`.
    pub fn object(&self) -> String {
        match self.object {
            Object::Name(name) => name.to_owned(),
            Object::Address(Located { project, address }) => scoped_object(project, address),
        }
    }
}

type Ask<'a> = &'a (dyn Fn(&Access<'_>) -> Result<(), String> + Send + Sync);

/// Who calls. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Caller<'a>(Option<Ask<'a>>);

impl<'a> Caller<'a> {
    /// A person with their own rights in Kubernetes, which decides (CLI-140).
    pub fn operator() -> Self {
        Self(None)
    }

    /// An account whose rules are asked; a refusal comes with the text of `PermissionDenied`.
    pub fn asking(ask: Ask<'a>) -> Self {
        Self(Some(ask))
    }

    /// Whether it may.
    ///
    /// # Errors
    /// With the text of the refusal.
    pub fn may(&self, access: &Access<'_>) -> Result<(), crate::Error> {
        match self.0 {
            None => Ok(()),
            Some(ask) => ask(access).map_err(crate::Error::Denied),
        }
    }
}

impl fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Caller(asked)" } else { "Caller(operator)" })
    }
}
