//! A run over one group: everything is rendered at one commit, or nothing is committed (CTL-109..115).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tiphys_api::application::{ApplicationSource, Hydrator};
use tiphys_api::{Application, repo_url};
use tiphys_engine::tracking::qualified_name;
use tiphys_lifecycle::hydration::commit::{self, DryCommit, Metadata};
use tiphys_lifecycle::hydration::group::{GroupKey, destination, failures};
use tiphys_lifecycle::hydration::ownership::{BranchId, Usage};
use tiphys_lifecycle::hydration::record::{self as decided, Operation, Outcome, Request, State};
use tiphys_lifecycle::refresh::{Level, RefreshKind};
use tiphys_render::TreePath;
use tiphys_source::{Freshness, HydratedDirectory, Hydration, IsStale, Repository};

use super::check::is_ours;
use super::record;
use super::standing::{default_branch_refusal, project_of, standing};
use crate::app_key::AppKey;
use crate::context::Context;
use crate::events::Note;
use crate::queue::Priority;
use crate::rendering::Manifests;
use crate::targets::{self, TargetError, TargetRequest};
use crate::world::World;

/// Applications that are rendered at a time for one group.
const RENDERINGS_MAX: usize = 4;
/// Bytes of all manifests of one commit, which are in memory together.
const COMMIT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Looks for a place at a repository, and the time between two of them.
const PLACES_MAX: usize = 240;
const PLACE_AGAIN: Duration = Duration::from_millis(500);

/// An application of the group.
pub(super) struct Subject {
    key: AppKey,
    app: Application,
    hydrator: Hydrator,
    /// How it is called in messages.
    name: String,
    /// What it was asked by.
    request: Request,
}

impl Subject {
    /// An application with its hydrator.
    pub(super) fn of(key: &AppKey, app: Application, hydrator: Hydrator) -> Self {
        let name = qualified_name(&key.namespace, &key.name).to_string();
        let request = Request::of(&app);
        Self { key: key.clone(), app, hydrator, name, request }
    }

    /// Whether nobody asked for a hydration of it.
    pub(super) fn is_unasked(&self) -> bool {
        self.request.is_none()
    }
}

/// Hydrates a group, and writes how that ended.
pub(super) async fn run(context: &Context, group: &GroupKey) {
    context.store.until_listed().await;
    let world = context.world.load_full();
    if !world.settings.controller().hydrator_enabled {
        return;
    }
    let _pending = context.metrics.hydrating(&group.repository);
    let began = context.clock.elapsed();
    let subjects = subjects(context, &world, group);
    if subjects.is_empty() {
        return;
    }
    for subject in &subjects {
        start(context, subject).await;
    }
    let outcomes = outcomes(context, &world, group, &subjects).await;
    for (subject, outcome) in subjects.iter().zip(&outcomes) {
        end(context, subject, outcome).await;
    }
    let failed = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let seconds = context.clock.elapsed().saturating_sub(began).as_secs_f64();
    context.metrics.hydrated(&group.repository, !failed, seconds);
    tracing::info!(repository = %repo_url::redact(&group.repository), branch = %group.branch,
        applications = subjects.len(), failed, seconds, "hydration ended");
}

/// Records that a run began.
pub(super) async fn start(context: &Context, subject: &Subject) {
    let now = context.clock.now();
    let started = record::write(context, &subject.key, |app| {
        decided::start(app, now);
    });
    if let Err(error) = started.await {
        tracing::warn!(application = %subject.key, error, "that a hydration began could not be written");
    }
}

/// The applications of a group that are worked on and may be hydrated. The others are told by a look of their own.
fn subjects(context: &Context, world: &World, group: &GroupKey) -> Vec<Subject> {
    let mut found = Vec::new();
    for key in context.store.hydrated_by(group) {
        let Some(app) = context.store.get(&key).and_then(|entry| entry.parse().ok()) else { continue };
        let Some(hydrator) = app.spec.source_hydrator.clone() else { continue };
        if !is_ours(context, world, &key, &app) {
            continue;
        }
        if standing(context, world, &key, (&app, &hydrator)).is_err() {
            context.hydrations.ask(&key);
            continue;
        }
        found.push(Subject::of(&key, app, hydrator));
    }
    found
}

