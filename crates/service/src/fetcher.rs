//! Brings what renderings lack: the one place through which a source reaches the network (RND-89, RND-99, RND-104,
//! SEC-50).
//!
//! Controller and command line use it alike. Credentials are those that the project may use; what it may not is asked for
//! without any, as the reference does.

use std::sync::Arc;

use futures::future::BoxFuture;
use tiphys_api::AppProject;
use tiphys_api::application::ApplicationSource;
use tiphys_installation::Installation;
use tiphys_plugin::{Answer, PluginError};
use tiphys_render::Tree;
use tiphys_render::needs::{Need, Supply};
use tiphys_render::plan::Content;
use tiphys_render::plugins::PluginCall;
use tiphys_source::{Freshness, Repository, SourceError, Sources};

/// Brings things for one source.
#[derive(Clone, Copy)]
pub struct Fetcher<'a> {
    /// Whose credentials are used.
    pub installation: &'a Installation,
    /// For whom.
    pub project: &'a AppProject,
    /// Who speaks to servers.
    pub sources: &'a Sources,
    /// The source that lacks something.
    pub source: &'a ApplicationSource,
    /// Its files.
    pub tree: &'a Arc<dyn Tree>,
    /// Whether plugins are asked although their answer is known (RND-144).
    pub is_fresh: bool,
}

/// What a source means now, and its files.
///
/// # Errors
/// When the revision or the files cannot be had.
pub async fn content(
    sources: &Sources,
    repository: &Repository,
    source: &ApplicationSource,
    revision: &str,
) -> Result<(String, Arc<dyn Tree>), SourceError> {
    match Content::of(source) {
        Content::Git => {
            let resolved =
                sources.resolve_tag(repository, revision, &source.tag_prefix, Freshness::Cached).await?;
            let tree = sources.tree(repository, &resolved.commit).await?;
            Ok((resolved.commit, tree))
        }
        Content::Chart => {
            let version =
                sources.resolve_chart(repository, &source.chart, revision, Freshness::Cached).await?;
            let chart = sources.chart(repository, &source.chart, &version, false).await?;
            Ok((version, chart.tree))
        }
        Content::Oci => {
            let digest = sources.resolve_artifact(repository, revision, Freshness::Cached).await?;
            let tree = sources.artifact(repository, &digest, false).await?;
            Ok((digest, tree))
        }
    }
}

/// Why something was not brought.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server failed, or does not have it.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It may not be had.
    #[error("{0}")]
    Refused(String),
    /// A plugin failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl Fetcher<'_> {
    /// Brings what is needed; other sources of the application are for who knows them.
    ///
    /// # Errors
    /// When it cannot be had. Nothing stands for what could not be brought.
    pub async fn bring(&self, need: &Need) -> Result<Supply, FetchError> {
        match need {
            Need::Ref { name } => Err(FetchError::Refused(format!("no source has the ref {name:?}"))),
            Need::Chart { repository, name, version } => self.chart(repository, name, version).await,
            Need::ChartFiles { repository, name, version } => self.files(repository, name, version).await,
            Need::Tool(call) => Ok(Supply::bytes(self.sources.tool(self.tree, call).await?)),
            Need::Plugin(call) => self.plugin(call).await,
            Need::Resource { url } => {
                match self.sources.file(url).await {
                    Ok(bytes) => Ok(Supply::bytes(bytes)),
                    // The server said so; whoever cannot be asked said nothing.
                    Err(error @ (SourceError::NotThere { .. } | SourceError::Denied { .. })) => {
                        Ok(Supply::absent(error.to_string()))
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Need::Repository { url, revision } => {
                let repository = self.repository(url)?;
                let commit = self.sources.resolve(&repository, revision, Freshness::Cached).await?;
                Ok(Supply::tree(self.sources.tree(&repository, &commit).await?))
            }
            // As Helm and Kustomize ask: without credentials.
            Need::File { url } => Ok(Supply::bytes(self.sources.file(url).await?)),
        }
    }

    /// What a plugin answers (RND-133, RND-137).
    async fn plugin(&self, call: &PluginCall) -> Result<Supply, FetchError> {
        let fetcher = *self;
        let credentials = move || -> BoxFuture<'_, Result<Vec<(String, String)>, String>> {
            Box::pin(async move {
                let url = &fetcher.source.repo_url;
                let repository = fetcher.installation.repository(url, fetcher.project.name())?;
                let found = fetcher.sources.git_variables(&Repository::from(&repository)).await;
                found.map_err(|error| error.to_string())
            })
        };
        let asked = self.sources.plugin_answer(self.tree, call, &credentials, self.is_fresh).await;
        match asked? {
            Answer::Given(bytes) => Ok(Supply::bytes(bytes)),
            Answer::Nobody(why) => Ok(Supply::absent(why)),
        }
    }

    /// The repository of a chart, and the version that is meant.
    async fn version(
        &self,
        url: &str,
        name: &str,
        version: &str,
    ) -> Result<(Repository, String), FetchError> {
        let is_oci = self.source.repo_url.starts_with("oci://");
        let found = self.installation.dependency_repository(url, self.project, is_oci);
        let mut repository = Repository::from(&found.map_err(FetchError::Refused)?);
        repository.is_foreign = self.installation.repository_refusal(self.project, url).is_some();
        repository.pass_credentials = self.source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
        let version = if version.is_empty() { "*" } else { version };
        let resolved = self.sources.resolve_chart(&repository, name, version, Freshness::Cached).await;
        Ok((repository, resolved.map_err(|error| self.judged(url, error))?))
    }

    async fn chart(&self, url: &str, name: &str, version: &str) -> Result<Supply, FetchError> {
        let (repository, version) = self.version(url, name, version).await?;
        let packed = self.sources.packed_chart(&repository, name, &version).await;
        let (bytes, digest) = packed.map_err(|error| self.judged(url, error))?;
        Ok(Supply { id: digest, ..Supply::bytes(bytes) })
    }

    async fn files(&self, url: &str, name: &str, version: &str) -> Result<Supply, FetchError> {
        let (repository, version) = self.version(url, name, version).await?;
        let tree = self.sources.chart_root(&repository, name, &version).await;
        Ok(Supply::tree(tree.map_err(|error| self.judged(url, error))?))
    }

    /// A failure at a repository that the project does not permit is told as that (RND-105).
    fn judged(&self, url: &str, error: SourceError) -> FetchError {
        let is_permitted = self.installation.repository_refusal(self.project, url).is_none();
        let cannot_be_had = matches!(
            error,
            SourceError::Denied { .. } | SourceError::NotThere { .. } | SourceError::Malformed { .. }
        );
        if is_permitted || !cannot_be_had {
            return error.into();
        }
        let (url, project) = (tiphys_api::repo_url::redact(url), self.project.name());
        FetchError::Refused(format!("helm repos {url} are not permitted in project '{project}'"))
    }

    /// The repository of a base. Credentials go to what the project permits, and nowhere else (RND-89).
    fn repository(&self, url: &str) -> Result<Repository, FetchError> {
        if self.installation.repository_refusal(self.project, url).is_some() {
            return Ok(Repository { is_foreign: true, ..Repository::anonymous(url) });
        }
        let found = self.installation.repository(url, self.project.name()).map_err(FetchError::Refused)?;
        Ok(Repository::from(&found))
    }
}
