//! What should be: the targets of an application's spec, or of an operation on it (CTL-38..43).

use std::sync::Arc;

use tiphys_api::application::ApplicationSource;
use tiphys_lifecycle::refresh::{Level, Reason, Refresh, RefreshKind};
use tiphys_render::{Budget, PATH_NOT_FOUND};

use super::load::AppContext;
use super::resolve::Resolved;
use crate::hydration;
use crate::memory::{SourcesId, Targets};
use crate::rendering::{RenderFailure, Stamp};
use crate::targets::{self, Admitted, TargetError, TargetRequest, Upload};

/// Targets to load.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) refresh: Refresh,
    /// Sources instead of those of the spec.
    pub(super) sources: Option<&'a [ApplicationSource]>,
    /// Revisions to use, one per source; none, or an empty one, is resolved.
    pub(super) revisions: &'a [String],
}

/// Why there are no targets, or no comparison with them.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    /// Others wait for the repository; the gate brings the application back.
    #[error("too many applications wait for the repository")]
    Busy,
    /// The live objects are being listed in a new way (TRK-91): everything stays as it was, and is asked for again soon.
    #[error("the live objects are being listed anew")]
    NotReady,
    /// The repository fails within its grace period: everything stays as it was (CTL-33).
    #[error("Failed to load target state: the repository does not answer")]
    Silent,
    /// Anything else, as the condition tells it.
    #[error("{0}")]
    Failed(String),
}

impl Unavailable {
    fn target_state(error: &dyn std::fmt::Display) -> Self {
        Self::Failed(format!("Failed to load target state: {error}"))
    }
}

/// Loads targets; those of the last comparison when nothing they depend on has changed.
pub(super) async fn load(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    wanted: Wanted<'_>,
) -> Result<Targets, Unavailable> {
    let app = &cx.app;
    let refresh = wanted.refresh;
    let sources = wanted.sources.unwrap_or(app.sources());
    let synced = &app.status.sync;
    let known: Vec<String> = if !wanted.revisions.is_empty() || wanted.sources.is_some() {
        wanted.revisions.to_vec()
    } else if refresh.level > Level::Recent {
        Vec::new()
    } else if app.is_multi_source() {
        synced.revisions.clone()
    } else {
        vec![synced.revision.clone()]
    };
    let is_reusable = refresh.kind == RefreshKind::Normal && !known.is_empty();
    let request = target_request(cx, resolved, refresh, sources, &known);
    let request = admit(cx, request).map_err(|error| Unavailable::target_state(&error))?;
    let remembered = if is_reusable { cx.memory.lock().targets.clone() } else { None };
    let is_same = |targets: &Targets| {
        targets.revisions == known
            && targets.sources == SourcesId::of(sources)
            && targets.made_for == request.request().made_for()
    };
    if let Some(targets) = remembered.filter(is_same) {
        return Ok(targets);
    }
    let loaded = load_sources(cx, &request, wanted.sources.is_none()).await;
    loaded.map_err(|error| match explained(cx, error) {
        TargetError::Busy(_) => Unavailable::Busy,
        TargetError::Repository(_) if refresh.level < Level::ForceLatest && within_grace(cx) => {
            Unavailable::Silent
        }
        error => Unavailable::target_state(&error),
    })
}

/// The targets of the spec with files in place of the first source's repository; nothing is remembered (API-147).
pub(super) async fn load_uploaded(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    upload: Upload,
) -> Result<Targets, Unavailable> {
    let failed = |error: &dyn std::fmt::Display| Unavailable::Failed(error.to_string());
    // What comes with a call has no signature to verify, as what comes with an operation (REP-202).
    if wants_signature(cx, resolved) {
        return Err(failed(&LOCAL_WITHOUT_SIGNATURE));
    }
    let refresh = Refresh { level: Level::Recent, kind: RefreshKind::Normal, reason: Reason::Internal };
    let mut request = target_request(cx, resolved, refresh, cx.app.sources(), &[]);
    request.upload = Some(upload);
    let request = admit(cx, request).map_err(|error| failed(&error))?;
    load_sources(cx, &request, false).await.map_err(|error| match error {
        TargetError::Busy(_) => Unavailable::Busy,
        error => failed(&error),
    })
}

const LOCAL_WITHOUT_SIGNATURE: &str = "Cannot use local manifests when source integrity is enforced";

/// Whether any source has to be signed, or nobody can say.
fn wants_signature(cx: &AppContext<'_>, resolved: &Resolved) -> bool {
    let wants = |source: &ApplicationSource| {
        let rule = cx.world.signature_rule(&resolved.project, &source.repo_url);
        !matches!(rule, Ok(None))
    };
    cx.app.sources().iter().any(wants)
}

/// Manifests that came with an operation instead of those of the sources (CTL-42).
pub(super) async fn load_local(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    manifests: &[String],
    revisions: &[String],
) -> Result<Targets, Unavailable> {
    let failed = |error: String| Unavailable::Failed(format!("Failed to load local manifests: {error}"));
    // What comes with an operation has no signature to verify (REP-202).
    if wants_signature(cx, resolved) {
        return Err(failed(LOCAL_WITHOUT_SIGNATURE.to_owned()));
    }
    let stamp = Stamp {
        tracking: Arc::clone(&cx.tracking),
        instance_name: cx.instance.clone(),
        namespace: cx.app.spec.destination.namespace.clone(),
        kinds: resolved.destination.index.discovery().snapshot(),
    };
    let owner = (&cx.key, resolved.project.name());
    let budget = Budget::of(cx.world.settings.renderers());
    let read = cx.controller.renders.local(owner, cx.priority, (manifests.to_vec(), stamp), &budget).await;
    let objects = read.map_err(|failure| match failure {
        RenderFailure::Busy(_) => Unavailable::Busy,
        RenderFailure::Text(text) => failed(text),
    })?;
    Ok(Targets {
        objects: objects.into(),
        revisions: revisions.to_vec(),
        types: Vec::new(),
        sources: SourcesId::of(cx.app.sources()),
        made_for: [0; 32],
        renderings: Vec::new(),
    })
}

