//! The steps of functions with predicates.

use super::{Emitted, Emitter};
use crate::expr::ast::{Binary, BuiltinCall, Node};
use crate::expr::builtins::Loop;
use crate::expr::error::{Misplaced, Place};
use crate::expr::program::Op;
use crate::expr::value::Value;

impl Emitter {
    pub(super) fn loop_call(&mut self, kind: Loop, call: &BuiltinCall, place: Place) -> Emitted {
        let [list, rest @ ..] = call.arguments.as_slice() else {
            return Err(Misplaced::new(place, "not enough arguments"));
        };
        let (predicate, third) = (rest.first(), rest.get(1));
        self.operand(list, None)?;
        self.op(Op::Begin, place)?;
        match kind {
            Loop::All | Loop::None | Loop::Any => self.decide(kind, predicate, place)?,
            Loop::One => {
                self.counted(None, predicate, None, place)?;
                self.op(Op::Count, place)?;
                self.constant(Value::Int(1), place)?;
                self.op(Op::Binary(Binary::Equal), place)?;
            }
            Loop::Filter => {
                self.counted(Some(call), predicate, None, place)?;
                self.op(Op::CollectCounted, place)?;
            }
            Loop::Count => {
                let jump = self.counted(None, predicate, call.threshold, place)?;
                self.op(Op::Count, place)?;
                if let Some(jump) = jump {
                    let end = self.op(Op::Jump(0), place)?;
                    self.land(jump);
                    self.op(Op::Pop, place)?;
                    self.op(Op::Count, place)?;
                    self.land(end);
                }
            }
            Loop::Map => {
                self.each(place, |emitter| emitter.predicate(predicate, place))?;
                self.op(Op::CollectAll, place)?;
            }
            Loop::Sum => {
                self.constant(Value::Int(0), place)?;
                self.op(Op::SetAccumulator, place)?;
                self.each(place, |emitter| {
                    emitter.predicate(predicate, place)?;
                    emitter.op(Op::Accumulator, place)?;
                    emitter.op(Op::Binary(Binary::Add), place)?;
                    emitter.op(Op::SetAccumulator, place).map(|_| ())
                })?;
                self.op(Op::Accumulator, place)?;
            }
            Loop::Find | Loop::FindIndex | Loop::FindLast | Loop::FindLastIndex => {
                self.find(kind, call, predicate, place)?;
            }
            Loop::GroupBy => {
                self.op(Op::BeginGroups, place)?;
                self.each(place, |emitter| {
                    emitter.predicate(predicate, place)?;
                    emitter.op(Op::AddToGroup, place).map(|_| ())
                })?;
                self.op(Op::Groups, place)?;
            }
            Loop::SortBy => {
                match third {
                    Some(order) => self.node(order, None)?,
                    None => self.constant("asc".into(), place)?,
                }
                self.op(Op::BeginSort, place)?;
                self.each(place, |emitter| {
                    emitter.predicate(predicate, place)?;
                    emitter.op(Op::AddToSort, place).map(|_| ())
                })?;
                self.op(Op::Sort, place)?;
            }
            Loop::Reduce => {
                if let Some(start) = third {
                    self.operand(start, None)?;
                    self.op(Op::SetAccumulator, place)?;
                } else {
                    let empty = self.op(Op::JumpIfEnd(0), place)?;
                    self.op(Op::Item, place)?;
                    self.op(Op::IncrementIndex, place)?;
                    self.op(Op::SetAccumulator, place)?;
                    let start = self.op(Op::Jump(0), place)?;
                    self.land(empty);
                    self.op(Op::Throw("reduce of empty array with no initial value"), place)?;
                    self.land(start);
                }
                self.each(place, |emitter| {
                    emitter.predicate(predicate, place)?;
                    emitter.op(Op::SetAccumulator, place).map(|_| ())
                })?;
                self.op(Op::Accumulator, place)?;
            }
        }
        self.op(Op::End, place).map(|_| ())
    }

    /// What the predicate gives for the present item, or the item.
    fn predicate(&mut self, predicate: Option<&Node>, place: Place) -> Emitted {
        match predicate {
            Some(predicate) => self.node(predicate, None),
            None => self.op(Op::Item, place).map(|_| ()),
        }
    }

