//! Groups of commands: how the command is found, its flags are read, and it is run (CLI-2..8).

use crate::command::{Command, command_help, group_help};
use crate::core::{AppName, Core, Place};
use crate::failure::{Failure, Style};
use crate::flags::{self, Flag, FlagError, Parsed};
use crate::global::{self, Route};
use crate::terminal::Terminal;

/// Commands with a name before theirs.
#[derive(Debug)]
pub(crate) struct Group<V: 'static> {
    /// All names before that of the command.
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    pub(crate) commands: &'static [Command<V>],
    /// Exit code without a command (CLI-3).
    pub(crate) bare_code: u8,
}

/// One run of a command.
pub(crate) struct Session<'a> {
    pub(crate) terminal: &'a Terminal,
    pub(crate) flags: &'a Parsed,
    pub(crate) style: Style,
}

/// How a command ended, when it did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this exit code.
    Code(u8),
    /// The operands say nothing to do: help, and the code for wrong usage.
    Help,
    /// The same, with a word about what is wrong.
    HelpAnd(Failure),
}

/// Success.
pub(crate) const OK: Ended = Ended::Code(0);

impl Session<'_> {
    /// Connects to the installation (CLI-104, CLI-140).
    pub(crate) async fn connect(&self) -> Result<Core, Failure> {
        match global::route(self.flags, self.terminal)? {
            Route::Core => self.connect_to_cluster().await,
            Route::Unspecified => Err(Failure::fatal("Argo CD server address unspecified").hint(
                "add `--core` to talk to Kubernetes with your kubeconfig (also as ARGOCD_OPTS='--core')",
            )),
            Route::Server(address) => Err(Failure::fatal(format!(
                "Failed to establish connection to {address}: connections to a server are not supported yet"
            ))
            .hint("add `--core` to talk to Kubernetes with your kubeconfig")),
        }
    }

    /// Connects to Kubernetes, whatever server is set: what `admin` commands do.
    pub(crate) async fn connect_to_cluster(&self) -> Result<Core, Failure> {
        Core::connect(&self.place()).await
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

/// Takes the next word, the name of a command or group, out of the arguments.
pub(crate) fn take_word(args: &mut Vec<String>) -> Option<String> {
    flags::take_word(args, &[global::FLAGS, global::KUBERNETES_FLAGS])
}

impl<V: Copy> Group<V> {
    /// Prints what commands there are, and says the exit code: `word` is none of them (CLI-3, CLI-4).
    pub(crate) fn help(&self, terminal: &Terminal, args: &[String], word: Option<&str>) -> u8 {
        terminal.print(&group_help(&terminal.program, self.path, self.about, self.commands));
        match word {
            Some(_) => 1,
            None if args.iter().any(|arg| arg == "--help" || arg == "-h") => 0,
            None => self.bare_code,
        }
    }

    /// Runs one of the commands and says the exit code.
    pub(crate) fn run(
        &self,
        terminal: &Terminal,
        mut args: Vec<String>,
        perform: impl AsyncFnOnce(&Session<'_>, V) -> Result<Ended, Failure>,
    ) -> u8 {
        let program = &terminal.program;
        let word = take_word(&mut args);
        let Some(command) = self.commands.iter().find(|command| Some(command.name) == word.as_deref()) else {
            return self.help(terminal, &args, word.as_deref());
        };
        let tables: Vec<&'static [Flag]> =
            command.flags.iter().copied().chain([global::KUBERNETES_FLAGS, global::FLAGS]).collect();
        let command_help = || command_help(program, self.path, command, global::FLAGS);
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
            let session = Session { terminal, flags: &parsed, style };
            execute(perform(&session, command.verb))
        });
        match outcome {
            Ok(Ended::Code(code)) => code,
            Ok(Ended::Help) => {
                terminal.print(&command_help());
                command.usage_code
            }
            Ok(Ended::HelpAnd(failure)) => {
                terminal.print(&command_help());
                terminal.warn(&failure.show(style, terminal.now()));
                command.usage_code
            }
            Err(failure) => {
                terminal.warn(&failure.show(style, terminal.now()));
                failure.code
            }
        }
    }
}

fn execute(perform: impl Future<Output = Result<Ended, Failure>>) -> Result<Ended, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::generic(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        // Dropping a command that is cut short ends its child processes and removes its files (CLI-10). The
        // second signal finds no handler that waits.
        tokio::select! {
            biased;
            ended = perform => ended,
            () = interrupted() => Err(Failure::status("Canceled", "context canceled")),
        }
    });
    // Watches that are still being set up have nothing to finish.
    runtime.shutdown_background();
    ended
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
