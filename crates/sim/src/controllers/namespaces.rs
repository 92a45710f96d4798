//! Namespaces and definitions: what they begin with, and how they go with all that is in them.

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{CRD_CLEANUP, create, garbage, set_condition};
use crate::delete::{Options, delete_object};
use crate::state::{State, finalizers, is_terminating};
use crate::store::{Key, Kind};

/// The text in the certificate authority every namespace has.
const ROOT_CA: &str = "-----BEGIN CERTIFICATE-----\nsimulated\n-----END CERTIFICATE-----\n";

pub(super) fn reconcile(state: &mut State, key: &Key, mut namespace: Value, now: Timestamp) {
    if !is_terminating(&namespace) {
        furnish(state, key, now);
        return;
    }
    let held: Vec<Key> = state.store.index.in_namespace(&key.name).cloned().collect();
    if held.is_empty() {
        let spec = access::member_object_mut(access::ensure_object(&mut namespace), "spec");
        let others = spec.get("finalizers").and_then(Value::as_array).into_iter().flatten();
        let others: Vec<Value> = others.filter(|one| *one != "kubernetes").cloned().collect();
        let is_held = !others.is_empty();
        if is_held {
            spec.insert("finalizers".to_owned(), json!(others));
        } else {
            spec.remove("finalizers");
        }
        if finalizers(&namespace).is_empty() && !is_held {
            state.erase(key);
        } else {
            super::write(state, key, namespace);
        }
        return;
    }
    for one in &held {
        let Some(object) = state.tree(one) else { continue };
        if is_terminating(&object) {
            continue;
        }
        let Some(resource) = state.resource_of(&one.kind) else { continue };
        delete_object(state, &resource, one, object, &Options::in_background(), now);
    }
    let left: Vec<Key> = state.store.index.in_namespace(&key.name).cloned().collect();
    if left.is_empty() {
        state.dirty.insert(key.clone());
        return;
    }
    report(state, &mut namespace, &left, now);
    super::write(state, key, namespace);
}

/// What every namespace has.
fn furnish(state: &mut State, key: &Key, now: Timestamp) {
    let account = json!({"metadata": {"name": "default", "namespace": key.name}});
    create(state, "", "v1", "serviceaccounts", account, now);
    let root = json!({"metadata": {"name": "kube-root-ca.crt", "namespace": key.name, "annotations": {
        "kubernetes.io/description": "Simulated; nothing trusts it."}}, "data": {"ca.crt": ROOT_CA}});
    create(state, "", "v1", "configmaps", root, now);
}

/// Says what still holds a namespace.
fn report(state: &State, namespace: &mut Value, left: &[Key], now: Timestamp) {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    let mut holders: Vec<(String, usize)> = Vec::new();
    let count = |list: &mut Vec<(String, usize)>, name: String| match list
        .iter_mut()
        .find(|(known, _)| *known == name)
    {
        Some((_, count)) => *count += 1,
        None => list.push((name, 1)),
    };
    for key in left {
        let Kind { group, plural } = &*key.kind;
        count(&mut kinds, if group.is_empty() { format!("{plural}.") } else { format!("{plural}.{group}") });
        if let Some(object) = state.tree(key) {
            for finalizer in finalizers(&object) {
                count(&mut holders, finalizer.to_string());
            }
        }
    }
    kinds.sort();
    holders.sort();
    let listed = |list: &[(String, usize)], noun: &str| -> String {
        let parts: Vec<String> =
            list.iter().map(|(name, count)| format!("{name} {noun} {count} resource instances")).collect();
        parts.join(", ")
    };
    let no_failures = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ];
    for (kind, reason, message) in no_failures {
        set_condition(namespace, kind, false, reason, message, now);
    }
    let message = format!("Some resources are remaining: {}", listed(&kinds, "has"));
    set_condition(namespace, "NamespaceContentRemaining", true, "SomeResourcesRemain", &message, now);
    if holders.is_empty() {
        let message = "All content-preserving finalizers finished";
        set_condition(
            namespace,
            "NamespaceFinalizersRemaining",
            false,
            "ContentHasNoFinalizers",
            message,
            now,
        );
    } else {
        let message =
            format!("Some content in the namespace has finalizers remaining: {}", listed(&holders, "in"));
        set_condition(namespace, "NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", &message, now);
    }
}

/// A definition goes after its last object.
pub(super) fn clean_definition(state: &mut State, key: &Key, definition: &Value, now: Timestamp) {
    let group = access::text_at(definition, &["spec", "group"]);
    let plural = access::text_at(definition, &["spec", "names", "plural"]);
    let kind = Kind { group: group.into(), plural: plural.into() };
    let paths: Vec<(String, String)> = state
        .store
        .objects(&kind)
        .into_iter()
        .flat_map(|objects| objects.values())
        .map(|stored| {
            let tree = stored.tree();
            (access::namespace(&tree).to_owned(), access::name(&tree).to_owned())
        })
        .collect();
    let Some(resource) = state.resource_of(&kind) else {
        garbage::release(state, key, CRD_CLEANUP, now);
        return;
    };
    for (namespace, name) in &paths {
        let one = state.key(&resource, namespace, name);
        let Some(object) = state.tree(&one) else { continue };
        if !is_terminating(&object) {
            delete_object(state, &resource, &one, object, &Options::in_background(), now);
        }
    }
    if state.store.objects(&kind).is_none_or(std::collections::BTreeMap::is_empty) {
        garbage::release(state, key, CRD_CLEANUP, now);
    }
}
