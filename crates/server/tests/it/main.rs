//! The transports, over real connections on loopback.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests count as no tests"
)]

mod applications;
mod bodies;
#[path = "../../../oidc/testing/double.rs"]
mod double;
mod extensions;
mod grpc;
mod hidden;
mod home;
mod identity;
mod listener;
mod logs;
mod pages;
mod previews;
mod repositories;
mod rest;
mod scopes;
mod security;
mod services;
mod sso;
mod strangers;
mod streams;
mod support;
mod terminal;
mod watches;
