//! A modelled cluster for `engine.sync_plan` (EVAL-605).

use serde_json::Value;

/// Why an input is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A member is missing or of the wrong type.
    #[error("{path}: {problem}")]
    Input {
        /// Path of the member.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// Runs the sync engine against the modelled cluster of `input` until the operation completes.
///
/// # Errors
/// When the input is malformed.
pub fn run(input: &Value) -> Result<Value, ModelError> {
    let _ = input;
    Err(ModelError::Input { path: String::new(), problem: "not modelled".to_owned() })
}
