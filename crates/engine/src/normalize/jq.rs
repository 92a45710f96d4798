//! jq path expressions: which paths of a document they name, and deleting those (ENG-69, DEP-47).
//!
//! jaq's own `del` is an update that fails on everyday input (a list item without the field, an absent parent), so
//! only `path(f)` is run here and the paths are deleted by us. Everything in jq that can run for ever is counted:
//! the recursive definitions of the prelude take a step from a budget each time round, native functions that
//! look outside (`now`, `env`, `input`, `halt`) do not exist, and expressions may not define functions. How deep values
//! are nested is bounded ([`nesting`]).
//!
//! Not everything can be counted: natives that loop by themselves, texts that are multiplied, and recursion inside
//! `reduce` run until they are done, out of memory or out of stack. There is no deadline here. Where expressions
//! come from tenants, another process runs them, which is killed when it takes too long (`scripts`).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jaq_core::data::HasLut;
use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};
use jaq_core::load::parse::Def;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::native::{bome, run, v};
use jaq_core::{Compiler, Ctx, DataT, Lut, Vars, unwrap_valr};
use jaq_json::{Num, Val};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::nesting::Checks;
use crate::scripts::ScriptFault;

mod nesting;

/// Rounds of recursive definitions that one run may take.
const STEPS_MAX: u32 = 50_000;
/// Paths that one run may name.
const PATHS_MAX: usize = 100_000;
/// Bytes of one expression.
const EXPRESSION_BYTES_MAX: usize = 4 << 10;
/// Tokens of one expression: parser, compiler and run recurse along the operators of a chain.
const TOKENS_MAX: usize = 400;
/// Characters of an error that are kept; it may quote the document.
const ERROR_CHARACTERS_MAX: usize = 200;
/// Nesting of one expression; parser and compiler recurse.
const NESTING_MAX: usize = 64;

/// Natives that look outside, and `range`, which is counted here.
const NATIVES_REMOVED: [&str; 9] =
    ["halt", "env", "now", "debug_empty", "stderr_empty", "localtime", "strflocaltime", "input", "inputs"];
/// Definitions that rest on those, and those that are replaced by counted ones below.
const DEFINITIONS_REMOVED: [(&str, usize); 12] = [
    ("getpath", 1),
    ("halt", 0),
    ("halt_error", 0),
    ("halt_error", 1),
    ("stderr", 0),
    ("debug", 0),
    ("debug", 1),
    ("repeat", 1),
    ("recurse", 1),
    ("while", 2),
    ("until", 2),
    ("range", 3),
];
const PRELUDE: &str = r#"
def spend: if step then . else error("too many steps") end;
def repeat(f): def rec: if step then f, rec else error("too many steps") end; rec;
def recurse(f): def rec: if step then ., (f | rec) else error("too many steps") end; rec;
def while(cond; update): def rec: if step then (if cond then ., (update | rec) else empty end) else error("too many steps") end; rec;
def until(cond; update): def rec: if step then (if cond then . else update | rec end) else error("too many steps") end; rec;
def range($from; $to; $by): $from
  | if $by > 0 then while(. < $to; . + $by)
    elif $by < 0 then while(. > $to; . + $by)
    else empty end;
def flat: if flat_value then . else error("nested too deep") end;
def getpath($path): if $path | short_path then reduce $path[] as $p (.; .[$p]) else error("nested too deep") end;
def fromjson: if flat_text then unchecked_fromjson else error("nested too deep") end;
"#;
/// Names that only our own definitions may use: the native behind a checked definition, and the expression itself.
const NAMES_RESERVED: [&str; 2] = ["unchecked_fromjson", "checked_rule"];
/// Why an expression was stopped whose steps are used up, and one whose values are nested too deep.
const TOO_MANY_STEPS: &str = "it takes too many steps";
const TOO_MANY_PATHS: &str = "it names too many paths";
const TOO_DEEP: &str = "it makes a value that is nested more than 1000 levels deep";
/// Definitions of jq that the libraries lack.
const EXTRAS: &str = "
def IN(s): any(s == .; .);
def IN(source; s): any(source == s; .);
def leaf_paths: paths(scalars);
";

/// A compiled path expression.
pub struct JqPath {
    expression: String,
    filter: jaq_core::Filter<Counted>,
}

/// A path expression that does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid jq path expression {expression:?}: {reason}")]
pub struct JqSyntaxError {
    /// The expression as written.
    pub expression: String,
    /// What is wrong with it.
    pub reason: String,
}

