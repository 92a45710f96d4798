//! The machine that takes the steps of an expression.

use super::ast::Binary;
use super::budget::Budget;
use super::builtins::{Context, Run};
use super::program::{Code, Groups, Op};
use super::value::{Call, Called, Key, List, Map};
use super::{ExprError, Fault, Value, access, equal, numbers, sort};
use crate::regexp::Regexp;
use jiff::Timestamp;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Steps that compiling a regular expression takes, and for each of its bytes.
const PATTERN_STEPS: usize = 2_000;
const PATTERN_BYTE_STEPS: usize = 50;
/// Loops inside each other.
const LOOPS_MAX: usize = 1_000;

/// One evaluation.
pub(super) struct Machine<'r> {
    pub(super) code: &'r Code,
    pub(super) environment: &'r Value,
    pub(super) now: Timestamp,
    pub(super) budget: &'r mut Budget,
    stack: Vec<Value>,
    /// How high the stack was at most.
    height: usize,
    variables: Vec<Value>,
    loops: Vec<Loop>,
    at: usize,
}

/// A loop that is being gone through.
struct Loop {
    list: Value,
    len: i64,
    index: i64,
    count: i64,
    accumulator: Accumulator,
}

enum Accumulator {
    Value(Value),
    Groups(Groups),
    Sort { descending: bool, items: Vec<(Value, Value)> },
}

type Done = Result<(), Fault>;

impl<'r> Machine<'r> {
    pub(super) fn new(
        code: &'r Code,
        environment: &'r Value,
        now: Timestamp,
        budget: &'r mut Budget,
    ) -> Self {
        Self {
            code,
            environment,
            now,
            budget,
            stack: Vec::new(),
            height: 0,
            variables: vec![Value::Nil; code.variables],
            loops: Vec::new(),
            at: 0,
        }
    }

    /// Runs to the end; `text` is the expression, for errors.
    pub(super) fn run(mut self, text: &str) -> Result<Value, ExprError> {
        while let Some(op) = self.code.ops.get(self.at) {
            let place = self.code.places.get(self.at).copied().unwrap_or_default();
            self.at += 1;
            self.budget.value().and_then(|()| self.step(op)).map_err(|fault| fault.at(text, place))?;
        }
        Ok(self.stack.pop().unwrap_or(Value::Nil))
    }

