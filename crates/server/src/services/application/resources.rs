//! What belongs to an application: its tree, its pairs, its manifests (API-136..146).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_object::ResourceKey;
use tiphys_wire::status::Code;

use super::access;
use super::requests::Named;
use crate::call::{Reply, Status};
use crate::live::Live;
use crate::services::context::Context;
use crate::services::{events, links, request};

/// `ResourcesQuery`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Resources {
    application_name: String,
    namespace: String,
    name: String,
    group: String,
    kind: String,
    app_namespace: String,
    project: String,
}

/// `ApplicationResourceRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields of the message")]
pub(super) struct Resource {
    namespace: String,
    resource_name: String,
    version: String,
    group: String,
    kind: String,
    #[serde(flatten)]
    named: Named,
}

/// `ApplicationManifestQuery`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Manifests {
    revision: String,
    source_positions: Vec<i64>,
    revisions: Vec<String>,
    no_cache: bool,
    #[serde(flatten)]
    named: Named,
}

/// `ApplicationResourceEventsQuery`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Events {
    resource_namespace: String,
    resource_name: String,
    #[serde(rename = "resourceUID")]
    resource_uid: String,
    #[serde(flatten)]
    named: Named,
}

/// What knows destinations.
pub(super) fn live<'c>(context: &'c Context<'_>) -> Result<&'c Arc<dyn Live>, Status> {
    let text = "this process has no controller, which knows sources and clusters";
    context.parts.live.as_ref().ok_or_else(|| Status::new(Code::Unavailable, text))
}

impl Resources {
    pub(super) fn named(&self) -> Named {
        Named {
            name: self.application_name.clone(),
            app_namespace: self.app_namespace.clone(),
            project: self.project.clone(),
        }
    }
}

pub(super) async fn tree(context: &Context<'_>, asked: Resources) -> Result<Reply, Status> {
    let found = access::cached(context, "get", &asked.named())?;
    Ok(Reply::value(live(context)?.tree(&found.key).await?))
}

pub(super) async fn managed(context: &Context<'_>, asked: Resources) -> Result<Reply, Status> {
    let found = access::cached(context, "get", &asked.named())?;
    let mut items = live(context)?.managed(&found.key).await?;
    let wanted = [
        ("namespace", &asked.namespace),
        ("name", &asked.name),
        ("group", &asked.group),
        ("kind", &asked.kind),
    ];
    items.retain(|item| {
        wanted.iter().all(|(key, text)| {
            text.is_empty() || item.get(*key).and_then(Value::as_str) == Some(text.as_str())
        })
    });
    Ok(Reply::value(json!({"items": items})))
}

pub(super) async fn resource(context: &Context<'_>, asked: Resource) -> Result<Reply, Status> {
    let found = access::cached(context, "get", &asked.named)?;
    let key = ResourceKey::new(&asked.group, &asked.kind, &asked.namespace, &asked.resource_name);
    let object = live(context)?.resource(&found.key, &key).await?;
    let served = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let version = served.rsplit('/').next().unwrap_or_default();
    if !asked.version.is_empty() && asked.version != version {
        let text = format!("the object is read in version {version}; `version` {} is not", asked.version);
        return Err(Status::new(Code::Unimplemented, text));
    }
    Ok(Reply::value(json!({"manifest": object.to_string()})))
}

/// Links of an application (API-187).
pub(super) fn links(context: &Context<'_>, asked: &Named) -> Result<Reply, Status> {
    let found = access::cached(context, "get", asked)?;
    let known = links::of_application(context, found.proof.get(), found.from.value()?)?;
    Ok(Reply::value(links::of(context, "application.links", &known.into())?))
}

/// Links of one of its resources: they know the object, the data of Secrets masked, and the project beside it.
pub(super) async fn resource_links(context: &Context<'_>, asked: Resource) -> Result<Reply, Status> {
    let found = access::cached(context, "get", &asked.named)?;
    let key = ResourceKey::new(&asked.group, &asked.kind, &asked.namespace, &asked.resource_name);
    let object = live(context)?.resource(&found.key, &key).await?;
    let app = found.proof.get();
    let mut known = links::of_application(context, app, found.from.value()?)?;
    known.insert("resource".to_owned(), object);
    if let Ok(project) = context.world.installation.project(app.project()) {
        let project = serde_json::to_value(project).map_err(|error| Status::internal(error.to_string()))?;
        known.extend(links::of_project(project).as_object().cloned().unwrap_or_default());
    }
    Ok(Reply::value(links::of(context, "resource.links", &known.into())?))
}

pub(super) async fn manifests(context: &Context<'_>, asked: Manifests) -> Result<Reply, Status> {
    let found = access::cached(context, "get", &asked.named)?;
    if asked.no_cache {
        return Err(request::unused("noCache"));
    }
    let revisions = revisions(found.proof.get(), &asked)?;
    let manifests = live(context)?.manifests(&found.key, &revisions).await?;
    let texts: Vec<String> = manifests.iter().map(Value::to_string).collect();
    Ok(Reply::value(json!({"manifests": texts})))
}

/// The revisions that are asked for, by the position of their source.
fn revisions(app: &Application, asked: &Manifests) -> Result<Vec<(usize, String)>, Status> {
    if !app.is_multi_source() {
        if !asked.revisions.is_empty() || !asked.source_positions.is_empty() {
            return Err(Status::invalid(
                "`revisions` and `sourcePositions` are for several sources; use `revision`",
            ));
        }
        let revision = Some(asked.revision.clone()).filter(|revision| !revision.is_empty());
        return Ok(revision.map(|revision| (0, revision)).into_iter().collect());
    }
    if !asked.revision.is_empty() {
        return Err(Status::invalid("`revision` is for one source; use `revisions` and `sourcePositions`"));
    }
    if asked.source_positions.len() != asked.revisions.len() {
        return Err(Status::invalid("source positions and revisions have to be as many"));
    }
    let position = |position: i64| {
        let at = usize::try_from(position).ok().and_then(|position| position.checked_sub(1));
        at.filter(|at| *at < app.sources().len())
            .ok_or_else(|| Status::invalid("source position is out of range"))
    };
    asked
        .source_positions
        .iter()
        .zip(&asked.revisions)
        .map(|(at, text)| Ok((position(*at)?, text.clone())))
        .collect()
}

/// Events of the Application itself, or of one of its resources (API-144).
pub(super) async fn list_events(context: &Context<'_>, asked: Events) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &asked.named).await?;
    if asked.resource_name.is_empty() && asked.resource_uid.is_empty() {
        return Ok(Reply::value(events::of(context, &found.from).await?));
    }
    let about =
        (asked.resource_namespace.as_str(), asked.resource_name.as_str(), asked.resource_uid.as_str());
    Ok(Reply::value(events::list(&live(context)?.events(&found.key, about).await?)))
}
