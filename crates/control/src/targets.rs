//! From sources to targets: resolve, fetch, render (CTL-38..43).

mod sent;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tiphys_api::AppProject;
use tiphys_api::application::{Application, ApplicationSource};
use tiphys_api::names::annotation;
use tiphys_cluster::Kinds;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_lifecycle::refresh::{Level, RefreshKind};
use tiphys_object::Object;
use tiphys_policy::signature::Verdict;
use tiphys_render::needs::{Conversation, Need, Outcome, Supplies, Supply};
use tiphys_render::plan::{Content, PlannedSource, Purpose, RenderContext, plan};
use tiphys_render::plugins::PluginChoice;
use tiphys_render::{Budget, RenderError, Tree};
use tiphys_service::fetcher::{FetchError, Fetcher};
use tiphys_source::{Freshness, Repository, Signed, SourceError, Sources, on_behalf_of};

use crate::app_key::AppKey;
use crate::gate::{Gates, Place, Shared};
use crate::memory::{SourcesId, Targets};
use crate::queue::Priority;
use crate::rendering::{self, Held, Manifests, RenderFailure, RenderTask, Renders};
use crate::world::World;
use sent::{Decision, Own};

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
    /// Whether a person or program asked for it now.
    pub(crate) is_asked: bool,
    /// For whom is rendered.
    pub(crate) context: RenderContext,
    /// Files that replace the repository of the first source (API-147).
    pub(crate) upload: Option<Upload>,
    /// The effective project of the application.
    pub(crate) project: &'a AppProject,
    pub(crate) tracking: Arc<TrackingSettings>,
    /// What the destination serves.
    pub(crate) kinds: Option<Arc<Kinds>>,
    pub(crate) world: &'a World,
}

/// Files uploaded with a request.
pub(crate) struct Upload {
    pub(crate) tree: Arc<dyn Tree>,
    /// Whether programs and plugins may receive the files: the caller may update the application.
    pub(crate) may_run_programs: bool,
}

impl TargetRequest<'_> {
    /// Identity of everything besides sources and revisions that the targets depend on.
    pub(crate) fn made_for(&self) -> [u8; 32] {
        let request = self.context.request(&ApplicationSource::default(), "");
        let mut identity = request.identity();
        let urls = &mut self.sources.iter().map(|source| source.repo_url.as_str());
        identity.extend(self.world.integrity(self.project, urls));
        rendering::inputs(&identity, &self.tracking)
    }
}

/// Why there are no targets, and what that means for the next try. The text stands behind `Failed to load target
/// state: `.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    /// Too many wait for the repository, or to render large sources, already: the gate brings the application back.
    #[error("{0}")]
    Busy(String),
    /// The repository failed; within its grace period nobody is told (CTL-33).
    #[error("{0}")]
    Repository(String),
    /// The sources or their manifests are wrong; only a change of them helps.
    #[error("{0}")]
    Manifests(String),
}

impl From<RenderError> for TargetError {
    fn from(error: RenderError) -> Self {
        Self::Manifests(error.message)
    }
}

impl TargetError {
    /// The same, about one of several sources.
    fn of_source(self, nth: usize, count: usize) -> Self {
        let about = |text| format!("failed to generate manifest for source {nth} of {count}: {text}");
        match self {
            Self::Busy(text) => Self::Busy(about(text)),
            Self::Repository(text) => Self::Repository(about(text)),
            Self::Manifests(text) => Self::Manifests(about(text)),
        }
    }
}

/// A request whose every source the project permits; targets are made of nothing else.
pub(crate) struct Admitted<'a>(TargetRequest<'a>);

/// Asks the project about every source that is about to become targets, wherever it comes from: the spec, an
/// operation, a hydrator (REP-137, INV-6).
///
/// # Errors
/// With the project's refusal.
pub(crate) fn admit(request: TargetRequest<'_>) -> Result<Admitted<'_>, TargetError> {
    let refused =
        |source: &ApplicationSource| request.world.repository_refusal(request.project, &source.repo_url);
    match request.sources.iter().find_map(refused) {
        Some(text) => Err(TargetError::Manifests(text)),
        None => Ok(Admitted(request)),
    }
}

impl<'a> Admitted<'a> {
    /// What was asked for.
    pub(crate) fn request(&self) -> &TargetRequest<'a> {
        &self.0
    }
}

