//! What providers have.

use serde_json::Value;

/// A branch of a repository (ASET-56).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repository {
    /// Organisation, group, project or owner.
    pub organization: String,
    /// Name.
    pub repository: String,
    /// Id: an integer, or a text where the provider has texts.
    pub repository_id: Value,
    /// URL to clone from.
    pub url: String,
    /// Branch.
    pub branch: String,
    /// Its head; empty where the provider does not say.
    pub sha: String,
    /// Labels.
    pub labels: Vec<String>,
}

/// A pull request (ASET-63).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// Number.
    pub number: String,
    /// Title.
    pub title: String,
    /// Branch with the changes.
    pub branch: String,
    /// Branch they are for.
    pub target_branch: String,
    /// Head of the branch with the changes.
    pub head_sha: String,
    /// Who asks.
    pub author: String,
    /// Labels.
    pub labels: Vec<String>,
}

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
