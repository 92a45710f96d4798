//! Bounds.
