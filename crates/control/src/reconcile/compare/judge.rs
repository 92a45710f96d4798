//! What a comparison means: health of the objects and of the application, its summary, and the shape of the answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tiphys_api::application::{ApplicationStatus, Condition, HealthStatus, ResourceStatus};
use tiphys_api::codes::ConditionType;
use tiphys_cluster::Derived;
use tiphys_engine::app_health::{AppIdentity, AppResource, app_health};
use tiphys_engine::compare::Comparison;
use tiphys_engine::health::{self, Health, HealthError};
use tiphys_engine::hook::Role;
use tiphys_engine::tree::{self, NodeInfo, SummaryNode};
use tiphys_lifecycle::refresh_status::unknown_health;
use tiphys_object::{GroupKind, Object, ResourceKey};

use super::super::desired;
use super::{Compared, Subject, key_of, managed};
use crate::memory::{Targets, Verdict};

/// The health of an application whose targets are not known: that of its live objects, when all of them could be
/// seen and there are some. What it was before may not be so any more (INV-15).
pub(in crate::reconcile) async fn health_of_live(subject: Subject<'_>) -> HealthStatus {
    let previous = subject.cx.previous();
    let ownership = subject.cx.ownership(&previous);
    let mut found = managed(subject, &ownership, &ownership.ways());
    found.objects.retain(|object| !Role::of(object.as_ref()).is_hook());
    let known: HashSet<GroupKind> =
        subject.cx.app.status.resources.iter().map(|r| GroupKind::new(&r.group, &r.kind)).collect();
    let is_doubtful = |kind: &GroupKind| {
        known.contains(kind) || found.objects.iter().any(|object| object.gvk().group_kind() == *kind)
    };
    let is_incomplete = subject.resolved.destination.is_stopped()
        || found.cluster_error.is_some()
        || !found.is_looked_for
        || found.incomplete.iter().any(|(kind, _)| is_doubtful(kind));
    if is_incomplete || found.objects.is_empty() {
        return unknown_health();
    }
    let judge = || {
        let verdicts = verdicts(subject, found.objects.iter());
        let resources: Vec<AppResource<'_>> =
            found.objects.iter().map(|live| AppResource { target: None, live: Some(live) }).collect();
        let judged = app_health(&resources, identity(subject), |live| known_health(&verdicts, live));
        subject.cx.memory.lock().verdicts = verdicts;
        judged
    };
    let judged = subject.cx.programs.compute(found.objects.len(), judge).await;
    inline_health(&judged.health)
}

/// Adds the hooks that were known and do not show in a comparison that failed: they may be what could not be read, and
/// the status alone remembers them (INV-17). Other objects show as targets or as extra ones.
fn keep_hooks(resources: &mut Vec<ResourceStatus>, status: &ApplicationStatus) {
    let shown: HashSet<ResourceKey> = resources.iter().map(key_of).collect();
    let known = status.resources.iter().filter(|known| known.hook && !shown.contains(&key_of(known)));
    resources.extend(known.cloned());
    resources.sort_by_cached_key(key_of);
}

fn identity(subject: Subject<'_>) -> AppIdentity<'_> {
    AppIdentity { namespace: &subject.cx.app.metadata.namespace, name: &subject.cx.app.metadata.name }
}

/// Verdicts about live objects. What is remembered is taken along; the caller puts the verdicts in its place. Nobody
/// waits for the lock meanwhile, which takes as long as the users' programs do.
fn verdicts<'a>(
    subject: Subject<'_>,
    live: impl Iterator<Item = &'a Arc<Object>>,
) -> HashMap<ResourceKey, Verdict> {
    let rules = &subject.cx.world.health;
    let known = {
        let mut memory = subject.cx.memory.lock();
        let same_rules = memory.verdict_rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, rules));
        memory.verdict_rules = Some(Arc::clone(rules));
        let known = std::mem::take(&mut memory.verdicts);
        if same_rules { known } else { HashMap::new() }
    };
    live.map(|live| verdict(live, subject, &known)).collect()
}

fn known_health(
    verdicts: &HashMap<ResourceKey, Verdict>,
    live: &Object,
) -> Result<Option<Health>, HealthError> {
    verdicts.get(&live.key()).map_or(Ok(None), |verdict| verdict.health.clone())
}

