//! What credentials are for: to read a repository, or to push to it. Neither stands for the other (REP-23).

use tiphys_api::repository::SecretKind;
use tiphys_policy::rbac::Resource;

/// What credentials are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Rendering, and everything else that only reads.
    Read,
    /// Pushing hydrated manifests.
    Push,
}

impl Purpose {
    /// The Secrets of single repositories.
    pub fn repositories(self) -> SecretKind {
        match self {
            Self::Read => SecretKind::Repository,
            Self::Push => SecretKind::WriteRepository,
        }
    }

    /// The Secrets of templates.
    pub fn templates(self) -> SecretKind {
        match self {
            Self::Read => SecretKind::Template,
            Self::Push => SecretKind::WriteTemplate,
        }
    }

    /// What the RBAC rules call both (REP-41).
    pub fn resource(self) -> Resource {
        match self {
            Self::Read => Resource::Repositories,
            Self::Push => Resource::WriteRepositories,
        }
    }
}
