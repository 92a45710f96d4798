//! Events on a set.

/// An event on a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is a warning.
    pub is_warning: bool,
    /// Reason, for machines.
    pub reason: String,
    /// Text for people.
    pub message: String,
}

impl Event {
    /// Something that is as it should be.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason: reason.to_owned(), message: message.into() }
    }

    /// Something that is not.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason: reason.to_owned(), message: message.into() }
    }

    /// The type of Kubernetes.
    pub fn kind(&self) -> &'static str {
        if self.is_warning { "Warning" } else { "Normal" }
    }
}
