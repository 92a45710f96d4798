//! Rendered sources by content: same inputs, same objects, no work (law 5).
//!
//! The key names every input of a rendering. Where the renderer read nothing outside the source's own
//! directory, the key holds that directory's id instead of the whole tree's, so a commit elsewhere in a
//! repository of a thousand applications renders nothing. Objects are stored stamped with their tracking data,
//! as compact bytes; the [`cache`] holds what no application does, within a bound of bytes.

mod cache;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use tiphys_cluster::{Kinds, Scope};
use tiphys_engine::tracking::TrackingSettings;
use tiphys_go::json::{self, JsonError};
use tiphys_go::memory::Memory;
use tiphys_object::{Gvk, Object, access};
use tiphys_render::jsonnet::Evaluator;
use tiphys_render::needs::{Need, Outcome, Supplies};
use tiphys_render::{
    Budget, Entry, Inputs, KnownDirectory, Reason, RenderError, RenderRequest, SourceType, Tree, TreeError,
    TreePath, WalkLimit, World as TemplateWorld, check_weight, render,
};
use tiphys_source::{Clock, Secret};
use tokio::sync::Semaphore;

use crate::app_key::AppKey;
use crate::gate::{Gates, Shared};
use crate::queue::Priority;
use crate::surroundings::Compute;

pub(crate) use cache::Held;
use cache::RenderCache;
use turns::{Size, Turns};

/// Version of the renderers; part of every key.
const RENDERER_VERSION: &str = "1";
/// Bytes of rendered objects that are kept although no application holds them.
const RELEASED_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Failures that are remembered.
const FAILURES_MAX: u64 = 10_000;
/// Failed attempts that are made before the failure is answered from memory (RND-145).
const ATTEMPTS_MAX: u32 = 3;
/// How long a failure is answered from memory (RND-145).
const FAILURE_PAUSE: Duration = Duration::from_hours(1);
/// What the text of a failure begins with that is answered from memory (RND-145).
const CACHED: &str = "Manifest generation error (cached): ";
/// Time one rendering may take (RND-20).
const RENDER_TIMEOUT: Duration = Duration::from_secs(90);
const TIMEOUT: &str = "timeout after 1m30s";
const SHUTTING_DOWN: &str = "shutting down";
/// What [`RenderFailure::Busy`] is in words.
pub(crate) const BUSY: &str = "too many large sources wait to be rendered";

/// The objects of one source.
#[derive(Debug)]
pub(crate) struct RenderedSource {
    /// Objects in render order, stamped.
    pub(crate) objects: Arc<[Arc<Object>]>,
    /// Type the source turned out to have.
    pub(crate) source_type: SourceType,
    /// Identity of this rendering: equal for equal inputs.
    pub(crate) id: [u8; 32],
    /// Whether nothing outside of the source's own directory was read.
    pub(crate) is_within: bool,
    bytes: u32,
}

#[derive(Clone)]
struct Failure {
    text: String,
    attempts: u32,
    /// When the last attempt failed, on the clock's time since its start.
    at: Duration,
}

/// What is rendered: the request, and what the objects are stamped with.
#[derive(Clone)]
pub(crate) struct RenderTask {
    /// The application it is for.
    pub(crate) key: AppKey,
    /// How urgent that application is.
    pub(crate) priority: Priority,
    /// The request.
    pub(crate) request: RenderRequest,
    /// Bounds.
    pub(crate) budget: Budget,
    /// Tracking settings with the application's effective method.
    pub(crate) tracking: Arc<TrackingSettings>,
    /// What the destination serves. No part of the key: it decides what is kept, not what is compared.
    pub(crate) kinds: Option<Arc<Kinds>>,
    /// A secret of the installation, for chance that is the same each time (RND-163). No part of the key: it does not
    /// change.
    pub(crate) secret: Secret,
    /// Whether cached results are passed over (RND-144).
    pub(crate) hard: bool,
}

/// Renders and remembers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Renders {
    done: RenderCache,
    failed: Cache<[u8; 32], Failure>,
    /// What renderings lacked, by key: they need not be begun to find that out again.
    needs: Cache<[u8; 32], Arc<[Need]>>,
    turns: Arc<Turns>,
    gates: Gates,
    /// Looks at trees, which need no slot (RND-19) and are bounded nonetheless.
    looks: Arc<Semaphore>,
    compute: Compute,
    clock: Clock,
    jsonnet: Arc<dyn Evaluator>,
}

