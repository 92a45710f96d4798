//! Lists: Go's slices and arrays.

use super::{DEPTH_MAX, Value};
use crate::expr::Fault;
use std::sync::Arc;

/// What Go takes a list's items for. The type decides what functions accept the list, and what it equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// `[]any`.
    Any,
    /// `[]string`.
    Text,
    /// `[2]any`, a key and its value.
    Pair,
    /// `[][2]any`.
    Pairs,
}

/// An immutable list.
#[derive(Debug, Clone)]
pub struct List(Arc<Slice>);

#[derive(Debug)]
struct Slice {
    of: Of,
    /// Go's nil slice: empty, and the same as nil.
    nil: bool,
    /// Lists and maps inside each other, this one included.
    depth: usize,
    items: Vec<Value>,
}

/// Integers that follow each other, `[]int`: all that ranges make and all that is cut out of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first one.
    pub first: i64,
    /// How many there are.
    pub len: usize,
}

impl List {
    /// A list of any values.
    ///
    /// # Errors
    /// When it would be nested too deeply.
    pub fn new(items: Vec<Value>) -> Result<Self, Fault> {
        Self::of(Of::Any, items)
    }

    /// A list of items that have a type.
    ///
    /// # Errors
    /// When it would be nested too deeply.
    pub fn of(of: Of, items: Vec<Value>) -> Result<Self, Fault> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        if depth > DEPTH_MAX {
            return Err(Fault::Depth);
        }
        Ok(Self(Arc::new(Slice { of, nil: false, depth, items })))
    }

    /// A list of texts, `[]string`.
    pub fn of_texts(items: Vec<Value>) -> Self {
        Self(Arc::new(Slice { of: Of::Text, nil: false, depth: 1, items }))
    }

    /// Go's nil slice.
    pub fn nil(of: Of) -> Self {
        Self(Arc::new(Slice { of, nil: true, depth: 1, items: Vec::new() }))
    }

    /// The type of its items.
    pub fn item_type(&self) -> Of {
        self.0.of
    }

    /// Whether it is the nil slice.
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// The items.
    pub fn items(&self) -> &[Value] {
        &self.0.items
    }

    pub(super) fn depth(&self) -> usize {
        self.0.depth
    }

    /// Whether both are the same list in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Range {
    /// The integer at a place.
    pub fn get(self, index: usize) -> Option<i64> {
        (index < self.len).then(|| self.first.wrapping_add_unsigned(u64::try_from(index).unwrap_or(u64::MAX)))
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = i64> {
        (0..self.len).filter_map(move |index| self.get(index))
    }

    /// Those from one place to another.
    #[must_use]
    pub fn part(self, from: usize, to: usize) -> Self {
        Self { first: self.get(from).unwrap_or(self.first), len: to.min(self.len).saturating_sub(from) }
    }
}
