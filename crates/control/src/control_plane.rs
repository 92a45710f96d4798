//! What every role of a process shares: the way to the control plane, its lease, and the tasks that run.
//!
//! A role (applications, their sets) is started on it, takes its watches and spawns its tasks here, and ends with it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::{AppProject, names};
use tiphys_cluster::{
    ApiError, ApiResource, Connection, Discovery, Fence, Kinds, ObjectEvent, ObjectQuery, Served, Target,
    Writer, error_chain, watch_objects,
};
use tiphys_object::Gvk;
use tiphys_policy::permit::{Own, Permit};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::lease::Lease;
use crate::metrics::KubernetesMetrics;
use crate::surroundings::Surroundings;

/// Objects of a watch that may wait; when full, the watch stalls, which is the backpressure we want.
pub(crate) const WATCH_EVENTS_MAX: usize = 1024;
/// Time a stopping process gives its tasks.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// Looks for the custom resources before giving up …
const DEFINITION_LOOKS: u32 = 40;
/// … and for the one that an installation may lack …
const DEFINITION_LOOKS_FOR_SETS: u32 = 8;
/// … and the time between two of them.
const DEFINITION_WAIT: Duration = Duration::from_millis(250);

/// Why a process could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The API server cannot be used.
    #[error("cannot reach the cluster: {0}")]
    Cluster(String),
    /// The cache directory cannot be used.
    #[error("cannot use the cache directory: {0}")]
    Cache(String),
    /// A variable of the environment is not what it should be (RND-158).
    #[error("{0}")]
    Environment(String),
    /// The lease cannot be used.
    #[error("cannot hold the lease of the installation: {0}")]
    Lease(String),
    /// The CRDs are not installed.
    #[error(
        "the custom resource {0} is not installed in the cluster; install it with `tiphys install --crds-only | kubectl apply --server-side -f -`"
    )]
    MissingDefinition(String),
    /// The installation ID could not be made or stored (TRK-68).
    #[error("the installation has no stable ID: {0}; allow the write, or set `installationID` in argocd-cm")]
    InstallationId(String),
    /// The default project could not be made.
    #[error("the default project cannot be created in namespace {namespace:?}: {reason}")]
    DefaultProject {
        /// The control plane's namespace.
        namespace: String,
        /// What the API server said.
        reason: String,
    },
}

/// How the control plane is reached, and as whom.
pub(crate) struct Access {
    /// Its namespace.
    pub(crate) namespace: String,
    /// The way to its cluster.
    pub(crate) connection: Connection,
    /// Look, but write nothing.
    pub(crate) read_only: bool,
    /// Name of this process, when it has to hold the lease (CTL-91).
    pub(crate) identity: Option<String>,
}

/// The control plane as a running process has it.
pub(crate) struct ControlPlane {
    pub(crate) namespace: SmolStr,
    /// Closed for writes while somebody else has the lease, and always when nothing is to be written.
    pub(crate) connection: Connection,
    pub(crate) fence: Option<Fence>,
    pub(crate) home: Writer,
    pub(crate) discovery: Discovery,
    pub(crate) read_only: bool,
    /// Requests that were made, those before anything else is counted included.
    pub(crate) kubernetes: KubernetesMetrics,
    pub(crate) surroundings: Surroundings,
    pub(crate) tracker: TaskTracker,
    /// Ends every task that may be left at any time.
    pub(crate) cancel: CancellationToken,
    kinds: Arc<Kinds>,
    /// Drops what writes, wherever it waits.
    abandoned: CancellationToken,
    lease: Option<Arc<Lease>>,
    /// Somebody else has the lease.
    lost: CancellationToken,
}

impl ControlPlane {
    /// Reaches the control plane, takes the lease, and makes the default project where it is missing.
    pub(crate) async fn connect(access: Access, surroundings: Surroundings) -> Result<Self, StartError> {
        let fence = if access.read_only {
            // Whoever forgets that nothing is to be written finds the way closed.
            Some(Fence::read_only())
        } else {
            access.identity.is_some().then(Fence::new)
        };
        let kubernetes = KubernetesMetrics::default();
        let plain = access.connection.observed(Arc::new(kubernetes.clone()));
        let connection = fence.as_ref().map_or_else(|| plain.clone(), |fence| plain.fenced(fence));
        let discovery = Discovery::new(connection.clone());
        let kinds = definitions(&discovery).await?;
        let plane = Self {
            namespace: SmolStr::new(&access.namespace),
            home: Writer::new(connection.clone(), discovery.clone()),
            discovery: discovery.clone(),
            connection,
            read_only: access.read_only,
            kubernetes,
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
            kinds,
            abandoned: CancellationToken::new(),
            lease: match (access.identity, &fence) {
                (Some(identity), Some(fence)) if !access.read_only => {
                    let writer = Writer::new(plain, discovery);
                    let clock = surroundings.clock.clone();
                    let lease = Lease::new(writer, &access.namespace, identity, clock, fence.clone());
                    lease.acquire().await.map_err(StartError::Lease)?;
                    Some(Arc::new(lease))
                }
                _ => None,
            },
            lost: CancellationToken::new(),
            fence,
            surroundings,
        };
        let guard = plane.guard();
        if let Some(lease) = &plane.lease {
            plane.spawn_writing(keep_lease(Arc::clone(lease), plane.lost.clone(), plane.cancel.clone()));
        }
        if !plane.read_only {
            ensure_default_project(&plane.home, &plane.namespace).await?;
        }
        guard.disarm();
        Ok(plane)
    }

