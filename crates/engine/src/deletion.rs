//! Plans the deletion of an application's objects: what goes next, what is waited for (CTL-78, CTL-81..83).
//!
//! Objects go wave by wave, the highest first, so that they leave in reverse order of their creation. Deletion
//! hooks run before and after. Each function takes the facts of one pass and gives one step; the shell acts and
//! asks again.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use tiphys_api::names::annotation;
use tiphys_object::{Object, ResourceKey};

use crate::health::{Health, HealthCode};
use crate::hook::{Annotated, HookDeletePolicy, HookType, Role, Wave};

/// What is known when a pass of a deletion starts.
#[derive(Clone, Debug, Default)]
pub struct DeletionFacts {
    /// Managed live objects that the project permits; from a complete list.
    pub live: Vec<Arc<Object>>,
    /// The Application itself.
    pub application: ResourceKey,
    /// The application's sync options.
    pub sync_options: BTreeSet<String>,
    /// Keys whose deletion `status.resources` marks as needing confirmation.
    pub needs_confirmation: Vec<ResourceKey>,
    /// When the deletion was asked for.
    pub deletion_timestamp: Option<Timestamp>,
    /// The Application's `deletion-approved` annotation, when it is a time.
    pub deletion_approved: Option<Timestamp>,
}

/// What a deletion does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionStep {
    /// Nothing until the world changes.
    Wait {
        /// What is waited for.
        why: String,
    },
    /// Delete these together.
    Delete(Vec<Arc<Object>>),
    /// Nothing is left: the finalizer may go.
    Done,
}

/// The next step of a cascade (CTL-78 step 3).
pub fn next_deletion(facts: &DeletionFacts) -> DeletionStep {
    let going: Vec<&Arc<Object>> = facts.live.iter().filter(|live| live.is_terminating()).collect();
    if let Some(first) = going.first() {
        return wait("deletion of", first, going.len());
    }
    let candidates: Vec<&Arc<Object>> = facts.live.iter().filter(|live| is_candidate(facts, live)).collect();
    let confirmed = match (facts.deletion_approved, facts.deletion_timestamp) {
        (Some(approved), Some(asked)) => approved >= asked,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if !confirmed {
        let unconfirmed: Vec<&Arc<Object>> =
            candidates.iter().copied().filter(|live| needs_confirmation(facts, live)).collect();
        if let Some(first) = unconfirmed.first() {
            return wait("confirmation of the deletion of", first, unconfirmed.len());
        }
    }
    let Some(highest) = candidates.iter().map(|live| Wave::of(live.as_ref())).max() else {
        return DeletionStep::Done;
    };
    let mut step: Vec<Arc<Object>> =
        candidates.into_iter().filter(|live| Wave::of(live.as_ref()) == highest).map(Arc::clone).collect();
    step.sort_by_key(|live| live.key());
    DeletionStep::Delete(step)
}

fn wait(what: &str, first: &Object, count: usize) -> DeletionStep {
    let key = first.key();
    let mut why = format!("waiting for {what} {}/{}/{}", key.group, key.kind, key.name);
    if count > 1 {
        why = format!("{why} and {} more resources", count - 1);
    }
    DeletionStep::Wait { why }
}

fn is_candidate(facts: &DeletionFacts, live: &Object) -> bool {
    let is_crd = live.gvk().group == "apiextensions.k8s.io" && live.gvk().kind == "CustomResourceDefinition";
    let is_kept = live.annotation(annotation::HELM_RESOURCE_POLICY) == Some("keep");
    !is_crd
        && !is_kept
        && live.key() != facts.application
        && !has_option(facts, live, "Delete=", "Delete=false")
}

fn needs_confirmation(facts: &DeletionFacts, live: &Object) -> bool {
    facts.needs_confirmation.contains(&live.key())
        || has_option(facts, live, "Delete=", "Delete=confirm")
        || has_option(facts, live, "Prune=", "Prune=confirm")
}

/// Whether an object has an option: its own annotation decides when it names the option at all.
fn has_option(facts: &DeletionFacts, live: &Object, prefix: &str, option: &str) -> bool {
    let own = live.annotation_list(annotation::SYNC_OPTIONS);
    if own.iter().any(|item| item.starts_with(prefix)) {
        return own.contains(&option);
    }
    facts.sync_options.contains(option)
}

/// One deletion hook, as its target manifest asks for it.
#[derive(Clone, Debug)]
pub struct DeletionHook {
    /// The manifest, tracking data included.
    pub target: Arc<Object>,
    /// The live object.
    pub live: Option<Arc<Object>>,
    /// Health of the live object; `None` when its kind has none.
    pub health: Option<Health>,
}

/// What the hooks of one type need next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookStep {
    /// Create these; "already exists" is fine.
    Create(Vec<Arc<Object>>),
    /// Some still run.
    Wait {
        /// What is waited for.
        why: String,
    },
    /// Delete these and fail the pass with the message, so that they are made anew in the next one.
    Fail {
        /// The failed hooks.
        delete: Vec<Arc<Object>>,
        /// Text for people.
        message: String,
    },
    /// All are done.
    Done,
}

