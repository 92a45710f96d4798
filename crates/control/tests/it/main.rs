//! The controller from outside: against an API server in the process, repositories in memory and a clock that
//! stands still while something is to be done.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests count as no tests"
)]

mod cluster_secrets;
mod concerned;
mod fleet;
mod foreign;
mod frozen;
mod generated;
mod health;
mod hydrated;
mod ignored;
mod impersonation;
mod install;
mod large_values;
mod lease;
mod noticing;
mod orphans;
mod outside;
mod plugins;
mod providers;
mod pushes;
mod renderings;
mod resources;
mod revisions;
mod rights;
mod scrapes;
mod sent;
mod sets;
mod settings;
mod signatures;
mod support;
mod unlisted;
mod unrendered;
mod updates;
mod visible;
mod world;
