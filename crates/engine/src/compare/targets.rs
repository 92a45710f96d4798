//! The desired objects as they are matched: in their namespace, marked, once each (ENG-41..43, 46, 47, 50).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::Condition;
use tiphys_api::codes::ConditionType;
use tiphys_object::{Object, ResourceKey, access};

use super::input::{CompareInput, Scope};
use super::memo::DiffMemo;
use crate::hook::Role;

/// A desired object that takes part.
pub(super) struct Target {
    pub(super) object: Arc<Object>,
    /// Key, with the pseudo-name of an object that has none.
    pub(super) key: ResourceKey,
    pub(super) scope: Option<Scope>,
    pub(super) role: Role,
}

/// The desired side of a comparison.
pub(super) struct Targets {
    /// Objects to match, in generation order.
    pub(super) resources: Vec<Target>,
    /// Hooks of a sync, in generation order.
    pub(super) hooks: Vec<Target>,
    /// Why the desired state could not be worked out.
    pub(super) failed: Option<String>,
}

/// Works the desired side out; adds conditions as it goes.
pub(super) fn prepare(
    input: &CompareInput<'_>,
    options: u64,
    memo: &mut DiffMemo,
    conditions: &mut Vec<Condition>,
) -> Targets {
    let mut failed = None;
    let mut targets = Vec::with_capacity(input.targets.len());
    for (index, generated) in input.targets.iter().enumerate() {
        match place(input, generated, index, options, memo) {
            Ok(target) => targets.push(target),
            Err(reason) => {
                failed.get_or_insert(format!("Failed to normalize target state: {reason}"));
            }
        }
    }
    let targets = without_repeats(targets, conditions);
    let mut resources = Vec::with_capacity(targets.len());
    let mut hooks = Vec::new();
    for target in targets {
        if (input.excluded)(&target.key.group_kind()) {
            conditions.push(Condition::new(
                ConditionType::ExcludedResourceWarning,
                format!(
                    "Resource {}/{} {} is excluded in the settings",
                    target.key.group,
                    target.key.kind,
                    target.object.name()
                ),
            ));
            continue;
        }
        if target.scope == Some(Scope::Namespaced) && target.object.namespace().is_empty() {
            let text = format!("Namespace for {} {} is missing.", target.object.name(), target.object.gvk());
            conditions.push(Condition::new(ConditionType::InvalidSpecError, text));
        }
        match target.role {
            Role::Resource | Role::Skipped => resources.push(target),
            // Deletion hooks run on deletion only (ENG-46).
            Role::Hook(_) if !target.role.phases().is_empty() => hooks.push(target),
            Role::Hook(_) | Role::Ignored => {}
        }
    }
    Targets { resources, hooks, failed }
}

/// Gives an object its namespace and, where that changed it, its mark anew (ENG-41, TRK-78).
fn place(
    input: &CompareInput<'_>,
    generated: &Arc<Object>,
    index: usize,
    options: u64,
    memo: &mut DiffMemo,
) -> Result<Target, String> {
    let scope = (input.scope)(&generated.gvk().group_kind());
    let namespace = match scope {
        Some(Scope::Cluster) => "",
        Some(Scope::Namespaced) | None if generated.namespace().is_empty() => input.destination_namespace,
        Some(Scope::Namespaced) | None => generated.namespace(),
    };
    let object = if namespace == generated.namespace() {
        Arc::clone(generated)
    } else {
        let id = (generated.key().in_namespace(namespace), generated.content_hash());
        if let Some(object) = memo.defaulted(&id, options) {
            object
        } else {
            let object = Arc::new(move_to(input, generated, namespace)?);
            memo.keep_defaulted(id, options, &object);
            object
        }
    };
    let mut key = object.key();
    if key.name.is_empty() {
        key.name = pseudo_name(&object, index).into();
    }
    let role = Role::of(&*object);
    Ok(Target { object, key, scope, role })
}

fn move_to(input: &CompareInput<'_>, generated: &Object, namespace: &str) -> Result<Object, String> {
    let mut value = generated.to_value().map_err(|error| error.to_string())?;
    let metadata = access::metadata_mut(&mut value);
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), Value::from(namespace));
    }
    input
        .ownership
        .current
        .stamp(&mut value, input.ownership.instance, input.destination_namespace)
        .map_err(|error| error.to_string())?;
    Object::from_value(&value).map_err(|error| error.to_string())
}

/// Stands for the name of an object that the server names (ENG-42).
fn pseudo_name(object: &Object, index: usize) -> String {
    format!("{}{index}", object.metadata().generate_name)
}

/// Keeps the last of several objects with one key (ENG-42).
fn without_repeats(targets: Vec<Target>, conditions: &mut Vec<Condition>) -> Vec<Target> {
    let mut counts: HashMap<ResourceKey, (usize, usize)> = HashMap::with_capacity(targets.len());
    for target in &targets {
        counts.entry(target.key.clone()).or_default().0 += 1;
    }
    if counts.len() == targets.len() {
        return targets;
    }
    targets
        .into_iter()
        .filter(|target| {
            let Some((count, seen)) = counts.get_mut(&target.key) else { return true };
            *seen += 1;
            if *count > 1 && *seen == *count {
                let text =
                    format!("Resource {} appeared {count} times among application resources.", target.key);
                conditions.push(Condition::new(ConditionType::RepeatedResourceWarning, text));
            }
            *seen == *count
        })
        .collect()
}
