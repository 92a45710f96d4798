//! Builds the tasks of a pass from the facts (ENG-155..159).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};
use tiphys_api::application::SyncOperation;
use tiphys_api::codes::ResultCode;
use tiphys_api::names::{annotation, finalizer};
use tiphys_object::{Gvk, Object, ResourceKey, access};

use super::action::{Action, Op, OperationPhase};
use super::facts::{Cluster, Served, SyncFacts, SyncPair};
use super::message;
use super::options::{Options, object_has};
use super::order;
use super::task::{Ledger, Task, operation_id};
use crate::hook::{HookDeletePolicy, Role, SyncPhase, Wave};

/// What is known about the destination namespace (ENG-157).
#[derive(Clone, Debug)]
pub(super) enum NamespaceFound {
    /// It is none of our business.
    NotAsked,
    Absent,
    Present(Arc<Object>),
    /// Reading it failed with this text.
    Unknown(String),
}

/// The tasks of a pass, in order.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) tasks: Vec<Task>,
    /// Distinct texts of what makes tasks invalid; empty when all are valid.
    pub(super) problems: BTreeSet<String>,
}

/// Whether the destination namespace is to be read before tasks are built (ENG-157).
pub(super) fn needs_namespace(facts: &SyncFacts, options: &Options) -> bool {
    let is_declared = || {
        let targets = facts.resources.iter().filter_map(|pair| pair.target.as_deref());
        targets.filter(|target| !Role::of(*target).is_hook()).any(|target| is_destination(target, facts))
    };
    options.has("CreateNamespace=true") && !facts.destination_namespace.is_empty() && !is_declared()
}

/// The read of the destination namespace.
pub(super) fn namespace_read(facts: &SyncFacts) -> Action {
    Action {
        op: Op::Read,
        key: ResourceKey::new("", "Namespace", "", &facts.destination_namespace),
        gvk: Gvk::new("", "v1", "Namespace"),
        manifest: None,
        live: None,
        phase: SyncPhase::PreSync,
        wave: Wave::default(),
        replaces: false,
        force: false,
        validate: true,
        propagation: None,
        migrate_from: None,
        dry_run: facts.operation.dry_run,
    }
}

fn is_destination(target: &Object, facts: &SyncFacts) -> bool {
    target.gvk().group.is_empty()
        && target.gvk().kind == "Namespace"
        && target.name() == facts.destination_namespace
}

/// Builds, checks and orders the tasks, and gives them their recorded results.
pub(super) fn build<C: Cluster>(
    facts: &SyncFacts,
    options: &Options,
    cluster: &C,
    namespace: &NamespaceFound,
    ledger: &mut Ledger,
) -> Built {
    let selection = Selection::new(&facts.operation);
    let mut tasks: Vec<Task> =
        facts.resources.iter().filter_map(|pair| resource_task(facts, &selection, pair)).collect();
    if runs_hooks(facts) {
        let live = LiveIndex::new(facts);
        tasks.extend(facts.hooks.iter().flat_map(|hook| hook_tasks(facts, &live, hook)));
    }
    tasks.extend(namespace_task(facts, namespace));

    let problems = check(facts, options, cluster, &mut tasks);
    order::assign_prune_waves(&mut tasks, |task| options.has_for("PruneLast=true", task.live.as_deref()));
    order::sort(&mut tasks);
    for task in &mut tasks {
        ledger.read_into(task);
        adopt(facts, ledger, task);
        forget_predecessor(facts, task);
    }
    if let NamespaceFound::Unknown(error) = namespace {
        let text = format!("namespace auto creation failed: {error}");
        let is_made = |task: &&mut Task| {
            !task.hook && task.target.as_deref().is_some_and(|target| is_destination(target, facts))
        };
        if let Some(task) = tasks.iter_mut().find(is_made) {
            ledger.record(task, Some(ResultCode::SyncFailed), OperationPhase::Error, text);
        }
    }
    if !facts.terminate {
        record_problems(&mut tasks, &problems, ledger);
    }
    Built { tasks, problems: problems.into_values().collect() }
}

fn runs_hooks(facts: &SyncFacts) -> bool {
    let is_apply = facts.operation.sync_strategy.as_ref().is_some_and(|strategy| strategy.apply.is_some());
    !is_apply && facts.operation.resources.is_empty()
}

