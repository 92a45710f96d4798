//! Runs the controller: keeps every Application's cluster equal to its sources.
//!
//! [`Controller`] is the whole thing: it follows Applications, projects, settings and the live objects of the
//! destination clusters, and works on one application at a time per worker. What to do is decided by pure
//! functions ([`decide`], and the engine); this crate gathers the facts, carries the answers out and writes
//! the status. [`webhook`] reads pushes, [`http`] serves health, metrics and webhooks.

mod affected;
mod clusters;
mod compare;
mod context;
mod controller;
pub mod decide;
mod deletion;
mod events;
mod execute;
mod gate;
pub mod http;
mod lease;
mod memory;
pub mod metrics;
mod operate;
mod pass;
mod persist;
mod projects;
mod pushes;
pub mod queue;
mod rendering;
mod scripts;
mod store;
mod surroundings;
mod targets;
mod trickle;
mod updates;
pub mod webhook;
mod world;

pub use controller::{Controller, ControllerOptions, Sizes, StartError};
pub use scripts::Interpreters;
pub use surroundings::{Compute, Random, Surroundings};
