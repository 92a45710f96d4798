//! `proj edit`: the spec of a project as a text in an editor (CLI-422, CLI-700).

use std::cell::Cell;

use tiphys_api::AppProject;
use tiphys_api::project::AppProjectSpec;

use super::work::Work;
use crate::editor::{CANCELLED, Refused, edit_spec};
use crate::failure::Failure;
use crate::session::{Ended, OK, Session};

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let name = session.operand(0);
    let stored = work.project(name).await?;
    let save = async |spec| save(&work, name, &stored, spec).await;
    edit_spec(session.terminal, ("project", name), &stored.spec, save).await?;
    Ok(OK)
}

async fn save(work: &Work, name: &str, read: &AppProject, spec: AppProjectSpec) -> Result<(), Refused> {
    let is_changed = Cell::new(false);
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
