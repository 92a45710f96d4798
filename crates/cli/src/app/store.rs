//! Storing a changed spec: one way for the commands that edit it (API-127).

use tiphys_api::Application;
use tiphys_api::application::ApplicationSpec;

use crate::app::create::put_spec;
use crate::core::{AppName, Core, Stored, World, value_of};
use crate::failure::Failure;

/// Stores what an edit makes of the spec as it is read now; `None` leaves it. Says whether anything was stored.
pub(super) async fn store_spec(
    core: &Core,
    name: &AppName,
    is_validated: bool,
    edit: impl Fn(&Application) -> Result<Option<ApplicationSpec>, Failure>,
) -> Result<bool, Failure> {
    if let Some(server) = core.server() {
        let Some(spec) = edit(&core.application(name).await?.app)? else { return Ok(false) };
        let spec = serde_json::to_value(&spec).map_err(|error| Failure::generic(error.to_string()))?;
        server.update_spec(name, &spec, is_validated).await?;
        return Ok(true);
    }
    let world = if is_validated { Some(World::load(core).await?) } else { None };
    let is_stored = std::cell::Cell::new(false);
    let change = |stored: &Stored| {
        let Some(spec) = edit(&stored.app)? else { return Ok(None) };
        let mut value = value_of(&stored.object)?;
        put_spec(&mut value, &spec)?;
        if let Some(world) = &world {
            world.check(&Application { spec, ..stored.app.clone() })?;
        }
        is_stored.set(true);
        Ok(Some(value))
    };
    core.change(name, change).await?;
    Ok(is_stored.get())
}
