//! Decides which objects of an application its callers may see, and is the only access to them (INV-6, CTL-72, REP-153).
//!
//! An object is visible if the project permits it, by kind, namespace and cluster, and if it is owned by the application's
//! tracking metadata, declared by the rendering that was compared, or below such an object with every owner in between
//! permitted too. A matching label proves nothing about objects of other projects, and `status.resources` proves nothing
//! at all: it is not read here.
//!
//! Reads, streams and changes of one object take a [`VisibleNode`], which only this module makes.

use std::collections::HashSet;
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_cluster::{ApiError, Managed, OrphanQuery, Target, TreeNode};
use tiphys_engine::tracking::{Neighbours as _, Ownership, Previous};
use tiphys_object::host::HostUse;
use tiphys_object::{GroupKind, Gvk, Object, ResourceKey};
use tiphys_policy::project::monitors_orphans;

use super::compare::{self, Compared, Subject, is_declared};
use super::desired;
use super::load::AppContext;
use super::resolve::Resolved;
use super::shown::{ShowError, compared_revisions, wanted};
use crate::memory::Targets;

/// Object that callers of the application may see, as of the index. Only this module creates it.
pub(super) struct VisibleNode {
    node: TreeNode,
    /// Whether the application manages it directly, not through an owner.
    is_root: bool,
}

impl VisibleNode {
    /// The object's place in the tree.
    pub(super) fn as_node(&self) -> &TreeNode {
        &self.node
    }

    pub(super) fn key(&self) -> &ResourceKey {
        &self.node.key
    }

    /// Whether the application manages it directly (API-145).
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Target for reads and writes.
    pub(super) fn target(&self) -> Target {
        let ResourceKey { group, kind, namespace, name } = &self.node.key;
        Target::new(Gvk::new(group, &self.node.version, kind), namespace, name)
    }
}

/// Decides which objects of an application are visible.
pub(super) struct VisibleObjects<'a> {
    subject: Subject<'a>,
    previous: Previous,
}

/// Targets whose keys a lookup accepts besides those of owned objects.
type Declared<'t> = Option<&'t Targets>;

impl<'a> VisibleObjects<'a> {
    pub(super) fn of(cx: &'a AppContext<'a>, resolved: &'a Resolved) -> Self {
        Self { subject: Subject { cx, resolved }, previous: cx.previous() }
    }

