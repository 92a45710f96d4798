//! Questions to the index. All are answered from memory, at a cost proportional to the answer.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::{GroupKind, Object, ResourceKey};

use super::record::{Derived, KindId, NamespaceId, Record, Slot};
use super::state::{KindStore, Parent, State};
use super::{ClusterIndex, KindState};

/// The live objects of one application, and what is not known.
#[derive(Clone, Debug, Default)]
pub struct Managed {
    /// Objects that carry the application's tracking value and have no owner, by key.
    pub objects: Vec<Arc<Object>>,
    /// Objects of the application that exist and cannot be read, with the reasons. They are neither missing nor may
    /// they be pruned.
    pub unreadable: Vec<(ResourceKey, String)>,
    /// Kinds of which not everything is known, with the reason. Nothing of such a kind may be pruned.
    pub incomplete: Vec<(GroupKind, String)>,
    /// Why the cluster as a whole is unknown; then `objects` may lack anything.
    pub cluster_error: Option<String>,
    /// Whether objects are looked for in every way asked for, in lists that were made since that is so. Otherwise ask
    /// again soon: `objects` may lack anything.
    pub is_looked_for: bool,
}

/// What the index can say about one object.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It exists, like this.
    Present(Arc<Object>),
    /// It exists; its text has to be read from the API server.
    Reference {
        /// Uid of the object.
        uid: SmolStr,
        /// Version of the object.
        resource_version: SmolStr,
    },
    /// It does not exist: its kind is complete and it is not there.
    Absent,
    /// It cannot be said, for this reason.
    Unknown(String),
}

/// One object of a resource tree.
#[derive(Clone, Debug)]
pub struct TreeNode {
    /// The object.
    pub key: ResourceKey,
    /// API version it was read in.
    pub version: SmolStr,
    /// Uid, as the server wrote it.
    pub uid: SmolStr,
    /// Version of the object.
    pub resource_version: SmolStr,
    /// Creation time in seconds since 1970, 0 when unknown.
    pub created_seconds: i64,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Its owners that exist; empty for roots.
    pub parents: Vec<ParentRef>,
    /// By what it names its owner itself.
    pub claims: Vec<SmolStr>,
    /// Its text, where the index keeps it.
    pub object: Option<Arc<Object>>,
    /// Health and details, where they were derived.
    pub derived: Option<Arc<Derived>>,
}

/// An owner of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRef {
    /// The owner.
    pub key: ResourceKey,
    /// Its uid.
    pub uid: SmolStr,
}

impl ClusterIndex {
    /// The live objects of an application by the marks that name it (ENG-25).
    ///
    /// `ways` are those in which they are marked ([`Claims::ways`](super::Claims)).
    pub fn managed(&self, marks: &[impl Borrow<str>], ways: &[u64]) -> Managed {
        let cluster_error = {
            let status = self.shared.status.lock();
            if status.is_planned {
                None
            } else {
                status.error.clone().or(Some("not discovered yet".to_owned()))
            }
        };
        let state = self.shared.state.lock();
        let is_looked_for = state.is_claimed_anew() && ways.iter().all(|way| state.claims.ways.contains(way));
        let mut objects: Vec<Arc<Object>> = Vec::new();
        let mut unreadable = Vec::new();
        let slots: BTreeSet<&Slot> =
            marks.iter().filter_map(|mark| state.claimed.get(mark.borrow())).flatten().collect();
        for slot in slots {
            let Some(record) = state.record(slot) else { continue };
            if let Some(why) = record.unreadable().filter(|_| record.owners.is_empty()) {
                unreadable.push((state.key(slot), existing(why)));
            } else if !has_real_owner(record)
                && let Some(object) = record.object()
            {
                objects.push(Arc::clone(object));
            }
        }
        objects.sort_by_cached_key(|object| object.key());
        let mut incomplete: Vec<(GroupKind, String)> = Vec::new();
        for store in &state.kinds {
            match store.state() {
                None | Some(KindState::Complete { .. }) => {}
                Some(KindState::Pending) => {
                    incomplete.push((store.group_kind.clone(), "not listed yet".to_owned()));
                }
                Some(KindState::Failed { reason }) => incomplete.push((store.group_kind.clone(), reason)),
            }
        }
        incomplete.sort();
        Managed { objects, unreadable, incomplete, cluster_error, is_looked_for }
    }

