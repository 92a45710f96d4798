//! Values that are called, and values with members of their own.

use super::Value;
use crate::expr::methods::Method;
use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;

/// What a caller of expressions registers under a name: in the environment, or in a namespace
/// ([`Value::namespace`]).
///
/// Closures of the right shape are functions.
///
/// ```
/// # use tiphys_go::expr::{Call, Environment, Program, Run, Value};
/// let greet = Value::function(|call: &mut Call<'_>| Ok(format!("hello {}", call.text(0)?).into()));
/// let environment = Environment::new().with("greet", greet)?;
/// let program = Program::new("greet('you')")?;
/// assert_eq!(program.run(&environment, &Run::default())?.to_string(), "hello you");
/// # Ok::<(), tiphys_go::expr::ExprError>(())
/// ```
pub trait Function: Send + Sync {
    /// Answers a call.
    ///
    /// # Errors
    /// The evaluation ends with the error.
    fn call(&self, call: &mut Call<'_>) -> Result<Value, CallError>;
}

impl<F: Fn(&mut Call<'_>) -> Result<Value, CallError> + Send + Sync> Function for F {
    fn call(&self, call: &mut Call<'_>) -> Result<Value, CallError> {
        self(call)
    }
}

/// A value of the caller's with fields and methods, such as `repo.GetCommitMetadata(sha)` gives.
pub trait Object: Send + Sync {
    /// What the type is called in errors and by `type`.
    fn type_name(&self) -> &str;

    /// A field, or a method as a function. What is not there is an error where it is asked for.
    fn member(&self, name: &str) -> Option<Value>;

    /// What is printed, or written as JSON: usually a map of the fields.
    fn shown(&self) -> Value {
        Value::Nil
    }
}

/// Why a function gives no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CallError(String);

impl CallError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<crate::expr::Fault> for CallError {
    fn from(fault: crate::expr::Fault) -> Self {
        Self(fault.to_string())
    }
}

/// One call of a function.
#[derive(Debug)]
pub struct Call<'c> {
    arguments: &'c [Value],
    now: Timestamp,
}

impl<'c> Call<'c> {
    pub(in crate::expr) fn new(arguments: &'c [Value], now: Timestamp) -> Self {
        Self { arguments, now }
    }

    /// The arguments.
    pub fn arguments(&self) -> &'c [Value] {
        self.arguments
    }

    /// The present time of this evaluation.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Refuses a call with another number of arguments.
    ///
    /// # Errors
    /// Says how many there should be.
    pub fn takes(&self, count: usize) -> Result<(), CallError> {
        if self.arguments.len() == count {
            return Ok(());
        }
        let given = self.arguments.len();
        Err(CallError(format!("invalid number of arguments: expected {count}, got {given}")))
    }

    /// An argument that has to be a text; nil is the empty one.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self, index: usize) -> Result<String, CallError> {
        match self.arguments.get(index) {
            None | Some(Value::Nil) => Ok(String::new()),
            Some(Value::Text(text)) => Ok(text.to_string()),
            Some(other) => Err(self.mistyped(other, "string")),
        }
    }

    /// The error of an argument of another type.
    pub fn mistyped(&self, given: &Value, wanted: &str) -> CallError {
        CallError(format!("reflect: Call using {} as type {wanted}", given.go_type()))
    }
}

/// Something to call.
#[derive(Clone)]
pub struct Callable(pub(in crate::expr) Called);

#[derive(Clone)]
pub(in crate::expr) enum Called {
    /// A method of a value.
    Method(Box<Value>, Method),
    /// What the caller registered.
    Custom(Arc<dyn Function>),
}

impl fmt::Debug for Callable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Called::Method(value, method) => write!(out, "{}.{}", value.go_type(), method.name),
            Called::Custom(_) => out.write_str("function"),
        }
    }
}

impl fmt::Debug for dyn Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.type_name())
    }
}
