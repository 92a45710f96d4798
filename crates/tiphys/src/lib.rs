//! The parts of the binary that its own tests reach without starting a process.
//!
//! [`eval`] is the scriptable door to every decision of the product, [`simulate`] runs whole installations from
//! seeds, [`rehearse`] the roll-out or deletion of one set. Everything else of the binary is wiring and lives in `main.rs`.

pub mod arguments;
pub mod eval;
pub mod rehearse;
pub mod simulate;
