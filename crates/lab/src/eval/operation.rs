//! The table row of an operation, and the evaluation of one request.

use super::fault::{Code, Fault};
use super::ops::operations;
use super::shape::{self, Member};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether members that the table does not know are refused (EVAL-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown members are ignored.
    Lenient,
    /// Unknown members are `InvalidInput`.
    Strict,
}

/// How far consumers may rely on an operation (EVAL-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Members are only added within a version.
    Stable,
    /// May change.
    Experimental,
}

/// One row of the table.
#[derive(Debug)]
pub struct Operation {
    /// `<area>.<operation>`.
    pub name: &'static str,
    /// One sentence for `--list`.
    pub summary: &'static str,
    /// How far consumers may rely on it.
    pub stability: Stability,
    /// The rules whose behaviour it shows.
    pub spec: &'static [&'static str],
    /// What it accepts.
    pub input: &'static [Member],
    /// What it answers.
    pub result: &'static [Member],
    /// An input and its result, as JSON; executed by the tests.
    pub example: (&'static str, &'static str),
    /// The adapter: reads the checked input, calls the product, shapes the answer.
    pub run: fn(&mut Input) -> Result<Value, Fault>,
}

/// The checked input of one request. Accessors are total: what the table does not promise reads as empty.
#[derive(Debug)]
pub struct Input(Map<String, Value>);

impl Input {
    /// An input whose members were checked.
    pub(in crate::eval) fn of(checked: Map<String, Value>) -> Self {
        Self(checked)
    }

    /// A member; null when absent.
    pub fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// A member by value; null when absent.
    pub fn take(&mut self, name: &str) -> Value {
        self.0.get_mut(name).map(Value::take).unwrap_or_default()
    }

    /// A member by value that this request needs although others of the operation do not.
    pub fn need(&mut self, name: &str) -> Result<Value, Fault> {
        let missing = || Fault::new(Code::InvalidInput, format!("{name}: required member is missing"));
        self.0.get_mut(name).map(Value::take).ok_or_else(missing)
    }

    /// All members by value; none are left.
    pub fn take_all(&mut self) -> Value {
        Value::Object(std::mem::take(&mut self.0))
    }

    /// A text member; empty when absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_default()
    }

    /// A boolean member; false when absent.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or_default()
    }

    /// A whole number; 0 when absent.
    pub fn integer(&self, name: &str) -> i64 {
        self.get(name).as_i64().unwrap_or_default()
    }

    /// A list member; empty when absent.
    pub fn list(&self, name: &str) -> &[Value] {
        self.get(name).as_array().map_or(&[], Vec::as_slice)
    }

    /// The texts of a list member, in order.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        self.list(name).iter().filter_map(Value::as_str).collect()
    }

    /// The entries of a map of texts, in key order.
    pub fn entries<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let map = self.get(name).as_object();
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// The row with this name.
pub fn find(name: &str) -> Option<&'static Operation> {
    operations().binary_search_by(|row| row.name.cmp(name)).ok().and_then(|at| operations().get(at)).copied()
}

/// Answers one request. A crash of the operation is an error with code `Internal` (EVAL-2).
pub fn evaluate(name: &str, input: Value, strictness: Strictness) -> Result<Value, Fault> {
    let Some(row) = find(name) else {
        return Err(Fault::new(Code::UnknownOp, format!("unknown operation {name:?}")));
    };
    let given = match input {
        Value::Object(given) => given,
        Value::Null => Map::new(),
        _ => return Err(Fault::new(Code::InvalidInput, "input: expected an object")),
    };
    let checked = shape::check(given, row.input, strictness)?;
    catch_unwind(AssertUnwindSafe(|| (row.run)(&mut Input(checked)))).unwrap_or_else(|payload| {
        let what = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown".to_owned());
        Err(Fault::new(Code::Internal, format!("the operation crashed: {what}")))
    })
}