impl Renders {
    /// Nothing rendered yet.
    pub(crate) fn new(gates: Gates, compute: Compute, clock: Clock, jsonnet: Arc<dyn Evaluator>) -> Self {
        Self::keeping(RELEASED_BYTES_MAX, gates, compute, clock, jsonnet)
    }

    /// The same, with the bytes that are kept although nobody holds them.
    fn keeping(
        released_bytes_max: u64,
        gates: Gates,
        compute: Compute,
        clock: Clock,
        jsonnet: Arc<dyn Evaluator>,
    ) -> Self {
        Self {
            jsonnet,
            done: RenderCache::new(released_bytes_max),
            failed: Cache::builder().max_capacity(FAILURES_MAX).build(),
            needs: Cache::builder().max_capacity(FAILURES_MAX).build(),
            turns: Arc::new(Turns::new(compute.parallelism())),
            gates,
            looks: Arc::new(Semaphore::new(compute.parallelism().max(1))),
            compute,
            clock,
        }
    }

    /// Bytes of rendered objects that are kept although no application holds them, about.
    pub(crate) fn released_bytes(&self) -> u64 {
        self.done.released_bytes()
    }

    /// How many rendered sources applications hold.
    pub(crate) fn held(&self) -> usize {
        self.done.held()
    }

    /// The objects of a source, with whether they were rendered now; or what it lacks. What was brought for it is a part
    /// of the key, so one that was rendered with these supplies is found again without any work.
    ///
    /// # Errors
    /// With the text users see.
    pub(crate) async fn get(
        &self,
        tree: Arc<dyn Tree>,
        task: RenderTask,
        supplies: Arc<Supplies>,
    ) -> Result<Outcome<(Arc<Held>, bool)>, RenderFailure> {
        let (task, Keys { narrow, clean, wide }) = self.look(&tree, task).await?;
        let (narrow, wide) = with_supplies(narrow, wide, &supplies);
        // A hard refresh renders anew, but not for every thing that is brought.
        if !task.hard || !supplies.is_empty() {
            if let Some(needs) = self.needs.get(&wide) {
                return Ok(Outcome::Needs(needs.to_vec()));
            }
        }
        if !task.hard {
            let hit = narrow.filter(|_| clean).and_then(|key| self.done.get(&key));
            if let Some(hit) = hit.or_else(|| self.done.get(&wide)) {
                return Ok(Outcome::Done((hit, false)));
            }
            if let Some(failure) = self.failure(&wide).filter(|failure| failure.attempts >= ATTEMPTS_MAX) {
                return Err(RenderFailure::Text(format!("{CACHED}{}", failure.text)));
            }
        }
        let outcome = self.run((tree, supplies), task, narrow, wide).await?;
        Ok(match outcome {
            Outcome::Done(rendered) => Outcome::Done((rendered, true)),
            Outcome::Needs(needs) => Outcome::Needs(needs),
        })
    }

    /// Keys of a rendering, and whether all links of the tree stay inside. Unless both are known they are read from
    /// the repository, which is work for the threads that may block, within the time of a rendering.
    async fn look(&self, tree: &Arc<dyn Tree>, mut task: RenderTask) -> Result<(RenderTask, Keys), String> {
        let path = TreePath::parse(&task.request.source.path).ok();
        if let Some(known) = path.and_then(|path| tree.known(&path)) {
            let keys = Keys::of(tree.id(), known, &task);
            return Ok((task, keys));
        }
        let look = Arc::clone(&self.looks).acquire_owned().await;
        let Ok(look) = look else { return Err(SHUTTING_DOWN.to_owned()) };
        let cancelled = Arc::new(AtomicBool::new(false));
        task.budget.cancelled = Some(Arc::clone(&cancelled));
        let tree = Arc::clone(tree);
        let job = self.compute.run(move || {
            let keys = Keys::of(tree.id(), look_at(tree.as_ref(), &task), &task);
            drop(look);
            (task, keys)
        });
        let Ok(looked) = tokio::time::timeout(RENDER_TIMEOUT, job).await else {
            cancelled.store(true, Ordering::Relaxed);
            return Err(TIMEOUT.to_owned());
        };
        looked.map_err(|panic| format!("rendering failed unexpectedly: {panic}"))
    }

    /// A failure that is not too long ago to count.
    fn failure(&self, key: &[u8; 32]) -> Option<Failure> {
        let now = self.clock.elapsed();
        self.failed.get(key).filter(|failure| now.saturating_sub(failure.at) < FAILURE_PAUSE)
    }

