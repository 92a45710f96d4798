//! Kubernetes Events about an object (API-144, API-164).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tiphys_cluster::{Discovery, ObjectEvent, ObjectQuery, next_of_first_list, watch_objects};
use tiphys_object::{Gvk, Object};
use tiphys_wire::status::Code;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use crate::call::Status;

/// Events of one object that are shown.
const EVENTS_MAX: usize = 1_000;
/// Time that the list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The Events about an object of the installation, an `EventList`.
///
/// # Errors
/// When the cluster does not say.
pub(super) async fn of(context: &Context<'_>, object: &Object) -> Result<Value, Status> {
    let unavailable = |reason: String| Status::new(Code::Unavailable, reason);
    let listed = tokio::time::timeout(LIST_TIMEOUT, list(context, object)).await;
    let mut items =
        listed.map_err(|_elapsed| unavailable("the events were not listed in time".to_owned()))??;
    for item in &mut items {
        if let Some(members) = item.as_object_mut() {
            members.remove("apiVersion");
            members.remove("kind");
        }
    }
    Ok(json!({"metadata": {}, "items": items}))
}

async fn list(context: &Context<'_>, object: &Object) -> Result<Vec<Value>, Status> {
    let home = &context.parts.home;
    let kinds = Discovery::new(home.clone()).kinds().await.map_err(tiphys_service::Error::from)?;
    let resource = kinds.resource(&Gvk::new("", "v1", "Event")).map(Arc::clone);
    let resource = resource.ok_or_else(|| Status::new(Code::Unavailable, "the cluster has no events"))?;
    let query = ObjectQuery {
        resource,
        namespace: object.namespace().into(),
        label_selector: String::new(),
        field_selector: format!("involvedObject.name={}", object.name()),
    };
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let cancel = CancellationToken::new();
    let _guard = cancel.clone().drop_guard();
    tokio::spawn(watch_objects(home.clone(), query, sender, Arc::new(|| 0.5), cancel));
    let mut found = Vec::new();
    let unavailable = |reason| Status::new(Code::Unavailable, reason);
    while let Some(event) = next_of_first_list(&mut events).await.map_err(unavailable)? {
        let ObjectEvent::Upsert(received) = event else { continue };
        let Ok(event) = received.read() else { continue };
        let value = event.to_value().unwrap_or_default();
        // Of two objects of one name only this one is meant.
        let is_meant = value.pointer("/involvedObject/uid").and_then(Value::as_str)
            == Some(object.metadata().uid.as_str());
        if is_meant && found.len() < EVENTS_MAX {
            found.push(value);
        }
    }
    Ok(found)
}
