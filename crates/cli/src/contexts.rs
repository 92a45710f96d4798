//! `context` and `configure` (CLI-212, CLI-213): the configuration file alone, without a server.

use crate::command::Command;
use crate::config_file::{self, Config, Editor};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, Ended, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const CONTEXT_FLAGS: &[Flag] = &[flag("delete", Kind::Bool, "false", "Remove the context")];
const CONFIGURE_FLAGS: &[Flag] = &[];

const CONTEXT: Command<()> =
    Command::new((), ("context", "[CONTEXT]"), "Show contexts, or choose one", &[CONTEXT_FLAGS], (0, 1));
const CONFIGURE: Command<()> =
    Command::new((), ("configure", ""), "Change local settings", &[CONFIGURE_FLAGS], (0, 0));

/// Runs `context` and says the exit code.
pub(crate) fn context(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("", &CONTEXT), async |session, ()| choose(session))
}

/// Runs `configure` and says the exit code.
pub(crate) fn configure(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("", &CONFIGURE), async |session, ()| set(session))
}

/// What the file says; nothing is made where there is none.
fn known(session: &Session<'_>) -> Result<Config, Failure> {
    let config = config_file::read(session.flags.text("config"), session.terminal);
    let none = || Failure::fatal("No local configuration found").hint("`login SERVER` makes one");
    config.map_err(|failure| Failure { code: 20, ..failure })?.ok_or_else(none)
}

fn choose(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let wanted = session.operand(0);
    if flags.is_on("delete") && wanted.is_empty() {
        return Ok(Ended::Help);
    }
    let config = known(session)?;
    if wanted.is_empty() {
        session.terminal.print(&table(&config));
        return Ok(OK);
    }
    let mut editor = Editor::open(flags.text("config"), session.terminal)?;
    // Somebody may have been faster.
    let config = editor.config.clone().unwrap_or(config);
    if flags.is_on("delete") {
        let found = config.contexts().find(|(name, _)| *name == wanted);
        let Some((_, server)) = found else {
            return Err(Failure::generic(format!("context {wanted} does not exist")));
        };
        editor.remove(wanted, server);
        editor.save()?;
        session.terminal.line(&format!("Context '{wanted}' deleted"));
        return Ok(OK);
    }
    let name = if wanted == "-" { editor.previous() } else { wanted.to_owned() };
    if config.current() == name {
        session.terminal.line(&format!("Already at context '{name}'"));
        return Ok(OK);
    }
    if !config.contexts().any(|(known, _)| known == name) {
        return Err(Failure::fatal(format!("Context '{name}' undefined")));
    }
    editor.set_current(&name);
    editor.remember(config.current())?;
    editor.save()?;
    session.terminal.line(&format!("Switched to context '{name}'"));
    Ok(OK)
}

fn table(config: &Config) -> String {
    let mut table = Table::new(&["CURRENT", "NAME", "SERVER"]);
    for (name, server) in config.contexts() {
        let mark = if name == config.current() { "*" } else { "" };
        table.row(vec![mark.to_owned(), name.to_owned(), server.to_owned()]);
    }
    table.print()
}

fn set(session: &Session<'_>) -> Result<Ended, Failure> {
    if !session.flags.is_set("prompts-enabled") {
        return Ok(Ended::Help);
    }
    known(session)?;
    let mut editor = Editor::open(session.flags.text("config"), session.terminal)?;
    let are_enabled = session.flags.is_on("prompts-enabled");
    editor.set_prompts(are_enabled);
    editor.save()?;
    session.terminal.line("Successfully updated the following configuration settings:");
    session.terminal.line(&format!("prompts-enabled: {are_enabled}"));
    Ok(OK)
}
