//! The controller as a whole: what it follows, what it starts, how it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::{AppProject, names, repo_url};
use tiphys_cluster::{
    ApiError, Connection, Discovery, Fence, IndexEvent, ObjectEvent, ObjectQuery, Served, Target, Writer,
    watch_objects,
};
use tiphys_installation::InstallationData;
use tiphys_object::{Gvk, Object};
use tiphys_policy::permit::{Own, Permit};
use tiphys_source::{SourceError, SourceOptions, Sources};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::affected::Affected;
use crate::clusters::{ClusterEvent, Pool, Ways, chain};
use crate::context::{Context, Progress};
use crate::decide::refresh::Level;
use crate::events::Event;
use crate::gate::{Gates, Limits};
use crate::lease::Lease;
use crate::metrics::{AppInfo, ClusterInfo, Metrics};
use crate::pushes::Pushes;
use crate::queue::{Priority, Queue};
use crate::rendering::Renders;
use crate::store::{AppEntry, AppKey, AppStore, Change};
use crate::surroundings::Surroundings;
use crate::trickle::Trickle;
use crate::world::World;
use crate::{pass, projects, pushes};

/// Objects of a watch that may wait; when full, the watch stalls, which is the backpressure we want.
const WATCH_EVENTS_MAX: usize = 1024;
/// Events about Applications that may wait to be written; further ones are dropped and counted.
const EVENTS_MAX: usize = 10_000;
/// Events written at the same time.
const EVENT_WRITERS: usize = 4;
/// Settings changes within this time make one snapshot.
const WORLD_DELAY: Duration = Duration::from_millis(50);
/// Time a stopping controller gives its workers.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// Pause of an application after changes of its live objects, so that a burst is one comparison.
const LIVE_CHANGE_DELAY: Duration = Duration::from_millis(40);

/// Looks for the custom resources before giving up …
const DEFINITION_LOOKS: u32 = 40;
/// … and the time between two of them.
const DEFINITION_WAIT: Duration = Duration::from_millis(250);

/// How a controller is started.
pub struct ControllerOptions {
    /// The control plane's namespace.
    pub namespace: String,
    /// The way to the cluster with the Applications; also the in-cluster destination.
    pub connection: Connection,
    /// Directory of the git cache.
    pub cache_dir: std::path::PathBuf,
    /// Further folders of the installation: no repository of anybody (REP-60).
    pub own_dirs: Vec<std::path::PathBuf>,
    /// Environment variables, read once at start.
    pub env: BTreeMap<String, String>,
    /// Look, but write nothing.
    pub read_only: bool,
    /// Name of this process, which no other has; with it only the holder of the installation's lease writes
    /// (CTL-91). Without it nothing keeps a second process from writing.
    pub lease: Option<String>,
    /// Number of workers, of which half may be busy with one cluster; 0 takes twice the settings' number of status
    /// processors.
    pub workers: usize,
    /// What is taken from the machine.
    pub surroundings: Surroundings,
}

/// A running controller.
#[derive(Clone)]
pub struct Controller {
    context: Arc<Context>,
    tracker: TaskTracker,
    cancel: CancellationToken,
    /// Drops what writes, wherever it waits.
    abandoned: CancellationToken,
    lease: Option<Arc<Lease>>,
    /// Somebody else has the lease.
    lost: CancellationToken,
}

/// How much a controller holds; every number has a bound (INV-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Applications known.
    pub applications: usize,
    /// Applications that wait for a worker.
    pub waiting: usize,
    /// Keys and timers of the queue, outdated ones included.
    pub timers: usize,
    /// Workers that are busy with applications of one cluster, at the busiest one (CTL-141).
    pub busiest_cluster: usize,
    /// Rendered sources that applications hold.
    pub renderings: usize,
    /// Bytes of rendered objects that no application holds.
    pub released_bytes: u64,
    /// Events that wait to be written.
    pub events: usize,
}