/// For whom the sources of an application are rendered, by its name on resources and its project (RND-4); no cluster is
/// known.
pub(crate) fn render_context(
    world: &World,
    sources: &Sources,
    app: &Application,
    (instance, project): (&str, &AppProject),
) -> RenderContext {
    let annotations = &app.metadata.annotations;
    let paths = annotations.get(annotation::MANIFEST_GENERATE_PATHS);
    let context = RenderContext {
        instance_name: instance.to_owned(),
        destination_namespace: app.spec.destination.namespace.clone(),
        project: project.name().to_owned(),
        ..RenderContext::default()
    };
    let mut context = context
        .with_settings(&world.settings)
        .with_renderer(annotations.get(annotation::RENDERER), &world.settings)
        .with_plugins(sources.plugins().settings(paths, app.was_plugin()));
    context.helm.repositories = world.named_chart_repositories(project);
    context
}

/// Places for the sources of the project, and at each repository (CTL-141, INV-16).
fn places(
    request: &TargetRequest<'_>,
    gates: &Gates,
    urls: BTreeSet<&str>,
) -> Result<Vec<Place>, TargetError> {
    let enter = |all: Vec<Shared>, text: &str| {
        let places = gates.enter(request.key, request.priority, all);
        places.ok_or_else(|| TargetError::Busy(text.to_owned()))
    };
    let project = request.project.name();
    let of_project = vec![Shared::SourcesOf(project.to_owned()), Shared::Sources];
    let mut places = enter(of_project, "too many sources of the project are worked on")?;
    let of_url = |url: &str| {
        [Shared::RepositoryOf(project.to_owned(), url.to_owned()), Shared::Repository(url.to_owned())]
    };
    let repositories = urls.into_iter().flat_map(of_url).collect();
    places.extend(enter(repositories, "too many applications wait for the repository")?);
    Ok(places)
}

/// Makes the targets of all sources, one after another (CTL-43). Says how many renderings were made.
pub(crate) async fn load(
    admitted: &Admitted<'_>,
    sources: &Sources,
    renders: &Renders,
    gates: &Gates,
) -> Result<(Targets, usize), TargetError> {
    let project = admitted.0.project.name();
    on_behalf_of(project, Box::pin(make(admitted, sources, renders, gates))).await
}

async fn make(
    Admitted(request): &Admitted<'_>,
    sources: &Sources,
    renders: &Renders,
    gates: &Gates,
) -> Result<(Targets, usize), TargetError> {
    let planned =
        plan(request.sources, request.pinned).map_err(|error| TargetError::Manifests(error.to_string()))?;
    let urls: BTreeSet<&str> = request.sources.iter().map(|source| source.repo_url.as_str()).collect();
    let _places = places(request, gates, urls)?;
    let count = request.sources.len();
    let mut made = Targets {
        objects: Arc::from([]),
        revisions: Vec::with_capacity(count),
        types: Vec::with_capacity(count),
        sources: SourcesId::of(request.sources),
        made_for: request.made_for(),
        renderings: Vec::with_capacity(count),
    };
    let mut rendered_now = 0;
    let began = sources.elapsed();
    let mut asked = BTreeSet::new();
    let mut all = Vec::with_capacity(count);
    // All revisions before any content: one moment counts for all sources.
    for (index, planned) in planned.into_iter().enumerate() {
        let freshness = freshness(request, began, asked.insert(planned.source.repo_url.as_str()));
        let resolved = match request.upload.as_ref().filter(|_| index == 0) {
            Some(upload) => uploaded(request, &planned, &upload.tree),
            None => resolve_one(request, &planned, sources, freshness).await,
        };
        all.push((planned, resolved.map_err(|error| error.of_source(index + 1, count))?));
    }
    for (index, (planned, resolved)) in all.iter().enumerate() {
        let one = load_one(request, (planned, &all), resolved, (sources, renders, gates)).await;
        let rendered = one.map_err(|error| error.of_source(index + 1, count))?;
        made.revisions.push(resolved.revision.clone());
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

/// What a source means now: its revision, and with which credentials it is read.
struct ResolvedSource {
    repository: Repository,
    revision: String,
    /// The files, where they did not come from the repository.
    upload: Option<Arc<dyn Tree>>,
}

impl ResolvedSource {
    /// The source as uploaded files may reference it.
    fn own<'a>(&'a self, planned: &'a PlannedSource<'a>) -> Own<'a> {
        Own { planned, revision: self.upload.is_none().then_some(self.revision.as_str()) }
    }
}

