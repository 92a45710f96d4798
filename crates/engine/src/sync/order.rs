//! In which order tasks run (ENG-151..154, appendix A).
//!
//! The order is total: phase, wave, kind rank, name, and for what remains group and namespace. On top of it a
//! Namespace and a CRD move before the first task that needs them, and prunes run backwards among themselves.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

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
    let mut first_need: HashMap<SmolStr, usize> = HashMap::new();
    // Which tasks move, and before which one.
    let mut moves: Vec<(usize, usize)> = Vec::new();
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.target.is_some()) {
        if let Some(name) = provides(task) {
            moves.extend(first_need.get(&name).map(|first| (*first, index)));
        } else if let Some(name) = needs(task) {
            first_need.entry(name).or_insert(index);
        }
    }
    if moves.is_empty() {
        return;
    }
    // All at once: there may be as many as tasks, and each one alone would shift all tasks behind it.
    let mut waiting: Vec<Option<Task>> = std::mem::take(tasks).into_iter().map(Some).collect();
    let mut moved: HashMap<usize, Vec<Task>> = HashMap::new();
    for (first, index) in moves {
        let Some((phase, wave)) =
            waiting.get(first).and_then(Option::as_ref).map(|needing| (needing.phase, needing.wave))
        else {
            continue;
        };
        if let Some(task) = waiting.get_mut(index).and_then(Option::take) {
            moved.entry(first).or_default().push(Task { phase, wave, ..task });
        }
    }
    for (index, task) in waiting.into_iter().enumerate() {
        tasks.extend(moved.remove(&index).into_iter().flatten());
        tasks.extend(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;
    use std::sync::Arc;

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

    fn task(kind: &str, name: &str, namespace: &str, wave: i64) -> Task {
        let manifest =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let target = Arc::new(Object::from_value(&manifest).unwrap());
        Task {
            phase: SyncPhase::Sync,
            wave: Wave(wave),
            gvk: target.gvk().clone(),
            key: target.key(),
            record_namespace: namespace.into(),
            target: Some(target),
            live: None,
            hook: false,
            delete_policies: BTreeSet::new(),
            skip_dry_run: false,
            modified: true,
            code: None,
            state: None,
            message: String::new(),
        }
    }

    #[test]
    fn eng_152_a_namespace_moves_before_the_first_task_that_needs_it() {
        let mut tasks = vec![
            task("Secret", "x", "b", 0),
            task("Secret", "y", "a", 1),
            task("Secret", "z", "b", 1),
            task("Namespace", "a", "", 2),
            task("Namespace", "b", "", 3),
            task("Namespace", "b", "again", 4),
            task("Namespace", "c", "", 5),
        ];
        sort(&mut tasks);
        let order: Vec<_> = tasks.iter().map(|task| (task.key.name.as_str(), task.wave.0)).collect();
        assert_eq!(order, [("b", 0), ("b", 0), ("x", 0), ("a", 1), ("y", 1), ("z", 1), ("c", 5)]);
    }

    /// Each of these namespaces has to move, and each one alone shifted all tasks behind it: terabytes.
    #[test]
    fn sec_07_many_dependencies_move_at_once() {
        const MANY: usize = 50_000;
        let names: Vec<String> = (0..MANY).map(|number| format!("n{number:06}")).collect();
        let needing = names.iter().map(|name| task("Secret", "s", name, 0));
        let mut tasks: Vec<Task> =
            needing.chain(names.iter().map(|name| task("Namespace", name, "", 1))).collect();
        sort(&mut tasks);
        let pairs = tasks.chunks(2).zip(&names);
        assert!(pairs.into_iter().all(|(pair, name)| match pair {
            [first, second] =>
                first.key.name == *name && second.record_namespace == *name && first.wave.0 == 0,
            _ => false,
        }));
    }

    #[test]
    fn eng_205_rank_looks_at_the_kind_only_and_unknown_kinds_come_last() {
        assert_eq!(kind_rank("Namespace"), 0);
        assert!(kind_rank("Secret") < kind_rank("ConfigMap"));
        assert!(kind_rank("APIService") < kind_rank("Widget"));
        assert_eq!(kind_rank("Widget"), kind_rank("Gadget"));
    }
}
