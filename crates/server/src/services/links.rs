//! Links of applications, resources and projects (API-186..189).

use serde_json::{Map, Value, json};
use tiphys_api::Application;
use tiphys_api::cluster::Cluster;
use tiphys_object::access;
use tiphys_service::links;

use super::context::Context;
use crate::call::Status;

/// Who serves an application of another instance (API-187).
const MANAGED_BY: &str = "argocd.argoproj.io/managed-by-url";

/// The answer: the links of a setting, with what they may know by name.
pub(super) fn of(context: &Context<'_>, setting: &str, known: &Value) -> Result<Value, Status> {
    let text = context.world.setting(setting);
    let found = links::links(text, known, context.parts.clock.now())
        .map_err(|error| Status::invalid(format!("{setting} of argocd-cm cannot be read: {error}")))?;
    for hidden in found.hidden {
        tracing::warn!(setting, hidden, "a link is not shown");
    }
    let items: Vec<Value> = found
        .shown
        .into_iter()
        .map(|link| {
            let mut shown = Map::new();
            shown.insert("title".to_owned(), link.title.into());
            shown.insert("url".to_owned(), link.url.into());
            let optional = [("description", link.description), ("iconClass", link.icon_class)];
            shown.extend(optional.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into()))));
            Value::Object(shown)
        })
        .collect();
    Ok(json!({"items": items}))
}

/// What links of an application know: itself, where it goes, and who serves it.
///
/// # Errors
/// When its project forbids the destination.
pub(super) fn of_application(
    context: &Context<'_>,
    app: &Application,
    mut shown: Value,
) -> Result<Map<String, Value>, Status> {
    if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let managed_by = app.metadata.annotations.get(MANAGED_BY).filter(|url| is_address(url));
    let managed_by = managed_by.map_or_else(|| context.world.setting("url"), |url| url.as_str());
    let mut known = Map::new();
    known.insert("managedByURL".to_owned(), managed_by.into());
    known.insert("app".to_owned(), shown.clone());
    known.insert("application".to_owned(), shown);
    if let Some(cluster) = destination(context, app)? {
        known.insert("cluster".to_owned(), cluster);
    }
    Ok(known)
}

/// What links of a project know.
pub(super) fn of_project(mut project: Value) -> Value {
    if let Some(members) = project.as_object_mut() {
        members.remove("status");
        access::metadata_mut(&mut project).remove("managedFields");
    }
    json!({"project": project})
}

/// The cluster of an application, without what opens it; none where it cannot be told.
fn destination(context: &Context<'_>, app: &Application) -> Result<Option<Value>, Status> {
    let installation = &context.world.installation;
    let Ok(cluster) = installation.cluster_of(app) else { return Ok(None) };
    let Ok(project) = installation.project(app.project()) else { return Ok(None) };
    let decision = installation.permits(project, cluster, &app.spec.destination.namespace);
    if !decision.permitted {
        return Err(Status::invalid(decision.message.unwrap_or_default()));
    }
    Ok(Some(shown(cluster)))
}

/// What tells nothing of how it is reached.
fn shown(cluster: &Cluster) -> Value {
    json!({"server": cluster.server, "name": cluster.name, "namespaces": cluster.namespaces,
        "shard": cluster.shard, "project": cluster.project, "labels": cluster.labels,
        "annotations": cluster.annotations})
}

fn is_address(url: &str) -> bool {
    url.parse::<http::Uri>()
        .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
}