    /// What is known of one object.
    pub fn get(&self, key: &ResourceKey) -> Seen {
        let state = self.shared.state.lock();
        let record = state.slot(key).and_then(|slot| state.record(&slot));
        if let Some(record) = record {
            return match (record.object(), record.unreadable()) {
                (Some(object), _) => Seen::Present(Arc::clone(object)),
                (None, Some(why)) => Seen::Unknown(existing(why)),
                (None, None) => {
                    Seen::Reference { uid: record.uid.text(), resource_version: record.version.clone() }
                }
            };
        }
        let store = state.kind_id(&key.group_kind()).and_then(|kind| state.store(kind));
        match store.and_then(|store| state_in(store, &key.namespace)) {
            Some(KindState::Complete { .. }) => Seen::Absent,
            Some(KindState::Pending) => Seen::Unknown("not listed yet".to_owned()),
            Some(KindState::Failed { reason }) => Seen::Unknown(reason),
            None => Seen::Unknown("not watched".to_owned()),
        }
    }

    /// Objects that should be kept in full and cannot be read, with the reasons.
    pub fn unreadable(&self) -> Vec<(ResourceKey, String)> {
        let state = self.shared.state.lock();
        let why =
            |slot| state.record(slot).and_then(|record| record.unreadable()).unwrap_or_default().to_owned();
        state.unreadable.iter().map(|slot| (state.key(slot), why(slot))).collect()
    }

    /// State of one kind; `None` when it is not watched.
    pub fn kind_state(&self, group_kind: &GroupKind) -> Option<KindState> {
        let state = self.shared.state.lock();
        state.kind_id(group_kind).and_then(|kind| state.store(kind)).and_then(KindStore::state)
    }

    /// Whom an object concerns, by itself or through its owners (ENG-30).
    pub fn applications_of(&self, key: &ResourceKey) -> BTreeSet<SmolStr> {
        let state = self.shared.state.lock();
        state.slot(key).map(|slot| state.applications(&slot)).unwrap_or_default()
    }

    /// Objects of a namespace that have no owner, by key (ENG-198). Cluster-scoped ones with an empty name.
    pub fn top_level(&self, namespace: &str) -> Vec<TreeNode> {
        let state = self.shared.state.lock();
        let Some(id) = state.namespaces.id(namespace) else { return Vec::new() };
        let mut nodes = Vec::new();
        for (number, store) in state.kinds.iter().enumerate() {
            let Ok(number) = u32::try_from(number) else { break };
            for ((namespace, name), record) in in_namespace(store, id) {
                if record.owners.is_empty() {
                    let slot = Slot { kind: KindId(number), namespace: *namespace, name: name.clone() };
                    nodes.push(state.node(&slot, record, true));
                }
            }
        }
        nodes.sort_by(|a, b| a.key.cmp(&b.key));
        nodes
    }

    /// Every object of one kind, by key.
    pub fn of_kind(&self, group_kind: &GroupKind) -> Vec<TreeNode> {
        let state = self.shared.state.lock();
        let Some(kind) = state.kind_id(group_kind) else { return Vec::new() };
        let Some(store) = state.store(kind) else { return Vec::new() };
        let node = |((namespace, name), record): (&(NamespaceId, SmolStr), &Record)| {
            let slot = Slot { kind, namespace: *namespace, name: name.clone() };
            state.node(&slot, record, false)
        };
        let mut nodes: Vec<TreeNode> = store.objects.iter().map(node).collect();
        nodes.sort_by(|a, b| a.key.cmp(&b.key));
        nodes
    }
}

fn existing(why: &str) -> String {
    format!("it exists and cannot be read: {why}")
}

/// In namespaced mode the watch of the object's namespace decides; another namespace is unknown (ENG-22).
fn state_in(store: &KindStore, namespace: &str) -> Option<KindState> {
    let watch = store.watches.get("").or_else(|| store.watches.get(namespace));
    watch.map(|watch| watch.state.clone())
}

fn has_real_owner(record: &Record) -> bool {
    record.object().is_none_or(|object| !object.metadata().owner_references.is_empty())
}

fn in_namespace(
    store: &KindStore,
    id: NamespaceId,
) -> impl Iterator<Item = (&(NamespaceId, SmolStr), &Record)> {
    let from = (id, SmolStr::default());
    store.objects.range(from..).take_while(move |((namespace, _), _)| *namespace == id)
}

impl State {
    pub(super) fn record_mut(&mut self, slot: &Slot) -> Option<&mut Record> {
        self.store_mut(slot.kind)?.objects.get_mut(&(slot.namespace, slot.name.clone()))
    }

