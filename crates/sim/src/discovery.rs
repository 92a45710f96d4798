//! Discovery: what is served, as clients ask for it.

use serde_json::Value;

use crate::resource::Registry;

/// `GET /api`.
pub(crate) fn core_versions(server: &str) -> Value {
    let _ = server;
    Value::Null
}

/// `GET /apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let _ = registry;
    Value::Null
}

/// `GET /apis/{group}`; `None` when there is no such group.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let _ = (registry, group);
    None
}

/// `GET /api/v1`, `GET /apis/{group}/{version}`; `None` when there is no such version.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let _ = (registry, group, version);
    None
}

/// `GET /api` (`core`) and `GET /apis` with an `Accept` of `g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let _ = (registry, core);
    Value::Null
}

/// `GET /version`.
pub(crate) fn version() -> Value {
    Value::Null
}
