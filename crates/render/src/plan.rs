//! The plan of a rendering: which sources of an application are rendered and which only tell their revision, what is
//! fetched for each, and the request that each becomes (RND-1, RND-4, RND-15, CTL-43, CTL-136).
//!
//! Controller and command line fetch what a plan names and render what it requests, and so agree. What a source refers to
//! in others (`$ref`) is asked for while it is rendered ([`crate::needs`]): only then it is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};
use tiphys_api::application::ApplicationSource;
use tiphys_api::settings::Settings;

use crate::Reason;
use crate::plugins::PluginSettings;
use crate::request::{ContentKind, EnabledTools, RenderRequest};
use crate::tools::ToolSettings;

/// What manifests may depend on about the destination cluster (RND-4). Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFacts {
    kube_version: Arc<str>,
    api_versions: Arc<[String]>,
    digest: [u8; 32],
}

impl ClusterFacts {
    /// The version as the cluster reports it, and the sorted `group/version` and `group/version/Kind` it serves.
    pub fn new(kube_version: &str, api_versions: Vec<String>) -> Self {
        let mut hash = Sha256::new();
        for text in std::iter::once(kube_version).chain(api_versions.iter().map(String::as_str)) {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text);
        }
        Self {
            kube_version: kube_version.into(),
            api_versions: api_versions.into(),
            digest: hash.finalize().into(),
        }
    }

    /// Version of the cluster, as it reports it.
    pub fn kube_version(&self) -> &str {
        &self.kube_version
    }

    /// What the cluster serves, sorted.
    pub fn api_versions(&self) -> &[String] {
        &self.api_versions
    }

    /// Equal for equal facts; made once, because a site serves thousands of kinds.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl Default for ClusterFacts {
    fn default() -> Self {
        Self::new("", Vec::new())
    }
}

/// For whom sources are rendered.
#[derive(Clone, Debug, Default)]
pub struct RenderContext {
    /// Application name, or `<namespace>_<name>` outside the control plane's namespace.
    pub instance_name: String,
    /// Namespace of the destination.
    pub destination_namespace: String,
    /// Name of the effective project.
    pub project: String,
    /// The destination cluster.
    pub cluster: ClusterFacts,
    /// Tools that the settings allow.
    pub enabled: EnabledTools,
    /// Whether override files replace lists and remove fields strictly (RND-58).
    pub strict_overrides: bool,
    /// Settings of Helm.
    pub helm: HelmSettings,
    /// Options of every build of Kustomize (RND-87).
    pub kustomize_options: String,
    /// Which sources are rendered by programs.
    pub tools: ToolSettings,
    /// Plugins, and what is known of them.
    pub plugins: PluginSettings,
    /// Sources of the application that others may refer to; `None` for an application of a single source (RND-121).
    pub refs: Option<Arc<[RefSource]>>,
}

/// What the installation sets about Helm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HelmSettings {
    /// Schemes of URLs that value files may come from (RND-99).
    pub value_file_schemes: Vec<String>,
    /// Whether `helm.version: v3` makes a difference (RND-164).
    pub v3_compat: bool,
    /// Whether chance is the same in every rendering of a revision (RND-163).
    pub deterministic: bool,
    /// Repositories of charts with names, that dependencies may be written with (RND-104).
    pub repositories: Vec<(String, String)>,
}

impl Default for HelmSettings {
    fn default() -> Self {
        let schemes = ["https", "http"];
        Self {
            value_file_schemes: schemes.iter().map(|&scheme| scheme.to_owned()).collect(),
            v3_compat: false,
            deterministic: false,
            repositories: Vec::new(),
        }
    }
}

/// A source that others may refer to (RND-120).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefSource {
    /// Its `ref`.
    pub name: String,
    /// Whether it is a chart, which cannot be referred to.
    pub is_chart: bool,
}

impl RefSource {
    /// Those of an application with several sources (RND-121).
    pub fn all(sources: &[ApplicationSource]) -> Option<Arc<[Self]>> {
        let named = sources.iter().filter(|source| !source.r#ref.is_empty());
        let one = |source: &ApplicationSource| Self {
            name: source.r#ref.clone(),
            is_chart: !source.chart.is_empty(),
        };
        (sources.len() > 1).then(|| named.map(one).collect())
    }
}

impl RenderContext {
    /// With what the settings say.
    #[must_use]
    pub fn with_settings(self, settings: &Settings) -> Self {
        Self {
            enabled: EnabledTools::from(settings),
            strict_overrides: settings.strict_overrides(),
            helm: HelmSettings {
                value_file_schemes: settings.helm_values_file_schemes(),
                v3_compat: settings.helm_v3_compat(),
                deterministic: settings.helm_deterministic(),
                ..self.helm
            },
            kustomize_options: settings.kustomize_build_options().to_owned(),
            tools: ToolSettings::of(settings),
            ..self
        }
    }

