//! How a request fails: a code, the product's text, and sometimes a finer reason.

use serde_json::{Map, Value};
use std::fmt;

/// The class of a failure: the protocol's own, then gRPC's names (EVAL-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The line is not a request.
    BadRequest,
    /// There is no such operation.
    UnknownOp,
    /// A member is missing, has the wrong JSON type, or is unknown where that is checked.
    InvalidInput,
    /// The line is longer than allowed.
    TooLarge,
    /// The operation ran longer than allowed.
    Timeout,
    /// The operation crashed.
    Internal,
    /// The product would reject a value.
    InvalidArgument,
    /// Something named in the input does not exist.
    NotFound,
    /// Something named in the input exists already.
    AlreadyExists,
    /// The caller may not do this.
    PermissionDenied,
    /// The world given in the input does not allow the call.
    FailedPrecondition,
    /// A value lies outside what can be answered.
    OutOfRange,
    /// The product does not do this.
    Unimplemented,
    /// A budget ran out.
    ResourceExhausted,
    /// Something outside failed.
    Unavailable,
    /// Any other failure.
    Unknown,
}

impl Code {
    /// The code as answers spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::UnknownOp => "UnknownOp",
            Self::InvalidInput => "InvalidInput",
            Self::TooLarge => "TooLarge",
            Self::Timeout => "Timeout",
            Self::Internal => "Internal",
            Self::InvalidArgument => "InvalidArgument",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::Unavailable => "Unavailable",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether the request failed before or beside the operation, so that no product would give this answer.
    pub fn is_protocol(self) -> bool {
        matches!(
            self,
            Self::BadRequest
                | Self::UnknownOp
                | Self::InvalidInput
                | Self::TooLarge
                | Self::Timeout
                | Self::Internal
        )
    }
}

/// The error of one answer. Prints as `<code>: <message>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The class of the failure.
    pub code: Code,
    /// The product's text.
    pub message: String,
    /// A finer class for programs, where the operation lists some.
    pub reason: Option<String>,
    /// The line of a request that could not be read, from 1.
    pub line: Option<u64>,
}

impl Fault {
    /// A failure with nothing but its code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reason: None, line: None }
    }

    /// A value that the product would reject.
    pub(super) fn invalid(message: impl fmt::Display) -> Self {
        Self::new(Code::InvalidArgument, message.to_string())
    }

    /// Something that is not there.
    pub(super) fn not_found(message: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, message.to_string())
    }

    /// Adds the finer class.
    #[must_use]
    pub(super) fn with_reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Adds the line it was read from.
    #[must_use]
    pub(super) fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// The `error` member of an answer.
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("code".into(), self.code.as_str().into());
        members.insert("message".into(), self.message.clone().into());
        if let Some(reason) = &self.reason {
            members.insert("reason".into(), reason.clone().into());
        }
        if let Some(line) = self.line {
            members.insert("line".into(), line.into());
        }
        Value::Object(members)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code.as_str(), self.message)
    }
}
