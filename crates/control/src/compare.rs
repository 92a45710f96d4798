//! One comparison of an application: gather what the engine needs, ask it, and shape the answer for the status.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_api::application::{ApplicationStatus, Condition, HealthStatus, ResourceStatus, Summary};
use tiphys_api::names::annotation;
use tiphys_api::{AppProject, Application};
use tiphys_cluster::{ApiError, Seen as IndexSeen, Target as WriteTarget};
use tiphys_engine::app_health::{AppIdentity, AppResource, app_health};
use tiphys_engine::compare::{self, CompareInput, Comparison, DiffMemo, Scope};
use tiphys_engine::health::{self, Health, HealthError};
use tiphys_engine::hook::Role;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::seen::Seen;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_engine::tree::{self, NodeInfo, SummaryNode};
use tiphys_object::{GroupKind, Object, ResourceKey};
use tiphys_policy::project::{Resource, Target, kind_permitted, live_permitted};

use crate::clusters::Destination;
use crate::decide::operation;
use crate::decide::status::condition;
use crate::memory::{AppMemory, Targets, Verdict};
use crate::scripts::Programs;
use crate::world::World;

/// Everything a comparison found out.
pub(crate) struct Compared {
    pub(crate) comparison: Comparison,
    pub(crate) targets: Targets,
    pub(crate) resources: Vec<ResourceStatus>,
    pub(crate) health: HealthStatus,
    pub(crate) summary: Summary,
    pub(crate) conditions: Vec<Condition>,
}

/// Facts that are the same for the whole pass.
pub(crate) struct Subject<'a> {
    pub(crate) app: &'a Application,
    pub(crate) instance: &'a str,
    pub(crate) world: &'a World,
    pub(crate) project: &'a AppProject,
    pub(crate) destination: &'a Destination,
    pub(crate) tracking: &'a TrackingSettings,
    pub(crate) programs: &'a Programs,
}

impl Subject<'_> {
    /// Whether the project shows a live object to this application (ENG-44).
    pub(crate) fn is_visible(&self, key: &ResourceKey) -> bool {
        let clusters = self.world.clusters.all();
        let target = Target::new(&self.destination.cluster, &key.namespace);
        live_permitted(self.project, key, target, Ok(clusters), self.world.settings.project_matching())
    }
}

