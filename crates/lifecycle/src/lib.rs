//! Decides what an Application does next, as pure functions over values: when to compare ([`refresh`]), when to
//! sync by itself ([`autosync`]) or because somebody asks ([`request`]), how an operation goes on and ends
//! ([`operation`], [`attempt`]) and a deletion proceeds ([`finalizers`]), what the status becomes ([`refresh_status`],
//! [`status`]), how it is fitted into its object ([`fit`]) and how that is written ([`status_patch`]), what is hydrated and what is committed for that ([`hydration`]), and whom a
//! push concerns ([`webhook`]).
//!
//! Nothing here reads a clock or a cluster; the shells (controller, command line, `eval`, server) pass the time and
//! the facts, and carry out the answer.

pub mod attempt;
pub mod autosync;
pub mod brake;
pub mod finalizers;
pub mod fit;
#[cfg(test)]
mod fixtures;
pub mod hydration;
pub mod operation;
pub mod refresh;
pub mod refresh_status;
pub mod request;
pub mod status;
pub mod status_patch;
pub mod webhook;
