//! Health of single resources where the status of an application does not hold it (API-118).

use std::collections::HashMap;

use serde_json::{Value, json};
use tiphys_object::{ResourceKey, access};

use crate::catalog::AppKey;
use crate::live::Live;

/// Fills it in, from what the controller found at the last comparison. What nobody knows stays blank.
pub(super) async fn fill(live: Option<&dyn Live>, key: &AppKey, application: &mut Value) {
    let source = access::text_at(application, &["status", "resourceHealthSource"]);
    let (Some(live), false) = (live, source.is_empty()) else { return };
    let known: HashMap<ResourceKey, _> = live.health(key).await.into_iter().collect();
    let resources = application.pointer_mut("/status/resources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        let text = |name: &str| access::text(resource, name);
        let key = ResourceKey::new(text("group"), text("kind"), text("namespace"), text("name"));
        if let (Some(health), Some(members)) = (known.get(&key), resource.as_object_mut()) {
            members.insert("health".to_owned(), json!(health));
        }
    }
}
