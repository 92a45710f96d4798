//! How much a message may become, and why one is refused.

/// How much a message may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Values of all kinds. An empty message in a list takes two bytes and becomes a value, so that the number of
    /// bytes alone bounds nothing.
    pub values: usize,
}

impl Default for Limits {
    /// Enough for what a client sends.
    fn default() -> Self {
        Self { values: 500_000 }
    }
}

/// Why bytes are not the message that they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They are no message at all.
    #[error("{message}: {reason}")]
    Malformed {
        /// The message.
        message: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// A field has a value of another type.
    #[error("{message}.{field}: wrong wire type")]
    WireType {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A text is no UTF-8.
    #[error("{message}.{field}: invalid UTF-8")]
    Text {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A value is outside of what JSON can say.
    #[error("{message}.{field}: {reason}")]
    Value {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// There are too many values.
    #[error("message has too many values")]
    TooMany,
    /// The caller has no memory for more of it.
    #[error("message takes too much memory")]
    NoRoom,
}
