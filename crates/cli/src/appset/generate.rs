//! `appset generate` (CLI-603, CLI-607, ASET-302, ASET-304, ASET-305).

use std::sync::Arc;

use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_appset::validate::Validation;
use tiphys_object::access;

use super::{NAMESPACE, OUTPUT, create, input, offline};
use crate::app::list::{self, Columns};
use crate::app::{Ended, OK, Session};
use crate::core::{ToldSet, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::remote;

/// Flags of `generate`.
pub(super) const FLAGS: &[Flag] = &[
    OUTPUT,
    flag("output-parameters", Kind::Bool, "false", "Show the sets of parameters instead, one document each"),
    NAMESPACE,
];

/// `appset generate`.
pub(super) async fn generate(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let mut documents = input::sets_of(&remote::read(session.operand(0)).await?)?;
    let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
        session.terminal.line("Input file must contain one ApplicationSet");
        return Ok(Ended::Code(1));
    };
    let mut desired = input::whole(document);
    offline::check_flags(flags)?;
    if flags.is_on("offline") {
        return offline::generate_offline(session, desired).await;
    }
    let core = session.connect().await?;
    let given = flags.text("appset-namespace");
    input::put_namespace(&mut desired, if given.is_empty() { &core.namespace } else { given });
    let set = input::read(&desired)?;
    if let Some(server) = core.server() {
        if flags.is_on("output-parameters") {
            for parameters in server.set_parameters(&desired).await? {
                session.terminal.data(&format!("{parameters}\n"));
            }
            return Ok(OK);
        }
        let told = server.generate_set(&desired, Value::Null).await?;
        warn_told(session, &told);
        show(session, &told.applications)?;
        return Ok(OK);
    }
    let world = Arc::new(World::load(&core).await?);
    create::check(&set, &world)?;
    let generator = core.generator(&world, session.terminal)?;
    if flags.is_on("output-parameters") {
        for parameters in generator.parameters(&set).await? {
            session.terminal.data(&format!("{parameters}\n"));
        }
        return Ok(OK);
    }
    let outcome = generator.generate(&set).await?;
    warn(session, &outcome.warnings, Some(&outcome.validation));
    show(session, &outcome.applications)?;
    Ok(OK)
}

/// Prints generated Applications.
pub(super) fn show(session: &Session<'_>, applications: &[Application]) -> Result<(), Failure> {
    match session.flags.text("output") {
        "wide" | "" => session.terminal.print(&list::table(applications, Columns::Wide)),
        other => {
            let format = machine_format(other).ok_or_else(|| unknown_format(other))?;
            let mut values = applications.iter().map(shown).collect::<Result<Vec<_>, _>>()?;
            let value = match values.pop() {
                Some(only) if values.is_empty() => only,
                last => {
                    values.extend(last);
                    Value::Array(values)
                }
            };
            session.terminal.data(&print(&value, format)?);
        }
    }
    Ok(())
}

/// A generated Application as a file would hold it (CLI-603).
fn shown(application: &Application) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(application).map_err(|error| Failure::generic(error.to_string()))?;
    let members = access::ensure_object(&mut value);
    members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
    members.insert("kind".to_owned(), "Application".into());
    members.remove("status");
    let metadata = access::metadata_mut(&mut value);
    metadata.remove("creationTimestamp");
    metadata.remove("namespace");
    Ok(value)
}

/// Says what is odd, and per Application why it would not be written (CLI-607).
pub(super) fn warn(session: &Session<'_>, warnings: &[String], validation: Option<&Validation>) {
    for warning in warnings {
        session.warn(warning);
    }
    for (name, error) in validation.iter().flat_map(|validation| &validation.errors) {
        session.warn(&format!("application '{name}': {error}"));
    }
}

/// The same, as a server told it.
pub(super) fn warn_told(session: &Session<'_>, told: &ToldSet) {
    warn(session, &told.warnings, None);
    match &told.refusals {
        Some(refusals) => {
            for (name, error) in refusals {
                session.warn(&format!("application '{name}': {error}"));
            }
        }
        None => session.warn("this server does not tell which Applications their project forbids"),
    }
}