/// Records how a run ended, takes the request away that it served, and says so in an event.
pub(super) async fn end(context: &Context, subject: &Subject, outcome: &Outcome) {
    let now = context.clock.now();
    let written = record::write(context, &subject.key, |app| {
        decided::end(app, &subject.hydrator, outcome, now);
        decided::served(app, &subject.request);
    });
    if let Err(error) = written.await {
        // It counts as lost later, and is made once more.
        tracing::warn!(application = %subject.key, error, "the end of a hydration could not be written");
    }
    let note = match outcome {
        Outcome::Hydrated { dry_sha, hydrated_sha } => {
            Note::normal("ResourceUpdated", format!("Hydrated {dry_sha} to {hydrated_sha}"))
        }
        Outcome::Failed { message, .. } => Note::warning("ResourceUpdated", message.clone()),
    };
    let object = context.store.get(&subject.key).map(|entry| entry.object);
    if let Some(object) = object {
        context.note(&object, &subject.app, &note);
    }
}

/// Renders and commits; answers how that ended for each.
async fn outcomes(context: &Context, world: &World, group: &GroupKey, subjects: &[Subject]) -> Vec<Outcome> {
    let names: Vec<String> = subjects.iter().map(|subject| subject.name.clone()).collect();
    let Some(first) = subjects.first() else { return Vec::new() };
    let of_first = |text: String| BTreeMap::from([(0, text)]);
    let sha = match resolve(context, world, first).await {
        Ok(sha) => sha,
        Err(text) => return failures(&names, &of_first(text), ""),
    };
    if let Some(known) = known(subjects, &sha) {
        return known;
    }
    let rendered = render_all(context, world, subjects, &sha).await;
    let (mut manifests, mut errors) = (Vec::with_capacity(subjects.len()), BTreeMap::new());
    for (at, result) in rendered {
        match result {
            Ok(made) => manifests.push((at, made)),
            Err(text) => drop(errors.insert(at, text)),
        }
    }
    // One that is missing would take its files away, or leave them as they were: nothing is committed.
    if !errors.is_empty() || manifests.len() != subjects.len() {
        return failures(&names, &errors, &sha);
    }
    manifests.sort_by_key(|(at, _)| *at);
    let manifests = manifests.into_iter().map(|(_, made)| made).collect();
    match push(context, world, group, (subjects, manifests), &sha).await {
        Ok(hydrated_sha) => {
            let hydrated = Outcome::Hydrated { dry_sha: sha, hydrated_sha };
            vec![hydrated; subjects.len()]
        }
        Err(text) => failures(&names, &of_first(text), &sha),
    }
}

/// The commit that the dry revision means now.
async fn resolve(context: &Context, world: &World, first: &Subject) -> Result<String, String> {
    let source = first.hydrator.dry_source();
    let repository = world.repository(&source.repo_url, first.app.project())?;
    let (revision, prefix) = (&source.target_revision, &source.tag_prefix);
    let resolved = context.sources.resolve_tag(&repository, revision, prefix, Freshness::Fetch).await;
    resolved.map(|resolved| resolved.commit).map_err(|error| error.to_string())
}

/// How the run ends when everybody was hydrated from this commit by the present settings, and nobody wants it anew.
fn known(subjects: &[Subject], sha: &str) -> Option<Vec<Outcome>> {
    let of = |subject: &Subject| {
        let succeeded = State::of(&subject.app).succeeded?;
        let is_known = succeeded.is_of(sha, &subject.hydrator) && !subject.request.is_hard();
        let Operation { dry_sha, hydrated_sha, .. } = succeeded;
        is_known.then_some(Outcome::Hydrated { dry_sha, hydrated_sha })
    };
    subjects.iter().map(of).collect()
}

