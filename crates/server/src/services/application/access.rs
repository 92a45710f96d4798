//! Finding an application for a caller, who is told no more than they may know (API-113..116, SEC-25, SEC-27, SEC-30).

use std::borrow::Cow;
use std::sync::Arc;

use tiphys_api::Application;
use tiphys_object::{Object, ResourceKey};
use tiphys_policy::permit::Own;
use tiphys_policy::project::namespace_permitted;
use tiphys_policy::rbac::{Authorized, Resource, ResourceOperation, application_object};
use tiphys_service::application::{self as rules, ApplicationError};
use tiphys_wire::status::Code;

use super::requests::Named;
use super::{is_enabled, namespace_of, store};
use crate::call::Status;
use crate::catalog::{AppKey, Entry};
use crate::services::context::{Context, hidden};

/// What the caller has to be allowed.
pub(super) enum Right<'r> {
    /// An action on the application.
    Action(&'r str),
    /// Changing one of its resources (API-105).
    Change(ResourceOperation, &'r ResourceKey),
}

impl Right<'_> {
    /// The action to ask for: that of the resource, or the one that stands for it where that is switched on and allowed.
    fn action<'a>(&'a self, context: &Context<'_>, object: &str) -> Cow<'a, str> {
        let (operation, key) = match self {
            Self::Action(action) => return Cow::Borrowed(action),
            Self::Change(operation, key) => (operation, key),
        };
        let verb = match operation {
            ResourceOperation::Update => "update",
            ResourceOperation::Delete => "delete",
        };
        let is_inherited = context.world.installation.settings.rbac_inherits_fine_grained();
        if is_inherited && context.may(Resource::Applications, verb, object) {
            return Cow::Borrowed(verb);
        }
        Cow::Owned(format!("{verb}/{}/{}/{}/{}", key.group, key.kind, key.namespace, key.name))
    }
}

/// An application that the caller may do something with.
pub(super) struct Found<T> {
    /// Its name.
    pub(super) key: AppKey,
    /// The proof, with the application.
    pub(super) proof: Authorized<Application>,
    /// What it was read from.
    pub(super) from: Arc<T>,
}

/// The application as the cluster has it now.
///
/// # Errors
/// As API-114 says, whatever the reason.
pub(super) async fn fresh(
    context: &Context<'_>,
    action: &str,
    named: &Named,
) -> Result<Found<Object>, Status> {
    fresh_with(context, &Right::Action(action), named).await
}

/// The same for another right than an action.
///
/// # Errors
/// As API-114 says, whatever the reason.
pub(super) async fn fresh_with(
    context: &Context<'_>,
    right: &Right<'_>,
    named: &Named,
) -> Result<Found<Object>, Status> {
    let namespace = namespace_of(context, &named.app_namespace);
    let key = AppKey::new(namespace, &named.name);
    let read = if is_enabled(context, namespace) && !named.name.is_empty() {
        match store(context, namespace).get(Own::Application, &named.name).await {
            Ok(Some(object)) => match rules::read(&object) {
                Ok(app) => Ok(Some((app, object))),
                // Only callers of its project may learn that it exists (SEC-25).
                Err(error) if rules::names_project(&object, &named.project) => Err(error.to_string()),
                Err(error) => {
                    tracing::error!(application = %key.name, %error, "failed to read an application");
                    Ok(None)
                }
            },
            Ok(None) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    } else {
        Ok(None)
    };
    let (proof, from) = decide(context, right, named, &key, read)?;
    Ok(Found { key, proof, from })
}

/// The application as the catalog has it.
///
/// # Errors
/// As API-114 says, whatever the reason.
pub(super) fn cached(context: &Context<'_>, action: &str, named: &Named) -> Result<Found<Entry>, Status> {
    let namespace = namespace_of(context, &named.app_namespace);
    let key = AppKey::new(namespace, &named.name);
    let read = if !is_enabled(context, namespace) {
        Ok(None)
    } else {
        match context.parts.catalog.look_up(&key) {
            Err(error) => Err(error.to_string()),
            Ok(None) => Ok(None),
            Ok(Some(entry)) => {
                entry.application().map(|app| Some((app, entry))).map_err(|status| status.message)
            }
        }
    };
    let (proof, from) = decide(context, &Right::Action(action), named, &key, read)?;
    Ok(Found { key, proof, from })
}

/// What of an application was read, or why nothing was.
type Read<T> = Result<Option<(Application, Arc<T>)>, String>;

/// Who may not, and what is not, look alike. It is looked up either way, so that time tells nothing.
fn decide<T>(
    context: &Context<'_>,
    right: &Right<'_>,
    named: &Named,
    key: &AppKey,
    read: Read<T>,
) -> Result<(Authorized<Application>, Arc<T>), Status> {
    let missing = || not_found(&key.name);
    let refuse = |status: Status| {
        tracing::warn!(
            security = 2,
            user = %tiphys_api::printable::line(&context.username()),
            application = %tiphys_api::printable::line(&key.name),
            namespace = %tiphys_api::printable::line(&key.namespace),
            project = %tiphys_api::printable::line(&named.project),
            action = %right.action(context, ""),
            "access to an application was denied"
        );
        status
    };
    let is_given = !named.project.is_empty();
    if is_given {
        let object = application_object(&named.project, &key.namespace, &key.name, context.namespace());
        if !context.may(Resource::Applications, &right.action(context, &object), &object) {
            return Err(refuse(hidden()));
        }
    }
    let (app, from) = match read {
        Ok(Some(found)) => found,
        Ok(None) if is_given => return Err(missing()),
        Ok(None) => return Err(refuse(hidden())),
        Err(reason) if is_given => return Err(Status::new(Code::Unavailable, reason)),
        Err(reason) => {
            tracing::error!(application = %key.name, reason, "an application cannot be looked at");
            return Err(refuse(hidden()));
        }
    };
    if is_given && app.project() != named.project {
        return Err(missing());
    }
    let object = application_object(app.project(), &key.namespace, &key.name, context.namespace());
    let Ok(proof) = context.authorize(&right.action(context, &object), app) else {
        return Err(refuse(if is_given { missing() } else { hidden() }));
    };
    admitted(context, proof.get())?;
    Ok((proof, from))
}

/// Whether the project of an application exists and admits it (API-115).
///
/// # Errors
/// One text, whatever the reason.
pub(super) fn admitted(context: &Context<'_>, app: &Application) -> Result<(), Status> {
    let project = context.world.installation.project(app.project()).ok();
    let is_admitted = project.is_some_and(|project| {
        let metadata = &app.metadata;
        namespace_permitted(project, &metadata.name, &metadata.namespace, context.namespace()).permitted
    });
    if is_admitted {
        return Ok(());
    }
    let text = format!("app is not allowed in project \"{}\", or the project does not exist", app.project());
    Err(Status::invalid(text))
}

/// There is none.
pub(super) fn not_found(name: &str) -> Status {
    tiphys_service::Error::from(ApplicationError::NotFound(name.to_owned())).into()
}