    fn ownership(&self) -> Ownership<'_> {
        self.subject.cx.ownership(&self.previous)
    }

    /// Finds an object by its key.
    ///
    /// # Errors
    /// `NotFound` for missing and for hidden objects alike; `Unavailable` if the answer is unknown at the moment.
    pub(super) async fn find(&self, named: &ResourceKey) -> Result<VisibleNode, ShowError> {
        let lineage = self.lineage(named);
        if let Some(found) = self.among(&lineage, None) {
            return Ok(found);
        }
        // Declaring a missing object does not make it visible.
        if lineage.is_empty() {
            self.check_known(&named.group_kind())?;
            return Err(missing(self.subject.cx, named));
        }
        let targets = self.targets().await?;
        let found = self.among(&lineage, Some(&targets)).or_else(|| {
            // Owner references with another group or version resolve only downwards from the roots.
            self.below(Some(&targets)).into_iter().find(|node| node.key() == named)
        });
        if let Some(found) = found {
            return Ok(found);
        }
        self.check_known(&named.group_kind())?;
        Err(missing(self.subject.cx, named))
    }

    /// All visible objects, parents first.
    ///
    /// # Errors
    /// If the declared objects, or the live objects of `kind`, are unknown.
    pub(super) async fn all(&self, kind: Option<&GroupKind>) -> Result<Vec<VisibleNode>, ShowError> {
        kind.map_or(Ok(()), |kind| self.check_known(kind))?;
        match self.targets().await {
            Ok(targets) => Ok(self.below(Some(&targets))),
            // Synced objects have tracking metadata, so they do not need the source.
            Err(error) => Some(self.below(None)).filter(|found| !found.is_empty()).ok_or(error),
        }
    }

    /// The visible objects of a comparison and below them, parents first.
    pub(super) fn of_comparison(&self, compared: &Compared) -> Vec<VisibleNode> {
        let live = compared.comparison.resources.iter().filter_map(|resource| resource.live.as_ref());
        self.tree(&live.map(|live| live.key()).collect::<Vec<_>>())
    }

    /// Visible objects next to the given ones that no application declares, if the project monitors orphans.
    pub(super) fn orphans(&self, nodes: &[VisibleNode]) -> Vec<VisibleNode> {
        let Subject { cx, resolved } = self.subject;
        if !monitors_orphans(&resolved.project) {
            return Vec::new();
        }
        let roots: Vec<ResourceKey> =
            nodes.iter().filter(|node| node.is_root).map(|node| node.key().clone()).collect();
        let query = OrphanQuery {
            project: &resolved.project,
            namespace: &cx.app.spec.destination.namespace,
            roots: &roots,
            is_visible: &|key| self.subject.is_visible(key),
            is_named: &|mark| cx.others.named_by(mark).is_some(),
        };
        let found = resolved.destination.index.orphans(&query);
        found.into_iter().map(|node| VisibleNode { node, is_root: false }).collect()
    }

    /// The nodes of the cluster that run visible Pods below some of the application's objects (ENG-203).
    pub(super) fn hosts(&self, nodes: &[VisibleNode]) -> Vec<HostUse> {
        let roots = nodes.iter().filter(|node| node.is_root).map(|node| node.key().clone());
        let index = &self.subject.resolved.destination.index;
        index.hosts(&roots.collect::<Vec<_>>(), &|key| self.subject.is_visible(key))
    }

    /// Reads a visible object.
    ///
    /// # Errors
    /// If it cannot be read, or was replaced by an object that does not belong to the application.
    pub(super) async fn read(&self, found: &VisibleNode) -> Result<Arc<Object>, ShowError> {
        let destination = &self.subject.resolved.destination;
        let read = destination.index.live(&destination.writer, &found.target()).await;
        let object = read.map_err(|error| ShowError::Unavailable(error.to_string()))?;
        let object = object.filter(|object| self.is_same(found, object));
        object.ok_or_else(|| missing(self.subject.cx, found.key()))
    }

    /// Reads a visible object from the API server in the version of `target`, with the managed fields of `managers`. `None`
    /// if it was deleted, or replaced by an object that does not belong to the application.
    ///
    /// # Errors
    /// Errors of the cluster.
    pub(super) async fn read_with_books(
        &self,
        found: &VisibleNode,
        target: &Target,
        managers: &[SmolStr],
    ) -> Result<Option<Arc<Object>>, ApiError> {
        let writer = &self.subject.resolved.destination.writer;
        let object = writer.get_with_books(target, managers).await?;
        Ok(object.filter(|object| self.is_same(found, object)))
    }

    /// Whether an object that was read is the visible one. A replacement counts only if it has the tracking metadata itself
    /// or the application declares its key.
    pub(super) fn is_same(&self, found: &VisibleNode, object: &Object) -> bool {
        let is_declared = || {
            let targets = self.subject.cx.memory.lock().targets.clone();
            targets.is_some_and(|targets| self.is_declared(&targets, found.key()))
        };
        object.metadata().uid == found.node.uid || self.is_owned(object) || (found.is_root && is_declared())
    }

    fn lineage(&self, key: &ResourceKey) -> Vec<TreeNode> {
        let index = &self.subject.resolved.destination.index;
        index.lineage(key, &|key| self.subject.is_visible(key))
    }

    /// First object of a lineage, if the lineage contains a root.
    fn among(&self, lineage: &[TreeNode], declared: Declared<'_>) -> Option<VisibleNode> {
        let is_root = |node: &TreeNode| {
            node.object.as_deref().is_some_and(|object| self.is_owned(object))
                || declared.is_some_and(|targets| self.is_declared(targets, &node.key))
        };
        let first = lineage.first()?;
        lineage.iter().any(is_root).then(|| VisibleNode { node: first.clone(), is_root: is_root(first) })
    }

    /// Whether an object without owners has the application's tracking metadata.
    fn is_owned(&self, object: &Object) -> bool {
        object.metadata().owner_references.is_empty() && self.ownership().owns(object)
    }

    fn is_declared(&self, targets: &Targets, key: &ResourceKey) -> bool {
        is_declared(targets, &self.subject.cx.app.spec.destination.namespace, key)
    }

    /// All roots that exist, and everything below them.
    fn below(&self, declared: Declared<'_>) -> Vec<VisibleNode> {
        let owned = compare::managed(self.subject, &self.ownership(), &self.ownership().ways());
        let mut roots: Vec<ResourceKey> = owned.objects.iter().map(|object| object.key()).collect();
        let namespace = &self.subject.cx.app.spec.destination.namespace;
        roots.extend(declared.iter().flat_map(|targets| compare::declared_keys(targets, namespace)));
        self.tree(&roots)
    }

    fn tree(&self, roots: &[ResourceKey]) -> Vec<VisibleNode> {
        let index = &self.subject.resolved.destination.index;
        let nodes = index.tree(roots, &|key| self.subject.is_visible(key));
        let roots: HashSet<&ResourceKey> = roots.iter().collect();
        let visible = |node: TreeNode| VisibleNode { is_root: roots.contains(&node.key), node };
        nodes.into_iter().map(visible).collect()
    }

    /// The targets of the last comparison; without one, those at the revisions that the status names.
    async fn targets(&self) -> Result<Targets, ShowError> {
        let Subject { cx, resolved } = self.subject;
        if let Some(targets) = cx.memory.lock().targets.clone() {
            return Ok(targets);
        }
        let revisions = compared_revisions(cx);
        let targets = desired::load(cx, resolved, wanted(cx, &revisions)).await?;
        // Only in the memory of this request.
        cx.memory.lock().targets = Some(targets.clone());
        Ok(targets)
    }

    /// Checks that the index is complete for a kind: otherwise "not found" would be a guess (INV-15).
    fn check_known(&self, kind: &GroupKind) -> Result<(), ShowError> {
        let Subject { cx, resolved } = self.subject;
        let ways = cx.ways_read(&self.ownership());
        let known = resolved.destination.index.managed(&[] as &[&str], &ways);
        let Managed { cluster_error, is_looked_for, incomplete, .. } = known;
        let unknown = incomplete.into_iter().find(|(incomplete, _)| incomplete == kind);
        let why = match (cluster_error, unknown) {
            (Some(why), _) => why,
            (None, Some((kind, why))) => format!("{kind}: {why}"),
            (None, None) if !is_looked_for => "the live objects are being listed anew".to_owned(),
            (None, None) => return Ok(()),
        };
        Err(ShowError::Unavailable(why))
    }
}

/// The answer for an object that does not exist or may not be seen.
pub(super) fn missing(cx: &AppContext<'_>, named: &ResourceKey) -> ShowError {
    let ResourceKey { group, kind, name, .. } = named;
    ShowError::NotFound(format!("{kind} {group} {name} not found as part of application {}", cx.key.name))
}