/// The task of one pair, unless the filter leaves it out (ENG-155).
fn resource_task(facts: &SyncFacts, selection: &Selection<'_>, pair: &SyncPair) -> Option<Task> {
    let object = pair.target.as_ref().or(pair.live.as_ref())?;
    let is_listed = selection.has(object);
    let role = Role::of(object.as_ref());
    if !pair.self_referenced || !is_listed || role.is_hook() {
        return None;
    }
    let phase = role.phases().into_iter().next()?;
    Some(task(facts, pair.target.clone(), pair.live.clone(), phase, pair.modified))
}

fn task(
    facts: &SyncFacts,
    target: Option<Arc<Object>>,
    live: Option<Arc<Object>>,
    phase: SyncPhase,
    modified: bool,
) -> Task {
    let object = target.as_ref().or(live.as_ref());
    let key = object.map(|object| object.key()).unwrap_or_default();
    let record_namespace = if target.is_some() && key.namespace.is_empty() {
        facts.destination_namespace.clone()
    } else {
        key.namespace.clone()
    };
    Task {
        phase,
        wave: object.map(|object| Wave::of(object.as_ref())).unwrap_or_default(),
        gvk: object.map(|object| object.gvk().clone()).unwrap_or_default(),
        key,
        record_namespace,
        target,
        live,
        hook: false,
        delete_policies: BTreeSet::new(),
        skip_dry_run: false,
        modified,
        code: None,
        state: None,
        message: String::new(),
    }
}

/// One task per phase of a hook (ENG-145).
fn hook_tasks(facts: &SyncFacts, live: &LiveIndex, hook: &Arc<Object>) -> Vec<Task> {
    let role = Role::of(hook.as_ref());
    if !role.is_hook() {
        return Vec::new();
    }
    role.phases()
        .into_iter()
        .map(|phase| {
            // One that cannot be prepared bears no mark and is refused by `check`, never left out.
            let target = prepare_hook(facts, hook, phase).map_or_else(|| Arc::clone(hook), Arc::new);
            let mut task = task(facts, Some(target), None, phase, true);
            task.hook = true;
            task.delete_policies = HookDeletePolicy::of(hook.as_ref());
            task.live = live.find(&task);
            task
        })
        .collect()
}

/// The manifest of a hook as submitted: named (ENG-149), with finalizer (ENG-150) and mark (INV-9).
fn prepare_hook(facts: &SyncFacts, hook: &Object, phase: SyncPhase) -> Option<Object> {
    let mut tree = hook.to_value().ok()?;
    let metadata = access::metadata_mut(&mut tree);
    if hook.name().is_empty() {
        let revision = match facts.revision.get(..7) {
            Some(short) if facts.revision.len() >= 8 => short,
            _ => facts.revision.as_str(),
        };
        let suffix = format!("{revision}-{phase}-{}", facts.started_at.as_second()).to_lowercase();
        metadata.insert("name".to_owned(), Value::from(format!("{}{suffix}", hook.metadata().generate_name)));
    }
    if !hook.has_finalizer(finalizer::HOOK) {
        match metadata.entry("finalizers").or_insert_with(|| json!([])) {
            Value::Array(finalizers) => finalizers.push(Value::from(finalizer::HOOK)),
            other => *other = json!([finalizer::HOOK]),
        }
    }
    let mark = operation_id(facts.started_at, facts.attempt, phase);
    access::set_annotation(&mut tree, annotation::OPERATION_ID, &mark);
    Object::from_value(&tree).ok()
}

/// The objects that an operation is limited to. Both they and the objects may be many.
struct Selection<'a> {
    is_all: bool,
    /// Group, kind and name, with the namespaces that are named; an empty one stands for all.
    listed: HashMap<(&'a str, &'a str, &'a str), HashSet<&'a str>>,
}

impl<'a> Selection<'a> {
    fn new(operation: &'a SyncOperation) -> Self {
        let mut listed: HashMap<_, HashSet<_>> = HashMap::with_capacity(operation.resources.len());
        for item in &operation.resources {
            let kind = (item.group.as_str(), item.kind.as_str(), item.name.as_str());
            listed.entry(kind).or_default().insert(item.namespace.as_str());
        }
        Self { is_all: operation.resources.is_empty(), listed }
    }

