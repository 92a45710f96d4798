//! `appset get` and `appset list` (CLI-601, CLI-604).

use serde_json::Value;
use tiphys_policy::project::namespace_enabled;

use super::{NAMESPACE, OUTPUT, set_name, view};
use crate::app::{Ended, OK, Session};
use crate::core::{Core, StoredSet, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};

/// Flags of `get`.
pub(super) const GET_FLAGS: &[Flag] =
    &[OUTPUT, flag("show-params", Kind::Bool, "false", "Show Helm parameters"), NAMESPACE];

/// Flags of `list`.
pub(super) const LIST_FLAGS: &[Flag] = &[
    flag("output", Kind::Text, "wide", "Output format: wide, name, json or yaml").or('o'),
    flag("selector", Kind::Text, "", "Label selector").or('l'),
    flag("project", Kind::Texts, "", "Project").or('p'),
    NAMESPACE,
];

/// `appset get`.
pub(super) async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let stored = core.application_set(&set_name(session, session.operand(0), &core)).await?;
    show(session, &stored, flags.is_on("show-params"))?;
    Ok(OK)
}

/// Prints a set as `-o` wants it.
pub(super) fn show(session: &Session<'_>, stored: &StoredSet, shows_parameters: bool) -> Result<(), Failure> {
    let terminal = session.terminal;
    match session.flags.text("output") {
        "wide" | "" => terminal.print(&view::summary(&stored.set, shows_parameters, terminal)?),
        other => match machine_format(other) {
            Some(format) => terminal.data(&print(&stored.value()?, format)?),
            None => return Err(unknown_format(other)),
        },
    }
    Ok(())
}

/// `appset list`.
pub(super) async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let mut stored = visible(session, &core).await?;
    stored.retain(|stored| view::is_of_projects(&stored.set, flags.texts("project")));
    let sets = || stored.iter().map(|stored| stored.set.clone()).collect::<Vec<_>>();
    match flags.text("output") {
        "wide" => session.terminal.print(&view::table(&sets(), true)?),
        "" => session.terminal.print(&view::table(&sets(), false)?),
        "name" => {
            for one in &stored {
                session.terminal.line(&tiphys_api::printable::line(&view::name_of(&one.set)));
            }
        }
        other => {
            let format = machine_format(other).ok_or_else(|| unknown_format(other))?;
            let values = stored.iter().map(StoredSet::value).collect::<Result<Vec<_>, _>>()?;
            session.terminal.data(&print(&Value::Array(values), format)?);
        }
    }
    Ok(OK)
}

/// The sets that a list without a namespace shows: those of all namespaces that are enabled.
async fn visible(session: &Session<'_>, core: &Core) -> Result<Vec<StoredSet>, Failure> {
    let (given, selector) = (session.flags.text("appset-namespace"), session.flags.text("selector"));
    // A server shows those of enabled namespaces anyway.
    if !given.is_empty() || core.server().is_some() {
        return core.application_sets(given, selector).await;
    }
    let settings = World::settings(core).await?;
    if settings.application_namespaces().is_empty() {
        return core.application_sets(&core.namespace, selector).await;
    }
    let mut all = core.application_sets("", selector).await?;
    all.retain(|stored| namespace_enabled(&settings, stored.object.namespace(), &core.namespace));
    Ok(all)
}
