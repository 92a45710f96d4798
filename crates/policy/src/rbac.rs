//! Role-based access: which account may do what with which object (API section 3).
//!
//! [`RbacConfig`] is `argocd-rbac-cm` as data, [`Rbac`] the same compiled: patterns once, rules by subject and by what
//! their objects begin with, so that a question looks at few of them. [`Rbac::caller`] takes the claims of a token;
//! the [`Caller`] answers one question ([`Caller::may`]), the same question about many objects ([`Caller::filter`]),
//! and the questions of the API that are more than one ([`Caller::can_i`], [`Caller::may_change`],
//! [`Caller::may_be_unscoped`]). [`Authorized`] is the proof that one was answered with yes.
//!
//! Subjects are judged one by one: what one group allows is not taken away by a `deny` for another (API-92). What each
//! project adds counts for requests about that project and nowhere else.
//!
//! Everything from outside has a bound: texts, lines, patterns, their memory, and the steps of one answer. An answer
//! that is not found within its steps is no.
//!
//! A policy that cannot be read is an error here; [`InForce`] keeps the last good one (API-89). Tokens, sessions and
//! the watch on the `ConfigMap` are the API server's.

mod authorized;
mod builtin;
mod can_i;
mod check;
mod config;
mod enforce;
mod in_force;
mod layer;
mod lines;
mod object;
mod pattern;
mod project;
mod spelling;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use authorized::{Authorized, Protected};
pub use can_i::{CanIError, ManagedResource, ResourceOperation, check_words};
pub use check::{PolicyReview, review};
pub use config::RbacConfig;
pub use enforce::{Caller, Filter, Rbac, RbacOptions, Request};
pub use in_force::InForce;
pub use lines::{
    LINE_BYTES_MAX, LineReason, POLICY_BYTES_MAX, POLICY_LINES_MAX, Place, PolicyError, PolicyProblem,
    PolicyRule, RoleLink,
};
pub use object::{Located, application_object, application_set_object, scoped_object};
pub use pattern::MatchMode;
pub(crate) use project::syntax;
pub use vocabulary::Resource;