/// Why a controller could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The API server cannot be used.
    #[error("cannot reach the cluster: {0}")]
    Cluster(String),
    /// The cache directory cannot be used.
    #[error("cannot use the cache directory: {0}")]
    Cache(String),
    /// The lease cannot be used.
    #[error("cannot hold the lease of the installation: {0}")]
    Lease(String),
    /// The CRDs are not installed.
    #[error(
        "the custom resource {0} is not installed in the cluster; install it with `tiphys install --crds-only | kubectl apply --server-side -f -`"
    )]
    MissingDefinition(String),
    /// The default project could not be made.
    #[error("the default project cannot be created in namespace {namespace:?}: {reason}")]
    DefaultProject {
        /// The control plane's namespace.
        namespace: String,
        /// What the API server said.
        reason: String,
    },
}

impl Controller {
    /// Starts following the installation and working. Returns when settings and projects are known.
    ///
    /// # Errors
    /// When the cluster cannot be reached or lacks the CRDs.
    pub async fn start(options: ControllerOptions) -> Result<Self, StartError> {
        let tracker = TaskTracker::new();
        let cancel = CancellationToken::new();
        let abandoned = CancellationToken::new();
        // A start that fails or is given up leaves no watch behind.
        let guard = cancel.clone().drop_guard();
        let surroundings = options.surroundings;
        let fence = if options.read_only {
            // Whoever forgets that nothing is to be written finds the way closed.
            Some(Fence::read_only())
        } else {
            options.lease.is_some().then(Fence::new)
        };
        let plain = options.connection.clone();
        let connection = fence.as_ref().map_or_else(|| plain.clone(), |fence| plain.fenced(fence));
        let discovery = Discovery::new(connection.clone());
        let mut kinds = discovery.kinds().await.map_err(|error| StartError::Cluster(chain(&error)))?;
        for _ in 0..DEFINITION_LOOKS {
            let served = |kind: &str| kinds.resource(&Gvk::new(names::GROUP, names::VERSION, kind)).is_some();
            if served("Application") && served("AppProject") {
                break;
            }
            // Definitions that were installed a moment ago show up in discovery a little later.
            tokio::time::sleep(DEFINITION_WAIT).await;
            kinds = discovery.refresh().await.map_err(|error| StartError::Cluster(chain(&error)))?;
        }
        let resource = |gvk: Gvk| match kinds.served(&gvk) {
            Served::Yes(resource) => Ok(resource),
            Served::No | Served::Unknown => {
                Err(StartError::MissingDefinition(format!("{} ({})", gvk.kind, gvk.api_version())))
            }
        };
        let applications = resource(Context::application_gvk())?;
        let projects = resource(Gvk::new(names::GROUP, names::VERSION, "AppProject"))?;
        let config_maps = resource(Gvk::new("", "v1", "ConfigMap"))?;
        let secrets = resource(Gvk::new("", "v1", "Secret"))?;
        let home = Writer::new(connection.clone(), discovery.clone());
        let lease = match (options.lease, &fence) {
            (Some(identity), Some(fence)) if !options.read_only => {
                let writer = Writer::new(plain, discovery.clone());
                let clock = surroundings.clock.clone();
                let lease = Lease::new(writer, &options.namespace, identity, clock, fence.clone());
                lease.acquire().await.map_err(StartError::Lease)?;
                Some(Arc::new(lease))
            }
            _ => None,
        };
        let lost = CancellationToken::new();
        if let Some(lease) = &lease {
            let abandoned = abandoned.clone();
            let kept = keep_lease(Arc::clone(lease), lost.clone(), cancel.clone());
            tracker.spawn(abandoned.run_until_cancelled_owned(kept));
        }
        if !options.read_only {
            ensure_default_project(&home, &options.namespace).await?;
        }
        let namespace = SmolStr::new(&options.namespace);
        let follow = |resource, labels: &str| {
            let (sender, receiver) = mpsc::channel(WATCH_EVENTS_MAX);
            let query = ObjectQuery {
                resource,
                namespace: namespace.clone(),
                label_selector: labels.to_owned(),
                field_selector: String::new(),
            };
            tracker.spawn(watch_objects(
                connection.clone(),
                query,
                sender,
                surroundings.random.jitter(),
                cancel.clone(),
            ));
            receiver
        };
        let mut inputs = Inputs {
            config_maps: follow(config_maps, "app.kubernetes.io/part-of=argocd"),
            secrets: follow(secrets, ""),
            projects: follow(projects, ""),
            data: InstallationData {
                env: options.env.clone(),
                namespace: options.namespace.clone(),
                ..InstallationData::default()
            },
            known_hosts_file: options.cache_dir.join("ssh_known_hosts"),
            writes_known_hosts: surroundings.repositories.is_none(),
        };
        inputs.first().await.map_err(StartError::Cluster)?;
        let world = World::build(&inputs.data, None);
        for warning in &world.warnings {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        let (event_sender, event_receiver) = mpsc::channel(EVENTS_MAX);
        let (cluster_sender, cluster_receiver) = mpsc::channel(WATCH_EVENTS_MAX);
        let clock = surroundings.clock.clone();
        let source_options = SourceOptions {
            known_hosts_file: inputs.known_hosts_file.clone(),
            path: options.env.get("PATH").cloned().unwrap_or_default(),
            revision_ttl: revision_ttl(&world),
            local_roots: world.settings.local_repositories().to_vec(),
            own_dirs: options.own_dirs.clone(),
            clock: clock.clone(),
            ..SourceOptions::new(&options.cache_dir)
        };
        let sources =
            sources(source_options, &surroundings).map_err(|error| StartError::Cache(error.to_string()))?;
        inputs.write_known_hosts(&world.known_hosts).await;
        let workers = match options.workers {
            // So many may be busy with one cluster, and as many are there for all others (CTL-141).
            0 => world.settings.controller().status_processors.max(1).saturating_mul(2),
            workers => workers,
        };
        let queue = Queue::new();
        let gates = Gates::new(Limits::of(workers), queue.clone());
        let context = Arc::new(Context {
            namespace: options.namespace.clone(),
            store: AppStore::default(),
            queue,
            clusters: Arc::new(Pool::new(
                Ways { home: connection.clone(), given: surroundings.clusters.clone(), fence },
                cluster_sender,
                tracker.clone(),
                cancel.clone(),
                &world,
                surroundings.random.jitter(),
            )),
            world: ArcSwap::from_pointee(world),
            sources,
            renders: Renders::new(gates.clone(), surroundings.compute, clock.clone()),
            gates,
            home,
            clock,
            compute: surroundings.compute,
            interpreters: surroundings.interpreters.clone(),
            metrics: Metrics::new(),
            events: event_sender,
            read_only: options.read_only,
            progress: Progress::default(),
            trickle: Trickle::default(),
            pushes: Pushes::default(),
        });
        let all_namespaces =
            context.world.load().settings.application_namespaces().iter().any(|n| !n.is_empty());
        let (sender, receiver) = mpsc::channel(WATCH_EVENTS_MAX);
        let query = ObjectQuery {
            resource: applications,
            namespace: if all_namespaces { SmolStr::default() } else { namespace },
            label_selector: String::new(),
            field_selector: String::new(),
        };
        tracker.spawn(watch_objects(connection, query, sender, surroundings.random.jitter(), cancel.clone()));
        tracker.spawn(follow_applications(Arc::clone(&context), receiver));
        tracker.spawn(follow_clusters(Arc::clone(&context), cluster_receiver, cancel.clone()));
        tracker.spawn(inputs.follow(Arc::clone(&context)));
        let pushed = pushes::follow(Arc::clone(&context), cancel.clone());
        tracker.spawn(abandoned.clone().run_until_cancelled_owned(pushed));
        let events = write_events(Arc::clone(&context), event_receiver, cancel.clone());
        tracker.spawn(abandoned.clone().run_until_cancelled_owned(events));
        for _ in 0..workers {
            tracker.spawn(abandoned.clone().run_until_cancelled_owned(work(Arc::clone(&context))));
        }
        guard.disarm();
        Ok(Self { context, tracker, cancel, abandoned, lease, lost })
    }

    /// Stops: no new work is begun, what runs is finished or left to the next start, at most eight seconds.
    pub async fn stop(self) {
        self.context.queue.close();
        self.cancel.cancel();
        self.tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tracker.wait()).await.is_err() {
            tracing::warn!("some work did not end in time; the next start goes on with it");
        }
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
    }

