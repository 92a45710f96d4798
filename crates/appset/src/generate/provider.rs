//! Repositories and pull requests of providers as parameters (ASET-55..65).
//!
//! Who speaks to a provider hands in what it found as [`Repository`] or [`PullRequest`] and gets parameters for it.

use serde_json::{Map, Number, Value};

use super::{GenerateError, Run, unread_refusal};
use crate::facts::ProviderQuestion;
use crate::generator::Kind;
use crate::params::Params;
use crate::references::provider_refusal;
use crate::scope::namespace_of;
use crate::slug::{branch_slug, normalize};

/// Providers of repositories: of several the first counts (ASET-55).
const SCM: [&str; 7] =
    ["github", "gitlab", "gitea", "bitbucketServer", "azureDevOps", "bitbucket", "awsCodeCommit"];
/// Providers of pull requests: of several the first counts (ASET-62).
const PULL_REQUEST: [&str; 6] = ["github", "gitlab", "gitea", "bitbucketServer", "bitbucket", "azuredevops"];

/// A branch of a repository that a provider has (ASET-56).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repository {
    /// Organisation, group or owner.
    pub organization: String,
    /// Name.
    pub repository: String,
    /// Id: a number, or a text where the provider has texts.
    pub repository_id: Value,
    /// URL to clone from.
    pub url: String,
    /// Branch.
    pub branch: String,
    /// Its head.
    pub sha: String,
    /// Labels.
    pub labels: Vec<String>,
}

impl Repository {
    /// Its parameters, the same in both languages (ASET-56).
    pub fn parameters(&self) -> Params {
        let mut set = Params::new();
        for (key, text) in [
            ("organization", self.organization.as_str()),
            ("repository", &self.repository),
            ("url", &self.url),
            ("branch", &self.branch),
            ("branchNormalized", &normalize(&self.branch)),
            ("sha", &self.sha),
            ("short_sha", short(&self.sha, 8)),
            ("short_sha_7", short(&self.sha, 7)),
            ("labels", &self.labels.join(",")),
        ] {
            set.insert(key.to_owned(), text.into());
        }
        set.insert("repository_id".to_owned(), whole(self.repository_id.clone()));
        set
    }
}

/// A pull request that a provider has (ASET-63).
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

impl PullRequest {
    /// Its parameters; labels are for Go templates only (ASET-63).
    pub fn parameters(&self, is_go: bool) -> Params {
        let mut set = Params::new();
        for (key, text) in [
            ("number", self.number.as_str()),
            ("title", &self.title),
            ("branch", &self.branch),
            ("branch_slug", &branch_slug(&self.branch)),
            ("target_branch", &self.target_branch),
            ("target_branch_slug", &branch_slug(&self.target_branch)),
            ("head_sha", &self.head_sha),
            ("head_short_sha", short(&self.head_sha, 8)),
            ("head_short_sha_7", short(&self.head_sha, 7)),
            ("author", &self.author),
        ] {
            set.insert(key.to_owned(), text.into());
        }
        if is_go {
            let labels = self.labels.iter().map(|label| Value::from(label.as_str())).collect();
            set.insert("labels".to_owned(), Value::Array(labels));
        }
        set
    }
}

/// A shorter SHA whole.
fn short(sha: &str, length: usize) -> &str {
    sha.get(..length).unwrap_or(sha)
}

/// An id as an integer where it is one: it has to print all its digits.
fn whole(id: Value) -> Value {
    let integer = id
        .as_f64()
        .filter(|float| float.fract() == 0.0)
        .and_then(|_| id.as_i64().or_else(|| format!("{:.0}", id.as_f64()?).parse().ok()));
    integer.map_or(id, |integer| Value::Number(Number::from(integer)))
}

/// Blocks of the providers of a generator; of several the first counts.
pub(crate) fn providers_of(kind: Kind) -> &'static [&'static str] {
    if kind == Kind::PullRequest { &PULL_REQUEST } else { &SCM }
}

pub(super) fn generate(
    run: &mut Run<'_>,
    kind: Kind,
    block: &Map<String, Value>,
) -> Result<Vec<Params>, GenerateError> {
    let settings = run.request.settings;
    if !settings.scm_providers {
        return Err(GenerateError::failed("scm providers are disabled"));
    }
    let is_pull_request = kind == Kind::PullRequest;
    let found = providers_of(kind).iter().find_map(|name| Some((*name, block.get(*name)?.as_object()?)));
    let Some((provider, own)) = found else {
        return Err(GenerateError::failed(if is_pull_request {
            "no Pull Request provider implementation configured"
        } else {
            "no SCM provider implementation configured"
        }));
    };
    let access = run.scope.access(settings);
    if let Some(refusal) = provider_refusal(provider, own, &access, &settings.allowed_scm_providers) {
        return Err(GenerateError::Failed(refusal));
    }
    let question = ProviderQuestion {
        provider,
        block: own.clone(),
        generator: block.clone(),
        kind,
        namespace: namespace_of(run.request.set, run.request.control_plane_namespace).to_owned(),
        control_plane: run.request.control_plane_namespace.to_owned(),
        access,
    };
    unread_refusal(&question.access, &question.references())?;
    let given = if is_pull_request {
        run.facts.pull_requests(&question)?
    } else {
        run.facts.repositories(&question)?
    };
    let mut sets = Vec::new();
    for set in given.iter() {
        let mut set = set.clone();
        run.add_values(block, &mut set)?;
        run.made(set, &mut sets)?;
    }
    Ok(sets)
}
