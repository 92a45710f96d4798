//! The data directory.

use std::path::Path;

use crate::state::State;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// It cannot be read or written.
    #[error("cannot use the data directory {path}: {problem}")]
    Unusable {
        /// The directory or file.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// Loads what a directory holds.
pub(crate) fn open(state: &mut State, directory: &Path) -> Result<(), DataError> {
    let _ = (state, directory);
    Ok(())
}
