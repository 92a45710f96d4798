//! Computes which Applications should exist and in which order they may change or go (ASET).
pub mod facts;
pub mod params;
pub mod pathspec;
pub mod selector;
pub mod slug;
