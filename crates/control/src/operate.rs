//! Carrying an operation on: one engine pass after another, its actions executed, its results recorded
//! (CTL-44..56).
//!
//! The state in the Application is written before the first action and after every pass; everything a restart
//! needs is in it and on the hooks (INV-9).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tiphys_api::application::{
    Application, ApplicationSource, Operation, OperationState, ResourceResult, SyncOperation, SyncResult,
};
use tiphys_api::names::annotation;
use tiphys_cluster::Seen as IndexSeen;
use tiphys_engine::health::{self, Health, HealthError};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::scripts::Runner;
use tiphys_engine::sync::{self, OperationPhase, Pass, Served, Step, SyncFacts, SyncPair};
use tiphys_object::{Gvk, Object, ResourceKey};
use tiphys_policy::window::{self, SyncAttempt, WindowVerdict};

use crate::compare::Compared;
use crate::context::Context;
use crate::decide::operation::{self as rules, Move, shown};
use crate::decide::refresh::{Level, Reason, Refresh, RefreshKind};
use crate::events::Note;
use crate::execute::{self, Wrote};
use crate::memory::{LedgerCopy, Targets};
use crate::metrics::SyncLabels;
use crate::pass::{self, CompareError, Override, Resolved, Unresolved, Work};
use crate::persist::{self, Also, Written};
use crate::queue::Priority;
use crate::store::AppKey;
use crate::world::World;

/// Longest time until a running operation is looked at again (CTL-45).
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Passes made in a row before other applications get their turn (CTL-141).
const PASSES_IN_A_ROW: usize = 64;
/// How long an operation waits for a destination that does not answer, before it ends or is retried (F12).
const UNREACHED_MAX: Duration = Duration::from_secs(30);
/// Longest time to wait until the index has seen our own writes.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Time between two looks at the index while waiting.
const SETTLE_POLL: Duration = Duration::from_millis(3);

/// The state of an operation that begins with these targets.
pub(crate) fn begin(
    app: &Application,
    operation: &Operation,
    targets: &Targets,
    now: Timestamp,
) -> OperationState {
    OperationState {
        operation: operation.clone(),
        phase: "Running".to_owned(),
        started_at: start_time(app, now),
        sync_result: Some(result_of(app, operation, targets)),
        ..OperationState::default()
    }
}

/// The start of an operation in whole seconds, never that of the one before: it marks the hooks (INV-9).
fn start_time(app: &Application, now: Timestamp) -> String {
    let text = shown(now);
    let taken = app.status.operation_state.as_ref().is_some_and(|state| state.started_at == text);
    if taken { shown(now.checked_add(SignedDuration::from_secs(1)).unwrap_or(now)) } else { text }
}

/// Whether the operation is automatic, waits for a retry, and is about other revisions than the newest.
pub(crate) fn is_outdated_retry(app: &Application, revisions: &[String]) -> bool {
    let Some(operation) = app.operation.as_ref().filter(|operation| operation.initiated_by.automated) else {
        return false;
    };
    let Some(state) = app.status.operation_state.as_ref() else { return false };
    let waits = state.phase == "Running" && state.finished_at.is_some();
    let sync = operation.sync.as_ref();
    let own = sync.map(|sync| {
        if sync.revisions.is_empty() { vec![sync.revision.clone()] } else { sync.revisions.clone() }
    });
    waits && own.is_some_and(|own| own != revisions && !own.iter().any(String::is_empty))
}

fn result_of(app: &Application, operation: &Operation, targets: &Targets) -> SyncResult {
    let (sources, multi) = sources_of(app, operation);
    let policy = app.spec.sync_policy.as_ref();
    SyncResult {
        revision: if multi { String::new() } else { targets.revisions.first().cloned().unwrap_or_default() },
        revisions: if multi { targets.revisions.clone() } else { Vec::new() },
        source: if multi { None } else { sources.first().cloned() },
        sources: if multi { sources } else { Vec::new() },
        managed_namespace_metadata: policy.and_then(|policy| policy.managed_namespace_metadata.clone()),
        ..SyncResult::default()
    }
}

/// Whether an operation says to which revision, instead of the newest one.
fn names_revision(sync: &SyncOperation) -> bool {
    !sync.revision.is_empty() || !sync.revisions.is_empty()
}

