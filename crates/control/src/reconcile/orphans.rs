//! Objects of the destination namespace that nobody declares (REP-195..197, TRK-135).
//!
//! The cost is in proportion to the objects of that namespace, and nothing is read. What is not listed is not known:
//! then nothing is said, neither that there are orphans nor that there are none.

use std::collections::HashSet;

use jiff::Timestamp;
use tiphys_api::Application;
use tiphys_api::codes::ConditionType;
use tiphys_engine::tracking::Neighbours as _;
use tiphys_lifecycle::refresh_status::show_condition;
use tiphys_object::ResourceKey;
use tiphys_policy::project::{Candidate, is_orphan, monitors_orphans, orphan_warning};

use super::compare::{Compared, Subject};

/// Counts the orphans beside an application, and puts the warning about them into the status.
pub(super) fn show(subject: Subject<'_>, new: &mut Application, compared: &Compared, now: Timestamp) {
    let project = &subject.resolved.project;
    let is_monitored = monitors_orphans(project);
    let count = if is_monitored { count(subject, compared) } else { None };
    subject.cx.memory.lock().orphans = count;
    // Where nobody asks for a count, an earlier warning goes.
    if let Some(count) = count.or((!is_monitored).then_some(0)) {
        let warning = orphan_warning(project, count);
        show_condition(new, ConditionType::OrphanedResourceWarning, warning, now);
    }
}

/// Orphans and what is below them; `None` when not everything is known.
fn count(subject: Subject<'_>, compared: &Compared) -> Option<usize> {
    let index = &subject.resolved.destination.index;
    if compared.comparison.failed.is_some() {
        return None;
    }
    let known = index.managed(&[] as &[&str], &[]);
    let is_namespaced = |kind| subject.resolved.scope_of(kind) != Ok(false);
    // Marks that nobody looks for yet would make orphans of other applications' objects.
    let is_known = known.is_looked_for && known.cluster_error.is_none();
    if !is_known || known.incomplete.iter().any(|(kind, _)| is_namespaced(kind)) {
        return None;
    }
    let namespace = &subject.cx.app.spec.destination.namespace;
    if namespace.is_empty() {
        return Some(0);
    }
    let live = compared.comparison.resources.iter().filter_map(|resource| resource.live.as_ref());
    let roots: Vec<ResourceKey> = live.map(|object| object.key()).collect();
    let own: HashSet<ResourceKey> = index.tree(&roots).into_iter().map(|node| node.key).collect();
    let found = index.top_level(namespace).into_iter().filter(|node| {
        let candidate = Candidate {
            key: &node.key,
            is_in_tree: own.contains(&node.key),
            has_application: node.claims.iter().any(|mark| subject.cx.others.named_by(mark).is_some()),
            is_visible: subject.is_visible(&node.key),
        };
        is_orphan(&subject.resolved.project, &candidate)
    });
    let orphans: Vec<ResourceKey> = found.map(|node| node.key).collect();
    let all = index.tree(&orphans);
    Some(all.iter().filter(|node| !own.contains(&node.key) && subject.is_visible(&node.key)).count())
}
