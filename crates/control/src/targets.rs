//! From sources to targets: resolve, fetch, render (CTL-38..43).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tiphys_api::AppProject;
use tiphys_api::application::ApplicationSource;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_object::Object;
use tiphys_policy::project::source_permitted;
use tiphys_policy::unsupported::signature_refusal;
use tiphys_render::eval::renders_nothing;
use tiphys_render::{Budget, EnabledTools, RenderRequest};
use tiphys_source::{Freshness, SourceError, Sources};

use crate::decide::refresh::{Level, RefreshKind};
use crate::gate::{Gates, Shared};
use crate::memory::Targets;
use crate::queue::Priority;
use crate::rendering::{self, Held, RenderFailure, RenderTask, Renders};
use crate::store::AppKey;
use crate::world::World;

/// For whom targets are made, and how.
pub(crate) struct TargetRequest<'a> {
    pub(crate) key: &'a AppKey,
    pub(crate) priority: Priority,
    pub(crate) sources: &'a [ApplicationSource],
    /// Revisions to use instead of resolving, one per source; empty resolves.
    pub(crate) pinned: &'a [String],
    pub(crate) level: Level,
    /// Listings of references that began before this time of the clock are not used.
    pub(crate) listed_since: Option<Duration>,
    pub(crate) kind: RefreshKind,
    pub(crate) instance: &'a str,
    pub(crate) destination_namespace: &'a str,
    /// The effective project of the application.
    pub(crate) project: &'a AppProject,
    pub(crate) tracking: Arc<TrackingSettings>,
    pub(crate) world: &'a World,
}

impl TargetRequest<'_> {
    /// What one of the sources is rendered with.
    fn rendering_of(&self, source: &ApplicationSource, revision: &str) -> RenderRequest {
        let settings = &self.world.settings;
        RenderRequest {
            source: source.clone(),
            revision: revision.to_owned(),
            instance_name: self.instance.to_owned(),
            destination_namespace: self.destination_namespace.to_owned(),
            project: self.project.name().to_owned(),
            enabled: EnabledTools::from(settings),
            strict_overrides: settings.strict_overrides(),
            ..RenderRequest::default()
        }
    }

    /// Identity of everything besides sources and revisions that the targets depend on.
    pub(crate) fn made_for(&self) -> [u8; 32] {
        rendering::inputs(&self.rendering_of(&ApplicationSource::default(), ""), &self.tracking)
    }
}

/// Why there are no targets.
#[derive(Debug)]
pub(crate) struct TargetError {
    /// Text behind `Failed to load target state: `.
    pub(crate) text: String,
    /// Whether the repository failed, not the manifests (CTL-33).
    pub(crate) repository: bool,
    /// Whether too many wait for the repository, or to render large sources, already.
    pub(crate) busy: bool,
}

/// A request whose every source the project permits; targets are made of nothing else.
pub(crate) struct Admitted<'a>(TargetRequest<'a>);

/// Asks the project about every source that is about to become targets, wherever it comes from: the spec, an
/// operation, a hydrator (REP-137, INV-6).
///
/// # Errors
/// With the project's refusal.
pub(crate) fn admit(request: TargetRequest<'_>) -> Result<Admitted<'_>, TargetError> {
    let refused = |source: &ApplicationSource| refusal(request.world, request.project, &source.repo_url);
    match request.sources.iter().find_map(refused) {
        Some(text) => Err(TargetError { text, repository: false, busy: false }),
        None => Ok(Admitted(request)),
    }
}

/// Why a project may not read a repository; `None` when it may.
pub(crate) fn refusal(world: &World, project: &AppProject, url: &str) -> Option<String> {
    let permission = source_permitted(project, url, world.settings.project_matching()).message;
    permission.or_else(|| signature_refusal(project, &world.settings, url))
}

impl<'a> Admitted<'a> {
    /// What was asked for.
    pub(crate) fn request(&self) -> &TargetRequest<'a> {
        &self.0
    }
}

