//! Expressions of expr-lang/expr 1.17.8: triggers of notifications and conditions of deep links.
//!
//! A [`Program`] is compiled once and run as often as one likes, with an [`Environment`] of values by name. No
//! environment is declared when an expression is compiled, so that unknown names are nil; what literals and functions
//! of the language give has types, which are checked before anything runs ([`Program::new`]), or not
//! ([`Program::unchecked`]).
//!
//! The way is that of the original, because it shows in results: text, tokens ([`token`]), a tree ([`parse`]), checks
//! ([`check`]), simplifications ([`optimize`]), steps ([`emit`]), and a machine with a stack ([`run`]).
//! Everything has a bound: the text, its parts and how deep they are nested; steps, bytes and depth of what is
//! computed. Nothing panics.
//!
//! What is registered by callers are values: functions ([`Function`]), maps of these, and objects with members
//! ([`Object`]).
//!
//! Deviations: times end with the year 9999; items that a sort finds equal stay in their order; equal
//! times are one key of a map; functions have no address to print; expressions that the original would need
//! exponential time or memory for are refused.
//!
//! Golden rows: `expr.jsonl`.
//!
//! ```
//! use serde_json::json;
//! use tiphys_go::expr::{Environment, Program, Run, Value};
//!
//! let app = json!({"status": {"health": {"status": "Degraded"}}});
//! let environment = Environment::new().with("app", Value::from_object(&app)?)?;
//! let program = Program::new("app.status.health.status in ['Degraded', 'Missing']")?;
//! assert_eq!(program.run(&environment, &Run::default())?.as_bool(), Some(true));
//! # Ok::<(), tiphys_go::expr::ExprError>(())
//! ```

mod access;
mod ast;
mod budget;
mod builtins;
mod check;
mod emit;
mod equal;
mod error;
mod letters;
mod methods;
mod namespaces;
mod nature;
mod numbers;
mod optimize;
mod parse;
mod power;
mod print;
mod program;
mod run;
mod sort;
mod to_json;
mod token;
mod unescape;
mod value;

pub use budget::{Budget, Limits};
pub use error::{ExprError, Fault};
use jiff::Timestamp;
pub use namespaces::{strings, time};
use run::Machine;
use std::collections::BTreeMap;
use std::fmt;
pub use value::{Call, CallError, Callable, Function, List, Map, Object, Of, Range, Text, Value};

/// Bytes of an expression.
pub const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// Parts of an expression, as the original counts them.
const NODES_MAX: usize = 10_000;
/// Parts of an expression inside each other; in `a or b or c` the left ones are inside.
const DEPTH_MAX: usize = 500;
/// Brackets, operands and blocks inside each other while an expression is read.
const NESTING_MAX: usize = 150;
/// Steps that an expression may be turned into.
const CODE_MAX: usize = 20 * NODES_MAX;
/// Regular expressions of an expression, and the memory of each.
const PATTERNS_MAX: usize = 50;
const PATTERN_MEMORY_MAX: usize = 1 << 20;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    text: Box<str>,
    code: program::Code,
}

/// What an evaluation is given beside its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The present time.
    pub now: Timestamp,
    /// What it may take.
    pub limits: Limits,
}

impl Default for Run {
    /// At the start of 1970, with the usual limits.
    fn default() -> Self {
        Self { now: Timestamp::UNIX_EPOCH, limits: Limits::default() }
    }
}

impl Run {
    /// An evaluation at this time, with the usual limits.
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }
}

/// The values that an expression knows by name.
#[derive(Debug, Clone)]
pub struct Environment(Value);

impl Default for Environment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment {
    /// Without any.
    pub fn new() -> Self {
        Self(Map::new(BTreeMap::new()).map_or(Value::Nil, Value::Map))
    }

    /// The members of an object.
    ///
    /// # Errors
    /// When the value is no map with texts as keys.
    pub fn of(value: Value) -> Result<Self, Fault> {
        match &value {
            Value::Map(map) if map.texts().is_some() => Ok(Self(value)),
            other => Err(Fault::Value(format!("the environment is {}, not a map", other.go_type()))),
        }
    }

    /// The same with one more value.
    ///
    /// # Errors
    /// When the values together would be nested too deeply.
    pub fn with(self, name: &str, value: Value) -> Result<Self, Fault> {
        let mut members = match &self.0 {
            Value::Map(map) => map.texts().cloned().unwrap_or_default(),
            _ => BTreeMap::new(),
        };
        members.insert(name.into(), value);
        Ok(Self(Value::Map(Map::new(members)?)))
    }
}

impl Program {
    /// Compiles an expression as triggers are: what can be seen to fail is refused, and literals are computed with.
    ///
    /// # Errors
    /// When it is none, or has to fail, or is too large.
    pub fn new(text: &str) -> Result<Self, ExprError> {
        let compile = || {
            let mut node = parse::parse(text)?;
            check::check(&mut node)?;
            optimize::optimize(&mut node)?;
            emit::emit(&node)
        };
        Self::of(text, compile())
    }

    /// Compiles an expression as conditions of deep links are: nothing is checked or simplified before it runs.
    ///
    /// # Errors
    /// When it is none, or is too large.
    pub fn unchecked(text: &str) -> Result<Self, ExprError> {
        Self::of(text, parse::parse(text).and_then(|node| emit::emit(&node)))
    }

    fn of(text: &str, code: Result<program::Code, error::Misplaced>) -> Result<Self, ExprError> {
        match code {
            Ok(code) => Ok(Self { text: text.into(), code }),
            Err(error::Misplaced { fault, place }) => Err(fault.at(text, place)),
        }
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// When a value is not what an operation needs, or a limit is reached.
    pub fn run(&self, environment: &Environment, run: &Run) -> Result<Value, ExprError> {
        let mut budget = Budget::new(run.limits);
        Machine::new(&self.code, &environment.0, run.now, &mut budget).run(&self.text)
    }
}

impl From<Fault> for ExprError {
    fn from(fault: Fault) -> Self {
        fault.at("", error::Place::default())
    }
}

impl Value {
    /// The truth of a boolean; nothing of other values.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }
}

/// As Go prints it with `%v`, up to the usual limits of an evaluation.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match print::print(self, &mut Budget::default()) {
            Ok(text) => fmt::Display::fmt(&text, out),
            Err(fault) => write!(out, "%!v({fault})"),
        }
    }
}
