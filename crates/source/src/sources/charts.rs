//! Charts of chart repositories and registries (RND-109..113).

use std::io::BufReader;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::Url;
use sha2::{Digest as _, Sha256};
use tiphys_go::semver::{self, Constraint, Version};
use tiphys_go::yaml::{Dialect, Limits};
use tiphys_render::version::resolve_version;
use tiphys_render::{Tree, TreePath};

use super::{Freshness, Sources};
use crate::archive::Packing;
use crate::charts::ChartIndex;
use crate::observer::Request;
use crate::packed::PackedFile;
use crate::registry::reference::Reference;
use crate::repository::hex;
use crate::web::{Question, basic, shown};
use crate::work::long;
use crate::{ChartVersion, IndexError, Repository, Secret, SourceError, TokenSource, Trust};

/// What an index may be answered as.
const INDEX: &str = "application/x-yaml, text/yaml, application/json, */*";
/// Bytes of `Chart.yaml`.
const CHART_YAML_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of a file by URL.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An index as it was answered, and the server's mark of it.
#[derive(Debug)]
pub(super) struct Indexed {
    index: Arc<ChartIndex>,
    mark: Option<String>,
}

/// What a chart says about itself (RND-152).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartDetails {
    /// What it is.
    pub description: String,
    /// `Name <email>`.
    pub maintainers: Vec<String>,
    /// Where more is to be read.
    pub home: String,
}

/// A chart that was fetched.
#[derive(Clone)]
pub struct FetchedChart {
    /// Its files; the chart is in the directory named by [`FetchedChart::directory`].
    pub tree: Arc<dyn Tree>,
    /// Last part of the chart's name (RND-111).
    pub directory: String,
    /// SHA-256 of the packed chart, in hex digits.
    pub digest: String,
}

