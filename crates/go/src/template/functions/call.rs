//! What a function sees of its call.

use super::Operand;
use crate::regexp::{Regexp, RegexpError};
use crate::template::environment::Environment;
use crate::template::error::Failure;
use crate::template::exec::Context;
use crate::template::value::{Emptied, List, ListType, Map, MapType, Text, Value};
use std::rc::Rc;

const NIL: &Value = &Value::Nil;

/// A call: arguments of the types that the function asked for, and the run it happens in.
///
/// Accessors are total: what the table does not promise reads as empty.
pub struct Call<'c, 'e> {
    pub(crate) operands: &'c mut [Operand],
    pub(crate) receiver: Option<&'c Value>,
    pub(crate) context: &'c mut Context<'e>,
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

    /// Pays for a list or map of so many items, before it is made.
    ///
    /// # Errors
    /// When the run may make no more.
    pub fn makes_items(&mut self, items: usize) -> Result<(), Failure> {
        Ok(self.context.budget.items(items)?)
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
    /// When it does not compile.
    pub fn regexp(&mut self, pattern: &Text) -> Result<Rc<Regexp>, RegexpError> {
        self.context.regexp(pattern)
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
        let steps = 1 + text.len() / 1_024;
        let mut matches = 0;
        for _ in regexp.find_all(text).take(most) {
            matches += 1;
            self.context.budget.steps(steps)?;
            if steps > 1 {
                self.context.check()?;
            }
        }
        Ok(matches)
    }
}