/// One step of a path that exists in a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathStep {
    /// Member of an object.
    Member(String),
    /// Position in a list, from the front.
    Item(usize),
}

/// The data natives see: the budget.
struct Counted;

#[derive(Clone, Copy)]
struct Facts<'a> {
    lut: &'a Lut<Counted>,
    run: &'a Run,
}

/// What one run may still take.
struct Run {
    steps_left: Cell<u32>,
    checks: Checks,
    /// Why it was stopped, also where the expression caught the error.
    stopped: Cell<Option<&'static str>>,
}

impl Run {
    fn new() -> Self {
        Self { steps_left: Cell::new(STEPS_MAX), checks: Checks::default(), stopped: Cell::new(None) }
    }

    fn may_step(&self) -> bool {
        let left = self.steps_left.get();
        self.steps_left.set(left.saturating_sub(1));
        self.may_if(left > 0, TOO_MANY_STEPS)
    }

    /// Keeps in mind why a run is stopped when it may not go on.
    fn may_if(&self, may: bool, otherwise: &'static str) -> bool {
        if !may {
            self.stopped.set(Some(otherwise));
        }
        may
    }
}

impl DataT for Counted {
    type V<'a> = Val;
    type Data<'a> = Facts<'a>;
}

impl<'a> HasLut<'a, Counted> for Facts<'a> {
    fn lut(&self) -> &'a Lut<Counted> {
        self.lut
    }
}

impl fmt::Debug for JqPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JqPath").field(&self.expression).finish()
    }
}

impl JqPath {
    /// Compiles an expression; costs some 300 µs, so do it once.
    pub fn compile(expression: &str) -> Result<Self, JqSyntaxError> {
        let fault = |reason: String| JqSyntaxError { expression: expression.to_owned(), reason };
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(fault(format!("longer than {EXPRESSION_BYTES_MAX} bytes")));
        }
        if nesting(expression) > NESTING_MAX {
            return Err(fault(format!("nested deeper than {NESTING_MAX}")));
        }
        // The line feeds keep a comment inside the expression from hiding the parenthesis.
        let code = format!("path(\n{expression}\n)");
        let mut rule = None;
        if let Ok(tokens) = Lexer::new(expression).lex() {
            if tokens.iter().any(defines) {
                return Err(fault("definitions are not supported".to_owned()));
            }
            if tokens.iter().map(weight).sum::<usize>() > TOKENS_MAX {
                return Err(fault(format!("more than {TOKENS_MAX} tokens")));
            }
            let body = load::parse(expression, |parser| parser.term());
            rule =
                body.map(|body| Def { name: "checked_rule", args: Vec::new(), body: nesting::checked(body) });
        }
        let arena = Arena::default();
        // One that cannot be parsed is loaded as it is, for the text of the error.
        let code = if rule.is_some() { "path(checked_rule)" } else { code.as_str() };
        let modules = Loader::new(definitions().map(nesting::checked_definition).chain(rule))
            .load(&arena, File { code, path: () })
            .map_err(|errors| fault(load_reason(&errors)))?;
        let filter = Compiler::default()
            .with_funs(natives())
            .compile(modules)
            .map_err(|errors| fault(compile_reason(&errors)))?;
        Ok(Self { expression: expression.to_owned(), filter })
    }

    /// The paths the expression names and the document has.
    ///
    /// # Errors
    /// What went wrong, when the run fails, or reaches one of its bounds.
    pub fn existing_paths(&self, document: &Value) -> Result<BTreeSet<Vec<PathStep>>, ScriptFault> {
        let run = Run::new();
        let found = self.paths(document, &run);
        match run.stopped.get() {
            Some(reason) => Err(ScriptFault::Stopped(reason.to_owned())),
            None => found.map_err(ScriptFault::Failed),
        }
    }

    fn paths(&self, document: &Value, run: &Run) -> Result<BTreeSet<Vec<PathStep>>, String> {
        let facts = Facts { lut: &self.filter.lut, run };
        let context = Ctx::<Counted>::new(facts, Vars::new([]));
        let mut found = BTreeSet::new();
        for (count, path) in self.filter.id.run((context, to_val(document))).map(unwrap_valr).enumerate() {
            match path {
                Ok(Val::Arr(steps)) if count < PATHS_MAX => {
                    resolve(document, None, &steps, &mut Vec::new(), &mut found);
                }
                Ok(_) => {
                    run.stopped.set(Some(TOO_MANY_PATHS));
                    return Err(TOO_MANY_PATHS.to_owned());
                }
                Err(error) => return Err(error.to_string().chars().take(ERROR_CHARACTERS_MAX).collect()),
            }
        }
        Ok(found)
    }
}

