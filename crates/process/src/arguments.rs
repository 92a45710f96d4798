//! Arguments of the verbs that this program has itself.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// Reads arguments; a usage error or a help text is printed here, and its exit code returned.
///
/// # Errors
/// When there is nothing to carry out.
pub fn parse<T: Parser>(name: &str, args: &[OsString]) -> Result<T, ExitCode> {
    let words = std::iter::once(OsString::from(name)).chain(args.iter().cloned());
    T::try_parse_from(words).map_err(|error| {
        let code = if error.use_stderr() { 2 } else { 0 };
        // Nothing is to be done when the terminal is gone.
        drop(error.print());
        ExitCode::from(code)
    })
}
