//! Objects beside an application that nobody declares, looked for once (REP-195, TRK-135, CLI-540).

use std::collections::BTreeSet;
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_cluster::{Claims, Derived, OrphanQuery};
use tiphys_engine::tracking::{Ownership, Reading, Readings};
use tiphys_object::{Metadata, ResourceKey};
use tiphys_policy::project::{Target, live_permitted, monitors_orphans};

use crate::core::look::Look;
use crate::core::{AppName, Core, Destination, Node, World};
use crate::failure::Failure;

/// Orphans, and kinds of which nobody could see whether there are some.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// With all that is below them, parents first.
    pub(crate) nodes: Vec<Node>,
    pub(crate) unknown: Vec<String>,
}

impl Core {
    /// The orphans beside an application; none where its project does not look for them.
    pub(crate) async fn orphans(&self, app: &Application, world: &World) -> Result<Orphans, Failure> {
        if let Some(server) = self.server() {
            let tree = server.tree(&AppName::of(app)).await?;
            return Ok(Orphans { nodes: tree.orphans, unknown: Vec::new() });
        }
        let project = world.project(app)?;
        let namespace = app.spec.destination.namespace.as_str();
        if !monitors_orphans(project) || namespace.is_empty() {
            return Ok(Orphans::default());
        }
        let destination = Destination::of(app, self, world).await?;
        let marks = self.marks(world).await?;
        let derive = Arc::new(|_: &serde_json::Value| Derived::default());
        let place = (vec![namespace.into()], false);
        let looked = Look::start(&destination, world, marks.claims(), derive, place)?;
        looked.ready().await?;
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
        Ok(Orphans { nodes: found.into_iter().map(Node::from).collect(), unknown })
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

impl Marks {
    /// How an index recognises what is somebody's.
    fn claims(&self) -> Claims {
        let readings = Arc::new(self.readings.clone());
        let (keys, ways) = (readings.keys(), readings.ids());
        Claims { keys, claim: Arc::new(move |metadata: &Metadata| readings.marks(metadata)), ways }
    }
}
