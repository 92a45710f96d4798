//! Runs the controller: keeps every Application's cluster equal to its sources.
//!
//! [`Controller`] is the whole thing: it follows Applications and their sets, projects, settings and the live objects of
//! the destination clusters, and works on one of them at a time per worker. What to do is decided by pure
//! functions (`tiphys-lifecycle`, `tiphys-engine` and `tiphys-appset`); this crate gathers the facts, carries the answers out and writes
//! the status ([`reconcile`]). [`http`] serves health, metrics and webhooks.

mod affected;
mod app_key;
mod applications;
mod cluster_labels;
mod clusters;
mod context;
mod control_plane;
mod controller;
mod event_writer;
mod events;
mod gate;
mod histogram;
pub mod http;
mod hydration;
mod installation_id;
mod intake;
mod lease;
mod memory;
pub mod metrics;
mod monitors;
mod projects;
mod push_looks;
mod pushes;
pub mod queue;
mod reconcile;
mod rendering;
mod scheduler;
mod scripts;
mod sets;
mod settings_watch;
mod store;
mod surroundings;
mod targets;
mod trickle;
mod updates;
mod world;

// What tests of whole controllers stand on serves the rounds' tests, too.
#[cfg(test)]
extern crate self as tiphys_control;
#[cfg(test)]
#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "some of it serves whole controllers only")]
mod support;

pub use control_plane::StartError;
pub use controller::{Controller, ControllerOptions, Sizes};
pub use reconcile::predicted::AskedPair;
pub use reconcile::shown::ShowError;
pub use scripts::Interpreters;
pub use surroundings::{Compute, Random, Surroundings};
pub use tiphys_generation::services;