    fn push(&mut self, value: Value) -> Done {
        self.stack.push(value);
        if self.stack.len() > self.height {
            self.height = self.stack.len();
            self.budget.stack()?;
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, Fault> {
        self.stack.pop().ok_or_else(|| Fault::Value("stack underflow".to_owned()))
    }

    fn top(&self) -> Result<&Value, Fault> {
        self.stack.last().ok_or_else(|| Fault::Value("stack underflow".to_owned()))
    }

    fn top_bool(&self) -> Result<bool, Fault> {
        bool_of(self.top()?)
    }

    /// The last values of the stack, in order.
    fn pop_many(&mut self, count: usize) -> Result<Vec<Value>, Fault> {
        let rest = self.stack.len().checked_sub(count);
        rest.map(|rest| self.stack.split_off(rest)).ok_or_else(|| Fault::Value("stack underflow".to_owned()))
    }

    fn around(&mut self) -> Result<&mut Loop, Fault> {
        self.loops.last_mut().ok_or_else(|| Fault::Value("there is no loop here".to_owned()))
    }

    fn jump_if(&mut self, condition: bool, to: usize) {
        if condition {
            self.at = to;
        }
    }

    fn step(&mut self, op: &Op) -> Done {
        match op {
            Op::Constant(at) => {
                let value = self.code.constants.get(*at).cloned().unwrap_or(Value::Nil);
                self.push(value)
            }
            Op::Pop => self.pop().map(drop),
            Op::Store(at) => {
                let value = self.pop()?;
                if let Some(variable) = self.variables.get_mut(*at) {
                    *variable = value;
                }
                Ok(())
            }
            Op::Load(at) => {
                let value = self.variables.get(*at).cloned().unwrap_or(Value::Nil);
                self.push(value)
            }
            Op::Name(name) => {
                let found = match self.environment {
                    Value::Map(map) => map.get(name).cloned().unwrap_or(Value::Nil),
                    other => access::fetch(other, &name.as_str().into())?,
                };
                self.push(found)
            }
            Op::Environment => self.push(self.environment.clone()),
            Op::Jump(to) => {
                self.at = *to;
                Ok(())
            }
            Op::JumpIfTrue(to) => {
                self.jump_if(self.top_bool()?, *to);
                Ok(())
            }
            Op::JumpIfFalse(to) => {
                self.jump_if(!self.top_bool()?, *to);
                Ok(())
            }
            Op::JumpIfNil(to) => {
                self.jump_if(self.top()?.is_nil(), *to);
                Ok(())
            }
            Op::JumpIfNotNil(to) => {
                self.jump_if(!self.top()?.is_nil(), *to);
                Ok(())
            }
            Op::JumpIfEnd(to) => {
                let around = self.around()?;
                let ends = around.index >= around.len;
                self.jump_if(ends, *to);
                Ok(())
            }
            Op::Call { arguments, checked } => self.call(*arguments, *checked),
            Op::Builtin { builtin, arguments } => {
                let value = match builtin.run {
                    // However many arguments there are, which shows where calls are not checked before.
                    Run::One(run) => {
                        let argument = self.pop()?;
                        run(&argument, self.budget)?
                    }
                    Run::Many(run) => {
                        let arguments = self.pop_many(*arguments)?;
                        run(&arguments, &mut Context { budget: self.budget, now: self.now })?
                    }
                    Run::Loop(_) => Value::Nil,
                };
                self.push(value)
            }
            Op::List(items) => self.list(*items),
            Op::Map(members) => self.map(*members),
            Op::Throw(text) => Err(Fault::Value((*text).to_owned())),
            Op::Begin
            | Op::End
            | Op::CollectCounted
            | Op::CollectAll
            | Op::IncrementIndex
            | Op::DecrementIndex
            | Op::IncrementCount
            | Op::Index
            | Op::LastIndex
            | Op::Count
            | Op::Reached(_)
            | Op::Accumulator
            | Op::SetAccumulator
            | Op::Item
            | Op::BeginGroups
            | Op::AddToGroup
            | Op::Groups
            | Op::BeginSort
            | Op::AddToSort
            | Op::Sort => self.loop_step(op),
            Op::Fetch | Op::Slice | Op::Binary(_) | Op::EqualIntegers | Op::EqualTexts => {
                let value = self.combined(op)?;
                self.push(value)
            }
            Op::InTexts(_)
            | Op::InIntegers(_)
            | Op::Method(_)
            | Op::Follow
            | Op::Negate
            | Op::Not
            | Op::Length
            | Op::MatchesPattern(_) => {
                let value = self.changed(op)?;
                self.push(value)
            }
        }
    }

    /// Steps that make one value of the last one.
    fn changed(&mut self, op: &Op) -> Result<Value, Fault> {
        if matches!(op, Op::Length) {
            let top = self.top()?;
            let len = match top {
                Value::Map(map) => Some(map.len()),
                other => other.len(),
            };
            let len = len.and_then(|len| i64::try_from(len).ok());
            return len
                .map(Value::Int)
                .ok_or_else(|| Fault::Value(format!("invalid argument for len (type {})", top.go_type())));
        }
        let value = self.pop()?;
        match op {
            Op::InTexts(texts) => Ok(Value::Bool(match &value {
                Value::Nil => texts.contains(b"".as_slice()),
                Value::Text(text) => texts.contains(text),
                other => return Err(not_a_key(other, "string")),
            })),
            Op::InIntegers(integers) => Ok(Value::Bool(match &value {
                Value::Nil => integers.contains(&0),
                Value::Int(number) => integers.contains(number),
                other => return Err(not_a_key(other, "int")),
            })),
            Op::Method(method) => access::bind(&value, method),
            Op::Follow => Ok(match value {
                Value::Zone { zone, .. } => Value::Zone { zone, pointer: false },
                other => other,
            }),
            Op::Negate => numbers::negate(&value),
            Op::Not => Ok(Value::Bool(!bool_of(&value)?)),
            Op::MatchesPattern(at) => match self.code.patterns.get(*at) {
                Some(pattern) => matches(&value, pattern, self.budget),
                None => Ok(Value::Nil),
            },
            _ => Ok(value),
        }
    }

    /// Steps that make one value of the last two or three.
    fn combined(&mut self, op: &Op) -> Result<Value, Fault> {
        if matches!(op, Op::Slice) {
            let (from, to, array) = (self.pop()?, self.pop()?, self.pop()?);
            return access::slice(&array, &from, &to, self.budget);
        }
        let (right, left) = (self.pop()?, self.pop()?);
        match op {
            Op::Fetch => access::fetch(&left, &right),
            Op::EqualIntegers => match (&left, &right) {
                (Value::Int(left), Value::Int(right)) => Ok(Value::Bool(left == right)),
                (Value::Int(_), other) | (other, _) => Err(not_a(other, "int")),
            },
            Op::EqualTexts => match (&left, &right) {
                (Value::Text(left), Value::Text(right)) => {
                    self.budget.scan(left.len().min(right.len()))?;
                    Ok(Value::Bool(left == right))
                }
                (Value::Text(_), other) | (other, _) => Err(not_a(other, "string")),
            },
            Op::Binary(operator) => self.binary(*operator, &left, &right),
            _ => Ok(Value::Nil),
        }
    }

    fn binary(&mut self, operator: Binary, left: &Value, right: &Value) -> Result<Value, Fault> {
        if let (Value::Text(left), Value::Text(right)) = (left, right) {
            self.budget.scan(left.len().min(right.len()))?;
        }
        let ordered = |is: fn(Ordering) -> bool| {
            let order = numbers::compare(left, right, operator.as_str())?;
            Ok(Value::Bool(order.is_some_and(is)))
        };
        match operator {
            Binary::Equal => equal::equal(left, right, self.budget).map(Value::Bool),
            Binary::NotEqual => equal::equal(left, right, self.budget).map(|equal| Value::Bool(!equal)),
            Binary::Less => ordered(Ordering::is_lt),
            Binary::More => ordered(Ordering::is_gt),
            Binary::LessOrEqual => ordered(Ordering::is_le),
            Binary::MoreOrEqual => ordered(Ordering::is_ge),
            Binary::In => access::is_in(left, right, self.budget).map(Value::Bool),
            Binary::Add => match (left, right) {
                (Value::Text(left), Value::Text(right)) => {
                    self.budget.text(left.len() + right.len())?;
                    Ok(Value::Text([left.as_bytes(), right.as_bytes()].concat().into()))
                }
                _ => numbers::add(left, right),
            },
            Binary::Subtract => numbers::subtract(left, right),
            Binary::Multiply => numbers::multiply(left, right),
            Binary::Divide => numbers::divide(left, right),
            Binary::Modulo => numbers::modulo(left, right),
            Binary::Exponent => numbers::exponent(left, right),
            Binary::Range => self.range(left, right),
            Binary::Matches => {
                if left.is_nil() || right.is_nil() {
                    return Ok(Value::Bool(false));
                }
                let Value::Text(pattern) = right else { return Err(not_a(right, "string")) };
                self.budget.steps(PATTERN_STEPS + PATTERN_BYTE_STEPS * pattern.len())?;
                let compiled = Regexp::with_memory(&pattern.to_str(), super::PATTERN_MEMORY_MAX);
                matches(left, &compiled.map_err(|error| Fault::Value(error.to_string()))?, self.budget)
            }
            Binary::Contains | Binary::StartsWith | Binary::EndsWith => {
                if left.is_nil() || right.is_nil() {
                    return Ok(Value::Bool(false));
                }
                let (Value::Text(left), Value::Text(right)) = (left, right) else {
                    let wrong = if matches!(left, Value::Text(_)) { right } else { left };
                    return Err(not_a(wrong, "string"));
                };
                self.budget.scan(left.len())?;
                let (left, right) = (left.as_bytes(), right.as_bytes());
                Ok(Value::Bool(match operator {
                    Binary::Contains => memchr::memmem::find(left, right).is_some(),
                    Binary::StartsWith => left.starts_with(right),
                    _ => left.ends_with(right),
                }))
            }
            // These are jumps.
            Binary::Or { .. } | Binary::And { .. } | Binary::Coalesce => Ok(Value::Nil),
        }
    }

    fn range(&mut self, left: &Value, right: &Value) -> Result<Value, Fault> {
        let (first, last) = (numbers::to_int(left)?, numbers::to_int(right)?);
        // Go's counting wraps around.
        let len = usize::try_from(last.wrapping_sub(first).wrapping_add(1)).unwrap_or(0);
        self.budget.count(len)?;
        Ok(Value::Range(super::value::Range { first, len }))
    }

    fn list(&mut self, items: usize) -> Done {
        self.budget.count(items)?;
        self.budget.list(items)?;
        let items = self.pop_many(items)?;
        self.push(Value::List(List::new(items)?))
    }

    fn map(&mut self, members: usize) -> Done {
        self.budget.count(members)?;
        let mut flat = self.pop_many(2 * members)?.into_iter().rev();
        let mut map = BTreeMap::new();
        // From the last to the first, so that of equal keys the first wins.
        while let (Some(value), Some(key)) = (flat.next(), flat.next()) {
            let Value::Text(key) = key else { return Err(not_a(&key, "string")) };
            self.budget.member(map.len())?;
            map.insert(key, value);
        }
        self.push(Value::Map(Map::new(map)?))
    }

    fn call(&mut self, arguments: usize, checked: bool) -> Done {
        let callee = self.pop()?;
        let value = match &callee {
            Value::Nil => return Err(Fault::Value("invalid operation: cannot call nil".to_owned())),
            Value::Function(callable) => {
                let arguments = self.pop_many(arguments)?;
                match &callable.0 {
                    Called::Method(receiver, method) => method.call(receiver, &arguments, checked)?,
                    Called::Custom(function) => function
                        .call(&mut Call::new(&arguments, self.now))
                        .map_err(|error| Fault::Value(error.to_string()))?,
                }
            }
            other => {
                let text = format!("invalid operation: cannot call non-function of type {}", other.go_type());
                return Err(Fault::Value(text));
            }
        };
        self.push(value)
    }

    fn loop_step(&mut self, op: &Op) -> Done {
        match op {
            Op::Begin => {
                let list = self.pop()?;
                let len = match &list {
                    // Nothing is taken out of an empty one.
                    Value::Map(map) => Some(map.len()),
                    other => other.len(),
                };
                let Some(len) = len.and_then(|len| i64::try_from(len).ok()) else {
                    return Err(Fault::Value(format!(
                        "reflect: call of reflect.Value.Len on {} Value",
                        list.go_type()
                    )));
                };
                if self.loops.len() >= LOOPS_MAX {
                    return Err(Fault::Depth);
                }
                let accumulator = Accumulator::Value(Value::Nil);
                self.loops.push(Loop { list, len, index: 0, count: 0, accumulator });
                Ok(())
            }
            Op::End => {
                self.loops.pop();
                Ok(())
            }
            Op::CollectCounted => {
                let count = self.around()?.count;
                self.list(usize::try_from(count).unwrap_or(0))
            }
            Op::CollectAll => {
                let len = self.around()?.len;
                self.list(usize::try_from(len).unwrap_or(0))
            }
            Op::IncrementIndex => {
                self.around()?.index += 1;
                Ok(())
            }
            Op::DecrementIndex => {
                self.around()?.index -= 1;
                Ok(())
            }
            Op::IncrementCount => {
                self.around()?.count += 1;
                Ok(())
            }
            Op::Index => {
                let index = self.around()?.index;
                self.push(Value::Int(index))
            }
            Op::LastIndex => {
                let around = self.around()?;
                around.index = around.len - 1;
                Ok(())
            }
            Op::Count => {
                let count = self.around()?.count;
                self.push(Value::Int(count))
            }
            Op::Reached(threshold) => {
                let reached = self.around()?.count >= *threshold;
                self.push(Value::Bool(reached))
            }
            Op::Item => {
                let item = self.item()?;
                self.push(item)
            }
            Op::Accumulator => self.accumulator(),
            Op::SetAccumulator => {
                let value = self.pop()?;
                self.around()?.accumulator = Accumulator::Value(value);
                Ok(())
            }
            Op::BeginGroups => {
                self.around()?.accumulator = Accumulator::Groups(Groups::new());
                Ok(())
            }
            Op::AddToGroup => {
                let key = Key::of(&self.pop()?)?;
                let item = self.item()?;
                self.budget.list(1)?;
                if let Accumulator::Groups(groups) = &mut self.around()?.accumulator {
                    groups.entry(key).or_default().push(item);
                }
                Ok(())
            }
            Op::Groups => self.groups(),
            Op::BeginSort => {
                let order = self.pop()?;
                let descending = sort::is_descending(&order)?;
                self.around()?.accumulator = Accumulator::Sort { descending, items: Vec::new() };
                Ok(())
            }
            Op::AddToSort => {
                let value = self.pop()?;
                let item = self.item()?;
                self.budget.list(2)?;
                if let Accumulator::Sort { items, .. } = &mut self.around()?.accumulator {
                    items.push((value, item));
                }
                Ok(())
            }
            _ => self.sorted(),
        }
    }

    fn item(&mut self) -> Result<Value, Fault> {
        let around = self.around()?;
        let item = usize::try_from(around.index).ok().and_then(|index| around.list.item(index));
        item.ok_or_else(|| {
            Fault::Value(format!("reflect: call of reflect.Value.Index on {} Value", around.list.go_type()))
        })
    }

    fn accumulator(&mut self) -> Done {
        let groups = match &self.around()?.accumulator {
            Accumulator::Value(value) => {
                let value = value.clone();
                return self.push(value);
            }
            Accumulator::Groups(groups) => groups.clone(),
            Accumulator::Sort { .. } => {
                return Err(Fault::Value("there is no accumulator here".to_owned()));
            }
        };
        // Asked for while there is only a part of it, which only happens where nothing is checked before.
        for items in groups.values() {
            self.budget.list(items.len())?;
        }
        self.push_groups(groups)
    }

    fn groups(&mut self) -> Done {
        let groups = match &mut self.around()?.accumulator {
            Accumulator::Groups(groups) => std::mem::take(groups),
            _ => Groups::new(),
        };
        self.push_groups(groups)
    }

    fn push_groups(&mut self, groups: Groups) -> Done {
        let mut map = BTreeMap::new();
        for (key, items) in groups {
            map.insert(key, Value::List(List::new(items)?));
        }
        self.push(Value::Map(Map::of_groups(map)?))
    }

    fn sorted(&mut self) -> Done {
        let around = self.around()?;
        let len = usize::try_from(around.len).unwrap_or(0);
        let Accumulator::Sort { descending, items } = &mut around.accumulator else { return Ok(()) };
        let (descending, mut items) = (*descending, std::mem::take(items));
        sort::sort(&mut items, descending, |(value, _)| value, self.budget)?;
        self.budget.count(len)?;
        self.budget.list(len)?;
        self.push(Value::List(List::new(items.into_iter().map(|(_, item)| item).collect())?))
    }
}

fn not_a(value: &Value, wanted: &str) -> Fault {
    let given = match value {
        Value::Nil => "nil",
        other => other.go_type(),
    };
    Fault::Value(format!("interface conversion: interface {{}} is {given}, not {wanted}"))
}

fn not_a_key(value: &Value, wanted: &str) -> Fault {
    Fault::Value(format!(
        "reflect.Value.MapIndex: value of type {} is not assignable to type {wanted}",
        value.go_type()
    ))
}

fn bool_of(value: &Value) -> Result<bool, Fault> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        other => Err(not_a(other, "bool")),
    }
}

fn matches(value: &Value, pattern: &Regexp, budget: &mut Budget) -> Result<Value, Fault> {
    match value {
        _ if value.is_nil() => Ok(Value::Bool(false)),
        Value::Text(text) | Value::Bytes(text) => {
            budget.steps(1 + text.len() / 16)?;
            Ok(Value::Bool(pattern.is_match(&text.to_str())))
        }
        other => Err(not_a(other, "[]uint8")),
    }
}
