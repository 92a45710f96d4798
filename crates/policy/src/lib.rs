//! Answers "may they?" and "may it now?": what a project permits, and when a sync may run.
//!
//! [`project`] decides about sources, destinations, kinds, namespaces and accounts, and validates projects;
//! [`permit`] turns their answer into the proof that a change to one object is allowed; [`window`] decides about
//! sync windows; [`rbac`] decides what an account may do; [`signature`] whether signatures are enough; [`spec_check`] puts the checks of an Application's spec in order.
//! All of it is pure: the caller brings the Secrets, the settings and the time.

pub mod pattern;
pub mod permit;
pub mod project;
pub mod rbac;
pub mod signature;
pub mod spec_check;
pub mod window;

/// An answer with the text the product shows for a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is permitted.
    pub permitted: bool,
    /// Why not; `None` when permitted.
    pub message: Option<String>,
}

impl Decision {
    /// Yes.
    pub fn permitted() -> Self {
        Self { permitted: true, message: None }
    }

    /// No, because.
    pub fn denied(message: impl Into<String>) -> Self {
        Self { permitted: false, message: Some(message.into()) }
    }

    /// Yes, or no with the message.
    pub fn when(permitted: bool, message: impl FnOnce() -> String) -> Self {
        if permitted { Self::permitted() } else { Self::denied(message()) }
    }
}
