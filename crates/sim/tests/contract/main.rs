//! The contract suite: what a kube-apiserver answers, recorded, and asked of the embedded server.
//!
//! A case is a script of requests, watches, waits and `kubectl` commands in `cases/<area>/<name>.yaml`; what the
//! real server answered is in `<name>.answers.json` beside it, without what differs from run to run
//! ([`normal`]). The same script runs on both servers, in namespaces of its own. A difference is a bug of the
//! embedded server.
//!
//! - `TIPHYS_TEST_KUBECONFIG` names a real control plane; without it that side says so and passes.
//! - `TIPHYS_CONTRACT_RECORD=1` writes the answers of the real server instead of comparing them.
//! - `TIPHYS_CONTRACT_CASES=apply,watch/` selects the cases whose names contain one of these.
//! - `TIPHYS_CONTRACT_LINES=1000` shows more differences of each case than the first ones.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests count as no tests"
)]

mod case;
mod client;
mod compare;
mod kubectl;
mod normal;
mod run;
mod suite;
mod target;

use target::Target;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_server_answers_as_recorded() {
    suite::run(Target::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_server_answers_as_recorded() {
    if let Some(target) = Target::real() {
        suite::run(target).await;
    }
}

/// How long anything is waited for. What is waited for comes in a moment; a machine that is busy with other things
/// must not decide about a test.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_mins(5);
