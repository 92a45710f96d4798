//! One pass over one application: refresh when something asks for it, then carry its operation on (CTL-32,
//! CTL-44). Whoever holds the application's key runs this; nothing else writes the application.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tiphys_api::application::{Application, ApplicationStatus, Condition, HealthStatus, Summary, SyncResult};
use tiphys_api::{AppProject, names};
use tiphys_engine::deletion::is_deletion_hook;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_object::{GroupKind, Object};
use tiphys_policy::permit::{Governed, Permit};
use tiphys_policy::spec_check::Finding;
use tiphys_policy::unsupported::{impersonation_refusal, signature_refusal};

use crate::clusters::{Destination, Unusable};
use crate::compare::{self, Compared, Subject};
use crate::context::Context;
use crate::decide::autosync;
use crate::decide::operation::shown;
use crate::decide::refresh::{self, Level, Reason, Refresh, RefreshKind};
use crate::decide::status::{condition, merge_conditions};
use crate::events::Note;
use crate::gate::Shared;
use crate::memory::{AppMemory, Targets};
use crate::metrics::ReconcileLabels;
use crate::operate;
use crate::persist::{self, Also, Written};
use crate::queue::Priority;
use crate::rendering::{self, RenderFailure, Stamp};
use crate::scripts::Programs;
use crate::store::{AppEntry, AppKey};
use crate::targets::{self, Admitted, TargetError, TargetRequest};
use crate::updates;
use crate::world::World;

/// Condition types that the check of the spec evaluates (CTL-17).
const SPEC_TYPES: [&str; 2] = ["InvalidSpecError", "UnknownError"];
/// Condition types that a comparison evaluates (CTL-17).
const COMPARISON_TYPES: [&str; 6] = [
    "ComparisonError",
    "UnsupportedOptionWarning",
    "SharedResourceWarning",
    "RepeatedResourceWarning",
    "ExcludedResourceWarning",
    "UnknownError",
];

/// Pause after somebody else changed the application during a pass.
const CONFLICT_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Time until a cluster that is not listed yet is looked at again.
const READY_AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

/// Shortest time until a periodic refresh that did not succeed is tried again.
const DUE_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// An application with everything a pass works on.
pub(crate) struct Work {
    pub(crate) key: AppKey,
    /// How urgent the pass is.
    pub(crate) priority: Priority,
    pub(crate) object: Arc<Object>,
    pub(crate) app: Application,
    pub(crate) instance: String,
    pub(crate) memory: Arc<Mutex<AppMemory>>,
    pub(crate) world: Arc<World>,
    pub(crate) tracking: Arc<TrackingSettings>,
    pub(crate) programs: Programs,
}

/// What a valid spec resolves to.
pub(crate) struct Resolved {
    pub(crate) project: Arc<AppProject>,
    pub(crate) destination: Arc<Destination>,
}

impl Work {
    pub(crate) fn subject<'a>(&'a self, resolved: &'a Resolved) -> Subject<'a> {
        Subject {
            app: &self.app,
            instance: &self.instance,
            world: &self.world,
            project: &resolved.project,
            destination: &resolved.destination,
            tracking: &self.tracking,
            programs: &self.programs,
        }
    }

    /// Takes the object as it was stored.
    pub(crate) fn adopt(&mut self, stored: Arc<Object>) {
        if let Ok(app) = serde_json::from_slice(stored.raw()) {
            self.app = app;
            self.object = stored;
        }
    }

    /// The same, of what a write of ours was answered with: an operation that it shows is the stored one.
    pub(crate) fn adopt_written(&mut self, stored: Arc<Object>) {
        // A write of nothing was never sent.
        let was_sent = !Arc::ptr_eq(&stored, &self.object);
        self.adopt(stored);
        if was_sent {
            self.memory.lock().confirmed =
                self.app.status.operation_state.as_ref().map(|state| state.started_at.clone());
        }
    }
}