    pub(super) fn node(&self, slot: &Slot, record: &Record, is_root: bool) -> TreeNode {
        let parents = if is_root {
            Vec::new()
        } else {
            let mut owners = self.owner_slots(slot, record);
            owners.extend(self.stateful_set_of(slot));
            let parent = |owner: &Slot| {
                let uid = self.record(owner).map(|record| record.uid.text()).unwrap_or_default();
                ParentRef { key: self.key(owner), uid }
            };
            owners.iter().map(parent).collect()
        };
        TreeNode {
            key: self.key(slot),
            version: self.store(slot.kind).map(|store| store.version.clone()).unwrap_or_default(),
            uid: record.uid.text(),
            resource_version: record.version.clone(),
            created_seconds: record.created,
            is_terminating: record.is_terminating,
            parents,
            claims: record.claims().to_vec(),
            object: record.object().cloned(),
            derived: record.derived().cloned(),
        }
    }

    /// Children by uid or by name, inside the namespace of their parent unless it has none (ENG-29).
    pub(super) fn children_of(&self, slot: &Slot, record: &Record) -> Vec<Slot> {
        let by_uid = self.children.get(&Parent::Uid(record.uid.clone()));
        let by_name = self.children.get(&Parent::Named(slot.clone()));
        let is_inside =
            |child: &&Slot| slot.namespace == NamespaceId::default() || child.namespace == slot.namespace;
        let mut children: Vec<Slot> =
            by_uid.into_iter().chain(by_name).flatten().filter(is_inside).cloned().collect();
        children.extend(self.volume_claims_of(slot, record));
        children
    }

    /// Volume claims that a stateful set made, which carry no owner reference (ENG-27, ENG-28).
    fn volume_claims_of(&self, slot: &Slot, record: &Record) -> Vec<Slot> {
        let Some(templates) = self.claim_templates(slot, record) else { return Vec::new() };
        let claims = GroupKind::new("", "PersistentVolumeClaim");
        let Some(kind) = self.kind_id(&claims) else { return Vec::new() };
        let Some(store) = self.store(kind) else { return Vec::new() };
        in_namespace(store, slot.namespace)
            .filter(|((_, name), record)| {
                record.owners.is_empty() && is_claim_of(name, &templates, &slot.name)
            })
            .map(|((namespace, name), _)| Slot { kind, namespace: *namespace, name: name.clone() })
            .collect()
    }

    /// The stateful set that made a volume claim without owners.
    pub(super) fn stateful_set_of(&self, slot: &Slot) -> Option<Slot> {
        let store = self.store(slot.kind)?;
        let is_claim = store.group_kind.group.is_empty() && store.group_kind.kind == "PersistentVolumeClaim";
        if !is_claim || !self.record(slot)?.owners.is_empty() {
            return None;
        }
        let kind = self.kind_id(&GroupKind::new("apps", "StatefulSet"))?;
        in_namespace(self.store(kind)?, slot.namespace).find_map(|((namespace, name), record)| {
            let set = Slot { kind, namespace: *namespace, name: name.clone() };
            let templates = self.claim_templates(&set, record)?;
            is_claim_of(&slot.name, &templates, name).then_some(set)
        })
    }

    /// Names of a stateful set's claim templates, as far as its text is kept.
    fn claim_templates(&self, slot: &Slot, record: &Record) -> Option<Vec<String>> {
        let kind = &self.store(slot.kind)?.group_kind;
        if kind.kind != "StatefulSet" || kind.group != "apps" {
            return None;
        }
        let value = record.object()?.to_value().ok()?;
        let templates = value.get("spec")?.get("volumeClaimTemplates")?.as_array()?;
        Some(templates.iter().map(|template| tiphys_object::access::name(template).to_owned()).collect())
    }
}

/// Whether a name is `<template>-<set>-<digits>`, matched from end to end (ENG-28).
fn is_claim_of(name: &str, templates: &[String], set: &str) -> bool {
    templates.iter().any(|template| {
        name.strip_prefix(template.as_str())
            .and_then(|rest| rest.strip_prefix('-')?.strip_prefix(set)?.strip_prefix('-'))
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_28_claim_names_match_from_end_to_end() {
        let templates = ["data".to_owned()];
        assert!(is_claim_of("data-web-0", &templates, "web"));
        assert!(!is_claim_of("x-data-web-0", &templates, "web"));
        assert!(!is_claim_of("data-web-0a", &templates, "web"));
        assert!(!is_claim_of("data-web-", &templates, "web"));
    }
}