    /// Waits until another process has taken the installation's lease: this one has to end.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Ends as a crash would: nothing is finished and nothing is waited for.
    pub fn abandon(self) {
        self.abandoned.cancel();
        self.cancel.cancel();
        self.context.queue.close();
        self.tracker.close();
    }

    /// Acts on a push: the applications that it concerns are compared now. Those of which only the revision moved
    /// are not asked: they are compared with the new one when something else asks for it, at the latest at their
    /// next periodic refresh. Returns how many applications it concerns.
    pub fn pushed(&self, push: &crate::webhook::Push) -> usize {
        let context = &self.context;
        let found = context.store.pushed(push, context.clock.now());
        for url in &found.repositories {
            context.sources.invalidate(url);
        }
        for key in &found.applications {
            // The listing was invalidated above; the first application lists again, the others share.
            context.request(key, Level::Latest, Priority::Urgent);
        }
        context.pushes.add(found.references);
        found.applications.len()
    }

    /// A key of `argocd-secret`; empty when there is none.
    pub(crate) fn secret(&self, key: &str) -> String {
        self.context
            .world
            .load()
            .settings
            .secret(key)
            .map_or_else(String::new, |secret| secret.expose().clone())
    }

    /// Runs a computation that takes long where the others run.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        self.context.compute.run(work).await
    }

    /// A key of `argocd-cm`.
    pub(crate) fn setting(&self, key: &str) -> Option<String> {
        self.context.world.load().settings.cm().get(key).cloned()
    }

    /// The text of a metrics scrape.
    pub fn metrics(&self) -> String {
        let apps: Vec<AppInfo> =
            self.context.store.entries().iter().map(|(key, entry)| app_info(key, entry)).collect();
        let clusters: Vec<ClusterInfo> =
            self.context.clusters.in_use().iter().map(|d| cluster_info(d)).collect();
        self.context.metrics.scrape(&apps, &clusters, self.context.queue.depth())
    }

    /// How much is held now.
    pub fn sizes(&self) -> Sizes {
        let context = &self.context;
        Sizes {
            applications: context.store.len(),
            waiting: context.queue.depth(),
            timers: context.queue.size(),
            busiest_cluster: context.gates.busiest_cluster(),
            renderings: context.renders.held(),
            released_bytes: context.renders.released_bytes(),
            events: context.events.max_capacity() - context.events.capacity(),
        }
    }

    /// Applications by name, each with the time of the last look at its sources and its cluster, written or not;
    /// `None` before the first one (INV-13).
    pub fn looks(&self) -> Vec<(String, Option<jiff::Timestamp>)> {
        let store = &self.context.store;
        let entries = store.keys().into_iter().filter_map(|key| store.get(&key).map(|entry| (key, entry)));
        entries.map(|(key, entry)| (key.name.to_string(), entry.memory.lock().reconciled)).collect()
    }

    /// Number of items worked on so far; what waits.
    pub fn progress(&self) -> (u64, usize) {
        (self.context.progress.count(), self.context.queue.depth())
    }
}

