//! `gpg`: keys of those who sign commits (CLI-835).
//!
//! A key is printed from what the API shows of it, whoever says so.

mod remote;

use tiphys_object::access::text;
use tiphys_service::Caller;
use tiphys_service::gpg_key::{Added, GpgKeys, shown};

use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::{Terminal, read_input};

const OUTPUT_FLAGS: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o')];
const ADD_FLAGS: &[Flag] = &[flag("from", Kind::Text, "", "File with public keys").or('f')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    List,
    Get,
    Add,
    Rm,
}

static GROUP: Group<Verb> = Group {
    name: "gpg",
    about: "Manage keys for signature verification",
    commands: &[
        Command::new(Verb::List, ("list", ""), "List keys", &[OUTPUT_FLAGS], (0, usize::MAX)),
        Command::new(Verb::Get, ("get", "KEYID"), "Show a key", &[OUTPUT_FLAGS], (1, 1)),
        Command::new(Verb::Add, ("add", ""), "Add public keys", &[ADD_FLAGS], (0, usize::MAX)),
        Command::new(Verb::Rm, ("rm", "KEYID"), "Remove a key", &[], (1, 1)),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `gpg …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::List => Box::pin(list(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::Add => Box::pin(add(session)).await,
        Verb::Rm => Box::pin(rm(session)).await,
    }
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let keys = if let Some(server) = core.server() {
        remote::list(server).await?
    } else {
        let keyring = GpgKeys::new(&core.store()?, Caller::operator()).list().await?;
        for problem in keyring.problems() {
            session.warn(&problem.to_string());
        }
        keyring.keys().map(|key| shown(key, false)).collect()
    };
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => {
            session.terminal.data(&print(&keys.into(), machine)?);
        }
        (None, "wide" | "") => {
            let mut table = Table::new(&["KEYID", "TYPE", "IDENTITY"]);
            for key in &keys {
                let kind = text(key, "subType").to_ascii_uppercase();
                table.row(vec![text(key, "keyID").to_owned(), kind, text(key, "owner").to_owned()]);
            }
            session.terminal.print(&table.print());
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let key = if let Some(server) = core.server() {
        remote::get(server, session.operand(0)).await?
    } else {
        shown(&GpgKeys::new(&core.store()?, Caller::operator()).get(session.operand(0)).await?, true)
    };
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&key, machine)?),
        (None, "wide" | "") => {
            for (title, member) in [
                ("Key ID:", "keyID"),
                ("Key fingerprint:", "fingerprint"),
                ("Key subtype:", "subType"),
                ("Key owner:", "owner"),
            ] {
                let value = tiphys_api::printable::line(text(&key, member));
                session.terminal.line(&format!("{title:<17}{value}"));
            }
            session.terminal.line("Key data follows until EOF:");
            session.terminal.print(text(&key, "keyData"));
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

async fn add(session: &Session<'_>) -> Result<Ended, Failure> {
    let from = session.flags.text("from");
    if from.is_empty() {
        return Err(Failure::generic("--from is mandatory"));
    }
    let text = read_input(from).await?;
    let core = session.connect().await?;
    let (created, skipped) = if let Some(server) = core.server() {
        remote::add(server, &text).await?
    } else {
        let Added { created, skipped } = GpgKeys::new(&core.store()?, Caller::operator()).add(&text).await?;
        (created.len(), skipped.len())
    };
    let more = match skipped {
        0 => String::new(),
        n => format!(", and {n} key(s) were skipped because they exist already"),
    };
    session.terminal.line(&format!("Created {created} key(s) from input file{more}."));
    Ok(OK)
}

async fn rm(session: &Session<'_>) -> Result<Ended, Failure> {
    let wanted = session.operand(0);
    if !session.confirms(&format!("Are you sure you want to remove '{wanted}'? [y/n] ")).await {
        session.terminal.line(&format!("The command to remove '{wanted}' was cancelled."));
        return Ok(OK);
    }
    let core = session.connect().await?;
    match core.server() {
        Some(server) => remote::delete(server, wanted).await?,
        None => GpgKeys::new(&core.store()?, Caller::operator()).delete(wanted).await.map(drop)?,
    }
    session.terminal.line(&format!("Deleted key with key ID {wanted}"));
    Ok(OK)
}
