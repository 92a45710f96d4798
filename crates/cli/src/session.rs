//! One run of one command of a group: from words to an exit code (CLI-3..8).

use tiphys_cluster::{Connection, KubeOverrides};

use crate::command::{Command, command_help, group_help};
use crate::completion::Listing;
use crate::core::{Core, Place};
use crate::failure::{Failure, Style};
use crate::flags::{self, Flag, FlagError, Parsed};
use crate::forward;
use crate::global::{self, Route};
use crate::server::{Access, Api};
use crate::sso;
use crate::terminal::{Answer, Terminal};

/// A group of commands, as `app` or `proj role`.
#[derive(Debug)]
pub(crate) struct Group<V: 'static> {
    /// The words that lead to it.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) commands: &'static [Command<V>],
    /// Groups inside, as the help names them.
    pub(crate) groups: &'static [(&'static str, &'static str)],
    /// Exit code without a command (CLI-3).
    pub(crate) bare_code: u8,
    /// Other words for commands, and the commands (CLI-2).
    pub(crate) aliases: &'static [(&'static str, &'static str)],
}

/// One run of a command.
pub(crate) struct Session<'a> {
    pub(crate) terminal: &'a Terminal,
    pub(crate) flags: &'a Parsed,
    pub(crate) style: Style,
    /// Flags of Kubernetes that the command means otherwise, as another `--namespace` than that of the installation.
    taken: Vec<&'static str>,
}

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this exit code.
    Code(u8),
    /// The operands say nothing to do: help, and the code for wrong usage.
    Help,
    /// The same, with what is wrong.
    HelpAnd(&'static str),
}

/// Success.
pub(crate) const OK: Ended = Ended::Code(0);

impl Session<'_> {
    /// Connects to the installation (CLI-104, CLI-140).
    pub(crate) async fn connect(&self) -> Result<Core, Failure> {
        match global::route(self.flags, self.terminal)? {
            Route::Core => self.connect_to_cluster().await,
            Route::Unspecified => Err(Failure::fatal("Argo CD server address unspecified").hint(
                "`login SERVER`, or add `--core` to talk to Kubernetes with your kubeconfig (also as ARGOCD_OPTS='--core')",
            )),
            Route::Server(mut access, context) => {
                self.forward(&mut access).await?;
                if let Some(found) = &context {
                    sso::renew(self, &mut access, found).await;
                }
                Core::of_server(Api::new(&access)?, self.style == Style::Human).await
            }
        }
    }

    /// Connects to Kubernetes, whatever server is set: what `admin` commands do.
    pub(crate) async fn connect_to_cluster(&self) -> Result<Core, Failure> {
        Core::connect(&self.place()?).await
    }

    /// The way to the cluster, whatever is in it.
    pub(crate) async fn connection(&self) -> Result<Connection, Failure> {
        self.place()?.connection().await
    }

    /// Reaches a server by way of Kubernetes where that is wanted (CLI-123).
    pub(crate) async fn forward(&self, access: &mut Access) -> Result<(), Failure> {
        if forward::is_wanted(self.flags) {
            access.forward(forward::open(self.flags, &self.place()?).await?);
        }
        Ok(())
    }

    /// Which cluster, and where in it.
    fn place(&self) -> Result<Place<'_>, Failure> {
        let text = |name: &str| if self.taken.contains(&name) { "" } else { self.flags.text(name) };
        let context = self.flags.text("kube-context");
        let timeout = match text("request-timeout") {
            "" => None,
            given => global::request_timeout(given)?,
        };
        Ok(Place {
            kubeconfig: text("kubeconfig"),
            context: if context.is_empty() { text("context") } else { context },
            // A command whose `--namespace` may be repeated means something else by it.
            namespace: text("namespace"),
            overrides: self.overrides(),
            timeout,
            advises: self.style == Style::Human,
            environment: &self.terminal.env,
        })
    }

    /// What the flags say in place of the kubeconfig.
    pub(crate) fn overrides(&self) -> KubeOverrides {
        global::overrides(self.flags, &self.taken)
    }

    /// An operand; empty when there are fewer.
    pub(crate) fn operand(&self, index: usize) -> &str {
        self.flags.operands.get(index).map_or("", String::as_str)
    }

    /// Whether questions are asked: as the flag says, else as the configuration file does.
    fn prompts(&self) -> bool {
        let configured = || {
            let config = crate::config_file::read(self.flags.text("config"), self.terminal);
            matches!(config, Ok(Some(config)) if config.prompts())
        };
        if self.flags.is_set("prompts-enabled") { self.flags.is_on("prompts-enabled") } else { configured() }
    }

    /// Writes a warning (CLI-11).
    pub(crate) fn warn(&self, text: &str) {
        self.terminal.warn(&format!("Warning: {text}\n"));
    }

    /// Whether the answer to a question is yes; where prompts are off nobody is asked (CLI-305).
    pub(crate) async fn confirms(&self, question: &str) -> bool {
        !self.prompts()
            || self.flags.is_on("yes")
            || matches!(self.terminal.ask(question, false).await, Some(Answer::Yes))
    }
}

