//! `app edit`: the spec of an application as a text in an editor (CLI-422).

use tiphys_api::Application;
use tiphys_api::application::ApplicationSpec;
use tiphys_go::yaml;

use crate::app::store::store_spec;
use crate::app::{Ended, NAMESPACE, OK, Session};
use crate::core::{AppName, Core};
use crate::editor::{CANCELLED, edited};
use crate::failure::Failure;
use crate::flags::Flag;
use crate::output::{Format, print};

/// Flags of `edit`.
pub(super) const FLAGS: &[Flag] = &[NAMESPACE];

/// What is above the text.
const INTRODUCTION: &str = "\
# Please edit the spec of the application below. Lines that begin with '#' are ignored,
# and an empty file cancels the edit. If an error occurs while saving, this file is
# opened again with the error.
#
";

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let read = core.application(&name).await?.app.spec;
    let value = serde_json::to_value(&read).map_err(|error| Failure::generic(error.to_string()))?;
    let mut before = print(&value, Format::Yaml)?;
    let mut error = String::new();
    loop {
        let after = edited(session.terminal, INTRODUCTION, &before, &error).await?;
        if after.trim().is_empty() || after == before {
            return Err(Failure::generic(CANCELLED));
        }
        match save(&core, &name, &read, &after).await {
            Ok(()) => return Ok(OK),
            Err(Refused::Text(failure)) => error = failure.message,
            Err(Refused::Changed) => {
                let text =
                    format!("application {name} was changed by somebody else meanwhile; nothing was saved");
                return Err(Failure::status("Aborted", text).hint("edit it again"));
            }
        }
        before = after;
    }
}

/// Why a text was not saved.
enum Refused {
    /// It is not valid, or not accepted.
    Text(Failure),
    /// Somebody else's change would be undone.
    Changed,
}

async fn save(core: &Core, name: &AppName, read: &ApplicationSpec, text: &str) -> Result<(), Refused> {
    let spec = spec_of(text).map_err(Refused::Text)?;
    let is_changed = std::cell::Cell::new(false);
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

fn spec_of(text: &str) -> Result<ApplicationSpec, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::generic(error.to_string());
    let value = yaml::parse(text, yaml::Dialect::Sigs, &yaml::Limits::default()).map_err(|e| failed(&e))?;
    serde_json::from_value(value.unwrap_or_default()).map_err(|error| failed(&error))
}
