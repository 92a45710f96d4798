//! Everything in this crate against the libraries it follows, and against itself.

mod bounds;
mod golden;
mod hostile;
mod properties;
mod template;