/// Makes the targets of all sources, one after another (CTL-43). Says how many renderings were made.
pub(crate) async fn load(
    Admitted(request): &Admitted<'_>,
    sources: &Sources,
    renders: &Renders,
    gates: &Gates,
) -> Result<(Targets, usize), TargetError> {
    if request.sources.is_empty() {
        // No source is not an empty one: everything would count as removed (INV-1).
        let text = "the application has no source".to_owned();
        return Err(TargetError { text, repository: false, busy: false });
    }
    let urls: BTreeSet<&str> = request.sources.iter().map(|source| source.repo_url.as_str()).collect();
    let repositories = urls.into_iter().map(|url| Shared::Repository(url.to_owned()));
    let Some(_places) = gates.enter(request.key, request.priority, repositories) else {
        let text = "too many applications wait for the repository".to_owned();
        return Err(TargetError { text, repository: true, busy: true });
    };
    let count = request.sources.len();
    let mut made = Targets {
        objects: Arc::from([]),
        revisions: Vec::with_capacity(count),
        types: Vec::with_capacity(count),
        sources: request.sources.to_vec(),
        made_for: request.made_for(),
        renderings: Vec::with_capacity(count),
    };
    let mut rendered_now = 0;
    for (index, source) in request.sources.iter().enumerate() {
        let one = load_one(request, index, source, sources, renders).await;
        let (revision, rendered) = one.map_err(|mut error| {
            let nth = index + 1;
            error.text = format!("failed to generate manifest for source {nth} of {count}: {}", error.text);
            error
        })?;
        made.revisions.push(revision);
        match rendered {
            Some((rendered, now)) => {
                rendered_now += usize::from(now);
                made.types.push(rendered.source_type.as_str());
                made.renderings.push(rendered);
            }
            None => made.types.push(""),
        }
    }
    made.objects = objects_of(&made.renderings);
    Ok((made, rendered_now))
}

/// Objects of all renderings; of a single one they are not listed twice.
fn objects_of(renderings: &[Arc<Held>]) -> Arc<[Arc<Object>]> {
    match renderings {
        [only] => Arc::clone(&only.objects),
        several => several.iter().flat_map(|rendering| rendering.objects.iter().cloned()).collect(),
    }
}

type One = (String, Option<(Arc<Held>, bool)>);

async fn load_one(
    request: &TargetRequest<'_>,
    index: usize,
    source: &ApplicationSource,
    sources: &Sources,
    renders: &Renders,
) -> Result<One, TargetError> {
    let manifests = |text: String| TargetError { text, repository: false, busy: false };
    let repository = |error: SourceError| {
        // A URL that nobody may fetch is no trouble that passes.
        let is_refused = matches!(error, SourceError::InvalidRepository { .. });
        TargetError { text: error.to_string(), repository: !is_refused, busy: false }
    };
    if !source.chart.is_empty() {
        return Err(manifests("charts from a Helm repository are not supported yet".to_owned()));
    }
    if source.repo_url.starts_with("oci://") {
        return Err(manifests("OCI artifacts are not supported yet".to_owned()));
    }
    let project = request.project.name();
    let repo = request.world.repository(&source.repo_url, project).map_err(manifests)?;
    let pinned = request.pinned.get(index).filter(|revision| !revision.is_empty());
    let wanted = pinned.map_or(source.target_revision.as_str(), String::as_str);
    let freshness = match request.listed_since {
        _ if request.level >= Level::ForceLatest => Freshness::Fetch,
        Some(time) => Freshness::Since(time),
        None => Freshness::Cached,
    };
    let resolved = sources.resolve_tag(&repo, wanted, &source.tag_prefix, freshness).await;
    let commit = resolved.map_err(repository)?.commit;
    if renders_nothing(source, request.sources.len() > 1) {
        return Ok((commit, None));
    }
    let tree = sources.tree(&repo, &commit).await.map_err(repository)?;
    let task = RenderTask {
        key: request.key.clone(),
        priority: request.priority,
        request: request.rendering_of(source, &commit),
        budget: Budget::default(),
        tracking: Arc::clone(&request.tracking),
        hard: request.kind == RefreshKind::Hard,
    };
    match renders.get(tree, task).await {
        Ok(rendered) => Ok((commit, Some(rendered))),
        Err(RenderFailure::Text(text)) => Err(manifests(text)),
        Err(RenderFailure::Busy) => {
            Err(TargetError { text: rendering::BUSY.to_owned(), repository: false, busy: true })
        }
    }
}