/// Compares targets with what the cluster holds.
///
/// The live objects come from the index; a target's object that the index only knows by name is read. What
/// cannot be known makes the result `Unknown`.
pub(crate) async fn run(subject: &Subject<'_>, targets: Targets, memory: &Mutex<AppMemory>) -> Compared {
    let found = subject.destination.index.managed(subject.instance);
    if subject.destination.is_stopped() {
        let message = "Failed to load live state: the configuration of the cluster changed".to_owned();
        return failed(subject, targets, message);
    }
    if let Some(error) = &found.cluster_error {
        let message = format!("Failed to load live state: {error}");
        return failed(subject, targets, message);
    }
    // Of a kind that could not be listed nothing may be called extra, and nothing the index remembers is
    // evidence (law 3). Its targets are read one by one; an object of ours without a target stays a question.
    let unknown: HashMap<GroupKind, String> = found.incomplete.into_iter().collect();
    let namespace = &subject.app.spec.destination.namespace;
    let mut wanted: HashSet<ResourceKey> = HashSet::new();
    for target in targets.objects.iter() {
        wanted.insert(target.key().in_namespace(""));
        wanted.insert(if target.namespace().is_empty() {
            target.key().in_namespace(namespace)
        } else {
            target.key()
        });
    }
    let (doubtful, live): (Vec<_>, Vec<_>) =
        found.objects.into_iter().partition(|object| unknown.contains_key(&object.gvk().group_kind()));
    if let Some(object) = doubtful.iter().find(|object| !wanted.contains(&object.key())) {
        let why = unknown.get(&object.gvk().group_kind()).cloned().unwrap_or_default();
        return failed(subject, targets, format!("Failed to load live state: {}: {why}", object.key()));
    }
    // What cannot be read is there: it is neither missing nor extra (INV-1, INV-15).
    if let Some((key, why)) = found.unreadable.first() {
        return failed(subject, targets, format!("Failed to load live state: {key}: {why}"));
    }
    // After a restart the index remembers nothing; the status does (F6). What the last sync made is in its results
    // alone when the watch was late; its hooks go by their policies, and the namespace it made is nobody's target.
    let is_made_namespace =
        |r: &ResourceStatus| r.kind == "Namespace" && r.group.is_empty() && r.name == *namespace;
    let synced = if unknown.is_empty() { Vec::new() } else { operation::synced_only(subject.app) };
    let compared = subject.app.status.resources.iter().map(key_of).filter(|key| !wanted.contains(key));
    let synced = synced.iter().filter(|r| !r.hook && !is_made_namespace(r)).map(key_of);
    // Results name the destination namespace also for what is cluster-scoped.
    let synced = synced.filter(|key| !wanted.contains(key) && !wanted.contains(&key.in_namespace("")));
    let remembered =
        compared.chain(synced).find_map(|key| unknown.get(&key.group_kind()).map(|why| (key, why)));
    if let Some((key, why)) = remembered {
        let message = format!("Failed to load live state: {key}: {why}");
        return failed(subject, targets, message);
    }
    // The index may show a kind a moment longer or earlier than the settings want it managed; an object whose
    // target is left out because its kind is excluded must not look like one that left the source (ENG-7).
    let is_excluded =
        |kind: &GroupKind| !subject.world.filter.is_included(kind, &subject.destination.cluster.server);
    let live: Vec<Arc<Object>> =
        live.into_iter().filter(|object| !is_excluded(&object.gvk().group_kind())).collect();
    let rules = || {
        let rules = &subject.app.spec.ignore_differences;
        subject.world.ignore_rules(rules, &subject.programs.runner)
    };
    let ignore = match subject.programs.compute(0, rules).await {
        Ok(rules) => rules,
        Err(error) => {
            let message = format!("Failed to compare desired state to live state: {error}");
            return failed(subject, targets, message);
        }
    };
    let live = match with_books(subject, &ignore, live, &wanted).await {
        Ok(live) => live,
        Err(error) => return failed(subject, targets, format!("Failed to load live state: {error}")),
    };
    let managed: HashSet<ResourceKey> = live.iter().map(|object| object.key()).collect();
    let by_key = look_up(subject, &targets, &managed, &unknown, &ignore).await;
    let compared = subject.programs.compute(targets.objects.len(), || {
        // The memo is taken along, so that nobody waits for the lock meanwhile.
        let mut diffs = std::mem::take(&mut memory.lock().diffs);
        let gathered = Gathered { targets: &targets, live: &live, by_key: &by_key, ignore: &ignore };
        let comparison = compare_pairs(subject, &gathered, &is_excluded, &mut diffs);
        memory.lock().diffs = diffs;
        shape(subject, &targets, comparison, memory)
    });
    compared.await
}

/// What a comparison looks at.
struct Gathered<'a> {
    targets: &'a Targets,
    live: &'a [Arc<Object>],
    by_key: &'a HashMap<ResourceKey, Seen<Arc<Object>>>,
    ignore: &'a IgnoreRules,
}