impl std::fmt::Debug for FetchedChart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchedChart").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Sources {
    /// The index of a chart repository (RND-109).
    ///
    /// # Errors
    /// When it cannot be had completely.
    pub async fn chart_index(
        &self,
        repository: &Repository,
        freshness: Freshness,
    ) -> Result<Arc<ChartIndex>, SourceError> {
        self.remote_only(repository)?;
        let options = &self.0.options;
        let ttl = *self.0.revision_ttl.lock();
        let trust = self.0.trust.lock().clone();
        let (base, login) = base_of(repository)?;
        let key = access_key(repository, &trust, &base);
        let (base, login, trust) = (&base, &login, &trust);
        let ask = |old: Option<Arc<Indexed>>| async move {
            let mut url = base.clone();
            url.set_path(&format!("{}/index.yaml", base.path().trim_end_matches('/')));
            let question = Question {
                authorization: authorization(repository, login.as_ref()),
                everywhere: repository.is_shown_everywhere(),
                known: old.as_ref().and_then(|old| old.mark.clone()),
                ..Question::new(url, INDEX)
            };
            let answer = self.0.web.ask((repository, trust), question, options.exec_timeout).await?;
            if let (304, Some(old)) = (answer.status(), old) {
                return Ok(old);
            }
            let answer = answer.ok()?;
            let (mark, shown) = (answer.mark(), answer.shown().to_owned());
            let place = self.0.packed.place().await?;
            answer.save(&place, options.index_bytes_max).await?;
            // Large ones one after another: what is read takes memory.
            let _turn = self.0.index_turn.take_own().await;
            let index = long(move || {
                let failed = |error: std::io::Error| SourceError::Cache { text: error.kind().to_string() };
                let file = std::fs::File::open(&place).map_err(failed)?;
                ChartIndex::read(BufReader::new(file)).map_err(|error| match error {
                    IndexError::Broken(_) => SourceError::Malformed { text: format!("{shown}: {error}") },
                    IndexError::Exceeded(_) => SourceError::Exhausted { text: format!("{shown}: {error}") },
                })
            })
            .await?;
            Ok(Arc::new(Indexed { index: Arc::new(index), mark }))
        };
        let found =
            self.0.indexes.get(&key, (&options.clock, ttl, freshness), |one| one.index.weight(), ask).await?;
        Ok(Arc::clone(&found.index))
    }

    /// The versions of a chart, as the repository spells them (RND-110, RND-113).
    ///
    /// # Errors
    /// When there is no such chart, or nobody knows.
    pub async fn chart_versions(
        &self,
        repository: &Repository,
        chart: &str,
        freshness: Freshness,
    ) -> Result<Vec<String>, SourceError> {
        if let Some(reference) = chart_reference(repository, chart)? {
            let tags = self.tags_of(repository, &reference, freshness).await?;
            return Ok(tags.iter().map(|tag| tag.replace('_', "+")).collect());
        }
        let index = self.chart_index(repository, freshness).await?;
        let versions = index.versions(chart).ok_or_else(|| not_in_index(chart))?;
        Ok(versions.iter().map(|one| one.version.clone()).collect())
    }

    /// The version that a revision means (RND-110).
    ///
    /// # Errors
    /// With the texts of RND-110.
    pub async fn resolve_chart(
        &self,
        repository: &Repository,
        chart: &str,
        revision: &str,
        freshness: Freshness,
    ) -> Result<String, SourceError> {
        if revision.is_empty() {
            return Err(SourceError::Version {
                text: "targetRevision is required for Helm charts".to_owned(),
            });
        }
        if Version::parse(revision).is_ok() {
            return Ok(revision.to_owned());
        }
        // Before anybody is asked: what is no range stays none.
        let invalid = |reason: &dyn std::fmt::Display| SourceError::Version {
            text: format!("invalid revision: {reason}"),
        };
        resolve_version(revision, [], "").map(drop).or_else(|error| match error {
            tiphys_render::version::VersionError::NotFound { .. } => Ok(()),
            error => Err(invalid(&error)),
        })?;
        let versions = self.chart_versions(repository, chart, freshness).await?;
        resolve_version(revision, versions.iter().map(String::as_str), "").map_err(|error| invalid(&error))
    }

    /// A chart at a version, fetched unless it is known; `hard` fetches it in any case (RND-112, RND-144).
    ///
    /// # Errors
    /// When it is not there, is not what it should be, or is too large.
    pub async fn chart(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
        hard: bool,
    ) -> Result<FetchedChart, SourceError> {
        let directory = chart.rsplit('/').next().unwrap_or(chart).to_owned();
        let limits = (self.0.options.chart_bytes_max, false);
        let (mut hard, mut last) = (hard, false);
        loop {
            let file = self.packed_chart_file(repository, chart, version, hard).await?;
            match self.0.packed.tree(&file, Packing::Gzip, limits).await {
                Ok(tree) => return Ok(FetchedChart { tree, directory, digest: file.digest }),
                // A file of the cache that went bad is fetched again, once.
                Err(SourceError::Cache { .. }) if !last => (hard, last) = (true, true),
                Err(error) => return Err(error),
            }
        }
    }

    /// The files of a chart, without the directory that archives have around them.
    ///
    /// # Errors
    /// As [`Self::chart`].
    pub async fn chart_root(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
    ) -> Result<Arc<dyn Tree>, SourceError> {
        let file = self.packed_chart_file(repository, chart, version, false).await?;
        self.0.packed.tree(&file, Packing::Gzip, (self.0.options.chart_bytes_max, true)).await
    }

    /// The bytes of a packed chart, and their SHA-256: what dependencies of charts are.
    ///
    /// # Errors
    /// As [`Self::chart`].
    pub async fn packed_chart(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
    ) -> Result<(Bytes, String), SourceError> {
        let file = self.packed_chart_file(repository, chart, version, false).await?;
        match self.0.packed.read(&file).await {
            Ok(bytes) => Ok((bytes, file.digest)),
            Err(SourceError::Cache { .. }) => {
                let file = self.packed_chart_file(repository, chart, version, true).await?;
                Ok((self.0.packed.read(&file).await?, file.digest))
            }
            Err(error) => Err(error),
        }
    }

    async fn packed_chart_file(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
        hard: bool,
    ) -> Result<PackedFile, SourceError> {
        self.remote_only(repository)?;
        if let Some(reference) = chart_reference(repository, chart)? {
            return self.packed_from_registry(repository, &reference, version, hard).await;
        }
        let trust = self.0.trust.lock().clone();
        let (base, login) = base_of(repository)?;
        let mut freshness = if hard { Freshness::Fetch } else { Freshness::Cached };
        loop {
            let index = self.chart_index(repository, freshness).await?;
            let versions = index.versions(chart).ok_or_else(|| not_in_index(chart))?;
            let found = pick(versions, version).ok_or_else(|| SourceError::NotThere {
                text: format!("chart {chart:?} version {version:?} not found in {} repository", shown(&base)),
            })?;
            let url = archive_url(&base, &found.url)?;
            let expected = found.digest.trim_start_matches("sha256:").to_ascii_lowercase();
            let key = file_key(&[
                &access_key(repository, &trust, &base),
                chart,
                &found.version,
                url.as_str(),
                &expected,
            ]);
            let _turn = self.file_turn(&key).await;
            if !hard && let Some(known) = self.0.packed.find(&key, Some(self.0.options.content_ttl)).await? {
                return Ok(known);
            }
            let is_for = url.origin() == base.origin()
                || (repository.pass_credentials && repository.reaches(url.as_str()));
            let credentials = authorization(repository, login.as_ref()).filter(|_| is_for);
            let question = Question {
                authorization: credentials,
                everywhere: repository.is_shown_everywhere(),
                ..Question::new(url, "*/*")
            };
            let answer =
                self.0.web.ask((repository, &trust), question, self.0.options.exec_timeout).await?.ok()?;
            let place = self.0.packed.place().await?;
            let shown = answer.shown().to_owned();
            let digest = answer.save(&place, self.0.options.archive_bytes_max).await?;
            if expected.len() == 64 && digest != expected {
                // The index may be older than the chart.
                if freshness != Freshness::Fetch {
                    freshness = Freshness::Fetch;
                    continue;
                }
                let text = format!("what {shown} answered does not have the digest that the index names");
                return Err(SourceError::Unavailable { text });
            }
            return self.0.packed.keep(&key, place, digest).await;
        }
    }

    async fn packed_from_registry(
        &self,
        repository: &Repository,
        reference: &Reference,
        version: &str,
        hard: bool,
    ) -> Result<PackedFile, SourceError> {
        let trust = self.0.trust.lock().clone();
        let key = file_key(&[
            &access_key_of(repository, &trust, &reference.host),
            &reference.host,
            &reference.name,
            version,
        ]);
        let _turn = self.file_turn(&key).await;
        if !hard && let Some(known) = self.0.packed.find(&key, Some(self.0.options.content_ttl)).await? {
            return Ok(known);
        }
        let tag = version.replace('+', "_");
        if !crate::registry::reference::is_tag(&tag) {
            return Err(SourceError::Version { text: format!("invalid revision: {version:?} is no tag") });
        }
        let caller = (repository, &trust);
        let (manifest, _) = self.0.registry.manifest(caller, reference, &tag).await?;
        let layer = manifest.chart().map_err(|text| SourceError::Malformed { text })?;
        let place = self.0.packed.place().await?;
        let limit = self.0.options.archive_bytes_max;
        let asking = self.0.registry.blob(caller, reference, (&layer.digest, limit), &place);
        let digest = self.asked((repository, Request::OciExtract, &tag), asking).await?;
        self.0.packed.keep(&key, place, digest).await
    }

    /// Description, maintainers and home of a chart (RND-152).
    ///
    /// # Errors
    /// When it cannot be had, or says nothing.
    pub async fn chart_details(
        &self,
        repository: &Repository,
        chart: &str,
        version: &str,
    ) -> Result<ChartDetails, SourceError> {
        let fetched = self.chart(repository, chart, version, false).await?;
        long(move || {
            let malformed = |text: String| SourceError::Malformed { text: format!("Chart.yaml: {text}") };
            let path = TreePath::parse(&fetched.directory).map_err(|error| malformed(error.to_string()))?;
            let text = fetched.tree.read(&path.child("Chart.yaml"), CHART_YAML_BYTES_MAX);
            let text = text.map_err(|error| malformed(error.to_string()))?;
            let text = std::str::from_utf8(&text).map_err(|error| malformed(error.to_string()))?;
            let limits = Limits { bytes_max: 16 << 20, depth_max: 100 };
            let value = tiphys_go::yaml::parse(text, Dialect::Sigs, &limits)
                .map_err(|error| malformed(error.to_string()))?
                .unwrap_or_default();
            let of = |value: &serde_json::Value, name: &str| {
                value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
            };
            let maintainers = value.get("maintainers").and_then(serde_json::Value::as_array);
            Ok(ChartDetails {
                description: of(&value, "description"),
                home: of(&value, "home"),
                maintainers: maintainers
                    .into_iter()
                    .flatten()
                    .map(|one| format!("{} <{}>", of(one, "name"), of(one, "email")))
                    .collect(),
            })
        })
        .await
    }

    /// A file by URL (RND-99), which a source names and no rule of its project permits: none of this machine.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn file(&self, url: &str) -> Result<Bytes, SourceError> {
        let nobodys = Repository { is_foreign: true, ..Repository::default() };
        self.remote_only(&nobodys)?;
        let invalid =
            || SourceError::InvalidRepository { text: "the URL of the file is not valid".to_owned() };
        let (url, login) = without_login(Url::parse(url).map_err(|_error| invalid())?);
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid());
        }
        let trust = self.0.trust.lock().clone();
        let authorization = login.and_then(|(user, password)| basic(&user, password.expose()));
        let question = Question { authorization, ..Question::new(url, "*/*") };
        let answer = self.0.web.ask((&nobodys, &trust), question, self.0.options.exec_timeout).await?;
        answer.ok()?.bytes(FILE_BYTES_MAX).await
    }

    /// Nothing of this is simulated. Registries take no token of Azure's; whoever asks for one is not served without.
    pub(super) fn remote_only(&self, repository: &Repository) -> Result<(), SourceError> {
        match &self.0.backend {
            super::Backend::Git { .. }
                if matches!(repository.token.as_deref(), Some(TokenSource::AzureWorkloadIdentity)) =>
            {
                let why = "useAzureWorkloadIdentity is for Git; charts and artifacts want a user name and a password";
                Err(SourceError::InvalidRepository { text: why.to_owned() })
            }
            super::Backend::Git { .. } => Ok(()),
            super::Backend::Memory(_) => Err(SourceError::InvalidRepository {
                text: "charts and artifacts cannot be had from repositories in memory".to_owned(),
            }),
        }
    }

    /// Who fetches one file; others wait and find it.
    pub(super) async fn file_turn(&self, key: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.turns.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            if let Some(turn) = turns.get(key).and_then(std::sync::Weak::upgrade) {
                turn
            } else {
                let turn = Arc::new(tokio::sync::Mutex::new(()));
                turns.insert(key.to_owned(), Arc::downgrade(&turn));
                turn
            }
        };
        turn.lock_owned().await
    }
}

