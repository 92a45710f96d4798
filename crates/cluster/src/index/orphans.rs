//! Objects of a namespace that nobody declares (REP-195, REP-196, TRK-90, TRK-135).

use std::collections::HashSet;

use tiphys_api::AppProject;
use tiphys_object::ResourceKey;
use tiphys_policy::project::{Candidate, is_orphan};

use super::record::NamespaceId;
use super::state::State;
use super::{ClusterIndex, TreeNode};

/// Beside whom orphans are looked for.
pub struct OrphanQuery<'a> {
    /// What decides which objects count.
    pub project: &'a AppProject,
    /// Where they are looked for.
    pub namespace: &'a str,
    /// Objects of the application; what is below them is the application's, too.
    pub roots: &'a [ResourceKey],
    /// Whether the project shows an object at all.
    pub is_visible: &'a dyn Fn(&ResourceKey) -> bool,
    /// Whether a mark names an application that exists.
    pub is_named: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for OrphanQuery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrphanQuery").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl ClusterIndex {
    /// The orphans beside an application with all that is below them, parents first. The cost is in proportion to the
    /// objects of the namespace. What the index does not know is not among them: ask [`ClusterIndex::managed`] first.
    pub fn orphans(&self, query: &OrphanQuery<'_>) -> Vec<TreeNode> {
        if query.namespace.is_empty() {
            return Vec::new();
        }
        // Objects of the application are never orphans, visible or not.
        let own = self.tree(query.roots, &|_| true);
        let own: HashSet<ResourceKey> = own.into_iter().map(|node| node.key).collect();
        let is_orphan = |node: &TreeNode| {
            let candidate = Candidate {
                key: &node.key,
                is_in_tree: own.contains(&node.key),
                has_application: node.claims.iter().any(|mark| (query.is_named)(mark)),
                is_visible: (query.is_visible)(&node.key),
            };
            is_orphan(query.project, &candidate)
        };
        let found = self.top_level(query.namespace).into_iter().filter(is_orphan);
        let orphans: Vec<ResourceKey> = found.map(|node| node.key).collect();
        let mut all = self.tree(&orphans, query.is_visible);
        all.retain(|node| !own.contains(&node.key));
        all
    }

    /// From now on it is told when an object of a namespace comes or goes that concerns no application (TRK-90).
    pub fn observe(&self, namespace: &str) {
        self.shared.state.lock().observe(namespace);
    }

    /// Nobody wants to know any more.
    pub fn observe_no_more(&self, namespace: &str) {
        let mut state = self.shared.state.lock();
        if let Some(id) = state.namespaces.id(namespace) {
            state.observed.remove(&id);
        }
    }
}

impl State {
    fn observe(&mut self, namespace: &str) {
        if !namespace.is_empty() {
            let id = self.namespaces.intern(namespace);
            self.observed.insert(id);
        }
    }

    /// Whether somebody wants to know of objects of a namespace that concern no application.
    pub(super) fn is_observed(&self, namespace: NamespaceId) -> bool {
        !self.observed.is_empty() && self.observed.contains(&namespace)
    }
}