/// From what the store knows: parsing ten thousand objects for every scrape would hold everything else up.
fn app_info(key: &AppKey, entry: &AppEntry) -> AppInfo {
    let app = &entry.declared;
    AppInfo {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        project: app.project().to_owned(),
        autosync: app.automated().is_some(),
        repo: app
            .sources()
            .first()
            .map(|s| repo_url::redact(&repo_url::normalize(&s.repo_url)))
            .unwrap_or_default(),
        dest_server: app.spec.destination.server.clone(),
        dest_namespace: app.spec.destination.namespace.clone(),
        sync_status: entry.sync_status.to_string(),
        health_status: entry.health_status.to_string(),
        operation: if app.metadata.deletion_timestamp.is_some() {
            "delete"
        } else if app.operation.is_some() {
            "sync"
        } else {
            ""
        },
    }
}

fn cluster_info(destination: &crate::clusters::Destination) -> ClusterInfo {
    let counts = destination.index.counts();
    let version = destination.index.discovery().snapshot().map(|kinds| kinds.server_version().to_owned());
    ClusterInfo {
        server: destination.cluster.server.clone(),
        name: destination.cluster.name.clone(),
        version: version.unwrap_or_default(),
        kinds: counts.len(),
        objects: counts.values().sum(),
        unreadable: destination.index.unreadable().len(),
        connected: destination.index.error().is_none(),
    }
}