/// Works on one application until there is nothing to do now, and sets the time of the next look.
///
/// Where too many are busy with the cluster already, nothing happens now: the gate brings the application back.
pub(crate) async fn run(context: &Context, key: &AppKey, priority: Priority) {
    if let Some(held) = context.store.held(key) {
        persist::tell_unreadable(context, key, &held).await;
        return;
    }
    let Some(entry) = context.store.get(key) else { return };
    let cluster = cluster_of(&entry, &context.world.load());
    let Some(_place) = context.gates.enter(key, priority, cluster.map(Shared::Cluster)) else { return };
    let Some(mut work) = load(context, key, priority) else { return };
    let world = Arc::clone(&work.world);
    let enabled =
        tiphys_policy::project::namespace_enabled(&world.settings, &key.namespace, &context.namespace);
    if !enabled || compare::is_skipped(&work.app) {
        return;
    }
    if work.app.metadata.deletion_timestamp.is_some() && work.app.operation.is_none() {
        Box::pin(crate::deletion::run(context, &mut work)).await;
        return;
    }
    let now = context.clock.now();
    let intervals = Context::intervals(&world, key);
    if updates::matter(context, &work).await {
        work.memory.lock().request(Level::Recent);
    }
    let (requested, seen) = {
        let mut memory = work.memory.lock();
        (memory.requested.take(), memory.reconciled)
    };
    let requested = refresh::raised(requested, seen, context.store.moved(&work.app));
    let refresh = refresh::decide(&work.app, requested, intervals, seen, now);
    let mut compared = None;
    if let Some(refresh) = refresh {
        let Ok(result) = Box::pin(reconcile(context, &mut work, refresh)).await else {
            // The other writer's version is read now, so that the next round does not meet it again (F11).
            persist::read_again(context, key).await;
            work.memory.lock().request(refresh.level);
            context.queue.add_at(key.clone(), tokio::time::Instant::now() + CONFLICT_AGAIN);
            return;
        };
        compared = result;
    }
    if work.app.operation.is_some() && !context.read_only {
        Box::pin(operate::run(context, &mut work, compared)).await;
    }
    if let Some(due) = refresh::next_due(&work.app, intervals, work.memory.lock().reconciled, now) {
        // A refresh that was due and could not be made stays due; it must not spin.
        let earliest = context.clock.now().checked_add(DUE_AGAIN).unwrap_or(due);
        context.wake_at(key, if due <= now { earliest } else { due });
    }
    let wake = work.memory.lock().wake.take();
    if let Some(wake) = wake {
        work.memory.lock().request(Level::Latest);
        context.wake_at(key, wake);
    }
}

/// The cluster that an application may make a worker wait for.
fn cluster_of(entry: &AppEntry, world: &World) -> Option<String> {
    let cluster = world.clusters.resolve(&entry.declared.spec.destination).ok()?;
    Some(cluster.server.clone())
}

fn load(context: &Context, key: &AppKey, priority: Priority) -> Option<Work> {
    let entry = context.store.get(key)?;
    let world = context.world.load_full();
    let app = match entry.parse() {
        Ok(app) => app,
        Err(error) => {
            tracing::warn!(application = %key, %error, "the application cannot be read");
            context.store.hold(key.clone(), error.to_string());
            context.queue.add(key.clone(), Priority::Urgent);
            return None;
        }
    };
    let tracking = Arc::new(world.tracking_of(&app));
    let has_jq = app.spec.ignore_differences.iter().any(|rule| !rule.jq_path_expressions.is_empty());
    let runner = context.interpreters.runner(&entry.instance, world.settings.controller().jq_timeout);
    let programs = Programs::new(&context.interpreters, context.compute, world.scripted || has_jq, runner);
    Some(Work {
        key: key.clone(),
        priority,
        object: entry.object,
        app,
        instance: entry.instance.to_string(),
        memory: entry.memory,
        world,
        tracking,
        programs,
    })
}

/// The object changed under the pass: start again.
pub(crate) struct Again;

