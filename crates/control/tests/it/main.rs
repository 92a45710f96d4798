//! The controller from outside: against an API server in the process, repositories in memory and a clock that
//! stands still while something is to be done.

mod revisions;
mod world;
