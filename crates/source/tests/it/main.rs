//! Real repositories, served from disk, over smart HTTP and over SSH.

mod cache;
mod git_http;
mod http;
mod local;
mod ssh;
mod world;