/// Creates the project `default` where it is missing (REP-121).
async fn ensure_default_project(home: &Writer, namespace: &str) -> Result<(), StartError> {
    let gvk = Gvk::new(names::GROUP, names::VERSION, "AppProject");
    let fail = |error: &ApiError| StartError::DefaultProject {
        namespace: namespace.to_owned(),
        reason: chain(error),
    };
    let target = Target::new(gvk, namespace, "default");
    if home.get(&target).await.map_err(|error| fail(&error))?.is_some() {
        return Ok(());
    }
    let mut project = serde_json::to_value(AppProject::default_project(namespace)).unwrap_or(Value::Null);
    if let Some(map) = project.as_object_mut() {
        map.insert("apiVersion".to_owned(), "argoproj.io/v1alpha1".into());
        map.insert("kind".to_owned(), "AppProject".into());
    }
    match home.create(&Permit::own(Own::Project, namespace, "default"), &project).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(fail(&error)),
    }
}

/// Keeps the lease until the controller stops, or until somebody else has it.
async fn keep_lease(lease: Arc<Lease>, lost: CancellationToken, cancel: CancellationToken) {
    // Cancel-safe: what is cut off is an attempt to renew, which nobody needs any more.
    if let Some(holder) = cancel.run_until_cancelled(lease.keep()).await {
        tracing::error!(holder, "another process has taken the lease of the installation");
        lost.cancel();
    }
}

/// How long a listing of references is used: a little less than the refresh interval, so that every periodic
/// refresh looks at the repository, and all applications of one share the look (RND-36).
fn revision_ttl(world: &World) -> Duration {
    let soft = world.settings.refresh_timeouts().soft;
    if soft.is_zero() { Duration::from_mins(3) } else { soft * 9 / 10 }
}

/// Repositories as the surroundings have them.
fn sources(options: SourceOptions, surroundings: &Surroundings) -> Result<Sources, SourceError> {
    match &surroundings.repositories {
        Some(repositories) => Ok(Sources::in_memory(options, repositories.clone())),
        None => Sources::new(options),
    }
}

/// The objects settings are made of.
struct Inputs {
    config_maps: mpsc::Receiver<ObjectEvent>,
    secrets: mpsc::Receiver<ObjectEvent>,
    projects: mpsc::Receiver<ObjectEvent>,
    data: InstallationData,
    known_hosts_file: std::path::PathBuf,
    /// Whether `ssh` may ever run.
    writes_known_hosts: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    ConfigMap,
    Secret,
    Project,
}

impl Inputs {
    /// Takes the first complete list of each kind.
    async fn first(&mut self) -> Result<(), String> {
        for kind in [Kind::ConfigMap, Kind::Secret, Kind::Project] {
            loop {
                let receiver = match kind {
                    Kind::ConfigMap => &mut self.config_maps,
                    Kind::Secret => &mut self.secrets,
                    Kind::Project => &mut self.projects,
                };
                match receiver.recv().await {
                    Some(ObjectEvent::Synced) => break,
                    Some(ObjectEvent::Failed(reason)) => return Err(reason),
                    Some(event) => {
                        take(&mut self.data, kind, event);
                    }
                    None => return Err("the watch ended".to_owned()),
                }
            }
        }
        Ok(())
    }

    /// Follows changes and swaps new snapshots in.
    async fn follow(mut self, context: Arc<Context>) {
        let mut due: Option<Instant> = None;
        loop {
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Every branch is cancel-safe: receiving from a channel and sleeping. The wait comes first, so that
            // no flood of events holds a snapshot back.
            let (kind, event) = tokio::select! {
                biased;
                () = wait => {
                    due = None;
                    self.swap(&context).await;
                    continue;
                }
                event = self.config_maps.recv() => (Kind::ConfigMap, event),
                event = self.secrets.recv() => (Kind::Secret, event),
                event = self.projects.recv() => (Kind::Project, event),
            };
            let Some(event) = event else { return };
            if take(&mut self.data, kind, event) && due.is_none() {
                due = Some(Instant::now() + WORLD_DELAY);
            }
        }
    }

    /// Writes the file that `ssh` reads host keys from; without it no host is trusted.
    async fn write_known_hosts(&self, text: &str) {
        if !self.writes_known_hosts {
            return;
        }
        if let Err(error) = tokio::fs::write(&self.known_hosts_file, text).await {
            tracing::error!(%error, "the SSH known hosts cannot be written; SSH repositories will fail");
        }
    }