/// Compares and writes what was found; may start an automatic operation in the same write.
async fn reconcile(context: &Context, work: &mut Work, refresh: Refresh) -> Result<Option<Compared>, Again> {
    let started = context.clock.elapsed();
    let mut new = work.app.clone();
    let now = context.clock.now();
    let patient = refresh.reason != Reason::Requested;
    let mut also = Also { refreshed: true, normalized: true, patient, ..Also::default() };
    let found = match resolve(context, work).await {
        Err(Unresolved::NotReady) => {
            not_ready(context, work, refresh);
            return Ok(None);
        }
        Err(Unresolved::Unreachable(error)) => {
            let text = format!("Failed to load live state: {error}");
            repository_failed(&mut new, text, now);
            new.status.health = HealthStatus { status: "Unknown".to_owned(), ..HealthStatus::default() };
            None
        }
        Err(Unresolved::Invalid(conditions)) => {
            invalid(&mut new, conditions, now);
            None
        }
        Ok(resolved) => match compare_now(context, work, &resolved, refresh, &[], None).await {
            Ok(Some(compared)) => {
                fill(&mut new, work, &compared, refresh.level, now);
                if work.app.metadata.deletion_timestamp.is_none() && compared.comparison.failed.is_none() {
                    also.finalizers = true;
                    new.metadata.finalizers =
                        hook_finalizers(&work.app.metadata.finalizers, &compared.targets);
                }
                if compared.comparison.failed.is_some() {
                    // What could not be known may be known soon; nothing else may wake the application.
                    work.memory.lock().wake = now.checked_add(DUE_AGAIN).ok();
                }
                if refresh.level < Level::Latest && is_outdated(work, &compared) {
                    // Something else was synced since these revisions were resolved: what the branch means now
                    // is asked first, or the application would go back to an older commit (INV-3).
                    work.memory.lock().request(Level::Latest);
                    context.queue.add(work.key.clone(), Priority::Routine);
                } else if !context.read_only
                    && compared.comparison.failed.is_none()
                    && !compared.comparison.incomplete
                {
                    also.operation = auto_sync(work, &mut new, &compared, &resolved, now);
                }
                Some((compared, resolved))
            }
            // Repositories fail within their grace period: everything stays as it was (CTL-33).
            Ok(None) => {
                let again = context.clock.now().checked_add(DUE_AGAIN);
                work.memory.lock().wake = again.ok();
                if work.app.annotation(names::annotation::REFRESH).is_none() {
                    return Ok(None);
                }
                None
            }
            Err(CompareError::Busy) => {
                // The gate brings the application back when there is room.
                work.memory.lock().request(refresh.level);
                return Ok(None);
            }
            Err(CompareError::Failed(error)) => {
                repository_failed(&mut new, error, now);
                let subject = work.subject(&resolved);
                let health = compare::health_of_live(&subject, &work.memory).await;
                show_health(
                    &mut new.status,
                    health,
                    work.world.settings.controller().persist_resource_health,
                );
                None
            }
        },
    };
    also.exclusive = also.operation;
    let started_operation = also.operation;
    if refresh.level >= Level::Latest {
        work.memory.lock().reconciled = Some(now);
    }
    let old = work.app.clone();
    let written = persist::write(context, &work.object, &old, &mut new, also).await;
    let labels = ReconcileLabels {
        namespace: work.key.namespace.to_string(),
        dest_server: work.app.spec.destination.server.clone(),
    };
    let took = context.clock.elapsed().saturating_sub(started);
    context.metrics.reconciled(&labels, took.as_secs_f64());
    tracing::debug!(
        application = %work.app.metadata.name,
        app_namespace = %work.key.namespace,
        project = %work.app.project(),
        reason = ?refresh.reason,
        comparison_level = ?refresh.level,
        time_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "Reconciliation completed"
    );
    match written {
        Written::Stored(stored) => {
            work.adopt_written(stored);
            if started_operation && let Some((compared, _)) = &found {
                let text = format!("Initiated automated sync to '{}'", compared.targets.revisions.join(", "));
                context.note(&work.object, &work.app, &Note::normal("OperationStarted", text));
            }
            Ok(found.map(|(compared, _)| compared))
        }
        Written::Waits => {
            wait_for_turn(context, work);
            Ok(found.map(|(compared, _)| compared))
        }
        Written::Conflict => Err(Again),
        Written::Gone => Ok(None),
        Written::Failed(error) => {
            tracing::warn!(application = %work.key, error, "the status could not be written");
            let retry = context.clock.now().checked_add(jiff::SignedDuration::from_secs(5));
            work.memory.lock().wake = retry.ok();
            Ok(None)
        }
    }
}

