//! Gitea, and what has its API.

use reqwest::Url;
use serde_json::Value;

use super::{PAGE, address, cloned_by, ending_with, labelled, unarchived};
use crate::block::{CloneProtocol, RepositoryOptions};
use crate::found::{Branch, Head, PullRequest};
use crate::http::Site;
use crate::item::{Item, each};
use crate::paging::Paging;
use crate::{PullRequestGenerator, ScmError};

/// An organisation at Gitea.
#[derive(Debug)]
pub(crate) struct Gitea {
    pub(crate) site: Site,
    pub(crate) owner: String,
    pub(crate) options: RepositoryOptions,
    pub(crate) protocol: CloneProtocol,
}

/// The first page; how many items come with it the server decides.
const FIRST: [(&str, &str); 2] = [("page", "1"), ("limit", PAGE)];

/// Where the API is.
pub(crate) fn base(api: &str) -> Result<Url, ScmError> {
    Ok(ending_with(address(api)?, "/api/v1"))
}

impl Gitea {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let doing = "listing the repositories of the organization";
        let url = self.site.url(&["orgs", &self.owner, "repos"], &FIRST)?;
        let read = |body: &Value| each(body, "a repository", |item| self.head(item));
        let found = self.site.all(url, (doing, "/orgs/{org}/repos"), Paging::Counted, read).await?;
        Ok(unarchived(found, self.options.without_archived))
    }

    /// A repository, and whether it is archived.
    fn head(&self, item: Item<'_>) -> Result<(Head, bool), String> {
        let head = Head {
            organization: self.owner.clone(),
            name: item.text("name")?,
            id: item.number("id")?.into(),
            url: cloned_by(self.protocol, item, ("ssh_url", "clone_url"))?,
            default_branch: item.some("default_branch").unwrap_or_default(),
            labels: Vec::new(),
        };
        Ok((head, item.is_on("archived")))
    }

    /// Labels of issues stand for labels of the repository.
    pub(crate) async fn labels(&self, head: &mut Head) -> Result<(), ScmError> {
        let doing = "listing the labels of a repository";
        let url = self.site.url(&["repos", &self.owner, &head.name, "labels"], &FIRST)?;
        let about = (doing, "/repos/{owner}/{repo}/labels");
        let read = |body: &Value| each(body, "a label", |item| item.text("name"));
        head.labels = self.site.all(url, about, Paging::Counted, read).await?;
        Ok(())
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        let doing = "listing the branches of a repository";
        let path = ["repos", &self.owner, &head.name, "branches"];
        if self.options.all_branches {
            let url = self.site.url(&path, &FIRST)?;
            let about = (doing, "/repos/{owner}/{repo}/branches");
            let read = |body: &Value| each(body, "a branch", branch);
            return self.site.all(url, about, Paging::Counted, read).await;
        }
        // Slashes in the name of a branch are slashes of the path.
        let name: Vec<&str> = head.default_branch.split('/').collect();
        let url = self.site.url(&[path.as_slice(), &name].concat(), &[])?;
        let answer = self.site.get(url, doing, "/repos/{owner}/{repo}/branches/{branch}").await?;
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
        let segments = [&["repos", &self.owner, &head.name, "contents"], path].concat();
        let url = self.site.url(&segments, &[("ref", &branch.name)])?;
        let endpoint = "/repos/{owner}/{repo}/contents/{path}";
        let doing = "looking for a path in a repository";
        self.site.gets(url, doing, endpoint).await
    }

    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        let path = ["repos", &self.owner, &generator.repository, "pulls"];
        let url = self.site.url(&path, &[("state", "open"), ("page", "1"), ("limit", PAGE)])?;
        let about = ("listing pull requests", "/repos/{owner}/{repo}/pulls");
        let read = |body: &Value| each(body, "a pull request", pull_request);
        let found = self.site.list(url, about, Paging::Counted, read).await?;
        Ok(found.map(|found| labelled(found, &generator.labels)))
    }
}

fn branch(item: Item<'_>) -> Result<Branch, String> {
    Ok(Branch { name: item.text("name")?, sha: item.text("commit.id")? })
}

fn pull_request(item: Item<'_>) -> Result<PullRequest, String> {
    Ok(PullRequest {
        number: item.number("number")?.to_string(),
        title: item.some("title").unwrap_or_default(),
        branch: item.text("head.ref")?,
        target_branch: item.text("base.ref")?,
        // Empty when the branch was deleted.
        head_sha: item.some("head.sha").unwrap_or_default(),
        author: item.some("user.login").unwrap_or_default(),
        labels: item.names("labels")?,
    })
}