    /// With the renderers that an annotation of the Application chooses
    /// ([`tiphys_api::names::annotation::RENDERER`]), where the settings let its project choose.
    #[must_use]
    pub fn with_renderer(self, annotation: Option<&String>, settings: &Settings) -> Self {
        let Some(text) = annotation else { return self };
        let tools = if settings.may_choose_renderer(&self.project) {
            self.tools.with_annotation(text)
        } else {
            self.tools.without_choice(text, &self.project)
        };
        Self { tools, ..self }
    }

    /// With what is known of the destination cluster.
    #[must_use]
    pub fn with_cluster(self, cluster: ClusterFacts) -> Self {
        Self { cluster, ..self }
    }

    /// With the plugins that are there (RND-133).
    #[must_use]
    pub fn with_plugins(self, plugins: PluginSettings) -> Self {
        Self { plugins, ..self }
    }

    /// With the sources that may be referred to.
    #[must_use]
    pub fn with_sources(self, sources: &[ApplicationSource]) -> Self {
        Self { refs: RefSource::all(sources), ..self }
    }

    /// The rendering of a source at a resolved revision.
    pub fn request(&self, source: &ApplicationSource, revision: &str) -> RenderRequest {
        RenderRequest {
            content: Content::of(source).kind(),
            source: source.clone(),
            revision: revision.to_owned(),
            context: self.clone(),
            ..RenderRequest::default()
        }
    }
}

/// What a source is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Its manifests.
    Manifests,
    /// Its revision alone.
    Revision,
}

/// Where the content of a source comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A git repository, fetched as the tree of a commit.
    Git,
    /// A chart of a chart repository or a registry.
    Chart,
    /// An artifact of a registry.
    Oci,
}

impl Content {
    /// Where the content of a source comes from (RND-12).
    pub fn of(source: &ApplicationSource) -> Self {
        if source.repo_url.starts_with("oci://") && source.chart.is_empty() {
            Self::Oci
        } else if source.chart.is_empty() {
            Self::Git
        } else {
            Self::Chart
        }
    }

    fn kind(self) -> ContentKind {
        match self {
            Self::Git => ContentKind::Repository,
            Self::Chart => ContentKind::Chart,
            Self::Oci => ContentKind::OciImage,
        }
    }
}

/// One source of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedSource<'a> {
    /// The source as in the Application.
    pub source: &'a ApplicationSource,
    /// The revision to resolve: a given one, or what the source targets.
    pub revision: &'a str,
    /// Where its content comes from.
    pub content: Content,
    /// What it is there for.
    pub purpose: Purpose,
}

impl<'a> PlannedSource<'a> {
    /// The revision whose signature counts: as it was asked for, or, where that is a commit, what the source targets. A
    /// signed tag vouches for its commit, also when an operation names the commit itself (RND-49).
    pub fn signed_revision(&self) -> &'a str {
        let is_commit =
            self.revision.len() == 40 && self.revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_commit { &self.source.target_revision } else { self.revision }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No source is not an empty one: everything would count as removed (INV-1).
    #[error("the application has no source")]
    NoSource,
    /// A `ref` is no name (RND-120).
    #[error("sources.ref {0} cannot contain any special characters except '_' and '-'")]
    RefName(String),
    /// Two sources have one `ref` (RND-120).
    #[error("invalid sources: multiple sources had the same `ref` key")]
    RefTwice,
}

impl PlanError {
    /// The reason, as programs see it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoSource => Reason::PathNotFound,
            Self::RefName(_) => Reason::RefInvalidName,
            Self::RefTwice => Reason::RefDuplicate,
        }
    }
}

