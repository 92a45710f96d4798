//! `app edit`: the spec of an application as a text in an editor (CLI-422).

use std::cell::Cell;

use tiphys_api::Application;
use tiphys_api::application::ApplicationSpec;

use crate::app::store::store_spec;
use crate::app::{Ended, NAMESPACE, OK, Session};
use crate::core::{AppName, Core};
use crate::editor::{CANCELLED, Refused, edit_spec};
use crate::failure::Failure;
use crate::flags::Flag;

/// Flags of `edit`.
pub(super) const FLAGS: &[Flag] = &[NAMESPACE];

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let read = core.application(&name).await?.app.spec;
    let save = async |spec| save(&core, &name, &read, spec).await;
    edit_spec(session.terminal, ("application", &name.to_string()), &read, save).await?;
    Ok(OK)
}

async fn save(
    core: &Core,
    name: &AppName,
    read: &ApplicationSpec,
    spec: ApplicationSpec,
) -> Result<(), Refused> {
    let is_changed = Cell::new(false);
    let edit = |app: &Application| {
        if app.spec != *read {
            is_changed.set(true);
            return Err(Failure::generic(CANCELLED));
        }
        Ok(Some(spec.clone()))
    };
    let saved = store_spec(core, name, true, edit).await;
    let refused = |failure| if is_changed.get() { Refused::Changed } else { Refused::Text(failure) };
    saved.map(drop).map_err(refused)
}