/// The sources of an operation: its own, else those of the spec (CTL-47); and whether there are several.
fn sources_of(app: &Application, operation: &Operation) -> (Vec<ApplicationSource>, bool) {
    let sync = operation.sync.as_ref();
    match sync {
        Some(sync) if !sync.sources.is_empty() => (sync.sources.clone(), true),
        Some(SyncOperation { source: Some(source), .. }) => (vec![source.clone()], false),
        _ => (app.sources().to_vec(), app.is_multi_source()),
    }
}

/// What the sync windows of the project say.
pub(crate) fn windows(
    work: &Work,
    resolved: &Resolved,
    manual: bool,
    started: Option<Timestamp>,
    now: Timestamp,
) -> WindowVerdict {
    let attempt = SyncAttempt { manual, operation_started_at: started, now };
    window::can_sync_application(&resolved.project, work.world.window_subject(&work.app), attempt)
}

/// What to do after a pass.
enum Next {
    /// Another pass at once.
    Again,
    /// Wait for events, or until this long has passed.
    Wait(SignedDuration),
    /// The operation is over, or cannot go on now.
    Stop,
}

/// Carries the operation of an application on as far as it goes without waiting.
pub(crate) async fn run(context: &Context, work: &mut Work, compared: Option<Compared>) {
    let mut compared = compared;
    for _ in 0..PASSES_IN_A_ROW {
        match one(context, work, compared.take()).await {
            Next::Again => {}
            Next::Wait(wait) => {
                if let Ok(at) = context.clock.now().checked_add(wait.min(LOOK_AGAIN)) {
                    context.wake_at(&work.key, at);
                }
                return;
            }
            Next::Stop => return,
        }
    }
    context.queue.add(work.key.clone(), Priority::Routine);
}

async fn one(context: &Context, work: &mut Work, compared: Option<Compared>) -> Next {
    let now = context.clock.now();
    let timeout = work.world.settings.controller().sync_timeout.unwrap_or_default();
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let Some(next) = rules::decide(&work.app, timeout, now) else { return Next::Stop };
    let Some(operation) = work.app.operation.clone() else { return Next::Stop };
    match next {
        Move::WaitUntil(at) => Next::Wait(at.duration_since(now)),
        Move::Invalid { message } => {
            end(context, work, OperationPhase::Error, &message, Ending::default()).await
        }
        Move::Begin => Box::pin(start(context, work, &operation, compared)).await,
        Move::Retry { message, refresh } => {
            let mut new = work.app.clone();
            rules::remember_synced(&mut new);
            if let Some(state) = new.status.operation_state.as_mut() {
                state.finished_at = None;
                state.message = message;
                let revisions = state.sync_result.take();
                if refresh {
                    // The attempt looks for the newest commits, also where the operation named one.
                    for operation in
                        [Some(&mut state.operation), new.operation.as_deref_mut()].into_iter().flatten()
                    {
                        if let Some(sync) = operation.sync.as_mut() {
                            sync.revision.clear();
                            sync.revisions.clear();
                        }
                    }
                } else {
                    // The attempt stays on its commit; results begin anew.
                    state.sync_result =
                        revisions.map(|result| SyncResult { resources: Vec::new(), ..result });
                }
            }
            let also = Also { operation: refresh, ..Also::default() };
            match save(context, work, new, also).await {
                Ok(()) => Next::Again,
                Err(next) => next,
            }
        }
        Move::Continue { terminate, timed_out } => {
            let not_before = work.memory.lock().not_before;
            if let Some(wait) =
                not_before.map(|at| at.duration_since(now)).filter(SignedDuration::is_positive)
                && !terminate
            {
                return Next::Wait(wait);
            }
            if let Err(next) = confirm(context, work).await {
                return next;
            }
            Box::pin(step(context, work, &operation, compared, Ending { terminate, timed_out })).await
        }
    }
}

