//! The modelled world: objects, and how they answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tiphys_api::Application;
use tiphys_api::names::finalizer;
use tiphys_object::{Gvk, Object, ResourceKey, access};

use super::{Model, ModelKind, Permit};
use crate::diff::{DiffOptions, DiffSettings, diff};
use crate::health::{Health, HealthCode, HealthError};
use crate::hook::Role;
use crate::normalize::IgnoreRules;
use crate::sync::action::{Action, Op, Outcome};
use crate::sync::facts::{Cluster, Served, SyncPair};
use crate::sync::{message, order};

/// Built-in kinds without namespace.
const CLUSTER_SCOPED: [(&str, &str); 27] = [
    ("", "ComponentStatus"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodSecurityPolicy"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
];

/// An object in the modelled cluster.
#[derive(Clone, Debug)]
struct Entry {
    tree: Value,
    is_tracked: bool,
    /// Pass of the last apply.
    applied_at: Option<u64>,
    /// First pass in which the object is gone, once it was deleted.
    gone_at: Option<u64>,
}

/// How objects are compared and permitted.
pub(super) struct Rules<'a> {
    pub(super) ignore: IgnoreRules,
    pub(super) diff: DiffSettings,
    pub(super) permit: Permit<'a>,
}

/// All objects, and the rules by which they answer.
pub(super) struct World<'a> {
    namespace: String,
    model: Model,
    scopes: BTreeMap<(String, String), bool>,
    served: BTreeSet<String>,
    targets: BTreeMap<ResourceKey, (usize, Arc<Object>)>,
    objects: BTreeMap<ResourceKey, Entry>,
    rules: Rules<'a>,
}

/// What one pass sees through [`Cluster`]: the world as it was when the pass began.
pub(super) struct View<'a> {
    health: BTreeMap<ResourceKey, Health>,
    unserved: BTreeSet<String>,
    denied: BTreeMap<String, String>,
    scopes: BTreeMap<(String, String), bool>,
    permit: Permit<'a>,
}

impl<'a> World<'a> {
    pub(super) fn new(
        application: &Application,
        model: Model,
        kinds: &[ModelKind],
        rules: Rules<'a>,
    ) -> Self {
        let scopes =
            kinds.iter().map(|kind| ((kind.group.clone(), kind.name.clone()), kind.namespaced)).collect();
        Self {
            namespace: application.spec.destination.namespace.clone(),
            model,
            scopes,
            served: BTreeSet::new(),
            targets: BTreeMap::new(),
            objects: BTreeMap::new(),
            rules,
        }
    }

    /// Targets with their namespaces defaulted; of equal ones the last counts (ENG-41, ENG-42).
    pub(super) fn add_targets(&mut self, targets: &[Value]) {
        for (index, target) in targets.iter().enumerate() {
            let mut tree = target.clone();
            self.place(&mut tree, true);
            let Ok(object) = Object::from_value(&tree) else { continue };
            let mut key = object.key();
            if key.name.is_empty() {
                key.name = format!("{}{index}", object.metadata().generate_name).into();
            }
            self.targets.insert(key, (index, Arc::new(object)));
        }
    }

    pub(super) fn add_live(&mut self, objects: &[Value], is_tracked: bool) {
        for object in objects {
            let mut tree = object.clone();
            self.place(&mut tree, false);
            let entry = Entry { is_tracked, applied_at: None, gone_at: None, tree };
            self.objects.insert(ResourceKey::of(&entry.tree), entry);
        }
    }

    fn place(&self, tree: &mut Value, defaults: bool) {
        let gvk = Gvk::of(tree);
        let is_namespaced = self.is_namespaced(&gvk.group, &gvk.kind);
        if is_namespaced && access::namespace(tree).is_empty() && defaults && !self.namespace.is_empty() {
            access::metadata_mut(tree).insert("namespace".to_owned(), Value::from(self.namespace.as_str()));
        } else if !is_namespaced {
            access::metadata_mut(tree).remove("namespace");
        }
    }

    pub(super) fn is_namespaced(&self, group: &str, kind: &str) -> bool {
        is_namespaced(&self.scopes, group, kind)
    }