    async fn run(
        &self,
        (tree, supplies): (Arc<dyn Tree>, Arc<Supplies>),
        task: RenderTask,
        narrow: Option<[u8; 32]>,
        wide: [u8; 32],
    ) -> Result<Outcome<Arc<Held>>, RenderFailure> {
        let task = Arc::new(task);
        let work = {
            let (task, jsonnet) = (Arc::clone(&task), Arc::clone(&self.jsonnet));
            let world = TemplateWorld { now: self.clock.now(), chance: Some(chance) };
            move |budget: &Budget| {
                let inputs = Inputs {
                    tree: tree.as_ref(),
                    supplies: &supplies,
                    jsonnet: jsonnet.as_ref(),
                    world,
                    secret: task.secret.expose().as_bytes(),
                };
                render_stamped(&inputs, &task, budget)
            }
        };
        match self.in_turn(&task.key, task.priority, &task.budget, work).await {
            Ok(Outcome::Needs(needs)) => {
                self.needs.insert(wide, needs.clone().into());
                Ok(Outcome::Needs(needs))
            }
            Ok(Outcome::Done((objects, source_type, inside))) => {
                // The narrow key names no cluster: what may differ between clusters must not be found by it.
                let inside = inside && !source_type.depends_on_cluster();
                let id = narrow.filter(|_| inside).unwrap_or(wide);
                let bytes: usize = objects.iter().map(|object| object.raw().len() + 600).sum();
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.failed.invalidate(&wide);
                let is_within = inside && narrow.is_some();
                Ok(Outcome::Done(self.done.put(RenderedSource {
                    objects: objects.into(),
                    source_type,
                    id,
                    is_within,
                    bytes,
                })))
            }
            Err(failed) => {
                // Failures that say nothing about the content do not count towards the pause (RND-146).
                if matches!(failed.why, Why::Content | Why::NeedsMore) {
                    let attempts =
                        self.failure(&wide).map_or(0, |failure| failure.attempts).saturating_add(1);
                    let at = self.clock.elapsed();
                    self.failed.insert(wide, Failure { text: failed.text.clone(), attempts, at });
                }
                Err(failed.into())
            }
        }
    }

    /// The objects of manifests that came with an operation (CTL-42), stamped like generated ones (TRK-82).
    ///
    /// # Errors
    /// With the text users see.
    pub(crate) async fn local(
        &self,
        key: &AppKey,
        priority: Priority,
        manifests: Vec<String>,
        stamp: Stamp,
    ) -> Result<Vec<Arc<Object>>, RenderFailure> {
        let given = Arc::new((manifests, stamp));
        let work = move |budget: &Budget| local_stamped(&given.0, &given.1, budget);
        Ok(self.in_turn(key, priority, &Budget::default(), work).await?)
    }

    /// Works as on a small source, and as on a large one if that does not do. Few workers wait for the turn of large
    /// ones; an application that comes on top of them is called later.
    async fn in_turn<T: Send + 'static>(
        &self,
        key: &AppKey,
        priority: Priority,
        budget: &Budget,
        work: impl Fn(&Budget) -> Result<T, Failed> + Clone + Send + 'static,
    ) -> Result<T, Failed> {
        match self.attempt(Size::Small, budget, work.clone()).await {
            Err(Failed { why: Why::NeedsMore, .. }) => {
                let place = self.gates.enter(key, priority, [Shared::LargeRendering]);
                let busy = || Failed::new(Why::Busy, BUSY);
                let _place = place.ok_or_else(busy)?;
                self.attempt(Size::Large, budget, work).await
            }
            outcome => outcome,
        }
    }

    /// Works within what a size allows, when its turn has come. The turn ends with the work, also when nobody waits
    /// for that any more.
    async fn attempt<T: Send + 'static>(
        &self,
        size: Size,
        budget: &Budget,
        work: impl FnOnce(&Budget) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Failed> {
        let turn = self.turns.take(size).await;
        let Some(turn) = turn else { return Err(Failed::new(Why::Transient, SHUTTING_DOWN)) };
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut budget = size.within(budget);
        budget.cancelled = Some(Arc::clone(&cancelled));
        let job = self.compute.run(move || {
            let _turn = turn;
            work(&budget)
        });
        match tokio::time::timeout(RENDER_TIMEOUT, job).await {
            Err(_) => {
                cancelled.store(true, Ordering::Relaxed);
                Err(Failed::new(Why::Transient, TIMEOUT))
            }
            Ok(Err(panic)) => {
                Err(Failed::new(Why::Content, format!("rendering failed unexpectedly: {panic}")))
            }
            Ok(Ok(outcome)) => outcome,
        }
    }
}

/// Why nothing was rendered.
#[derive(Debug)]
pub(crate) enum RenderFailure {
    /// Too many wait to render large sources already; the application is called when there is a place.
    Busy,
    /// What users see.
    Text(String),
}

