//! Computes which Applications should exist and in which order they may change or go (ASET).
//!
//! A set names generators and a template. Everything that is decided about it is here, as functions of facts:
//!
//! ```text
//!            facts            live Applications
//!              │                     │
//! set ──▶ generate ──▶ validate ──▶ reconcile::plan ──▶ (writes) ──▶ reconcile::conclude ──▶ status
//!                                      │
//!                                   rollout (who may sync)      deletion (who may go)
//! ```
//!
//! - [`facts`]: the questions that a generation has, and who answers them. A question without an answer stops it, one
//!   that failed fails it, and neither is ever an empty list (INV-8).
//! - [`generate`], with [`generator`], [`template`], [`selector`], [`params`]: sets of parameters, and Applications of
//!   them. [`pathspec`] and [`slug`] are the small languages that belong to it.
//! - [`scope`], [`references`], [`validate`]: what a set may read and make.
//! - [`reconcile`], with [`compare`] and [`status`]: what one pass writes, and what it says of itself.
//! - [`rollout`] and [`deletion`]: state machines over what is stored, which any controller can go on with.
//! - [`webhook`], [`permission`], [`preview`], [`stale`]: whom a push concerns, what the API answers, and what it warns of.
//!
//! Deliberately absent: clocks, requests, and the clients of Git, plugins and providers. The controller, the command
//! line, `tiphys eval` and tests bring them.

mod canonical;
pub mod compare;
pub mod deletion;
pub mod events;
pub mod facts;
#[cfg(test)]
mod fixtures;
pub mod generate;
pub mod generator;
pub mod live;
pub mod lost;
pub mod params;
pub mod pathspec;
pub mod permission;
pub mod preview;
pub mod reconcile;
pub mod references;
pub mod rollout;
pub mod scope;
pub mod selector;
pub mod slug;
pub mod stale;
pub mod status;
pub mod template;
pub mod text;
pub mod validate;
pub mod webhook;
pub mod work;