/// The repository of a chart in a registry; `None` for one of a chart repository (RND-113).
pub(super) fn chart_reference(
    repository: &Repository,
    chart: &str,
) -> Result<Option<Reference>, SourceError> {
    let url = repository.url.expose();
    let is_oci = repository.enable_oci || url.starts_with("oci://") || !url.contains("://");
    if !is_oci {
        return Ok(None);
    }
    let base = Reference::parse(&format!("{}/x", url.trim_end_matches('/')))
        .map_err(|why| invalid(repository, why))?;
    // A chart may be right below the host.
    let name = base.name.strip_suffix("/x").unwrap_or_default();
    let name = if name.is_empty() || base.name == "library/x" {
        chart.to_owned()
    } else {
        format!("{name}/{chart}")
    };
    let found = Reference::parse(&format!("{}/{name}", base.host));
    found.map(Some).map_err(|_why| SourceError::InvalidRepository {
        text: format!("{chart:?} cannot be the name of a chart in a registry"),
    })
}

/// The entry of a version: the one that is spelled so, else the newest that fits (RND-111).
fn pick<'a>(versions: &'a [ChartVersion], version: &str) -> Option<&'a ChartVersion> {
    if let Some(found) = versions.iter().find(|one| one.version == version) {
        return Some(found);
    }
    let constraint = Constraint::parse(version).ok()?;
    let best = semver::max(&constraint, versions.iter().map(|one| one.version.as_str()))?;
    versions.iter().find(|one| one.version == best)
}

