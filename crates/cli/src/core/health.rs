//! Health of single resources where the status does not store it (CTL-9, `resourceHealthSource`).

use std::sync::Arc;

use futures::StreamExt as _;
use tiphys_api::Application;
use tiphys_api::application::HealthStatus;
use tiphys_api::codes::HealthCode;
use tiphys_engine::health::{HealthOverrides, assess_with};
use tiphys_engine::seen::Seen;
use tiphys_object::{Object, ResourceKey};

use crate::core::{Core, Destination, World};
use crate::scripts;

/// Objects read at a time.
const READS_MAX: usize = 16;

impl Destination {
    /// Looks at objects, each named by key and version of its kind, and says of each what is seen.
    pub(crate) async fn look_at_all(
        &self,
        objects: impl IntoIterator<Item = (ResourceKey, String)>,
    ) -> Vec<Seen<Arc<Object>>> {
        let looks =
            objects.into_iter().map(|(key, version)| async move { self.look(&key, &version, &[]).await });
        futures::stream::iter(looks).buffered(READS_MAX).collect().await
    }
}

impl Core {
    /// Fills in the health of resources that the status leaves to the resource tree, from the live objects.
    /// Health that cannot be found out stays blank.
    pub(crate) async fn fill_health(&self, app: &mut Application, world: &World) {
        // A server fills it in itself (API-118).
        if app.status.resource_health_source.is_empty() || self.server().is_some() {
            return;
        }
        let Ok(destination) = Destination::of(app, self, world).await else { return };
        let Ok(overrides) = HealthOverrides::from_settings(world.settings.cm()) else { return };
        let scripts = scripts::runner(&app.metadata.name, &world.settings);
        let resources = app.status.resources.iter().map(|resource| {
            let key = ResourceKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name);
            (key, resource.version.clone())
        });
        let seen = destination.look_at_all(resources).await;
        for (resource, seen) in app.status.resources.iter_mut().zip(seen) {
            let status = match seen {
                Seen::Present(object) => match object.to_value() {
                    Ok(value) => assess_with(&value, &overrides, &scripts).map(|health| health.status),
                    Err(_) => Some(HealthCode::Unknown),
                },
                Seen::Absent if !resource.hook => Some(HealthCode::Missing),
                Seen::Absent | Seen::Unknown(_) => None,
            };
            resource.health =
                status.map(|status| HealthStatus { status: status.into(), ..HealthStatus::default() });
        }
    }
}
