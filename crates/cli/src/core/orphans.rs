//! Objects beside an application that nobody declares, looked for once (REP-195, TRK-135, CLI-540).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_cluster::{Claims, ClusterIndex, Derived, IndexOptions, OrphanQuery, ResourceFilter};
use tiphys_engine::tracking::{Ownership, Reading, Readings};
use tiphys_object::{Metadata, ResourceKey};
use tiphys_policy::project::{Target, live_permitted, monitors_orphans};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::{Core, Destination, World};
use crate::failure::Failure;

/// Time for the lists of all kinds of one namespace.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// Events of the index that may wait; nobody reads them.
const EVENTS_MAX: usize = 64;

/// Orphans, and kinds of which nobody could see whether there are some.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    pub(crate) keys: Vec<ResourceKey>,
    pub(crate) unknown: Vec<String>,
}

impl Core {
    /// The orphans beside an application; none where its project does not look for them.
    pub(crate) async fn orphans(&self, app: &Application, world: &World) -> Result<Orphans, Failure> {
        let project = world.project(app)?;
        let namespace = app.spec.destination.namespace.as_str();
        if !monitors_orphans(project) || namespace.is_empty() {
            return Ok(Orphans::default());
        }
        let destination = Destination::of(app, self, world).await?;
        let marks = self.marks(world).await?;
        let looked = Look::start(&destination, world, &marks, namespace)?;
        match tokio::time::timeout(LIST_TIMEOUT, looked.index.ready()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(Failure::status("Unavailable", why)),
            Err(_) => {
                let text = format!("the objects of namespace {namespace} were not listed in time");
                return Err(Failure::status("DeadlineExceeded", text));
            }
        }
        let known = looked.index.managed(&[] as &[&str], &[]);
        let is_namespaced = |kind| {
            destination.kinds.scope(kind).is_none_or(|scope| scope == tiphys_cluster::Scope::Namespaced)
        };
        let unknown = known.incomplete.iter().filter(|(kind, _)| is_namespaced(kind));
        let unknown = unknown.map(|(kind, why)| format!("{kind}: {why}")).collect();
        let roots: Vec<ResourceKey> = app
            .status
            .resources
            .iter()
            .map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name))
            .collect();
        let matching = world.settings.project_matching();
        let found = looked.index.orphans(&OrphanQuery {
            project,
            namespace,
            roots: &roots,
            is_visible: &|key| {
                let target = Target::new(&destination.cluster, &key.namespace);
                live_permitted(project, key, target, Ok(world.clusters.all()), matching)
            },
            is_named: &|mark| marks.all.contains(mark),
        });
        Ok(Orphans { keys: found.into_iter().map(|node| node.key).collect(), unknown })
    }

    /// By which marks objects name the applications that exist, and how they are read.
    async fn marks(&self, world: &World) -> Result<Marks, Failure> {
        let only_own = world.settings.application_namespaces().is_empty();
        let namespace = if only_own { self.namespace.as_str() } else { "" };
        let mut marks = Marks { all: BTreeSet::new(), readings: Readings::of(&world.tracking) };
        for stored in self.applications(namespace, "").await? {
            let app = &stored.app;
            let tracking = world.tracking_of(app);
            let previous = world.previous_tracking_of(app, &tracking);
            let instance = tracking.instance_name(&app.metadata.namespace, &app.metadata.name);
            let own = Ownership { current: &tracking, previous: &previous, instance: &instance, others: &() };
            marks.all.extend(own.marks());
            marks.readings.add_current(Reading::of(&tracking));
            for former in own.sides() {
                marks.readings.add_former(Reading::of(former), app.project());
            }
        }
        Ok(marks)
    }
}

/// The marks of all applications.
struct Marks {
    all: BTreeSet<SmolStr>,
    readings: Readings,
}

/// An index of one namespace that ends with the command.
struct Look {
    index: ClusterIndex,
    cancel: CancellationToken,
}

impl Look {
    fn start(
        destination: &Destination,
        world: &World,
        marks: &Marks,
        namespace: &str,
    ) -> Result<Self, Failure> {
        let settings = &world.settings;
        let readings = Arc::new(marks.readings.clone());
        let (keys, ways) = (readings.keys(), readings.ids());
        let claims =
            Claims { keys, claim: Arc::new(move |metadata: &Metadata| readings.marks(metadata)), ways };
        let derive = Arc::new(|_: &serde_json::Value| Derived::default());
        let mut options = IndexOptions::new(&destination.cluster.server, claims, derive, Arc::new(|| 0.5));
        options.filter =
            ResourceFilter::parse(settings.resource_exclusions(), settings.resource_inclusions())
                .map_err(|error| Failure::status("FailedPrecondition", error))?;
        options.namespaces = vec![namespace.into()];
        options.cluster_resources = false;
        let (sender, mut events) = mpsc::channel(EVENTS_MAX);
        let cancel = CancellationToken::new();
        let index = ClusterIndex::start(
            destination.connection.clone(),
            destination.discovery.clone(),
            options,
            sender,
            &TaskTracker::new(),
            cancel.clone(),
        );
        // A full channel would stall the lists.
        drop(tokio::spawn(async move { while events.recv().await.is_some() {} }));
        Ok(Self { index, cancel })
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
