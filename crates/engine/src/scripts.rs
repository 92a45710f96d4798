//! Users' programs: jq path expressions and Lua scripts.
//!
//! The core takes whoever runs them as a value ([`Runner`]). [`InProcess`] counts their steps, which bounds what
//! can be counted and makes equal inputs give equal answers; it is for tests, simulations and the user's own
//! command line. A program that fights (a text multiplied without end, a pattern that matches for hours, a
//! recursion deeper than the stack) can only be stopped from outside: a controller hands in a runner that asks
//! another process ([`wire`]), which it can kill (ENG-69, ENG-131, ENG-214).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use crate::health::{self, Health, HealthError};
use crate::lua;
use crate::normalize::{JqPath, PathStep};

pub mod wire;

/// Paths that an expression names and a document has.
pub type Paths = BTreeSet<Vec<PathStep>>;

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFault {
    /// The program failed by itself.
    #[error("{0}")]
    Failed(String),
    /// It was stopped, or did not run at all; the text says why, and is the same each time.
    #[error("{0}")]
    Stopped(String),
}

/// A health script with what it sees besides the object.
#[derive(Clone, Copy, Debug)]
pub struct HealthScript<'a> {
    /// Text of the script.
    pub text: &'a str,
    /// Whether it may use all of the standard library that is harmless.
    pub open_libraries: bool,
    /// The time; without one, the epoch.
    pub now: Option<Timestamp>,
}

/// A script whose result is data: one that discovers actions, or an action (ENG-136, ENG-137).
#[derive(Clone, Copy, Debug)]
pub struct DataScript<'a> {
    /// Text of the script.
    pub text: &'a str,
    /// Values of the parameters of an action.
    pub params: Option<&'a BTreeMap<String, String>>,
    /// The time; without one, the epoch.
    pub now: Option<Timestamp>,
}

/// Runs users' programs. Calls may take as long as the deadlines of the implementation, so they are made on
/// threads that may block.
pub trait Scripts: fmt::Debug + Send + Sync {
    /// Whether a jq path expression compiles.
    ///
    /// # Errors
    /// What is wrong with it, when it does not.
    fn check_jq(&self, expression: &str) -> Result<(), String>;

    /// What each expression names, one after another: each looks at the document without what the ones before it
    /// named. As many results as expressions.
    fn jq_paths(&self, expressions: &[&str], document: &Value) -> Vec<Result<Paths, ScriptFault>>;

    /// Runs a health script over a live object.
    ///
    /// # Errors
    /// When the script failed or was stopped.
    fn health(&self, script: HealthScript<'_>, object: &Value) -> Result<Option<Health>, HealthError>;

    /// Runs a script over a live object and reads the table that it returns; null where it returns nothing.
    ///
    /// # Errors
    /// When the script failed or was stopped, or its result is no table, or too large.
    fn data(&self, script: DataScript<'_>, object: &Value) -> Result<Value, ScriptFault>;
}

/// Whoever runs programs, shared.
#[derive(Clone, Debug)]
pub struct Runner(Arc<dyn Scripts>);

impl Runner {
    /// Hands an implementation in.
    pub fn new(scripts: impl Scripts + 'static) -> Self {
        Self(Arc::new(scripts))
    }
}

impl Default for Runner {
    fn default() -> Self {
        Self::new(InProcess)
    }
}

impl Deref for Runner {
    type Target = dyn Scripts;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Runs programs where they are asked for, with budgets in steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl Scripts for InProcess {
    fn check_jq(&self, expression: &str) -> Result<(), String> {
        compiled(expression).map(drop)
    }

    fn jq_paths(&self, expressions: &[&str], document: &Value) -> Vec<Result<Paths, ScriptFault>> {
        let run = |expression: &str, document: &Value| {
            let path = compiled(expression).map_err(ScriptFault::Failed)?;
            path.existing_paths(document)
        };
        if let [expression] = expressions {
            return vec![run(expression, document)];
        }
        let mut document = document.clone();
        let one = |expression: &&str| {
            let paths = run(expression, &document)?;
            crate::normalize::delete_paths(&mut document, &paths);
            Ok(paths)
        };
        expressions.iter().map(one).collect()
    }

    fn health(&self, script: HealthScript<'_>, object: &Value) -> Result<Option<Health>, HealthError> {
        health::run_script(script, object)
    }

    fn data(&self, script: DataScript<'_>, object: &Value) -> Result<Value, ScriptFault> {
        let DataScript { text, params, now } = script;
        // Only scripts of health may have open libraries (ENG-129).
        let script = lua::Script { text, open_libraries: false, now, params };
        let read = |result: mlua::Value| match result {
            mlua::Value::Nil | mlua::Value::Table(_) => lua::from_lua(&result),
            other => Err(lua::not_a_table(&other)),
        };
        lua::run(script, object, read).map_err(ScriptFault::Failed)
    }
}

/// Compiled expressions that are kept; beyond, all are forgotten.
const COMPILED_MAX: usize = 256;

type Compiled = HashMap<String, Arc<JqPath>>;

/// Compiling costs some 300 µs, and the same few expressions are asked for again and again.
fn compiled(expression: &str) -> Result<Arc<JqPath>, String> {
    static KNOWN: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = known().get(expression) {
        return Ok(Arc::clone(path));
    }
    let path = Arc::new(JqPath::compile(expression).map_err(|error| error.reason)?);
    let mut known = known();
    if known.len() >= COMPILED_MAX {
        known.clear();
    }
    known.insert(expression.to_owned(), Arc::clone(&path));
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn eng_69_expressions_look_at_what_the_ones_before_them_left() {
        let document = json!({"l": [1, 2, 3]});
        let found = InProcess.jq_paths(&[".l[0]", ".l[0]", "error", ".l"], &document);
        let items = |found: &Result<Paths, ScriptFault>| found.as_ref().map(BTreeSet::len).ok();
        assert_eq!(found.iter().map(items).collect::<Vec<_>>(), [Some(1), Some(1), None, Some(1)]);
        assert!(matches!(found[2], Err(ScriptFault::Failed(_))));
        assert!(InProcess.check_jq(".a[").is_err());
        assert!(InProcess.check_jq(".a").is_ok());
    }
}
