//! Kubernetes Events about one object (API-144, API-164).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiphys_object::Gvk;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::kinds::Discovery;
use crate::objects::{ObjectEvent, ObjectQuery, next_of_first_list, watch_objects};

/// Events of one object that are shown.
const EVENTS_MAX: usize = 1_000;
/// Time that the list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The Events about an object, without `apiVersion` and `kind`. Those about a namesake with another uid are left out.
///
/// # Errors
/// When the cluster does not say.
pub async fn events_about(
    connection: &Connection,
    discovery: &Discovery,
    (namespace, name, uid): (&str, &str, &str),
) -> Result<Vec<Value>, String> {
    let listing = async {
        let kinds = discovery.kinds().await.map_err(|error| error.to_string())?;
        let resource = kinds.resource(&Gvk::new("", "v1", "Event")).map(Arc::clone);
        let resource = resource.ok_or("the cluster has no events")?;
        let query = ObjectQuery {
            resource,
            namespace: namespace.into(),
            label_selector: String::new(),
            field_selector: format!("involvedObject.name={name}"),
        };
        let (sender, mut events) = mpsc::channel(EVENTS_MAX);
        let cancel = CancellationToken::new();
        let _guard = cancel.clone().drop_guard();
        tokio::spawn(watch_objects(connection.clone(), query, sender, Arc::new(|| 0.5), cancel));
        let mut found = Vec::new();
        while let Some(event) = next_of_first_list(&mut events).await? {
            let ObjectEvent::Upsert(received) = event else { continue };
            // One that cannot be read hides no other, and is not hidden itself.
            let read = received.read().map_err(|bad| bad.to_string());
            let mut value = match read.and_then(|event| event.to_value().map_err(|error| error.to_string())) {
                Ok(value) => value,
                Err(reason) => {
                    tracing::warn!(reason, "an event is left out");
                    continue;
                }
            };
            let is_meant = value.pointer("/involvedObject/uid").and_then(Value::as_str) == Some(uid);
            if is_meant && found.len() < EVENTS_MAX {
                if let Some(members) = value.as_object_mut() {
                    members.remove("apiVersion");
                    members.remove("kind");
                }
                found.push(value);
            }
        }
        Ok(found)
    };
    let listed = tokio::time::timeout(LIST_TIMEOUT, listing).await;
    listed.map_err(|_elapsed| "the events were not listed in time".to_owned())?
}
