//! `app`: everything about applications (CLI-400 to CLI-546).
//!
//! The table [`COMMANDS`] lists the commands; [`run`] has the flags of the chosen one read and hands a [`Session`]
//! to its shell. Modules without I/O hold what the commands decide and print: spec edits, filters, rows,
//! summaries, operations, waits.

mod create;
mod delete;
mod diff;
pub(crate) mod filter;
mod list;
mod modify;
mod operation;
mod rows;
mod show;
mod spec_edit;
mod spec_flags;
pub(crate) mod summary;
mod sync;
mod wait;
mod waiting;

use crate::command::Command;
use crate::core::{Core, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::group::Group;
pub(crate) use crate::group::{Ended, OK, Session};
use crate::terminal::Terminal;

const ABOUT: &str = "Manage applications";

const NAMESPACE: Flag = flag("app-namespace", Kind::Text, "", "Namespace of the application").or('N');
const OUTPUT: Flag = flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o');

/// The commands of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    ConfirmDeletion,
    Create,
    Delete,
    Diff,
    Get,
    History,
    List,
    Manifests,
    Patch,
    Resources,
    Rollback,
    Set,
    Sync,
    TerminateOp,
    Wait,
}

const fn command(
    verb: Verb,
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    flags: &'static [&'static [Flag]],
    operands: (usize, usize),
) -> Command<Verb> {
    Command { name, usage, about, flags, operands, usage_code: 1, verb }
}

const ONE: (usize, usize) = (1, 1);
const ANY: (usize, usize) = (0, usize::MAX);

static COMMANDS: &[Command<Verb>] = &[
    command(
        Verb::ConfirmDeletion,
        "confirm-deletion",
        "APPNAME",
        "Approve pending deletions and prunes",
        &[modify::CONFIRM_FLAGS],
        ONE,
    ),
    command(
        Verb::Create,
        "create",
        "APPNAME",
        "Create an application",
        &[spec_flags::FLAGS, create::FLAGS],
        ANY,
    ),
    command(Verb::Delete, "delete", "APPNAME", "Delete applications", &[delete::FLAGS], ANY),
    Command {
        usage_code: 2,
        ..command(Verb::Diff, "diff", "APPNAME", "Show what a sync would change", &[diff::FLAGS], ONE)
    },
    command(Verb::Get, "get", "APPNAME", "Get application details", &[show::GET_FLAGS], ONE),
    command(Verb::History, "history", "APPNAME", "Show deployment history", &[show::HISTORY_FLAGS], ONE),
    command(Verb::List, "list", "", "List applications", &[show::LIST_FLAGS], ANY),
    command(Verb::Manifests, "manifests", "APPNAME", "Print manifests", &[show::MANIFESTS_FLAGS], ONE),
    command(Verb::Patch, "patch", "APPNAME", "Patch an application", &[modify::PATCH_FLAGS], ONE),
    command(Verb::Resources, "resources", "APPNAME", "List resources", &[show::RESOURCES_FLAGS], ONE),
    command(
        Verb::Rollback,
        "rollback",
        "APPNAME [ID]",
        "Roll back to an earlier deployment",
        &[modify::ROLLBACK_FLAGS],
        (1, 2),
    ),
    command(Verb::Set, "set", "APPNAME", "Change the spec", &[spec_flags::FLAGS, create::SET_FLAGS], ONE),
    command(
        Verb::Sync,
        "sync",
        "[APPNAME... | -l selector | --project project-name]",
        "Make the cluster equal to the source",
        &[sync::FLAGS],
        ANY,
    ),
    command(
        Verb::TerminateOp,
        "terminate-op",
        "APPNAME",
        "Terminate the running operation",
        &[delete::TERMINATE_FLAGS],
        ONE,
    ),
    command(Verb::Wait, "wait", "[APPNAME... | -l selector]", "Wait for a state", &[wait::FLAGS], ANY),
];

/// What the shells of changing commands work with.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) core: &'a Core,
    pub(crate) world: &'a World,
}

/// Runs `app …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    static GROUP: Group<Verb> = Group { path: "app", about: ABOUT, commands: COMMANDS, bare_code: 1 };
    GROUP.run(terminal, args, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::ConfirmDeletion => Box::pin(modify::confirm_deletion(session)).await,
        Verb::Create => Box::pin(create::create(session)).await,
        Verb::Delete => Box::pin(delete::delete(session)).await,
        Verb::Diff => Box::pin(diff::run(session)).await,
        Verb::Get => Box::pin(show::get(session)).await,
        Verb::History => Box::pin(show::history(session)).await,
        Verb::List => Box::pin(show::list(session)).await,
        Verb::Manifests => Box::pin(show::manifests(session)).await,
        Verb::Patch => Box::pin(modify::patch(session)).await,
        Verb::Resources => Box::pin(show::resources(session)).await,
        Verb::Rollback => Box::pin(modify::rollback(session)).await,
        Verb::Set => Box::pin(create::set(session)).await,
        Verb::Sync => Box::pin(sync::sync(session)).await,
        Verb::TerminateOp => Box::pin(delete::terminate(session)).await,
        Verb::Wait => Box::pin(wait::wait(session)).await,
    }
}