/// The plan for the sources of an application, in their order; `revisions` are used in place of what the sources
/// target, one per source, where they are given and not empty.
///
/// # Errors
/// When there is no source, or one that cannot be read.
pub fn plan<'a>(
    sources: &'a [ApplicationSource],
    revisions: &'a [String],
) -> Result<Vec<PlannedSource<'a>>, PlanError> {
    if sources.is_empty() {
        return Err(PlanError::NoSource);
    }
    let several = sources.len() > 1;
    let mut names = BTreeSet::new();
    for name in sources.iter().map(|source| source.r#ref.as_str()).filter(|name| several && !name.is_empty())
    {
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(PlanError::RefName(name.to_owned()));
        }
        if !names.insert(name) {
            return Err(PlanError::RefTwice);
        }
    }
    let one = |(index, source): (usize, &'a ApplicationSource)| {
        let given = revisions.get(index).filter(|revision| !revision.is_empty());
        PlannedSource {
            source,
            revision: given.map_or(source.target_revision.as_str(), String::as_str),
            content: Content::of(source),
            purpose: if renders_nothing(source, several) { Purpose::Revision } else { Purpose::Manifests },
        }
    };
    Ok(sources.iter().enumerate().map(one).collect())
}

/// Whether a source only contributes its revision: one with `ref` and neither path nor chart, alone or not, and
/// of several also one without any of them (CTL-136, RND-15).
pub fn renders_nothing(source: &ApplicationSource, several: bool) -> bool {
    source.path.is_empty() && source.chart.is_empty() && (several || !source.r#ref.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, name: &str) -> ApplicationSource {
        ApplicationSource {
            repo_url: "https://h/r".to_owned(),
            path: path.to_owned(),
            r#ref: name.to_owned(),
            target_revision: "main".to_owned(),
            ..ApplicationSource::default()
        }
    }

    #[test]
    fn rnd_15_a_source_that_is_only_referenced_tells_its_revision() {
        let sources = [source("app", ""), source("", "values")];
        let revisions = ["abc".to_owned(), String::new()];
        let planned = plan(&sources, &revisions).unwrap();
        let shown: Vec<_> = planned.iter().map(|one| (one.revision, one.purpose)).collect();
        assert_eq!(shown, [("abc", Purpose::Manifests), ("main", Purpose::Revision)]);
        assert_eq!(plan(&sources[1..], &[]).unwrap()[0].purpose, Purpose::Revision, "CTL-136: alone, too");
    }

    #[test]
    fn rnd_49_a_tag_vouches_for_the_commit_that_an_operation_names() {
        let sources = [source("app", "")];
        let signed = |revision: &str| {
            let revisions = [revision.to_owned()];
            plan(&sources, &revisions).unwrap()[0].signed_revision().to_owned()
        };
        assert_eq!(signed(""), "main");
        assert_eq!(signed("v1"), "v1");
        assert_eq!(signed(&"a".repeat(40)), "main");
    }

    #[test]
    fn inv_1_what_cannot_be_read_is_no_empty_plan() {
        assert_eq!(plan(&[], &[]), Err(PlanError::NoSource));
    }

    #[test]
    fn rnd_12_where_the_content_of_a_source_comes_from() {
        let of = |url: &str, chart: &str| {
            let source =
                ApplicationSource { repo_url: url.to_owned(), chart: chart.to_owned(), ..source("", "") };
            plan(&[source], &[]).unwrap()[0].content
        };
        assert_eq!(of("https://h/r", ""), Content::Git);
        assert_eq!(of("https://h/charts", "web"), Content::Chart);
        assert_eq!(of("ghcr.io/org", "web"), Content::Chart);
        assert_eq!(of("oci://ghcr.io/org/web", ""), Content::Oci);
    }

    #[test]
    fn rnd_120_names_of_sources() {
        let text = |one: &str, two: &str| {
            plan(&[source("a", one), source("b", two)], &[]).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(text("values", "other-1_x"), Ok(()));
        assert_eq!(text("", ""), Ok(()));
        assert_eq!(text("a", "a").unwrap_err(), "invalid sources: multiple sources had the same `ref` key");
        assert_eq!(
            text("a/b", "").unwrap_err(),
            "sources.ref a/b cannot contain any special characters except '_' and '-'"
        );
    }

    #[test]
    fn rnd_141_facts_about_a_cluster_are_told_apart() {
        let facts = |versions: &[&str]| {
            *ClusterFacts::new("v1.36.1", versions.iter().map(|v| (*v).to_owned()).collect()).digest()
        };
        assert_eq!(facts(&["v1", "apps/v1"]), facts(&["v1", "apps/v1"]));
        assert_ne!(facts(&["v1", "apps/v1"]), facts(&["v1apps/v1"]));
        assert_ne!(facts(&[]), facts(&["v1"]));
    }
}