type One = Option<(Arc<Held>, bool)>;

/// Which listings are new enough. The first question about a repository is asked of its server where the newest state
/// is wanted; those after it see what that one saw, or two sources of one repository could be of two commits (F18).
fn freshness(request: &TargetRequest<'_>, began: Duration, is_first: bool) -> Freshness {
    match request.listed_since {
        _ if request.level >= Level::ForceLatest && is_first => Freshness::Fetch,
        _ if request.level >= Level::ForceLatest => Freshness::Since(began),
        Some(time) => Freshness::Since(time),
        None => Freshness::Cached,
    }
}

async fn resolve_one(
    request: &TargetRequest<'_>,
    planned: &PlannedSource<'_>,
    sources: &Sources,
    freshness: Freshness,
) -> Result<ResolvedSource, TargetError> {
    let failed = |error: SourceError| failed(&error);
    let PlannedSource { source, revision, content, .. } = *planned;
    let project = request.project.name();
    let mut repository =
        request.world.repository(&source.repo_url, project).map_err(TargetError::Manifests)?;
    repository.pass_credentials = source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
    let revision = match content {
        Content::Git => {
            let resolved = sources.resolve_tag(&repository, revision, &source.tag_prefix, freshness).await;
            let commit = resolved.map_err(failed)?.commit;
            // Before anything is rendered, or taken from what was rendered before: who may sign does not depend on the
            // files.
            verify(request, planned, sources, (&repository, &commit)).await?;
            commit
        }
        Content::Chart => {
            sources.resolve_chart(&repository, &source.chart, revision, freshness).await.map_err(failed)?
        }
        Content::Oci => sources.resolve_artifact(&repository, revision, freshness).await.map_err(failed)?,
    };
    Ok(ResolvedSource { repository, revision, upload: None })
}

/// A source whose files were sent along: they are their own revision.
fn uploaded(
    request: &TargetRequest<'_>,
    planned: &PlannedSource<'_>,
    upload: &Arc<dyn Tree>,
) -> Result<ResolvedSource, TargetError> {
    if !matches!(planned.content, Content::Git) {
        let text = "files replace those of a git repository; the first source is none";
        return Err(TargetError::Manifests(text.to_owned()));
    }
    let repository = request.world.repository(&planned.source.repo_url, request.project.name());
    let repository = repository.map_err(TargetError::Manifests)?;
    Ok(ResolvedSource { repository, revision: upload.id().to_owned(), upload: Some(Arc::clone(upload)) })
}

/// The files of a source at its revision.
async fn tree_of(
    request: &TargetRequest<'_>,
    planned: &PlannedSource<'_>,
    resolved: &ResolvedSource,
    sources: &Sources,
) -> Result<Arc<dyn Tree>, TargetError> {
    let ResolvedSource { repository, revision, upload } = resolved;
    if let Some(upload) = upload {
        return Ok(Arc::clone(upload));
    }
    let hard = request.kind == RefreshKind::Hard;
    let tree = match planned.content {
        Content::Git => sources.tree(repository, revision).await,
        Content::Chart => {
            let chart = sources.chart(repository, &planned.source.chart, revision, hard).await;
            chart.map(|chart| chart.tree)
        }
        Content::Oci => sources.artifact(repository, revision, hard).await,
    };
    tree.map_err(|error| failed(&error))
}

