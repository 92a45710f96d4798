//! Compares desired with live, judges health, plans a sync step, builds the resource tree.

pub mod actions;
pub mod app_health;
pub mod compare;
pub mod defaults;
pub mod deletion;
pub mod diff;
pub mod health;
pub mod hook;
mod lua;
pub mod mask;
pub mod normalize;
pub mod scripts;
pub mod seen;
pub mod sync;
pub mod tracking;
pub mod tree;
pub mod updates;
