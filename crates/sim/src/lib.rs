//! A Kubernetes API server inside the process, for demo, rehearsal and tests.
//!
//! What question does it answer: what would an API server say to this request, and what would then be in the
//! cluster? [`Sim`] is one server: a state that is only ever changed by requests, by the built-in controllers
//! (namespaces, garbage collection, simulated workloads) and by the passing of time. The core is pure: time
//! comes in through a [`Clock`], randomness through a seed, and no request waits for another. `kubectl` and Go
//! clients speak to it over TLS through [`Server`]; code in the same process may call [`Sim::handle`].
//!
//! The same contract suite (`tests/contract`) runs against this and against a real kube-apiserver; a difference
//! is a bug here. What is deliberately absent: CEL rules, admission and conversion webhooks, aggregated
//! API servers, quotas, answers in protobuf (bodies are read), and containers that really run. Whoever has the
//! token may do everything; a caller it impersonates may do what RBAC grants.

mod access;
mod admission;
mod answer;
mod books;
mod clock;
mod controllers;
mod crd;
mod defaults;
mod delete;
mod discovery;
mod dispatch;
mod fault;
#[cfg(test)]
mod golden;
mod last_applied;
mod logs;
mod openapi;
mod persist;
mod read;
mod request;
mod resource;
mod select;
mod server;
mod signal;
mod sim;
mod special;
mod state;
mod status;
mod store;
mod strategy;
mod strict;
mod table;
mod tree;
mod validate;
mod watch;
mod write;

pub use clock::{Clock, Rng};
pub use fault::{Fault, Faults};
pub use persist::DataError;
pub use server::Server;
pub use sim::{Body, Options, Sim, SimError};
pub use status::{Cause, FieldError, Status};
