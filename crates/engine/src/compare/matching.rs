//! Which live object belongs to which desired one (ENG-44, 47..49).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;
use smol_str::SmolStr;
use tiphys_api::names::annotation;
use tiphys_object::{Object, ResourceKey, access};

use super::input::{CompareInput, Scope};
use super::targets::{Target, Targets};
use crate::hook::Role;
use crate::seen::Seen;

/// A desired object, a live one, or both.
pub(super) struct Pair {
    pub(super) target: Option<Arc<Object>>,
    pub(super) role: Role,
    pub(super) live: Option<Arc<Object>>,
}

/// The outcome of matching.
pub(super) struct Matched {
    pub(super) pairs: Vec<Pair>,
    /// The first look that gave no answer.
    pub(super) failed: Option<String>,
}

/// Live objects at hand, by key.
type LiveByKey = BTreeMap<ResourceKey, Arc<Object>>;

/// Matches every desired object; live objects without one become extra.
pub(super) fn match_objects(input: &CompareInput<'_>, targets: &mut Targets) -> Matched {
    let mut live: LiveByKey = input
        .managed
        .iter()
        .filter(|object| (input.permitted_live)(object))
        .map(|object| (object.key(), Arc::clone(object)))
        .collect();
    add_managed_namespace(input, &live, targets);
    let mut failed = None;
    let mut found: Vec<Option<ResourceKey>> = Vec::with_capacity(targets.resources.len());
    for target in &targets.resources {
        found.push(find(input, target, &mut live, &mut failed));
    }
    // A hook's object is an extra one: it is shown, never compared.
    for hook in targets.hooks.iter().filter(|hook| !hook.object.name().is_empty()) {
        find(input, hook, &mut live, &mut failed);
    }
    drop_copies(&mut live, &found.iter().flatten().cloned().collect());
    let mut pairs = Vec::with_capacity(targets.resources.len());
    for (target, key) in targets.resources.drain(..).zip(found) {
        let live = key.and_then(|key| live.remove(&key));
        pairs.push(Pair { target: Some(target.object), role: target.role, live });
    }
    pairs.extend(live.into_values().map(|object| Pair {
        target: None,
        role: Role::of(&*object),
        live: Some(object),
    }));
    Matched { pairs, failed }
}

/// The key of the live object of a desired one; looks it up when it is not at hand (TRK-87).
fn find(
    input: &CompareInput<'_>,
    target: &Target,
    live: &mut LiveByKey,
    failed: &mut Option<String>,
) -> Option<ResourceKey> {
    if target.object.name().is_empty() {
        return None;
    }
    let namespace = match target.object.namespace() {
        "" => input.destination_namespace,
        own => own,
    };
    let in_namespace = || target.key.in_namespace(namespace);
    let in_cluster = || target.key.in_namespace("");
    let candidates: Vec<ResourceKey> = match target.scope {
        Some(Scope::Namespaced) => vec![in_namespace()],
        Some(Scope::Cluster) => vec![in_cluster()],
        None if namespace.is_empty() => vec![in_cluster()],
        None => vec![in_namespace(), in_cluster()],
    };
    if let Some(key) = candidates.iter().find(|key| live.contains_key(*key)) {
        return Some(key.clone());
    }
    for key in candidates {
        match (input.by_key)(&key) {
            Seen::Present(object) if (input.permitted_live)(&object) => {
                live.insert(key.clone(), object);
                return Some(key);
            }
            Seen::Present(_) | Seen::Absent => {}
            Seen::Unknown(why) => {
                failed.get_or_insert(format!("Failed to load live state: {why}"));
            }
        }
    }
    None
}

/// Drops live objects that are other views of one that is desired, or of one another (ENG-48).
fn drop_copies(live: &mut LiveByKey, desired: &HashSet<ResourceKey>) {
    let mut by_uid: HashMap<SmolStr, Vec<ResourceKey>> = HashMap::with_capacity(live.len());
    for (key, object) in live.iter() {
        let uid = &object.metadata().uid;
        if !uid.is_empty() {
            by_uid.entry(uid.clone()).or_default().push(key.clone());
        }
    }
    for keys in by_uid.into_values().filter(|keys| keys.len() > 1) {
        let mut left = keys.len();
        // The keys are sorted; the smallest copy is the one that stays when none is desired.
        for key in keys.iter().rev().filter(|key| !desired.contains(*key)) {
            if left > 1 {
                live.remove(key);
                left -= 1;
            }
        }
    }
}

/// Wants the managed namespace, so that it is never pruned (ENG-49).
fn add_managed_namespace(input: &CompareInput<'_>, live: &LiveByKey, targets: &mut Targets) {
    let Some(wanted) = input.managed_namespace else { return };
    let key = ResourceKey::new("", "Namespace", "", input.destination_namespace);
    if !live.contains_key(&key) || targets.resources.iter().any(|target| target.key == key) {
        return;
    }
    let mut annotations = wanted.annotations.clone();
    let options = annotations.entry(annotation::SYNC_OPTIONS.to_owned()).or_default();
    if !options.split(',').any(|item| item.trim() == "ServerSideApply=true") {
        let comma = if options.is_empty() { "" } else { "," };
        *options = format!("{options}{comma}ServerSideApply=true");
    }
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": input.destination_namespace, "annotations": annotations}});
    for (key, text) in &wanted.labels {
        access::set_label(&mut namespace, key, text);
    }
    // Texts in a map of texts: the tree always has the shape of an object.
    if let Ok(object) = Object::from_value(&namespace) {
        targets.resources.push(Target {
            object: Arc::new(object),
            key,
            scope: Some(Scope::Cluster),
            role: Role::Resource,
        });
    }
}