/// Looks again when the application's turn has come to show a new revision.
fn wait_for_turn(context: &Context, work: &Work) {
    let mut memory = work.memory.lock();
    let wait = memory.turn.map(|turn| turn.saturating_sub(context.clock.elapsed()));
    let wait = wait.and_then(|wait| jiff::SignedDuration::try_from(wait).ok());
    let at = wait.and_then(|wait| context.clock.now().checked_add(wait).ok());
    memory.wake = memory.wake.into_iter().chain(at).min();
}

/// Looks at an application again soon, with what was asked for.
fn not_ready(context: &Context, work: &Work, refresh: Refresh) {
    work.memory.lock().request(refresh.level);
    context.queue.add_at(work.key.clone(), tokio::time::Instant::now() + READY_AGAIN);
}

/// Why project and destination are not at hand.
pub(crate) enum Unresolved {
    /// The spec is wrong, with the conditions that say so.
    Invalid(Vec<Condition>),
    /// The cluster was just started and is not listed yet.
    NotReady,
    /// The cluster cannot be reached, and why.
    Unreachable(String),
}

/// Checks the spec and resolves project and destination (CTL section 1.4).
pub(crate) async fn resolve(context: &Context, work: &Work) -> Result<Resolved, Unresolved> {
    let (app, world) = (&work.app, &work.world);
    let checked = world.check_spec(app).map_err(|findings| {
        let shown = |finding: Finding| condition(finding.kind.as_str(), finding.message);
        Unresolved::Invalid(findings.into_iter().map(shown).collect())
    })?;
    let Ok(project) = world.project(app.project()) else { return Err(Unresolved::Invalid(Vec::new())) };
    if let Some(text) = impersonation(work, project, &checked.cluster.server) {
        return Err(Unresolved::Invalid(vec![condition("InvalidSpecError", text)]));
    }
    match context.clusters.get(&checked.cluster.server).await {
        Ok(destination) => Ok(Resolved { project: Arc::clone(project), destination }),
        Err(Unusable::NotReady) => Err(Unresolved::NotReady),
        Err(Unusable::Failed(error)) => Err(Unresolved::Unreachable(error)),
    }
}

/// Why nothing is done in a destination: the project wants it done as another account (REP-193).
pub(crate) fn impersonation(work: &Work, project: &AppProject, server: &str) -> Option<String> {
    let namespace = &work.app.spec.destination.namespace;
    impersonation_refusal(project, &work.world.settings, server, namespace, &work.app.metadata.namespace)
}

/// Why there is no comparison.
pub(crate) enum CompareError {
    /// Others wait for the repository; come back a little later.
    Busy,
    /// The text of the condition.
    Failed(String),
}

/// Revisions and sources of an operation, when they replace those of the spec.
pub(crate) struct Override<'a> {
    pub(crate) sources: &'a [tiphys_api::application::ApplicationSource],
    pub(crate) revisions: &'a [String],
}

