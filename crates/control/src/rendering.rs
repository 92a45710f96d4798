//! Rendered sources by content: same inputs, same objects, no work (law 5).
//!
//! The key names every input of a rendering. It holds the id of the deepest directory that contains all that the renderer
//! read instead of the whole tree's, so a commit elsewhere in a repository of a thousand applications renders nothing. Objects are stored stamped with their tracking data,
//! as compact bytes; the [`cache`] holds what no application does, within a bound of bytes.

mod backoff;
mod cache;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use moka::sync::Cache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tiphys_cluster::{Kinds, Scope};
use tiphys_engine::tracking::TrackingSettings;
use tiphys_go::json::{self, JsonError};
use tiphys_go::memory::Memory;
use tiphys_lifecycle::hydration::commit;
use tiphys_object::{Gvk, Object, access};
use tiphys_render::jsonnet::Evaluator;
use tiphys_render::needs::{Need, Outcome, Supplies};
use tiphys_render::{
    Budget, Compared, Comparison, Entry, Inputs, KnownDirectory, Reason, RenderError, RenderRequest,
    SourceType, Tree, TreeError, TreePath, WalkLimit, World as TemplateWorld, check_weight, command_lines,
    render,
};
use tiphys_source::{Clock, Secret, Size, StopOnDrop, Turns};

use crate::app_key::AppKey;
use crate::gate::{Gates, Shared};
use crate::metrics::{Lookup, MismatchLabels, RenderMetrics};
use crate::queue::Priority;
use crate::surroundings::Compute;

use backoff::{Attempt, Backoff};
pub(crate) use cache::Held;
use cache::RenderCache;

/// Version of the renderers; part of every key.
const RENDERER_VERSION: &str = "1";
/// Bytes of rendered objects that are kept although no application holds them.
const RELEASED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Failures that are remembered.
const FAILURES_MAX: u64 = 10_000;
/// Sources of which it is known how far they read.
const REACHES_MAX: u64 = 50_000;
/// Failed attempts that are made before the failure is answered from memory (RND-145).
const ATTEMPTS_MAX: u32 = 3;
/// How long a failure is answered from memory (RND-145).
const FAILURE_PAUSE: Duration = Duration::from_hours(1);
/// What the text of a failure begins with that is answered from memory (RND-145).
const CACHED: &str = "Manifest generation error (cached): ";
/// Bytes of the manifests of one application in one file: no hosting service takes more.
const MANIFESTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time one rendering may take (RND-20).
const RENDER_TIMEOUT: Duration = Duration::from_secs(90);
const TIMEOUT: &str = "timeout after 1m30s";
/// Why nothing is rendered while too many wait.
const BUSY_LARGE: &str = "too many large sources wait to be rendered";
const BUSY_PROJECT: &str = "too many sources of the project wait to be rendered";

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
    /// Which of its sources it is.
    pub(crate) position: usize,
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
    /// Whether a person or program asked for it now: then it is tried again although it ran out of its bounds before.
    pub(crate) is_asked: bool,
}

/// Renders and remembers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Renders {
    done: RenderCache,
    failed: Cache<[u8; 32], Failure>,
    /// What renderings lacked, by key: they need not be begun to find that out again.
    needs: Cache<[u8; 32], Arc<[Need]>>,
    /// How far from their own directories sources read, by their request without any tree.
    reaches: Cache<[u8; 32], TreePath>,
    gates: Gates,
    /// Looks at trees, which need no slot (RND-19) and are bounded nonetheless.
    looks: Turns,
    backoff: Arc<Mutex<Backoff>>,
    compute: Compute,
    clock: Clock,
    jsonnet: Arc<dyn Evaluator>,
    metrics: RenderMetrics,
}