    /// Ends all tasks when dropped: a start that fails or is given up leaves no watch behind.
    pub(crate) fn guard(&self) -> DropGuard {
        self.cancel.clone().drop_guard()
    }

    /// Follows the objects of a kind; an empty namespace means all of them.
    pub(crate) fn follow(
        &self,
        gvk: &Gvk,
        namespace: SmolStr,
        labels: &str,
    ) -> Result<mpsc::Receiver<ObjectEvent>, StartError> {
        let (sender, receiver) = mpsc::channel(WATCH_EVENTS_MAX);
        let query = ObjectQuery {
            resource: resource(&self.kinds, gvk)?,
            namespace,
            label_selector: labels.to_owned(),
            field_selector: String::new(),
        };
        let (jitter, cancel) = (self.surroundings.random.jitter(), self.cancel.clone());
        self.tracker.spawn(watch_objects(self.connection.clone(), query, sender, jitter, cancel));
        Ok(receiver)
    }

    /// How a kind is served.
    pub(crate) fn resource(&self, gvk: &Gvk) -> Result<Arc<ApiResource>, StartError> {
        resource(&self.kinds, gvk)
    }

    /// Runs a task that ends by itself when the process stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Runs a task that writes: it is dropped, wherever it waits, when the process is abandoned.
    pub(crate) fn spawn_writing(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(self.abandoned.clone().run_until_cancelled_owned(task));
    }

    /// Waits for the tasks to end, at most eight seconds, and gives the lease back.
    pub(crate) async fn stop(&self) {
        self.cancel.cancel();
        self.tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tracker.wait()).await.is_err() {
            tracing::warn!("some work did not end in time; the next start goes on with it");
            // What is computed for it ends with it, or the process would wait for that.
            self.abandoned.cancel();
        }
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
    }

    /// Ends as a crash would: nothing is finished and nothing is waited for.
    pub(crate) fn abandon(&self) {
        self.abandoned.cancel();
        self.cancel.cancel();
        self.tracker.close();
    }

    /// Waits until another process has taken the installation's lease.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// Discovers until our custom resources are served; definitions that were installed a moment ago show up a little
/// later. What is missing after that is told by the first watch that needs it.
async fn definitions(discovery: &Discovery) -> Result<Arc<Kinds>, StartError> {
    let failed = |error: &ApiError| StartError::Cluster(error_chain(error));
    let mut kinds = discovery.kinds().await.map_err(|error| failed(&error))?;
    for look in 0..DEFINITION_LOOKS {
        let served = |gvk: Gvk| kinds.resource(&gvk).is_some();
        // An installation may do without sets.
        let has_sets = served(set_gvk()) || look >= DEFINITION_LOOKS_FOR_SETS;
        if served(Context::application_gvk()) && served(project_gvk()) && has_sets {
            break;
        }
        tokio::time::sleep(DEFINITION_WAIT).await;
        kinds = discovery.refresh().await.map_err(|error| failed(&error))?;
    }
    for gvk in [Context::application_gvk(), project_gvk()] {
        resource(&kinds, &gvk)?;
    }
    Ok(kinds)
}

fn resource(kinds: &Kinds, gvk: &Gvk) -> Result<Arc<ApiResource>, StartError> {
    match kinds.served(gvk) {
        Served::Yes(resource) => Ok(resource),
        Served::No | Served::Unknown => {
            Err(StartError::MissingDefinition(format!("{} ({})", gvk.kind, gvk.api_version())))
        }
    }
}

/// The type of sets.
pub(crate) fn set_gvk() -> Gvk {
    Gvk::new(names::GROUP, names::VERSION, "ApplicationSet")
}

/// The type of projects.
pub(crate) fn project_gvk() -> Gvk {
    Gvk::new(names::GROUP, names::VERSION, "AppProject")
}

/// Creates the project `default` where it is missing (REP-121).
async fn ensure_default_project(home: &Writer, namespace: &str) -> Result<(), StartError> {
    let fail = |error: &ApiError| StartError::DefaultProject {
        namespace: namespace.to_owned(),
        reason: error_chain(error),
    };
    let target = Target::new(project_gvk(), namespace, "default");
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

/// Keeps the lease until the process stops, or until somebody else has it.
async fn keep_lease(lease: Arc<Lease>, lost: CancellationToken, cancel: CancellationToken) {
    // Cancel-safe: what is cut off is an attempt to renew, which nobody needs any more.
    if let Some(holder) = cancel.run_until_cancelled(lease.keep()).await {
        tracing::error!(holder, "another process has taken the lease of the installation");
        lost.cancel();
    }
}
