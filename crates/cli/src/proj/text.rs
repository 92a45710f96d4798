//! `proj edit`: the spec of a project as a text in an editor (CLI-422, CLI-700).

use tiphys_api::AppProject;
use tiphys_api::project::AppProjectSpec;
use tiphys_go::yaml;

use super::work::Work;
use crate::editor::{CANCELLED, edited};
use crate::failure::Failure;
use crate::output::{Format, print};
use crate::session::{Ended, OK, Session};

/// What is above the text.
const INTRODUCTION: &str = "\
# Please edit the spec of the project below. Lines that begin with '#' are ignored,
# and an empty file cancels the edit. If an error occurs while saving, this file is
# opened again with the error.
#
";

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let name = session.operand(0);
    let stored = work.project(name).await?;
    let value = serde_json::to_value(&stored.spec).map_err(|error| Failure::generic(error.to_string()))?;
    let mut before = print(&value, Format::Yaml)?;
    let mut error = String::new();
    loop {
        let after = edited(session.terminal, INTRODUCTION, &before, &error).await?;
        if after.trim().is_empty() || after == before {
            return Err(Failure::generic(CANCELLED));
        }
        match save(&work, name, &stored, &after).await {
            Ok(()) => return Ok(OK),
            Err(Refused::Text(failure)) => error = failure.message,
            Err(Refused::Changed) => {
                return Err(Failure::status(
                    "Aborted",
                    format!("project {name} was changed by somebody else meanwhile; nothing was saved"),
                )
                .hint("edit it again"));
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

async fn save(work: &Work, name: &str, read: &AppProject, text: &str) -> Result<(), Refused> {
    let spec = spec_of(text).map_err(Refused::Text)?;
    let is_changed = std::cell::Cell::new(false);
    let edit = |project: &mut AppProject| {
        if project.spec != read.spec {
            is_changed.set(true);
            return Err(Failure::generic(CANCELLED));
        }
        project.spec = spec.clone();
        Ok(true)
    };
    let saved = work.edit_project(name, edit).await;
    saved.map_err(|failure| if is_changed.get() { Refused::Changed } else { Refused::Text(failure) })
}

fn spec_of(text: &str) -> Result<AppProjectSpec, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::generic(error.to_string());
    let value = yaml::parse(text, yaml::Dialect::Sigs, &yaml::Limits::default()).map_err(|e| failed(&e))?;
    serde_json::from_value(value.unwrap_or_default()).map_err(|error| failed(&error))
}
