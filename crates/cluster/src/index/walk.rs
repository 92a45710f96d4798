//! Walks along owners: trees below objects, and lineages above them, as far as they are visible (REP-153).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::ResourceKey;
use tiphys_object::host::{Amounts, Host, HostUse};

use super::record::{Derived, KindId, NamespaceId, Record, Slot};
use super::state::{OWNER_DEPTH_MAX, State};
use super::{ClusterIndex, TreeNode};

/// Nodes of one resource tree; the rest is not shown.
const TREE_NODES_MAX: usize = 100_000;

/// Visibility of objects during one walk. Of namespaced objects the kind and the namespace decide, so that each pair is
/// looked up once (REP-152, REP-153).
struct Sight<'a> {
    is_visible: &'a dyn Fn(&ResourceKey) -> bool,
    known: HashMap<(KindId, NamespaceId), bool>,
}

impl<'a> Sight<'a> {
    fn new(is_visible: &'a dyn Fn(&ResourceKey) -> bool) -> Self {
        Self { is_visible, known: HashMap::new() }
    }

    fn has(&mut self, state: &State, slot: &Slot) -> bool {
        if slot.namespace == NamespaceId::default() {
            return (self.is_visible)(&state.key(slot));
        }
        let decide = || (self.is_visible)(&state.key(slot));
        *self.known.entry((slot.kind, slot.namespace)).or_insert_with(decide)
    }
}

impl ClusterIndex {
    /// The given objects and everything below them that is visible, parents first; objects that do not exist are left out
    /// (ENG-29, ENG-196). Nothing is shown below an object that is not visible, unless another owner of it is (REP-153).
    pub fn tree(&self, roots: &[ResourceKey], is_visible: &dyn Fn(&ResourceKey) -> bool) -> Vec<TreeNode> {
        let state = self.shared.state.lock();
        let mut nodes = Vec::new();
        state.walk(roots, is_visible, |slot, record, is_root| nodes.push(state.node(slot, record, is_root)));
        nodes
    }

    /// An object with its owners and theirs, nearest first, as far as they are visible (REP-153). Empty if the object does
    /// not exist or is not visible. The cost is in proportion to the owners, not to the application.
    pub fn lineage(&self, key: &ResourceKey, is_visible: &dyn Fn(&ResourceKey) -> bool) -> Vec<TreeNode> {
        let state = self.shared.state.lock();
        let mut sight = Sight::new(is_visible);
        let (mut nodes, mut seen) = (Vec::new(), HashSet::new());
        let mut level: Vec<Slot> = state.slot(key).into_iter().collect();
        for _ in 0..OWNER_DEPTH_MAX {
            let mut above = Vec::new();
            for slot in level {
                let Some(record) = state.record(&slot) else { continue };
                if !seen.insert(slot.clone()) || !sight.has(&state, &slot) {
                    continue;
                }
                nodes.push(state.node(&slot, record, false));
                above.extend(state.owner_slots(&slot, record));
                above.extend(state.stateful_set_of(&slot));
            }
            if above.is_empty() {
                break;
            }
            level = above;
        }
        nodes
    }

    /// Details that were derived of everything visible below the given objects (ENG-202).
    pub fn derived_below(
        &self,
        roots: &[ResourceKey],
        is_visible: &dyn Fn(&ResourceKey) -> bool,
    ) -> Vec<(ResourceKey, Arc<Derived>)> {
        let state = self.shared.state.lock();
        let mut found = Vec::new();
        state.walk(roots, is_visible, |slot, record, is_root| {
            found.extend(record.derived().filter(|_| !is_root).map(|it| (state.key(slot), Arc::clone(it))));
        });
        found
    }

    /// The cluster's nodes with visible running Pods among the given objects and below them, by name (ENG-203). Capacity of
    /// a node and the requests of others on it are included only if the Node itself is visible.
    pub fn hosts(&self, roots: &[ResourceKey], is_visible: &dyn Fn(&ResourceKey) -> bool) -> Vec<HostUse> {
        let state = self.shared.state.lock();
        let mut found: BTreeMap<SmolStr, Amounts> = BTreeMap::new();
        state.walk(roots, is_visible, |_, record, _| {
            let host = record.derived().and_then(|derived| derived.host.as_deref());
            if let Some(Host::Guest { node, asks }) = host {
                let asked = found.entry(node.clone()).or_default();
                *asked = asked.with(*asks, i64::saturating_add);
            }
        });
        let key_of = |name: &SmolStr| ResourceKey::new("", "Node", "", name);
        let node_of = |name: &SmolStr| {
            let slot = state.slot(&key_of(name))?;
            match state.record(&slot)?.derived()?.host.as_deref()? {
                Host::Node { has, shown } => Some((*has, shown.clone())),
                Host::Guest { .. } => None,
            }
        };
        let host = |(name, asked)| {
            let is_seen = is_visible(&key_of(&name));
            let all = || state.asked.get(&name).copied().unwrap_or_default();
            let asked_by_all = if is_seen { all() } else { asked };
            HostUse { asked_by_all, node: node_of(&name).filter(|_| is_seen), name, asked }
        };
        found.into_iter().map(host).collect()
    }
}

impl State {
    /// Visits the given objects and all objects below them that are visible, each once, parents first.
    fn walk(
        &self,
        roots: &[ResourceKey],
        is_visible: &dyn Fn(&ResourceKey) -> bool,
        mut show: impl FnMut(&Slot, &Record, bool),
    ) {
        let mut sight = Sight::new(is_visible);
        let mut seen: HashSet<Slot> = HashSet::new();
        let mut shown = 0;
        let mut level: Vec<Slot> = roots.iter().filter_map(|key| self.slot(key)).collect();
        let roots: BTreeSet<Slot> = level.iter().cloned().collect();
        while !level.is_empty() && shown < TREE_NODES_MAX {
            let mut below = BTreeMap::new();
            for slot in level {
                if !seen.insert(slot.clone()) {
                    continue;
                }
                let Some(record) = self.record(&slot) else { continue };
                if !sight.has(self, &slot) {
                    continue;
                }
                show(&slot, record, roots.contains(&slot));
                shown += 1;
                for child in self.children_of(&slot, record) {
                    below.insert(self.key(&child), child);
                }
            }
            level = below.into_values().collect();
        }
    }
}
