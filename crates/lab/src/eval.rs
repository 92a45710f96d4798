//! `tiphys eval`: one scriptable door to every decision the product makes without touching a cluster.
//!
//! A request names an operation (`tracking.owner`, `go.glob`) and gives its input as JSON; the answer is the decision or
//! the error the product would give. Requests come as JSON Lines on stdin ([`stream`]), from a file ([`document`]), one
//! at a time from the command line, or as policy tests with expectations ([`suite`]).
//!
//! - [`operation`]: the table row, the check of inputs against it, and how one request is evaluated.
//! - [`ops`]: the rows, one file per area. Each calls the function of layer 0 or 1 that server and controllers call;
//!   no decision is made here (EVAL-6).
//! - [`list`]: the table as a document with JSON Schemas.
//!
//! Deliberately absent: clusters, settings of the environment, child processes and the network (EVAL-5). Whatever a
//! request holds, the process goes on: a crash in an operation is an answer (`Internal`), and so is one that takes too
//! long (`Timeout`).

mod arguments;
mod document;
mod fault;
mod list;
mod matcher;
mod operation;
mod ops;
mod report;
mod shape;
mod stream;
mod suite;

use std::ffi::OsString;
use std::process::ExitCode;

pub use fault::{Code, Fault};
pub use list::catalogue;
pub use operation::{Input, Operation, Stability, Strictness, evaluate, find};
pub use ops::operations;
pub use shape::{Member, Need, Shape};
pub use stream::answer_line;

/// Reads the file of `appset generate --offline`, whose members are those of `appset.generate` (ASET-305).
///
/// # Errors
/// What is wrong with it.
pub fn describe(subject: tiphys_cli::Subject) -> Result<Box<dyn tiphys_cli::Described>, String> {
    ops::appset::describe(subject).map_err(|fault| fault.message)
}

/// Exit code of an error that is not an answer: unreadable input, a file that does not parse (EVAL-8).
const EXIT_ERROR: u8 = 20;

/// Runs `tiphys eval` with the arguments that follow the verb and returns its exit code (EVAL-8, EVAL-45).
pub fn run(args: &[OsString]) -> ExitCode {
    arguments::run(args)
}
