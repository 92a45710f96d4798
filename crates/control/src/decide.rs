//! The controller's decisions, as pure functions over values: when to look again, when to sync by itself,
//! how an operation goes on, what the status becomes.
//!
//! Nothing here reads a clock or a cluster; the shell passes the time and the facts and carries out the answer.

pub mod autosync;
pub mod operation;
pub mod refresh;
pub mod status;
