//! The proof that an account was asked.

use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_api::cluster::Cluster;
use tiphys_api::repository::Repository;
use tiphys_api::{AppProject, Application, ApplicationSet};

use super::enforce::{Caller, Request};
use super::object::{application_object, application_set_object, scoped_object};
use super::vocabulary::Resource;

/// Something that rights are given for.
pub trait Protected {
    /// The resource it is one of.
    fn resource(&self) -> Resource;
    /// Its name in policies (API-102).
    fn object(&self, control_plane_namespace: &str) -> String;
}

impl Protected for Application {
    fn resource(&self) -> Resource {
        Resource::Applications
    }

    fn object(&self, control_plane_namespace: &str) -> String {
        let Self { metadata, .. } = self;
        application_object(self.project(), &metadata.namespace, &metadata.name, control_plane_namespace)
    }
}

impl Protected for ApplicationSet {
    fn resource(&self) -> Resource {
        Resource::ApplicationSets
    }

    fn object(&self, control_plane_namespace: &str) -> String {
        application_set_object(self, control_plane_namespace)
    }
}

impl Protected for AppProject {
    fn resource(&self) -> Resource {
        Resource::Projects
    }

    fn object(&self, _: &str) -> String {
        self.name().to_owned()
    }
}

impl Protected for Cluster {
    fn resource(&self) -> Resource {
        Resource::Clusters
    }

    fn object(&self, _: &str) -> String {
        scoped_object(&self.project, &self.server)
    }
}

impl Protected for Repository {
    fn resource(&self) -> Resource {
        Resource::Repositories
    }

    fn object(&self, _: &str) -> String {
        scoped_object(&self.project, &self.url)
    }
}

impl<T: Protected> Protected for &T {
    fn resource(&self) -> Resource {
        T::resource(self)
    }

    fn object(&self, control_plane_namespace: &str) -> String {
        T::object(self, control_plane_namespace)
    }
}

impl<T: Protected> Protected for Arc<T> {
    fn resource(&self) -> Resource {
        T::resource(self)
    }

    fn object(&self, control_plane_namespace: &str) -> String {
        T::object(self, control_plane_namespace)
    }
}

/// A thing together with the proof that the caller may do one thing with it. It cannot be made up: it comes from
/// [`Caller::authorize`]. What changes something takes it instead of the thing and asks [`Authorized::allows`] for its
/// own action, so that nobody forgets to ask and a right to read is none to delete.
///
/// It says nothing about what the thing may do: a permit of its project stays necessary (INV-6).
#[derive(Clone, Debug)]
pub struct Authorized<T> {
    thing: T,
    action: SmolStr,
}

impl<T> Authorized<T> {
    /// The thing, where the proof is for this action.
    pub fn allows(&self, action: &str) -> Option<&T> {
        (self.action == action).then_some(&self.thing)
    }

    /// The thing, for looking at.
    pub fn get(&self) -> &T {
        &self.thing
    }
}

impl Caller<'_> {
    /// Asks whether the caller may do this with the thing (API-92).
    ///
    /// # Errors
    /// The text of the refusal (API-98). Where it would tell that the thing exists, the caller is told no more than
    /// `permission denied`.
    pub fn authorize<T: Protected>(
        &self,
        action: &str,
        thing: T,
        control_plane_namespace: &str,
    ) -> Result<Authorized<T>, String> {
        let object = thing.object(control_plane_namespace);
        let request = Request { resource: thing.resource().as_str(), action, object: &object };
        match self.check(&request).message {
            None => Ok(Authorized { thing, action: action.into() }),
            Some(refusal) => Err(refusal),
        }
    }
}
