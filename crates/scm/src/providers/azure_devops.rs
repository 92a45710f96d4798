//! Azure DevOps.

use reqwest::Url;
use serde_json::Value;

use super::{PAGE, address, has_all};
use crate::block::RepositoryOptions;
use crate::found::{Branch, Head, PullRequest};
use crate::http::{Answer, Site};
use crate::item::{Item, each_in};
use crate::paging::Paging;
use crate::{PullRequestGenerator, ScmError};

/// A project at Azure DevOps; the organisation is a part of the address.
#[derive(Debug)]
pub(crate) struct AzureDevOps {
    pub(crate) site: Site,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) options: RepositoryOptions,
}

/// The version of the API, one that servers of companies have too.
const VERSION: (&str, &str) = ("api-version", "6.0");
/// What names of branches begin with.
const BRANCHES: &str = "refs/heads/";
/// Kinds of "not there".
const NO_REPOSITORY: &str = "GitRepositoryNotFoundException";
const NO_ITEM: &str = "GitItemNotFoundException";

/// Where the API of an organisation is.
pub(crate) fn base(api: &str, organization: &str) -> Result<Url, ScmError> {
    let mut url = address(if api.is_empty() { "https://dev.azure.com" } else { api })?;
    let wrong = || ScmError::Block(format!("{organization:?} is no organization of Azure DevOps"));
    if matches!(organization, "" | "." | "..") {
        return Err(wrong());
    }
    url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().push(organization);
    Ok(url)
}

/// Whether something is not there for this reason.
fn is_absent(answer: &Answer, reason: &str) -> bool {
    !answer.is_found && answer.why.get("typeKey").and_then(Value::as_str) == Some(reason)
}

impl AzureDevOps {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let doing = "listing the repositories of the project";
        let url = self.site.url(&[&self.project, "_apis", "git", "repositories"], &[VERSION])?;
        let answer = self.site.get(url, doing, "/{project}/_apis/git/repositories").await?;
        if !answer.is_found {
            return Err(self.site.not_found(doing));
        }
        let found = each_in(&answer.body, "value", "a repository", |item| self.head(item));
        let found = found.map_err(|problem| self.site.unreadable(doing, problem))?;
        if found.len() > self.site.limits.items {
            return Err(self.site.too_many(doing, self.site.limits.items, "items"));
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// A repository, unless it lacks what every one with content has.
    fn head(&self, item: Item<'_>) -> Result<Option<Head>, String> {
        let all = (item.some("name"), item.some("defaultBranch"), item.some("remoteUrl"));
        let (Some(name), Some(default_branch), Some(url)) = all else { return Ok(None) };
        Ok(Some(Head {
            organization: self.organization.clone(),
            name,
            id: item.text("id")?.into(),
            url,
            default_branch: without_prefix(&default_branch),
            labels: Vec::new(),
        }))
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        let doing = "listing the branches of a repository";
        let path = [&self.project, "_apis", "git", "repositories", &head.name, "stats", "branches"];
        let mut query = vec![VERSION];
        if !self.options.all_branches {
            query.push(("name", &head.default_branch));
        }
        let url = self.site.url(&path, &query)?;
        let endpoint = "/{project}/_apis/git/repositories/{repo}/stats/branches";
        let answer = self.site.get(url, doing, endpoint).await?;
        // It has gone since the repositories were listed.
        if is_absent(&answer, NO_REPOSITORY) {
            return Ok(Vec::new());
        }
        if !answer.is_found {
            return Err(self.site.not_found(doing));
        }
        let read = if self.options.all_branches {
            each_in(&answer.body, "value", "a branch", branch)
        } else {
            branch(Item::of("a branch", &answer.body)).map(|branch| vec![branch])
        };
        let found = read.map_err(|problem| self.site.unreadable(doing, problem))?;
        if found.len() > self.site.limits.items {
            return Err(self.site.too_many(doing, self.site.limits.items, "items"));
        }
        Ok(found)
    }

    pub(crate) async fn has_path(
        &self,
        head: &Head,
        branch: &Branch,
        path: &[&str],
    ) -> Result<bool, ScmError> {
        let doing = "looking for a path in a repository";
        let path = format!("/{}", path.join("/"));
        let query = [
            ("path", path.as_str()),
            ("versionDescriptor.version", &branch.name),
            ("versionDescriptor.versionType", "branch"),
            ("$format", "json"),
            VERSION,
        ];
        let segments = [&self.project, "_apis", "git", "repositories", &head.name, "items"];
        let url = self.site.url(&segments, &query)?;
        let answer = self.site.get(url, doing, "/{project}/_apis/git/repositories/{repo}/items").await?;
        if answer.is_found || is_absent(&answer, NO_ITEM) {
            return Ok(answer.is_found);
        }
        Err(self.site.not_found(doing))
    }

    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        let query = [("searchCriteria.status", "active"), ("$top", PAGE), VERSION];
        let url = self.site.url(&[&self.project, "_apis", "git", "pullrequests"], &query)?;
        let about = ("listing pull requests", "/{project}/_apis/git/pullrequests");
        let read = |body: &Value| each_in(body, "value", "a pull request", pull_request);
        let found = self.site.list(url, about, Paging::Skip, read).await?;
        Ok(found.map(|found| {
            let wanted = found.into_iter().flatten().filter(|(repository, request)| {
                *repository == generator.repository && has_all(&request.labels, &generator.labels)
            });
            wanted.map(|(_, request)| request).collect()
        }))
    }
}

fn without_prefix(branch: &str) -> String {
    branch.strip_prefix(BRANCHES).unwrap_or(branch).to_owned()
}

fn branch(item: Item<'_>) -> Result<Branch, String> {
    Ok(Branch { name: item.text("name")?, sha: item.text("commit.commitId")? })
}

/// A pull request and the name of its repository, unless it lacks what makes it one.
fn pull_request(item: Item<'_>) -> Result<Option<(String, PullRequest)>, String> {
    let all = (
        item.some("repository.name"),
        item.get("pullRequestId").and_then(Value::as_i64),
        item.some("sourceRefName"),
        item.some("lastMergeSourceCommit.commitId"),
    );
    let (Some(repository), Some(number), Some(source), Some(head_sha)) = all else { return Ok(None) };
    let author = item.some("createdBy.uniqueName").unwrap_or_default();
    let request = PullRequest {
        number: number.to_string(),
        title: item.some("title").unwrap_or_default(),
        branch: without_prefix(&source),
        target_branch: without_prefix(&item.some("targetRefName").unwrap_or_default()),
        head_sha,
        author: author.split('@').next().unwrap_or_default().to_owned(),
        labels: item.names("labels")?,
    };
    Ok(Some((repository, request)))
}