/// The manifests of all, each as one file, a few at a time; by their places, in any order.
async fn render_all(
    context: &Context,
    world: &World,
    subjects: &[Subject],
    sha: &str,
) -> Vec<(usize, Result<Manifests, String>)> {
    let one = |(at, subject)| async move { (at, render(context, world, subject, sha).await) };
    let all: Vec<_> = subjects.iter().enumerate().map(one).collect();
    let mut renderings = futures::stream::iter(all).buffer_unordered(RENDERINGS_MAX);
    let (mut done, mut bytes) = (Vec::with_capacity(subjects.len()), 0_usize);
    while let Some((at, mut result)) = renderings.next().await {
        bytes = bytes.saturating_add(result.as_ref().map_or(0, |made| made.text.len()));
        if bytes > COMMIT_BYTES_MAX {
            result =
                Err(format!("all manifests of the branch together have more than {COMMIT_BYTES_MAX} bytes"));
        }
        done.push((at, result));
    }
    done
}

/// The manifests of one application, as they are committed.
async fn render(context: &Context, world: &World, subject: &Subject, sha: &str) -> Result<Manifests, String> {
    let project = project_of(world, &subject.app)?;
    let source = subject.hydrator.dry_source();
    let tracking = Arc::new(world.tracking_of(&subject.app));
    let (sources, pinned) = (std::slice::from_ref(source), [sha.to_owned()]);
    let metadata = &subject.app.metadata;
    let instance = world.tracking.instance_name(&metadata.namespace, &metadata.name);
    for _ in 0..PLACES_MAX {
        let instance = (instance.as_str(), &**project);
        let request = TargetRequest {
            key: &subject.key,
            priority: Priority::Routine,
            sources,
            pinned: &pinned,
            level: Level::Latest,
            listed_since: None,
            kind: RefreshKind::Hard,
            // Runs come by themselves, too.
            is_asked: false,
            // Nothing is known of a cluster, as the manifests may go to any (CTL-110).
            context: targets::render_context(world, &context.sources, &subject.app, instance),
            upload: None,
            project,
            tracking: Arc::clone(&tracking),
            kinds: None,
            world,
        };
        let admitted = targets::admit(request).map_err(|error| error.to_string())?;
        match targets::manifests(&admitted, &context.sources, &context.renders, &context.gates).await {
            // The gate brings the application back, and not this run.
            Err(TargetError::Busy(_)) => tokio::time::sleep(PLACE_AGAIN).await,
            other => return other.map_err(|error| error.to_string()),
        }
    }
    Err("too many applications wait for the repository".to_owned())
}