async fn load_one(
    request: &TargetRequest<'_>,
    (planned, all): (&PlannedSource<'_>, &[(PlannedSource<'_>, ResolvedSource)]),
    resolved: &ResolvedSource,
    (sources, renders, gates): (&Sources, &Renders, &Gates),
) -> Result<One, TargetError> {
    if planned.purpose == Purpose::Revision {
        return Ok(None);
    }
    let tree = tree_of(request, planned, resolved, sources).await?;
    let task = task(request, planned, resolved);
    let ask = |supplies| renders.get(Arc::clone(&tree), task.clone(), supplies);
    converse((request, planned, all), (&tree, &task), (sources, renders, gates), ask).await.map(Some)
}

/// What is asked of the renderers.
fn task(request: &TargetRequest<'_>, planned: &PlannedSource<'_>, resolved: &ResolvedSource) -> RenderTask {
    RenderTask {
        key: request.key.clone(),
        position: request.sources.iter().position(|source| std::ptr::eq(source, planned.source)).unwrap_or(0),
        priority: request.priority,
        request: request.context.request(planned.source, &resolved.revision),
        budget: Budget::of(request.world.settings.renderers()),
        tracking: Arc::clone(&request.tracking),
        kinds: request.kinds.clone(),
        secret: request.world.settings.secret("server.secretkey").unwrap_or_default(),
        hard: request.kind == RefreshKind::Hard,
        is_asked: request.is_asked,
    }
}

