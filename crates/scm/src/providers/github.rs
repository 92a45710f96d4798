//! GitHub and GitHub Enterprise.

use reqwest::Url;
use serde_json::Value;

use super::{PAGE, address, cloned_by, labelled, unarchived};
use crate::block::{CloneProtocol, RepositoryOptions};
use crate::found::{Branch, Head, PullRequest};
use crate::http::Site;
use crate::item::{Item, each};
use crate::paging::Paging;
use crate::{PullRequestGenerator, ScmError};

/// Headers of every question.
pub(crate) const HEADERS: &[(&str, &str)] =
    &[("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];

/// An organisation or owner at GitHub.
#[derive(Debug)]
pub(crate) struct Github {
    pub(crate) site: Site,
    pub(crate) owner: String,
    pub(crate) options: RepositoryOptions,
    pub(crate) protocol: CloneProtocol,
}

/// Where the API is: GitHub's, or that of an Enterprise server, which is below `/api/v3` unless the host says that it
/// is one of APIs.
pub(crate) fn base(api: &str) -> Result<Url, ScmError> {
    let mut url = address(if api.is_empty() { "https://api.github.com" } else { api })?;
    let host = url.host_str().unwrap_or_default();
    let is_api = host.starts_with("api.") || host.contains(".api.");
    let path = url.path().trim_end_matches('/').to_owned();
    if !is_api && !path.ends_with("/api/v3") {
        url.set_path(&format!("{path}/api/v3"));
    }
    Ok(url)
}

impl Github {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let doing = "listing the repositories of the organization";
        let url = self.site.url(&["orgs", &self.owner, "repos"], &[("per_page", PAGE)])?;
        let read = |body: &Value| each(body, "a repository", |item| self.head(item));
        let found = self.site.all(url, (doing, "/orgs/{org}/repos"), Paging::Link, read).await?;
        Ok(unarchived(found, self.options.without_archived))
    }

    /// A repository, and whether it is archived.
    fn head(&self, item: Item<'_>) -> Result<(Head, bool), String> {
        let head = Head {
            organization: item.text("owner.login")?,
            name: item.text("name")?,
            id: item.number("id")?.into(),
            url: cloned_by(self.protocol, item, ("ssh_url", "clone_url"))?,
            default_branch: item.some("default_branch").unwrap_or_default(),
            labels: item.texts("topics")?,
        };
        Ok((head, item.is_on("archived")))
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        let doing = "listing the branches of a repository";
        if self.options.all_branches {
            let url =
                self.site.url(&["repos", &self.owner, &head.name, "branches"], &[("per_page", PAGE)])?;
            let endpoint = "/repos/{owner}/{repo}/branches";
            let read = |body: &Value| each(body, "a branch", branch);
            return self.site.all(url, (doing, endpoint), Paging::Link, read).await;
        }
        if head.default_branch.is_empty() {
            return Ok(Vec::new());
        }
        let path = ["repos", &self.owner, &head.name, "branches", &head.default_branch];
        let url = self.site.url(&path, &[])?;
        let answer = self.site.get(url, doing, "/repos/{owner}/{repo}/branches/{branch}").await?;
        if !answer.is_found {
            // An empty repository names a branch that is not there yet.
            return Ok(Vec::new());
        }
        self.site.one(&answer, ("a branch", doing), branch)
    }

    pub(crate) async fn has_path(
        &self,
        head: &Head,
        branch: &Branch,
        path: &[&str],
    ) -> Result<bool, ScmError> {
        let segments = [&["repos", &self.owner, &head.name, "contents"], path].concat();
        let url = self.site.url(&segments, &[("ref", &branch.name)])?;
        let endpoint = "/repos/{owner}/{repo}/contents/{path}";
        // A file comes with its content unless it is asked for like this.
        self.site.has(url, "looking for a path in a repository", endpoint).await
    }

    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        let path = ["repos", &self.owner, &generator.repository, "pulls"];
        let url = self.site.url(&path, &[("state", "open"), ("per_page", PAGE)])?;
        let about = ("listing pull requests", "/repos/{owner}/{repo}/pulls");
        let read = |body: &Value| each(body, "a pull request", pull_request);
        let found = self.site.list(url, about, Paging::Link, read).await?;
        Ok(found.map(|found| labelled(found, &generator.labels)))
    }
}

fn branch(item: Item<'_>) -> Result<Branch, String> {
    Ok(Branch { name: item.text("name")?, sha: item.text("commit.sha")? })
}

fn pull_request(item: Item<'_>) -> Result<PullRequest, String> {
    Ok(PullRequest {
        number: item.number("number")?.to_string(),
        title: item.some("title").unwrap_or_default(),
        branch: item.text("head.ref")?,
        target_branch: item.text("base.ref")?,
        head_sha: item.text("head.sha")?,
        // Whoever has left has no name any more.
        author: item.some("user.login").unwrap_or_default(),
        labels: item.names("labels")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aset_58_the_api_of_enterprise_servers() {
        let base = |api: &str| base(api).unwrap().to_string();
        assert_eq!(base(""), "https://api.github.com/");
        assert_eq!(base("https://api.github.com"), "https://api.github.com/");
        assert_eq!(base("https://git.example.com"), "https://git.example.com/api/v3");
        assert_eq!(base("https://git.example.com/api/v3/"), "https://git.example.com/api/v3/");
        assert_eq!(base("https://x.api.example.com"), "https://x.api.example.com/");
    }
}