/// Compares what was gathered. Takes as long as the users' programs do.
fn compare_pairs(
    subject: &Subject<'_>,
    gathered: &Gathered<'_>,
    is_excluded: &dyn Fn(&GroupKind) -> bool,
    diffs: &mut DiffMemo,
) -> Comparison {
    let kinds = subject.destination.index.discovery().snapshot();
    let scope = |group_kind: &GroupKind| {
        kinds.as_ref().and_then(|kinds| kinds.scope(group_kind)).map(|scope| match scope {
            tiphys_cluster::Scope::Namespaced => Scope::Namespaced,
            tiphys_cluster::Scope::Cluster => Scope::Cluster,
        })
    };
    let policy = subject.app.spec.sync_policy.as_ref();
    let find = |key: &ResourceKey| match gathered.by_key.get(key) {
        Some(seen) => seen.clone(),
        None => from_index(subject.destination.index.get(key)),
    };
    let input = CompareInput {
        application_namespace: &subject.app.metadata.namespace,
        application_name: &subject.app.metadata.name,
        instance: subject.instance,
        destination_namespace: &subject.app.spec.destination.namespace,
        targets: &gathered.targets.objects,
        managed: gathered.live,
        by_key: &find,
        scope: &scope,
        excluded: is_excluded,
        permitted_live: &|object| subject.is_visible(&object.key()),
        permitted_kind: &|key| {
            kind_permitted(
                subject.project,
                Resource {
                    group: &key.group,
                    kind: &key.kind,
                    name: &key.name,
                    namespaced: !key.namespace.is_empty(),
                },
            )
        },
        tracking: subject.tracking,
        ignore: gathered.ignore,
        diff: &subject.world.diff,
        sync_options: subject.app.sync_options(),
        managed_namespace: policy.and_then(|policy| policy.managed_namespace_metadata.as_ref()),
        managed_namespace_changed: compare::managed_namespace_changed(subject.app),
    };
    compare::compare(&input, diffs)
}

/// The managed objects; those of which rules name field managers with what these own in `managedFields`, which
/// the index does not keep for everybody (ENG-70).
async fn with_books(
    subject: &Subject<'_>,
    ignore: &IgnoreRules,
    managed: Vec<Arc<Object>>,
    wanted: &HashSet<ResourceKey>,
) -> Result<Vec<Arc<Object>>, String> {
    let read_one = |object: Arc<Object>| async move {
        let managers = ignore.managers_of(object.gvk(), object.namespace(), object.name());
        if managers.is_empty() || !wanted.contains(&object.key()) {
            return Ok(object);
        }
        let target = WriteTarget::new(object.gvk().clone(), object.namespace(), object.name());
        let Destination { index, writer, .. } = subject.destination;
        match index.live_with_books(writer, &target, &managers).await {
            Ok(Some(found)) => Ok(found),
            // The watch will tell; until then nothing can be said of its fields.
            Ok(None) => Err(format!("{} vanished while it was read", object.key())),
            Err(error) => Err(format!("{}: {error}", object.key())),
        }
    };
    let reading = futures::stream::iter(managed.into_iter().map(read_one)).buffered(READS_AT_ONCE);
    let all = futures::TryStreamExt::try_collect(reading);
    let timeout = || Err(format!("no answer within {} s", READ_TIMEOUT.as_secs()));
    tokio::time::timeout(READ_TIMEOUT, all).await.unwrap_or_else(|_| timeout())
}