/// Where a packed chart is. The query of the repository goes along, as it does to the index.
fn archive_url(base: &Url, url: &str) -> Result<Url, SourceError> {
    let invalid = || SourceError::Malformed {
        text: format!("the index of {} names no valid URL for the chart", shown(base)),
    };
    if url.is_empty() {
        return Err(invalid());
    }
    let mut directory = base.clone();
    directory.set_path(&format!("{}/", base.path().trim_end_matches('/')));
    let mut found = directory.join(url).map_err(|_error| invalid())?;
    let is_relative = Url::parse(url).is_err();
    if is_relative && found.query().is_none() {
        found.set_query(base.query());
    }
    match found.scheme() {
        "http" | "https" if found.has_host() => Ok(found),
        _ => Err(invalid()),
    }
}

type Login = Option<(String, Secret)>;

/// The URL of a chart repository, and a login that stands in it.
fn base_of(repository: &Repository) -> Result<(Url, Login), SourceError> {
    let url = Url::parse(repository.url.expose().trim());
    let url = url.map_err(|_error| invalid(repository, "is not valid"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid(repository, "is not one of a chart repository"));
    }
    Ok(without_login(url))
}

/// What is wrong with the URL of a repository, which is shown without what is secret about it.
pub(super) fn invalid(repository: &Repository, why: &str) -> SourceError {
    let shown = tiphys_api::repo_url::redact(repository.url.expose());
    SourceError::InvalidRepository { text: format!("repository URL {shown:?} {why}") }
}

