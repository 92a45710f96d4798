//! Real repositories, served from disk, over smart HTTP and over SSH.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    reason = "a test may panic"
)]

mod cache;
mod charts;
mod checkout;
mod direct;
mod escape;
mod git_http;
mod http;
mod hydrate;
mod lfs;
mod local;
mod modules;
mod poisoned;
mod proxies;
mod reach;
mod registry;
mod signatures;
mod signer;
mod ssh;
mod ssh_server;
mod tokens;
mod told;
mod trust;
mod web_server;
mod world;