fn definitions() -> impl Iterator<Item = Def<&'static str>> {
    let kept = |def: &Def<&'static str>| {
        !DEFINITIONS_REMOVED.iter().any(|(name, arity)| def.name == *name && def.args.len() == *arity)
    };
    let ours = |code: &'static str| load::parse(code, |parser| parser.defs()).unwrap_or_default();
    let core = jaq_core::defs().filter(kept);
    // The first definitions of the core (`empty`, `error`, `true`) are needed by ours, and ours by all the others.
    let (basic, rest): (Vec<_>, Vec<_>) = core.partition(|def| {
        matches!(def.name, "empty" | "error" | "true" | "false" | "not" | "select" | "tostring")
    });
    basic
        .into_iter()
        .chain(ours(PRELUDE))
        .chain(rest)
        .chain(jaq_std::defs().filter(kept))
        .chain(jaq_json::defs())
        .chain(ours(EXTRAS))
}

fn natives() -> impl Iterator<Item = jaq_core::native::Fun<Counted>> {
    let step = run::<Counted>(("step", v(0), |cv| bome(Ok(Val::Bool(cv.0.data().run.may_step())))));
    let flat_value = run::<Counted>(("flat_value", v(0), |cv| {
        let run = cv.0.data().run;
        bome(Ok(Val::Bool(run.may_if(run.checks.is_flat(&cv.1), TOO_DEEP))))
    }));
    let flat_text = run::<Counted>(("flat_text", v(0), |cv| {
        bome(Ok(Val::Bool(cv.0.data().run.may_if(nesting::is_flat_text(&cv.1), TOO_DEEP))))
    }));
    let short_path = run::<Counted>(("short_path", v(0), |cv| {
        let is_short = !matches!(&cv.1, Val::Arr(steps) if steps.len() > nesting::DEPTH_MAX);
        bome(Ok(Val::Bool(cv.0.data().run.may_if(is_short, TOO_DEEP))))
    }));
    let reserved = |(name, args, native): jaq_core::native::Fun<Counted>| match name {
        "fromjson" => ("unchecked_fromjson", args, native),
        _ => (name, args, native),
    };
    jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, args, _)| !NATIVES_REMOVED.contains(name) && (*name != "range" || args.len() != 3))
        .map(reserved)
        .chain([step, flat_value, flat_text, short_path])
}

/// Deepest nesting of brackets, those inside texts counted too.
fn nesting(expression: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for character in expression.chars() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Whether a token is, or holds, the start of a definition, or a name of our own.
fn defines(token: &Token<&str>) -> bool {
    match &token.1 {
        Tok::Word => token.0 == "def" || NAMES_RESERVED.contains(&token.0),
        Tok::Block(tokens) => tokens.iter().any(defines),
        Tok::Str(parts) => parts.iter().any(|part| match part {
            StrPart::Term(token) => defines(token),
            StrPart::Str(_) | StrPart::Char(_) => false,
        }),
        Tok::Var | Tok::Fmt | Tok::Num | Tok::Sym => false,
    }
}

/// How many tokens a token stands for; each character of an operator counts.
fn weight(token: &Token<&str>) -> usize {
    match &token.1 {
        Tok::Block(tokens) => tokens.iter().map(weight).sum::<usize>().saturating_add(1),
        Tok::Str(parts) => parts
            .iter()
            .map(|part| match part {
                StrPart::Term(token) => weight(token),
                StrPart::Str(_) | StrPart::Char(_) => 0,
            })
            .sum::<usize>()
            .saturating_add(1),
        Tok::Sym => token.0.len(),
        Tok::Word | Tok::Var | Tok::Fmt | Tok::Num => 1,
    }
}

fn load_reason(errors: &load::Errors<&str, ()>) -> String {
    let reason = errors.first().map(|(_, error)| match error {
        load::Error::Io(_) => "modules are not supported".to_owned(),
        load::Error::Lex(errors) => {
            errors.first().map_or_else(String::new, |(expected, _)| format!("expected {}", expected.as_str()))
        }
        load::Error::Parse(errors) => {
            errors.first().map_or_else(String::new, |(expected, _)| format!("expected {}", expected.as_str()))
        }
    });
    reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| "syntax error".to_owned())
}

fn compile_reason(errors: &jaq_core::compile::Errors<&str, ()>) -> String {
    let undefined = errors.first().and_then(|(_, errors)| errors.first());
    undefined.map_or_else(
        || "it does not compile".to_owned(),
        |(name, undefined)| format!("undefined {} {name}", undefined.as_str()),
    )
}

