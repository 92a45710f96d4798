//! What an expression is turned into: steps for a machine with a stack.

use super::Value;
use super::ast::Binary;
use super::builtins::{Builtin, Loop};
use super::error::Place;
use super::methods::Method;
use crate::regexp::Regexp;
use std::collections::{BTreeMap, BTreeSet};

/// One step.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Constant(usize),
    /// A constant set, to look something up in.
    InTexts(BTreeSet<super::value::Text>),
    InIntegers(BTreeSet<i64>),
    Pop,
    Store(usize),
    Load(usize),
    /// A name of the environment.
    Name(String),
    Environment,
    Fetch,
    Method(Method),
    /// What a pointer points to.
    Follow,
    Negate,
    Not,
    Binary(Binary),
    EqualIntegers,
    EqualTexts,
    MatchesPattern(usize),
    Jump(usize),
    JumpIfTrue(usize),
    JumpIfFalse(usize),
    JumpIfNil(usize),
    JumpIfNotNil(usize),
    JumpIfEnd(usize),
    Length,
    Slice,
    /// A call of what lies on top of its arguments; whether their types were checked.
    Call {
        arguments: usize,
        checked: bool,
    },
    Builtin {
        builtin: &'static Builtin,
        arguments: usize,
    },
    List(usize),
    /// A list of so many values as the loop has counted, or went through.
    CollectCounted,
    CollectAll,
    Map(usize),
    Begin,
    End,
    IncrementIndex,
    DecrementIndex,
    IncrementCount,
    Index,
    /// Sets the index to the last place.
    LastIndex,
    Count,
    /// Whether the count has reached this.
    Reached(i64),
    Accumulator,
    SetAccumulator,
    Item,
    BeginGroups,
    AddToGroup,
    /// The groups, once all are there.
    Groups,
    BeginSort,
    AddToSort,
    Sort,
    /// Ends the evaluation.
    Throw(&'static str),
}

/// All steps of an expression.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    pub(super) places: Vec<Place>,
    pub(super) constants: Vec<Value>,
    pub(super) patterns: Vec<Regexp>,
    pub(super) variables: usize,
}

/// Groups of items by what a predicate gives for them.
pub(super) type Groups = BTreeMap<super::value::Key, Vec<Value>>;

/// A loop knows what it ends with.
impl Loop {
    /// Whether the predicate goes through the list from its end.
    pub(super) fn is_backwards(self) -> bool {
        matches!(self, Self::FindLast | Self::FindLastIndex)
    }
}