fn without_login(mut url: Url) -> (Url, Login) {
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let login = (!url.username().is_empty() || url.password().is_some())
        .then(|| (decoded(url.username()), Secret::from(decoded(url.password().unwrap_or_default()))));
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    (url, login)
}

fn authorization(
    repository: &Repository,
    login: Option<&(String, Secret)>,
) -> Option<hyper::header::HeaderValue> {
    if !repository.password.is_empty() || !repository.username.is_empty() {
        return basic(&repository.username, repository.password.expose());
    }
    if !repository.bearer_token.is_empty() {
        let mut value =
            hyper::header::HeaderValue::from_str(&format!("Bearer {}", repository.bearer_token.expose()))
                .ok()?;
        value.set_sensitive(true);
        return Some(value);
    }
    login.and_then(|(user, password)| basic(user, password.expose()))
}

fn not_in_index(chart: &str) -> SourceError {
    SourceError::NotThere { text: format!("chart '{chart}' not found in index") }
}

/// Whoever asks: URL, credentials, scope, and who vouches for the server. Content that one may have is never found by
/// another (REP-61, RND-112).
fn access_key(repository: &Repository, trust: &Trust, base: &Url) -> String {
    access_key_of(repository, trust, base.host_str().unwrap_or_default())
}

pub(super) fn access_key_of(repository: &Repository, trust: &Trust, host: &str) -> String {
    let vouched = match trust.tls.of(host) {
        Some(Ok(roots)) => roots.to_string(),
        _ => String::new(),
    };
    file_key(&[&repository.listing_key(), &repository.project, &vouched])
}

/// The name of what is made of these parts.
pub(super) fn file_key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()).chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_111_which_entry_a_version_means() {
        let versions: Vec<ChartVersion> = ["2.0.0-rc.1", "1.2.3", "1.2.3", "v1.1.0", "bad"]
            .iter()
            .enumerate()
            .map(|(nth, version)| ChartVersion {
                version: (*version).to_owned(),
                url: nth.to_string(),
                digest: String::new(),
            })
            .collect();
        let picked = |version: &str| pick(&versions, version).map(|one| one.url.as_str());
        assert_eq!(picked("1.2.3"), Some("1"), "the first of equal ones");
        assert_eq!(picked("1.1.0"), Some("3"));
        assert_eq!(picked("1.2"), Some("1"));
        assert_eq!(picked("2.0.0-rc.1"), Some("0"));
        assert_eq!(picked("9.9.9"), None);
    }

    #[test]
    fn rnd_109_where_archives_are() {
        let base = Url::parse("https://h/charts?token=x").unwrap();
        let at = |url: &str| archive_url(&base, url).map(|url| url.to_string()).ok();
        assert_eq!(at("web-1.tgz").as_deref(), Some("https://h/charts/web-1.tgz?token=x"));
        assert_eq!(at("/web-1.tgz").as_deref(), Some("https://h/web-1.tgz?token=x"));
        assert_eq!(at("https://cdn/web-1.tgz").as_deref(), Some("https://cdn/web-1.tgz"));
        for bad in ["", "file:///etc/passwd", "ftp://h/x", "data:text/plain,x"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn rnd_113_charts_in_registries() {
        let at = |url: &str, chart: &str| {
            let found = chart_reference(&Repository::anonymous(url), chart).ok()?;
            found.map(|found| format!("{}/{}", found.host, found.name))
        };
        assert_eq!(at("ghcr.io/org/charts", "app").as_deref(), Some("ghcr.io/org/charts/app"));
        assert_eq!(at("oci://ghcr.io/org", "sub/app").as_deref(), Some("ghcr.io/org/sub/app"));
        assert_eq!(at("127.0.0.1:5000", "app").as_deref(), Some("127.0.0.1:5000/app"));
        assert_eq!(at("https://h/charts", "app"), None);
        assert_eq!(at("ghcr.io/org", "../app"), None);
    }
}