fn to_val(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => Val::Num(if let Some(int) = number.as_i64() {
            Num::from_integral(int)
        } else if let Some(int) = number.as_u64() {
            Num::from_integral(int)
        } else {
            Num::Float(number.as_f64().unwrap_or(f64::NAN))
        }),
        Value::String(text) => Val::from(text.clone()),
        Value::Array(items) => items.iter().map(to_val).collect(),
        Value::Object(map) => {
            Val::obj(map.iter().map(|(key, value)| (Val::from(key.clone()), to_val(value))).collect())
        }
    }
}

/// Turns a path with negative positions and slices into plain ones, as far as the document has them.
fn resolve(
    value: &Value,
    window: Option<(usize, usize)>,
    steps: &[Val],
    prefix: &mut Vec<PathStep>,
    found: &mut BTreeSet<Vec<PathStep>>,
) {
    let Some((step, rest)) = steps.split_first() else {
        match window {
            None if prefix.is_empty() => {}
            None => {
                found.insert(prefix.clone());
            }
            Some((start, end)) => {
                found.extend((start..end).map(|index| {
                    let mut path = prefix.clone();
                    path.push(PathStep::Item(index));
                    path
                }));
            }
        }
        return;
    };
    match (value, step) {
        (Value::Object(map), Val::TStr(key)) => {
            let Some(key) = std::str::from_utf8(key).ok() else { return };
            let Some(next) = map.get(key) else { return };
            prefix.push(PathStep::Member(key.to_owned()));
            resolve(next, None, rest, prefix, found);
            prefix.pop();
        }
        (Value::Array(items), Val::Num(number)) => {
            let (start, end) = window.unwrap_or((0, items.len()));
            let index = number.as_isize().and_then(|index| absolute(index, start, end));
            let Some((index, next)) = index.and_then(|index| Some((index, items.get(index)?))) else {
                return;
            };
            prefix.push(PathStep::Item(index));
            resolve(next, None, rest, prefix, found);
            prefix.pop();
        }
        (Value::Array(items), Val::Obj(slice)) => {
            let (start, end) = window.unwrap_or((0, items.len()));
            let bound = |name: &str, default| match slice.get(&Val::from(name.to_owned())) {
                Some(Val::Num(number)) => {
                    number.as_isize().map_or(default, |index| clamped(index, start, end))
                }
                _ => default,
            };
            let (from, to) = (bound("start", start), bound("end", end));
            resolve(value, Some((from, to.max(from))), rest, prefix, found);
        }
        _ => {}
    }
}

fn absolute(index: isize, start: usize, end: usize) -> Option<usize> {
    let position = match usize::try_from(index) {
        Ok(index) => start.checked_add(index)?,
        Err(_) => end.checked_sub(index.unsigned_abs())?,
    };
    (start..end).contains(&position).then_some(position)
}

fn clamped(index: isize, start: usize, end: usize) -> usize {
    match usize::try_from(index) {
        Ok(index) => start.saturating_add(index).min(end),
        Err(_) => end.saturating_sub(index.unsigned_abs()).max(start),
    }
}

/// The value a path leads to.
pub(super) fn at_mut<'a>(document: &'a mut Value, path: &[PathStep]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, step| match (value, step) {
        (Value::Object(map), PathStep::Member(key)) => map.get_mut(key),
        (Value::Array(items), PathStep::Item(index)) => items.get_mut(*index),
        _ => None,
    })
}

/// Removes what paths lead to.
pub fn delete_paths(document: &mut Value, paths: &BTreeSet<Vec<PathStep>>) {
    // Items wait until all paths through them were followed, and go all at once: each alone would shift those behind.
    let mut items: BTreeMap<&[PathStep], BTreeSet<usize>> = BTreeMap::new();
    for path in paths {
        match path.split_last() {
            None => {}
            Some((PathStep::Item(index), parents)) => {
                items.entry(parents).or_default().insert(*index);
            }
            Some((PathStep::Member(key), parents)) => {
                if let Some(Value::Object(map)) = at_mut(document, parents) {
                    map.remove(key);
                }
            }
        }
    }
    // Longest and last first, so that no removal moves what a later one names.
    for (parents, gone) in items.into_iter().rev() {
        if let Some(Value::Array(items)) = at_mut(document, parents) {
            let mut index = 0;
            items.retain(|_| {
                index += 1;
                !gone.contains(&(index - 1))
            });
        }
    }
}

#[cfg(test)]
mod tests;