/// An operation that another process began, or that a list shows, goes on only if it is what is stored: the
/// application may have been deleted since.
async fn confirm(context: &Context, work: &Work) -> Result<(), Next> {
    let started = work.app.status.operation_state.as_ref().map(|state| state.started_at.clone());
    if work.memory.lock().confirmed == started {
        return Ok(());
    }
    stored(context, &work.key, persist::confirm(context, &work.object).await).await?;
    work.memory.lock().confirmed = started;
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Ending {
    terminate: bool,
    timed_out: bool,
}

/// Resolves what the operation is about and writes its first state, before anything is changed.
async fn start(
    context: &Context,
    work: &mut Work,
    operation: &Operation,
    compared: Option<Compared>,
) -> Next {
    let now = context.clock.now();
    if operation.sync.as_ref().is_some_and(names_revision) {
        work.memory.lock().named_at = Some(context.clock.elapsed());
    }
    // What is seen here may be old: another operation may have begun since (INV-4, F3).
    let first = Also { exclusive: true, ..Also::default() };
    let mut new = work.app.clone();
    new.status.operation_state = Some(Box::new(OperationState {
        operation: operation.clone(),
        phase: "Running".to_owned(),
        started_at: start_time(&work.app, now),
        ..OperationState::default()
    }));
    if operation.sync.is_none() {
        let message = "Invalid operation request: no operation specified";
        return match save(context, work, new, first).await {
            Ok(()) => end(context, work, OperationPhase::Error, message, Ending::default()).await,
            Err(next) => next,
        };
    }
    // What the state of the operation before this one recorded says nothing about this one.
    if let Some(compared) = compared.filter(|compared| fits(work, operation, compared, None)) {
        new.status.operation_state = Some(Box::new(begin(&work.app, operation, &compared.targets, now)));
        return match save(context, work, new, first).await {
            Ok(()) => Box::pin(step(context, work, operation, Some(compared), Ending::default())).await,
            Err(next) => next,
        };
    }
    match save(context, work, new, first).await {
        Ok(()) => Next::Again,
        Err(next) => next,
    }
}

/// Whether a comparison was made for exactly the sources and revisions of an operation.
fn fits(work: &Work, operation: &Operation, compared: &Compared, recorded: Option<&SyncResult>) -> bool {
    let Some(sync) = &operation.sync else { return false };
    if !sync.manifests.is_empty() || compared.comparison.failed.is_some() {
        return false;
    }
    let (sources, multi) = sources_of(&work.app, operation);
    let wanted = wanted_revisions(sync, multi, recorded);
    compared.targets.sources == sources && (wanted.is_empty() || wanted == compared.targets.revisions)
}

/// Revisions the operation is bound to: recorded ones, else its own; empty asks for the newest.
fn wanted_revisions(sync: &SyncOperation, multi: bool, recorded: Option<&SyncResult>) -> Vec<String> {
    if let Some(result) = recorded {
        let revisions = if multi { result.revisions.clone() } else { vec![result.revision.clone()] };
        if revisions.iter().any(|revision| !revision.is_empty()) {
            return revisions;
        }
    }
    if multi {
        sync.revisions.clone()
    } else if sync.revision.is_empty() {
        Vec::new()
    } else {
        vec![sync.revision.clone()]
    }
}

/// One pass of the engine.
async fn step(
    context: &Context,
    work: &mut Work,
    operation: &Operation,
    compared: Option<Compared>,
    ending: Ending,
) -> Next {
    let resolved = match pass::resolve(context, work).await {
        Ok(resolved) => resolved,
        Err(Unresolved::Invalid(conditions)) => {
            let texts: Vec<String> =
                conditions.iter().map(|c| format!("{}: {}", c.r#type, c.message)).collect();
            return end(context, work, OperationPhase::Error, &texts.join(";"), ending).await;
        }
        // Not to know the cluster yet is no result of the operation.
        Err(Unresolved::NotReady) => return Next::Wait(SignedDuration::from_millis(500)),
        Err(Unresolved::Unreachable(error)) => return unreached(context, work, &error, ending).await,
    };
    work.memory.lock().unreached_since = None;
    let Some(sync) = operation.sync.clone() else { return Next::Stop };
    let state = work.app.status.operation_state.clone().unwrap_or_default();
    let now = context.clock.now();
    let started = state.started_at.parse::<Timestamp>().unwrap_or(now);
    if !ending.terminate {
        let manual = !operation.initiated_by.automated;
        let verdict = windows(work, &resolved, manual, Some(started), now);
        if !verdict.allowed {
            let mut message = "Sync operation blocked by sync window".to_owned();
            if let Some(error) = verdict.message {
                message = format!("{message}: {error}");
            }
            return note_message(context, work, message).await;
        }
    }
    let compared =
        match compared.filter(|compared| fits(work, operation, compared, state.sync_result.as_ref())) {
            Some(compared) => compared,
            None => match compare_for(context, work, &resolved, operation, &sync).await {
                Ok(compared) => compared,
                // The gate brings the application back; the look after half a minute is for safety.
                Err(CompareError::Busy) => return Next::Wait(LOOK_AGAIN),
                Err(CompareError::Failed(error)) => {
                    let message = format!("ComparisonError: {error}");
                    return end(context, work, OperationPhase::Error, &message, ending).await;
                }
            },
        };
    let errors: Vec<String> = compared
        .conditions
        .iter()
        .filter(|c| c.r#type == "ComparisonError" || c.r#type == "InvalidSpecError")
        .map(|c| format!("{}: {}", c.r#type, c.message))
        .collect();
    if !errors.is_empty() && !ending.terminate {
        return end(context, work, OperationPhase::Error, &errors.join(";"), ending).await;
    }
    let mut result = if let Some(result) = &state.sync_result {
        result.clone()
    } else {
        // Revisions and sources are on record before anything is written (INV-2).
        let result = result_of(&work.app, operation, &compared.targets);
        let mut new = work.app.clone();
        if let Some(state) = new.status.operation_state.as_mut() {
            state.sync_result = Some(result.clone());
        }
        if let Err(next) = save(context, work, new, Also::default()).await {
            return next;
        }
        result
    };
    restore_ledger(work, &state, &mut result);
    let objects = compared.comparison.resources.len();
    let gather = || facts(work, &sync, &compared, &state, &result, started, ending.terminate);
    let facts = match work.programs.compute(objects, gather).await {
        Ok(facts) => facts,
        Err(stopped) => return end(context, work, OperationPhase::Error, &stopped, ending).await,
    };
    let (mut ended, written) = match drive(context, work, &resolved, facts).await {
        Ok(driven) => driven,
        Err(next) => return next,
    };
    explain(&resolved, &mut ended);
    settle(&resolved, written).await;
    record(context, work, &resolved, operation, result, ended, ending, &compared).await
}

/// The destination does not answer. An operation waits a while for it and ends then; one that nobody waits for
/// any more ends now (CTL-46, CTL-51).
async fn unreached(context: &Context, work: &mut Work, error: &str, ending: Ending) -> Next {
    let text = format!("{}{error}", rules::UNREACHED);
    if ending.terminate {
        let terminated = sync::message::TERMINATED;
        let message = format!("{terminated}; hooks that run in the cluster were not stopped: {text}");
        return end(context, work, OperationPhase::Failed, &message, ending).await;
    }
    let now = context.clock.elapsed();
    let since = *work.memory.lock().unreached_since.get_or_insert(now);
    let left = UNREACHED_MAX.saturating_sub(now.saturating_sub(since));
    if left.is_zero() || work.app.metadata.deletion_timestamp.is_some() {
        return end(context, work, OperationPhase::Error, &text, ending).await;
    }
    match note_message(context, work, format!("waiting for the destination cluster: {error}")).await {
        Next::Wait(wait) => Next::Wait(wait.min(SignedDuration::try_from(left).unwrap_or(LOOK_AGAIN))),
        next => next,
    }
}

async fn compare_for(
    context: &Context,
    work: &Work,
    resolved: &Resolved,
    operation: &Operation,
    sync: &SyncOperation,
) -> Result<Compared, CompareError> {
    let (sources, multi) = sources_of(&work.app, operation);
    let recorded = work.app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let revisions = wanted_revisions(sync, multi, recorded);
    let refresh = Refresh { level: Level::ForceLatest, kind: RefreshKind::Normal, reason: Reason::Internal };
    let of_spec = sources == work.app.sources();
    let replaced = Override { sources: &sources, revisions: &revisions };
    let compared = if !sync.manifests.is_empty() {
        pass::compare_local(context, work, resolved, &sync.manifests, &revisions).await.map(Some)
    } else if of_spec {
        pass::compare_now(context, work, resolved, refresh, &revisions, None).await
    } else {
        pass::compare_now(context, work, resolved, refresh, &[], Some(replaced)).await
    }?;
    compared.ok_or_else(|| {
        CompareError::Failed("Failed to load target state: the repository does not answer".to_owned())
    })
}

fn facts(
    work: &Work,
    sync: &SyncOperation,
    compared: &Compared,
    state: &OperationState,
    result: &SyncResult,
    started: Timestamp,
    terminate: bool,
) -> Result<SyncFacts, String> {
    let time = |key: &str| work.app.annotation(key).and_then(|text| text.parse::<Timestamp>().ok());
    let respect = sync.sync_options.iter().any(|option| option == "RespectIgnoreDifferences=true");
    let ignore = respect
        .then(|| work.world.ignore_rules(&work.app.spec.ignore_differences, &work.programs.runner))
        .transpose()?;
    let pair = |r: &tiphys_engine::compare::ComparedResource| -> Result<SyncPair, String> {
        let target = match (&ignore, &r.target, &r.live) {
            (Some(ignore), Some(target), Some(live)) => Some(restored(ignore, target, live)?),
            _ => r.target.clone(),
        };
        Ok(SyncPair {
            target,
            live: r.live.clone(),
            modified: r.modified,
            self_referenced: r.self_referenced,
        })
    };
    let shared = compared.conditions.iter().find(|c| c.r#type == "SharedResourceWarning");
    let revision = if result.revision.is_empty() { result.revisions.first() } else { Some(&result.revision) };
    let resources = compared.comparison.resources.iter().map(pair).collect::<Result<_, _>>()?;
    if let Some(note) = ignore.as_ref().and_then(|ignore| ignore.stopped().pop_first()) {
        // Without the rule, fields would be written that it protects.
        return Err(note);
    }
    Ok(SyncFacts {
        operation: sync.clone(),
        revision: revision.cloned().unwrap_or_default(),
        started_at: started,
        attempt: state.retry_count,
        destination_namespace: work.app.spec.destination.namespace.as_str().into(),
        managed_namespace_metadata: work
            .app
            .spec
            .sync_policy
            .as_ref()
            .and_then(|policy| policy.managed_namespace_metadata.clone()),
        deletion_approved: time(annotation::DELETION_APPROVED),
        migration_manager: work
            .app
            .annotation("argocd.argoproj.io/client-side-apply-migration-manager")
            .map(Into::into),
        shared_resource_warning: shared.map(|c| c.message.clone()),
        resources,
        hooks: compared.comparison.hooks.clone(),
        results: result.resources.clone(),
        terminate,
    })
}

/// The target with what the rules ignore taken from the live object; without it, fields would be written that the
/// rules protect.
fn restored(ignore: &IgnoreRules, target: &Object, live: &Object) -> Result<Arc<Object>, String> {
    let unread = |error: &dyn std::fmt::Display| {
        format!("the ignored fields of {} cannot be kept: {error}", target.key())
    };
    let mut value = target.to_value().map_err(|error| unread(&error))?;
    ignore.restore_ignored(&mut value, &live.to_value().map_err(|error| unread(&error))?);
    Object::from_value(&value).map(Arc::new).map_err(|error| unread(&error))
}

/// Facts about the cluster and the project, as the engine asks for them.
struct ClusterFacts {
    resolved: Resolved,
    world: Arc<World>,
    kinds: Option<Arc<tiphys_cluster::Kinds>>,
    runner: Runner,
}

impl sync::Cluster for ClusterFacts {
    fn served(&self, gvk: &Gvk) -> Served {
        let Some(kinds) = &self.kinds else {
            return Served::Error("the cluster was not discovered".to_owned());
        };
        match kinds.served(gvk) {
            tiphys_cluster::Served::Yes(resource) => Served::Yes { namespaced: resource.is_namespaced() },
            tiphys_cluster::Served::No => Served::No,
            tiphys_cluster::Served::Unknown => {
                Served::Error(format!("the API group {:?} does not answer", gvk.group.as_str()))
            }
        }
    }

    fn permitted(&self, object: &Object, namespaced: bool) -> Result<(), String> {
        pass::governed(&self.resolved, &self.world).permit(&object.key(), namespaced).map(drop)
    }

    fn health(&self, object: &Object) -> Result<Option<Health>, HealthError> {
        health::evaluate_with(&object.to_value()?, &self.world.health, &self.runner)
    }
}

/// Versions of what was written, by key: an object's, or `None` for a deletion.
pub(crate) type WrittenObjects = BTreeMap<ResourceKey, Option<String>>;

/// Puts the results back that the status had no room for.
fn restore_ledger(work: &Work, state: &OperationState, result: &mut SyncResult) {
    let memory = work.memory.lock();
    if let Some(ledger) = &memory.ledger
        && ledger.started_at == state.started_at
        && ledger.retry_count == state.retry_count
        && ledger.results.len() > result.resources.len()
    {
        result.resources.clone_from(&ledger.results);
    }
}

fn keep_ledger(work: &Work, state: &OperationState, results: &[ResourceResult]) {
    work.memory.lock().ledger = Some(LedgerCopy {
        started_at: state.started_at.clone(),
        retry_count: state.retry_count,
        results: results.to_vec(),
    });
}

/// Drives one pass: does what the engine asks until it ends the pass.
///
/// Before a finished hook is deleted its result is written: a crash between the two would read as "the hook
/// vanished", and everything would run again (INV-9).
async fn drive(
    context: &Context,
    work: &mut Work,
    resolved: &Resolved,
    facts: SyncFacts,
) -> Result<(sync::PassEnd, WrittenObjects), Next> {
    let shared =
        Resolved { project: Arc::clone(&resolved.project), destination: Arc::clone(&resolved.destination) };
    let cluster = ClusterFacts {
        resolved: shared,
        world: Arc::clone(&work.world),
        kinds: resolved.destination.index.discovery().snapshot(),
        runner: work.programs.runner.clone(),
    };
    let programs = work.programs.clone();
    let limit = work.world.settings.controller().kubectl_parallelism_limit.unwrap_or(64).max(1);
    let writer = &resolved.destination.writer;
    let (world, tracking) = (Arc::clone(&work.world), Arc::clone(&work.tracking));
    let objects = facts.resources.len();
    let mut pass = programs.compute(objects, || Pass::start(facts, cluster)).await;
    let mut written = WrittenObjects::new();
    let mut outcomes = Vec::new();
    loop {
        let done = std::mem::take(&mut outcomes);
        match programs.compute(objects, || pass.next(done)).await {
            Step::Finish(ended) => return Ok((ended, written)),
            Step::Do(actions) => {
                if actions.iter().any(|action| action.op == sync::Op::Delete) {
                    save_results(context, work, pass.results()).await?;
                }
                let (world, tracking) = (world.as_ref(), tracking.as_ref());
                let run = |action: sync::Action| async move {
                    let done = execute::run(writer, resolved, world, tracking, &action).await;
                    (action.key, done)
                };
                let results: Vec<_> =
                    futures::stream::iter(actions.into_iter().map(run)).buffered(limit).collect().await;
                for (key, done) in results {
                    outcomes.push(done.outcome);
                    let version = match done.wrote {
                        Wrote::Nothing => continue,
                        Wrote::Version(version) => Some(version),
                        Wrote::Deletion => None,
                    };
                    context.metrics.worked("resource-write");
                    written.insert(key, version);
                }
            }
        }
    }
}

/// Says of a kind that is not served what to do about it (ENG-180).
fn explain(resolved: &Resolved, ended: &mut sync::PassEnd) {
    let kinds = resolved.destination.index.discovery().snapshot();
    for result in ended.results.iter_mut().filter(|result| result.message == sync::message::NOT_SERVED) {
        let gvk = Gvk::new(&result.group, &result.version, &result.kind);
        let kind = gvk.group_kind();
        let other = kinds.as_ref().and_then(|kinds| {
            let moved = || kinds.preferred(&sync::message::moved_to(&kind)?);
            kinds.preferred(&kind).or_else(moved)
        });
        let text = sync::message::explain(&result.message, &gvk, other.map(|resource| &resource.gvk));
        ended.message = ended.message.replacen(&result.message, &text, 1);
        result.message = text;
    }
}

/// Waits, at most two seconds, until the index shows what was written: the next comparison must not see the
/// time before.
pub(crate) async fn settle(resolved: &Resolved, mut written: WrittenObjects) {
    let index = &resolved.destination.index;
    let deadline = tokio::time::Instant::now() + SETTLE_MAX;
    loop {
        written.retain(|key, version| {
            let shown = match index.get(key) {
                // A deleted object that waits for its finalizers was seen to be deleted.
                IndexSeen::Present(object) if version.is_none() && object.is_terminating() => return false,
                IndexSeen::Present(object) => Some(object.metadata().resource_version.to_string()),
                IndexSeen::Reference { resource_version, .. } => Some(resource_version.to_string()),
                IndexSeen::Absent => None,
                IndexSeen::Unknown(_) => return false,
            };
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            match (shown, version) {
                (Some(shown), Some(version)) => number(&shown) < number(version),
                (None, Some(_)) => true,
                // A deletion shows as a deletion timestamp, or as nothing at all.
                (Some(_), None) => true,
                (None, None) => false,
            }
        });
        let is_over = tokio::time::Instant::now() >= deadline || index.unreachable().is_some();
        if written.is_empty() || is_over {
            return;
        }
        tokio::time::sleep(SETTLE_POLL).await;
    }
}

/// Writes the results of a pass that is still under way.
async fn save_results(context: &Context, work: &mut Work, results: &[ResourceResult]) -> Result<(), Next> {
    let mut new = work.app.clone();
    let Some(state) = new.status.operation_state.as_mut() else { return Ok(()) };
    keep_ledger(work, state, results);
    if let Some(result) = state.sync_result.as_mut() {
        result.resources = results.to_vec();
    }
    save(context, work, new, Also::default()).await
}

/// Records the end of a pass, and of the operation when it has ended.
#[expect(clippy::too_many_arguments, reason = "the end of a pass is made from all of them, in one place")]
async fn record(
    context: &Context,
    work: &mut Work,
    resolved: &Resolved,
    operation: &Operation,
    mut result: SyncResult,
    ended: sync::PassEnd,
    ending: Ending,
    compared: &Compared,
) -> Next {
    let now = context.clock.now();
    let progressed = result.resources != ended.results;
    result.resources = ended.results;
    let mut new = work.app.clone();
    let mut state = new.status.operation_state.clone().unwrap_or_default();
    keep_ledger(work, &state, &result.resources);
    state.sync_result = Some(result);
    let phase = ended.phase.as_str();
    let is_last = ending.terminate || work.app.metadata.deletion_timestamp.is_some();
    let over = rules::end_pass(&mut state, phase, &ended.message, is_last, ending.timed_out, now);
    if over {
        return Box::pin(finish(context, work, state, Some((resolved, operation, compared)))).await;
    }
    let retrying = state.finished_at.is_some();
    new.status.operation_state = Some(state);
    if let Err(next) = save(context, work, new, Also::default()).await {
        return next;
    }
    if retrying {
        return Next::Again;
    }
    if ended.wave_delay {
        let delay = work.world.settings.controller().sync_wave_delay;
        let delay = SignedDuration::try_from(delay).unwrap_or(LOOK_AGAIN);
        // Changes of live objects wake the application earlier; the next wave waits all the same.
        work.memory.lock().not_before = context.clock.now().checked_add(delay).ok();
        return Next::Wait(delay);
    }
    if progressed { Next::Again } else { Next::Wait(LOOK_AGAIN) }
}

/// Ends an operation with a phase and a message; retries apply.
async fn end(
    context: &Context,
    work: &mut Work,
    phase: OperationPhase,
    message: &str,
    ending: Ending,
) -> Next {
    let now = context.clock.now();
    let mut state = work.app.status.operation_state.clone().unwrap_or_else(|| {
        Box::new(OperationState {
            operation: work.app.operation.as_deref().cloned().unwrap_or_default(),
            started_at: shown(now),
            ..OperationState::default()
        })
    });
    // An application that is being deleted waits for this end, and not for a retry.
    let is_deleted = work.app.metadata.deletion_timestamp.is_some();
    let is_last = ending.terminate || state.phase == "Terminating" || is_deleted;
    if !rules::end_pass(&mut state, phase.as_str(), message, is_last, ending.timed_out, now) {
        let mut new = work.app.clone();
        new.status.operation_state = Some(state);
        return match save(context, work, new, Also::default()).await {
            Ok(()) => Next::Again,
            Err(next) => next,
        };
    }
    finish(context, work, state, None).await
}

/// Writes the end of an operation: state, history, and the comparison after it, in one patch.
async fn finish(
    context: &Context,
    work: &mut Work,
    state: Box<OperationState>,
    done: Option<(&Resolved, &Operation, &Compared)>,
) -> Next {
    let now = context.clock.now();
    let mut new = work.app.clone();
    {
        let mut memory = work.memory.lock();
        memory.ledger = None;
        memory.not_before = None;
        memory.unreached_since = None;
    }
    let succeeded = state.phase == "Succeeded";
    new.status.history = rules::extend_history(&work.app, &state, now);
    new.status.operation_state = Some(state.clone());
    new.operation = None;
    rules::remember_synced(&mut new);
    let dry_run = state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run);
    if let Some((resolved, operation, compared)) = done {
        let whole = operation.sync.as_ref().is_some_and(|sync| sync.resources.is_empty());
        if succeeded && !dry_run && whole {
            work.memory.lock().synced_ids = Some(compared.targets.ids().collect());
        }
        let local = operation.sync.as_ref().is_some_and(|sync| !sync.manifests.is_empty());
        let of_spec = !local && compared.targets.sources == work.app.sources();
        if !dry_run && of_spec && operation.sync.is_some() && pinned_is_current(work, compared) {
            let subject = work.subject(resolved);
            let after = crate::compare::run(&subject, compared.targets.clone(), &work.memory).await;
            if after.comparison.failed.is_none() {
                // Not a look at the branch: syncs that follow each other must not put that off (INV-13).
                pass::fill(&mut new, work, &after, Level::Recent, now);
            }
        }
    }
    let partial = state.operation.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty());
    let also = Also { operation: true, ..Also::default() };
    if let Err(next) = save(context, work, new, also).await {
        return next;
    }
    announce(context, work, &state, partial, dry_run);
    // What was compared above is what the operation knew; whether the branch moved meanwhile is another
    // question, asked soon.
    let level = if done.is_some() && succeeded { Level::Recent } else { Level::Latest };
    if !dry_run {
        context.request(&work.key, level, Priority::Urgent);
    }
    Next::Stop
}

/// Whether the revisions of the operation are those of the last comparison: then the comparison after the sync
/// may stand in the status.
fn pinned_is_current(work: &Work, compared: &Compared) -> bool {
    let sync = &work.app.status.sync;
    if work.app.is_multi_source() {
        sync.revisions == compared.targets.revisions
    } else {
        Some(&sync.revision) == compared.targets.revisions.first()
    }
}

fn announce(context: &Context, work: &Work, state: &OperationState, partial: bool, dry_run: bool) {
    let revision = state.sync_result.as_ref().map(|result| result.revision.clone());
    let what = if partial { "Partial sync operation" } else { "Sync operation" };
    let to = revision.map_or_else(String::new, |revision| format!(" to {revision}"));
    let note = if state.phase == "Succeeded" {
        Note::normal("OperationCompleted", format!("{what}{to} succeeded"))
    } else {
        Note::warning("OperationCompleted", format!("{what}{to} failed: {}", state.message))
    };
    context.note(&work.object, &work.app, &note);
    context.metrics.synced(&SyncLabels {
        namespace: work.key.namespace.to_string(),
        name: work.key.name.to_string(),
        project: work.app.project().to_owned(),
        dest_server: work.app.spec.destination.server.clone(),
        phase: state.phase.clone(),
        dry_run: dry_run.to_string(),
    });
}

async fn note_message(context: &Context, work: &mut Work, message: String) -> Next {
    let mut new = work.app.clone();
    if let Some(state) = new.status.operation_state.as_mut() {
        state.message = message;
    }
    match save(context, work, new, Also::default()).await {
        Ok(()) => Next::Wait(LOOK_AGAIN),
        Err(next) => next,
    }
}

/// Writes a new state and goes on with what was stored.
fn save<'a>(
    context: &'a Context,
    work: &'a mut Work,
    mut new: Application,
    also: Also,
) -> BoxFuture<'a, Result<(), Next>> {
    // Boxed here, once: it holds two applications, and nearly every step waits for it.
    Box::pin(async move {
        // Somebody may ask for the end of the operation while a pass runs: the request must survive our
        // write.
        if let Some(latest) = context.store.get(&work.key).and_then(|entry| entry.parse().ok())
            && is_terminating(&latest)
            && let Some(state) = new.status.operation_state.as_mut().filter(|state| state.phase == "Running")
        {
            "Terminating".clone_into(&mut state.phase);
            "operation is terminating".clone_into(&mut state.message);
        }
        let old = work.app.clone();
        let written = persist::write(context, &work.object, &old, &mut new, also).await;
        let stored = match stored(context, &work.key, written).await {
            Ok(stored) => stored,
            Err(next) => {
                // It may have been written all the same: what is stored is asked for before anything follows (INV-9).
                work.memory.lock().confirmed = None;
                return Err(next);
            }
        };
        work.adopt_written(stored);
        Ok(())
    })
}

/// The stored application, or what follows when it could not be written or confirmed.
async fn stored(context: &Context, key: &AppKey, written: Written) -> Result<Arc<Object>, Next> {
    match written {
        Written::Stored(stored) => Ok(stored),
        Written::Gone => Err(Next::Stop),
        // Nothing here is patient.
        Written::Waits | Written::Conflict => {
            persist::read_again(context, key).await;
            Err(Next::Wait(SignedDuration::from_millis(100)))
        }
        Written::Failed(error) => {
            tracing::warn!(application = %key, error, "the operation's state could not be written");
            Err(Next::Wait(SignedDuration::from_secs(2)))
        }
    }
}

fn is_terminating(app: &Application) -> bool {
    app.status.operation_state.as_ref().is_some_and(|state| state.phase == "Terminating")
}
