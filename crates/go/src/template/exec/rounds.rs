//! What can be ranged over.

use crate::template::error::Failure;
use crate::template::fmt;
use crate::template::functions::Operand;
use crate::template::value::{Integer, List, Text, Unsigned, Value};

/// A range that has begun.
pub(super) enum Rounds {
    Int {
        kind: Integer,
        next: i64,
        end: i64,
    },
    Uint {
        kind: Unsigned,
        next: u64,
        end: u64,
    },
    List {
        list: List,
        next: usize,
        length: usize,
    },
    /// The members as they were at the beginning.
    Map {
        members: std::vec::IntoIter<(Text, Value)>,
        boxed: bool,
    },
}

impl Rounds {
    /// Begins to range over a value; none when there is nothing in it.
    pub(super) fn new(over: &Value, two_variables: bool) -> Result<Option<Self>, Failure> {
        if two_variables
            && over.number().is_some_and(|number| !matches!(number, crate::template::value::Number::Float(_)))
        {
            let shown = fmt::sprint(over);
            return Err(Failure::new(format!("can't use {shown} to iterate over more than one variable")));
        }
        Ok(match over.underlying() {
            Value::Nil => None,
            Value::Int(kind, end) => (*end > 0).then_some(Self::Int { kind: *kind, next: 0, end: *end }),
            Value::Uint(kind, end) => (*end > 0).then_some(Self::Uint { kind: *kind, next: 0, end: *end }),
            Value::Map(map) => {
                let members = map.members();
                let boxed = map.map_type().member.is_interface();
                (!members.is_empty()).then(|| Self::Map { members: members.into_iter(), boxed })
            }
            value => {
                let Some(list) = value.items() else {
                    let shown = fmt::sprint(over);
                    return Err(Failure::new(format!("range can't iterate over {shown}")));
                };
                let length = list.len();
                (length > 0).then_some(Self::List { list, next: 0, length })
            }
        })
    }

    /// The next index and item.
    pub(super) fn next(&mut self) -> Option<(Operand, Operand)> {
        match self {
            Self::Int { kind, next, end } => {
                let item = (next < end).then(|| Operand::plain(Value::Int(*kind, *next)))?;
                *next += 1;
                Some((Operand::NOTHING, item))
            }
            Self::Uint { kind, next, end } => {
                let item = (next < end).then(|| Operand::plain(Value::Uint(*kind, *next)))?;
                *next += 1;
                Some((Operand::NOTHING, item))
            }
            Self::List { list, next, length } => {
                let value = (next < length).then(|| list.get(*next)).flatten()?;
                let index = i64::try_from(*next).unwrap_or(i64::MAX);
                *next += 1;
                let boxed = list.list_type().item.is_interface();
                Some((Operand::plain(Value::int(index)), Operand::held(value, boxed)))
            }
            Self::Map { members, boxed } => {
                let (key, value) = members.next()?;
                Some((Operand::plain(Value::Text(key)), Operand::held(value, *boxed)))
            }
        }
    }
}