/// Whether an object is a deletion hook of this type (CTL-81).
pub fn is_deletion_hook(object: &Object, hook_type: HookType) -> bool {
    Role::of(object).has_type(hook_type)
}

/// The next step of the hooks of one type; waves do not matter (CTL-81, CTL-82).
pub fn next_hooks(hook_type: HookType, hooks: &[DeletionHook]) -> HookStep {
    let missing: Vec<Arc<Object>> =
        hooks.iter().filter(|hook| hook.live.is_none()).map(|hook| Arc::clone(&hook.target)).collect();
    if !missing.is_empty() {
        return HookStep::Create(missing);
    }
    let with = |wanted: &[HealthCode]| -> Vec<Arc<Object>> {
        let matching =
            |hook: &&DeletionHook| hook.health.as_ref().is_some_and(|health| wanted.contains(&health.status));
        hooks.iter().filter(matching).filter_map(|hook| hook.live.clone()).collect()
    };
    // Unknown and Suspended wait: nobody knows that the hook has done its work.
    let running = with(&[HealthCode::Progressing, HealthCode::Suspended, HealthCode::Unknown]);
    if let Some(first) = running.first() {
        let DeletionStep::Wait { why } = wait("completion of hook", first, running.len()) else {
            return HookStep::Done;
        };
        return HookStep::Wait { why };
    }
    let failed = with(&[HealthCode::Degraded]);
    if failed.is_empty() {
        return HookStep::Done;
    }
    let names: Vec<String> =
        failed.iter().map(|live| format!("{}/{}", live.namespace(), live.name())).collect();
    let kind = match hook_type {
        HookType::PostDelete => "PostDelete",
        _ => "PreDelete",
    };
    HookStep::Fail { delete: failed, message: format!("{kind} hook(s) failed: {}", names.join(", ")) }
}

