//! The controller as a whole: how it is started, asked and ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::application::HealthStatus;
use tiphys_api::cluster::ClusterKey;
use tiphys_api::{Application, ApplicationSet, repo_url, settings};
use tiphys_appset::preview::{Existing, Preview};
use tiphys_cluster::{
    ApiError, Connection, ExecQuery, ExecSink, ExecStream, LogLines, LogQuery, PatchKind, Removal, Target,
};
use tiphys_engine::actions::Action;
use tiphys_lifecycle::refresh::Level;
use tiphys_lifecycle::webhook::{Push, SetEvent, TagPush};
use tiphys_object::{Gvk, Object, ResourceKey};
use tiphys_service::cluster::Watched;
use tiphys_source::{Compute, Sources};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::app_key::AppKey;
use crate::applications;
use crate::context::Context;
use crate::control_plane::{Access, ControlPlane, StartError};
use crate::metrics::{AppInfo, ClusterInfo, Found, InFlight, QueueInfo};
use crate::reconcile::predicted::{self, AskedPair};
use crate::reconcile::resource;
use crate::reconcile::shown::{self, ShowError};
use crate::reconcile::user_actions;
use crate::sets::{self, Sets};
use crate::settings_watch::SettingsWatch;
use crate::store::AppEntry;
use crate::surroundings::Surroundings;

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
    /// Whether `ApplicationSets` are worked on, too.
    pub application_sets: bool,
    /// Number of workers, of which half may be busy with one cluster; 0 takes twice the settings' number of status
    /// processors.
    pub workers: usize,
    /// What is taken from the machine.
    pub surroundings: Surroundings,
}

/// A running controller.
#[derive(Clone)]
pub struct Controller {
    plane: Arc<ControlPlane>,
    context: Arc<Context>,
    sets: Option<Arc<Sets>>,
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
    /// Sets known.
    pub sets: usize,
    /// Keys and timers of the queue of sets, outdated ones included.
    pub set_timers: usize,
}

impl Controller {
    /// Starts following the installation and working. Returns when settings and projects are known.
    ///
    /// # Errors
    /// When the cluster cannot be reached or lacks the CRDs.
    pub async fn start(options: ControllerOptions) -> Result<Self, StartError> {
        let access = Access {
            namespace: options.namespace,
            connection: options.connection,
            read_only: options.read_only,
            identity: options.lease,
        };
        let plane = ControlPlane::connect(access, options.surroundings).await?;
        let guard = plane.guard();
        let settings = SettingsWatch::start(&plane, options.env).await?;
        let role = applications::Options {
            cache_dir: options.cache_dir,
            own_dirs: options.own_dirs,
            workers: options.workers,
        };
        let context = applications::start(&plane, settings, role)?;
        let sets = if options.application_sets { sets::start(&plane, &context)? } else { None };
        guard.disarm();
        Ok(Self { plane: Arc::new(plane), context, sets })
    }

    /// Stops: no new work is begun, what runs is finished or left to the next start, at most eight seconds.
    pub async fn stop(self) {
        self.close();
        self.plane.stop().await;
    }

    /// Waits until another process has taken the installation's lease: this one has to end.
    pub async fn lost(&self) {
        self.plane.lost().await;
    }

    /// Ends as a crash would: nothing is finished and nothing is waited for.
    pub fn abandon(self) {
        self.plane.abandon();
        self.close();
    }

    fn close(&self) {
        self.context.scheduler.close();
        self.context.hydrations.close();
        if let Some(sets) = &self.sets {
            sets.close();
        }
    }

    /// The manifests of an application's sources, at those revisions that were compared last or at others by the
    /// position of their source, without secrets (API-146).
    ///
    /// # Errors
    /// When they cannot be rendered.
    pub async fn manifests(
        &self,
        (namespace, name): (&str, &str),
        revisions: &[(usize, String)],
    ) -> Result<Vec<Value>, ShowError> {
        Box::pin(shown::manifests(&self.context, &AppKey::new(namespace, name), revisions)).await
    }