/// Live objects of targets that no claim leads to: from the index, or read where it keeps no text.
async fn look_up(
    subject: &Subject<'_>,
    targets: &Targets,
    managed: &HashSet<ResourceKey>,
    unknown: &HashMap<GroupKind, String>,
    ignore: &IgnoreRules,
) -> HashMap<ResourceKey, Seen<Arc<Object>>> {
    let namespace = &subject.app.spec.destination.namespace;
    let known: HashSet<ResourceKey> = subject
        .app
        .status
        .resources
        .iter()
        .filter(|r| !r.hook && subject.app.status.health.status != "Missing")
        .map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name))
        .collect();
    let mut found = HashMap::new();
    let mut reads = Vec::new();
    for target in targets.objects.iter() {
        let key = target.key();
        let namespaced = key.in_namespace(if key.namespace.is_empty() { namespace } else { &key.namespace });
        for key in [key.in_namespace(""), namespaced] {
            if managed.contains(&key) || found.contains_key(&key) {
                continue;
            }
            let managers = ignore.managers_of(target.gvk(), &key.namespace, &key.name);
            let how = match subject.destination.index.get(&key) {
                _ if unknown.contains_key(&key.group_kind()) => Some(Read::Server),
                IndexSeen::Reference { .. } => Some(Read::Index),
                IndexSeen::Unknown(_) if subject.destination.is_unwatched(&key.group_kind()) => {
                    Some(Read::Server)
                }
                // Another version of the same object is asked of the server (ENG-26).
                IndexSeen::Present(object) if object.gvk() != target.gvk() => Some(Read::Index),
                IndexSeen::Present(_) if !managers.is_empty() => Some(Read::Index),
                // An object that was there at the last comparison is not called missing on the word of one list
                // (F7).
                IndexSeen::Absent if known.contains(&key) => Some(Read::Server),
                other => {
                    let seen = match from_index(other) {
                        Seen::Unknown(why) => {
                            let wanted = WriteTarget::new(target.gvk().clone(), &key.namespace, &key.name);
                            let outside = subject.destination.index.check_scope(&wanted).err();
                            // Why it is not watched says more than that it is not (ENG-22).
                            Seen::Unknown(outside.map_or(why, |error| error.to_string()))
                        }
                        seen => seen,
                    };
                    found.insert(key.clone(), seen);
                    None
                }
            };
            if let Some(how) = how {
                // A placeholder that keeps the key from being read twice.
                found.insert(key.clone(), Seen::Unknown("not read".to_owned()));
                reads.push((key, Arc::clone(target), managers, how));
            }
        }
    }
    let read_one = |(key, target, managers, how): (ResourceKey, Arc<Object>, Vec<SmolStr>, Read)| async move {
        let seen = read(subject.destination, &target, &key, &managers, how).await;
        (key, seen)
    };
    let reading = futures::stream::iter(reads.into_iter().map(read_one)).buffer_unordered(READS_AT_ONCE);
    // What is not read in time stays unknown.
    let mut reading = std::pin::pin!(reading.take_until(tokio::time::sleep(READ_TIMEOUT)));
    while let Some((key, seen)) = reading.next().await {
        if let Seen::Present(object) = &seen {
            subject.destination.index.contradict(object);
        }
        found.insert(key, seen);
    }
    found
}

/// Reads of one comparison that run at the same time.
const READS_AT_ONCE: usize = 16;
/// Time all reads of one comparison get together.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Where an object is read.
#[derive(Clone, Copy)]
enum Read {
    /// Through the index, which keeps it.
    Index,
    /// At the server, whatever the index believes.
    Server,
}