/// Which hooks are deleted when they are done, after which the pass waits until they are gone (CTL-83).
///
/// `deletes_default` says whether hooks of the default policy go too.
pub fn hooks_to_clean_up(hooks: &[DeletionHook], deletes_default: bool) -> Vec<Arc<Object>> {
    let worst = hooks.iter().filter_map(|hook| hook.health.as_ref()).map(|health| health.status).max();
    let worst = worst.unwrap_or(HealthCode::Healthy);
    let goes = |hook: &&DeletionHook| {
        let policies = HookDeletePolicy::of(hook.target.as_ref());
        (worst == HealthCode::Healthy && policies.contains(&HookDeletePolicy::HookSucceeded))
            || (worst == HealthCode::Degraded && policies.contains(&HookDeletePolicy::HookFailed))
            || (deletes_default && policies.contains(&HookDeletePolicy::BeforeHookCreation))
    };
    hooks.iter().filter(goes).filter_map(|hook| hook.live.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(kind: &str, name: &str, annotations: &Value) -> Arc<Object> {
        let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let tree = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "n", "annotations": annotations}});
        Arc::new(Object::from_value(&tree).unwrap())
    }

    fn facts(live: Vec<Arc<Object>>) -> DeletionFacts {
        DeletionFacts { live, ..DeletionFacts::default() }
    }

    fn names(step: DeletionStep) -> Vec<String> {
        match step {
            DeletionStep::Delete(objects) => objects.iter().map(|object| object.name().to_owned()).collect(),
            DeletionStep::Wait { why } => vec![why],
            DeletionStep::Done => vec!["done".to_owned()],
        }
    }

    #[test]
    fn ctl_78_the_highest_wave_goes_first() {
        let wave = |wave: &str| json!({"argocd.argoproj.io/sync-wave": wave});
        let all = vec![
            object("ConfigMap", "a", &wave("-1")),
            object("ConfigMap", "c", &wave("2")),
            object("Secret", "b", &wave("2")),
        ];
        assert_eq!(names(next_deletion(&facts(all.clone()))), ["c", "b"]);
        assert_eq!(names(next_deletion(&facts(all[..1].to_vec()))), ["a"]);
        assert_eq!(names(next_deletion(&facts(Vec::new()))), ["done"]);
    }

    #[test]
    fn ctl_78_some_objects_stay() {
        let mut facts = facts(vec![
            object("apiextensions.k8s.io/CustomResourceDefinition", "crd", &json!({})),
            object("argoproj.io/Application", "me", &json!({})),
            object("ConfigMap", "kept", &json!({"helm.sh/resource-policy": "keep"})),
            object("ConfigMap", "declared", &json!({"argocd.argoproj.io/sync-options": "Delete=false"})),
        ]);
        facts.application = ResourceKey::new("argoproj.io", "Application", "n", "me");
        assert_eq!(next_deletion(&facts), DeletionStep::Done);
    }

    #[test]
    fn ctl_78_confirmation_counts_from_the_deletion() {
        let mut facts = facts(vec![object(
            "ConfigMap",
            "c",
            &json!({"argocd.argoproj.io/sync-options": "Delete=confirm"}),
        )]);
        facts.deletion_timestamp = Some("2026-01-02T00:00:00Z".parse().unwrap());
        assert_eq!(
            names(next_deletion(&facts)),
            ["waiting for confirmation of the deletion of /ConfigMap/c"]
        );
        facts.deletion_approved = Some("2026-01-01T00:00:00Z".parse().unwrap());
        assert!(matches!(next_deletion(&facts), DeletionStep::Wait { .. }));
        facts.deletion_approved = facts.deletion_timestamp;
        assert_eq!(names(next_deletion(&facts)), ["c"]);
    }

    fn hook(name: &str, policy: &str, health: Option<HealthCode>) -> DeletionHook {
        let annotations =
            json!({"argocd.argoproj.io/hook": "PreDelete", "argocd.argoproj.io/hook-delete-policy": policy});
        let target = object("batch/Job", name, &annotations);
        let live = health.map(|_| Arc::clone(&target));
        DeletionHook { target, live, health: health.map(|status| Health::new(status, "")) }
    }

    #[test]
    fn ctl_82_hooks_are_made_awaited_and_made_anew() {
        let step = |hooks: &[DeletionHook]| next_hooks(HookType::PreDelete, hooks);
        let done = hook("a", "", Some(HealthCode::Healthy));
        assert!(is_deletion_hook(&done.target, HookType::PreDelete));
        assert!(
            matches!(step(&[done.clone(), hook("b", "", None)]), HookStep::Create(missing) if missing.len() == 1)
        );
        let running = hook("b", "", Some(HealthCode::Progressing));
        let why = "waiting for completion of hook batch/Job/b".to_owned();
        assert_eq!(step(&[done.clone(), running]), HookStep::Wait { why });
        let HookStep::Fail { message, .. } = step(&[hook("b", "", Some(HealthCode::Degraded))]) else {
            panic!()
        };
        assert_eq!(message, "PreDelete hook(s) failed: n/b");
        assert_eq!(step(&[done]), HookStep::Done);
    }

    #[test]
    fn ctl_83_policies_decide_about_clean_up() {
        let hooks =
            [hook("a", "HookSucceeded", Some(HealthCode::Healthy)), hook("b", "", Some(HealthCode::Healthy))];
        let count = |deletes_default| hooks_to_clean_up(&hooks, deletes_default).len();
        assert_eq!((count(false), count(true)), (1, 2));
    }
}
