//! `tiphys demo` as a newcomer meets it: the real process, spoken to through its Git server, its kubeconfig,
//! its verbs and its signals.
//!
//! Each test has a temporary directory of its own in the place of the system's, so that demos of other tests
//! and of the user are out of sight.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests count as no tests"
)]

// One client and one git for all end-to-end tests; not all of it is needed here.
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the end-to-end tests")]
#[path = "../e2e/api.rs"]
mod api;
mod components;
mod dex;
mod directory;
mod git_server;
mod person;
mod process;
mod scenarios;
mod server_apps;
mod server_groups;
mod server_mode;
mod story;
