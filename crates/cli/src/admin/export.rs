//! `admin export`: the objects of an installation as one file (CLI-901).

use std::path::Path;

use tiphys_api::names::SETTINGS_CONFIG_MAP;

use super::backup::{NAMESPACES, Part, Places};
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::outfile;
use crate::output::{Format, print};
use crate::session::{self, Ended, OK, Session};
use crate::terminal::{Terminal, io_text};

const FLAGS: &[Flag] = &[flag("out", Kind::Text, "-", "File to write instead of standard output").or('o')];

/// The command.
pub(super) const COMMAND: Command<()> = Command::new(
    (),
    ("export", ""),
    "Write all objects of the installation to standard output or a file",
    &[FLAGS, NAMESPACES],
    (0, usize::MAX),
);

/// Runs the command and says the exit code.
pub(super) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("admin", &COMMAND), async |session, ()| {
        Box::pin(export(session)).await
    })
}

async fn export(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect_to_cluster().await?;
    let places = Places::of(&core, session.flags).await?;
    // Nothing is written before everything was read: half a backup looks like a whole one.
    let objects = places.objects(&core).await?;
    if objects.is_empty() {
        let text = format!("there is no installation in namespace {:?}: nothing to export", places.namespace);
        return Err(Failure::generic(text).hint("name its namespace with `-n NAMESPACE`"));
    }
    let is_settings = |(part, name): (Part, &str)| part == Part::ConfigMap && name == SETTINGS_CONFIG_MAP;
    if !objects.iter().any(|(part, object)| is_settings((*part, object.name()))) {
        let namespace = &places.namespace;
        session.warn(&format!("there is no ConfigMap {SETTINGS_CONFIG_MAP} in namespace {namespace}"));
    }
    let path = session.flags.text("out");
    let mut file = String::new();
    for (_, object) in &objects {
        let text = print(&places.document(object)?, Format::Yaml)?;
        if path == "-" {
            session.terminal.data(&text);
            session.terminal.data(SEPARATOR);
        } else {
            file.push_str(&text);
            file.push_str(SEPARATOR);
        }
    }
    if path != "-" {
        // It has every secret of the installation in it, and takes the place of the last one as a whole.
        outfile::replace_private(Path::new(path), file.as_bytes())
            .map_err(|error| Failure::generic(format!("open {path}: {}", io_text(&error))))?;
    }
    Ok(OK)
}

/// Ends a document.
const SEPARATOR: &str = "---\n";
