//! One pass of a sync: facts in, actions out, results back (ENG section 9).
//!
//! A sync is re-entrant. Each pass rebuilds its task list from the original manifests of the operation, merges
//! in the results recorded so far, performs at most one step (one phase and wave), and ends with new results.
//! Nothing but the recorded results carries state between passes.
//!
//! The shell drives a pass without deciding anything:
//!
//! 1. gather [`SyncFacts`] at one instant and call [`Pass::start`];
//! 2. call [`Pass::next`], first with no outcomes. [`Step::Do`] names actions to run concurrently, each
//!    answered with one [`Outcome`] in the same order; [`Step::Finish`] ends the pass;
//! 3. record the results, and start the next pass while the phase is `Running`.
//!
//! Order ([`order`]) and texts ([`message`]) are separate from the machine; [`model`] drives the same machine
//! against a cluster made of JSON.

mod action;
mod build;
mod facts;
pub mod message;
pub mod model;
mod options;
pub mod order;
mod pass;
mod run;
mod task;

pub use action::{Action, Op, OperationPhase, Outcome, PassEnd, Propagation, Step};
pub use facts::{Cluster, Served, SyncFacts, SyncPair};
pub use pass::Pass;
pub use task::operation_id;

pub use crate::hook::{HookDeletePolicy, HookType, SyncPhase, Wave};