/// Commits and pushes; answers the commit with the manifests.
async fn push(
    context: &Context,
    world: &World,
    group: &GroupKey,
    (subjects, manifests): (&[Subject], Vec<Manifests>),
    sha: &str,
) -> Result<String, String> {
    let Some(first) = subjects.first() else { return Err("the group is empty".to_owned()) };
    let (dry, sync) = (first.hydrator.dry_source(), first.hydrator.sync_source());
    let repository = world.repository(&dry.repo_url, first.app.project())?;
    let told =
        context.sources.revision_metadata(&repository, sha).await.map_err(|error| error.to_string())?;
    let metadata = Metadata::of(&DryCommit {
        repo_url: dry.repo_url.clone(),
        sha: sha.to_owned(),
        author: told.author,
        date: Some(told.date),
        message: told.message,
    });
    let setting =
        |key: &str| world.settings.cm().get(key).map(String::as_str).filter(|text| !text.trim().is_empty());
    let (readme, json) = (setting(commit::README_TEMPLATE), |error: serde_json::Error| error.to_string());
    let mut directories = BTreeMap::new();
    for (subject, Manifests { text: manifest, commands }) in subjects.iter().zip(manifests) {
        let beside = BTreeMap::from([
            (commit::METADATA.to_owned(), metadata.path_file(&commands).map_err(json)?),
            (commit::README.to_owned(), metadata.readme(readme, &commands)?),
        ]);
        directories.insert(destination(&subject.hydrator)?, HydratedDirectory { manifest, beside });
    }
    let [name, email] =
        commit::AUTHOR.map(|(key, default)| setting(key).unwrap_or(default).trim().to_owned());
    if [&name, &email].iter().any(|text| text.contains(['<', '>', '\n', '\0'])) {
        return Err(
            "commit.author.name and commit.author.email in argocd-cm must not contain < or >".to_owned()
        );
    }
    let prunes = setting(commit::PRUNE).is_some_and(|text| text.trim() == "true");
    let hydration = Hydration {
        sync_branch: sync.target_revision.clone(),
        target_branch: first.hydrator.target_branch().to_owned(),
        directories,
        root: BTreeMap::from([
            (commit::METADATA.to_owned(), metadata.root_file().map_err(json)?),
            (commit::ATTRIBUTES.to_owned(), commit::ATTRIBUTES_TEXT.to_owned()),
        ]),
        manifest: commit::MANIFEST,
        metadata: commit::METADATA,
        is_stale: if prunes { stale(context, (group, sync)) } else { None },
        is_shared: is_shared(context, (group, first)),
        as_default_branch: subjects.iter().find_map(|subject| {
            default_branch_refusal(context, world, &subject.key, (&subject.app, &subject.hydrator))
        }),
        message: metadata.message(setting(commit::MESSAGE_TEMPLATE))?,
        note: metadata.note(),
        author: (name, email),
    };
    let projects = BTreeSet::from([group.project.as_str()]);
    let writable = Repository::from(&world.push_repository(&sync.repo_url, &projects)?);
    let pushed = context.sources.hydrate(&writable, &hydration).await;
    pushed.map(|hydrated| hydrated.commit).map_err(|error| error.to_string())
}

/// Whether applications that are hydrated apart from these write to the same branch.
fn is_shared(context: &Context, (group, first): (&GroupKey, &Subject)) -> bool {
    let sync = first.hydrator.sync_source();
    let Some(branch) = BranchId::new(&sync.repo_url, &group.branch) else { return false };
    let others = context.store.stakes(&branch, None);
    let members = context.store.hydrated_by(group);
    others.iter().any(|(key, stake, _)| stake.usage == Usage::Writes && members.binary_search(key).is_err())
}

/// Which directories of the branch nobody hydrates any more: made from the same dry repository, and no application's, also
/// none that only syncs it. As long as there are applications that nobody can read, nobody knows (CTL-119).
fn stale(context: &Context, (group, sync): (&GroupKey, &ApplicationSource)) -> Option<IsStale> {
    if context.store.holds_any() {
        tracing::warn!("nothing is removed from hydrated branches: some applications cannot be read");
        return None;
    }
    let branch = BranchId::new(&sync.repo_url, &group.branch)?;
    let mut kept: BTreeSet<TreePath> =
        context.store.stakes(&branch, None).into_iter().map(|(_, stake, _)| stake.path).collect();
    // Read when nobody waits for the store any more.
    let mut readers = Vec::new();
    for as_default in [false, true] {
        context.store.has_branch_reader(&branch, as_default, &mut |read| {
            readers.push((read.entry.clone(), read.url.to_owned()));
            false
        });
    }
    for (entry, url) in readers {
        let app = entry.parse().ok()?;
        let sources = app.sources().iter().filter(|source| source.repo_url == url);
        kept.extend(sources.filter_map(|source| TreePath::parse(&source.path).ok()));
    }
    let dry = group.dry_repository.clone();
    Some(Arc::new(move |path, metadata| {
        let is_of_dry = commit::repository_of(metadata).is_some_and(|url| repo_url::normalize(&url) == dry);
        is_of_dry && !kept.contains(path)
    }))
}
