//! Applications that are not generated any more (ASET-142, ASET-259).

use serde_json::Value;
use tiphys_api::cluster::ProjectClusters;
use tiphys_api::codes::SetReason;
use tiphys_api::names::finalizer;

use super::{PassFacts, Removal};
use crate::deletion::{DeletionFacts, Doomed, Next, Order, Progress, next};
use crate::facts::NoAnswer;
use crate::generate::{Failure, Stop};
use crate::live::LiveApplication;
use crate::validate::resolves;

/// Whether stale Applications go one step after the other.
pub(super) fn is_ordered(facts: &PassFacts<'_>) -> bool {
    facts.request.settings.deletion_order_on_prune
        && matches!(
            Order::of(facts.request.set.spec.strategy.as_ref()),
            Ok(Order::Reverse(_) | Order::Custom(_))
        )
}

/// The Applications that go in this pass.
pub(super) fn removals(facts: &PassFacts<'_>, stale: &[&LiveApplication]) -> Result<Vec<Removal>, Stop> {
    let turn = if is_ordered(facts) { whose_turn(facts, stale) } else { stale.to_vec() };
    // What is on its way out is not asked to go again, and never changed (ASET-144).
    let going: Vec<&LiveApplication> = turn.into_iter().filter(|live| !live.is_terminating()).collect();
    let is_cascading =
        |live: &&LiveApplication| live.finalizers.iter().any(|name| name == finalizer::CASCADE);
    let clusters = if going.iter().any(&is_cascading) {
        match facts.facts.clusters() {
            Ok(clusters) => Some(clusters),
            Err(NoAnswer::Pending) => return Err(Stop::Pending),
            // Nothing goes as long as it is not known whether its cluster exists.
            Err(NoAnswer::Failed(reason)) => {
                return Err(Stop::Failed(Failure::new(SetReason::DeleteApplicationError, reason)));
            }
        }
    } else {
        None
    };
    let removal = |live: &LiveApplication| {
        let destination: Option<&Value> = live.spec.get("destination");
        let is_lost = match &clusters {
            Some(clusters) if is_cascading(&live) => {
                is_lost(clusters.of_project(live.project()), destination)?
            }
            _ => false,
        };
        let left = live.finalizers.iter().filter(|name| *name != finalizer::CASCADE).cloned().collect();
        Ok(Removal { name: live.name.clone(), uid: live.uid.clone(), finalizers: is_lost.then_some(left) })
    };
    going.into_iter().map(removal).collect()
}

/// Whether objects at a destination cannot be deleted any more; waiting for them would be waiting for ever (ASET-142).
fn is_lost(clusters: ProjectClusters<'_, '_>, destination: Option<&Value>) -> Result<bool, Stop> {
    let Err(error) = resolves(clusters, destination) else { return Ok(false) };
    match clusters.doubt(&error) {
        None => Ok(true),
        Some(unread) => {
            Err(Stop::Failed(Failure::new(SetReason::DeleteApplicationError, unread.to_string())))
        }
    }
}

/// Those of the step whose turn it is, by the rules of a deletion.
fn whose_turn<'l>(facts: &PassFacts<'_>, stale: &[&'l LiveApplication]) -> Vec<&'l LiveApplication> {
    let doomed: Vec<Doomed> = stale
        .iter()
        .map(|live| Doomed {
            name: live.name.clone(),
            labels: live.labels.clone(),
            terminating_since: live.deletion_timestamp,
            finalizers: live.finalizers.clone(),
        })
        .collect();
    let set = facts.request.set;
    let deletion = DeletionFacts {
        strategy: set.spec.strategy.as_ref(),
        policy: tiphys_api::applicationset::Policy::Sync,
        finalizers: &[],
        annotations: &set.metadata.annotations,
        conditions: &[],
        live: &doomed,
        settings: facts.request.settings,
        now: facts.now,
    };
    let mut progress = Progress::default();
    while let Next::Delete(name) = next(&deletion, &progress) {
        progress.deleted.insert(name);
    }
    stale.iter().copied().filter(|live| progress.deleted.contains(&live.name)).collect()
}