    /// Pairs and hooks as the comparison of the next pass yields them (ENG-25, ENG-47).
    pub(super) fn compare(&self) -> (Vec<SyncPair>, Vec<Arc<Object>>) {
        let mut pairs = Vec::new();
        let mut hooks = Vec::new();
        let mut matched = BTreeSet::new();
        let mut targets: Vec<&(usize, Arc<Object>)> = self.targets.values().collect();
        targets.sort_by_key(|(index, _)| *index);
        for (_, target) in targets {
            let key = target.key();
            let entry = self.objects.get(&key);
            let live = entry.and_then(|entry| Object::from_value(&entry.tree).ok()).map(Arc::new);
            matched.insert(key.clone());
            if Role::of(target.as_ref()).is_hook() {
                hooks.push(Arc::clone(target));
                if live.is_some() {
                    pairs.push(SyncPair { target: None, live, modified: false, self_referenced: true });
                }
                continue;
            }
            let modified = self.is_modified(&key, target, entry);
            pairs.push(SyncPair { target: Some(Arc::clone(target)), live, modified, self_referenced: true });
        }
        for (key, entry) in &self.objects {
            if matched.contains(key) || !entry.is_tracked {
                continue;
            }
            let live = Object::from_value(&entry.tree)
                .ok()
                .filter(|live| live.metadata().owner_references.is_empty());
            if let Some(live) = live {
                pairs.push(SyncPair {
                    target: None,
                    live: Some(Arc::new(live)),
                    modified: true,
                    self_referenced: true,
                });
            }
        }
        (pairs, hooks)
    }

    fn is_modified(&self, key: &ResourceKey, target: &Object, entry: Option<&Entry>) -> bool {
        let Some(entry) = entry else { return true };
        if entry.applied_at.is_some() {
            return false;
        }
        if let Some(keys) = &self.model.in_sync {
            return !keys.contains(&key.to_string());
        }
        let options = DiffOptions { ignore: &self.rules.ignore, settings: self.rules.diff };
        let result = diff(Some(&target.to_value().unwrap_or_default()), Some(&entry.tree), &options);
        result.map_or(true, |result| result.modified)
    }

    pub(super) fn view(&self, pass: u64) -> View<'a> {
        let health = |(key, entry): (&ResourceKey, &Entry)| {
            let codes = self.model.health.get(&key.to_string())?;
            let seen = pass.checked_sub(entry.applied_at?)?.checked_sub(1)?;
            let code = codes.get(usize::try_from(seen).ok()?).or(codes.last())?;
            Some((key.clone(), Health::new(HealthCode::parse(code).unwrap_or(HealthCode::Unknown), "")))
        };
        View {
            health: self.objects.iter().filter_map(health).collect(),
            unserved: self.model.unserved_kinds.difference(&self.served).cloned().collect(),
            denied: self.model.denied.clone(),
            scopes: self.scopes.clone(),
            permit: self.rules.permit,
        }
    }

    /// The text with which an apply fails, if it does.
    pub(super) fn apply_error(&self, action: &Action) -> Option<String> {
        if !matches!(action.op, Op::Apply | Op::ServerSideApply | Op::Create | Op::Replace | Op::Update) {
            return None;
        }
        let kind = action.key.group_kind().to_string();
        let is_unserved = self.model.unserved_kinds.contains(&kind) && !self.served.contains(&kind);
        let unserved = is_unserved.then(|| message::NOT_SERVED.to_owned());
        self.model.apply_errors.get(&action.key.to_string()).cloned().or(unserved)
    }

    /// Carries an action out.
    pub(super) fn act(&mut self, pass: u64, action: &Action) -> Outcome {
        match action.op {
            Op::Read => match self.objects.get(&action.key).map(|entry| Object::from_value(&entry.tree)) {
                Some(Ok(object)) => Outcome::Object(Some(Arc::new(object))),
                Some(Err(error)) => Outcome::failed(error.to_string()),
                None => Outcome::NotFound,
            },
            Op::DryRun => match self.model.dry_run_errors.get(&action.key.to_string()) {
                Some(text) => Outcome::failed(text.clone()),
                None => Outcome::Done { message: format!("{} (dry run)", self.text(action)) },
            },
            Op::Apply | Op::ServerSideApply | Op::Create | Op::Replace | Op::Update => {
                match self.apply_error(action) {
                    Some(text) => Outcome::failed(text),
                    None => self.apply(pass, action),
                }
            }
            Op::Prune | Op::Delete => self.delete(pass, &action.key),
            Op::RemoveFinalizer => {
                if let Some(entry) = self.objects.get_mut(&action.key) {
                    let finalizers = access::metadata_mut(&mut entry.tree).get_mut("finalizers");
                    if let Some(list) = finalizers.and_then(Value::as_array_mut) {
                        list.retain(|name| name != finalizer::HOOK);
                    }
                }
                Outcome::done()
            }
        }
    }

    fn apply(&mut self, pass: u64, action: &Action) -> Outcome {
        let text = self.text(action);
        let Some(manifest) = &action.manifest else { return Outcome::done() };
        let mut tree = manifest.to_value().unwrap_or_default();
        if let Some(kind) = order::crd_kind(manifest) {
            self.served.insert(kind.to_string());
        }
        if action.key.name.is_empty() {
            // The server named it: nobody finds it again, and what carries its mark is no object's own (TRK-93).
            return Outcome::Done { message: text };
        }
        let existing = self.objects.remove(&action.key);
        // A namespace made for the destination belongs to no application (ENG-157).
        let is_declared = self.targets.contains_key(&action.key) || action.key.kind != "Namespace";
        let is_tracked = is_declared || existing.as_ref().is_some_and(|entry| entry.is_tracked);
        let gone_at = existing.as_ref().and_then(|entry| entry.gone_at);
        if action.op != Op::Replace
            && let Some(existing) = existing
        {
            let mut merged = existing.tree;
            overlay(&mut merged, tree);
            tree = merged;
        }
        let entry = Entry { tree, is_tracked, applied_at: Some(pass), gone_at };
        self.objects.insert(action.key.clone(), entry);
        Outcome::Done { message: text }
    }

    /// What the call says when it succeeds (ENG-180).
    fn text(&self, action: &Action) -> String {
        let verb = match action.op {
            Op::Update => return format!("{}/{} updated", action.key.kind, action.key.name),
            Op::ServerSideApply => "serverside-applied",
            Op::Replace => "replaced",
            _ => match (self.objects.get(&action.key), &action.manifest) {
                (Some(entry), Some(manifest))
                    if contains(&entry.tree, &manifest.to_value().unwrap_or_default()) =>
                {
                    "unchanged"
                }
                (Some(_), _) => "configured",
                (None, _) => "created",
            },
        };
        message::applied(&action.gvk, &action.key.name, verb)
    }

    fn delete(&mut self, pass: u64, key: &ResourceKey) -> Outcome {
        let further = self.model.deletion_passes.get(&key.to_string()).copied().unwrap_or(0);
        let Some(entry) = self.objects.get_mut(key) else { return Outcome::NotFound };
        if entry.gone_at.is_none() {
            entry.gone_at = Some(pass.saturating_add(further).saturating_add(1));
            let metadata = access::metadata_mut(&mut entry.tree);
            metadata.entry("deletionTimestamp").or_insert_with(|| json!("2000-01-01T00:00:00Z"));
        }
        Outcome::done()
    }

    /// Lets deletions and removals happen between this pass and the next.
    pub(super) fn end_pass(&mut self, pass: u64) {
        let next = pass.saturating_add(1);
        let removed = &self.model.removed_after_pass;
        self.objects.retain(|key, entry| {
            let is_held = access::at(&entry.tree, &["metadata", "finalizers"])
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().any(|name| name == finalizer::HOOK));
            let is_gone = entry.gone_at.is_some_and(|gone_at| gone_at <= next) && !is_held;
            !is_gone && removed.get(&key.to_string()) != Some(&pass)
        });
    }
}

