//! Why content of a repository is not available. No text contains credentials or paths of the host.

/// A failed question to a repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The URL or the credentials cannot be used at all.
    #[error("{text}")]
    InvalidRepository {
        /// What is wrong.
        text: String,
    },
    /// The revision cannot be the name of anything (RND-34).
    #[error("revision {revision:?} is not valid")]
    InvalidRevision {
        /// The revision as given.
        revision: String,
    },
    /// The server was asked and has no such revision (RND-30).
    #[error("unable to resolve '{revision}' to a commit SHA: revision not found")]
    RevisionNotFound {
        /// The revision as given.
        revision: String,
    },
    /// A version prefix was used with a revision that is no constraint (RND-41).
    #[error("{text}")]
    Version {
        /// What is wrong.
        text: String,
    },
    /// The server was asked, and what was asked for is not there.
    #[error("{text}")]
    NotThere {
        /// What is missing.
        text: String,
    },
    /// What the server has is not what it should be, and will not become that by asking again.
    #[error("{text}")]
    Malformed {
        /// What is wrong with it.
        text: String,
    },
    /// The server does not let us in (RND-27).
    #[error("{text}")]
    Denied {
        /// What git said.
        text: String,
    },
    /// Somebody else pushed to the branch again and again while we did (CTL-114).
    #[error("{text}")]
    Conflict {
        /// What git said.
        text: String,
    },
    /// The server could not be asked, or failed; trying again may help.
    #[error("{text}")]
    Unavailable {
        /// What git said.
        text: String,
    },
    /// Time ran out (RND-10).
    #[error("{text}")]
    Timeout {
        /// Which command, and after how long.
        text: String,
    },
    /// A limit of ours was reached.
    #[error("{text}")]
    Exhausted {
        /// Which one.
        text: String,
    },
    /// Nobody can say whether a signature is good (REP-202).
    #[error("{text}")]
    Unverifiable {
        /// Why.
        text: String,
    },
    /// The cache on disk failed.
    #[error("{text}")]
    Cache {
        /// What failed.
        text: String,
    },
}

impl SourceError {
    /// Whether the same question may be answered later (RND-146).
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. } | Self::Cache { .. })
    }
}
