//! Why there is no value.

use crate::memory::Exceeded;
use crate::steps::TooManySteps;
use crate::time::TimeError;
use std::fmt;

/// What is wrong with an expression or its evaluation, and where in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault} ({line}:{column})")]
pub struct ExprError {
    /// What is wrong.
    pub fault: Fault,
    /// Line of the expression, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The text is no expression, or one that can be seen to fail always.
    #[error("{0}")]
    Expression(String),
    /// A value is not what an operation needs.
    #[error("{0}")]
    Value(String),
    /// The expression is longer than [`super::EXPRESSION_BYTES_MAX`].
    #[error("expression has more than {} bytes", super::EXPRESSION_BYTES_MAX)]
    Length,
    /// The expression has too many parts.
    #[error("compilation failed: expression exceeds maximum allowed nodes")]
    Nodes,
    /// Expressions or values are nested too deeply.
    #[error("nested too deeply")]
    Depth,
    /// The expression has too many regular expressions.
    #[error("expression has more than {} regular expressions", super::PATTERNS_MAX)]
    Patterns,
    /// Values take more memory than an evaluation may have.
    #[error("memory budget exceeded")]
    Memory,
    /// The evaluation takes more steps than it may.
    #[error("the evaluation takes more than {limit} steps")]
    Steps {
        /// The limit.
        limit: u64,
    },
}

impl Fault {
    /// Puts the fault where it occurred.
    pub(super) fn at(self, text: &str, place: Place) -> ExprError {
        let before = text.get(..place.0.min(text.len())).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or(before);
        ExprError { fault: self, line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

impl From<TooManySteps> for Fault {
    fn from(many: TooManySteps) -> Self {
        Self::Steps { limit: many.limit }
    }
}

impl From<Exceeded> for Fault {
    fn from(_exceeded: Exceeded) -> Self {
        Self::Memory
    }
}

impl From<TimeError> for Fault {
    fn from(error: TimeError) -> Self {
        Self::Value(error.to_string())
    }
}

/// A place in the text of an expression: bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place(pub(super) usize);

/// A fault of an expression with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misplaced {
    pub(super) fault: Fault,
    pub(super) place: Place,
}

impl Misplaced {
    pub(super) fn new(place: Place, text: impl fmt::Display) -> Self {
        Self { fault: Fault::Expression(text.to_string()), place }
    }
}
