//! Texts that a person changes in their editor (CLI-106, CLI-422, CLI-700).

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;
use tiphys_go::{shlex, yaml};
use tiphys_source::exec::{self, Invocation};

use crate::failure::Failure;
use crate::output::{Format, print};
use crate::terminal::{Terminal, read_file};

/// The editor where nobody names one (CLI-106).
const EDITOR: &str = "vi";
/// The failure of an edit that changes nothing (CLI-422).
pub(crate) const CANCELLED: &str = "edit cancelled, no valid changes were saved";

/// Why a text was not saved.
pub(crate) enum Refused {
    /// It is not valid, or not accepted: it is edited again.
    Text(Failure),
    /// Somebody else's change would be undone.
    Changed,
}

/// Lets somebody edit the spec of a thing, as `project shop`, until it is saved (CLI-422).
pub(crate) async fn edit_spec<S: Serialize + DeserializeOwned>(
    terminal: &Terminal,
    (what, name): (&str, &str),
    read: &S,
    save: impl AsyncFn(S) -> Result<(), Refused>,
) -> Result<(), Failure> {
    let introduction = format!(
        "# Please edit the spec of the {what} below. Lines that begin with '#' are ignored,\n\
         # and an empty file cancels the edit. If an error occurs while saving, this file is\n\
         # opened again with the error.\n#\n"
    );
    let value = serde_json::to_value(read).map_err(|error| Failure::generic(error.to_string()))?;
    let mut before = print(&value, Format::Yaml)?;
    let mut error = String::new();
    loop {
        let after = edited(terminal, &introduction, &before, &error).await?;
        if after.trim().is_empty() || after == before {
            return Err(Failure::generic(CANCELLED));
        }
        let saved = match spec_of(&after) {
            Ok(spec) => save(spec).await,
            Err(failure) => Err(Refused::Text(failure)),
        };
        match saved {
            Ok(()) => return Ok(()),
            Err(Refused::Text(failure)) => error = failure.message,
            Err(Refused::Changed) => {
                let text = format!("{what} {name} was changed by somebody else meanwhile; nothing was saved");
                return Err(Failure::status("Aborted", text).hint("edit it again"));
            }
        }
        before = after;
    }
}

fn spec_of<S: DeserializeOwned>(text: &str) -> Result<S, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::generic(error.to_string());
    let value = yaml::parse(text, yaml::Dialect::Sigs, &yaml::Limits::default()).map_err(|e| failed(&e))?;
    serde_json::from_value(value.unwrap_or_default()).map_err(|error| failed(&error))
}

/// What somebody makes of a text in their editor, without the lines that are ignored.
async fn edited(terminal: &Terminal, introduction: &str, text: &str, error: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::generic(format!("cannot write the file to edit: {error}"));
    // Nobody else may read it: a project has tokens and policies, an application its values.
    let mut file =
        tempfile::Builder::new().prefix("argocd-edit-").suffix(".yaml").tempfile().map_err(failed)?;
    let mut shown = introduction.to_owned();
    for line in error.lines() {
        shown.extend(["# error: ", line, "\n"]);
    }
    shown.push_str(text);
    file.write_all(shown.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
    open(terminal, &file).await?;
    let written = read_file(&file.path().to_string_lossy())?;
    let kept = written.lines().filter(|line| !line.starts_with('#'));
    Ok(kept.flat_map(|line| [line, "\n"]).collect())
}

async fn open(terminal: &Terminal, file: &NamedTempFile) -> Result<(), Failure> {
    let configured = terminal.variable("EDITOR");
    let words = shlex::split(configured).map_err(|error| Failure::generic(format!("EDITOR: {error}")))?;
    let (program, arguments) = match words.split_first() {
        Some((program, arguments)) => (program.as_str(), arguments),
        None => (EDITOR, &[][..]),
    };
    let mut all: Vec<OsString> = arguments.iter().map(Into::into).collect();
    all.push(file.path().into());
    let invocation = invocation(terminal, program.into(), all);
    match exec::with_terminal(&invocation).await {
        Ok(Some(0)) => Ok(()),
        Ok(_) => Err(Failure::generic(format!("{program} failed; nothing was saved"))),
        Err(error) => {
            let text = format!("{program}: {}", tiphys_cluster::error_chain(&error));
            Err(Failure::generic(text).hint("set EDITOR to an editor"))
        }
    }
}

/// A program on the terminal of this command, with its environment: a person decides how long it takes, and nothing of it
/// is read.
pub(crate) fn invocation(terminal: &Terminal, program: PathBuf, arguments: Vec<OsString>) -> Invocation {
    let invocation = Invocation {
        program,
        arguments,
        environment: terminal.env.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        directory: std::env::current_dir().unwrap_or_else(|_gone| Path::new("/").to_owned()),
        deadline: Duration::ZERO,
        grace: Duration::ZERO,
        stdout_bytes_max: 0,
        limits: exec::Limits::default(),
    };
    invocation.at_terminal()
}
