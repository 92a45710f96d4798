//! The providers. Each has a part that reads answers and one that asks.

pub(crate) mod azure_devops;
pub(crate) mod bitbucket;
pub(crate) mod bitbucket_server;
mod code_commit;
pub(crate) mod gitea;
pub(crate) mod github;
mod github_app;
pub(crate) mod gitlab;

pub(crate) use azure_devops::AzureDevOps;
pub(crate) use bitbucket::Bitbucket;
pub(crate) use bitbucket_server::BitbucketServer;
pub(crate) use code_commit::CodeCommit;
pub(crate) use gitea::Gitea;
pub(crate) use github::Github;
pub(crate) use github_app::{AppTokens, AppWhere};
pub(crate) use gitlab::Gitlab;

use reqwest::Url;

use crate::block::CloneProtocol;
use crate::found::{Branch, Head, PullRequest};
use crate::item::Item;
use crate::{PullRequestGenerator, ScmError};

/// Items of a page, as it is asked for; [`crate::paging`] knows the number.
const PAGE: &str = "100";

/// A provider, logged in.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each question")]
pub(crate) enum Host {
    Github(Github),
    Gitlab(Gitlab),
    Gitea(Gitea),
    BitbucketServer(BitbucketServer),
    Bitbucket(Bitbucket),
    AzureDevOps(AzureDevOps),
    CodeCommit(CodeCommit),
}

impl Host {
    /// All repositories that are meant, without their branches.
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        match self {
            Self::Github(host) => host.repositories().await,
            Self::Gitlab(host) => host.repositories().await,
            Self::Gitea(host) => host.repositories().await,
            Self::BitbucketServer(host) => host.repositories().await,
            Self::Bitbucket(host) => host.repositories().await,
            Self::AzureDevOps(host) => host.repositories().await,
            Self::CodeCommit(host) => host.repositories().await,
        }
    }

    /// Labels that are asked for one by one.
    pub(crate) async fn labels(&self, head: &mut Head) -> Result<(), ScmError> {
        match self {
            Self::Gitea(host) => host.labels(head).await,
            _ => Ok(()),
        }
    }

    /// The branches that are meant; none for a repository without any.
    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        match self {
            Self::Github(host) => host.branches(head).await,
            Self::Gitlab(host) => host.branches(head).await,
            Self::Gitea(host) => host.branches(head).await,
            Self::BitbucketServer(host) => host.branches(head).await,
            Self::Bitbucket(host) => host.branches(head).await,
            Self::AzureDevOps(host) => host.branches(head).await,
            Self::CodeCommit(host) => host.branches(head).await,
        }
    }

    /// Whether there is a file or a directory on a branch.
    pub(crate) async fn has_path(&self, head: &Head, branch: &Branch, path: &str) -> Result<bool, ScmError> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        // Nothing in a tree is called so.
        if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
            return Ok(false);
        }
        // The root is always there.
        if segments.is_empty() {
            return Ok(true);
        }
        match self {
            Self::Github(host) => host.has_path(head, branch, &segments).await,
            Self::Gitlab(host) => host.has_path(head, branch, &segments).await,
            Self::Gitea(host) => host.has_path(head, branch, &segments).await,
            Self::BitbucketServer(host) => host.has_path(head, branch, &segments).await,
            Self::Bitbucket(host) => host.has_path(head, branch, &segments).await,
            Self::AzureDevOps(host) => host.has_path(head, branch, &segments).await,
            Self::CodeCommit(host) => host.has_path(head, branch, &segments).await,
        }
    }

    /// The open pull requests, before the generator's filters; nothing when there is no such repository.
    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        match self {
            Self::Github(host) => host.pull_requests(generator).await,
            Self::Gitlab(host) => host.pull_requests(generator).await,
            Self::Gitea(host) => host.pull_requests(generator).await,
            Self::BitbucketServer(host) => host.pull_requests(generator).await,
            Self::Bitbucket(host) => host.pull_requests(generator).await,
            Self::AzureDevOps(host) => host.pull_requests(generator).await,
            // There is no block for it.
            Self::CodeCommit(_) => Ok(None),
        }
    }
}

/// An address that somebody wrote: HTTP, with a host, without a login in it.
pub(crate) fn address(written: &str) -> Result<Url, ScmError> {
    let wrong = || ScmError::Block(format!("{:?} is no address of an API", without_login(written)));
    let mut url = Url::parse(written.trim()).map_err(|_error| wrong())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if !is_http || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong());
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Whoever writes a password into an address does not want to read it in an error.
fn without_login(written: &str) -> &str {
    written.rsplit_once('@').map_or(written, |(_, rest)| rest)
}

/// The address with a path appended, unless it ends so.
pub(crate) fn ending_with(mut url: Url, suffix: &str) -> Url {
    let path = url.path().trim_end_matches('/').to_owned();
    if path.ends_with(suffix.trim_end_matches('/')) {
        url.set_path(&path);
    } else {
        url.set_path(&format!("{path}{suffix}"));
    }
    url
}

/// Of two members the one with the address to clone with; the other may be absent where a server has one way only.
pub(crate) fn cloned_by(
    protocol: CloneProtocol,
    item: Item<'_>,
    (ssh, https): (&str, &str),
) -> Result<String, String> {
    match protocol {
        CloneProtocol::Ssh => item.text(ssh),
        CloneProtocol::Https | CloneProtocol::HttpsFips => item.text(https),
    }
}

/// The pull requests that carry all labels.
fn labelled(mut found: Vec<PullRequest>, wanted: &[String]) -> Vec<PullRequest> {
    found.retain(|request| has_all(&request.labels, wanted));
    found
}

/// Whether a pull request carries all labels.
fn has_all(labels: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|label| labels.contains(label))
}

/// The repositories, of which each says whether it is archived.
fn unarchived(found: Vec<(Head, bool)>, without_archived: bool) -> Vec<Head> {
    let kept = found.into_iter().filter(|(_, is_archived)| !(without_archived && *is_archived));
    kept.map(|(head, _)| head).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aset_58_addresses_of_apis() {
        assert_eq!(address("https://h/a?x=1#y").unwrap().as_str(), "https://h/a");
        for wrong in ["", "h", "ftp://h", "file:///etc/passwd", "https://", "https://u:hunter2@h/"] {
            let error = address(wrong).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let ended = |written: &str| ending_with(address(written).unwrap(), "/rest").to_string();
        assert_eq!(ended("https://h"), "https://h/rest");
        assert_eq!(ended("https://h/"), "https://h/rest");
        assert_eq!(ended("https://h/rest/"), "https://h/rest");
        assert_eq!(ended("https://h/bitbucket"), "https://h/bitbucket/rest");
    }
}
