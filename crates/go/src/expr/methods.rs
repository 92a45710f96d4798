//! Methods of the types of Go's `time` package.

pub(super) mod durations;
mod times;

use super::nature::Type;
use super::{Fault, Value};

/// A method of a type.
pub(super) struct Row {
    /// Whose it is.
    owner: Type,
    /// What it is called.
    pub(super) name: &'static str,
    /// Types of the arguments.
    pub(super) parameters: &'static [Type],
    /// The type of the value.
    pub(super) result: Type,
    /// How many results there are in Go, of which expressions see the first.
    pub(super) results: usize,
    /// Computes it. The arguments have the right types.
    pub(super) run: fn(&Value, &[Value]) -> Result<Value, Fault>,
}

/// A reference to a method.
pub(super) type Method = &'static Row;

impl std::fmt::Debug for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.owner.name(), self.name)
    }
}

const fn row(
    owner: Type,
    name: &'static str,
    parameters: &'static [Type],
    result: Type,
    run: fn(&Value, &[Value]) -> Result<Value, Fault>,
) -> Row {
    Row { owner, name, parameters, result, results: 1, run }
}

/// The method of a type.
pub(super) fn of_type(ty: Option<Type>, name: &str) -> Option<Method> {
    let ty = ty?;
    let table = match ty {
        Type::Time => times::ROWS,
        Type::Duration | Type::Month | Type::Weekday | Type::ZonePointer => durations::ROWS,
        _ => return None,
    };
    table.iter().find(|row| row.owner == ty && row.name == name)
}

/// The method of a value.
pub(super) fn of_value(value: &Value, name: &str) -> Option<Method> {
    let ty = match value {
        Value::Time(_) => Type::Time,
        Value::Duration(_) => Type::Duration,
        Value::Month(_) => Type::Month,
        Value::Weekday(_) => Type::Weekday,
        Value::Zone { pointer: true, .. } => Type::ZonePointer,
        _ => return None,
    };
    of_type(Some(ty), name)
}

impl Row {
    /// Calls the method. Nil stands for the zero value of a parameter, unless the parameters were checked before.
    pub(super) fn call(&self, receiver: &Value, arguments: &[Value], checked: bool) -> Result<Value, Fault> {
        if arguments.len() != self.parameters.len() {
            return Err(Fault::Value(format!(
                "invalid number of arguments: expected {}, got {}",
                self.parameters.len(),
                arguments.len()
            )));
        }
        let mut given = Vec::with_capacity(arguments.len());
        for (argument, wanted) in arguments.iter().zip(self.parameters) {
            given.push(match (argument, wanted) {
                (Value::Nil, _) if !(checked && self.is_typed()) => zero(*wanted),
                (Value::Int(_), Type::Int)
                | (Value::Text(_), Type::Text)
                | (Value::Bytes(_), Type::Bytes)
                | (Value::Time(_), Type::Time)
                | (Value::Duration(_), Type::Duration)
                | (Value::Zone { pointer: true, .. }, Type::ZonePointer) => argument.clone(),
                _ => {
                    let (given, wanted) = (argument.go_type(), wanted.name());
                    return Err(Fault::Value(format!("reflect: Call using {given} as type {wanted}")));
                }
            });
        }
        (self.run)(receiver, &given)
    }

    /// Whether the original has a fast way to call functions of this type, which does not know zero values.
    fn is_typed(&self) -> bool {
        matches!(
            (self.parameters, self.result),
            ([Type::Duration], Type::Duration | Type::Time)
                | ([Type::Time], Type::Duration | Type::Bool)
                | ([Type::Text], Type::Text)
        )
    }
}

fn zero(ty: Type) -> Value {
    match ty {
        Type::Int => Value::Int(0),
        Type::Text => "".into(),
        Type::Bytes => Value::Bytes(b"".as_slice().into()),
        Type::Time => crate::time::Moment::zero().into(),
        Type::Duration => Value::Duration(0),
        _ => Value::Nil,
    }
}
