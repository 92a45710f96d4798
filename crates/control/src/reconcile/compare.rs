//! One comparison of an application: gather what the engine needs, ask it, and shape the answer for the status.

mod judge;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::application::{Condition, HealthStatus, ResourceStatus, Summary};
use tiphys_api::codes::{ConditionType, HealthCode};
use tiphys_cluster::{ApiError, Managed, Seen as IndexSeen, Target as WriteTarget};
use tiphys_engine::compare::{self, CompareInput, Comparison, DiffMemo, Scope, is_root};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::seen::Seen;
use tiphys_engine::tracking::Ownership;
use tiphys_lifecycle::attempt;
use tiphys_lifecycle::refresh::Level;
use tiphys_lifecycle::refresh_status::{Findings, show_comparison, unknown_health, unknown_resources};
use tiphys_object::{GroupKind, Gvk, Object, ResourceKey};
use tiphys_policy::project::{Resource, Target, kind_permitted, live_permitted};

use super::desired::{self, Unavailable, Wanted};
use super::load::AppContext;
use super::resolve::Resolved;
use crate::clusters::Destination;
use crate::memory::{MarkedObjects, Targets};

pub(super) use judge::health_of_live;

/// Everything a comparison found out.
pub(super) struct Compared {
    pub(super) comparison: Comparison,
    pub(super) targets: Targets,
    pub(super) resources: Vec<ResourceStatus>,
    pub(super) health: HealthStatus,
    pub(super) summary: Summary,
    pub(super) conditions: Vec<Condition>,
    /// A kind of the targets that could not be listed, and why. The targets were read, and what is left over was not seen.
    pub(super) unlisted: Option<String>,
}

impl Compared {
    /// Puts the comparison into the status (CTL-9).
    pub(super) fn show(&self, cx: &AppContext<'_>, new: &mut Application, level: Level, now: Timestamp) {
        let (mut status, mut conditions) = (self.comparison.status, self.conditions.clone());
        if let Some(why) = self.unlisted.as_deref().filter(|_| status == compare::SyncStatusCode::Synced) {
            // What differs is known, and synced; that nothing is left over is not (INV-15, F6).
            status = compare::SyncStatusCode::Unknown;
            let text = format!("Failed to look for objects that are declared no longer: {why}");
            conditions.push(Condition::new(ConditionType::ComparisonError, text));
        }
        let findings = Findings {
            status,
            conditions: &conditions,
            revisions: &self.targets.revisions,
            source_types: &self.targets.types,
            resources: &self.resources,
            health: &self.health,
            summary: &self.summary,
        };
        let persist = cx.world.settings.controller().persist_resource_health;
        show_comparison(new, &findings, level, persist, now);
    }
}

/// Whose objects are compared, and where.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) cx: &'a AppContext<'a>,
    pub(super) resolved: &'a Resolved,
}

impl Subject<'_> {
    /// Whether the project shows a live object to this application (ENG-44).
    pub(super) fn is_visible(&self, key: &ResourceKey) -> bool {
        let world = &self.cx.world;
        let target = Target::new(&self.resolved.destination.cluster, &key.namespace);
        let matching = world.settings.project_matching();
        live_permitted(&self.resolved.project, key, target, Ok(world.clusters.all()), matching)
    }
}

/// Live objects with the application's tracking metadata that its project permits, and the unreadable ones among them.
/// Objects in namespaces that the project does not permit are neither compared nor an obstacle (CTL-72, INV-16).
pub(super) fn managed(subject: Subject<'_>, ownership: &Ownership<'_>, ways: &[u64]) -> Managed {
    let mut found = subject.resolved.destination.index.managed(&ownership.marks(), ways);
    found.objects.retain(|object| subject.is_visible(&object.key()) && ownership.owns(object));
    found.unreadable.retain(|(key, _)| subject.is_visible(key));
    found
}

/// Keys of live objects that targets declare. Each target yields a namespaced and a cluster-scoped key: a kind has one
/// scope, so only one of the two can exist.
pub(super) fn declared_keys<'t>(
    targets: &'t Targets,
    namespace: &'t str,
) -> impl Iterator<Item = ResourceKey> + use<'t> {
    targets.objects.iter().flat_map(move |target| {
        let key = target.key();
        let own = if key.namespace.is_empty() { key.in_namespace(namespace) } else { key.clone() };
        [key.in_namespace(""), own]
    })
}

