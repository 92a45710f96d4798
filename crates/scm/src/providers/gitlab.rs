//! GitLab.

use reqwest::Url;
use serde_json::Value;

use super::{PAGE, address, cloned_by, ending_with};
use crate::block::{CloneProtocol, RepositoryOptions};
use crate::found::{Branch, Head, PullRequest};
use crate::http::Site;
use crate::item::{Item, each};
use crate::paging::Paging;
use crate::{PullRequestGenerator, ScmError};

/// A group, or a project, at GitLab.
#[derive(Debug)]
pub(crate) struct Gitlab {
    pub(crate) site: Site,
    pub(crate) group: String,
    pub(crate) options: RepositoryOptions,
    pub(crate) protocol: CloneProtocol,
}

/// Where the API is.
pub(crate) fn base(api: &str) -> Result<Url, ScmError> {
    Ok(ending_with(address(if api.is_empty() { "https://gitlab.com" } else { api })?, "/api/v4"))
}

impl Gitlab {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let doing = "listing the projects of the group";
        let options = &self.options;
        let flag = |flag: bool| if flag { "true" } else { "false" };
        let mut query = vec![
            ("per_page", PAGE),
            ("include_subgroups", flag(options.include_subgroups)),
            ("with_shared", flag(options.include_shared)),
        ];
        if options.without_archived {
            query.push(("archived", "false"));
        }
        if !options.topic.is_empty() {
            query.push(("topic", &options.topic));
        }
        let url = self.site.url(&["groups", &self.group, "projects"], &query)?;
        let read = |body: &Value| each(body, "a project", |item| self.head(item));
        self.site.all(url, (doing, "/groups/{group}/projects"), Paging::NextPage, read).await
    }

    fn head(&self, item: Item<'_>) -> Result<Head, String> {
        let topics = item.texts("topics")?;
        Ok(Head {
            organization: item.text("namespace.full_path")?,
            name: item.text("path")?,
            id: item.number("id")?.into(),
            url: cloned_by(self.protocol, item, ("ssh_url_to_repo", "http_url_to_repo"))?,
            default_branch: item.some("default_branch").unwrap_or_default(),
            labels: if topics.is_empty() { item.texts("tag_list")? } else { topics },
        })
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        let doing = "listing the branches of a project";
        let id = head.id.to_string();
        let path = ["projects", &id, "repository", "branches"];
        if self.options.all_branches {
            let url = self.site.url(&path, &[("per_page", PAGE)])?;
            let about = (doing, "/projects/{project}/repository/branches");
            let read = |body: &Value| each(body, "a branch", branch);
            return self.site.all(url, about, Paging::NextPage, read).await;
        }
        if head.default_branch.is_empty() {
            return Ok(Vec::new());
        }
        let url = self.site.url(&[path.as_slice(), &[&head.default_branch]].concat(), &[])?;
        let answer = self.site.get(url, doing, "/projects/{project}/repository/branches/{branch}").await?;
        if !answer.is_found {
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
        let doing = "looking for a path in a project";
        let (id, path) = (head.id.to_string(), path.join("/"));
        let file =
            self.site.url(&["projects", &id, "repository", "files", &path], &[("ref", &branch.name)])?;
        let endpoint = "/projects/{project}/repository/files/{path}";
        if self.site.has(file, doing, endpoint).await? {
            return Ok(true);
        }
        let query = [("path", path.as_str()), ("ref", &branch.name), ("per_page", "1")];
        let tree = self.site.url(&["projects", &id, "repository", "tree"], &query)?;
        let answer = self.site.get(tree, doing, "/projects/{project}/repository/tree").await?;
        if !answer.is_found {
            return Ok(false);
        }
        let items = answer.body.as_array().ok_or_else(|| self.site.unreadable(doing, "it is no list"))?;
        Ok(!items.is_empty())
    }

    pub(crate) async fn pull_requests(
        &self,
        generator: &PullRequestGenerator,
    ) -> Result<Option<Vec<PullRequest>>, ScmError> {
        let labels = generator.labels.join(",");
        let mut query = vec![("per_page", PAGE)];
        if !labels.is_empty() {
            query.push(("labels", &labels));
        }
        if !generator.state.is_empty() {
            query.push(("state", &generator.state));
        }
        let url = self.site.url(&["projects", &generator.repository, "merge_requests"], &query)?;
        let about = ("listing merge requests", "/projects/{project}/merge_requests");
        let read = |body: &Value| each(body, "a merge request", merge_request);
        self.site.list(url, about, Paging::NextPage, read).await
    }
}

fn branch(item: Item<'_>) -> Result<Branch, String> {
    Ok(Branch { name: item.text("name")?, sha: item.text("commit.id")? })
}

fn merge_request(item: Item<'_>) -> Result<PullRequest, String> {
    Ok(PullRequest {
        number: item.number("iid")?.to_string(),
        title: item.some("title").unwrap_or_default(),
        branch: item.text("source_branch")?,
        target_branch: item.text("target_branch")?,
        // The branch of a merged request may be gone.
        head_sha: item.some("sha").unwrap_or_default(),
        author: item.some("author.username").unwrap_or_default(),
        labels: item.texts("labels")?,
    })
}
