//! Texts that a person changes in their editor (CLI-106, CLI-422, CLI-700).

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;
use tiphys_go::shlex;
use tiphys_source::exec::{self, Invocation};

use crate::failure::Failure;
use crate::terminal::{Terminal, read_file};

/// The editor where nobody names one (CLI-106).
const EDITOR: &str = "vi";
/// The failure of an edit that changes nothing (CLI-422).
pub(crate) const CANCELLED: &str = "edit cancelled, no valid changes were saved";

/// What somebody makes of a text in their editor, without the lines that are ignored.
pub(crate) async fn edited(
    terminal: &Terminal,
    introduction: &str,
    text: &str,
    error: &str,
) -> Result<String, Failure> {
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
