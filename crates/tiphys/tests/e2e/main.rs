//! The program end to end: `tiphys run` against a real control plane, named by `TIPHYS_TEST_KUBECONFIG`, with
//! Git repositories of each test's own. Without that variable every test says so and passes.
//!
//! A test has a control-plane namespace, destination namespaces and a process for itself; names carry the
//! test's name, so that tests run beside each other on one cluster.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests count as no tests"
)]

mod api;
mod bad_input;
mod births;
mod clusters;
mod core_mode;
mod crash;
mod crash_writes;
mod faults;
mod fixtures;
mod git;
mod guards;
mod hashed;
mod hooks;
mod hydrated;
mod impersonation;
mod main_job;
mod operations;
mod options;
mod orphans;
mod plugins;
mod program;
mod proxy;
mod rendered;
mod second;
mod sets;
mod shelves;
mod sshd;
mod tenants;
mod tiers;
mod tracking;
mod waves;
mod world;
