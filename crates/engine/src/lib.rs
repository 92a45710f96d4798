//! Compares desired with live, judges health, plans a sync step, builds the resource tree.

pub mod health;
pub mod hook;
pub mod sync;
