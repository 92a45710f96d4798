//! Objects of the destination namespace that nobody declares (REP-195..197, TRK-135).
//!
//! The cost is in proportion to the objects of that namespace, and nothing is read. What is not listed is not known:
//! then nothing is said, neither that there are orphans nor that there are none.

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::codes::ConditionType;
use tiphys_cluster::OrphanQuery;
use tiphys_engine::tracking::Neighbours as _;
use tiphys_lifecycle::refresh_status::show_condition;
use tiphys_object::ResourceKey;
use tiphys_policy::project::{monitors_orphans, orphan_warning};

use super::compare::{Compared, Subject};

/// Counts the orphans beside an application, and puts the warning about them into the status.
pub(super) fn show(subject: Subject<'_>, new: &mut Application, compared: &Compared, now: Timestamp) {
    let project = &subject.resolved.project;
    let is_monitored = monitors_orphans(project);
    follow(subject, is_monitored);
    let count = if is_monitored { count(subject, compared) } else { None };
    subject.cx.memory.lock().orphans = count;
    // Where nobody asks for a count, an earlier warning goes.
    if let Some(count) = count.or((!is_monitored).then_some(0)) {
        let warning = orphan_warning(project, count);
        show_condition(new, ConditionType::OrphanedResourceWarning, warning, now);
    }
}

/// Has the application told of strangers that come or go from now on; before they are counted, so that none is missed
/// (TRK-90).
fn follow(subject: Subject<'_>, is_monitored: bool) {
    let destination = &subject.resolved.destination;
    let namespace = &subject.cx.app.spec.destination.namespace;
    let is_somewhere = is_monitored && !namespace.is_empty();
    let place = is_somewhere.then(|| (destination.cluster.key(), SmolStr::new(namespace)));
    subject.cx.controller.monitors.set(&subject.cx.key, place);
    if is_somewhere {
        destination.index.observe(namespace);
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
    let live = compared.comparison.resources.iter().filter_map(|resource| resource.live.as_ref());
    let roots: Vec<ResourceKey> = live.map(|object| object.key()).collect();
    let orphans = index.orphans(&OrphanQuery {
        project: &subject.resolved.project,
        namespace: &subject.cx.app.spec.destination.namespace,
        roots: &roots,
        is_visible: &|key| subject.is_visible(key),
        is_named: &|mark| subject.cx.others.named_by(mark).is_some(),
    });
    Some(orphans.len())
}