    async fn swap(&self, context: &Context) {
        let world = World::build(&self.data, Some(&context.world.load_full()));
        let old = context.world.swap(Arc::new(world));
        let world = context.world.load_full();
        for warning in world.warnings.iter().filter(|warning| !old.warnings.contains(warning)) {
            tracing::warn!(warning, "a setting has no effect, wholly or in part");
        }
        if world.known_hosts != old.known_hosts {
            self.write_known_hosts(&world.known_hosts).await;
        }
        if world.settings.local_repositories() != old.settings.local_repositories() {
            context.sources.set_local_roots(world.settings.local_repositories().to_vec());
        }
        context.sources.set_revision_ttl(revision_ttl(&world));
        context.clusters.reconfigure(&world, &old);
        let mut affected = Affected::between(&old, &world);
        let keys = if affected.is_nothing() { Vec::new() } else { context.store.keys() };
        for key in keys {
            let level = context.store.get(&key).and_then(|entry| affected.level(&entry.declared));
            if let Some(level) = level {
                context.request(&key, level, Priority::Routine);
            }
        }
        projects::release(context).await;
    }
}

/// Takes an event; says whether anything changed.
fn take(data: &mut InstallationData, kind: Kind, event: ObjectEvent) -> bool {
    match event {
        ObjectEvent::Upsert(object) => data.take(object),
        // Settings that vanish, or lose their label, do not fall back to defaults: another installation's objects
        // could become ours (law 2).
        ObjectEvent::Delete(key) if matches!(kind, Kind::ConfigMap) => {
            tracing::error!(name = %key.name, "a settings ConfigMap is gone; its last content stays in force");
            false
        }
        ObjectEvent::Delete(key) => {
            data.bad_projects.remove(key.name.as_str());
            let map = if matches!(kind, Kind::Project) { &mut data.projects } else { &mut data.secrets };
            map.remove(key.name.as_str()).is_some()
        }
        // What a project permits cannot be told any more. Settings stay as they were (law 2).
        ObjectEvent::Unreadable(bad) if matches!(kind, Kind::Project) => {
            tracing::error!(%bad, "the project's applications are not worked on");
            data.projects.remove(bad.key.name.as_str());
            data.bad_projects.insert(bad.key.name.to_string(), bad.reason);
            true
        }
        ObjectEvent::Unreadable(bad) => {
            tracing::error!(%bad, "settings cannot be read; their last content stays in force");
            false
        }
        ObjectEvent::Synced | ObjectEvent::Failed(_) => false,
    }
}

/// Takes Applications into the store and wakes the workers.
async fn follow_applications(context: Arc<Context>, mut events: mpsc::Receiver<ObjectEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            ObjectEvent::Upsert(object) => application_changed(&context, object),
            ObjectEvent::Delete(key) => {
                let key = AppKey::new(&key.namespace, &key.name);
                context.store.remove(&key);
                context.queue.cancel_timer(&key);
                projects::release(&context).await;
            }
            ObjectEvent::Synced => {
                context.store.listed();
                projects::release(&context).await;
            }
            ObjectEvent::Unreadable(bad) => {
                hold(&context, AppKey::new(&bad.key.namespace, &bad.key.name), bad.reason);
            }
            ObjectEvent::Failed(reason) => {
                tracing::warn!(reason, "Applications cannot be watched at the moment");
            }
        }
    }
}

fn application_changed(context: &Context, object: Arc<Object>) {
    let key = AppKey::new(object.namespace(), object.name());
    let world = context.world.load();
    let old = context.store.get(&key);
    let change =
        context.store.upsert(object, |namespace, name| world.tracking.instance_name(namespace, name));
    match change {
        Ok(Change::Declared) => match old {
            // Live objects may have changed while nobody looked.
            None => context.request(&key, Level::Recent, Priority::Urgent),
            Some(old) if old.declared.automated().is_none() && is_automated(context, &key) => {
                context.request(&key, Level::Latest, Priority::Urgent);
            }
            Some(_) => context.queue.add(key, Priority::Urgent),
        },
        Ok(Change::StatusOnly | Change::None) => {}
        Err(error) => hold(context, key, error.to_string()),
    }
}

