//! Applications (API section 4).

mod access;
mod change;
mod health;
mod list;
mod logs;
mod operation;
mod page;
mod predicted;
mod requests;
mod resources;
mod revision;
mod tree;
mod upload;
mod watch;
mod write;

use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_object::Object;
use tiphys_policy::project::namespace_enabled;
use tiphys_policy::rbac::Authorized;
use tiphys_service::application::{self as rules, ApplicationError};
use tiphys_service::{Caller, Change, Guarded, Planned, Store};

use super::context::Context;
use super::{request, unimplemented};
use crate::call::{Reply, Status};
use crate::catalog::AppKey;

pub(super) use upload::manifests_with_files;

pub(super) async fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    match method {
        "List" => list::list(context, request::read(message)?),
        "Get" => list::get(context, request::read(message)?).await,
        "Watch" => watch::watch(context, request::read(message)?),
        "Create" => write::create(context, request::read(message)?).await,
        "Update" => write::update(context, request::read(message)?).await,
        "UpdateSpec" => write::update_spec(context, request::read(message)?).await,
        "Patch" => write::patch(context, request::read(message)?).await,
        "Delete" => write::delete(context, request::read(message)?).await,
        "Sync" => operation::sync(context, request::read(message)?).await,
        "Rollback" => operation::rollback(context, request::read(message)?).await,
        "TerminateOperation" => operation::terminate(context, request::read(message)?).await,
        "GetApplicationSyncWindows" => operation::windows(context, request::read(message)?).await,
        "ManagedResources" => resources::managed(context, request::read(message)?).await,
        "ResourceTree" => resources::tree(context, request::read(message)?).await,
        "ServerSideDiff" => predicted::server_side_diff(context, request::read(message)?).await,
        "WatchResourceTree" => tree::watch(context, request::read(message)?).await,
        "GetResource" => resources::resource(context, request::read(message)?).await,
        "PatchResource" => change::patch(context, request::read(message)?).await,
        "ListResourceActions" => change::actions(context, request::read(message)?).await,
        "RunResourceAction" | "RunResourceActionV2" => change::run(context, request::read(message)?).await,
        "DeleteResource" => change::delete(context, request::read(message)?).await,
        "ListLinks" => resources::links(context, &request::read(message)?),
        "ListResourceLinks" => resources::resource_links(context, request::read(message)?).await,
        "PodLogs" => logs::pod_logs(context, request::read(message)?).await,
        "RevisionMetadata" => revision::metadata(context, request::read(message)?).await,
        "RevisionChartDetails" => revision::chart(context, request::read(message)?).await,
        "GetOCIMetadata" => revision::artifact(context, request::read(message)?).await,
        "GetManifests" => resources::manifests(context, request::read(message)?).await,
        "ListResourceEvents" => resources::list_events(context, request::read(message)?).await,
        _ => Err(unimplemented(method)),
    }
}

/// The namespace of a call; the control plane's where it names none (API-113).
fn namespace_of<'c>(context: &'c Context<'_>, given: &'c str) -> &'c str {
    if given.is_empty() { context.namespace() } else { given }
}

/// Whether applications of a namespace are looked at at all.
fn is_enabled(context: &Context<'_>, namespace: &str) -> bool {
    namespace_enabled(&context.world.installation.settings, namespace, context.namespace())
}

/// The way to the objects of a namespace.
fn store(context: &Context<'_>, namespace: &str) -> Store {
    context.parts.store.of(namespace)
}

/// Writes what was decided about an application, and answers with it when the catalog has seen it (API-117). The right is
/// asked for on the application in the very state that is changed, whatever was read before (A2).
async fn settle(
    context: &Context<'_>,
    key: &AppKey,
    action: &str,
    plan: impl Fn(&Authorized<Application>, &Object) -> Result<Change, Status>,
) -> Result<Arc<Object>, Status> {
    let missing = || failed(ApplicationError::NotFound(key.name.to_string()));
    let plan = |stored: Option<&Object>| -> Result<Planned, Status> {
        let object = stored.ok_or_else(missing)?;
        let proof = context.authorize(action, rules::read(object).map_err(failed)?)?;
        let change = plan(&proof, object)?;
        Ok(Planned::proven(change, &[&proof], &[action])?)
    };
    let (store, target) = (store(context, &key.namespace), (Guarded::Application, &*key.name));
    // The proof is there already.
    let written = store.settle_guarded(target, Caller::operator(), plan).await?;
    let object = written.ok_or_else(missing)?;
    context.parts.catalog.catch_up(key, &object.metadata().resource_version).await;
    Ok(object)
}

fn failed(error: ApplicationError) -> Status {
    tiphys_service::Error::from(error).into()
}

/// The answer with an application.
fn reply(object: &Object) -> Result<Reply, Status> {
    let shown = rules::shown(object).map_err(tiphys_service::Error::from)?;
    Ok(Reply::value(shown))
}

/// The same with the health of its resources (API-118).
async fn reply_in_full(context: &Context<'_>, key: &AppKey, object: &Object) -> Result<Reply, Status> {
    let mut shown = rules::shown(object).map_err(tiphys_service::Error::from)?;
    health::fill(context.parts.live.as_deref(), key, &mut shown).await;
    Ok(Reply::value(shown))
}

fn nothing() -> Reply {
    Reply::value(json!({}))
}
