//! In which order tasks run (ENG-151..154, appendix A).
//!
//! The order is total: phase, wave, kind rank, name, and for what remains group and namespace. On top of it a
//! Namespace and a CRD move before the first task that needs them, and prunes run backwards among themselves.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};
use tiphys_object::{Object, access};

use super::task::Task;
use crate::hook::{SyncPhase, Wave};

/// Kinds by rank inside a wave; kinds not listed come last (ENG-205: the group is not looked at).
const KINDS: [&str; 35] = [
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Rank of a kind inside a wave; smaller runs earlier.
pub fn kind_rank(kind: &str) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(KINDS.len())
}

/// Reverses the waves of prune tasks among themselves: the lowest trades places with the highest (ENG-154).
///
/// The result maps each distinct wave in `waves` to the wave its tasks run in.
pub fn mirror_prune_waves(waves: impl IntoIterator<Item = Wave>) -> BTreeMap<Wave, Wave> {
    let mut distinct: Vec<Wave> = waves.into_iter().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mirrored = distinct.iter().rev().copied();
    distinct.iter().copied().zip(mirrored).collect()
}

/// Gives prune tasks their waves (ENG-154). `prune_last` says whether a task is to be pruned last.
pub(super) fn assign_prune_waves(tasks: &mut [Task], prune_last: impl Fn(&Task) -> bool) {
    let mirrored = mirror_prune_waves(tasks.iter().filter(|task| task.is_prune()).map(|task| task.wave));
    for task in tasks.iter_mut().filter(|task| task.is_prune()) {
        if let Some(wave) = mirrored.get(&task.wave) {
            task.wave = *wave;
        }
    }
    let highest = tasks.iter().filter(|task| task.phase == SyncPhase::Sync).map(|task| task.wave.0).max();
    let last = Wave(highest.unwrap_or(0).max(0).saturating_add(1));
    for task in tasks.iter_mut().filter(|task| task.is_prune() && prune_last(task)) {
        task.wave = last;
    }
}

/// Sorts tasks and moves dependencies to the front of what needs them (ENG-151, ENG-152).
pub(super) fn sort(tasks: &mut Vec<Task>) {
    tasks.sort_by(compare);
    move_dependencies(tasks, namespace_name, |task| Some(task.record_namespace.clone()));
    move_dependencies(tasks, defined_kind, |task| {
        Some(format_smolstr!("{}/{}", task.gvk.group, task.gvk.kind))
    });
}

fn compare(a: &Task, b: &Task) -> Ordering {
    (a.phase, a.wave, kind_rank(&a.gvk.kind), &a.key.name, &a.key.group, &a.record_namespace).cmp(&(
        b.phase,
        b.wave,
        kind_rank(&b.gvk.kind),
        &b.key.name,
        &b.key.group,
        &b.record_namespace,
    ))
}

/// The namespace that a task's target makes, if it makes one.
fn namespace_name(task: &Task) -> Option<SmolStr> {
    (task.gvk.group.is_empty() && task.gvk.kind == "Namespace").then(|| task.key.name.clone())
}

/// `group/Kind` that a task's target defines, if it is a CRD.
fn defined_kind(task: &Task) -> Option<SmolStr> {
    task.target.as_deref().and_then(crd_kind)
}

/// `group/Kind` that a CRD defines.
pub(super) fn crd_kind(object: &Object) -> Option<SmolStr> {
    if !is_crd(object) {
        return None;
    }
    let tree = object.to_value().ok()?;
    let part = |path: &[&str]| access::at(&tree, path).and_then(Value::as_str).map(str::to_owned);
    Some(format_smolstr!("{}/{}", part(&["spec", "group"])?, part(&["spec", "names", "kind"])?))
}

/// Whether an object is a CRD.
pub(super) fn is_crd(object: &Object) -> bool {
    object.gvk().group == "apiextensions.k8s.io" && object.gvk().kind == "CustomResourceDefinition"
}

/// Moves each task that `provides` a name directly before the first task that `needs` it, into that task's
/// phase and wave.
fn move_dependencies(
    tasks: &mut Vec<Task>,
    provides: impl Fn(&Task) -> Option<SmolStr>,
    needs: impl Fn(&Task) -> Option<SmolStr>,
) {
    let mut first_need: BTreeMap<SmolStr, usize> = BTreeMap::new();
    for index in 0..tasks.len() {
        let Some(task) = tasks.get(index).filter(|task| task.target.is_some()) else { continue };
        if let Some(name) = provides(task) {
            let Some(&first) = first_need.get(&name) else { continue };
            let Some((phase, wave)) = tasks.get(first).map(|needing| (needing.phase, needing.wave)) else {
                continue;
            };
            let mut moved = tasks.remove(index);
            moved.phase = phase;
            moved.wave = wave;
            tasks.insert(first, moved);
            for position in first_need.values_mut().filter(|position| **position >= first) {
                *position += 1;
            }
        } else if let Some(name) = needs(task) {
            first_need.entry(name).or_insert(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(waves: &[i64]) -> Vec<(i64, i64)> {
        let waves = waves.iter().copied().map(Wave);
        mirror_prune_waves(waves).into_iter().map(|(from, to)| (from.0, to.0)).collect()
    }

    #[test]
    fn eng_154_prunes_run_in_reverse() {
        assert_eq!(mirror(&[0, 5, -1, 5]), [(-1, 5), (0, 0), (5, -1)]);
        assert_eq!(mirror(&[0, 2]), [(0, 2), (2, 0)]);
        assert_eq!(mirror(&[]), []);
    }

    #[test]
    fn eng_205_rank_looks_at_the_kind_only_and_unknown_kinds_come_last() {
        assert_eq!(kind_rank("Namespace"), 0);
        assert!(kind_rank("Secret") < kind_rank("ConfigMap"));
        assert!(kind_rank("APIService") < kind_rank("Widget"));
        assert_eq!(kind_rank("Widget"), kind_rank("Gadget"));
    }
}