/// Loads targets and compares. `None` means that repositories fail and the grace period runs.
pub(crate) async fn compare_now(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    refresh: Refresh,
    pinned: &[String],
    replaced: Option<Override<'_>>,
) -> Result<Option<Compared>, CompareError> {
    let app = &work.app;
    check_hydrator(app)
        .map_err(|text| CompareError::Failed(format!("Failed to load target state: {text}")))?;
    let sources = replaced.as_ref().map_or(app.sources(), |with| with.sources);
    let synced = &app.status.sync;
    let recent: Vec<String> = if !pinned.is_empty() {
        pinned.to_vec()
    } else if let Some(with) = &replaced {
        with.revisions.to_vec()
    } else if refresh.level <= Level::Recent {
        if app.is_multi_source() { synced.revisions.clone() } else { vec![synced.revision.clone()] }
    } else {
        Vec::new()
    };
    let reusable = refresh.kind == RefreshKind::Normal && !recent.is_empty();
    let request = target_request(work, resolved, refresh, sources, &recent);
    let load_failed = |text: String| CompareError::Failed(format!("Failed to load target state: {text}"));
    let request = targets::admit(request).map_err(|error| load_failed(error.text))?;
    let made_for = request.request().made_for();
    let known = work.memory.lock().targets.clone().filter(|known| {
        reusable && known.revisions == recent && known.sources == sources && known.made_for == made_for
    });
    let targets = if let Some(known) = known {
        known
    } else {
        let loaded = load_sources(context, work, &request, replaced.is_none()).await;
        match loaded {
            Ok(targets) => targets,
            Err(error) if error.busy => return Err(CompareError::Busy),
            Err(error) => {
                if error.repository && refresh.level < Level::ForceLatest && within_grace(context, work) {
                    return Ok(None);
                }
                return Err(load_failed(error.text));
            }
        }
    };
    let rendered = !targets.renderings.is_empty();
    let subject = work.subject(resolved);
    let compared = compare::run(&subject, targets, &work.memory).await;
    let extra = compared.resources.iter().filter(|resource| resource.requires_pruning).count();
    if !rendered && extra > 0 {
        // Nothing was rendered, so nothing says that these objects are not wanted any more (INV-1, CTL-136).
        return Err(CompareError::Failed(format!(
            "Failed to load target state: no source of the application renders manifests (each has only 'ref'), \
             but {extra} live objects belong to it; give a source a path, or delete the objects"
        )));
    }
    Ok(Some(compared))
}

/// A hydrator replaces the sources (CTL-5). It does not run here, so what the application consists of is not
/// known; rendering `source`, or nothing, in its place would have its objects deleted (INV-1).
fn check_hydrator(app: &Application) -> Result<(), String> {
    match &app.spec.source_hydrator {
        None => Ok(()),
        Some(_) => Err("spec.sourceHydrator is not supported yet; use spec.source with the branch and path \
             that the hydrator writes to"
            .to_owned()),
    }
}

/// Compares manifests that came with the operation instead of those of the sources (CTL-42).
pub(crate) async fn compare_local(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    manifests: &[String],
    revisions: &[String],
) -> Result<Compared, CompareError> {
    let failed = |error: String| CompareError::Failed(format!("Failed to load local manifests: {error}"));
    // What comes with an operation has no signature to verify (REP-202).
    let settings = &work.world.settings;
    let wants_signature = |source: &tiphys_api::application::ApplicationSource| {
        signature_refusal(&resolved.project, settings, &source.repo_url).is_some()
    };
    if work.app.sources().iter().any(wants_signature) {
        return Err(failed("Cannot use local manifests when source integrity is enforced".to_owned()));
    }
    let stamp = Stamp {
        tracking: Arc::clone(&work.tracking),
        instance_name: work.instance.clone(),
        namespace: work.app.spec.destination.namespace.clone(),
    };
    let read = context.renders.local(&work.key, work.priority, manifests.to_vec(), stamp).await;
    let objects = read.map_err(|failure| match failure {
        RenderFailure::Busy => CompareError::Busy,
        RenderFailure::Text(text) => failed(text),
    })?;
    let targets = Targets {
        objects: objects.into(),
        revisions: revisions.to_vec(),
        types: Vec::new(),
        sources: work.app.sources().to_vec(),
        made_for: [0; 32],
        renderings: Vec::new(),
    };
    Ok(compare::run(&work.subject(resolved), targets, &work.memory).await)
}

