//! `appset`: everything about `ApplicationSet`s (CLI-600 to CLI-607).
//!
//! What a set generates is found out by the functions that the controller calls (`core/generation.rs`); modules without
//! I/O hold what the commands decide and print: [`input`], [`view`], [`stages`].

mod create;
mod delete;
mod generate;
mod input;
mod offline;
mod preview;
mod rollout;
mod show;
mod stages;
mod view;

pub(crate) use offline::read_inputs as described_inputs;

use crate::app::{Ended, Session};
use crate::command::Command;
use crate::core::{AppName, Core};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, Group};
use crate::terminal::Terminal;

const NAMESPACE: Flag = flag("appset-namespace", Kind::Text, "", "Namespace of the ApplicationSet").or('N');
const OUTPUT: Flag = flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o');

/// The commands of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Delete,
    Generate,
    Get,
    List,
    Preview,
    Rollout,
}

const ONE: (usize, usize) = (1, 1);
const SOME: (usize, usize) = (1, usize::MAX);

static COMMANDS: &[Command<Verb>] = &[
    Command::new(
        Verb::Create,
        ("create", "FILE..."),
        "Create ApplicationSets from files or URLs",
        &[create::FLAGS],
        SOME,
    ),
    Command::new(Verb::Delete, ("delete", "NAME..."), "Delete ApplicationSets", &[delete::FLAGS], SOME),
    Command::new(
        Verb::Generate,
        ("generate", "FILE"),
        "Show the Applications that an ApplicationSet generates",
        &[generate::FLAGS, offline::FLAGS],
        ONE,
    ),
    Command::new(Verb::Get, ("get", "NAME"), "Get ApplicationSet details", &[show::GET_FLAGS], ONE),
    Command::new(Verb::List, ("list", ""), "List ApplicationSets", &[show::LIST_FLAGS], (0, usize::MAX)),
    Command::new(
        Verb::Preview,
        ("preview", "NAME|FILE"),
        "Show what an ApplicationSet would create, change and delete",
        &[preview::FLAGS],
        ONE,
    ),
    Command::new(
        Verb::Rollout,
        ("rollout", "NAME"),
        "Show the steps of a roll-out, and the order of a deletion",
        &[rollout::FLAGS],
        ONE,
    ),
];

static GROUP: Group<Verb> = Group {
    name: "appset",
    about: "Manage ApplicationSets",
    commands: COMMANDS,
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `appset …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Create => Box::pin(create::create(session)).await,
        Verb::Delete => Box::pin(delete::delete(session)).await,
        Verb::Generate => Box::pin(generate::generate(session)).await,
        Verb::Get => Box::pin(show::get(session)).await,
        Verb::List => Box::pin(show::list(session)).await,
        Verb::Preview => Box::pin(preview::preview(session)).await,
        Verb::Rollout => Box::pin(rollout::rollout(session)).await,
    }
}

/// The set that an operand names (CLI-304).
fn set_name(session: &Session<'_>, text: &str, core: &Core) -> AppName {
    let given = session.flags.text("appset-namespace");
    AppName::parse(text, if given.is_empty() { &core.namespace } else { given })
}