impl Renders {
    /// Nothing rendered yet.
    pub(crate) fn new(
        gates: Gates,
        compute: Compute,
        clock: Clock,
        jsonnet: Arc<dyn Evaluator>,
        metrics: RenderMetrics,
    ) -> Self {
        Self { metrics, ..Self::keeping(RELEASED_BYTES_MAX, gates, compute, clock, jsonnet) }
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
            reaches: Cache::builder().max_capacity(REACHES_MAX).build(),
            gates,
            looks: Turns::new(compute.parallelism(), None),
            backoff: Arc::default(),
            compute,
            clock,
            metrics: RenderMetrics::default(),
        }
    }

    /// Tells and counts that a program renders a source otherwise than this process (RND-159).
    fn compared(&self, key: &AppKey, compared: &Compared) {
        match compared.comparison {
            Comparison::Equal => {}
            Comparison::Differs(_) => {
                let tool = compared.tool.as_str();
                self.metrics.mismatches.get_or_create(&MismatchLabels { tool }).inc();
                tracing::warn!(app = %key, "{compared}");
            }
            Comparison::Unknown(_) => tracing::warn!(app = %key, "{compared}"),
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
        let (task, keys) = self.look(&tree, task).await?;
        let keys = keys.with_supplies(&supplies);
        let wide = keys.wide;
        // A hard refresh renders anew, but not for every thing that is brought.
        if (!task.hard || !supplies.is_empty())
            && let Some(needs) = self.needs.get(&wide)
        {
            return Ok(Outcome::Needs(needs.to_vec()));
        }
        if !task.hard {
            if let Some(hit) = keys.all(&task).find_map(|key| self.done.get(&key)) {
                self.metrics.looked_up(Lookup::Hit);
                return Ok(Outcome::Done((hit, false)));
            }
            if let Some(failure) = self.failure(&wide).filter(|failure| failure.attempts >= ATTEMPTS_MAX) {
                self.metrics.looked_up(Lookup::ErrorCached);
                return Err(RenderFailure::Text(format!("{CACHED}{}", failure.text)));
            }
        }
        self.metrics.looked_up(Lookup::Miss);
        let outcome = self.run((tree, supplies), task, keys).await?;
        Ok(match outcome {
            Outcome::Done(rendered) => Outcome::Done((rendered, true)),
            Outcome::Needs(needs) => Outcome::Needs(needs),
        })
    }

    /// Keys of a rendering, and whether all links of the tree stay inside. Unless both are known they are read from
    /// the repository, which is work for the threads that may block, within the time of a rendering.
    async fn look(&self, tree: &Arc<dyn Tree>, mut task: RenderTask) -> Result<(RenderTask, Keys), String> {
        let base = base_key(&task);
        let own = own_path(&task);
        let reach = self.reaches.get(&base).or_else(|| own.clone());
        let known = |path: &Option<TreePath>| path.as_ref().and_then(|path| tree.known(path));
        if let (Some(own), Some(near)) = (known(&own), known(&reach)) {
            let keys = Keys::of(tree.id(), (base, own), (reach, near), &task);
            return Ok((task, keys));
        }
        let look = self.looks.take(&task.request.context.project, Size::Small).await;
        let waiting = StopOnDrop::default();
        task.budget.cancelled = Some(waiting.is_dropped());
        let tree = Arc::clone(tree);
        let job = self.compute.run(move || {
            let looked = look_at(tree.as_ref(), own.as_ref(), &task);
            let near_id = reach.as_ref().and_then(|path| tree.subtree_id(path).ok().flatten());
            let near = KnownDirectory { id: near_id, is_clean: looked.is_clean };
            let keys = Keys::of(tree.id(), (base, looked), (reach, near), &task);
            drop(look);
            task.budget.cancelled = None;
            (task, keys)
        });
        let Ok(looked) = tokio::time::timeout(RENDER_TIMEOUT, job).await else {
            return Err(TIMEOUT.to_owned());
        };
        looked.map_err(|panic| format!("rendering failed unexpectedly: {panic}"))
    }

    /// The key by the directory that holds all that was read, where that is not the whole tree: from now on a change
    /// elsewhere renders nothing.
    fn near(
        &self,
        tree: &Arc<dyn Tree>,
        task: &RenderTask,
        keys: &Keys,
        reach: TreePath,
    ) -> Option<[u8; 32]> {
        if reach.is_root() {
            return None;
        }
        let id = tree.subtree_id(&reach).ok()??;
        let near = keys.supplied(near_key(task, &reach, &id));
        self.reaches.insert(keys.base, reach);
        Some(near)
    }

    /// A failure that is not too long ago to count.
    fn failure(&self, key: &[u8; 32]) -> Option<Failure> {
        let now = self.clock.elapsed();
        self.failed.get(key).filter(|failure| now.saturating_sub(failure.at) < FAILURE_PAUSE)
    }

    /// Counts a failure towards the pause (RND-145).
    fn count_failure(&self, key: [u8; 32], text: &str) {
        let attempts = self.failure(&key).map_or(0, |failure| failure.attempts).saturating_add(1);
        let at = self.clock.elapsed();
        self.failed.insert(key, Failure { text: text.to_owned(), attempts, at });
    }

    /// Counts that what a source lacks cannot be brought, for reasons that are its own: a plugin that refuses its files
    /// is not asked again and again.
    ///
    /// # Errors
    /// With the text users see, when the tree cannot be looked at.
    pub(crate) async fn failed_to_bring(
        &self,
        tree: &Arc<dyn Tree>,
        task: RenderTask,
        supplies: &Supplies,
        text: &str,
    ) -> Result<(), RenderFailure> {
        let (_, keys) = self.look(tree, task).await?;
        self.count_failure(keys.with_supplies(supplies).wide, text);
        Ok(())
    }

    async fn run(
        &self,
        (tree, supplies): (Arc<dyn Tree>, Arc<Supplies>),
        task: RenderTask,
        keys: Keys,
    ) -> Result<Outcome<Arc<Held>>, RenderFailure> {
        let wide = keys.wide;
        let is_supplied = !supplies.is_empty();
        let own_tree = Arc::clone(&tree);
        let task = Arc::new(task);
        let work = self.work(tree, supplies, &task, render_stamped);
        match self.in_turn(&Wanted::of(&task, &wide), &task.budget, work).await {
            Ok((Outcome::Needs(needs), _)) => {
                // What programs are asked holds whole files; what plugins are asked names the revision, which the key does
                // not.
                if !needs.iter().any(|need| matches!(need, Need::Tool(_) | Need::Plugin(_))) {
                    self.needs.insert(wide, needs.clone().into());
                }
                Ok(Outcome::Needs(needs))
            }
            Ok((Outcome::Done(Stamped { objects, source_type, is_pinned, reach, compared }), took)) => {
                let renderer = task.request.context.tools.renderer_of(source_type);
                self.metrics.rendered(tool_of(source_type), renderer, took);
                if let Some(compared) = compared {
                    self.compared(&task.key, &compared);
                }
                let inside = keys.is_own(&reach);
                let id = if is_pinned {
                    keys.pinned(&task)
                } else if inside && !source_type.depends_on_cluster() {
                    // The narrow key names no cluster: what may differ between clusters must not be found by it.
                    keys.narrow.unwrap_or(wide)
                } else {
                    self.near(&own_tree, &task, &keys, reach).unwrap_or(wide)
                };
                let bytes: usize = objects.iter().map(|object| object.stored_len() + 600).sum();
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.failed.invalidate(&wide);
                let is_within = inside && !is_supplied && !is_pinned;
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
                if failed.why == Why::Content {
                    self.count_failure(wide, &failed.text);
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
        (key, project): (&AppKey, &str),
        priority: Priority,
        (manifests, stamp): (Vec<String>, Stamp),
        budget: &Budget,
    ) -> Result<Vec<Arc<Object>>, RenderFailure> {
        let given = Arc::new((manifests, stamp));
        let work = move |budget: &Budget| local_stamped(&given.0, &given.1, budget);
        // Manifests of an operation are no source, and each time others.
        let wanted = Wanted { key, position: usize::MAX, project, priority, id: [0; 32], is_asked: true };
        Ok(self.in_turn(&wanted, budget, work).await?.0)
    }

    /// The manifests of a source as one file, without the marks of the task's settings (CTL-110, TRK-81), and the commands
    /// that make them; or what it lacks. Nothing is remembered, and nothing that is remembered is used.
    ///
    /// # Errors
    /// With the text users see.
    pub(crate) async fn manifests(
        &self,
        tree: Arc<dyn Tree>,
        task: RenderTask,
        supplies: Arc<Supplies>,
    ) -> Result<Outcome<Manifests>, RenderFailure> {
        let id = key(&task, "tree", tree.id(), &task.request.identity());
        let task = Arc::new(task);
        let work = self.work(tree, supplies, &task, render_manifests);
        Ok(self.in_turn(&Wanted::of(&task, &id), &task.budget, work).await?.0)
    }

    /// The work of rendering a task with all its inputs.
    fn work<T>(
        &self,
        tree: Arc<dyn Tree>,
        supplies: Arc<Supplies>,
        task: &Arc<RenderTask>,
        render: impl Fn(&Inputs<'_>, &RenderTask, &Budget) -> Result<T, Failed> + Clone + Send + 'static,
    ) -> impl Fn(&Budget) -> Result<T, Failed> + Clone + Send + 'static {
        let (task, jsonnet) = (Arc::clone(task), Arc::clone(&self.jsonnet));
        let world = TemplateWorld { now: self.clock.now(), chance: Some(chance) };
        move |budget: &Budget| {
            let inputs = Inputs {
                tree: tree.as_ref(),
                supplies: &supplies,
                jsonnet: jsonnet.as_ref(),
                world,
                secret: task.secret.expose().as_bytes(),
            };
            render(&inputs, &task, budget)
        }
    }

    /// Works as on a small source, and as on a large one if that does not do; says how long the attempt took that counts.
    /// Few workers wait for renderings of one project, and few for the turn of large ones; an application that comes on top
    /// of them is called later. What ran out of its bounds before is not tried before its pause is over.
    async fn in_turn<T: Send + 'static>(
        &self,
        wanted: &Wanted<'_>,
        budget: &Budget,
        work: impl Fn(&Budget) -> Result<T, Failed> + Clone + Send + 'static,
    ) -> Result<(T, Duration), Failed> {
        if let Some(text) = self.backoff.lock().refusal(wanted.attempt(), self.clock.elapsed()) {
            return Err(Failed::new(Why::Refused, format!("{CACHED}{text}")));
        }
        let places = |shared: &[Shared], text| {
            let places = self.gates.enter(wanted.key, wanted.priority, shared.iter().cloned());
            places.ok_or_else(|| Failed::new(Why::Busy, text))
        };
        let project = || wanted.project.to_owned();
        let (mut took, outcome) = {
            let _places = places(&[Shared::Rendering(project())], BUSY_PROJECT)?;
            self.attempt(wanted, Size::Small, budget, work.clone()).await
        };
        let outcome = match outcome {
            Err(Failed { why: Why::NeedsMore, .. }) => {
                let shared = [Shared::LargeRenderingOf(project()), Shared::LargeRendering];
                let _places = places(&shared, BUSY_LARGE)?;
                let (more, outcome) = self.attempt(wanted, Size::Large, budget, work).await;
                took += more;
                outcome
            }
            outcome => outcome,
        };
        let now = self.clock.elapsed();
        match &outcome {
            Err(Failed { why: Why::Exhausted | Why::NeedsMore, text }) => {
                self.backoff.lock().exhausted(wanted.attempt(), text, took, now);
            }
            _ => self.backoff.lock().ended(wanted.attempt()),
        }
        outcome
    }

    /// Works within what a size allows, when its turn has come; says how long the turn was held. The turn ends with the
    /// work, which ends soon when nothing waits for that any more.
    async fn attempt<T: Send + 'static>(
        &self,
        wanted: &Wanted<'_>,
        size: Size,
        budget: &Budget,
        work: impl FnOnce(&Budget) -> Result<T, Failed> + Send + 'static,
    ) -> (Duration, Result<(T, Duration), Failed>) {
        let before = self.clock.elapsed();
        let turn = self.compute.turn(wanted.project, size).await;
        let began = self.clock.elapsed();
        self.metrics.waited(began.saturating_sub(before));
        let waiting = StopOnDrop::default();
        let mut budget = within(size, budget);
        budget.cancelled = Some(waiting.is_dropped());
        let clock = self.clock.clone();
        let job = self.compute.run(move || {
            let _turn = turn;
            let began = clock.elapsed();
            let done = work(&budget)?;
            Ok((done, clock.elapsed().saturating_sub(began)))
        });
        let outcome = match tokio::time::timeout(RENDER_TIMEOUT, job).await {
            Err(_) => Err(Failed::new(Why::Exhausted, TIMEOUT)),
            Ok(Err(panic)) => {
                Err(Failed::new(Why::Content, format!("rendering failed unexpectedly: {panic}")))
            }
            Ok(Ok(outcome)) => outcome,
        };
        (self.clock.elapsed().saturating_sub(began), outcome)
    }
}

/// The bounds of a rendering of a size; never more than the given ones.
fn within(size: Size, budget: &Budget) -> Budget {
    match size {
        Size::Small => budget.small(),
        Size::Large => budget.clone(),
    }
}

/// For whom something is rendered, and what.
struct Wanted<'a> {
    key: &'a AppKey,
    position: usize,
    project: &'a str,
    priority: Priority,
    id: [u8; 32],
    is_asked: bool,
}