/// An application that cannot be read is not worked on. Its status says so, and the others go on (INV-15, INV-16).
fn hold(context: &Context, key: AppKey, reason: String) {
    tracing::warn!(application = %key, reason, "the application cannot be read");
    context.metrics.worked("application-unreadable");
    context.store.hold(key.clone(), reason);
    context.queue.add(key, Priority::Urgent);
}

fn is_automated(context: &Context, key: &AppKey) -> bool {
    context.store.get(key).is_some_and(|entry| entry.declared.automated().is_some())
}

/// Turns changes of live objects into requests of exactly the applications they belong to.
async fn follow_clusters(
    context: Arc<Context>,
    mut events: mpsc::Receiver<ClusterEvent>,
    cancel: CancellationToken,
) {
    // Both branches are cancel-safe.
    while let Some(event) = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        event = events.recv() => event,
    } {
        match event.event {
            IndexEvent::Changed { key: object, applications, is_managed, is_deleted, .. } => {
                for instance in &applications {
                    let Some(key) = context.store.by_instance(instance) else { continue };
                    let Some(entry) = context.store.get(&key) else { continue };
                    let deleting = entry.declared.metadata.deletion_timestamp.is_some();
                    // Descendants only matter to a deletion that waits for them.
                    if is_managed || deleting {
                        let mut memory = entry.memory.lock();
                        let is_noted = !deleting && !is_deleted && memory.changes.note(&object);
                        if is_deleted {
                            memory.changes.forget(&object);
                        }
                        if !is_noted {
                            memory.request(Level::Recent);
                        }
                        drop(memory);
                        context.queue.add_at(key, Instant::now() + LIVE_CHANGE_DELAY);
                    }
                }
            }
            IndexEvent::KindChanged { .. } => {
                let destination = context.clusters.in_use();
                let pending = destination.iter().any(|d| {
                    d.cluster.server == event.server
                        && d.index.kind_states().values().any(|s| *s == tiphys_cluster::KindState::Pending)
                });
                if !pending {
                    wake_unknown(&context, &event.server);
                }
            }
            IndexEvent::KindsChanged | IndexEvent::Reachable => wake_unknown(&context, &event.server),
        }
    }
}

/// Applications of a cluster that are not known to be in sync, or wait for it, are compared again.
fn wake_unknown(context: &Context, server: &str) {
    let world = context.world.load();
    for key in context.store.keys() {
        let waits = |entry: &AppEntry| {
            let declared = &entry.declared;
            entry.sync_status != "Synced"
                || declared.operation.is_some()
                || declared.metadata.deletion_timestamp.is_some()
        };
        let Some(entry) = context.store.get(&key).filter(waits) else { continue };
        let destination = &entry.declared.spec.destination;
        if world.clusters.resolve(destination).is_ok_and(|cluster| cluster.server == server) {
            context.request(&key, Level::Recent, Priority::Routine);
        }
    }
}

/// Writes events about Applications; a failure is logged and forgotten.
async fn write_events(context: Arc<Context>, mut events: mpsc::Receiver<Event>, cancel: CancellationToken) {
    use futures::StreamExt;
    let stream = futures::stream::poll_fn(move |task| events.poll_recv(task));
    stream
        .take_until(cancel.cancelled_owned())
        .for_each_concurrent(EVENT_WRITERS, |event| {
            let context = Arc::clone(&context);
            async move {
                if context.read_only {
                    return;
                }
                let permit = Permit::own(Own::Event, event.namespace(), &event.name());
                if let Err(error) = context.home.create(&permit, &event.manifest()).await {
                    tracing::debug!(%error, "an event could not be written");
                }
            }
        })
        .await;
}

/// One worker: takes keys and works on them, whatever happens (CTL-37).
async fn work(context: Arc<Context>) {
    loop {
        let Some(lease) = context.queue.next().await else { return };
        let key = lease.key().clone();
        let ended =
            std::panic::AssertUnwindSafe(pass::run(&context, &key, lease.priority())).catch_unwind().await;
        if ended.is_err() {
            tracing::error!(application = %key, "a pass ended unexpectedly; this is a bug");
            context.metrics.worked("panic");
            context.queue.add_at(key, Instant::now() + Duration::from_secs(30));
        }
        context.progress.beat();
        drop(lease);
        // A pass that waited for nothing must not keep the thread from sockets and signals.
        tokio::task::yield_now().await;
    }
}