impl From<Failed> for RenderFailure {
    fn from(failed: Failed) -> Self {
        if failed.why == Why::Busy { Self::Busy } else { Self::Text(failed.text) }
    }
}

impl From<String> for RenderFailure {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// An attempt that failed.
struct Failed {
    why: Why,
    text: String,
}

/// What a failure says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Nothing about the content.
    Transient,
    /// That the content cannot be rendered.
    Content,
    /// That the content takes more memory than the attempt had.
    NeedsMore,
    /// That nothing was tried, because too many wait.
    Busy,
}

impl Failed {
    fn new(why: Why, text: impl Into<String>) -> Self {
        Self { why, text: text.into() }
    }
}

impl From<RenderError> for Failed {
    fn from(error: RenderError) -> Self {
        let why = match error.reason {
            Reason::MemoryExceeded => Why::NeedsMore,
            _ if error.is_transient() => Why::Transient,
            _ => Why::Content,
        };
        Self::new(why, error.message)
    }
}

/// Whether two texts tell of the same failure, answered from memory or not.
pub(crate) fn is_same_failure(one: &str, other: &str) -> bool {
    one.replacen(CACHED, "", 1) == other.replacen(CACHED, "", 1)
}

type Stamped = (Vec<Arc<Object>>, SourceType, bool);

/// With what objects are marked as an application's.
pub(crate) struct Stamp {
    /// Tracking settings with the application's effective method.
    pub(crate) tracking: Arc<TrackingSettings>,
    /// The application, as tracking names it.
    pub(crate) instance_name: String,
    /// Namespace of the destination.
    pub(crate) namespace: String,
    /// What the destination serves.
    pub(crate) kinds: Option<Arc<Kinds>>,
}

impl Stamp {
    /// Places, stamps and packs.
    ///
    /// An object that names no namespace gets the destination's, where its kind is known to live in one: then the
    /// comparison, which looks at scopes again, has no second copy of it to keep.
    fn pack(&self, mut value: serde_json::Value) -> Result<Arc<Object>, Failed> {
        let kinds = self.kinds.as_ref().filter(|_| !self.namespace.is_empty());
        let scope = kinds.and_then(|kinds| kinds.scope(&Gvk::of(&value).group_kind()));
        if scope == Some(Scope::Namespaced) && access::namespace(&value).is_empty() {
            let namespace = self.namespace.as_str().into();
            access::metadata_mut(&mut value).insert("namespace".to_owned(), namespace);
        }
        self.tracking
            .stamp(&mut value, &self.instance_name, &self.namespace)
            .map_err(|error| Failed::new(Why::Content, error.to_string()))?;
        let object = Object::from_value(&value);
        object.map(Arc::new).map_err(|error| Failed::new(Why::Content, error.to_string()))
    }
}

/// Renders, stamps and packs.
fn render_stamped(
    inputs: &Inputs<'_>,
    task: &RenderTask,
    budget: &Budget,
) -> Result<Outcome<Stamped>, Failed> {
    let request = &task.request;
    let stamp = Stamp {
        tracking: Arc::clone(&task.tracking),
        instance_name: request.context.instance_name.clone(),
        namespace: request.context.destination_namespace.clone(),
        kinds: task.kinds.clone(),
    };
    let witness = Witness { tree: inputs.tree, inside: &request.source.path, left: AtomicBool::new(false) };
    let rendered = match render(request, &Inputs { tree: &witness, ..*inputs }, budget)? {
        Outcome::Done(rendered) => rendered,
        Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
    };
    let objects = rendered.objects.into_iter().map(|value| stamp.pack(value)).collect::<Result<_, _>>()?;
    Ok(Outcome::Done((objects, rendered.source_type, !witness.left.load(Ordering::Relaxed))))
}

/// Reads, stamps and packs manifests one after another.
fn local_stamped(manifests: &[String], stamp: &Stamp, budget: &Budget) -> Result<Vec<Arc<Object>>, Failed> {
    let mut memory = Memory::new(budget.memory);
    let read = |text: &String| {
        let value = json::decode_kubernetes_within(text.as_bytes(), &mut memory).map_err(|error| {
            let why = if matches!(error, JsonError::Memory { .. }) { Why::NeedsMore } else { Why::Content };
            Failed::new(why, error.to_string())
        })?;
        check_weight(&value, budget)?;
        stamp.pack(value)
    };
    manifests.iter().map(read).collect()
}