async fn read(
    destination: &Destination,
    target: &Object,
    key: &ResourceKey,
    managers: &[SmolStr],
    how: Read,
) -> Seen<Arc<Object>> {
    let target = WriteTarget::new(target.gvk().clone(), &key.namespace, &key.name);
    let read = match how {
        Read::Index => destination.index.live_with_books(&destination.writer, &target, managers).await,
        // What the index does not watch because the settings leave it out is not read around it (ENG-22).
        Read::Server => match destination.index.check_scope(&target) {
            Ok(()) => destination.writer.get_with_books(&target, managers).await,
            Err(outside) => Err(outside),
        },
    };
    match read {
        Ok(Some(object)) => Seen::Present(object),
        Ok(None) | Err(ApiError::NotServed(_)) => Seen::Absent,
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

fn from_index(seen: IndexSeen) -> Seen<Arc<Object>> {
    match seen {
        IndexSeen::Present(object) => Seen::Present(object),
        IndexSeen::Absent => Seen::Absent,
        IndexSeen::Reference { .. } => Seen::Unknown("its text was not read".to_owned()),
        IndexSeen::Unknown(why) => Seen::Unknown(why),
    }
}

/// A comparison that could not be made: nothing is known, nothing is extra.
pub(crate) fn failed(subject: &Subject<'_>, targets: Targets, message: String) -> Compared {
    let comparison = Comparison {
        status: compare::SyncStatusCode::Unknown,
        resources: Vec::new(),
        hooks: Vec::new(),
        conditions: vec![condition("ComparisonError", message.clone())],
        failed: Some(message),
        incomplete: false,
    };
    Compared {
        conditions: comparison.conditions.clone(),
        comparison,
        targets,
        // What was known stays; only its status is unknown now (ENG-53), and its health, which nobody could see
        // (INV-15).
        resources: unknown_resources(&subject.app.status),
        health: unknown_health(),
        summary: subject.app.status.summary.clone(),
    }
}

fn unknown_health() -> HealthStatus {
    HealthStatus { status: "Unknown".to_owned(), ..HealthStatus::default() }
}

/// The health of an application whose targets are not known: that of its live objects, when all of them could be
/// seen and there are some. What it was before may not be so any more (INV-15).
pub(crate) async fn health_of_live(subject: &Subject<'_>, memory: &Mutex<AppMemory>) -> HealthStatus {
    let mut found = subject.destination.index.managed(subject.instance);
    found.objects.retain(|object| !Role::of(object.as_ref()).is_hook());
    let known: HashSet<GroupKind> =
        subject.app.status.resources.iter().map(|r| GroupKind::new(&r.group, &r.kind)).collect();
    let is_doubtful = |kind: &GroupKind| {
        known.contains(kind) || found.objects.iter().any(|object| object.gvk().group_kind() == *kind)
    };
    let is_incomplete = subject.destination.is_stopped()
        || found.cluster_error.is_some()
        || found.incomplete.iter().any(|(kind, _)| is_doubtful(kind));
    if is_incomplete || found.objects.is_empty() {
        return unknown_health();
    }
    let judge = || {
        let verdicts = verdicts(subject, found.objects.iter(), memory);
        let resources: Vec<AppResource<'_>> =
            found.objects.iter().map(|live| AppResource { target: None, live: Some(live) }).collect();
        let judged = app_health(&resources, identity(subject), |live| known_health(&verdicts, live));
        memory.lock().verdicts = verdicts;
        judged
    };
    let judged = subject.programs.compute(found.objects.len(), judge).await;
    inline_health(&judged.health)
}

/// The known resources with status `Unknown`.
pub(crate) fn unknown_resources(status: &ApplicationStatus) -> Vec<ResourceStatus> {
    let unknown = |r: &ResourceStatus| ResourceStatus {
        status: if r.hook || r.status.is_empty() { r.status.clone() } else { "Unknown".to_owned() },
        ..r.clone()
    };
    status.resources.iter().map(unknown).collect()
}

fn key_of(r: &ResourceStatus) -> ResourceKey {
    ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name)
}

/// Adds the hooks that were known and do not show in a comparison that failed: they may be what could not be read, and
/// the status alone remembers them (INV-17). Other objects show as targets or as extra ones.
fn keep_hooks(resources: &mut Vec<ResourceStatus>, status: &ApplicationStatus) {
    let shown: HashSet<ResourceKey> = resources.iter().map(key_of).collect();
    let known = status.resources.iter().filter(|known| known.hook && !shown.contains(&key_of(known)));
    resources.extend(known.cloned());
    resources.sort_by_cached_key(key_of);
}

fn identity<'a>(subject: &Subject<'a>) -> AppIdentity<'a> {
    AppIdentity { namespace: &subject.app.metadata.namespace, name: &subject.app.metadata.name }
}

/// Verdicts about live objects. What is remembered is taken along; the caller puts the verdicts in its place. Nobody
/// waits for the lock meanwhile, which takes as long as the users' programs do.
fn verdicts<'a>(
    subject: &Subject<'_>,
    live: impl Iterator<Item = &'a Arc<Object>>,
    memory: &Mutex<AppMemory>,
) -> HashMap<ResourceKey, Verdict> {
    let rules = &subject.world.health;
    let known = {
        let mut memory = memory.lock();
        let same_rules = memory.verdict_rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, rules));
        memory.verdict_rules = Some(Arc::clone(rules));
        let known = std::mem::take(&mut memory.verdicts);
        if same_rules { known } else { HashMap::new() }
    };
    live.map(|live| verdict(live, subject, &known)).collect()
}

fn known_health(
    verdicts: &HashMap<ResourceKey, Verdict>,
    live: &Object,
) -> Result<Option<Health>, HealthError> {
    verdicts.get(&live.key()).map_or(Ok(None), |verdict| verdict.health.clone())
}