    fn has(&self, object: &Object) -> bool {
        let gvk = object.gvk();
        let namespaces = self.listed.get(&(gvk.group.as_str(), gvk.kind.as_str(), object.name()));
        self.is_all
            || namespaces.is_some_and(|named| named.contains("") || named.contains(object.namespace()))
    }
}

/// Live objects by key, for hooks; cluster-scoped ones are found in any namespace.
struct LiveIndex {
    by_key: BTreeMap<ResourceKey, Arc<Object>>,
}

impl LiveIndex {
    fn new(facts: &SyncFacts) -> Self {
        let live = facts.resources.iter().filter_map(|pair| pair.live.as_ref());
        Self { by_key: live.map(|live| (live.key(), Arc::clone(live))).collect() }
    }

    fn find(&self, task: &Task) -> Option<Arc<Object>> {
        let found = self.by_key.get(&task.key.in_namespace(&task.record_namespace));
        found.or_else(|| self.by_key.get(&task.key.in_namespace(""))).cloned()
    }
}

/// The task of a namespace made for the destination (ENG-157).
fn namespace_task(facts: &SyncFacts, found: &NamespaceFound) -> Option<Task> {
    let live = match found {
        NamespaceFound::NotAsked => return None,
        NamespaceFound::Present(live) if facts.managed_namespace_metadata.is_some() => Some(Arc::clone(live)),
        NamespaceFound::Present(_) => return None,
        NamespaceFound::Absent | NamespaceFound::Unknown(_) => None,
    };
    let mut tree = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": facts.destination_namespace.as_str()}
    });
    if let Some(managed) = &facts.managed_namespace_metadata {
        let metadata = access::metadata_mut(&mut tree);
        if !managed.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(managed.labels));
        }
        let mut annotations = managed.annotations.clone();
        // Server-side apply leaves labels and annotations of others alone.
        let options = annotations.entry(annotation::SYNC_OPTIONS.to_owned()).or_default();
        if !options.is_empty() {
            options.push(',');
        }
        options.push_str("ServerSideApply=true");
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let target = Object::from_value(&tree).ok()?;
    let mut task = task(facts, Some(Arc::new(target)), live, SyncPhase::PreSync, true);
    task.record_namespace.clone_from(&facts.destination_namespace);
    Some(task)
}

/// Asks discovery and the project about every task (ENG-158); the result maps a task to what is wrong.
fn check<C: Cluster>(
    facts: &SyncFacts,
    options: &Options,
    cluster: &C,
    tasks: &mut [Task],
) -> BTreeMap<(ResourceKey, SmolStr), String> {
    let mut served: BTreeMap<Gvk, Served> = BTreeMap::new();
    let targets = facts.resources.iter().filter_map(|pair| pair.target.as_ref()).chain(&facts.hooks);
    let defined: BTreeSet<SmolStr> = targets.filter_map(|target| order::crd_kind(target)).collect();
    let mut problems = BTreeMap::new();
    for task in tasks {
        if task.hook && !is_of_attempt(facts, task, task.target.as_deref()) {
            problems.insert(problem_key(task), message::UNREADABLE_HOOK.to_owned());
            continue;
        }
        let answer = served.entry(task.gvk.clone()).or_insert_with(|| cluster.served(&task.gvk));
        let problem = match answer {
            Served::Yes { namespaced } => {
                place(task, *namespaced);
                let object = task.target.as_deref().or(task.live.as_deref());
                object.and_then(|object| cluster.permitted(object, *namespaced).err())
            }
            Served::No => {
                let kind = format_smolstr!("{}/{}", task.gvk.group, task.gvk.kind);
                task.skip_dry_run = options.has("SkipDryRunOnMissingResource=true")
                    || object_has(task.target.as_deref(), "SkipDryRunOnMissingResource=true")
                    || defined.contains(&kind);
                (!task.skip_dry_run).then(|| message::NOT_SERVED.to_owned())
            }
            Served::Error(text) => Some(text.clone()),
        };
        if let Some(problem) = problem {
            problems.insert(problem_key(task), problem);
        }
    }
    problems
}

