//! The functions of Helm 4.3 (RND-196), and how it words errors.

mod engine;
mod words;

use super::functions::Function;
pub use words::{describe_execution, describe_parse, without_no_value};

/// Helm's own functions, by topic.
pub(super) fn tables() -> [&'static [Function]; 1] {
    [engine::FUNCTIONS]
}
