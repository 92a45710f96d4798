//! Bitbucket Server and Data Center.

use reqwest::Url;
use serde_json::Value;

use super::{PAGE, address, ending_with};
use crate::block::{CloneProtocol, RepositoryOptions};
use crate::found::{Branch, Head, PullRequest};
use crate::http::Site;
use crate::item::{Item, each_in};
use crate::paging::Paging;
use crate::{PullRequestGenerator, ScmError};

/// A project at Bitbucket Server.
#[derive(Debug)]
pub(crate) struct BitbucketServer {
    pub(crate) site: Site,
    pub(crate) project: String,
    pub(crate) options: RepositoryOptions,
    pub(crate) protocol: CloneProtocol,
}

/// Headers of every question.
pub(crate) const HEADERS: &[(&str, &str)] = &[("x-atlassian-token", "no-check")];

/// Where the API is.
pub(crate) fn base(api: &str) -> Result<Url, ScmError> {
    Ok(ending_with(ending_with(address(api)?, "/rest"), "/api/1.0"))
}

impl BitbucketServer {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let doing = "listing the repositories of the project";
        let url = self.site.url(&["projects", &self.project, "repos"], &[("limit", PAGE)])?;
        let read = |body: &Value| each_in(body, "values", "a repository", |item| self.head(item));
        self.site.all(url, (doing, "/projects/{project}/repos"), Paging::Start, read).await
    }

    fn head(&self, item: Item<'_>) -> Result<Head, String> {
        let wanted = match self.protocol {
            CloneProtocol::Ssh => "ssh",
            CloneProtocol::Https | CloneProtocol::HttpsFips => "http",
        };
        let links = item.list("links.clone")?.iter().map(|link| Item::of("a link", link));
        let link = links
            .filter(|link| link.some("name").as_deref() == Some(wanted))
            .find_map(|link| link.some("href"));
        Ok(Head {
            organization: item.text("project.key")?,
            name: item.text("slug")?,
            id: item.number("id")?.into(),
            url: link.ok_or_else(|| format!("a repository has no link called {wanted}"))?,
            default_branch: String::new(),
            labels: Vec::new(),
        })
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        let doing = "listing the branches of a repository";
        let path = ["projects", &self.project, "repos", &head.name, "branches"];
        // A repository without a default branch is empty, whatever is asked for.
        let url = self.site.url(&[path.as_slice(), &["default"]].concat(), &[])?;
        let answer = self.site.get(url, doing, "/projects/{project}/repos/{repo}/branches/default").await?;
        if !answer.is_found || answer.body.is_null() {
            return Ok(Vec::new());
        }
        if !self.options.all_branches {
            return self.site.one(&answer, ("a branch", doing), branch);
        }
        let url = self.site.url(&path, &[("limit", PAGE)])?;
        let about = (doing, "/projects/{project}/repos/{repo}/branches");
        let read = |body: &Value| each_in(body, "values", "a branch", branch);
        self.site.all(url, about, Paging::Start, read).await
    }

    pub(crate) async fn has_path(
        &self,
        head: &Head,
        branch: &Branch,
        path: &[&str],
    ) -> Result<bool, ScmError> {
        let segments = [&["projects", &self.project, "repos", &head.name, "browse"], path].concat();
        // Only what it is, not what is in it.
        let url = self.site.url(&segments, &[("at", &branch.name), ("type", "true")])?;
        let doing = "looking for a path in a repository";
        let endpoint = "/projects/{project}/repos/{repo}/browse/{path}";
        Ok(self.site.get(url, doing, endpoint).await?.is_found)
    }

    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        let path = ["projects", &self.project, "repos", &generator.repository, "pull-requests"];
        let url = self.site.url(&path, &[("state", "OPEN"), ("limit", PAGE)])?;
        let about = ("listing pull requests", "/projects/{project}/repos/{repo}/pull-requests");
        let read = |body: &Value| each_in(body, "values", "a pull request", pull_request);
        self.site.list(url, about, Paging::Start, read).await
    }
}

fn branch(item: Item<'_>) -> Result<Branch, String> {
    Ok(Branch { name: item.text("displayId")?, sha: item.text("latestCommit")? })
}

fn pull_request(item: Item<'_>) -> Result<PullRequest, String> {
    Ok(PullRequest {
        number: item.number("id")?.to_string(),
        title: item.some("title").unwrap_or_default(),
        branch: item.text("fromRef.displayId")?,
        target_branch: item.text("toRef.displayId")?,
        head_sha: item.text("fromRef.latestCommit")?,
        author: item.some("author.user.name").unwrap_or_default(),
        labels: Vec::new(),
    })
}
