//! Whether repositories answer with their credentials (REP-78).

use super::artifacts::reference_of;
use super::charts::invalid;
use super::{Freshness, Sources};
use crate::observer::Request;
use crate::registry::reference::Reference;
use crate::{Repository, SourceError};

impl Sources {
    /// Asks a Git server for its references.
    ///
    /// # Errors
    /// With what it said.
    pub async fn test(&self, repository: &Repository) -> Result<(), SourceError> {
        self.list_refs(repository, Freshness::Fetch).await.map(drop)
    }

    /// Reads the index of a chart repository.
    ///
    /// # Errors
    /// When it cannot be had completely.
    pub async fn test_charts(&self, repository: &Repository) -> Result<(), SourceError> {
        self.chart_index(repository, Freshness::Fetch).await.map(drop)
    }

    /// Asks the registry of charts whether it lets us in. Its URL may be only the beginning of those of charts, so
    /// no repository is asked for.
    ///
    /// # Errors
    /// When it does not answer, or not to the login there is.
    pub async fn test_registry(&self, repository: &Repository) -> Result<(), SourceError> {
        self.remote_only(repository)?;
        let registry =
            Reference::registry(repository.url.expose()).map_err(|why| invalid(repository, why))?;
        let trust = self.0.trust.lock().clone();
        let asking = self.0.registry.knock((repository, &trust), &registry);
        self.asked((repository, Request::OciTest, ""), asking).await
    }

    /// Lists the tags of a repository of artifacts. Where it is no repository but the beginning of several, or listing
    /// needs a right that pulling does not, the registry has to let us in.
    ///
    /// # Errors
    /// When nobody answers, or lets nobody in.
    pub async fn test_artifacts(&self, repository: &Repository) -> Result<(), SourceError> {
        let Ok(reference) = reference_of(repository) else { return self.test_registry(repository).await };
        match self.oci_tags(repository, Freshness::Fetch).await {
            Err(SourceError::NotThere { .. }) => self.test_registry(repository).await,
            Err(SourceError::Denied { .. }) if self.0.registry.has_login(repository, &reference) => {
                self.test_registry(repository).await
            }
            other => other.map(drop),
        }
    }
}