    /// The manifests of an application whose first repository is replaced by the files of a `tar.gz`, without secrets
    /// (API-147). The files may use only the application's own sources, and programs and plugins only if `may_run_programs`.
    ///
    /// # Errors
    /// If the files cannot be unpacked or rendered, or use something that they may not use.
    pub async fn manifests_with_files(
        &self,
        (namespace, name): (&str, &str),
        packed: Bytes,
        may_run_programs: bool,
    ) -> Result<Vec<Value>, ShowError> {
        let files = (packed, may_run_programs);
        Box::pin(shown::manifests_with_files(&self.context, &AppKey::new(namespace, name), files)).await
    }

    /// Whether the sources of an application can be rendered, whether it is stored or not (API-126).
    ///
    /// # Errors
    /// When they cannot, or nobody can tell.
    pub async fn check_sources(&self, app: Application) -> Result<(), ShowError> {
        Box::pin(shown::check_sources(&self.context, app)).await
    }

    /// What an application manages, wanted and live, without secrets (API-138).
    ///
    /// # Errors
    /// When it cannot be compared.
    pub async fn managed(&self, namespace: &str, name: &str) -> Result<Vec<Value>, ShowError> {
        Box::pin(shown::managed(&self.context, &AppKey::new(namespace, name))).await
    }

    /// The tree of an application's resources (API-137).
    ///
    /// # Errors
    /// When it cannot be compared.
    pub async fn resource_tree(&self, namespace: &str, name: &str) -> Result<Value, ShowError> {
        Box::pin(shown::resource_tree(&self.context, &AppKey::new(namespace, name))).await
    }

    /// What the API server of the destination would make of manifests of an application, without secrets (API-145).
    ///
    /// # Errors
    /// When one is none of the application's, the project does not permit it, or the cluster refuses.
    pub async fn server_side_diff(
        &self,
        (namespace, name): (&str, &str),
        pairs: &[AskedPair],
    ) -> Result<Vec<Value>, ShowError> {
        Box::pin(predicted::server_side_diff(&self.context, &AppKey::new(namespace, name), pairs)).await
    }

    /// Changes of the tree of an application from now on.
    pub fn tree_changes(&self, namespace: &str, name: &str) -> TreeChanges {
        TreeChanges { key: AppKey::new(namespace, name), changes: self.context.trees.subscribe() }
    }

    /// A live object of an application, without secrets (API-139).
    ///
    /// # Errors
    /// When it is none of the application's, or cannot be read.
    pub async fn resource(
        &self,
        (namespace, name): (&str, &str),
        named: &ResourceKey,
    ) -> Result<Value, ShowError> {
        Box::pin(resource::resource(&self.context, &AppKey::new(namespace, name), named)).await
    }

    /// Changes a live object of an application; the answer has no secrets (API-140).
    ///
    /// # Errors
    /// When it is none of the application's, the project does not permit it, or the cluster refuses.
    pub async fn patch_resource(
        &self,
        (namespace, name): (&str, &str),
        named: &ResourceKey,
        (kind, patch): (PatchKind, &Value),
    ) -> Result<Value, ShowError> {
        let key = AppKey::new(namespace, name);
        Box::pin(resource::patch(&self.context, &key, named, (kind, patch))).await
    }

    /// Deletes a live object of an application (API-140).
    ///
    /// # Errors
    /// Those of [`Controller::patch_resource`].
    pub async fn delete_resource(
        &self,
        (namespace, name): (&str, &str),
        named: &ResourceKey,
        removal: Removal,
    ) -> Result<(), ShowError> {
        Box::pin(resource::delete(&self.context, &AppKey::new(namespace, name), named, removal)).await
    }

    /// What can be done with a live object of an application (API-142).
    ///
    /// # Errors
    /// When it is none of the application's, or a script of its actions failed.
    pub async fn available_actions(
        &self,
        (namespace, name): (&str, &str),
        named: &ResourceKey,
    ) -> Result<Vec<Action>, ShowError> {
        Box::pin(user_actions::available(&self.context, &AppKey::new(namespace, name), named)).await
    }