/// What one look at a tree says about a rendering.
struct Keys {
    /// The key by the source's own directory, for any cluster. It is only ever filled by a rendering that read nothing
    /// else, of a type that does not depend on the cluster.
    narrow: Option<[u8; 32]>,
    /// Whether no link leaves the tree: the one check that looks at all of it, repeated before the narrow key
    /// is used; trees remember its answer.
    clean: bool,
    /// The key by the whole tree.
    wide: [u8; 32],
}

impl Keys {
    fn of(tree: &str, directory: KnownDirectory, task: &RenderTask) -> Self {
        let by_directory = |id: String| key(task, "directory", &id, &task.request.identity_anywhere());
        Self {
            narrow: directory.id.map(by_directory),
            clean: directory.is_clean,
            wide: key(task, "tree", tree, &task.request.identity()),
        }
    }
}

/// Reads what [`Keys`] are made of; what cannot be read makes no narrow key.
fn look_at(tree: &dyn Tree, task: &RenderTask) -> KnownDirectory {
    let is_clean = tree.escaping_link(&mut task.budget.walk()).is_ok_and(|link| link.is_none());
    let path = TreePath::parse(&task.request.source.path).ok();
    KnownDirectory { id: path.and_then(|path| tree.subtree_id(&path).ok()?), is_clean }
}

/// The keys of a rendering with what was brought for it (RND-141).
fn with_supplies(
    narrow: Option<[u8; 32]>,
    wide: [u8; 32],
    supplies: &Supplies,
) -> (Option<[u8; 32]>, [u8; 32]) {
    if supplies.is_empty() {
        return (narrow, wide);
    }
    let digest = supplies.digest();
    let with = |key: [u8; 32]| hash([&key[..], &digest]);
    (narrow.map(with), with(wide))
}

/// Chance of the machine, for templates that want it.
fn chance(bytes: &mut [u8]) {
    // A machine without chance makes passwords of zeroes; it has none only before it has started.
    if aws_lc_rs::rand::fill(bytes).is_err() {
        bytes.fill(0);
    }
}

/// Hash of everything a rendering depends on (RND-141, RND-142).
fn key(task: &RenderTask, what: &str, id: &str, identity: &[u8]) -> [u8; 32] {
    let inputs = inputs(identity, &task.tracking);
    let bytes = task.budget.combined_manifest_bytes.to_be_bytes();
    hash([RENDERER_VERSION.as_bytes(), what.as_bytes(), id.as_bytes(), &inputs, &bytes])
}

/// Hash of what is rendered and how objects are stamped, without the tree.
pub(crate) fn inputs(identity: &[u8], tracking: &TrackingSettings) -> [u8; 32] {
    // What is recognised on live objects, and what is wrong with the settings, changes no stamp.
    let TrackingSettings {
        method,
        label_key,
        annotation_key,
        annotation_format,
        hash_algorithm,
        name_annotation,
        name_annotation_key,
        installation_id,
        carrier,
        installation_id_key,
        control_plane_namespace,
        overrides: _,
        migrates: _,
        rejects_foreign: _,
        problems: _,
    } = tracking;
    hash([
        identity,
        method.as_str().as_bytes(),
        label_key.as_bytes(),
        annotation_key.as_bytes(),
        annotation_format.as_str().as_bytes(),
        hash_algorithm.as_str().as_bytes(),
        name_annotation.as_str().as_bytes(),
        name_annotation_key.as_bytes(),
        installation_id.as_bytes(),
        carrier.as_str().as_bytes(),
        installation_id_key.as_bytes(),
        control_plane_namespace.as_bytes(),
    ])
}

/// Hash of fields, each with its length.
fn hash<const N: usize>(fields: [&[u8]; N]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

/// A tree that notices whether anything outside one directory was looked at.
struct Witness<'a> {
    tree: &'a dyn Tree,
    inside: &'a str,
    left: AtomicBool,
}

impl Witness<'_> {
    fn note(&self, path: &TreePath) {
        let path = path.as_str();
        let inside = self.inside.trim_matches('/');
        let within = matches!(inside, "" | ".")
            || path.strip_prefix(inside).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            // Components above the directory are looked at on the way down to it.
            || inside.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('/'));
        if !within {
            self.left.store(true, Ordering::Relaxed);
        }
    }
}

impl Tree for Witness<'_> {
    fn id(&self) -> &str {
        self.tree.id()
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        self.tree.subtree_id(path)
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        self.note(path);
        self.tree.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        self.note(path);
        self.tree.list(path)
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        self.note(path);
        self.tree.read(path, max_bytes)
    }

    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        self.tree.escaping_link(limit)
    }
}

#[cfg(test)]
mod tests;
