//! The verbs that need no cluster: they run the product, or parts of it, on what is in the process.
//!
//! [`eval`] is the scriptable door to every decision of the product, [`demo`] a working system around an embedded API server,
//! [`simulate`] runs whole installations from seeds, [`rehearse`] the roll-out or deletion of one set.

pub mod demo;
pub mod eval;
pub mod rehearse;
pub mod simulate;