    /// Steps for each item, from the first on.
    fn each(&mut self, place: Place, body: impl FnOnce(&mut Self) -> Emitted) -> Emitted {
        let begin = self.here();
        let end = self.op(Op::JumpIfEnd(0), place)?;
        body(self)?;
        self.op(Op::IncrementIndex, place)?;
        self.op(Op::Jump(begin), place)?;
        self.land(end);
        Ok(())
    }

    /// Steps for each item, from the last on.
    fn each_backwards(&mut self, place: Place, body: impl FnOnce(&mut Self) -> Emitted) -> Emitted {
        self.op(Op::LastIndex, place)?;
        let begin = self.here();
        self.op(Op::Index, place)?;
        self.constant(Value::Int(0), place)?;
        self.op(Op::Binary(Binary::MoreOrEqual), place)?;
        let end = self.op(Op::JumpIfFalse(0), place)?;
        body(self)?;
        self.op(Op::DecrementIndex, place)?;
        self.op(Op::Jump(begin), place)?;
        self.land(end);
        Ok(())
    }

    /// Loops that end when the predicate decides.
    fn decide(&mut self, kind: Loop, predicate: Option<&Node>, place: Place) -> Emitted {
        let mut decided = 0;
        self.each(place, |emitter| {
            emitter.predicate(predicate, place)?;
            if kind == Loop::None {
                emitter.op(Op::Not, place)?;
            }
            let jump = if kind == Loop::Any { Op::JumpIfTrue(0) } else { Op::JumpIfFalse(0) };
            decided = emitter.op(jump, place)?;
            emitter.op(Op::Pop, place).map(|_| ())
        })?;
        self.constant(Value::Bool(kind != Loop::Any), place)?;
        self.land(decided);
        Ok(())
    }

    /// Counts the items that the predicate accepts; with a call, keeps them, or what is made of them. Gives the jump
    /// out of the loop when a threshold is reached.
    fn counted(
        &mut self,
        kept: Option<&BuiltinCall>,
        predicate: Option<&Node>,
        threshold: Option<i64>,
        place: Place,
    ) -> Result<Option<usize>, Misplaced> {
        let mut reached = None;
        self.each(place, |emitter| {
            emitter.predicate(predicate, place)?;
            let refused = emitter.op(Op::JumpIfFalse(0), place)?;
            emitter.op(Op::Pop, place)?;
            emitter.op(Op::IncrementCount, place)?;
            if let Some(call) = kept {
                emitter.predicate(call.map.as_ref(), place)?;
            }
            if let Some(threshold) = threshold {
                emitter.op(Op::Reached(threshold), place)?;
                reached = Some(emitter.op(Op::JumpIfTrue(0), place)?);
                emitter.op(Op::Pop, place)?;
            }
            let next = emitter.op(Op::Jump(0), place)?;
            emitter.land(refused);
            emitter.op(Op::Pop, place)?;
            emitter.land(next);
            Ok(())
        })?;
        Ok(reached)
    }

    fn find(&mut self, kind: Loop, call: &BuiltinCall, predicate: Option<&Node>, place: Place) -> Emitted {
        let mut found = 0;
        let body = |emitter: &mut Self| {
            emitter.predicate(predicate, place)?;
            let refused = emitter.op(Op::JumpIfFalse(0), place)?;
            emitter.op(Op::Pop, place)?;
            if matches!(kind, Loop::FindIndex | Loop::FindLastIndex) {
                emitter.op(Op::Index, place)?;
            } else {
                emitter.predicate(call.map.as_ref(), place)?;
            }
            found = emitter.op(Op::Jump(0), place)?;
            emitter.land(refused);
            emitter.op(Op::Pop, place).map(|_| ())
        };
        if kind.is_backwards() {
            self.each_backwards(place, body)?;
        } else {
            self.each(place, body)?;
        }
        if call.throws {
            self.op(Op::Throw("reflect: slice index out of range"), place)?;
        } else {
            self.constant(Value::Nil, place)?;
        }
        self.land(found);
        Ok(())
    }
}