impl<'a> Wanted<'a> {
    fn of(task: &'a RenderTask, id: &[u8; 32]) -> Self {
        Self {
            key: &task.key,
            position: task.position,
            project: &task.request.context.project,
            priority: task.priority,
            id: *id,
            is_asked: task.is_asked,
        }
    }

    fn attempt(&self) -> Attempt<'_> {
        let Self { key, position, project, id, is_asked, .. } = self;
        Attempt { application: key, position: *position, project, id, is_asked: *is_asked }
    }
}

/// The manifests of a source as one file.
pub(crate) struct Manifests {
    /// The file.
    pub(crate) text: String,
    /// The commands that make the same (RND-2).
    pub(crate) commands: Vec<String>,
}

/// What metrics name the tool of a source.
fn tool_of(source_type: SourceType) -> &'static str {
    match source_type {
        SourceType::Helm => "helm",
        SourceType::Kustomize => "kustomize",
        SourceType::Directory => "directory",
        SourceType::Plugin => "plugin",
    }
}

/// Why nothing was rendered.
#[derive(Debug)]
pub(crate) enum RenderFailure {
    /// Too many wait already, for the reason given; the application is called when there is a place.
    Busy(String),
    /// What users see.
    Text(String),
}

impl From<Failed> for RenderFailure {
    fn from(failed: Failed) -> Self {
        if failed.why == Why::Busy { Self::Busy(failed.text) } else { Self::Text(failed.text) }
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
    /// That the time, or what it may do, ran out.
    Exhausted,
    /// That nothing was tried, because it ran out before.
    Refused,
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
            Reason::BudgetExceeded => Why::Exhausted,
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

/// A rendering whose objects are stamped and packed.
struct Stamped {
    objects: Vec<Arc<Object>>,
    source_type: SourceType,
    /// Whether a file of the tree makes it depend on the revision.
    is_pinned: bool,
    /// The directory that holds all that was read.
    reach: TreePath,
    /// How its two renderers compare.
    compared: Option<Compared>,
}

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
        object
            .map(|object| Arc::new(object.packed()))
            .map_err(|error| Failed::new(Why::Content, error.to_string()))
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
    let witness = Witness::new(inputs.tree, &request.source.path);
    let rendered = match render(request, &Inputs { tree: &witness, ..*inputs }, budget)? {
        Outcome::Done(rendered) => rendered,
        Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
    };
    let objects = rendered.objects.into_iter().map(|value| stamp.pack(value)).collect::<Result<_, _>>()?;
    Ok(Outcome::Done(Stamped {
        objects,
        source_type: rendered.source_type,
        is_pinned: rendered.is_pinned,
        reach: witness.reach(),
        compared: rendered.compared,
    }))
}

/// Renders into the text of one file.
fn render_manifests(
    inputs: &Inputs<'_>,
    task: &RenderTask,
    budget: &Budget,
) -> Result<Outcome<Manifests>, Failed> {
    let mut rendered = match render(&task.request, inputs, budget)? {
        Outcome::Done(rendered) => rendered,
        Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
    };
    for object in &mut rendered.objects {
        task.tracking.unstamp(object);
    }
    let text = commit::manifests(&rendered.objects, MANIFESTS_BYTES_MAX);
    let text = text.map_err(|error| Failed::new(Why::Content, error))?;
    Ok(match command_lines(&task.request, rendered.source_type, inputs, budget)? {
        Outcome::Done(commands) => Outcome::Done(Manifests { text, commands }),
        Outcome::Needs(needs) => Outcome::Needs(needs),
    })
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
    /// The key by the directory that held all that was read the last time, for this cluster.
    near: Option<[u8; 32]>,
    /// Whether no link leaves the tree: the one check that looks at all of it, repeated before these keys are used;
    /// trees remember its answer.
    clean: bool,
    /// The key by the whole tree.
    wide: [u8; 32],
    /// The request without any tree.
    base: [u8; 32],
    /// The source's own directory.
    own: Option<TreePath>,
    /// What was brought; nothing where nothing was.
    supplies: Option<[u8; 32]>,
}

impl Keys {
    fn of(
        tree: &str,
        (base, own): ([u8; 32], KnownDirectory),
        (reach, near): (Option<TreePath>, KnownDirectory),
        task: &RenderTask,
    ) -> Self {
        let by_directory = |id: String| key(task, "directory", &id, &task.request.identity_anywhere());
        Self {
            narrow: own.id.map(by_directory),
            near: reach.zip(near.id).map(|(reach, id)| near_key(task, &reach, &id)),
            clean: own.is_clean,
            wide: key(task, "tree", tree, &task.request.identity()),
            base,
            own: own_path(task),
            supplies: None,
        }
    }

