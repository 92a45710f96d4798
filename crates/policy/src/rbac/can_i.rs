//! Questions of the API that are more than one of the policy (API-58, API-105, API-107, ASET-281).

use tiphys_api::Application;

use super::enforce::{Caller, Request};
use super::object::application_object;
use super::vocabulary::{ACTIONS, COMPATIBLE_ACTIONS, Resource, is_action};
use crate::Decision;

const ROLLBACK: &str = "rollback";
const SYNC: &str = "sync";

/// Why nobody can be asked whether the caller may (API-58).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanIError {
    /// There is no such action.
    #[error("{} does not contain {action}", list(ACTIONS.into_iter().take(COMPATIBLE_ACTIONS)))]
    Action {
        /// What was asked for.
        action: String,
    },
    /// There is no such resource.
    #[error("{} does not contain {resource}", list(Resource::ALL.into_iter().map(Resource::as_str)))]
    Resource {
        /// What was asked about.
        resource: String,
    },
}

/// Words as Go prints a list of them.
fn list(words: impl Iterator<Item = &'static str>) -> String {
    format!("[{}]", words.collect::<Vec<_>>().join(" "))
}

/// What is done to a resource of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceOperation {
    /// It is patched.
    Update,
    /// It is deleted.
    Delete,
}

/// A resource of an application; cluster-scoped ones have no namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagedResource<'a> {
    /// Group; empty for the core one.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

/// Whether there are such an action and such a resource (API-58).
///
/// # Errors
/// When there is none, the action first.
pub fn check_words(action: &str, resource: &str) -> Result<Resource, CanIError> {
    if !is_action(action) {
        return Err(CanIError::Action { action: action.to_owned() });
    }
    Resource::parse(resource).ok_or_else(|| CanIError::Resource { resource: resource.to_owned() })
}

impl Caller<'_> {
    /// Answers a client that asks before it tries (API-58). `action/…`, `update/…` and `delete/…` may be asked for too.
    ///
    /// # Errors
    /// When there is no such action or resource, the action first.
    pub fn can_i(&self, request: &Request<'_>, control_plane_namespace: &str) -> Result<bool, CanIError> {
        let resource = check_words(request.action, request.resource)?;
        let action = self.rollback_as(request.action);
        let short =
            resource.is_in_project().then(|| without_own_namespace(request.object, control_plane_namespace));
        let object = short.flatten();
        let object = object.as_deref().unwrap_or(request.object);
        Ok(self.may(&Request { resource: request.resource, action, object }))
    }

    /// The action that a rollback needs: its own only where that is switched on (API-107).
    pub fn rollback_action(&self) -> &'static str {
        if self.rbac.options().rollback_enforced { ROLLBACK } else { SYNC }
    }

    fn rollback_as<'r>(&self, action: &'r str) -> &'r str {
        if action == ROLLBACK { self.rollback_action() } else { action }
    }

    /// Whether the caller may patch or delete a resource of an application (API-105).
    pub fn may_change(
        &self,
        application: &Application,
        control_plane_namespace: &str,
        operation: ResourceOperation,
        resource: ManagedResource<'_>,
    ) -> Decision {
        let metadata = &application.metadata;
        let object = application_object(
            application.project(),
            &metadata.namespace,
            &metadata.name,
            control_plane_namespace,
        );
        let verb = match operation {
            ResourceOperation::Update => "update",
            ResourceOperation::Delete => "delete",
        };
        let request = |action| Request { resource: Resource::Applications.as_str(), action, object: &object };
        if self.rbac.options().fine_grained_inherited && self.may(&request(verb)) {
            return Decision::permitted();
        }
        let ManagedResource { group, kind, namespace, name } = resource;
        self.check(&request(&format!("{verb}/{group}/{kind}/{namespace}/{name}")))
    }

    /// Whether the caller may create or update (`verb`) an `ApplicationSet` that no project confines, besides the right
    /// to do so with its object (ASET-281).
    pub fn may_be_unscoped(&self, verb: &str) -> Decision {
        let resource = Resource::ApplicationSets.as_str();
        let everywhere = Request { resource, action: verb, object: "*/*" };
        let unscoped = Request { resource, action: "unscoped", object: "*" };
        let permitted =
            !self.rbac.options().unscoped_restricted || self.may(&everywhere) || self.may(&unscoped);
        Decision::when(permitted, || {
            format!(
                "{}; an ApplicationSet without spec.project needs the right to {verb} all of them (applicationsets, \
                 {verb}, */*) or the right to leave projects (applicationsets, unscoped, *)",
                self.refusal(&unscoped)
            )
        })
    }
}

/// `project/namespace/name` without the namespace where it is the control plane's (API-58).
fn without_own_namespace(object: &str, control_plane_namespace: &str) -> Option<String> {
    let mut parts = object.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(project), Some(namespace), Some(name), None) if namespace == control_plane_namespace => {
            Some(format!("{project}/{name}"))
        }
        _ => None,
    }
}
