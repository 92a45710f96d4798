//! The controller from outside: against an API server in the process, repositories in memory and a clock that
//! stands still while something is to be done.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers of tests count as no tests")]

mod fleet;
mod frozen;
mod ignored;
mod install;
mod lease;
mod noticing;
mod revisions;
mod rights;
mod settings;
mod unrendered;
mod world;
