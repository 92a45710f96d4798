//! Constants where the type of a parameter says what they are.

use super::Constant;
use crate::template::code::Literal;
use crate::template::functions::{Operand, Type};
use crate::template::value::{Integer, Kind, Unsigned, Value};
use std::sync::Arc;

impl Literal {
    /// The value of a literal of which everything is known.
    pub(crate) fn operand(&self) -> Operand {
        Operand::plain(match self {
            Self::Nil => return Operand::NOTHING,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Int(kind, number) => Value::Int(*kind, *number),
            Self::Uint(kind, number) => Value::Uint(*kind, *number),
            Self::Float(number) => Value::Float(*number),
            Self::Complex(parts) => Value::Complex(Arc::clone(parts)),
            Self::Number(constant, _) => match ideal(*constant, &String::new) {
                Ok(literal) => return literal.operand(),
                Err(_) => return Operand::NOTHING,
            },
        })
    }
}

/// What a literal is for a parameter, or Go's complaint. `spelled` is how it is written.
pub(crate) fn typed(
    literal: &Literal,
    parameter: Type,
    spelled: &dyn Fn() -> String,
) -> Result<Literal, String> {
    let found = |wanted: &str| Err(format!("expected {wanted}; found {}", spelled()));
    Ok(match (kind_of(parameter), literal) {
        (_, Literal::Nil) => return Err(format!("cannot assign nil to {}", parameter.name())),
        (None, Literal::Number(constant, _)) => return ideal(*constant, spelled),
        (None, other) => other.clone(),
        (Some(Kind::Bool), Literal::Bool(truth)) => Literal::Bool(*truth),
        (Some(Kind::Bool), _) => return found("bool"),
        (Some(Kind::String), Literal::Text(text)) => Literal::Text(text.clone()),
        (Some(Kind::String), _) => return found("string"),
        (Some(Kind::Int(kind)), Literal::Number(Constant { int: Some(int), .. }, _)) => {
            Literal::Int(kind, truncated(kind, *int))
        }
        (Some(Kind::Int(_)), _) => return found("integer"),
        (Some(Kind::Uint(kind)), Literal::Number(Constant { uint: Some(uint), .. }, _)) => {
            Literal::Uint(kind, truncated_unsigned(kind, *uint))
        }
        (Some(Kind::Uint(_)), _) => return found("unsigned integer"),
        (Some(Kind::Float64), Literal::Number(Constant { float: Some(float), .. }, _)) => {
            Literal::Float(*float)
        }
        (Some(Kind::Float64), _) => return found("float"),
        (Some(_), _) => {
            return Err(format!("can't handle {} for arg of type {}", spelled(), parameter.name()));
        }
    })
}

/// The operand of a literal for a parameter, under the parameter's type.
pub(crate) fn operand_of(
    literal: &Literal,
    parameter: Type,
    spelled: &dyn Fn() -> String,
) -> Result<Operand, String> {
    if let (Literal::Nil, Some(nil)) = (literal, parameter.nil()) {
        return Ok(nil);
    }
    let operand = typed(literal, parameter, spelled)?.operand();
    Ok(match parameter {
        Type::Named(named_type) => Operand::plain(Value::named(named_type(), operand.value)),
        _ => operand,
    })
}

/// The kind that a literal has to be of; none where anything goes.
fn kind_of(parameter: Type) -> Option<Kind> {
    Some(match parameter {
        Type::Any | Type::Reflect => return None,
        Type::Text => Kind::String,
        Type::Bool => Kind::Bool,
        Type::Int(kind) => Kind::Int(kind),
        Type::Uint(kind) => Kind::Uint(kind),
        Type::Float => Kind::Float64,
        Type::List(_) => Kind::Slice,
        Type::Map(_) => Kind::Map,
        Type::Named(named_type) => named_type().kind,
        Type::Struct(_) => Kind::Struct,
        Type::Pointer(_) => Kind::Pointer,
    })
}

/// What a number is where nothing says what it should be.
fn ideal(constant: Constant, spelled: &dyn Fn() -> String) -> Result<Literal, String> {
    match constant {
        Constant { complex: Some(parts), .. } => Ok(Literal::Complex(Arc::new(parts))),
        Constant { is_float: true, float: Some(float), .. } => Ok(Literal::Float(float)),
        Constant { int: Some(int), .. } => Ok(Literal::Int(Integer::Int, int)),
        _ => Err(format!("{} overflows int", spelled())),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "Go cuts the bits off")]
fn truncated(kind: Integer, int: i64) -> i64 {
    match kind {
        Integer::Int | Integer::Int64 => int,
        Integer::Int32 => i64::from(int as i32),
        Integer::Int16 => i64::from(int as i16),
        Integer::Int8 => i64::from(int as i8),
    }
}

fn truncated_unsigned(kind: Unsigned, uint: u64) -> u64 {
    match kind {
        Unsigned::Uint | Unsigned::Uint64 => uint,
        Unsigned::Uint32 => uint & 0xffff_ffff,
        Unsigned::Uint16 => uint & 0xffff,
        Unsigned::Uint8 => uint & 0xff,
    }
}
