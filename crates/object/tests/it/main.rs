//! Golden families and properties of the object crate.

mod golden;
mod properties;