fn target_request<'a>(
    work: &'a Work,
    resolved: &'a Resolved,
    refresh: Refresh,
    sources: &'a [tiphys_api::application::ApplicationSource],
    pinned: &'a [String],
) -> TargetRequest<'a> {
    TargetRequest {
        key: &work.key,
        priority: work.priority,
        sources,
        pinned,
        level: refresh.level,
        listed_since: work.memory.lock().named_at,
        kind: refresh.kind,
        instance: &work.instance,
        destination_namespace: &work.app.spec.destination.namespace,
        project: &resolved.project,
        tracking: Arc::clone(&work.tracking),
        world: &work.world,
    }
}

async fn load_sources(
    context: &Context,
    work: &Work,
    request: &Admitted<'_>,
    remember: bool,
) -> Result<Targets, TargetError> {
    let loaded = targets::load(request, &context.sources, &context.renders, &context.gates).await;
    if remember && !loaded.as_ref().is_err_and(|error| error.busy) {
        // After a failure any change may be the one that mends it.
        let is_within = loaded.as_ref().is_ok_and(|(targets, _)| targets.is_within());
        context.store.keep_within(&work.key, request.request().sources, is_within);
    }
    let (targets, rendered) = loaded?;
    for _ in 0..rendered {
        context.metrics.worked("render");
    }
    let mut memory = work.memory.lock();
    memory.repository_error_since = None;
    if remember {
        memory.targets = Some(targets.clone());
    }
    Ok(targets)
}

/// The targets of the spec at its newest revisions, without comparing them.
pub(crate) async fn load_targets(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    refresh: Refresh,
) -> Result<Targets, String> {
    check_hydrator(&work.app)?;
    let request = target_request(work, resolved, refresh, work.app.sources(), &[]);
    let request = targets::admit(request).map_err(|error| error.text)?;
    load_sources(context, work, &request, false).await.map_err(|error| error.text)
}

/// Whether errors of repositories are still kept silent; the first one starts the period (CTL-33).
fn within_grace(context: &Context, work: &Work) -> bool {
    let now = context.clock.now();
    let grace = work.world.settings.controller().repo_error_grace_period;
    let mut memory = work.memory.lock();
    let since = *memory.repository_error_since.get_or_insert(now);
    now.duration_since(since).unsigned_abs() < grace && work.app.status.reconciled_at.is_some()
}

/// A spec that cannot be used: nothing is known (CTL-15).
fn invalid(new: &mut Application, conditions: Vec<Condition>, now: Timestamp) {
    new.status.conditions = merge_conditions(&new.status.conditions, &SPEC_TYPES, conditions, &shown(now));
    "Unknown".clone_into(&mut new.status.sync.status);
    new.status.health = HealthStatus { status: "Unknown".to_owned(), ..HealthStatus::default() };
    new.status.resources = compare::unknown_resources(&new.status);
    new.status.summary = Summary::default();
    compared_to(new);
    new.status.reconciled_at = Some(shown(now));
}

/// Targets could not be made: sync status and resources are unknown (ENG-53).
fn repository_failed(new: &mut Application, error: String, now: Timestamp) {
    // A failure that is answered from memory for an hour, and then is not, is one failure: a settled
    // installation writes nothing (INV-5).
    let known = new.status.conditions.iter().find(|known| {
        known.r#type == "ComparisonError" && rendering::is_same_failure(&known.message, &error)
    });
    let text = known.map_or(error, |known| known.message.clone());
    let found = vec![condition("ComparisonError", text)];
    let spec_clean = merge_conditions(&new.status.conditions, &SPEC_TYPES, Vec::new(), "");
    new.status.conditions = merge_conditions(&spec_clean, &COMPARISON_TYPES, found, &shown(now));
    "Unknown".clone_into(&mut new.status.sync.status);
    new.status.resources = compare::unknown_resources(&new.status);
    compared_to(new);
    new.status.reconciled_at = Some(shown(now));
}

