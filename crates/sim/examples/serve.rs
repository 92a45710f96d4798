//! Serves an empty embedded API server, for trying clients on it.
//!
//! `serve [--port N] KUBECONFIG` writes a kubeconfig and serves until it is stopped; with `-- COMMAND…` behind it
//! the command runs with `KUBECONFIG` and `TIPHYS_TEST_KUBECONFIG` set, and its exit code is that of the program.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::allow_attributes,
    reason = "a tool of developers"
)]

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let command =
        words.iter().position(|word| word == "--").map(|at| words.split_off(at)).unwrap_or_default();
    let port =
        words.iter().position(|word| word == "--port").map(|at| words.drain(at..at + 2).next_back().unwrap());
    let [path] = words.as_slice() else {
        eprintln!("serve [--port N] KUBECONFIG [-- COMMAND…]");
        return ExitCode::from(2);
    };
    let sim = tiphys_sim::Sim::new(tiphys_sim::Options::default()).unwrap();
    let address = format!("127.0.0.1:{}", port.as_deref().unwrap_or("0")).parse().unwrap();
    let server = tiphys_sim::Server::start(sim, address).await.unwrap();
    std::fs::write(path, server.kubeconfig()).unwrap();
    if let Some([program, arguments @ ..]) = command.get(1..) {
        let status = tokio::process::Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", path)
            .env("TIPHYS_TEST_KUBECONFIG", path)
            .env("TIPHYS_TEST_CLUSTER", "embedded")
            .status()
            .await
            .unwrap();
        ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
    } else {
        eprintln!("serving at {}; export KUBECONFIG={path}", server.address());
        std::future::pending().await
    }
}
