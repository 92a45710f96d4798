//! The first act of a child: it binds itself to its limits and becomes the program that was wanted (STY-113).
//!
//! The standard library has no safe way to do something between fork and exec. So our own program stands in between:
//! it is started as `tiphys launch LIMITS PROGRAM ARGUMENT…`, in the environment and the directory of the program,
//! reads nothing, sets limits on itself and is replaced by the program, which has never run without them.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use crate::{ExecError, Limits};

/// The verb of our program that calls [`launch`].
pub const VERB: &str = "launch";
/// Exit code where the program did not start, as shells have it.
pub(crate) const NOT_STARTED: u8 = 127;
/// Begins what is said then; a number of the system follows.
const NOT_LIMITED: &str = "tiphys launch: cannot limit: ";
const NOT_FOUND: &str = "tiphys launch: cannot start: ";

static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();

/// From now on every child starts through this program, which passes what follows [`VERB`] to [`launch`]. Without it,
/// which is for tests of libraries, limits are set from outside, right after the start.
pub fn launch_through(program: PathBuf) {
    // Whoever was first stays: it is the same program.
    drop(LAUNCHER.set(program));
}

/// Binds this process to limits and becomes the program: both are in the words behind [`VERB`]. Returns only when it
/// cannot.
pub fn launch(words: &[OsString]) -> ExitCode {
    let [limits, program, arguments @ ..] = words else { return fail(NOT_LIMITED, None) };
    let Some(limits) = limits.to_str().and_then(Limits::of_word) else { return fail(NOT_LIMITED, None) };
    #[expect(clippy::disallowed_methods, reason = "this crate is the place where children start")]
    let mut command = Command::new(program);
    command.args(arguments);
    // Nothing is allocated from here on.
    match limits.bind(None) {
        Ok(()) => fail(NOT_FOUND, command.exec().raw_os_error()),
        Err(error) => fail(NOT_LIMITED, error.raw_os_error()),
    }
}

fn fail(what: &str, number: Option<i32>) -> ExitCode {
    // Nobody may be there to read it.
    drop(writeln!(std::io::stderr(), "{what}{}", number.unwrap_or_default()));
    ExitCode::from(NOT_STARTED)
}

/// What is started for a program, and the words before its arguments; whether it binds itself to its limits.
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) words: Vec<OsString>,
    pub(crate) is_bound: bool,
}

impl Start {
    pub(crate) fn of(program: &Path, limits: &Limits) -> Self {
        match LAUNCHER.get() {
            Some(launcher) => {
                let words = vec![VERB.into(), limits.word().into(), program.into()];
                Self { program: launcher.clone(), words, is_bound: true }
            }
            None => Self { program: program.to_owned(), words: Vec::new(), is_bound: false },
        }
    }
}

/// Why the program did not start, where [`launch`] said so.
pub(crate) fn failure(code: Option<i32>, stderr: &str) -> Option<ExecError> {
    if code != Some(NOT_STARTED.into()) || LAUNCHER.get().is_none() {
        return None;
    }
    let error = |number: &str| number.trim_end().parse().ok().map(std::io::Error::from_raw_os_error);
    if let Some(number) = stderr.strip_prefix(NOT_FOUND) {
        return error(number).map(ExecError::Start);
    }
    error(stderr.strip_prefix(NOT_LIMITED)?).map(ExecError::Limit)
}
