//! AWS `CodeCommit`, with our own signatures.

use std::collections::BTreeMap;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tiphys_cloud::aws::Identity;
use tiphys_cloud::sigv4::{self, Scope};

use crate::ScmError;
use crate::block::{CloneProtocol, RepositoryOptions};
use crate::found::{Branch, Head};
use crate::http::{Answer, Ask, Site};
use crate::item::{Item, each};
use crate::refusal::aws_error;

/// The repositories of an account in a region.
#[derive(Debug)]
pub(crate) struct CodeCommit {
    /// The service of repositories.
    pub(crate) site: Site,
    /// The service of tags.
    pub(crate) tagging: Site,
    pub(crate) identity: Identity,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) options: RepositoryOptions,
    pub(crate) protocol: CloneProtocol,
}

/// What the services are called in requests.
const CODE_COMMIT: (&str, &str) = ("codecommit", "CodeCommit_20150413");
const TAGGING: (&str, &str) = ("tagging", "ResourceGroupsTaggingAPI_20170126");
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

impl CodeCommit {
    pub(crate) async fn repositories(&self) -> Result<Vec<Head>, ScmError> {
        let names = if self.tags.is_empty() { self.all_names().await? } else { self.tagged_names().await? };
        let mut heads = Vec::with_capacity(names.len());
        for name in names {
            heads.push(self.head(&name).await?);
        }
        Ok(heads)
    }

    async fn all_names(&self) -> Result<Vec<String>, ScmError> {
        let doing = "listing repositories";
        self.pages(&self.site, CODE_COMMIT, ("ListRepositories", doing), "nextToken", json!({}), |body| {
            each(body.get("repositories").unwrap_or(&Value::Null), "a repository", |item| {
                item.text("repositoryName")
            })
        })
        .await
    }

    /// Names of repositories with tags: one of the values of each key.
    async fn tagged_names(&self) -> Result<Vec<String>, ScmError> {
        let mut filters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (key, value) in &self.tags {
            let values = filters.entry(key).or_default();
            if !value.is_empty() {
                values.push(value);
            }
        }
        let filters: Vec<Value> =
            filters.into_iter().map(|(key, values)| json!({"Key": key, "Values": values})).collect();
        let question = json!({"TagFilters": filters, "ResourceTypeFilters": ["codecommit"]});
        let about = ("GetResources", "listing repositories by their tags");
        self.pages(&self.tagging, TAGGING, about, "PaginationToken", question, |body| {
            each(body.get("ResourceTagMappingList").unwrap_or(&Value::Null), "a resource", |item| {
                let arn = item.text("ResourceARN")?;
                let name = arn.splitn(6, ':').nth(5).filter(|name| !name.is_empty());
                name.map(str::to_owned).ok_or_else(|| "a resource has no name".to_owned())
            })
        })
        .await
    }

    async fn head(&self, name: &str) -> Result<Head, ScmError> {
        let doing = "reading a repository";
        let answer = self.ask(("GetRepository", doing), json!({"repositoryName": name})).await?;
        let found = self.found(answer, doing)?;
        let metadata = found.get("repositoryMetadata").unwrap_or(&Value::Null);
        let item = Item::of("a repository", metadata);
        let read = || {
            let https = item.text("cloneUrlHttp")?;
            Ok(Head {
                organization: item.text("accountId")?,
                name: item.text("repositoryName")?,
                id: item.text("repositoryId")?.into(),
                url: match self.protocol {
                    CloneProtocol::Ssh => item.text("cloneUrlSsh")?,
                    CloneProtocol::Https => https,
                    CloneProtocol::HttpsFips => fips(&https),
                },
                default_branch: item.some("defaultBranch").unwrap_or_default(),
                labels: Vec::new(),
            })
        };
        read().map_err(|problem: String| self.site.unreadable(doing, problem))
    }

    pub(crate) async fn branches(&self, head: &Head) -> Result<Vec<Branch>, ScmError> {
        // Heads are not asked for: each would be a request.
        let named = |name: String| Branch { name, sha: String::new() };
        if !self.options.all_branches {
            let default = &head.default_branch;
            return Ok(if default.is_empty() { Vec::new() } else { vec![named(default.clone())] });
        }
        let about = ("ListBranches", "listing the branches of a repository");
        let question = json!({"repositoryName": head.name});
        let names = self.pages(&self.site, CODE_COMMIT, about, "nextToken", question, |body| {
            Item::of("the list", body).list("branches")?;
            Item::of("the list", body).texts("branches")
        });
        Ok(names.await?.into_iter().map(named).collect())
    }

