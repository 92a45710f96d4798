//! `appset delete` (CLI-605).

use super::{NAMESPACE, set_name};
use crate::app::{Ended, OK, Session};
use crate::core::{AppName, Core};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::terminal::Answer;

/// Flags of `delete`.
pub(super) const FLAGS: &[Flag] = &[
    flag("yes", Kind::Bool, "false", "Do not ask").or('y'),
    flag("wait", Kind::Bool, "false", "Wait until the ApplicationSets are gone"),
    NAMESPACE,
];

/// `appset delete`.
pub(super) async fn delete(session: &Session<'_>) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let core = session.connect().await?;
    let asks = terminal.stdout_is_tty && !flags.is_on("yes");
    for text in &flags.operands {
        let question = format!("Are you sure you want to delete '{text}' and all its Applications? [y/n] ");
        if asks && terminal.ask(&question, false).await != Some(Answer::Yes) {
            terminal.line(&format!("The command to delete '{text}' was cancelled."));
            continue;
        }
        delete_one(&core, &set_name(session, text, &core), flags.is_on("wait")).await?;
        terminal.line(&format!("applicationset '{text}' deleted"));
    }
    Ok(OK)
}

async fn delete_one(core: &Core, name: &AppName, waits: bool) -> Result<(), Failure> {
    let uid = core.delete_set(name).await?;
    if !waits {
        return Ok(());
    }
    core.follow_set(name, async |now| {
        // A namesake made meanwhile is another set.
        Ok(now.is_none_or(|now| now.set.metadata.uid != uid).then_some(()))
    })
    .await
}
