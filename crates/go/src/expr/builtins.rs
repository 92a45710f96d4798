//! The functions of the language.

mod dates;
mod lists;
mod numbers;
mod texts;
mod validate;

use super::nature::Type;
use super::{Budget, Fault, Value};
use jiff::Timestamp;

/// A function of the language.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) name: &'static str,
    /// What can be said about a call before it is computed.
    pub(super) check: Check,
    pub(super) run: Run,
    /// Which arguments are seen through pointers.
    pub(super) pointers: Pointers,
}

/// How a call is checked.
#[derive(Debug)]
pub(super) enum Check {
    /// By the rules of loops.
    Loop,
    /// As an index.
    Get,
    /// By one of these signatures, of which the first that fits counts.
    Types(&'static [Overload]),
    /// By a rule of its own: from the types of the arguments, nothing for nil, to that of the value.
    Validate(fn(&[Option<Type>]) -> Result<Type, String>),
}

/// Types of arguments, and the type of the value.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) parameters: &'static [Type],
    pub(super) result: Type,
}

/// What is done with arguments that may be pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pointers {
    /// What they point to is handed over.
    Followed,
    /// Only zones that are known to be pointers stay it.
    FollowedUnlessZones,
    /// They are handed over.
    Kept,
}

/// How a call is computed.
pub(super) enum Run {
    /// By going through a list.
    Loop(Loop),
    /// From one value, whatever stands there.
    One(fn(&Value, &mut Budget) -> Result<Value, Fault>),
    /// From some arguments.
    Many(fn(&[Value], &mut Context<'_>) -> Result<Value, Fault>),
}

/// Functions with predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loop {
    All,
    None,
    Any,
    One,
    Filter,
    Map,
    Count,
    Sum,
    Find,
    FindIndex,
    FindLast,
    FindLastIndex,
    GroupBy,
    SortBy,
    Reduce,
}

/// An argument of a function with a predicate.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) predicate: bool,
    pub(super) optional: bool,
}

/// What functions know beside their arguments.
pub(super) struct Context<'r> {
    pub(super) budget: &'r mut Budget,
    pub(super) now: Timestamp,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Loop(_) => "loop",
            Self::One(_) => "one",
            Self::Many(_) => "many",
        })
    }
}

const VALUE: Argument = Argument { predicate: false, optional: false };
const OPTIONAL_VALUE: Argument = Argument { predicate: false, optional: true };
const PREDICATE: Argument = Argument { predicate: true, optional: false };
const OPTIONAL_PREDICATE: Argument = Argument { predicate: true, optional: true };

impl Builtin {
    /// What a function with a predicate wants; nothing for others.
    pub(super) fn arguments(&self) -> Option<&'static [Argument]> {
        match self.run {
            Run::Loop(Loop::Count | Loop::Sum) => Some(&[VALUE, OPTIONAL_PREDICATE]),
            Run::Loop(Loop::SortBy | Loop::Reduce) => Some(&[VALUE, PREDICATE, OPTIONAL_VALUE]),
            Run::Loop(_) => Some(&[VALUE, PREDICATE]),
            Run::One(_) | Run::Many(_) => None,
        }
    }
}

const fn loops(name: &'static str, kind: Loop) -> Builtin {
    Builtin { name, check: Check::Loop, run: Run::Loop(kind), pointers: Pointers::Followed }
}

const fn one(
    name: &'static str,
    check: Check,
    run: fn(&Value, &mut Budget) -> Result<Value, Fault>,
) -> Builtin {
    Builtin { name, check, run: Run::One(run), pointers: Pointers::Followed }
}

const fn many(
    name: &'static str,
    check: Check,
    run: fn(&[Value], &mut Context<'_>) -> Result<Value, Fault>,
) -> Builtin {
    Builtin { name, check, run: Run::Many(run), pointers: Pointers::Followed }
}

const LOOPS: &[Builtin] = &[
    loops("all", Loop::All),
    loops("none", Loop::None),
    loops("any", Loop::Any),
    loops("one", Loop::One),
    loops("filter", Loop::Filter),
    loops("map", Loop::Map),
    loops("find", Loop::Find),
    loops("findIndex", Loop::FindIndex),
    loops("findLast", Loop::FindLast),
    loops("findLastIndex", Loop::FindLastIndex),
    loops("count", Loop::Count),
    loops("sum", Loop::Sum),
    loops("groupBy", Loop::GroupBy),
    loops("sortBy", Loop::SortBy),
    loops("reduce", Loop::Reduce),
];

static TABLES: [&[Builtin]; 5] = [LOOPS, texts::ROWS, lists::ROWS, numbers::ROWS, dates::ROWS];

/// The function of a name.
pub(super) fn find(name: &str) -> Option<&'static Builtin> {
    TABLES.iter().flat_map(|table| table.iter()).find(|builtin| builtin.name == name)
}

/// An argument. Where calls are not checked before, it may be missing.
fn argument(arguments: &[Value], index: usize) -> Result<&Value, Fault> {
    arguments.get(index).ok_or_else(|| {
        let len = arguments.len();
        Fault::Value(format!("runtime error: index out of range [{index}] with length {len}"))
    })
}

/// An argument that has to be a text.
fn text(arguments: &[Value], index: usize) -> Result<&super::value::Text, Fault> {
    match argument(arguments, index)? {
        Value::Text(text) => Ok(text),
        other => Err(not_a(other, "string")),
    }
}

fn not_a(value: &Value, wanted: &str) -> Fault {
    let given = match value {
        Value::Nil => "nil",
        other => other.go_type(),
    };
    Fault::Value(format!("interface conversion: interface {{}} is {given}, not {wanted}"))
}

fn counted(arguments: &[Value], expected: usize) -> Result<(), Fault> {
    if arguments.len() == expected {
        return Ok(());
    }
    let given = arguments.len();
    Err(Fault::Value(format!("invalid number of arguments (expected {expected}, got {given})")))
}