/// The targets of the spec at its newest revisions, for the hooks of a deletion.
pub(super) async fn load_newest(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    refresh: Refresh,
) -> Result<Targets, TargetError> {
    let request = target_request(cx, resolved, refresh, cx.app.sources(), &[]);
    load_sources(cx, &admit(cx, request)?, false).await
}

/// Admits what becomes targets of an application. What is not its own directory of a hydrated branch holds manifests of
/// another application, which are not deployed with the rights of this one (INV-16).
fn admit<'a>(cx: &AppContext<'_>, request: TargetRequest<'a>) -> Result<Admitted<'a>, TargetError> {
    let hydrator = cx.app.spec.source_hydrator.as_ref();
    let is_dry =
        hydrator.is_some_and(|hydrator| request.sources == std::slice::from_ref(hydrator.dry_source()));
    if !is_dry && let Some(text) = hydration::foreign_directory(cx.controller, &cx.world, &cx.key, &cx.app) {
        return Err(TargetError::Manifests(text));
    }
    targets::admit(request)
}

/// What is said of a hydrator that nobody runs: the branch is compared as it is.
pub(super) fn unhydrated(cx: &AppContext<'_>) -> Option<String> {
    let is_asked_in_vain =
        cx.app.spec.source_hydrator.is_some() && !cx.world.settings.controller().hydrator_enabled;
    let text = "spec.sourceHydrator: nothing is hydrated, as hydrator.enabled is not \"true\" in argocd-cmd-params-cm";
    is_asked_in_vain.then(|| text.to_owned())
}

/// A branch that lacks the path of an application may not have been written yet (CTL-34), or is written by nobody.
fn explained(cx: &AppContext<'_>, error: TargetError) -> TargetError {
    let Some(hydrator) = cx.app.spec.source_hydrator.as_ref() else { return error };
    let more = |text: String| {
        let wait = hydrator.hydrate_to().filter(|_| text.ends_with(PATH_NOT_FOUND)).map(|next| {
            let sync = &hydrator.sync_source().target_revision;
            format!(" - waiting for an external process to update {sync} from {next}")
        });
        let inert = unhydrated(cx).map(|inert| format!(" ({inert})"));
        text + &wait.unwrap_or_default() + &inert.unwrap_or_default()
    };
    match error {
        TargetError::Busy(text) => TargetError::Busy(text),
        TargetError::Repository(text) => TargetError::Repository(more(text)),
        TargetError::Manifests(text) => TargetError::Manifests(more(text)),
    }
}

fn target_request<'a>(
    cx: &'a AppContext<'_>,
    resolved: &'a Resolved,
    refresh: Refresh,
    sources: &'a [ApplicationSource],
    pinned: &'a [String],
) -> TargetRequest<'a> {
    let instance = (cx.instance.as_str(), &*resolved.project);
    let context = targets::render_context(&cx.world, &cx.controller.sources, &cx.app, instance)
        .with_cluster(resolved.destination.facts())
        .with_sources(sources);
    TargetRequest {
        key: &cx.key,
        priority: cx.priority,
        sources,
        pinned,
        level: refresh.level,
        listed_since: cx.memory.lock().named_at,
        kind: refresh.kind,
        is_asked: refresh.reason == Reason::Requested || refresh.kind == RefreshKind::Hard,
        context,
        upload: None,
        project: &resolved.project,
        tracking: Arc::clone(&cx.tracking),
        kinds: resolved.destination.index.discovery().snapshot(),
        world: &cx.world,
    }
}

async fn load_sources(
    cx: &AppContext<'_>,
    request: &Admitted<'_>,
    remember: bool,
) -> Result<Targets, TargetError> {
    let controller = cx.controller;
    let loaded = targets::load(request, &controller.sources, &controller.renders, &controller.gates).await;
    if remember && !matches!(loaded, Err(TargetError::Busy(_))) {
        // After a failure any change may be the one that mends it.
        let is_within = loaded.as_ref().is_ok_and(|(targets, _)| targets.is_within());
        controller.store.keep_within(&cx.key, &cx.app, is_within);
    }
    let (targets, rendered) = loaded?;
    for _ in 0..rendered {
        controller.metrics.worked("render");
    }
    let mut memory = cx.memory.lock();
    memory.repository_error_since = None;
    if remember {
        memory.targets = Some(targets.clone());
    }
    Ok(targets)
}

/// Whether errors of repositories are still kept silent; the first one starts the period (CTL-33).
fn within_grace(cx: &AppContext<'_>) -> bool {
    let now = cx.controller.clock.now();
    let grace = cx.world.settings.controller().repo_error_grace_period;
    let mut memory = cx.memory.lock();
    let since = *memory.repository_error_since.get_or_insert(now);
    now.duration_since(since).unsigned_abs() < grace && cx.app.status.reconciled_at.is_some()
}
