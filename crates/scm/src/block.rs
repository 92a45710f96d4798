//! The generators `scmProvider` and `pullRequest` as they are written (ASET-55, ASET-58, ASET-62, ASET-64).
//!
//! What they need from Secrets and `ConfigMap`s they say themselves ([`Needs`]); whoever may read these reads them.

mod pull_request;
mod scm;

use serde_json::{Map, Value};

use crate::ScmError;
use crate::fields::Fields;
use crate::filter::{PullRequestFilter, RepositoryFilter};

/// How repositories are cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloneProtocol {
    Ssh,
    Https,
    HttpsFips,
}

/// Who is asked, and what of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Github { owner: String, api: String },
    Gitlab { group: String, api: String },
    Gitea { owner: String, api: String },
    BitbucketServer { project: String, api: String, username: String },
    Bitbucket { owner: String, api: String, username: String },
    AzureDevOps { organization: String, project: String, api: String },
    CodeCommit { role: String, region: String, tags: Vec<(String, String)> },
}

impl Provider {
    /// What it is called in errors about all of it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Github { .. } => "GitHub",
            Self::Gitlab { .. } => "GitLab",
            Self::Gitea { .. } => "Gitea",
            Self::BitbucketServer { .. } => "Bitbucket Server",
            Self::Bitbucket { .. } => "Bitbucket",
            Self::AzureDevOps { .. } => "Azure DevOps",
            Self::CodeCommit { .. } => "AWS CodeCommit",
        }
    }

    /// The address of the API that is named.
    fn api(&self) -> &str {
        match self {
            Self::Github { api, .. }
            | Self::Gitlab { api, .. }
            | Self::Gitea { api, .. }
            | Self::BitbucketServer { api, .. }
            | Self::Bitbucket { api, .. }
            | Self::AzureDevOps { api, .. } => api,
            Self::CodeCommit { .. } => "",
        }
    }
}

/// A generator that asks for repositories.
#[derive(Clone, Debug)]
pub struct ScmGenerator {
    pub(crate) provider: Provider,
    pub(crate) options: RepositoryOptions,
    pub(crate) filters: Vec<RepositoryFilter>,
    pub(crate) protocol: CloneProtocol,
    pub(crate) insecure: bool,
    pub(crate) needs: Needs,
}

/// Which repositories and branches are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as they are written")]
pub(crate) struct RepositoryOptions {
    pub(crate) all_branches: bool,
    pub(crate) without_archived: bool,
    pub(crate) include_subgroups: bool,
    pub(crate) include_shared: bool,
    pub(crate) topic: String,
}

/// A generator that asks for pull requests.
#[derive(Clone, Debug)]
pub struct PullRequestGenerator {
    pub(crate) provider: Provider,
    pub(crate) repository: String,
    pub(crate) labels: Vec<String>,
    /// State of merge requests; empty means all (ASET-64).
    pub(crate) state: String,
    pub(crate) filters: Vec<PullRequestFilter>,
    pub(crate) none_if_not_found: bool,
    pub(crate) insecure: bool,
    pub(crate) needs: Needs,
}

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    /// Name of the Secret, in the namespace of the set.
    pub secret_name: String,
    /// Key in its data.
    pub key: String,
}

/// A key of a `ConfigMap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapKey {
    /// Name of the `ConfigMap`, in the namespace of the set.
    pub name: String,
    /// Key in its data.
    pub key: String,
}

/// What has to be read for a generator (ASET-59): Secrets and `ConfigMap`s of the set's namespace, and the Secret of
/// a GitHub App, which is one of the installation's credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// A token.
    pub token: Option<SecretKey>,
    /// A password.
    pub password: Option<SecretKey>,
    /// Certificates that are trusted in addition.
    pub ca: Option<ConfigMapKey>,
    /// Name of a Secret in the form of repository credentials.
    pub github_app: Option<String>,
}

/// A reference to a key of a Secret.
fn secret_key(fields: &mut Fields<'_>, member: &'static str) -> Result<Option<SecretKey>, ScmError> {
    let Some(object) = fields.object(member)? else { return Ok(None) };
    let mut inner = Fields::of(member, object);
    let found = SecretKey { secret_name: inner.needed("secretName")?, key: inner.needed("key")? };
    inner.end()?;
    Ok(Some(found))
}

/// A reference that has to be there.
fn needed_secret_key(fields: &mut Fields<'_>, member: &'static str) -> Result<SecretKey, ScmError> {
    secret_key(fields, member)?.ok_or_else(|| fields.wrong(member, "an object"))
}

/// The token of most blocks.
fn token_of(fields: &mut Fields<'_>) -> Result<Needs, ScmError> {
    Ok(Needs { token: secret_key(fields, "tokenRef")?, ..Needs::default() })
}

fn ca(fields: &mut Fields<'_>) -> Result<Option<ConfigMapKey>, ScmError> {
    let Some(object) = fields.object("caRef")? else { return Ok(None) };
    let mut inner = Fields::of("caRef", object);
    let found = ConfigMapKey { name: inner.needed("configMapName")?, key: inner.needed("key")? };
    inner.end()?;
    Ok(Some(found))
}

/// User name, password and token of the blocks for Bitbucket. A token counts more than a password (ASET-58).
fn bitbucket_login(fields: &mut Fields<'_>) -> Result<(String, Needs), ScmError> {
    let mut needs = Needs::default();
    let mut username = String::new();
    if let Some(basic) = fields.object("basicAuth")? {
        let mut basic = Fields::of("basicAuth", basic);
        username = basic.needed("username")?;
        needs.password = Some(needed_secret_key(&mut basic, "passwordRef")?);
        basic.end()?;
    }
    if let Some(bearer) = fields.object("bearerToken")? {
        let mut bearer = Fields::of("bearerToken", bearer);
        needs.token = Some(needed_secret_key(&mut bearer, "tokenRef")?);
        bearer.end()?;
        needs.password = None;
    }
    Ok((username, needs))
}

/// The block of the provider that counts.
fn own_block<'b>(
    block: &'b Map<String, Value>,
    providers: &[&'static str],
) -> Option<(&'static str, &'b Map<String, Value>)> {
    providers.iter().find_map(|name| Some((*name, block.get(*name)?.as_object()?)))
}

/// Members of a generator that are for others to read.
fn pass_common(fields: &mut Fields<'_>, providers: &[&'static str]) {
    for member in providers.iter().chain(&["values", "template", "requeueAfterSeconds"]) {
        fields.pass(member);
    }
}