/// Whether one of the targets declares a live object.
pub(super) fn is_declared(targets: &Targets, namespace: &str, key: &ResourceKey) -> bool {
    let is_it = |target: &Arc<Object>| {
        let own = if target.namespace().is_empty() { namespace } else { target.namespace() };
        target.name() == key.name
            && target.gvk().group_kind() == key.group_kind()
            && (key.namespace.is_empty() || key.namespace == own)
    };
    targets.objects.iter().any(is_it)
}

/// Loads targets and compares.
pub(super) async fn application(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    wanted: Wanted<'_>,
) -> Result<Compared, Unavailable> {
    let targets = desired::load(cx, resolved, wanted).await?;
    let is_rendered = !targets.renderings.is_empty();
    let compared = with_targets(Subject { cx, resolved }, targets).await?;
    let extra = compared.resources.iter().filter(|resource| resource.requires_pruning).count();
    if !is_rendered && extra > 0 {
        // Nothing was rendered, so nothing says that these objects are not wanted any more (INV-1, CTL-136).
        return Err(Unavailable::Failed(format!(
            "Failed to load target state: no source of the application renders manifests (each has only 'ref'), \
             but {extra} live objects belong to it; give a source a path, or delete the objects"
        )));
    }
    Ok(compared)
}

/// Compares manifests that came with the operation instead of those of the sources (CTL-42).
pub(super) async fn local(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    manifests: &[String],
    revisions: &[String],
) -> Result<Compared, Unavailable> {
    let targets = desired::load_local(cx, resolved, manifests, revisions).await?;
    with_targets(Subject { cx, resolved }, targets).await
}

/// Compares targets with what the cluster holds.
///
/// The live objects come from the index; a target's object that the index only knows by name is read. What
/// cannot be known makes the result `Unknown`. `Err` when nobody looks for the marks of the application yet.
pub(super) async fn with_targets(subject: Subject<'_>, targets: Targets) -> Result<Compared, Unavailable> {
    let previous = subject.cx.previous();
    let ownership = subject.cx.ownership(&previous);
    let ways = subject.cx.ways_read(&ownership);
    let found = managed(subject, &ownership, &ways);
    if !found.is_looked_for && found.cluster_error.is_none() {
        return Err(Unavailable::NotReady);
    }
    Ok(with_managed(subject, targets, ownership, found).await)
}