    /// The same with what was brought (RND-141).
    fn with_supplies(mut self, supplies: &Supplies) -> Self {
        if supplies.is_empty() {
            return self;
        }
        self.supplies = Some(supplies.digest());
        self.narrow = self.narrow.map(|key| self.supplied(key));
        self.near = self.near.map(|key| self.supplied(key));
        self.wide = self.supplied(self.wide);
        self.base = self.supplied(self.base);
        self
    }

    fn supplied(&self, key: [u8; 32]) -> [u8; 32] {
        self.supplies.map_or(key, |digest| hash([&key[..], &digest]))
    }

    /// The key of a rendering that a file of the tree makes depend on the revision.
    fn pinned(&self, task: &RenderTask) -> [u8; 32] {
        hash([&self.wide[..], b"revision", task.request.revision.as_bytes()])
    }

    /// Under which keys the rendering may be known.
    fn all(&self, task: &RenderTask) -> impl Iterator<Item = [u8; 32]> {
        let within = [self.narrow, self.near].into_iter().filter(|_| self.clean).flatten();
        within.chain([self.wide, self.pinned(task)]).collect::<Vec<_>>().into_iter()
    }

    /// Whether all that was read is in the source's own directory.
    fn is_own(&self, reach: &TreePath) -> bool {
        self.own.as_ref() == Some(reach)
    }
}

/// The source's own directory, as far as it is a path at all.
fn own_path(task: &RenderTask) -> Option<TreePath> {
    TreePath::parse(&task.request.source.path).ok()
}

/// The request without any tree.
fn base_key(task: &RenderTask) -> [u8; 32] {
    key(task, "reach", "", &task.request.identity())
}

fn near_key(task: &RenderTask, reach: &TreePath, id: &str) -> [u8; 32] {
    key(task, "near", &format!("{id} {reach}"), &task.request.identity())
}

/// Reads what [`Keys`] are made of; what cannot be read makes no narrow key.
fn look_at(tree: &dyn Tree, own: Option<&TreePath>, task: &RenderTask) -> KnownDirectory {
    let is_clean = tree.escaping_link(&mut task.budget.walk()).is_ok_and(|link| link.is_none());
    KnownDirectory { id: own.and_then(|path| tree.subtree_id(path).ok()?), is_clean }
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

/// A tree that notices how far from one directory anything was looked at.
struct Witness<'a> {
    tree: &'a dyn Tree,
    inside: TreePath,
    reach: Mutex<TreePath>,
}

impl<'a> Witness<'a> {
    fn new(tree: &'a dyn Tree, inside: &str) -> Self {
        let inside = TreePath::parse(inside).unwrap_or_default();
        Self { tree, reach: Mutex::new(inside.clone()), inside }
    }

    /// The deepest directory that holds the source's own and all that was looked at.
    fn reach(&self) -> TreePath {
        self.reach.lock().clone()
    }

    /// Something at a path was looked at. Components above the directory are looked at on the way down to it.
    fn note(&self, path: &TreePath) {
        if !self.inside.is_within(path) {
            self.note_all_of(path);
        }
    }

    /// Everything at a path was looked at, or its members.
    fn note_all_of(&self, path: &TreePath) {
        let mut reach = self.reach.lock();
        while !path.is_within(&reach) {
            match reach.parent() {
                Some(above) => *reach = above,
                None => return,
            }
        }
    }
}

impl Tree for Witness<'_> {
    fn id(&self) -> &str {
        self.tree.id()
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        self.note_all_of(path);
        self.tree.subtree_id(path)
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        self.note(path);
        self.tree.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        self.note_all_of(path);
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
