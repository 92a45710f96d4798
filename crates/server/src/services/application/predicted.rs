//! What the API server of the destination would make of manifests (API-145).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_object::{Gvk, ResourceKey, access as members};

use super::access;
use super::requests::Named;
use super::resources::live;
use crate::call::{Reply, Status};
use crate::live::Pair;
use crate::services::context::Context;

/// Pairs of one call; each costs the destination a request or two.
const PAIRS_MAX: usize = 1_000;

/// `ApplicationServerSideDiffQuery`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Query {
    app_name: String,
    app_namespace: String,
    project: String,
    live_resources: Vec<Item>,
    target_manifests: Vec<String>,
}

/// `ResourceDiff`, as far as it names a resource.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Item {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    live_state: String,
}

pub(super) async fn server_side_diff(context: &Context<'_>, asked: Query) -> Result<Reply, Status> {
    let named = Named { name: asked.app_name, app_namespace: asked.app_namespace, project: asked.project };
    let found = access::fresh(context, "get", &named).await?;
    let pairs = pairs(&asked.live_resources, &asked.target_manifests)?;
    let items = live(context)?.server_side_diff(&found.key, &pairs).await?;
    let is_modified = |item: &Value| item.get("modified").and_then(Value::as_bool).unwrap_or(false);
    let modified = items.iter().any(is_modified);
    Ok(Reply::value(json!({"items": items, "modified": modified})))
}

/// The pairs. What is named beside a state, in the live state and in the manifest has to be one thing: nobody is told of
/// another object than the one that is asked about.
fn pairs(items: &[Item], targets: &[String]) -> Result<Vec<Pair>, Status> {
    if items.len() != targets.len() {
        let text = format!(
            "`liveResources` and `targetManifests` are pairs; there are {} and {}",
            items.len(),
            targets.len()
        );
        return Err(Status::invalid(text));
    }
    if items.len() > PAIRS_MAX {
        return Err(Status::invalid(format!("more than {PAIRS_MAX} resources; ask in several calls")));
    }
    items.iter().zip(targets).map(|(item, target)| pair(item, target)).collect()
}

fn pair(item: &Item, target: &str) -> Result<Pair, Status> {
    let key = ResourceKey::new(&item.group, &item.kind, &item.namespace, &item.name);
    let live = read(&key, "live state", &item.live_state)?;
    let mut target = read(&key, "target manifest", target)?;
    if let Some(live) = &live {
        check(&key, live, members::namespace(live))?;
    }
    if let Some(target) = &mut target {
        // A manifest may leave its namespace to the application.
        let namespace = members::namespace(target).to_owned();
        let namespace = if namespace.is_empty() { item.namespace.clone() } else { namespace };
        check(&key, target, &namespace)?;
        if !namespace.is_empty() {
            members::metadata_mut(target).insert("namespace".to_owned(), namespace.into());
        }
    }
    Ok(Pair { key, live, target })
}

/// An object; none where there is no text, or `null`.
fn read(key: &ResourceKey, what: &str, text: &str) -> Result<Option<Value>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    // The text is not repeated: it may be a Secret.
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Status::invalid(format!("the {what} of {key} is no JSON (line {line}, column {column})"))
    })?;
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(value)),
        _ => Err(Status::invalid(format!("the {what} of {key} is no object"))),
    }
}

fn check(key: &ResourceKey, object: &Value, namespace: &str) -> Result<(), Status> {
    let gvk = Gvk::of(object);
    let fields = [
        ("name", key.name.as_str(), members::name(object)),
        ("namespace", key.namespace.as_str(), namespace),
        ("group", key.group.as_str(), gvk.group.as_str()),
        ("kind", key.kind.as_str(), gvk.kind.as_str()),
    ];
    match fields.iter().find(|(_, asked, found)| asked != found) {
        None => Ok(()),
        Some((field, asked, found)) => {
            let found = tiphys_api::printable::line(found);
            Err(Status::invalid(format!(
                "{field} mismatch: {key} is asked for as {asked:?} and is {found:?}"
            )))
        }
    }
}
