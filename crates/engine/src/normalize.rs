//! Which differences do not count?
//!
//! [`IgnoreRules`] are compiled once from the application's `ignoreDifferences` and the system settings
//! (ENG-64..69), then applied to each document of a comparison. jq expressions are checked here too: one that does
//! not compile is an error of the comparison, one that fails on an object leaves that object unchanged, and one that
//! was stopped is remembered besides ([`IgnoreRules::stopped`]).
//!
//! The same rules serve `RespectIgnoreDifferences`: [`IgnoreRules::restore_ignored`] gives a desired object the
//! live values of ignored paths before it is applied (ENG-181).

mod jq;
mod managed;
mod options;
mod overrides;
mod pointer;
mod restore;
mod rules;
mod select;

pub use jq::{JqPath, JqSyntaxError, PathStep, delete_paths};
pub use options::{CompareOptions, StatusField};
pub use rules::{IgnoreError, IgnoreRules};
