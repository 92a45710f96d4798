//! What the commands about projects work with: the installation itself, or its API server.

use std::sync::Arc;

use tiphys_api::project::AppProjectSpec;
use tiphys_api::{AppProject, Application};
use tiphys_object::Object;
use tiphys_policy::project::EffectiveInputs;
use tiphys_service::project::{Projects, Surroundings};
use tiphys_service::{Caller, Store};

use super::remote;
use super::show::Scoped;
use crate::core::{Core, Loaded, World};
use crate::failure::Failure;
use crate::session::Session;

/// The way to projects.
pub(crate) struct Work {
    core: Core,
    direct: Option<Box<Direct>>,
}

/// What a server would know, read by ourselves.
struct Direct {
    store: Store,
    loaded: Loaded,
    applications: Vec<Application>,
    /// An application that exists and cannot be read: it may use any project.
    unread: Option<String>,
}

impl Work {
    /// Reads the installation, and the applications of all namespaces that are enabled; a server has done so.
    pub(super) async fn begin(session: &Session<'_>) -> Result<Self, Failure> {
        Self::at(session, session.connect().await?).await
    }

    /// The same of an installation that somebody has found.
    pub(crate) async fn at(session: &Session<'_>, core: Core) -> Result<Self, Failure> {
        if core.server().is_some() {
            return Ok(Self { core, direct: None });
        }
        let loaded = World::load_all(&core).await?;
        for (name, why) in &loaded.world.bad_projects {
            session.warn(&format!("project {name} is not counted: {why}"));
        }
        // Where applications of other namespaces count, they may be anywhere.
        let only_own = loaded.world.settings.application_namespaces().is_empty();
        let namespace = if only_own { core.namespace.as_str() } else { "" };
        let stored = core.applications(namespace, "").await?;
        let unread = core.left_out().into_iter().next();
        if let Some(unread) = &unread {
            session.warn(&format!("not every application could be looked at: {unread}"));
        }
        let applications = stored.into_iter().map(|stored| stored.app).collect();
        let direct = Direct { store: core.store()?, loaded, applications, unread };
        Ok(Self { core, direct: Some(Box::new(direct)) })
    }

    /// The installation.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    fn around<'a>(&'a self, direct: &'a Direct) -> Surroundings<'a> {
        let Loaded { world, projects, .. } = &direct.loaded;
        Surroundings {
            inputs: EffectiveInputs {
                projects,
                repositories: &world.repositories,
                clusters: world.clusters.all(),
                settings: &world.settings,
            },
            clusters: &world.clusters,
            applications: &direct.applications,
            namespace: &self.core.namespace,
        }
    }

    /// A project as it is stored, whole.
    pub(super) async fn object(&self, name: &str) -> Result<Arc<Object>, Failure> {
        match &self.direct {
            Some(direct) => Ok(direct.calls().get(name).await?),
            None => remote::get(self.core.by_server()?, name).await,
        }
    }

    /// A project as it is stored.
    pub(super) async fn project(&self, name: &str) -> Result<AppProject, Failure> {
        read(&*self.object(name).await?)
    }

    /// What belongs to a project and stands elsewhere.
    pub(super) async fn scoped(&self, name: &str) -> Result<Scoped, Failure> {
        match &self.direct {
            Some(direct) => Ok(Scoped::of(name, &direct.loaded.world)),
            None => remote::scoped(self.core.by_server()?, name).await,
        }
    }

    /// Stores a new project; with `upsert` the spec of one that exists is replaced.
    pub(super) async fn create(&self, project: &AppProject, is_upsert: bool) -> Result<(), Failure> {
        match &self.direct {
            Some(direct) => Ok(direct.calls().create(project, is_upsert, &self.around(direct)).await?),
            None => remote::create(self.core.by_server()?, project, is_upsert).await,
        }
    }

    /// Deletes a project that nobody uses.
    pub(super) async fn delete(&self, name: &str) -> Result<(), Failure> {
        let Some(direct) = &self.direct else {
            return remote::delete(self.core.by_server()?, name).await;
        };
        if let Some(unread) = &direct.unread {
            return Err(Failure::status(
                "FailedPrecondition",
                format!("it cannot be told whether project {name} is used: {unread}"),
            ));
        }
        Ok(direct.calls().delete(name, &self.around(direct)).await?)
    }

    /// Stores what an edit makes of the spec; `false` leaves the project as it is.
    pub(super) async fn edit(
        &self,
        name: &str,
        edit: impl Fn(&mut AppProjectSpec) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        self.edit_project(name, |project| edit(&mut project.spec)).await
    }

    /// The same, for edits that look at more than the spec. A server stores the spec alone.
    pub(crate) async fn edit_project(
        &self,
        name: &str,
        edit: impl Fn(&mut AppProject) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let change = |stored: &AppProject| -> Result<Option<AppProject>, Failure> {
            let mut project = stored.clone();
            Ok(edit(&mut project)?.then_some(project))
        };
        match &self.direct {
            Some(direct) => direct.calls().edit(name, &self.around(direct), change).await,
            None => remote::edit(self.core.by_server()?, name, change).await,
        }
    }
}

impl Direct {
    fn calls(&self) -> Projects<'_> {
        Projects::new(&self.store, Caller::operator())
    }
}

/// An object as a project.
pub(crate) fn read(object: &Object) -> Result<AppProject, Failure> {
    tiphys_service::project::read(object).map_err(|error| tiphys_service::Error::from(error).into())
}
