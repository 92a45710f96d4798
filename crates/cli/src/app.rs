//! `app`: everything about applications (CLI-400 to CLI-546).
//!
//! The table [`COMMANDS`] lists the commands; [`run`] reads the flags of the chosen one and hands a [`Session`]
//! to its shell. Modules without I/O hold what the commands decide and print: spec edits, filters, rows,
//! summaries, operations, waits.

pub(crate) mod create;
mod delete;
pub(crate) mod diff;
mod differences;
mod edit;
pub(crate) mod filter;
pub(crate) mod list;
mod live_resources;
mod logs;
mod modify;
mod operation;
mod resources;
mod rows;
mod selection;
mod show;
mod sources;
pub(crate) mod spec_edit;
pub(crate) mod spec_flags;
mod store;
pub(crate) mod summary;
mod sync;
mod tracking;
mod tree;
mod unset;
mod wait;
mod waiting;

use crate::command::Command;
use crate::core::{AppName, Core, World};
use crate::failure::Failure;
use crate::flags::{self, Flag, Kind, flag};
use crate::global;
use crate::session::{self, Group};
use crate::terminal::Terminal;

pub(crate) use crate::session::{Ended, OK, Session};
pub(crate) use live_resources::live;
pub(crate) use selection::compared_revisions;

const ABOUT: &str = "Manage applications";

const NAMESPACE: Flag = flag("app-namespace", Kind::Text, "", "Namespace of the application").or('N');
const TREE_OUTPUT: Flag =
    flag("output", Kind::Text, "wide", "Output format: wide, json, yaml, tree or tree=detailed").or('o');

/// The commands of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    AddSource,
    ConfirmDeletion,
    Create,
    Delete,
    DeleteResource,
    Diff,
    Edit,
    Get,
    GetResource,
    History,
    List,
    Logs,
    Manifests,
    MigrateTracking,
    Patch,
    PatchResource,
    RemoveSource,
    Resources,
    Rollback,
    Selector,
    Set,
    Sync,
    TerminateOp,
    Tracking,
    Unset,
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
    Command { name, usage, about, flags, operands, usage_code: 1, required: &[], verb }
}

const ONE: (usize, usize) = (1, 1);
const ANY: (usize, usize) = (0, usize::MAX);

static COMMANDS: &[Command<Verb>] = &[
    command(
        Verb::AddSource,
        "add-source",
        "APPNAME",
        "Add a source to an application of several",
        &[spec_flags::FLAGS, sources::ADD_FLAGS],
        ONE,
    ),
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
        &[spec_flags::FLAGS, create::FLAGS, create::UPSERT],
        ANY,
    ),
    command(
        Verb::Delete,
        "delete",
        "[APPNAME... | -l selector]",
        "Delete applications",
        &[delete::FLAGS],
        ANY,
    ),
    Command {
        usage_code: 2,
        ..command(Verb::Diff, "diff", "APPNAME", "Show what a sync would change", &[diff::FLAGS], ONE)
    },
    Command {
        required: &["kind"],
        ..command(
            Verb::DeleteResource,
            "delete-resource",
            "APPNAME",
            "Delete a live resource",
            &[live_resources::DELETE_FLAGS],
            ONE,
        )
    },
    Command {
        required: &["kind"],
        ..command(
            Verb::GetResource,
            "get-resource",
            "APPNAME",
            "Show live resources",
            &[live_resources::GET_FLAGS],
            ONE,
        )
    },
    Command {
        required: &["kind", "patch"],
        ..command(
            Verb::PatchResource,
            "patch-resource",
            "APPNAME",
            "Patch a live resource",
            &[live_resources::PATCH_FLAGS],
            ONE,
        )
    },
    command(Verb::Edit, "edit", "APPNAME", "Edit the spec in an editor", &[edit::FLAGS], ONE),
    command(Verb::Get, "get", "APPNAME", "Get application details", &[show::GET_FLAGS], ONE),
    command(Verb::History, "history", "APPNAME", "Show deployment history", &[show::HISTORY_FLAGS], ONE),
    command(Verb::List, "list", "", "List applications", &[show::LIST_FLAGS], ANY),
    command(Verb::Logs, "logs", "APPNAME", "Print logs of pods", &[logs::FLAGS], ONE),
    command(Verb::Manifests, "manifests", "APPNAME", "Print manifests", &[show::MANIFESTS_FLAGS], ONE),
    command(
        Verb::MigrateTracking,
        "migrate-tracking",
        "[APPNAME... | -l selector | --all]",
        "Mark all resources by the tracking settings in force",
        &[tracking::MIGRATE_FLAGS],
        ANY,
    ),
    command(Verb::Patch, "patch", "APPNAME", "Patch an application", &[modify::PATCH_FLAGS], ONE),
    command(
        Verb::RemoveSource,
        "remove-source",
        "APPNAME",
        "Remove a source of an application of several",
        &[sources::REMOVE_FLAGS],
        ONE,
    ),
    command(Verb::Resources, "resources", "APPNAME", "List resources", &[resources::FLAGS], ONE),
    command(
        Verb::Rollback,
        "rollback",
        "APPNAME [ID]",
        "Roll back to an earlier deployment",
        &[modify::ROLLBACK_FLAGS],
        (1, 2),
    ),
    command(
        Verb::Selector,
        "selector",
        "APPNAME",
        "Print how to select the resources with kubectl",
        &[tracking::SELECTOR_FLAGS],
        ONE,
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
    command(
        Verb::Tracking,
        "tracking",
        "APPNAME",
        "Show by what each resource belongs to the application",
        &[tracking::TRACKING_FLAGS],
        ONE,
    ),
    command(Verb::Unset, "unset", "APPNAME", "Take options of a source back", &[unset::FLAGS], ONE),
    command(Verb::Wait, "wait", "[APPNAME... | -l selector]", "Wait for a state", &[wait::FLAGS], ANY),
];

