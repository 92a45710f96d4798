//! `app`: everything about applications (CLI-400 to CLI-546).
//!
//! The table [`COMMANDS`] lists the commands; [`run`] reads the flags of the chosen one and hands a [`Session`]
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
mod tracking;
mod wait;
mod waiting;

use crate::command::{Command, command_help, group_help};
use crate::core::{AppName, Core, Place, World};
use crate::failure::{Failure, Style};
use crate::flags::{self, Flag, FlagError, Kind, Parsed, flag};
use crate::global::{self, Route};
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
    MigrateTracking,
    Patch,
    Resources,
    Rollback,
    Selector,
    Set,
    Sync,
    TerminateOp,
    Tracking,
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
    command(
        Verb::MigrateTracking,
        "migrate-tracking",
        "[APPNAME... | -l selector | --all]",
        "Mark all resources by the tracking settings in force",
        &[tracking::MIGRATE_FLAGS],
        ANY,
    ),
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
    command(Verb::Wait, "wait", "[APPNAME... | -l selector]", "Wait for a state", &[wait::FLAGS], ANY),
];

/// One run of a command.
pub(crate) struct Session<'a> {
    pub(crate) terminal: &'a Terminal,
    pub(crate) flags: &'a Parsed,
    pub(crate) style: Style,
    command: &'static Command<Verb>,
}

/// What the shells of changing commands work with.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) core: &'a Core,
    pub(crate) world: &'a World,
}

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this exit code.
    Code(u8),
    /// The operands say nothing to do: help, and the code for wrong usage.
    Help,
}

/// Success.
pub(crate) const OK: Ended = Ended::Code(0);

impl Session<'_> {
    /// Connects to the installation (CLI-104, CLI-140).
    pub(crate) async fn connect(&self) -> Result<Core, Failure> {
        match global::route(self.flags, self.terminal)? {
            Route::Core => Core::connect(&self.place()).await,
            Route::Unspecified => Err(Failure::fatal("Argo CD server address unspecified").hint(
                "add `--core` to talk to Kubernetes with your kubeconfig (also as ARGOCD_OPTS='--core')",
            )),
            Route::Server(address) => Err(Failure::fatal(format!(
                "Failed to establish connection to {address}: connections to a server are not supported yet"
            ))
            .hint("add `--core` to talk to Kubernetes with your kubeconfig")),
        }
    }

    /// Which cluster, and where in it.
    fn place(&self) -> Place<'_> {
        let flags = self.flags;
        let context = flags.text("kube-context");
        Place {
            kubeconfig: flags.text("kubeconfig"),
            context: if context.is_empty() { flags.text("context") } else { context },
            namespace: flags.text("namespace"),
            advises: self.style == Style::Human,
        }
    }

    /// The application an operand names.
    pub(crate) fn name(&self, text: &str, core: &Core) -> AppName {
        let given = self.flags.text("app-namespace");
        AppName::parse(text, if given.is_empty() { &core.namespace } else { given })
    }

    /// The application the only operand names.
    pub(crate) fn only_name(&self, core: &Core) -> AppName {
        self.name(self.flags.operands.first().map_or("", String::as_str), core)
    }

    /// Writes a warning (CLI-11).
    pub(crate) fn warn(&self, text: &str) {
        self.terminal.warn(&format!("Warning: {text}\n"));
    }
}

/// Runs `app …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    let program = &terminal.program;
    let help = || group_help(program, "app", ABOUT, COMMANDS);
    let word = flags::take_word(&mut args, &[global::FLAGS, global::KUBERNETES_FLAGS]);
    let Some(command) = COMMANDS.iter().find(|command| Some(command.name) == word.as_deref()) else {
        terminal.print(&help());
        return u8::from(!args.iter().any(|arg| arg == "--help" || arg == "-h") || word.is_some());
    };
    let tables: Vec<&'static [Flag]> =
        command.flags.iter().copied().chain([global::KUBERNETES_FLAGS, global::FLAGS]).collect();
    let command_help = || command_help(program, "app", command, global::FLAGS);
    let mut parsed = match flags::parse(&args, &tables) {
        Ok(parsed) => parsed,
        Err(FlagError::Help) => {
            terminal.print(&command_help());
            return 0;
        }
        Err(FlagError::Usage(text)) => {
            terminal.print(&format!("Error: {text}\n"));
            return 1;
        }
    };
    let outcome = global::supply(&mut parsed, terminal);
    let style = global::style(&parsed, terminal);
    let (fewest, most) = command.operands;
    let outcome = outcome.and_then(|()| {
        if !(fewest..=most).contains(&parsed.operands.len()) {
            return Ok(Ended::Help);
        }
        execute(&Session { terminal, flags: &parsed, style, command })
    });
    match outcome {
        Ok(Ended::Code(code)) => code,
        Ok(Ended::Help) => {
            terminal.print(&command_help());
            command.usage_code
        }
        Err(failure) => {
            terminal.warn(&failure.show(style, terminal.now()));
            failure.code
        }
    }
}

fn execute(session: &Session<'_>) -> Result<Ended, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::generic(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        // Dropping a command that is cut short ends its child processes and removes its files (CLI-10). The
        // second signal finds no handler that waits.
        tokio::select! {
            biased;
            ended = perform(session) => ended,
            () = interrupted() => Err(Failure::status("Canceled", "context canceled")),
        }
    });
    // Watches that are still being set up have nothing to finish.
    runtime.shutdown_background();
    ended
}

async fn perform(session: &Session<'_>) -> Result<Ended, Failure> {
    match session.command.verb {
        Verb::ConfirmDeletion => Box::pin(modify::confirm_deletion(session)).await,
        Verb::Create => Box::pin(create::create(session)).await,
        Verb::Delete => Box::pin(delete::delete(session)).await,
        Verb::Diff => Box::pin(diff::run(session)).await,
        Verb::Get => Box::pin(show::get(session)).await,
        Verb::History => Box::pin(show::history(session)).await,
        Verb::List => Box::pin(show::list(session)).await,
        Verb::Manifests => Box::pin(show::manifests(session)).await,
        Verb::MigrateTracking => Box::pin(tracking::migrate(session)).await,
        Verb::Patch => Box::pin(modify::patch(session)).await,
        Verb::Resources => Box::pin(show::resources(session)).await,
        Verb::Rollback => Box::pin(modify::rollback(session)).await,
        Verb::Selector => Box::pin(tracking::selector(session)).await,
        Verb::Set => Box::pin(create::set(session)).await,
        Verb::Sync => Box::pin(sync::sync(session)).await,
        Verb::TerminateOp => Box::pin(delete::terminate(session)).await,
        Verb::Tracking => Box::pin(tracking::tracking(session)).await,
        Verb::Wait => Box::pin(wait::wait(session)).await,
    }
}

/// Waits for the first signal to stop.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the system's own way of stopping is in force.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
