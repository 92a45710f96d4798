//! The functions of Helm 4.3 (RND-196), and how it words errors.

mod convert;
mod durations;
mod engine;
mod toml_read;
mod toml_write;
mod words;

use super::functions::Function;
pub use words::{describe_execution, describe_parse, without_no_value};

/// Helm's own functions, by topic.
pub(super) fn tables() -> [&'static [Function]; 3] {
    [engine::FUNCTIONS, convert::FUNCTIONS, durations::FUNCTIONS]
}

/// Conversions of application sets (ASET-108): YAML that fails where it is wrong.
pub(super) fn application_set() -> &'static [Function] {
    convert::STRICT
}
