//! What a function sees of its call.

use super::Operand;
use crate::live;
use crate::memory::Memory;
use crate::regexp::{Regexp, RegexpError, STATES_OF_A_STEP, Weight, compile_steps};
use crate::template::environment::{Environment, Work};
use crate::template::error::Failure;
use crate::template::exec::Context;
use crate::template::value::{DEPTH_MAX, Emptied, JsonProblem, List, ListType, Map, MapType, Text, Value};
use serde_json::Value as Json;
use std::rc::Rc;

const NIL: &Value = &Value::Nil;

/// A call: arguments of the types that the function asked for, and the run it happens in.
///
/// Accessors are total: what the table does not promise reads as empty.
pub struct Call<'c, 'e> {
    pub(crate) operands: &'c mut [Operand],
    pub(crate) receiver: Option<&'c Value>,
    pub(crate) context: &'c mut Context<'e>,
    /// Bytes that a text may have which the function makes.
    pub(crate) text_max: usize,
}

impl<'e> Call<'_, 'e> {
    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.operands.len()
    }

    /// Whether there is no argument.
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The value whose method is called.
    pub fn receiver(&self) -> &Value {
        self.receiver.unwrap_or(NIL)
    }

    /// An argument.
    pub fn value(&self, at: usize) -> &Value {
        self.operands.get(at).map_or(NIL, |operand| &operand.value)
    }

    /// An argument by value; it is gone then.
    pub fn take(&mut self, at: usize) -> Value {
        self.operands.get_mut(at).map(|operand| std::mem::take(&mut operand.value)).unwrap_or_default()
    }

    /// An argument with where it came from.
    pub fn operand(&self, at: usize) -> Operand {
        self.operands.get(at).cloned().unwrap_or_default()
    }

    /// The arguments from one on.
    pub fn rest(&self, from: usize) -> impl ExactSizeIterator<Item = &Value> {
        self.operands.get(from..).unwrap_or_default().iter().map(|operand| &operand.value)
    }

    /// The arguments from one on, by value.
    pub fn take_rest(&mut self, from: usize) -> Vec<Value> {
        let rest = self.operands.get_mut(from..).unwrap_or_default();
        rest.iter_mut().map(|operand| std::mem::take(&mut operand.value)).collect()
    }

    /// A text argument.
    pub fn text(&self, at: usize) -> &Text {
        static EMPTY: Text = Text::EMPTY;
        self.value(at).as_text().unwrap_or(&EMPTY)
    }

    /// A text argument as bytes.
    pub fn bytes(&self, at: usize) -> &[u8] {
        self.text(at).as_bytes()
    }

    /// An integer argument.
    pub fn int(&self, at: usize) -> i64 {
        match self.value(at) {
            Value::Int(_, number) => *number,
            _ => 0,
        }
    }

    /// A `float64` argument.
    pub fn float(&self, at: usize) -> f64 {
        match self.value(at) {
            Value::Float(number) => *number,
            _ => 0.0,
        }
    }

    /// A boolean argument.
    pub fn flag(&self, at: usize) -> bool {
        matches!(self.value(at), Value::Bool(true))
    }

    /// A map argument, under the plain type.
    pub fn map(&self, at: usize) -> Map {
        match self.value(at) {
            Value::Map(map) => map.retyped(&MapType::ANY),
            _ => Map::nil(&MapType::ANY),
        }
    }

    /// A list argument.
    pub fn list(&self, at: usize) -> List {
        match self.value(at) {
            Value::List(list) => list.clone(),
            _ => List::nil(&ListType::ANY),
        }
    }

    /// The world outside.
    pub fn environment(&self) -> &'e dyn Environment {
        self.context.environment
    }

    /// Pays for work.
    ///
    /// # Errors
    /// When the run may do no more.
    pub fn spend(&mut self, steps: usize) -> Result<(), Failure> {
        Ok(self.context.budget.steps(steps)?)
    }

    /// Pays for a text of so many bytes, before it is made.
    ///
    /// # Errors
    /// When it is too long, or the run may make no more.
    pub fn makes_text(&mut self, bytes: usize) -> Result<(), Failure> {
        Ok(self.context.budget.text(bytes)?)
    }

    /// Pays for memory that is taken for a moment.
    ///
    /// # Errors
    /// When there is no room for it, or the run may make no more.
    pub fn makes_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        Ok(self.context.budget.bytes(bytes)?)
    }

    /// Pays for a list or map of so many items, before it is made.
    ///
    /// # Errors
    /// When the run may make no more.
    pub fn makes_items(&mut self, items: usize) -> Result<(), Failure> {
        Ok(self.context.budget.items(items)?)
    }

    /// Memory that a document may take which is read, no more than `most`: half of what there is room for, because a value
    /// is made of it beside it.
    pub fn memory(&self, most: usize) -> Memory {
        Memory::new(most.min(live::room() / 2))
    }

    /// The failure when a document took more memory than `most`, or than there was room for.
    pub fn memory_exceeded(&self, limit: usize, most: usize) -> Failure {
        match live::bound() {
            Some(bound) if limit < most => live::Exceeded { bound }.into(),
            _ => Failure::new(format!("the document takes more than {limit} bytes of memory")),
        }
    }

    /// Pays for a tree that was made, by the memory that it took.
    ///
    /// # Errors
    /// When the run may do no more.
    pub fn spend_memory(&mut self, used: usize) -> Result<(), Failure> {
        // 0.7 ns for a byte, where one tree is copied again and again.
        self.spend(used / 64)
    }

    /// Pays for what was walked over of an argument by a writer that then found something it cannot write, and so left
    /// no text to be paid for: everything, because what it left out is not known.
    ///
    /// # Errors
    /// When the run may do no more.
    pub(crate) fn spend_walk(&mut self, at: usize) -> Result<(), Failure> {
        let mut left = vec![(self.value(at).clone(), 0)];
        while let Some((value, depth)) = left.pop() {
            self.spend(4)?;
            let inner: Vec<Value> = match &value {
                _ if depth > DEPTH_MAX => continue,
                Value::Text(text) => {
                    self.spend(text.len() / 4)?;
                    continue;
                }
                Value::List(list) => list.to_vec(),
                Value::Map(map) => map.members().into_iter().map(|(_, member)| member).collect(),
                _ => continue,
            };
            self.makes_items(inner.len())?;
            left.extend(inner.into_iter().map(|value| (value, depth + 1)));
        }
        Ok(())
    }

    /// An argument as JSON data; null when there is none.
    ///
    /// # Errors
    /// With the text of Go's error for what JSON cannot hold, and when there is no room for it.
    pub fn json(&mut self, value: &Value) -> Result<Json, Failure> {
        let mut memory = self.memory(usize::MAX);
        let json = value.to_json_within(&mut memory);
        self.spend_memory(memory.used())?;
        json.map_err(|problem| match problem {
            JsonProblem::Memory => self.memory_exceeded(memory.limit(), usize::MAX),
            JsonProblem::Value(problem) => Failure::new(problem),
        })
    }

    /// A text as a result, paid for.
    pub(crate) fn answer_text(&mut self, text: impl Into<Text>) -> Result<Value, Failure> {
        let text = text.into();
        self.makes_text(text.len())?;
        Ok(Value::Text(text))
    }

    /// Sets a member of a map, as an assignment in Go does.
    ///
    /// # Errors
    /// When the map is nil.
    pub fn set_member(&mut self, map: &Map, key: Text, value: Value) -> Result<(), Failure> {
        self.context.budget.items(1)?;
        if value.is_container() {
            self.remember(map.emptied_later());
        }
        if map.set(key, value) { Ok(()) } else { Err(Failure::new("assignment to entry in nil map")) }
    }

    fn remember(&mut self, emptied: Option<Emptied>) {
        self.context.emptied.extend(emptied);
    }

    /// A compiled regular expression; those of a run are kept.
    ///
    /// # Errors
    /// When it does not compile; and when the run may do no more, which is an error inside of the first.
    pub fn regexp(&mut self, pattern: &Text) -> Result<Result<Rc<Regexp>, RegexpError>, Failure> {
        if !self.context.is_compiled(pattern) {
            self.spend(compile_steps(&pattern.to_str()))?;
        }
        Ok(self.context.regexp(pattern))
    }

    /// Pays for one search of an expression in a text.
    pub(crate) fn spend_search(&mut self, weight: Weight, bytes: usize) -> Result<(), Failure> {
        self.spend(weight.search_steps(bytes))
    }

    /// Counts the matches in a text and pays for finding them, `most` at the most.
    ///
    /// Looking for one match may lead to the end of the text, also when the match is short. So each has a price that
    /// grows with the text, and the caller is asked whether to go on before the next.
    ///
    /// # Errors
    /// When the run may do no more.
    pub(crate) fn count_matches(
        &mut self,
        regexp: &Regexp,
        text: &str,
        most: usize,
    ) -> Result<usize, Failure> {
        let weight = regexp.weight();
        // Most that could look ahead do not, so that is charged at a sixth of what it can come to.
        let ahead = match weight {
            Weight { looks_ahead: false, .. } => text.len() / 4_096,
            Weight { states, .. } if states > STATES_FEW => {
                text.len().saturating_mul(states) / STATES_OF_A_STEP
            }
            Weight { .. } => text.len() / 128,
        };
        self.spend_search(weight, text.len())?;
        let mut matches = 0;
        for _ in regexp.find_all(text).take(most) {
            matches += 1;
            self.context.budget.steps(2 + ahead)?;
            if self.context.budget.is_check_due() {
                self.context.check()?;
            }
        }
        Ok(matches)
    }
}

/// States up to which expressions have an automaton as a rule.
const STATES_FEW: usize = 200;

impl Work for Call<'_, '_> {
    fn charge(&mut self, steps: usize) -> Result<(), Failure> {
        self.context.budget.steps(steps)?;
        self.context.check()
    }
}
