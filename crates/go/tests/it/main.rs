//! Everything in this crate against the libraries it follows, and against itself.

mod bounds;
mod expr;
mod golden;
mod hostile;
mod properties;
mod template;
