//! One pass of the engine: the facts it decides by, and its actions carried out.

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::application::{OperationState, SyncOperation, SyncResult};
use tiphys_api::names::annotation;
use tiphys_engine::health::{self, Health, HealthError};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::scripts::Runner;
use tiphys_engine::sync::{self, Pass, Served, Step, SyncFacts, SyncPair};
use tiphys_engine::tracking::Ownership;
use tiphys_object::{Gvk, Object};

use super::state::{Next, save_results};
use crate::metrics::ActionTally;
use crate::reconcile::actions::{self, Wrote};
use crate::reconcile::compare::Compared;
use crate::reconcile::load::{AppContext, Others};
use crate::reconcile::resolve::Resolved;
use crate::reconcile::settle::WrittenObjects;
use crate::world::World;

/// What a pass is about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) sync: &'a SyncOperation,
    /// The state that is stored …
    pub(super) state: &'a OperationState,
    /// … with all results.
    pub(super) result: &'a SyncResult,
    pub(super) started: Timestamp,
    /// The pass ends what runs.
    pub(super) terminate: bool,
}

/// Everything the engine needs to know for a pass.
pub(super) fn facts(cx: &AppContext<'_>, compared: &Compared, about: About<'_>) -> Result<SyncFacts, String> {
    let About { sync, state, result, started, terminate } = about;
    let time = |key: &str| cx.app.annotation(key).and_then(|text| text.parse::<Timestamp>().ok());
    let respect = sync.sync_options.iter().any(|option| option == "RespectIgnoreDifferences=true");
    let ignore = respect
        .then(|| cx.world.ignore_rules(&cx.app.spec.ignore_differences, &cx.programs.runner))
        .transpose()?;
    let pair = |r: &tiphys_engine::compare::ComparedResource| -> Result<SyncPair, String> {
        let target = match (&ignore, &r.target, &r.live) {
            (Some(ignore), Some(target), Some(live)) => Some(restored(ignore, target, live)?),
            _ => r.target.clone(),
        };
        Ok(SyncPair {
            target,
            live: r.live.clone(),
            // What bears the marks of former settings gets the new ones, whatever else is in sync (TRK-105).
            modified: r.modified || r.is_marked_otherwise,
            self_referenced: r.self_referenced,
        })
    };
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
        destination_namespace: cx.app.spec.destination.namespace.as_str().into(),
        managed_namespace_metadata: cx
            .app
            .spec
            .sync_policy
            .as_ref()
            .and_then(|policy| policy.managed_namespace_metadata.clone()),
        deletion_approved: time(annotation::DELETION_APPROVED),
        migration_manager: cx
            .app
            .annotation("argocd.argoproj.io/client-side-apply-migration-manager")
            .map(Into::into),
        shared: compared.comparison.shared.clone(),
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
        self.resolved.governed(&self.world)?.permit(&object.key(), namespaced).map(drop)
    }

    fn health(&self, object: &Object) -> Result<Option<Health>, HealthError> {
        health::evaluate_with(&object.to_value()?, &self.world.health, &self.runner)
    }
}

/// Drives one pass: does what the engine asks until it ends the pass.
///
/// Before a finished hook is deleted its result is written: a crash between the two would read as "the hook
/// vanished", and everything would run again (INV-9).
pub(super) async fn drive(
    cx: &mut AppContext<'_>,
    resolved: &Resolved,
    facts: SyncFacts,
) -> Result<(sync::PassEnd, WrittenObjects), Next> {
    let cluster = ClusterFacts {
        resolved: resolved.clone(),
        world: Arc::clone(&cx.world),
        kinds: resolved.destination.index.discovery().snapshot(),
        runner: cx.programs.runner.clone(),
    };
    let programs = cx.programs.clone();
    let limit = cx.world.settings.controller().kubectl_parallelism_limit.unwrap_or(64).max(1);
    let writer = &resolved.destination.writer;
    let (world, tracking, instance) = (Arc::clone(&cx.world), Arc::clone(&cx.tracking), cx.instance.clone());
    let (previous, others) = (cx.previous(), Others::of(cx.controller, &world));
    let ownership =
        Ownership { current: &tracking, previous: &previous, instance: &instance, others: &others };
    let objects = facts.resources.len();
    let tally = ActionTally {
        counters: cx.controller.metrics.applications.clone(),
        key: cx.key.clone(),
        project: cx.app.project().into(),
        destination: SmolStr::new(&cx.app.spec.destination.server),
        server: SmolStr::new(&resolved.destination.cluster.server),
        kind: SmolStr::default(),
        namespace: SmolStr::default(),
        is_dry_run: false,
    };
    let mut pass = programs.compute(objects, || Pass::start(facts, cluster)).await;
    let mut written = WrittenObjects::new();
    let mut outcomes = Vec::new();
    loop {
        let done = std::mem::take(&mut outcomes);
        match programs.compute(objects, || pass.next(done)).await {
            Step::Finish(ended) => return Ok((ended, written)),
            Step::Do(actions) => {
                if actions.iter().any(|action| action.op == sync::Op::Delete) {
                    save_results(cx, pass.results()).await?;
                }
                let (world, ownership, tally) = (world.as_ref(), &ownership, &tally);
                let run = |action: sync::Action| async move {
                    let writer = writer.observed(Arc::new(ActionTally {
                        kind: action.gvk.kind.clone(),
                        namespace: action.key.namespace.clone(),
                        is_dry_run: action.op == sync::Op::DryRun,
                        ..tally.clone()
                    }));
                    let done = actions::run(&writer, resolved, world, ownership, &action).await;
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
                    cx.controller.metrics.worked("resource-write");
                    written.insert(key, version);
                }
            }
        }
    }
}

/// Says of a kind that is not served what to do about it (ENG-180).
pub(super) fn explain(resolved: &Resolved, ended: &mut sync::PassEnd) {
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