fn compared_to(new: &mut Application) {
    let multi = new.is_multi_source();
    let compared = &mut new.status.sync.compared_to;
    compared.source = if multi { None } else { new.spec.source.clone() };
    compared.sources.clone_from(&new.spec.sources);
    compared.destination.clone_from(&new.spec.destination);
    compared.ignore_differences.clone_from(&new.spec.ignore_differences);
}

/// Puts a comparison into the status (CTL-9).
pub(crate) fn fill(new: &mut Application, work: &Work, compared: &Compared, level: Level, now: Timestamp) {
    let status: &mut ApplicationStatus = &mut new.status;
    let spec_clean = merge_conditions(&status.conditions, &SPEC_TYPES, Vec::new(), "");
    status.conditions =
        merge_conditions(&spec_clean, &COMPARISON_TYPES, compared.conditions.clone(), &shown(now));
    compared.comparison.status.as_str().clone_into(&mut status.sync.status);
    let multi = !work.app.spec.sources.is_empty();
    let revisions = &compared.targets.revisions;
    status.sync.revision = if multi { String::new() } else { revisions.first().cloned().unwrap_or_default() };
    status.sync.revisions = if multi { revisions.clone() } else { Vec::new() };
    let types = || compared.targets.types.iter().map(|t| (*t).to_owned());
    status.source_type = if multi { String::new() } else { types().next().unwrap_or_default() };
    status.source_types = if multi { types().collect() } else { Vec::new() };
    let persist = work.world.settings.controller().persist_resource_health;
    show_health(status, compared.health.clone(), persist);
    status.resources.clone_from(&compared.resources);
    status.summary = Summary { unknown: status.summary.unknown.clone(), ..compared.summary.clone() };
    status.resource_health_source = if persist { String::new() } else { "appTree".to_owned() };
    if level >= Level::Latest || status.reconciled_at.is_none() {
        // Written only together with something else (INV-5); the memory holds it meanwhile.
        status.reconciled_at = Some(shown(now));
    }
    compared_to(new);
}

/// The message alone is no reason to write: it changes with every pod (CTL-35).
fn show_health(status: &mut ApplicationStatus, found: HealthStatus, persist: bool) {
    if persist || status.health.status != found.status {
        status.health.message = found.message;
    }
    status.health.status = found.status;
}

/// The finalizers with those for deletion hooks added or removed, as the targets have such hooks (CTL-76).
fn hook_finalizers(found: &[String], targets: &Targets) -> Vec<String> {
    use names::finalizer::{POST_DELETE, POST_DELETE_CLEANUP, PRE_DELETE, PRE_DELETE_CLEANUP};
    use tiphys_engine::hook::HookType::{PostDelete, PreDelete};
    let mut all = found.to_vec();
    let pairs =
        [(PreDelete, [PRE_DELETE, PRE_DELETE_CLEANUP]), (PostDelete, [POST_DELETE, POST_DELETE_CLEANUP])];
    for (hook_type, finalizers) in pairs {
        let wanted = targets.objects.iter().any(|object| is_deletion_hook(object, hook_type));
        for finalizer in finalizers {
            let present = all.iter().any(|name| name == finalizer);
            if wanted && !present {
                all.push(finalizer.to_owned());
            } else if !wanted && present {
                all.retain(|name| name != finalizer);
            }
        }
    }
    all
}

