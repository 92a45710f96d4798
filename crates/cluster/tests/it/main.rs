//! The crate against a real API server, named by `TIPHYS_TEST_KUBECONFIG`; without it every test says so and passes.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests count as no tests"
)]

mod index;
mod measure;
mod support;
mod write;
