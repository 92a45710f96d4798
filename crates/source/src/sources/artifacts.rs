//! Artifacts of registries as sources (RND-114..119).

use std::sync::Arc;

use tiphys_render::Tree;
use tiphys_render::version::resolve_version;

use super::charts::{access_key_of, file_key, invalid};
use super::{Freshness, Sources};
use crate::archive::Packing;
use crate::observer::Request;
use crate::registry::manifest::Manifest;
use crate::registry::reference::{Reference, is_tag, sha256_of};
use crate::{Repository, SourceError};

/// What an artifact says about itself (RND-152).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactMetadata {
    /// When it was made, as written.
    pub created_at: String,
    /// Who made it.
    pub authors: String,
    /// Where more is to be read.
    pub docs_url: String,
    /// Where it was made of.
    pub source_url: String,
    /// Its version.
    pub version: String,
    /// What it is.
    pub description: String,
}

impl Sources {
    /// All tags of a repository of a registry; remembered for a while (RND-118).
    ///
    /// # Errors
    /// When nobody knows.
    pub async fn oci_tags(
        &self,
        repository: &Repository,
        freshness: Freshness,
    ) -> Result<Arc<Vec<String>>, SourceError> {
        self.tags_of(repository, &reference_of(repository)?, freshness).await
    }

    pub(super) async fn tags_of(
        &self,
        repository: &Repository,
        reference: &Reference,
        freshness: Freshness,
    ) -> Result<Arc<Vec<String>>, SourceError> {
        self.remote_only(repository)?;
        let trust = self.0.trust.lock().clone();
        let key = file_key(&[
            &access_key_of(repository, &trust, &reference.host),
            &reference.host,
            &reference.name,
        ]);
        let ttl = *self.0.revision_ttl.lock();
        let trust = &trust;
        let ask = |_old: Option<Arc<Vec<String>>>| async move {
            let asking = self.0.registry.tags((repository, trust), reference);
            self.asked((repository, Request::OciTags, ""), asking).await.map(Arc::new)
        };
        let weigh = |tags: &Vec<String>| tags.iter().map(|tag| tag.len() + 32).sum::<usize>() + 100;
        self.0.tags.get(&key, (&self.0.options.clock, ttl, freshness), weigh, ask).await
    }

    /// The digest that a revision of an artifact means: a digest, a tag or a range of tags (RND-114).
    ///
    /// # Errors
    /// When there is none.
    pub async fn resolve_artifact(
        &self,
        repository: &Repository,
        revision: &str,
        freshness: Freshness,
    ) -> Result<String, SourceError> {
        self.remote_only(repository)?;
        let reference = reference_of(repository)?;
        if sha256_of(revision).is_some() {
            return Ok(revision.to_owned());
        }
        if revision.is_empty() {
            let text = "targetRevision is required for OCI artifacts".to_owned();
            return Err(SourceError::Version { text });
        }
        if is_tag(revision) {
            match self.digest_of(repository, &reference, revision, freshness).await {
                Err(SourceError::NotThere { .. }) => {}
                other => return other,
            }
        }
        let tags = self.tags_of(repository, &reference, freshness).await?;
        // Tags have no plus sign.
        let versions: Vec<String> = tags.iter().map(|tag| tag.replace('_', "+")).collect();
        let invalid = |text: String| SourceError::Version { text: format!("invalid revision: {text}") };
        let version = resolve_version(revision, versions.iter().map(String::as_str), "")
            .map_err(|error| invalid(error.to_string()))?;
        let position = versions.iter().position(|one| *one == version);
        let tag = position.and_then(|position| tags.get(position));
        let tag = tag.ok_or_else(|| SourceError::RevisionNotFound { revision: revision.to_owned() })?;
        self.digest_of(repository, &reference, tag, freshness).await
    }