/// What the shells of changing commands work with.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) core: &'a Core,
    pub(crate) world: &'a World,
}

impl Session<'_> {
    /// The application an operand names.
    pub(crate) fn name(&self, text: &str, core: &Core) -> AppName {
        let given = self.flags.text("app-namespace");
        AppName::parse(text, if given.is_empty() { &core.namespace } else { given })
    }

    /// The application the only operand names.
    pub(crate) fn only_name(&self, core: &Core) -> AppName {
        self.name(self.flags.operands.first().map_or("", String::as_str), core)
    }
}

static GROUP: Group<Verb> = Group {
    name: "app",
    about: ABOUT,
    commands: COMMANDS,
    groups: &[("actions", "Actions on resources")],
    bare_code: 1,
    aliases: &[],
};

/// Runs `app …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    let mut rest = args.clone();
    match flags::take_word(&mut rest, global::WORD_TABLES).as_deref() {
        Some("actions") => live_resources::actions(terminal, rest),
        _ => session::run(terminal, args, &GROUP, perform),
    }
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::AddSource => Box::pin(sources::add(session)).await,
        Verb::ConfirmDeletion => Box::pin(modify::confirm_deletion(session)).await,
        Verb::Create => Box::pin(create::create(session)).await,
        Verb::Delete => Box::pin(delete::delete(session)).await,
        Verb::DeleteResource => Box::pin(live_resources::delete(session)).await,
        Verb::Diff => Box::pin(diff::run(session)).await,
        Verb::Edit => Box::pin(edit::run(session)).await,
        Verb::Get => Box::pin(show::get(session)).await,
        Verb::GetResource => Box::pin(live_resources::get(session)).await,
        Verb::History => Box::pin(show::history(session)).await,
        Verb::List => Box::pin(show::list(session)).await,
        Verb::Logs => Box::pin(logs::run(session)).await,
        Verb::Manifests => Box::pin(show::manifests(session)).await,
        Verb::MigrateTracking => Box::pin(tracking::migrate(session)).await,
        Verb::Patch => Box::pin(modify::patch(session)).await,
        Verb::PatchResource => Box::pin(live_resources::patch(session)).await,
        Verb::RemoveSource => Box::pin(sources::remove(session)).await,
        Verb::Resources => Box::pin(resources::resources(session)).await,
        Verb::Rollback => Box::pin(modify::rollback(session)).await,
        Verb::Selector => Box::pin(tracking::selector(session)).await,
        Verb::Set => Box::pin(create::set(session)).await,
        Verb::Sync => Box::pin(sync::sync(session)).await,
        Verb::TerminateOp => Box::pin(delete::terminate(session)).await,
        Verb::Tracking => Box::pin(tracking::tracking(session)).await,
        Verb::Unset => Box::pin(unset::run(session)).await,
        Verb::Wait => Box::pin(wait::wait(session)).await,
    }
}