/// Judges what was compared, and shapes the answer.
pub(super) fn shape(subject: Subject<'_>, targets: &Targets, comparison: Comparison) -> Compared {
    let mut conditions = comparison.conditions.clone();
    // What an annotation asks for in vain is said, not passed over.
    let mut inert = tiphys_api::support::annotation_reports(&subject.cx.app.metadata.annotations);
    inert.extend(desired::unhydrated(subject.cx));
    if !inert.is_empty() {
        let text = format!("Without effect: {}", inert.join("; "));
        conditions.push(Condition::new(ConditionType::UnsupportedOptionWarning, text));
    }
    let live = comparison.resources.iter().filter_map(|resource| resource.live.as_ref());
    let verdicts = verdicts(subject, live);
    let resources: Vec<AppResource<'_>> = comparison
        .resources
        .iter()
        .map(|r| AppResource { target: r.target.as_deref(), live: r.live.as_deref() })
        .collect();
    let judged = app_health(&resources, identity(subject), |live| known_health(&verdicts, live));
    let below = descendants(subject, &comparison);
    let descendants =
        below.iter().map(|(key, info)| SummaryNode { group: &key.group, kind: &key.kind, info });
    let roots = comparison.resources.iter().filter_map(|resource| {
        let info = verdicts.get(&resource.live.as_ref()?.key())?.info.as_deref()?;
        Some(SummaryNode { group: &resource.gvk.group, kind: &resource.gvk.kind, info })
    });
    let nodes = roots.chain(descendants);
    let summary = tree::summary(nodes, &subject.cx.app.metadata.annotations);
    subject.cx.memory.lock().verdicts = verdicts;
    conditions.extend(judged.error.map(|text| Condition::new(ConditionType::ComparisonError, text)));
    let persist = subject.cx.world.settings.controller().persist_resource_health;
    let mut resources: Vec<ResourceStatus> = comparison
        .resources
        .iter()
        .zip(&judged.resources)
        .map(|(r, health)| ResourceStatus {
            group: r.gvk.group.to_string(),
            version: r.gvk.version.to_string(),
            kind: r.gvk.kind.to_string(),
            namespace: r.key.namespace.to_string(),
            name: r.key.name.to_string(),
            status: r.status.map_or_else(String::new, |status| status.as_str().to_owned()),
            health: persist.then(|| health.as_ref().map(inline_health)).flatten(),
            hook: r.hook,
            requires_pruning: r.requires_pruning,
            sync_wave: r.sync_wave,
            requires_deletion_confirmation: r.requires_deletion_confirmation,
            ..ResourceStatus::default()
        })
        .collect();
    if comparison.failed.is_some() {
        keep_hooks(&mut resources, &subject.cx.app.status);
    }
    let health = inline_health(&judged.health);
    Compared { comparison, targets: targets.clone(), resources, health, summary, conditions, unlisted: None }
}

/// What the objects below those of an application say about themselves (ENG-202).
fn descendants(subject: Subject<'_>, comparison: &Comparison) -> Vec<(ResourceKey, NodeInfo)> {
    let live = comparison.resources.iter().filter_map(|resource| resource.live.as_ref());
    let roots: Vec<ResourceKey> = live.map(|live| live.key()).collect();
    let index = &subject.resolved.destination.index;
    let below = index.derived_below(&roots, &|key| subject.is_visible(key));
    let told = |(key, derived): (_, Arc<Derived>)| Some((key, NodeInfo::unpacked(derived.node.as_deref()?)));
    below.into_iter().filter_map(told).collect()
}

fn inline_health(health: &Health) -> HealthStatus {
    HealthStatus {
        status: health.status.as_str().to_owned(),
        message: health.message.clone(),
        ..HealthStatus::default()
    }
}

/// Health and node details of a live object: remembered by version, so that an unchanged object is not parsed.
fn verdict(
    live: &Object,
    subject: Subject<'_>,
    known: &HashMap<ResourceKey, Verdict>,
) -> (ResourceKey, Verdict) {
    let key = live.key();
    let version = &live.metadata().resource_version;
    if let Some(verdict) = known.get(&key).filter(|verdict| verdict.version == *version) {
        return (key, verdict.clone());
    }
    let (overrides, runner) = (&subject.cx.world.health, &subject.cx.programs.runner);
    let (health, info) = match live.to_value() {
        Ok(value) => (health::evaluate_with(&value, overrides, runner), tree::node_info(&value, &[])),
        Err(error) => (Err(error.into()), NodeInfo::default()),
    };
    let info = (info != NodeInfo::default()).then(|| Arc::new(info));
    let verdict = Verdict { version: version.clone(), health, info };
    (key, verdict)
}