/// Whether a manifest or a live object of a hook was made by this very attempt (INV-9).
fn is_of_attempt(facts: &SyncFacts, task: &Task, object: Option<&Object>) -> bool {
    let mark = operation_id(facts.started_at, facts.attempt, task.phase);
    object.and_then(|object| object.annotation(annotation::OPERATION_ID)) == Some(mark.as_str())
}

fn problem_key(task: &Task) -> (ResourceKey, SmolStr) {
    // The phase may still change (ENG-152), the object and its being a hook do not.
    let kind = if task.hook { format_smolstr!("hook {}", task.phase) } else { SmolStr::default() };
    (task.key.in_namespace(&task.record_namespace), kind)
}

/// Gives key and manifest the namespace that the scope of the kind asks for.
fn place(task: &mut Task, namespaced: bool) {
    let namespace = if namespaced { task.record_namespace.clone() } else { SmolStr::default() };
    if task.key.namespace == namespace {
        return;
    }
    task.key.namespace.clone_from(&namespace);
    let Some(target) = &task.target else { return };
    let Ok(mut tree) = target.to_value() else { return };
    let metadata = access::metadata_mut(&mut tree);
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), Value::from(namespace.as_str()));
    }
    if let Ok(object) = Object::from_value(&tree) {
        task.target = Some(Arc::new(object));
    }
}

/// Counts a hook that this very attempt already made, but whose result was lost, as running (INV-9).
fn adopt(facts: &SyncFacts, ledger: &mut Ledger, task: &mut Task) {
    if !task.hook || !task.is_pending() || facts.operation.dry_run {
        return;
    }
    if is_of_attempt(facts, task, task.live.as_deref()) {
        ledger.record(task, Some(ResultCode::Synced), OperationPhase::Running, "");
    }
}

/// What an earlier attempt left under the name of a hook that was submitted already is an old view of it: its
/// end is not that of the hook that runs now (INV-9, F3). Without a live object the hook is read and waited for.
fn forget_predecessor(facts: &SyncFacts, task: &mut Task) {
    if !task.hook || !task.is_running() || facts.operation.dry_run {
        return;
    }
    let ours = operation_id(facts.started_at, facts.attempt, task.phase);
    let mark = task.live.as_ref().and_then(|live| live.annotation(annotation::OPERATION_ID));
    if mark.is_some_and(|mark| mark != ours) {
        task.live = None;
    }
}

fn record_problems(
    tasks: &mut [Task],
    problems: &BTreeMap<(ResourceKey, SmolStr), String>,
    ledger: &mut Ledger,
) {
    if problems.is_empty() {
        return;
    }
    for task in tasks {
        if let Some(problem) = problems.get(&problem_key(task)) {
            ledger.record_invalid(task, problem.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(items: &Value) -> SyncOperation {
        serde_json::from_value(json!({"resources": items})).unwrap()
    }

    fn object(kind: &str, namespace: &str, name: &str) -> Object {
        let manifest =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        Object::from_value(&manifest).unwrap()
    }

    #[test]
    fn eng_155_an_operation_names_objects_with_or_without_namespace() {
        let operation = selection(
            &json!([{"kind": "Secret", "name": "a"}, {"kind": "Secret", "name": "b", "namespace": "x"},
            {"group": "apps", "kind": "Secret", "name": "c"}]),
        );
        let selection = Selection::new(&operation);
        let has = |namespace: &str, name: &str| selection.has(&object("Secret", namespace, name));
        assert!(has("x", "a") && has("y", "a") && has("x", "b"));
        assert!(!has("y", "b") && !has("x", "c") && !selection.has(&object("ConfigMap", "x", "a")));
        assert!(Selection::new(&SyncOperation::default()).has(&object("Secret", "x", "a")));
    }

    /// SEC-07: both the objects and those that are named may be as many as fit.
    #[test]
    fn sec_07_named_objects_are_looked_up() {
        let items: Vec<Value> = (0..100_000)
            .map(|name| json!({"kind": "Secret", "name": format!("s{name}"), "namespace": "x"}))
            .collect();
        let operation = selection(&Value::Array(items));
        let selection = Selection::new(&operation);
        let (named, other) = (object("Secret", "x", "s99999"), object("Secret", "y", "s99999"));
        assert_eq!((0..100_000).filter(|_| selection.has(&named) && !selection.has(&other)).count(), 100_000);
    }
}
