//! `proj edit`: the spec of a project as a text in an editor (CLI-422, CLI-700).

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;
use tiphys_api::AppProject;
use tiphys_api::project::AppProjectSpec;
use tiphys_go::{shlex, yaml};
use tiphys_source::exec::{self, Invocation};

use super::work::Work;
use crate::failure::Failure;
use crate::output::{Format, print};
use crate::session::{Ended, OK, Session};
use crate::terminal::{Terminal, read_file};

/// What is above the text.
const INTRODUCTION: &str = "\
# Please edit the spec of the project below. Lines that begin with '#' are ignored,
# and an empty file cancels the edit. If an error occurs while saving, this file is
# opened again with the error.
#
";
/// The editor where nobody names one (CLI-106).
const EDITOR: &str = "vi";
const CANCELLED: &str = "edit cancelled, no valid changes were saved";

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let name = session.operand(0);
    let stored = work.project(name).await?;
    let value = serde_json::to_value(&stored.spec).map_err(|error| Failure::generic(error.to_string()))?;
    let mut before = print(&value, Format::Yaml)?;
    let mut error = String::new();
    loop {
        let after = edited(session.terminal, &before, &error).await?;
        if after.trim().is_empty() || after == before {
            return Err(Failure::generic(CANCELLED));
        }
        match save(&work, name, &stored, &after).await {
            Ok(()) => return Ok(OK),
            Err(Refused::Text(failure)) => error = failure.message,
            Err(Refused::Changed) => {
                return Err(Failure::status(
                    "Aborted",
                    format!("project {name} was changed by somebody else meanwhile; nothing was saved"),
                )
                .hint("edit it again"));
            }
        }
        before = after;
    }
}

/// Why a text was not saved.
enum Refused {
    /// It is not valid, or not accepted.
    Text(Failure),
    /// Somebody else's change would be undone.
    Changed,
}

async fn save(work: &Work, name: &str, read: &AppProject, text: &str) -> Result<(), Refused> {
    let spec = spec_of(text).map_err(Refused::Text)?;
    let is_changed = std::cell::Cell::new(false);
    let edit = |project: &mut AppProject| {
        if project.spec != read.spec {
            is_changed.set(true);
            return Err(Failure::generic(CANCELLED));
        }
        project.spec = spec.clone();
        Ok(true)
    };
    let saved = work.edit_project(name, edit).await;
    saved.map_err(|failure| if is_changed.get() { Refused::Changed } else { Refused::Text(failure) })
}

fn spec_of(text: &str) -> Result<AppProjectSpec, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::generic(error.to_string());
    let value = yaml::parse(text, yaml::Dialect::Sigs, &yaml::Limits::default()).map_err(|e| failed(&e))?;
    serde_json::from_value(value.unwrap_or_default()).map_err(|error| failed(&error))
}

/// What somebody makes of a text in their editor, without the lines that are ignored.
async fn edited(terminal: &Terminal, text: &str, error: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::generic(format!("cannot write the file to edit: {error}"));
    // Nobody else may read it: a project has tokens and policies.
    let mut file =
        tempfile::Builder::new().prefix("argocd-edit-").suffix(".yaml").tempfile().map_err(failed)?;
    let mut shown = INTRODUCTION.to_owned();
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
    let mut all: Vec<std::ffi::OsString> = arguments.iter().map(Into::into).collect();
    all.push(file.path().into());
    let invocation = Invocation {
        program: program.into(),
        arguments: all,
        environment: terminal.env.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        directory: std::env::current_dir().unwrap_or_else(|_gone| Path::new("/").to_owned()),
        // A person decides how long it takes, and nothing of it is read.
        deadline: Duration::ZERO,
        grace: Duration::ZERO,
        stdout_bytes_max: 0,
        limits: exec::Limits::default(),
    };
    match exec::with_terminal(&invocation.at_terminal()).await {
        Ok(Some(0)) => Ok(()),
        Ok(_) => Err(Failure::generic(format!("{program} failed; nothing was saved"))),
        Err(error) => {
            let text = format!("{program}: {}", tiphys_cluster::error_chain(&error));
            Err(Failure::generic(text).hint("set EDITOR to an editor"))
        }
    }
}