    /// Runs an action on a live object of an application (API-142); the answer is that object as it was before.
    ///
    /// # Errors
    /// When there is none of this name, the project does not permit what it writes, or the cluster refuses.
    pub async fn run_action(
        &self,
        (namespace, name): (&str, &str),
        named: &ResourceKey,
        action: (&str, &BTreeMap<String, String>),
    ) -> Result<Arc<Object>, ShowError> {
        Box::pin(user_actions::run(&self.context, &AppKey::new(namespace, name), named, action)).await
    }

    /// The Events about a resource of an application: its namespace, name and uid (API-144).
    ///
    /// # Errors
    /// When it is none of the application's, or the cluster does not say.
    pub async fn resource_events(
        &self,
        (namespace, name): (&str, &str),
        about: (&str, &str, &str),
    ) -> Result<Vec<Value>, ShowError> {
        Box::pin(resource::events(&self.context, &AppKey::new(namespace, name), about)).await
    }

    /// The pods of an application that are a resource or belong to one: namespace and name of each (API-149).
    ///
    /// # Errors
    /// When the application or its cluster is not known.
    pub async fn pods(
        &self,
        (namespace, name): (&str, &str),
        below: &ResourceKey,
    ) -> Result<Vec<(String, String)>, ShowError> {
        Box::pin(resource::pods(&self.context, &AppKey::new(namespace, name), below)).await
    }

    /// Begins to read the log of one of these pods.
    ///
    /// # Errors
    /// When the cluster refuses, or does not answer.
    pub async fn pod_log(
        &self,
        (namespace, name): (&str, &str),
        pod: (&str, &str),
        query: &LogQuery,
    ) -> Result<LogLines, ShowError> {
        Box::pin(resource::log(&self.context, &AppKey::new(namespace, name), pod, query)).await
    }

    /// Starts a program in a container of a pod of an application, with a terminal (API-190).
    ///
    /// # Errors
    /// When the pod does not belong to the application, the container does not run, or the cluster refuses.
    pub async fn exec(
        &self,
        (namespace, name): (&str, &str),
        query: &ExecQuery,
    ) -> Result<(ExecSink, ExecStream), ShowError> {
        Box::pin(resource::exec(&self.context, &AppKey::new(namespace, name), query)).await
    }

    /// Whether callers of an application may see an object now.
    ///
    /// # Errors
    /// If that is unknown at the moment.
    pub async fn is_visible(
        &self,
        (namespace, name): (&str, &str),
        named: &ResourceKey,
    ) -> Result<bool, ShowError> {
        Box::pin(resource::is_visible(&self.context, &AppKey::new(namespace, name), named)).await
    }

    /// Health of the resources of an application's status, as the last comparison found it (API-118); what is not known is
    /// left out.
    pub async fn resource_health(&self, namespace: &str, name: &str) -> Vec<(ResourceKey, HealthStatus)> {
        Box::pin(resource::health(&self.context, &AppKey::new(namespace, name))).await
    }

    /// What is known of a cluster that is watched (API-168); nothing while it was not discovered.
    pub fn watched(&self, cluster: &ClusterKey) -> Option<Watched> {
        let destination = self.context.clusters.used(cluster)?;
        let facts = destination.facts();
        let counts = destination.index.counts();
        (!facts.api_versions().is_empty()).then(|| Watched {
            api_versions: facts.api_versions().to_vec(),
            kinds: counts.len(),
            objects: counts.values().sum(),
        })
    }

    fn sets(&self) -> Result<&Arc<Sets>, ShowError> {
        let sets = self.sets.as_ref();
        sets.ok_or_else(|| ShowError::Unavailable("ApplicationSets are not worked on here".to_owned()))
    }

    /// The Applications that a set would make, and what becomes of those that exist, where that is asked for (API-157).
    ///
    /// # Errors
    /// When it cannot generate, or sets are not worked on here.
    pub async fn generated(&self, set: ApplicationSet, existing: Existing) -> Result<Preview, ShowError> {
        Box::pin(self.sets()?.preview(set, existing)).await.map_err(ShowError::Failed)
    }

    /// The sets of parameters that the generators of a set give (ASET-304).
    ///
    /// # Errors
    /// When they fail, or sets are not worked on here.
    pub async fn set_parameters(&self, set: ApplicationSet) -> Result<Vec<Value>, ShowError> {
        Box::pin(self.sets()?.parameters(set)).await.map_err(ShowError::Failed)
    }

