//! Everything in this crate against the libraries it follows, and against itself.

mod golden;
mod properties;
