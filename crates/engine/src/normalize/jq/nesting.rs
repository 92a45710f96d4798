//! A bound for how deep the values of an expression are nested (ENG-69, SEC-07).
//!
//! Loops can wrap a value as often as they turn. Freeing or printing one that is nested some ten thousand deep needs
//! more stack than a thread has, and how much it has differs between a child of the controller and `eval`. Each loop
//! (`reduce`, `foreach`) gets a check of what it carries on, so that the same expression ends in the same way in both.

use std::cell::Cell;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::{Part, Path};
use jaq_json::Val;

/// Levels of a value.
pub(super) const DEPTH_MAX: usize = 1_000;
/// Turns of a loop between two checks: what a turn adds is bounded by the length of the expression.
const TURNS_PER_CHECK: u32 = 16;
/// Values that the checks of one run look at.
const VISITS_MAX: u64 = 20_000_000;

/// Name of the check in our prelude.
const CHECK: &str = "flat";

/// State of the checks of one run.
#[derive(Debug, Default)]
pub(super) struct Checks {
    turns: Cell<u32>,
    visits: Cell<u64>,
}

impl Checks {
    /// Whether a value that a loop carries on is within the bound, as far as it is looked at this time.
    pub(super) fn is_flat(&self, value: &Val) -> bool {
        let turns = self.turns.get().wrapping_add(1);
        self.turns.set(turns);
        !turns.is_multiple_of(TURNS_PER_CHECK) || self.is_within(value, DEPTH_MAX)
    }

    fn is_within(&self, value: &Val, levels: usize) -> bool {
        let visits = self.visits.get();
        self.visits.set(visits.saturating_add(1));
        if visits >= VISITS_MAX {
            return false;
        }
        let Some(levels) = levels.checked_sub(1) else { return false };
        match value {
            Val::Arr(items) => items.iter().all(|item| self.is_within(item, levels)),
            Val::Obj(members) => {
                members.iter().all(|(key, item)| self.is_within(key, levels) && self.is_within(item, levels))
            }
            _ => true,
        }
    }
}

/// Whether the brackets of a JSON text are within the bound; those inside its texts count too.
pub(super) fn is_flat_text(value: &Val) -> bool {
    let (Val::TStr(text) | Val::BStr(text)) = value else { return true };
    let mut depth = 0_usize;
    text.iter().all(|byte| {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth <= DEPTH_MAX
    })
}

/// A definition with checked loops.
pub(super) fn checked_definition<'a, 's: 'a>(def: Def<&'s str>) -> Def<&'a str> {
    let def: Def<&'a str> = def;
    Def { body: checked(def.body), ..def }
}

/// The same program, with a check of what each turn of a loop carries on.
pub(super) fn checked<'s>(term: Term<&'s str>) -> Term<&'s str> {
    let boxed = |term: Box<Term<&'s str>>| Box::new(checked(*term));
    match term {
        Term::Fold(name, items, pattern, arguments) => {
            let arguments = arguments.into_iter().map(checked).enumerate().map(|(at, argument)| match at {
                1 => Term::BinOp(
                    Box::new(argument),
                    BinaryOp::Pipe(None),
                    Box::new(Term::Call(CHECK, Vec::new())),
                ),
                _ => argument,
            });
            Term::Fold(name, boxed(items), checked_pattern(pattern), arguments.collect())
        }
        Term::Str(format, parts) => {
            let part = |part| match part {
                StrPart::Term(term) => StrPart::Term(checked(term)),
                other => other,
            };
            Term::Str(format, parts.into_iter().map(part).collect())
        }
        Term::Arr(items) => Term::Arr(items.map(boxed)),
        Term::Obj(members) => {
            Term::Obj(members.into_iter().map(|(key, value)| (checked(key), value.map(checked))).collect())
        }
        Term::Neg(term) => Term::Neg(boxed(term)),
        Term::BinOp(left, operator, right) => {
            let operator = match operator {
                BinaryOp::Pipe(pattern) => BinaryOp::Pipe(pattern.map(checked_pattern)),
                other => other,
            };
            Term::BinOp(boxed(left), operator, boxed(right))
        }
        Term::Label(name, body) => Term::Label(name, boxed(body)),
        Term::TryCatch(body, catch) => Term::TryCatch(boxed(body), catch.map(boxed)),
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.into_iter().map(|(when, then)| (checked(when), checked(then)));
            Term::IfThenElse(branches.collect(), otherwise.map(boxed))
        }
        Term::Def(defs, body) => Term::Def(defs.into_iter().map(checked_definition).collect(), boxed(body)),
        Term::Call(name, arguments) => Term::Call(name, arguments.into_iter().map(checked).collect()),
        Term::Path(of, path) => Term::Path(boxed(of), checked_path(path)),
        leaf @ (Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_)) => leaf,
    }
}

fn checked_path(path: Path<Term<&str>>) -> Path<Term<&str>> {
    let part = |part| match part {
        Part::Index(at) => Part::Index(checked(at)),
        Part::Range(from, to) => Part::Range(from.map(checked), to.map(checked)),
    };
    Path(path.0.into_iter().map(|(one, opt)| (part(one), opt)).collect())
}

fn checked_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(items) => Pattern::Arr(items.into_iter().map(checked_pattern).collect()),
        Pattern::Obj(members) => Pattern::Obj(
            members.into_iter().map(|(key, value)| (checked(key), checked_pattern(value))).collect(),
        ),
    }
}