    /// All repositories, as this process knows them.
    pub fn sources(&self) -> &Sources {
        &self.context.sources
    }

    /// Threads and turns of what computes for long: renderings, generations, payloads.
    pub fn compute(&self) -> &Compute {
        &self.context.compute
    }

    /// Takes what a webhook tells `ApplicationSets`; what it causes happens later. `false` when too much waits.
    pub fn told_sets(&self, event: SetEvent) -> bool {
        self.sets.as_ref().is_none_or(|sets| sets.delivered(event))
    }

    /// Acts on a push: the applications that it concerns are compared now. Those of which only the revision moved
    /// are not asked: they are compared with the new one when something else asks for it, at the latest at their
    /// next periodic refresh. Returns how many applications it concerns.
    pub fn pushed(&self, push: &Push) -> usize {
        let context = &self.context;
        let found = context.store.pushed(push, context.clock.now());
        self.delivered(&found.repositories);
        // The listing was invalidated above; the first application lists again, the others share.
        context.request_all(&found.applications, Level::Latest);
        for key in &found.hydrated {
            context.hydrations.pushed(key);
        }
        context.pushes.add(found.references);
        found.applications.len()
    }

    /// What was known of these repositories is old.
    fn delivered<'a>(&self, repositories: impl IntoIterator<Item = &'a SmolStr>) {
        for url in repositories {
            self.context.sources.invalidate(url);
            self.context.metrics.delivered(url);
        }
    }

    /// A tag in a registry: asks those that follow it to compare anew, and to hydrate (API-208, API-209). Returns how many.
    pub fn tagged(&self, tag: &TagPush) -> usize {
        let context = &self.context;
        let found = context.store.tagged(tag);
        self.delivered(&found.repositories);
        // What a registry said of its tags before is not asked.
        context.request_all(&found.applications, Level::ForceLatest);
        for key in &found.applications {
            context.hydrations.pushed(key);
        }
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

    /// Deliveries of webhooks that may be read at the same time (API-199).
    pub(crate) fn webhook_parallelism(&self) -> usize {
        self.context.world.load().settings.webhooks().parallelism
    }

    /// A delivery of a webhook is read until this is dropped (API-12).
    pub(crate) fn begin_delivery(&self) -> InFlight {
        InFlight::begin(&self.context.metrics.deliveries_in_flight)
    }

    /// A key of `argocd-cm`.
    pub(crate) fn setting(&self, key: &str) -> Option<String> {
        self.context.world.load().settings.cm().get(key).cloned()
    }

    /// Asks the API server for the settings, as a probe does (API-8).
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub(crate) async fn reads_settings(&self) -> Result<(), ApiError> {
        let settings = Gvk::new("", "v1", "ConfigMap");
        let target = Target::new(settings, &self.context.namespace, tiphys_api::names::SETTINGS_CONFIG_MAP);
        self.context.home.get(&target).await.map(drop)
    }

    /// The text of a metrics scrape.
    pub fn metrics(&self) -> String {
        self.metrics_beside("")
    }

    /// The same, with families of others of the process.
    pub(crate) fn metrics_beside(&self, others: &str) -> String {
        let context = &self.context;
        let world = context.world.load();
        let settings = world.settings.controller();
        let apps: Vec<AppInfo> =
            context.store.entries().iter().map(|(key, entry)| app_info(key, entry, settings)).collect();
        let wanted = &settings.metrics_cluster_labels;
        let clusters: Vec<ClusterInfo> =
            self.context.clusters.in_use().iter().map(|d| cluster_info(d, wanted)).collect();
        let sets = self.sets.as_ref().map(|sets| sets.infos()).unwrap_or_default();
        let (checks, groups) = context.hydrations.measures();
        let of_sets = self.sets.as_ref().map(|sets| sets.measures()).unwrap_or_default();
        let queues = [
            ("application", "app_reconciliation_queue", context.scheduler.measures()),
            ("application", "app_hydration_queue", checks),
            ("application", "manifest_hydration_queue", groups),
            ("applicationset", "applicationset", of_sets),
        ];
        let queues = queues.map(|(controller, name, measures)| QueueInfo { controller, name, measures });
        let after = settings.metrics_cache_expiration;
        context.metrics.renew(after, context.clock.elapsed(), |key| context.store.knows(key));
        context.metrics.scrape(&Found {
            apps: &apps,
            shows_conditions: !settings.metrics_application_conditions.is_empty(),
            sets: &sets,
            clusters: &clusters,
            queues: &queues,
            duplicate_credentials: world.duplicates.len(),
            settings_problems: &world.settings_problems,
            others,
        })
    }

    /// How much is held now.
    pub fn sizes(&self) -> Sizes {
        let context = &self.context;
        let (sets, set_timers) = self.sets.as_ref().map(|sets| sets.sizes()).unwrap_or_default();
        Sizes {
            applications: context.store.len(),
            waiting: context.scheduler.depth(),
            timers: context.scheduler.size(),
            busiest_cluster: context.gates.busiest_cluster(),
            renderings: context.renders.held(),
            released_bytes: context.renders.released_bytes(),
            events: context.events.max_capacity() - context.events.capacity(),
            sets,
            set_timers,
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
        let sets = self.sets.as_ref().map_or(0, |sets| sets.depth());
        (self.context.progress.count(), self.context.scheduler.depth() + sets)
    }
}

/// From what the store knows: parsing ten thousand objects for every scrape would hold everything else up.
fn app_info(key: &AppKey, entry: &AppEntry, settings: &settings::Controller) -> AppInfo {
    let app = &entry.declared;
    let label = |name: &String| {
        let value = entry.object.metadata().labels.get(name);
        (name.clone(), value.cloned().unwrap_or_default())
    };
    let wanted = &settings.metrics_application_conditions;
    let is_wanted = |(condition, _): &&(SmolStr, usize)| wanted.iter().any(|wanted| wanted == condition);
    let (orphans, marked) = {
        let memory = entry.memory.lock();
        (memory.orphans, memory.marked.clone())
    };
    AppInfo {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        project: app.project.to_string(),
        autosync: app.is_automated,
        repo: app
            .repositories
            .first()
            .map(|url| repo_url::redact(&repo_url::normalize(url)))
            .unwrap_or_default(),
        dest_server: app.destination.server.clone(),
        dest_namespace: app.destination.namespace.clone(),
        sync_status: entry.sync_status.to_string(),
        health_status: entry.health_status.to_string(),
        orphans,
        marked,
        labels: settings.metrics_application_labels.iter().map(label).collect(),
        conditions: entry.conditions.iter().filter(is_wanted).cloned().collect(),
        operation: if app.is_deleting {
            "delete"
        } else if app.has_operation {
            "sync"
        } else {
            ""
        },
    }
}

fn cluster_info(destination: &crate::clusters::Destination, wanted: &[String]) -> ClusterInfo {
    let counts = destination.index.counts();
    let version = destination.index.discovery().snapshot().map(|kinds| kinds.server_version().to_owned());
    ClusterInfo {
        server: destination.cluster.server.clone(),
        project: destination.cluster.project.clone(),
        name: destination.cluster.name.clone(),
        version: version.unwrap_or_default(),
        kinds: counts.len(),
        objects: counts.values().sum(),
        events: destination.index.events(),
        age: destination.index.age(),
        unreadable: destination.index.unreadable().len(),
        connected: destination.index.error().is_none(),
        labels: wanted
            .iter()
            .map(|key| (key.clone(), destination.cluster.labels.get(key).cloned().unwrap_or_default()))
            .collect(),
    }
}

/// Tells when the tree of an application may have become another (API-137).
#[derive(Debug)]
pub struct TreeChanges {
    key: AppKey,
    changes: Receiver<AppKey>,
}

impl TreeChanges {
    /// Waits for the next change; `None` when there are no more. Cancel-safe.
    pub async fn next(&mut self) -> Option<()> {
        loop {
            match self.changes.recv().await {
                Ok(key) if key == self.key => return Some(()),
                Ok(_) => {}
                // What was missed may have been ours.
                Err(RecvError::Lagged(_)) => return Some(()),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
