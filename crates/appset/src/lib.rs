//! Computes which Applications should exist and in which order they may change or go (ASET).
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
pub mod params;
pub mod pathspec;
pub mod permission;
pub mod reconcile;
pub mod rollout;
pub mod scope;
pub mod selector;
pub mod slug;
pub mod status;
pub mod template;
pub mod text;
pub mod validate;
pub mod webhook;