/// Runs a command of a group whose word was taken already, and says the exit code.
pub(crate) fn run<V: Copy>(
    terminal: &Terminal,
    mut args: Vec<String>,
    group: &Group<V>,
    perform: impl AsyncFn(&Session<'_>, V) -> Result<Ended, Failure>,
) -> u8 {
    let word = flags::take_word(&mut args, global::WORD_TABLES);
    let meant = group.aliases.iter().find(|(alias, _)| Some(*alias) == word.as_deref());
    let meant = meant.map_or(word.as_deref(), |(_, name)| Some(*name));
    let Some(command) = group.commands.iter().find(|command| Some(command.name) == meant) else {
        show_group(terminal, group, word.as_deref());
        let wants_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
        return match word {
            Some(_) => 1,
            None if wants_help => 0,
            None => group.bare_code,
        };
    };
    run_command(terminal, &args, (group.name, command), perform)
}

/// Prints what a group has. `word` is what was taken for one of its commands.
pub(crate) fn show_group<V>(terminal: &Terminal, group: &Group<V>, word: Option<&str>) {
    if word.is_some() || !terminal.lists(|| Listing::of_group(group)) {
        terminal.print(&group_help(&terminal.program, group));
    }
}

/// Runs a command whose words were taken already, and says the exit code.
#[expect(clippy::needless_pass_by_value, reason = "commands are written where they are handed over")]
pub(crate) fn run_command<V: Copy>(
    terminal: &Terminal,
    args: &[String],
    (group, command): (&str, &Command<V>),
    perform: impl AsyncFn(&Session<'_>, V) -> Result<Ended, Failure>,
) -> u8 {
    let program = &terminal.program;
    let mut tables: Vec<&'static [Flag]> =
        command.flags.iter().copied().chain([global::KUBERNETES_FLAGS, global::FLAGS]).collect();
    let taken = global::taken(command.flags);
    if !taken.contains(&"namespace") {
        tables.push(global::NAMESPACE_FLAGS);
    }
    if terminal.lists(|| Listing::of_command(group, command, &tables)) {
        return 0;
    }
    let command_help = || command_help(program, group, command, global::FLAGS);
    let mut parsed = match flags::parse(args, &tables) {
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
    if let Some(text) = command.missing_flags(&parsed) {
        terminal.print(&format!("Error: {text}\n"));
        return 1;
    }
    let outcome = global::supply(&mut parsed, terminal);
    let style = global::style(&parsed, terminal);
    let (fewest, most) = command.operands;
    let outcome = outcome.and_then(|()| {
        if !(fewest..=most).contains(&parsed.operands.len()) {
            return Ok(Ended::Help);
        }
        let session = Session { terminal, flags: &parsed, style, taken: taken.clone() };
        execute(perform(&session, command.verb))
    });
    match outcome {
        Ok(Ended::Code(code)) => code,
        Ok(Ended::Help) => {
            terminal.print(&command_help());
            command.usage_code
        }
        Ok(Ended::HelpAnd(text)) => {
            terminal.print(&command_help());
            terminal.fail(style, &Failure::fatal(text));
            command.usage_code
        }
        Err(failure) => {
            terminal.fail(style, &failure);
            failure.code
        }
    }
}

/// Reads what the environment gives for flags, and runs something that may need an installation. `--namespace` is
/// not that of the settings.
pub(crate) fn within<T>(
    terminal: &Terminal,
    flags: &mut Parsed,
    work: impl AsyncFnOnce(&Session<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    global::supply(flags, terminal)?;
    let style = global::style(flags, terminal);
    execute(work(&Session { terminal, flags, style, taken: vec!["namespace"] }))
}

/// Waits for something, until a signal to stop comes.
pub(crate) fn execute<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::generic(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        // Dropping a command that is cut short ends its child processes and removes its files (CLI-10). The
        // second signal finds no handler that waits.
        tokio::select! {
            biased;
            ended = command => ended,
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
