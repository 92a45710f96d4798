//! A decided change together with what the caller has to be allowed for it.
//!
//! The store writes nothing else where several owners have objects of a kind (A2): whoever plans a change names the object
//! that it changes, as it is stored, and the object that it makes; the store asks about both each time it is about to
//! write, for the very state that it writes on.

use tiphys_api::AppProject;
use tiphys_api::cluster::Cluster;
use tiphys_api::repository::{CredentialTemplate, Repository};
use tiphys_policy::rbac::{Authorized, Located, Protected, Resource};

use crate::access::{Access, Action, Caller};
use crate::change::Change;
use crate::error::Error;
use crate::purpose::Purpose;

/// A right that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    resource: Resource,
    action: Action,
    object: Named,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Name(String),
    Address { project: String, address: String },
}

impl Need {
    pub(crate) fn named(resource: Resource, action: Action, name: &str) -> Self {
        Self { resource, action, object: Named::Name(name.to_owned()) }
    }

    pub(crate) fn located(resource: Resource, action: Action, (project, address): (&str, &str)) -> Self {
        let object = Named::Address { project: project.to_owned(), address: address.to_owned() };
        Self { resource, action, object }
    }

    /// Whether the caller has the right.
    ///
    /// # Errors
    /// With the text of the refusal.
    pub(crate) fn check(&self, caller: Caller<'_>) -> Result<(), Error> {
        let (resource, action) = (self.resource, self.action);
        match &self.object {
            Named::Name(name) => caller.may(&Access::named(resource, action, name)),
            Named::Address { project, address } => {
                caller.may(&Access::located(resource, action, &Located { project, address }))
            }
        }
    }
}

/// An object that rights are given for.
pub(crate) trait Guarded {
    /// The rights that doing this with it needs, all of them.
    fn needs(&self, action: Action) -> Vec<Need>;
}

impl Guarded for Cluster {
    /// A project's right lends nothing of the controller's own: whoever gives its identity or the local cluster to a project
    /// needs the same right in the shared scope (A3).
    fn needs(&self, action: Action) -> Vec<Need> {
        let need = |project| Need::located(Resource::Clusters, action, (project, &self.server));
        let lends = is_write(action) && !self.project.is_empty() && self.lends_identity();
        [Some(need(&self.project)), lends.then(|| need(""))].into_iter().flatten().collect()
    }
}

impl Guarded for (Purpose, &Repository) {
    fn needs(&self, action: Action) -> Vec<Need> {
        let (purpose, repository) = self;
        let need = |project| Need::located(purpose.resource(), action, (project, &repository.url));
        let lends = is_write(action) && !repository.project.is_empty() && repository.lends_identity();
        [Some(need(&repository.project)), lends.then(|| need(""))].into_iter().flatten().collect()
    }
}

impl Guarded for (Purpose, &CredentialTemplate) {
    fn needs(&self, action: Action) -> Vec<Need> {
        vec![Need::located(self.0.resource(), action, ("", &self.1.url))]
    }
}

impl Guarded for AppProject {
    fn needs(&self, action: Action) -> Vec<Need> {
        vec![Need::named(Resource::Projects, action, self.name())]
    }
}

fn is_write(action: Action) -> bool {
    matches!(action, Action::Create | Action::Update)
}

/// A change that the store may carry out for a caller with these rights.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    change: Change,
    needs: Vec<Need>,
}

impl Planned {
    /// A new object.
    pub(crate) fn created(made: &impl Guarded, change: Change) -> Self {
        Self { change, needs: made.needs(Action::Create) }
    }

    /// A stored object that becomes another one. Both count.
    pub(crate) fn updated(stored: &impl Guarded, made: &impl Guarded, change: Change) -> Self {
        let mut needs = stored.needs(Action::Update);
        for need in made.needs(Action::Update) {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        Self { change, needs }
    }

    /// A stored object that goes.
    pub(crate) fn deleted(stored: &impl Guarded, change: Change) -> Self {
        Self { change, needs: stored.needs(Action::Delete) }
    }

    /// A change of an application or a set, for which rights were asked already: of the stored object, and of the one that
    /// it becomes.
    ///
    /// # Errors
    /// When a proof is about another action, or there is none.
    pub fn proven<T: Protected>(
        change: Change,
        proofs: &[&Authorized<T>],
        actions: &[&str],
    ) -> Result<Self, Error> {
        let is_proven = |proof: &&Authorized<T>| actions.iter().any(|action| proof.allows(action).is_some());
        if proofs.is_empty() || !proofs.iter().all(is_proven) {
            return Err(Error::Denied("permission denied".to_owned()));
        }
        Ok(Self { change, needs: Vec::new() })
    }

    /// The change, for a caller who has every right that it needs.
    ///
    /// # Errors
    /// With the text of the refusal.
    pub fn for_caller(&self, caller: Caller<'_>) -> Result<&Change, Error> {
        self.needs.iter().try_for_each(|need| need.check(caller))?;
        Ok(&self.change)
    }

    /// What it does, whoever may.
    #[cfg(test)]
    pub(crate) fn into_change(self) -> Change {
        self.change
    }

    /// The rights that it needs, in words.
    #[cfg(test)]
    pub(crate) fn needs(&self) -> Vec<String> {
        let words = |need: &Need| match &need.object {
            Named::Name(name) => format!("{} {name}", need.action.as_str()),
            Named::Address { project, address } => {
                format!("{} {}", need.action.as_str(), tiphys_policy::rbac::scoped_object(project, address))
            }
        };
        self.needs.iter().map(words).collect()
    }
}
