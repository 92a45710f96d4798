//! On whose behalf a call is made.

use std::fmt;

pub use tiphys_policy::rbac::Resource;

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
    /// The object of the rule, for example `<project>/<url>` (REP-41).
    pub object: &'a str,
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
