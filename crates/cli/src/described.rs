//! An installation that a file describes, where a set is generated without a server and without a cluster (ASET-305).
//!
//! Such a description is read by whoever answers `tiphys eval appset.generate`, so that there is one reader and one
//! meaning of it. Here is what a command asks of it.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use tiphys_appset::facts::Facts;
use tiphys_appset::generate::Request;
use tiphys_appset::permission::Refusal;

/// A set, and the installation that it is generated in.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The set, as it is written.
    pub set: Value,
    /// The description.
    pub inputs: Value,
    /// Where paths of the description begin.
    pub folder: PathBuf,
    /// What templates take for the time, where the description says none.
    pub now: Timestamp,
}

/// A description that was read.
pub trait Described {
    /// Asks with the request that the set is, and the facts of the description.
    fn ask(&self, ask: &mut dyn FnMut(&Request<'_>, &dyn Facts));

    /// What a question would have needed beyond the description.
    fn lacking(&self) -> Option<String>;

    /// What an API server would answer to the set; nothing where it would take it (ASET-280, ASET-300).
    fn refusal(&self) -> Option<Refusal>;
}

/// Reads a description.
///
/// # Errors
/// What is wrong with it, with the path of the member.
pub type Describe = fn(Subject) -> Result<Box<dyn Described>, String>;