impl Cluster for View<'_> {
    fn served(&self, gvk: &Gvk) -> Served {
        if self.unserved.contains(&gvk.group_kind().to_string()) {
            Served::No
        } else {
            Served::Yes { namespaced: is_namespaced(&self.scopes, &gvk.group, &gvk.kind) }
        }
    }

    fn permitted(&self, object: &Object, namespaced: bool) -> Result<(), String> {
        match self.denied.get(&object.gvk().group_kind().to_string()) {
            Some(text) => Err(text.clone()),
            None => (self.permit)(object, namespaced),
        }
    }

    fn health(&self, object: &Object) -> Result<Option<Health>, HealthError> {
        Ok(Some(
            self.health.get(&object.key()).cloned().unwrap_or_else(|| Health::new(HealthCode::Healthy, "")),
        ))
    }
}

fn is_namespaced(scopes: &BTreeMap<(String, String), bool>, group: &str, kind: &str) -> bool {
    match scopes.get(&(group.to_owned(), kind.to_owned())) {
        Some(namespaced) => *namespaced,
        None => !CLUSTER_SCOPED.contains(&(group, kind)),
    }
}

/// Lays `patch` over `tree`: objects member by member, everything else as a whole.
fn overlay(tree: &mut Value, patch: Value) {
    match (tree, patch) {
        (Value::Object(members), Value::Object(patch)) => {
            for (name, value) in patch {
                overlay(members.entry(name).or_insert_with(|| Value::Object(Map::new())), value);
            }
        }
        (tree, patch) => *tree = patch,
    }
}

/// Whether laying `part` over `whole` would change nothing.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value)))
        }
        (whole, part) => whole == part,
    }
}