async fn with_managed(
    subject: Subject<'_>,
    targets: Targets,
    ownership: Ownership<'_>,
    found: Managed,
) -> Compared {
    if subject.resolved.destination.is_stopped() {
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
    let namespace = &subject.cx.app.spec.destination.namespace;
    let wanted: HashSet<ResourceKey> = declared_keys(&targets, namespace).collect();
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
    let (live, unread) = with_recognised(subject, &ownership, live, &wanted).await;
    if let Some((key, why)) = unread {
        return failed(subject, targets, format!("Failed to load live state: {key}: {why}"));
    }
    // After a restart the index remembers nothing; the status does (F6). What the last sync made is in its results
    // alone when the watch was late; its hooks go by their policies, and the namespace it made is nobody's target.
    let is_made_namespace =
        |r: &ResourceStatus| r.kind == "Namespace" && r.group.is_empty() && r.name == *namespace;
    let synced = if unknown.is_empty() { Vec::new() } else { attempt::synced_only(&subject.cx.app) };
    let compared = subject.cx.app.status.resources.iter().map(key_of).filter(|key| !wanted.contains(key));
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
    let is_excluded = |kind: &GroupKind| {
        !subject.cx.world.filter.is_included(kind, &subject.resolved.destination.cluster.server)
    };
    let live: Vec<Arc<Object>> =
        live.into_iter().filter(|object| !is_excluded(&object.gvk().group_kind())).collect();
    let rules = || {
        let rules = &subject.cx.app.spec.ignore_differences;
        subject.cx.world.ignore_rules(rules, &subject.cx.programs.runner)
    };
    let ignore = match subject.cx.programs.compute(0, rules).await {
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
    let unlisted = unknown.iter().filter(|(kind, _)| wanted.iter().any(|key| key.group_kind() == **kind));
    let unlisted = unlisted.map(|(kind, why)| format!("{kind}: {why}")).min();
    let compared = subject.cx.programs.compute(targets.objects.len(), || {
        // The memo is taken along, so that nobody waits for the lock meanwhile.
        let mut diffs = std::mem::take(&mut subject.cx.memory.lock().diffs);
        let gathered =
            Gathered { targets: &targets, live: &live, by_key: &by_key, ignore: &ignore, ownership };
        let comparison = compare_pairs(subject, &gathered, &is_excluded, &mut diffs);
        {
            let mut memory = subject.cx.memory.lock();
            memory.diffs = diffs;
            // From now on the status says that they are to be pruned, and no longer that they were applied.
            let extra = comparison.resources.iter().filter(|r| r.requires_pruning && r.is_released_next);
            memory.recognised = extra.map(|r| r.key.clone()).collect();
            memory.marked = Some(marked(subject, &gathered.ownership, &comparison));
        }
        judge::shape(subject, &targets, comparison)
    });
    Compared { unlisted, ..compared.await }
}

/// By whose marks the live objects of a comparison are found (TRK-143).
fn marked(subject: Subject<'_>, ownership: &Ownership<'_>, comparison: &Comparison) -> MarkedObjects {
    let mut counts = BTreeMap::new();
    for live in comparison.resources.iter().filter_map(|resource| resource.live.as_ref()) {
        *counts.entry(ownership.marked(live)).or_default() += 1;
    }
    let cluster = SmolStr::new(&subject.resolved.destination.cluster.server);
    MarkedObjects { cluster, method: ownership.current.method, counts }
}

/// What a comparison looks at.
struct Gathered<'a> {
    targets: &'a Targets,
    live: &'a [Arc<Object>],
    by_key: &'a HashMap<ResourceKey, Seen<Arc<Object>>>,
    ignore: &'a IgnoreRules,
    ownership: Ownership<'a>,
}

/// Compares what was gathered. Takes as long as the users' programs do.
fn compare_pairs(
    subject: Subject<'_>,
    gathered: &Gathered<'_>,
    is_excluded: &dyn Fn(&GroupKind) -> bool,
    diffs: &mut DiffMemo,
) -> Comparison {
    let kinds = subject.resolved.destination.index.discovery().snapshot();
    let scope = |group_kind: &GroupKind| {
        kinds.as_ref().and_then(|kinds| kinds.scope(group_kind)).map(|scope| match scope {
            tiphys_cluster::Scope::Namespaced => Scope::Namespaced,
            tiphys_cluster::Scope::Cluster => Scope::Cluster,
        })
    };
    let policy = subject.cx.app.spec.sync_policy.as_ref();
    let find = |key: &ResourceKey| match gathered.by_key.get(key) {
        Some(seen) => seen.clone(),
        None => from_index(subject.resolved.destination.index.get(key)),
    };
    let input = CompareInput {
        application_namespace: &subject.cx.app.metadata.namespace,
        application_name: &subject.cx.app.metadata.name,
        destination_namespace: &subject.cx.app.spec.destination.namespace,
        targets: &gathered.targets.objects,
        managed: gathered.live,
        by_key: &find,
        scope: &scope,
        excluded: is_excluded,
        permitted_live: &|object| subject.is_visible(&object.key()),
        permitted_kind: &|key| {
            kind_permitted(
                &subject.resolved.project,
                Resource {
                    group: &key.group,
                    kind: &key.kind,
                    name: &key.name,
                    namespaced: !key.namespace.is_empty(),
                },
            )
        },
        ownership: gathered.ownership,
        ignore: gathered.ignore,
        diff: &subject.cx.world.diff,
        sync_options: subject.cx.app.sync_options(),
        managed_namespace: policy.and_then(|policy| policy.managed_namespace_metadata.as_ref()),
        managed_namespace_changed: compare::managed_namespace_changed(&subject.cx.app),
    };
    compare::compare(&input, diffs)
}

/// The managed objects with those that no mark finds: the application was never synced here, and its status lists them as
/// applied (TRK-104). The second answer is one that cannot be read.
pub(super) async fn with_recognised(
    subject: Subject<'_>,
    ownership: &Ownership<'_>,
    mut managed: Vec<Arc<Object>>,
    wanted: &HashSet<ResourceKey>,
) -> (Vec<Arc<Object>>, Option<(ResourceKey, String)>) {
    let known: HashSet<ResourceKey> = managed.iter().map(|object| object.key()).collect();
    let recorded: HashSet<&ResourceKey> = ownership.recorded().collect();
    for resource in &subject.cx.app.status.resources {
        let key = key_of(resource);
        if !recorded.contains(&key) || wanted.contains(&key) || known.contains(&key) {
            continue;
        }
        let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
        match recorded_root(&subject.resolved.destination, &key, gvk).await {
            Ok(found) => managed.extend(found.filter(|object| ownership.owns(object))),
            Err(why) => return (managed, Some((key, why))),
        }
    }
    managed.sort_by_cached_key(|object| object.key());
    (managed, None)
}

/// A root object that a status names, if it is there; an error is the reason why that is not known.
pub(super) async fn recorded_root(
    destination: &Destination,
    key: &ResourceKey,
    gvk: Gvk,
) -> Result<Option<Arc<Object>>, String> {
    let found = match destination.index.get(key) {
        IndexSeen::Present(object) => Some(object),
        IndexSeen::Reference { .. } => {
            let target = WriteTarget::new(gvk, &key.namespace, &key.name);
            let read = destination.index.live_with_books(&destination.writer, &target, &[]).await;
            read.map_err(|error| error.to_string())?
        }
        // What is gone is nobody's, and a kind that the settings leave to others is not looked at.
        IndexSeen::Absent => None,
        IndexSeen::Unknown(_) if destination.is_unwatched(&key.group_kind()) => None,
        IndexSeen::Unknown(why) => return Err(why),
    };
    Ok(found.filter(|object| is_root(object)))
}

/// The managed objects; those of which rules name field managers with what these own in `managedFields`, which
/// the index does not keep for everybody (ENG-70).
async fn with_books(
    subject: Subject<'_>,
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
        let Destination { index, writer, .. } = &*subject.resolved.destination;
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
    subject: Subject<'_>,
    targets: &Targets,
    managed: &HashSet<ResourceKey>,
    unknown: &HashMap<GroupKind, String>,
    ignore: &IgnoreRules,
) -> HashMap<ResourceKey, Seen<Arc<Object>>> {
    let namespace = &subject.cx.app.spec.destination.namespace;
    let known: HashSet<ResourceKey> = subject
        .cx
        .app
        .status
        .resources
        .iter()
        .filter(|r| !r.hook && subject.cx.app.status.health.status != HealthCode::Missing)
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
            let how = match subject.resolved.destination.index.get(&key) {
                _ if unknown.contains_key(&key.group_kind()) => Some(Read::Server),
                IndexSeen::Reference { .. } => Some(Read::Index),
                IndexSeen::Unknown(_) if subject.resolved.destination.is_unwatched(&key.group_kind()) => {
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
                            let outside = subject.resolved.destination.index.check_scope(&wanted).err();
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
        let seen = read(&subject.resolved.destination, &target, &key, &managers, how).await;
        (key, seen)
    };
    let reading = futures::stream::iter(reads.into_iter().map(read_one)).buffer_unordered(READS_AT_ONCE);
    // What is not read in time stays unknown.
    let mut reading = std::pin::pin!(reading.take_until(tokio::time::sleep(READ_TIMEOUT)));
    while let Some((key, seen)) = reading.next().await {
        if let Seen::Present(object) = &seen {
            subject.resolved.destination.index.contradict(object);
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
pub(super) fn failed(subject: Subject<'_>, targets: Targets, message: String) -> Compared {
    let comparison = Comparison {
        status: compare::SyncStatusCode::Unknown,
        resources: Vec::new(),
        hooks: Vec::new(),
        conditions: vec![Condition::new(ConditionType::ComparisonError, message.clone())],
        shared: Vec::new(),
        failed: Some(message),
        incomplete: false,
    };
    Compared {
        conditions: comparison.conditions.clone(),
        comparison,
        targets,
        // What was known stays; only its status is unknown now (ENG-53), and its health, which nobody could see
        // (INV-15).
        resources: unknown_resources(&subject.cx.app.status),
        health: unknown_health(),
        summary: subject.cx.app.status.summary.clone(),
        unlisted: None,
    }
}

fn key_of(r: &ResourceStatus) -> ResourceKey {
    ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name)
}
