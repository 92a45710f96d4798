//! Kubernetes Events about an object of the installation (API-144, API-164).

use serde_json::{Value, json};
use tiphys_cluster::{Discovery, events_about};
use tiphys_object::Object;
use tiphys_wire::status::Code;

use super::context::Context;
use crate::call::Status;

/// The Events about an object of the installation, an `EventList`.
///
/// # Errors
/// When the cluster does not say.
pub(super) async fn of(context: &Context<'_>, object: &Object) -> Result<Value, Status> {
    let home = &context.parts.home;
    let about = (object.namespace(), object.name(), object.metadata().uid.as_str());
    let listed = events_about(home, &Discovery::new(home.clone()), about).await;
    Ok(list(&listed.map_err(|reason| Status::new(Code::Unavailable, reason))?))
}

/// Events as an `EventList`.
pub(super) fn list(items: &[Value]) -> Value {
    json!({"metadata": {}, "items": items})
}