/// Asks for a rendering until nothing is lacking any more.
async fn converse<T, F: Future<Output = Result<Outcome<T>, RenderFailure>>>(
    (request, planned, all): (&TargetRequest<'_>, &PlannedSource<'_>, &[(PlannedSource<'_>, ResolvedSource)]),
    (tree, task): (&Arc<dyn Tree>, &RenderTask),
    (sources, renders, gates): (&Sources, &Renders, &Gates),
    ask: impl Fn(Arc<Supplies>) -> F,
) -> Result<T, TargetError> {
    let mut conversation = Conversation::default();
    loop {
        let needs = match ask(Arc::clone(conversation.supplies())).await {
            Ok(Outcome::Done(rendered)) => return Ok(rendered),
            Ok(Outcome::Needs(needs)) => needs,
            Err(RenderFailure::Text(text)) => return Err(TargetError::Manifests(text)),
            Err(RenderFailure::Busy(text)) => return Err(TargetError::Busy(text)),
        };
        for need in conversation.wanted(needs)? {
            let place = gates.enter(request.key, request.priority, plugin_of(&need).map(Shared::Plugin));
            let Some(_place) = place else {
                return Err(TargetError::Busy("too many applications wait for the plugin".to_owned()));
            };
            let brought = bring(request, (planned, all), (tree, &need), sources).await;
            if let (Need::Plugin(_), Err(TargetError::Manifests(text))) = (&need, &brought) {
                let supplies = conversation.supplies();
                // What cannot be counted is asked for once more than it would be.
                let _uncounted = renders.failed_to_bring(tree, task.clone(), supplies, text).await;
            }
            conversation.add(need, brought?)?;
        }
    }
}

/// The manifests of the only source as they are committed (CTL-110): without marks, made anew, and all of them or none.
pub(crate) async fn manifests(
    Admitted(request): &Admitted<'_>,
    sources: &Sources,
    renders: &Renders,
    gates: &Gates,
) -> Result<Manifests, TargetError> {
    let planned =
        plan(request.sources, request.pinned).map_err(|error| TargetError::Manifests(error.to_string()))?;
    let urls = request.sources.iter().map(|source| source.repo_url.as_str()).collect();
    let _places = places(request, gates, urls)?;
    let [planned] = &planned[..] else {
        return Err(TargetError::Manifests("there is not exactly one dry source".to_owned()));
    };
    let resolved = resolve_one(request, planned, sources, Freshness::Cached).await?;
    let tree = tree_of(request, planned, &resolved, sources).await?;
    let task = task(request, planned, &resolved);
    let ask = |supplies| renders.manifests(Arc::clone(&tree), task.clone(), supplies);
    converse((request, planned, &[]), (&tree, &task), (sources, renders, gates), ask).await
}

/// Which plugin somebody waits for.
fn plugin_of(need: &Need) -> Option<String> {
    match need {
        Need::Plugin(call) => Some(match &call.choice {
            PluginChoice::Named(name) => name.clone(),
            PluginChoice::Any | PluginChoice::Perhaps { .. } => String::new(),
        }),
        _ => None,
    }
}

/// Brings what a source lacks.
async fn bring(
    request: &TargetRequest<'_>,
    (planned, all): (&PlannedSource<'_>, &[(PlannedSource<'_>, ResolvedSource)]),
    (tree, need): (&Arc<dyn Tree>, &Need),
    sources: &Sources,
) -> Result<Supply, TargetError> {
    if let Some(upload) = request.upload.as_ref().filter(|upload| Arc::ptr_eq(&upload.tree, tree)) {
        let own: Vec<Own<'_>> = all.iter().map(|(planned, resolved)| resolved.own(planned)).collect();
        match sent::decide(need, planned.source, &own, upload.may_run_programs) {
            Decision::Bring => {}
            Decision::Absent(why) => return Ok(Supply::absent(why)),
            Decision::Refuse(text) => return Err(TargetError::Manifests(text)),
            Decision::Source(at) => {
                let found =
                    all.get(at).ok_or_else(|| TargetError::Manifests(format!("{need} is unknown")))?;
                return tree_of(request, &found.0, &found.1, sources).await.map(Supply::tree);
            }
        }
    }
    if let Need::Ref { name } = need
        && let Some((other, resolved)) = all.iter().find(|(other, _)| other.source.r#ref == *name)
    {
        return tree_of(request, other, resolved, sources).await.map(Supply::tree);
    }
    let fetcher = Fetcher {
        installation: request.world,
        project: request.project,
        sources,
        source: planned.source,
        tree,
        is_fresh: request.kind == RefreshKind::Hard,
    };
    fetcher.bring(need).await.map_err(|error| match error {
        FetchError::Source(error) => failed(&error),
        FetchError::Refused(text) => TargetError::Manifests(text),
        FetchError::Plugin(error) if error.is_transient() => TargetError::Repository(error.to_string()),
        FetchError::Plugin(error) => TargetError::Manifests(error.to_string()),
    })
}

fn failed(error: &SourceError) -> TargetError {
    match error {
        // A URL that nobody may fetch is no trouble that passes, and no signature is waited for in silence.
        SourceError::InvalidRepository { .. }
        | SourceError::Unverifiable { .. }
        | SourceError::Version { .. }
        | SourceError::Malformed { .. } => TargetError::Manifests(error.to_string()),
        error => TargetError::Repository(error.to_string()),
    }
}

/// Refuses a commit that is not signed as the project wants it (REP-200..202).
async fn verify(
    request: &TargetRequest<'_>,
    planned: &PlannedSource<'_>,
    sources: &Sources,
    (repository, commit): (&Repository, &str),
) -> Result<(), TargetError> {
    let source = planned.source;
    let rule = request.world.signature_rule(request.project, &source.repo_url);
    let Some(rule) = rule.map_err(|error| TargetError::Manifests(error.to_string()))? else { return Ok(()) };
    let signed = Signed {
        commit,
        named: planned.signed_revision(),
        tag_prefix: &source.tag_prefix,
        mode: rule.mode,
        keyring: &request.world.keyring,
    };
    let mut verdict = Verdict::new(&rule);
    let looked = sources.signatures(repository, signed, &mut |object| verdict.take(object)).await;
    looked.map_err(|error| failed(&error))?;
    verdict.refusal().map_or(Ok(()), |text| Err(TargetError::Manifests(text)))
}
