//! The functions with predicates.

use super::{Checked, Checker, Loop as Around, error};
use crate::expr::ast::{BuiltinCall, Node};
use crate::expr::builtins::Loop;
use crate::expr::error::{Misplaced, Place};
use crate::expr::nature::{Function, Nature, Type};

impl Checker {
    pub(super) fn loop_call(&mut self, kind: Loop, call: &mut BuiltinCall, place: Place) -> Checked {
        let name = call.builtin.name;
        let mut arguments = call.arguments.iter_mut();
        let Some(first) = arguments.next() else {
            return Err(Misplaced::new(place, format_args!("not enough arguments to call {name}")));
        };
        let collection = self.visit(first)?;
        if !collection.is_list() && !collection.is_unknown() {
            let text = format!("builtin {name} takes only array (got {})", collection.shown());
            return error(first, text);
        }
        let Some(predicate) = arguments.next() else {
            return Ok(match kind {
                Loop::Sum if collection.is_unknown() => Nature::default(),
                Loop::Sum => collection.item(),
                _ => Type::Int.into(),
            });
        };
        let given = self.predicate(kind, predicate, &collection)?;
        if let Some(third) = arguments.next() {
            let known = self.visit(third)?;
            if kind == Loop::SortBy && !known.is(Type::Text) && !known.is_unknown() {
                let text = format!("sortBy order argument must be a string (got {})", known.shown());
                return error(third, text);
            }
        }
        let Some(given) = given else {
            return error(predicate, "predicate should has one input and one output param");
        };
        let decides = match kind {
            Loop::Map | Loop::Sum | Loop::GroupBy | Loop::SortBy | Loop::Reduce => false,
            Loop::All
            | Loop::None
            | Loop::Any
            | Loop::One
            | Loop::Filter
            | Loop::Count
            | Loop::Find
            | Loop::FindIndex
            | Loop::FindLast
            | Loop::FindLastIndex => true,
        };
        if decides && !given.is(Type::Bool) && !given.is_unknown() {
            let text = format!("predicate should return boolean (got {})", given.shown());
            return error(predicate, text);
        }
        Ok(match kind {
            Loop::All | Loop::None | Loop::Any | Loop::One => Type::Bool.into(),
            Loop::Filter if collection.is_unknown() => Type::List.into(),
            Loop::Filter => collection.item().list_of(),
            Loop::Map => given.list_of(),
            Loop::Count | Loop::FindIndex | Loop::FindLastIndex => Type::Int.into(),
            // What is known of items that the predicate gives is forgotten.
            Loop::Sum => given.ty.map_or_else(|| Type::Any.into(), Nature::from),
            Loop::Find | Loop::FindLast if collection.is_unknown() => Nature::default(),
            Loop::Find | Loop::FindLast => collection.item(),
            Loop::GroupBy => Type::Groups.into(),
            Loop::SortBy => collection,
            Loop::Reduce => given,
        })
    }

    /// What a predicate gives; nothing when that is nil.
    fn predicate(
        &mut self,
        kind: Loop,
        predicate: &mut Node,
        collection: &Nature,
    ) -> Result<Option<Nature>, Misplaced> {
        self.loops.push(Around {
            collection: collection.clone(),
            index: matches!(kind, Loop::Map | Loop::Reduce),
            accumulator: kind == Loop::Reduce,
        });
        let known = self.visit(predicate);
        self.loops.pop();
        let known = known?;
        let gives = !matches!(known.ty, Some(Type::Function(Function::Predicate { gives: false })));
        Ok(known.of.filter(|_| gives).map(|of| (*of).clone()))
    }
}