/// Decides about an automatic sync and puts it into the new state; says whether one starts (CTL-57).
fn auto_sync(
    work: &Work,
    new: &mut Application,
    compared: &Compared,
    resolved: &Resolved,
    now: Timestamp,
) -> bool {
    if !operate::windows(work, resolved, false, None, now).allowed {
        return false;
    }
    let facts = autosync::Compared {
        status: compared.comparison.status.as_str(),
        revisions: &compared.targets.revisions,
        resources: &compared.resources,
        may_have_changes: may_have_changes(work, compared),
    };
    let heal = work.world.settings.controller().self_heal;
    let waiting = operate::is_outdated_retry(&work.app, &compared.targets.revisions);
    let decision = if waiting {
        // A newer commit wins over the retries of an older one (INV-11).
        let free = Application { operation: None, ..work.app.clone() };
        autosync::decide(&free, &facts, &heal, now)
    } else {
        autosync::decide(&work.app, &facts, &heal, now)
    };
    let error = |new: &mut Application, found: Vec<Condition>| {
        new.status.conditions = merge_conditions(&new.status.conditions, &["SyncError"], found, &shown(now));
    };
    match decision {
        autosync::Decision::Skip(reason) => {
            tracing::trace!(application = %work.key, reason, "no automated sync");
            error(new, Vec::new());
            false
        }
        autosync::Decision::Refuse { condition: text } => {
            error(new, vec![condition("SyncError", text)]);
            false
        }
        autosync::Decision::Wait { until } => {
            error(new, Vec::new());
            work.memory.lock().wake = Some(until);
            false
        }
        autosync::Decision::Start(operation) => {
            error(new, Vec::new());
            let state = operate::begin(&work.app, &operation, &compared.targets, now);
            new.operation = Some(operation);
            new.status.operation_state = Some(Box::new(state));
            true
        }
    }
}

/// Whether the last sync, if there was one, was to other revisions than those of a comparison.
fn is_outdated(work: &Work, compared: &Compared) -> bool {
    let state = work.app.status.operation_state.as_ref();
    let Some(result) = state.and_then(|state| state.sync_result.as_ref()) else { return false };
    !synced_revisions(result).eq(compared.targets.revisions.iter())
}

fn synced_revisions(result: &SyncResult) -> impl Iterator<Item = &String> {
    let single = result.sources.is_empty().then_some(&result.revision);
    let several = if result.sources.is_empty() { &[][..] } else { &result.revisions };
    single.into_iter().chain(several)
}

/// False only when the manifests are known to be those of the last sync (CTL-39).
fn may_have_changes(work: &Work, compared: &Compared) -> bool {
    let Some(result) = work.app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref())
    else {
        return true;
    };
    let same_revisions = synced_revisions(result).eq(compared.targets.revisions.iter());
    !same_revisions && !same_manifests(work, &compared.targets)
}

/// Whether the targets are, rendering by rendering, those that were synced last.
fn same_manifests(work: &Work, targets: &Targets) -> bool {
    let memory = work.memory.lock();
    memory.synced_ids.as_ref().is_some_and(|ids| ids.iter().copied().eq(targets.ids()))
}

/// Whether objects of a kind live in namespaces, as the cluster says; a kind it does not know is refused
/// (INV-6).
pub(crate) fn scope_of(kind: &GroupKind, resolved: &Resolved) -> Result<bool, String> {
    let kinds = resolved.destination.index.discovery().snapshot();
    match kinds.and_then(|kinds| kinds.scope(kind)) {
        Some(scope) => Ok(scope == tiphys_cluster::Scope::Namespaced),
        None => Err(format!("failed to get API resource info for {kind}: unable to verify permissions")),
    }
}

/// The project and destination of an application, which decide about each object that is written there (INV-6).
pub(crate) fn governed<'a>(resolved: &'a Resolved, world: &'a World) -> Governed<'a> {
    world.governed(&resolved.project, &resolved.destination.cluster)
}

/// Permission to change an object at a destination, or the text of the refusal (ENG-158). Whether it is in a
/// namespace is what discovery says.
pub(crate) fn permit(object: &Object, resolved: &Resolved, world: &World) -> Result<Permit, String> {
    let namespaced = scope_of(&object.gvk().group_kind(), resolved)?;
    governed(resolved, world).permit(&object.key(), namespaced)
}