    async fn digest_of(
        &self,
        repository: &Repository,
        reference: &Reference,
        tag: &str,
        freshness: Freshness,
    ) -> Result<String, SourceError> {
        let trust = self.0.trust.lock().clone();
        let key = file_key(&[
            &access_key_of(repository, &trust, &reference.host),
            &reference.host,
            &reference.name,
            tag,
        ]);
        let ttl = *self.0.revision_ttl.lock();
        let trust = &trust;
        let ask = |_old: Option<Arc<String>>| async move {
            let asking = self.0.registry.manifest((repository, trust), reference, tag);
            let (_, digest) = self.asked((repository, Request::OciResolve, tag), asking).await?;
            Ok(Arc::new(digest))
        };
        let found = self.0.digests.get(&key, (&self.0.options.clock, ttl, freshness), |_| 200, ask).await?;
        Ok(found.as_str().to_owned())
    }

    /// The files of an artifact.
    ///
    /// # Errors
    /// When its content cannot be had, or is not what may be content (RND-115..117).
    pub async fn artifact(
        &self,
        repository: &Repository,
        digest: &str,
        hard: bool,
    ) -> Result<Arc<dyn Tree>, SourceError> {
        let reference = reference_of(repository)?;
        let trust = self.0.trust.lock().clone();
        let caller = (repository, &trust);
        let manifest = self.artifact_manifest(repository, &reference, digest).await?;
        let malformed = |text: String| SourceError::Malformed { text };
        let content = manifest.content(&self.0.options.layer_types).map_err(malformed)?;
        let layer = &content.layer;
        let limit = self.0.options.archive_bytes_max;
        if layer.size > limit {
            return Err(SourceError::Exhausted { text: format!("the artifact has more than {limit} bytes") });
        }
        let key = file_key(&[
            &access_key_of(repository, &trust, &reference.host),
            &reference.host,
            &reference.name,
            &layer.digest,
        ]);
        let _turn = self.file_turn(&key).await;
        let packing = if content.is_gzip() { Packing::Gzip } else { Packing::None };
        let limits = (self.0.options.artifact_bytes_max, content.is_chart);
        // Content by digest is what it is however old; only what cannot be read is fetched again.
        if !hard && let Some(known) = self.0.packed.find(&key, None).await? {
            match self.0.packed.tree(&known, packing, limits).await {
                Err(SourceError::Cache { .. }) => {}
                other => return other,
            }
        }
        let place = self.0.packed.place().await?;
        let asking = self.0.registry.blob(caller, &reference, (&layer.digest, limit), &place);
        let found = self.asked((repository, Request::OciExtract, digest), asking).await?;
        let file = self.0.packed.keep(&key, place, found).await?;
        self.0.packed.tree(&file, packing, limits).await
    }

    /// The manifest behind a digest; of an index with one manifest, that one (RND-117).
    async fn artifact_manifest(
        &self,
        repository: &Repository,
        reference: &Reference,
        digest: &str,
    ) -> Result<Manifest, SourceError> {
        self.remote_only(repository)?;
        let trust = self.0.trust.lock().clone();
        let (manifest, _) = self.0.registry.manifest((repository, &trust), reference, digest).await?;
        match manifest.manifests.as_slice() {
            [only] if sha256_of(&only.digest).is_some() => {
                let (manifest, _) =
                    self.0.registry.manifest((repository, &trust), reference, &only.digest).await?;
                Ok(manifest)
            }
            _ => Ok(manifest),
        }
    }

    /// What an artifact says about itself (RND-152).
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn artifact_metadata(
        &self,
        repository: &Repository,
        digest: &str,
    ) -> Result<ArtifactMetadata, SourceError> {
        let reference = reference_of(repository)?;
        let asking = self.artifact_manifest(repository, &reference, digest);
        let manifest = self.asked((repository, Request::OciMetadata, digest), asking).await?;
        let text = |name: &str| {
            let name = format!("org.opencontainers.image.{name}");
            let found = manifest.annotations.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        Ok(ArtifactMetadata {
            created_at: text("created"),
            authors: text("authors"),
            docs_url: text("documentation"),
            source_url: text("source"),
            version: text("version"),
            description: text("description"),
        })
    }
}

pub(super) fn reference_of(repository: &Repository) -> Result<Reference, SourceError> {
    Reference::parse(repository.url.expose()).map_err(|why| invalid(repository, why))
}
