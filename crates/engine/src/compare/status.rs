//! The status of every pair and of the application (ENG-45, 51..53).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tiphys_api::application::Condition;
use tiphys_api::codes::ConditionType;
use tiphys_api::names::annotation;
use tiphys_object::{Object, ResourceKey};

use super::input::CompareInput;
use super::matching::{Pair, match_objects};
use super::memo::{DiffMemo, PairInputs};
use super::outcome::{ComparedResource, Comparison, SharedResource, SyncStatusCode};
use super::targets;
use crate::diff::{DiffError, DiffOptions, DiffSettings, is_modified};
use crate::hook::{Role, Wave};
use crate::tracking::{Ownership, qualified_name};

/// Compares the desired with the live objects of one application; see the module text.
///
/// Costs a few hash look-ups per pair that did not change since the last call with this memo, and two parses
/// and a walk per pair that did.
pub fn compare(input: &CompareInput<'_>, memo: &mut DiffMemo) -> Comparison {
    memo.begin();
    let options = options_hash(input);
    let app_options = AppOptions::of(input);
    let mut conditions = Vec::new();
    let mut targets = targets::prepare(input, options, memo, &mut conditions);
    let hook_waves: BTreeMap<ResourceKey, i64> =
        targets.hooks.iter().map(|hook| (hook.key.clone(), Wave::of(&*hook.object).0)).collect();
    let matched = match_objects(input, &mut targets);
    let shared = shared_resources(input, &matched.pairs);
    let warning =
        |one: &SharedResource| Condition::new(ConditionType::SharedResourceWarning, one.message.clone());
    conditions.extend(shared.iter().map(warning));
    let mut failed = targets.failed.take().or(matched.failed);
    let mut resources = Vec::with_capacity(matched.pairs.len());
    let mut status = SyncStatusCode::Synced;
    for pair in matched.pairs {
        let modified = modified(input, &pair, (options, app_options.diff), memo).unwrap_or_else(|error| {
            let source: &dyn std::error::Error = match &error {
                DiffError::Patch { source, .. } => source,
                DiffError::Apply { source, .. } => source,
                DiffError::Object(source) => source,
            };
            failed.get_or_insert(format!("Failed to compare desired state to live state: {error}: {source}"));
            false
        });
        let Some((resource, counts)) = judge(input, pair, modified, (&hook_waves, &app_options)) else {
            continue;
        };
        if counts == Counts::OutOfSync {
            status = SyncStatusCode::OutOfSync;
        }
        resources.push(resource);
    }
    memo.end();
    if failed.is_none() && input.managed_namespace_changed {
        status = SyncStatusCode::OutOfSync;
    }
    let stopped = input.ignore.stopped();
    let incomplete = !stopped.is_empty();
    conditions.extend(
        stopped
            .into_iter()
            .take(STOPPED_SHOWN)
            .map(|note| Condition::new(ConditionType::ComparisonError, note)),
    );
    if let Some(reason) = &failed {
        conditions.push(Condition::new(ConditionType::ComparisonError, reason.clone()));
        status = SyncStatusCode::Unknown;
        for resource in &mut resources {
            resource.status = Some(SyncStatusCode::Unknown);
        }
    }
    resources.sort_by(|a, b| a.key.cmp(&b.key));
    conditions.sort_by(|a, b| (&a.r#type, &a.message).cmp(&(&b.r#type, &b.message)));
    let hooks = targets.hooks.into_iter().map(|hook| hook.object).collect();
    Comparison { status, resources, hooks, conditions, shared, failed, incomplete }
}

/// Conditions about stopped ignore rules that one application gets.
const STOPPED_SHOWN: usize = 5;

/// The text of the condition for an object that another application claims too (TRK-131).
pub fn shared_warning(application: &str, kind: &str, name: &str, claim: &str) -> String {
    format!("{kind}/{name} is part of applications {application} and {}", claim.replace('_', "/"))
}

/// The message with which a sync fails because an object is shared; `None` when it may go on (TRK-132). With the value
/// `existing` only claims of applications that are there count (TRK-134).
pub fn fail_on_shared(sync_options: &[String], shared: &[SharedResource]) -> Option<String> {
    let has = |value: &str| {
        sync_options.iter().any(|option| option.strip_prefix("FailOnSharedResource=") == Some(value))
    };
    let (any, existing) = (has("true"), has("existing"));
    let counting = shared.iter().filter(|one| any || (existing && one.owner_exists));
    counting.map(|one| &one.message).min().map(|first| format!("Shared resource found: {first}"))
}

/// What one object means for the application.
#[derive(PartialEq, Eq)]
enum Counts {
    InSync,
    OutOfSync,
}

fn options_hash(input: &CompareInput<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    input.ignore.fingerprint().hash(&mut hasher);
    input.diff.for_application(input.sync_options).hash(&mut hasher);
    let Ownership { current, previous, instance, others: _ } = input.ownership;
    (current, previous, instance, input.destination_namespace).hash(&mut hasher);
    hasher.finish()
}

fn modified(
    input: &CompareInput<'_>,
    pair: &Pair,
    (options, settings): (u64, DiffSettings),
    memo: &mut DiffMemo,
) -> Result<bool, DiffError> {
    let (target, live) = match (&pair.target, &pair.live) {
        (None, _) => return Ok(false),
        (Some(_), None) => return Ok(true),
        (Some(target), Some(live)) => (target, live),
    };
    let key = live.key();
    let inputs = PairInputs {
        target: target.content_hash(),
        live: live.content_hash(),
        live_version: live.metadata().resource_version.clone(),
        options,
    };
    if let Some(modified) = memo.pair(&key, &inputs) {
        return Ok(modified);
    }
    let stopped = input.ignore.stopped_count();
    let target = target.to_value()?;
    let mut live_copy = live.to_value()?;
    input.ownership.normalize_live(live, &mut live_copy, &target);
    let diff_options = DiffOptions { ignore: input.ignore, settings };
    match is_modified(target, live_copy, &diff_options) {
        Ok(modified) => {
            // What was found out without a rule that belongs to it is no knowledge.
            if input.ignore.stopped_count() == stopped {
                memo.keep_pair(&key, inputs, modified);
            }
            Ok(modified)
        }
        Err(error) => {
            tracing::debug!(%key, %error, "an object could not be compared");
            Err(error)
        }
    }
}

fn judge(
    input: &CompareInput<'_>,
    pair: Pair,
    modified: bool,
    (hook_waves, app_options): (&BTreeMap<ResourceKey, i64>, &AppOptions),
) -> Option<(ComparedResource, Counts)> {
    let Pair { target, role, live } = pair;
    let object: &Arc<Object> = live.as_ref().or(target.as_ref())?;
    let key = object.key();
    let gvk = object.gvk().clone();
    let is_hook = Role::of(&**object).is_hook();
    let is_extra = target.is_none() && live.is_some();
    // An object may be here for no better reason than that a hook has its name. Without a target and without
    // our mark it is somebody else's, and nothing of ours may delete it (law 3).
    let self_referenced = input.ownership.is_original(target.as_deref(), live.as_deref());
    let (is_marked_otherwise, is_released_next) = match (&target, &live) {
        (Some(target), Some(live)) => (input.ownership.is_marked_otherwise(target, live), false),
        (None, Some(live)) => (false, input.ownership.is_released_next(live)),
        _ => (false, false),
    };
    let is_managed_namespace = input.managed_namespace.is_some()
        && target.is_some()
        && live.is_none()
        && key == ResourceKey::new("", "Namespace", "", input.destination_namespace);
    let mut counts = Counts::InSync;
    let mut status = if is_hook || role == Role::Skipped && target.is_some() || !self_referenced {
        None
    } else if !is_managed_namespace && (modified || target.is_none() || live.is_none()) {
        if !(is_extra && object.has_annotation_item(annotation::COMPARE_OPTIONS, "IgnoreExtraneous")) {
            counts = Counts::OutOfSync;
        }
        Some(SyncStatusCode::OutOfSync)
    } else {
        Some(SyncStatusCode::Synced)
    };
    if !(input.permitted_kind)(&key) {
        status = Some(SyncStatusCode::Unknown);
    }
    let sync_wave = match &target {
        Some(target) => Wave::of(&**target).0,
        None if is_hook => hook_waves.get(&key).copied().unwrap_or(0),
        None => 0,
    };
    let requires_deletion_confirmation = [&target, &live].into_iter().flatten().any(|object| {
        CONFIRMED
            .iter()
            .zip(app_options.confirms)
            .any(|(option, by_app)| is_confirmed(object, option, by_app))
    });
    let resource = ComparedResource {
        requires_pruning: is_extra && self_referenced,
        key,
        gvk,
        target,
        live,
        status,
        modified,
        hook: is_hook,
        self_referenced,
        is_marked_otherwise,
        is_released_next,
        sync_wave,
        requires_deletion_confirmation,
    };
    Some((resource, counts))
}

/// Whether `<option>confirm` is in force: what the object says about the option wins over the application.
fn is_confirmed(object: &Object, option: &str, by_app: bool) -> bool {
    let says = |item: &str| item.strip_prefix(option).map(|value| value == "confirm");
    let own = object.annotation_items(annotation::SYNC_OPTIONS).filter_map(says);
    own.reduce(|one, other| one || other).unwrap_or(by_app)
}

/// Options whose deletions somebody has to confirm.
const CONFIRMED: [&str; 2] = ["Delete=", "Prune="];

/// What the application's sync options say; they may be many, and so are its objects.
struct AppOptions {
    diff: DiffSettings,
    /// For each of [`CONFIRMED`].
    confirms: [bool; 2],
}

impl AppOptions {
    fn of(input: &CompareInput<'_>) -> Self {
        let confirms =
            |option: &str| input.sync_options.iter().any(|item| item.strip_prefix(option) == Some("confirm"));
        Self { diff: input.diff.for_application(input.sync_options), confirms: CONFIRMED.map(confirms) }
    }
}

fn shared_resources(input: &CompareInput<'_>, pairs: &[Pair]) -> Vec<SharedResource> {
    let mut shared = Vec::new();
    let application = qualified_name(input.application_namespace, input.application_name);
    for live in pairs.iter().filter_map(|pair| pair.live.as_ref()) {
        let Ownership { current, instance, others, .. } = input.ownership;
        if let Some(claim) = current.claim(live.metadata(), |mark| others.named_by(mark))
            && claim != instance
            // A digest of ours that the settings in force read as a name.
            && !input.ownership.owns(live)
        {
            let message = shared_warning(&application, &live.gvk().kind, live.name(), &claim);
            shared.push(SharedResource { message, owner_exists: others.method_of(&claim).is_some() });
        }
    }
    shared
}

#[cfg(test)]
mod tests;
