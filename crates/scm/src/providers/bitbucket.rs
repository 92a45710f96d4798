//! Bitbucket's cloud.

use reqwest::Url;
use serde_json::Value;

use super::{PAGE, address};
use crate::block::{CloneProtocol, RepositoryOptions};
use crate::found::{Branch, Head, PullRequest};
use crate::http::Site;
use crate::item::{Item, each_in};
use crate::paging::Paging;
use crate::{PullRequestGenerator, ScmError};

/// A workspace at Bitbucket.
#[derive(Debug)]
pub(crate) struct Bitbucket {
    pub(crate) site: Site,
    pub(crate) owner: String,
    pub(crate) options: RepositoryOptions,
    pub(crate) protocol: CloneProtocol,
}

/// As many pull requests as a page may have.
const PULL_REQUESTS: &str = "50";

/// Where the API is.
pub(crate) fn base(api: &str) -> Result<Url, ScmError> {
    address(if api.is_empty() { "https://api.bitbucket.org/2.0" } else { api })
}

impl Bitbucket {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let doing = "listing the repositories of the workspace";
        let url = self.site.url(&["repositories", &self.owner], &[("role", "member"), ("pagelen", PAGE)])?;
        let read = |body: &Value| each_in(body, "values", "a repository", |item| self.head(item));
        self.site.all(url, (doing, "/repositories/{owner}"), Paging::Next, read).await
    }

    fn head(&self, item: Item<'_>) -> Result<Head, String> {
        let wanted = match self.protocol {
            CloneProtocol::Ssh => "ssh",
            CloneProtocol::Https | CloneProtocol::HttpsFips => "https",
        };
        let links = item.list("links.clone")?.iter().map(|link| Item::of("a link", link));
        let link = links
            .filter(|link| link.some("name").as_deref() == Some(wanted))
            .find_map(|link| link.some("href"));
        Ok(Head {
            organization: self.owner.clone(),
            name: item.text("slug")?,
            id: item.text("uuid")?.into(),
            url: link.ok_or_else(|| format!("a repository has no link called {wanted}"))?,
            // An empty repository has none.
            default_branch: item.some("mainbranch.name").unwrap_or_default(),
            labels: Vec::new(),
        })
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        let doing = "listing the branches of a repository";
        let path = ["repositories", &self.owner, &head.name, "refs", "branches"];
        if self.options.all_branches {
            let url = self.site.url(&path, &[("pagelen", PAGE)])?;
            let about = (doing, "/repositories/{owner}/{repo}/refs/branches");
            let read = |body: &Value| each_in(body, "values", "a branch", branch);
            return self.site.all(url, about, Paging::Next, read).await;
        }
        if head.default_branch.is_empty() {
            return Ok(Vec::new());
        }
        let name: Vec<&str> = head.default_branch.split('/').collect();
        let url = self.site.url(&[path.as_slice(), &name].concat(), &[])?;
        let answer = self.site.get(url, doing, "/repositories/{owner}/{repo}/refs/branches/{branch}").await?;
        if !answer.is_found {
            return Err(self.site.not_found(doing));
        }
        self.site.one(&answer, ("a branch", doing), branch)
    }

    pub(crate) async fn has_path(
        &self,
        head: &Head,
        branch: &Branch,
        path: &[&str],
    ) -> Result<bool, ScmError> {
        // By the commit, since a branch may have slashes in its name.
        let segments = [&["repositories", &self.owner, &head.name, "src", &branch.sha], path].concat();
        let url = self.site.url(&segments, &[("format", "meta")])?;
        let endpoint = "/repositories/{owner}/{repo}/src/{commit}/{path}";
        let doing = "looking for a path in a repository";
        self.site.gets(url, doing, endpoint).await
    }

    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        let path = ["repositories", &self.owner, &generator.repository, "pullrequests"];
        let url = self.site.url(&path, &[("state", "OPEN"), ("pagelen", PULL_REQUESTS)])?;
        let about = ("listing pull requests", "/repositories/{owner}/{repo}/pullrequests");
        let read = |body: &Value| each_in(body, "values", "a pull request", pull_request);
        self.site.list(url, about, Paging::Next, read).await
    }
}

fn branch(item: Item<'_>) -> Result<Branch, String> {
    Ok(Branch { name: item.text("name")?, sha: item.text("target.hash")? })
}

fn pull_request(item: Item<'_>) -> Result<PullRequest, String> {
    Ok(PullRequest {
        number: item.number("id")?.to_string(),
        title: item.some("title").unwrap_or_default(),
        branch: item.text("source.branch.name")?,
        target_branch: item.text("destination.branch.name")?,
        head_sha: item.some("source.commit.hash").unwrap_or_default(),
        author: item.some("author.nickname").unwrap_or_default(),
        labels: Vec::new(),
    })
}
