//! `appset rollout` (CLI-606).

use tiphys_api::application::Metadata;
use tiphys_appset::live::LiveApplication;

use super::stages::Stages;
use super::{NAMESPACE, set_name};
use crate::app::{Ended, OK, Session};
use crate::core::{Core, StoredSet};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};

/// Flags of `rollout`.
pub(super) const FLAGS: &[Flag] = &[
    flag("watch", Kind::Bool, "false", "Show every change until the ApplicationSet is gone").or('w'),
    flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o'),
    NAMESPACE,
];

/// `appset rollout`.
pub(super) async fn rollout(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let name = set_name(session, session.operand(0), &core);
    let stored = core.application_set(&name).await?;
    let mut last = stages_of(&core, &stored).await?;
    show(session, &last)?;
    if !session.flags.is_on("watch") {
        return Ok(OK);
    }
    core.follow_set(&name, async |now| {
        let Some(now) = now else { return Ok(Some(OK)) };
        let stages = stages_of(&core, now).await?;
        if stages != last {
            show(session, &stages)?;
            last = stages;
        }
        Ok(None)
    })
    .await
}

async fn stages_of(core: &Core, stored: &StoredSet) -> Result<Stages, Failure> {
    let set = &stored.set;
    let mut live: Vec<Metadata> = Vec::new();
    for application in core.applications(&set.metadata.namespace, "").await? {
        let read = LiveApplication::read(&application.object.raw()).map_err(|error| {
            Failure::generic(format!("Application {} cannot be read: {error}", application.object.name()))
        })?;
        if read.is_of(set) {
            live.push(application.app.metadata);
        }
    }
    if let Some(bad) = core.left_out().into_iter().next() {
        return Err(Failure::generic(bad));
    }
    Ok(Stages::of(set, &live))
}

fn show(session: &Session<'_>, stages: &Stages) -> Result<(), Failure> {
    match session.flags.text("output") {
        "wide" | "" => session.terminal.print(&stages.print()),
        other => {
            let format = machine_format(other).ok_or_else(|| unknown_format(other))?;
            let value = serde_json::to_value(stages).map_err(|error| Failure::generic(error.to_string()))?;
            session.terminal.data(&print(&value, format)?);
        }
    }
    Ok(())
}