    pub(crate) async fn has_path(
        &self,
        head: &Head,
        branch: &Branch,
        path: &[&str],
    ) -> Result<bool, ScmError> {
        let doing = "looking for a path in a repository";
        let Some((_, folder)) = path.split_last() else { return Ok(true) };
        // What is in the folder, since a file would come with its content.
        let question = json!({
            "repositoryName": head.name,
            "commitSpecifier": branch.name,
            "folderPath": format!("/{}", folder.join("/")),
        });
        let answer = self.ask(("GetFolder", doing), question).await?;
        if !answer.is_found && aws_error(&answer.why) == "FolderDoesNotExistException" {
            return Ok(false);
        }
        let found = self.found(answer, doing)?;
        let wanted = path.join("/");
        let mut has = false;
        for kind in ["files", "subFolders", "symbolicLinks", "subModules"] {
            let items = found.get(kind).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            has |= items.iter().any(|item| item.get("absolutePath").and_then(Value::as_str) == Some(&wanted));
        }
        Ok(has)
    }

    /// All items of a list whose pages are named by tokens.
    async fn pages<T>(
        &self,
        site: &Site,
        service: (&'static str, &str),
        (action, doing): (&'static str, &'static str),
        token: &str,
        question: Value,
        read: impl Fn(&Value) -> Result<Vec<T>, String>,
    ) -> Result<Vec<T>, ScmError> {
        let (mut question, mut items) = (question, Vec::new());
        for _ in 0..site.limits.pages {
            let answer = self.ask_at(site, service, (action, doing), &question).await?;
            let body = self.found(answer, doing)?;
            items.extend(read(&body).map_err(|problem| site.unreadable(doing, problem))?);
            if items.len() > site.limits.items {
                return Err(site.too_many(doing, site.limits.items, "items"));
            }
            let next = match body.get(token) {
                None | Some(Value::Null) => return Ok(items),
                Some(Value::String(next)) if next.is_empty() => return Ok(items),
                Some(next @ Value::String(_)) if question.get(token) != Some(next) => next.clone(),
                Some(_) => return Err(site.unreadable(doing, "its next page is the same one, or none")),
            };
            if let Some(members) = question.as_object_mut() {
                members.insert(token.to_owned(), next);
            }
        }
        Err(site.too_many(doing, site.limits.pages, "pages"))
    }

    async fn ask(&self, about: (&'static str, &'static str), question: Value) -> Result<Answer, ScmError> {
        self.ask_at(&self.site, CODE_COMMIT, about, &question).await
    }

    async fn ask_at(
        &self,
        site: &Site,
        (service, version): (&'static str, &str),
        (action, doing): (&'static str, &'static str),
        question: &Value,
    ) -> Result<Answer, ScmError> {
        let (body, host, target) = (question.to_string(), site.host(), format!("{version}.{action}"));
        let scope = Scope { host: &host, region: &self.identity.region, service, now: Timestamp::now() };
        let given = [("content-type", CONTENT_TYPE), ("x-amz-target", target.as_str())];
        let mut headers = sigv4::signed_post(scope, &self.identity.keys, &given, &body);
        // The client names the host itself.
        headers.retain(|(name, _)| *name != "host");
        let ask = Ask {
            method: Method::POST,
            headers,
            body,
            tells_why: true,
            ..Ask::get(site.base.clone(), doing, action)
        };
        site.ask(ask).await
    }

    /// The body of an answer; whatever is missing is an error here (ASET-58).
    fn found(&self, answer: Answer, doing: &'static str) -> Result<Value, ScmError> {
        if answer.is_found {
            return Ok(answer.body);
        }
        match aws_error(&answer.why) {
            "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "ExpiredTokenException" => Err(ScmError::Denied { host: self.site.host(), doing, status: 400 }),
            error if !error.is_empty() && error.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err(self.site.unreadable(doing, format!("it refuses with {error}")))
            }
            _ => Err(self.site.not_found(doing)),
        }
    }
}

/// The address with the host that keeps to FIPS.
fn fips(https: &str) -> String {
    https.replacen("://git-codecommit.", "://git-codecommit-fips.", 1)
}