/// Judges what was compared, and shapes the answer.
fn shape(
    subject: &Subject<'_>,
    targets: &Targets,
    comparison: Comparison,
    memory: &Mutex<AppMemory>,
) -> Compared {
    let mut conditions = comparison.conditions.clone();
    // What an annotation asks for in vain is said, not passed over.
    let inert = tiphys_api::support::annotation_reports(&subject.app.metadata.annotations);
    if !inert.is_empty() {
        let text = format!("Without effect: {}", inert.join("; "));
        conditions.push(condition("UnsupportedOptionWarning", text));
    }
    let live = comparison.resources.iter().filter_map(|resource| resource.live.as_ref());
    let verdicts = verdicts(subject, live, memory);
    let resources: Vec<AppResource<'_>> = comparison
        .resources
        .iter()
        .map(|r| AppResource { target: r.target.as_deref(), live: r.live.as_deref() })
        .collect();
    let judged = app_health(&resources, identity(subject), |live| known_health(&verdicts, live));
    let nodes = comparison.resources.iter().filter_map(|resource| {
        let info = verdicts.get(&resource.live.as_ref()?.key())?.info.as_deref()?;
        Some(SummaryNode { gvk: &resource.gvk, info })
    });
    let summary = tree::summary(nodes, &subject.app.metadata.annotations);
    memory.lock().verdicts = verdicts;
    conditions.extend(judged.error.map(|text| condition("ComparisonError", text)));
    let persist = subject.world.settings.controller().persist_resource_health;
    let mut resources: Vec<ResourceStatus> = comparison
        .resources
        .iter()
        .zip(&judged.resources)
        .map(|(r, health)| ResourceStatus {
            group: r.gvk.group.to_string(),
            version: r.gvk.version.to_string(),
            kind: r.gvk.kind.to_string(),
            namespace: r.key.namespace.to_string(),
            name: r.key.name.to_string(),
            status: r.status.map_or_else(String::new, |status| status.as_str().to_owned()),
            health: persist.then(|| health.as_ref().map(inline_health)).flatten(),
            hook: r.hook,
            requires_pruning: r.requires_pruning,
            sync_wave: r.sync_wave,
            requires_deletion_confirmation: r.requires_deletion_confirmation,
            ..ResourceStatus::default()
        })
        .collect();
    if comparison.failed.is_some() {
        keep_hooks(&mut resources, &subject.app.status);
    }
    let health = inline_health(&judged.health);
    Compared { comparison, targets: targets.clone(), resources, health, summary, conditions }
}

fn inline_health(health: &Health) -> HealthStatus {
    HealthStatus {
        status: health.status.as_str().to_owned(),
        message: health.message.clone(),
        ..HealthStatus::default()
    }
}

/// Health and node details of a live object: remembered by version, so that an unchanged object is not parsed.
fn verdict(
    live: &Object,
    subject: &Subject<'_>,
    known: &HashMap<ResourceKey, Verdict>,
) -> (ResourceKey, Verdict) {
    let key = live.key();
    let version = &live.metadata().resource_version;
    if let Some(verdict) = known.get(&key).filter(|verdict| verdict.version == *version) {
        return (key, verdict.clone());
    }
    let (overrides, runner) = (&subject.world.health, &subject.programs.runner);
    let (health, info) = match live.to_value() {
        Ok(value) => (health::evaluate_with(&value, overrides, runner), tree::node_info(&value, &[])),
        Err(error) => (Err(error.into()), NodeInfo::default()),
    };
    let info = (info != NodeInfo::default()).then(|| Arc::new(info));
    let verdict = Verdict { version: version.clone(), health, info };
    (key, verdict)
}

/// Whether an Application's annotation asks to leave it alone (CTL-19).
pub(crate) fn is_skipped(app: &Application) -> bool {
    app.annotation(annotation::SKIP_RECONCILE)
        .is_some_and(|flag| tiphys_api::repository::parse_bool(flag) == Some(true))
}
