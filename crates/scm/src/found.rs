//! What providers have.

use serde_json::Value;
pub use tiphys_appset::generate::{PullRequest, Repository};

/// A repository before its branches are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Head {
    pub(crate) organization: String,
    pub(crate) name: String,
    pub(crate) id: Value,
    pub(crate) url: String,
    /// Empty where there is none.
    pub(crate) default_branch: String,
    pub(crate) labels: Vec<String>,
}

/// A branch and its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) name: String,
    pub(crate) sha: String,
}

impl Head {
    pub(crate) fn at(&self, branch: &Branch) -> Repository {
        Repository {
            organization: self.organization.clone(),
            repository: self.name.clone(),
            repository_id: self.id.clone(),
            url: self.url.clone(),
            branch: branch.name.clone(),
            sha: branch.sha.clone(),
            labels: self.labels.clone(),
        }
    }
}
