//! Evaluates Jsonnet as go-jsonnet 0.22 does (RND-78..80, RND-241, RND-242).
//!
//! [`evaluate`] turns a [`Program`] into the text of its JSON result. What is imported comes through [`Imports`];
//! [`TreeImports`] looks files up in the tree of the source and nowhere else (SEC-52).
//!
//! The interpreter counts neither steps nor bytes, so a hostile program can compute without end or take all memory.
//! Who runs programs of strangers therefore runs them where they can be killed: an [`Evaluator`] is the port for
//! that, [`wire`] is what is said over it. [`InProcess`] is for programs of the person at the keyboard. What can be
//! bounded from outside is bounded here: bytes of sources, the nesting of their text, and the result.

mod failure;
mod imports;
mod library;
mod nesting;
pub mod wire;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
pub use imports::TreeImports;
use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::InternedStr;
use rsjsonnet_lang::program::{
    Callbacks, EvalStackTraceItem, ImportError, LoadError, NativeError, Program as Machine, Thunk, Value,
};
use rsjsonnet_lang::span::{SourceId, SpanContext, SpanContextId, SpanId};
use serde::{Deserialize, Serialize};

/// Bytes of all files that one evaluation reads.
pub const SOURCE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of one result.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Frames of a call stack; the default of go-jsonnet (RND-241).
const STACK_MAX: usize = 500;

/// A variable that a program is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// A text, or Jsonnet.
    pub value: String,
    /// Whether the value is Jsonnet.
    pub code: bool,
}

/// What is evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The file, as its imports and messages name it.
    pub file: String,
    /// Its text.
    pub text: String,
    /// Arguments of the function that the file may be; of equal names the last one counts.
    pub arguments: Vec<Variable>,
    /// What `std.extVar` finds; of equal names the last one counts.
    pub ext_vars: Vec<Variable>,
}

/// Why there is no result: the text that users see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonnetError {
    /// The program is wrong, or says so itself.
    #[error("{0}")]
    Program(String),
    /// A bound was reached.
    #[error("{0}")]
    Exceeded(String),
}

/// A file that an import found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Its name: equal for the same file, and where its own imports are looked for first.
    pub file: String,
    /// Its bytes.
    pub content: Bytes,
}

/// Finds imported files.
pub trait Imports {
    /// The file that `path`, written in the file `from`, means. Variables have no file: then `from` is empty.
    ///
    /// # Errors
    /// With the text users see.
    fn load(&mut self, from: &str, path: &str) -> Result<Imported, String>;
}

/// Who evaluates programs.
pub trait Evaluator: Send + Sync {
    /// The JSON text of a program's result.
    ///
    /// # Errors
    /// When the program fails, or takes more than it may.
    fn evaluate(&self, program: &Program, imports: &mut dyn Imports) -> Result<String, JsonnetError>;
}

/// Evaluates on the thread of the caller, without a bound of time or memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl Evaluator for InProcess {
    fn evaluate(&self, program: &Program, imports: &mut dyn Imports) -> Result<String, JsonnetError> {
        evaluate(program, imports)
    }
}

/// Evaluates a program and gives its result as one line of JSON.
///
/// # Errors
/// When the program fails, or its text is too large or nested too deep.
pub fn evaluate(program: &Program, imports: &mut dyn Imports) -> Result<String, JsonnetError> {
    let arena = Arena::new();
    let mut machine = Machine::new(&arena);
    machine.set_max_stack(STACK_MAX);
    let (name, parameter) = (machine.intern_str(library::PARSE_YAML), machine.intern_str("str"));
    machine.register_native_func(name, &[parameter]);
    let mut host = Host::new(imports);
    // Loaded before anything runs: a variable that cannot be read is an error even if nobody asks for it.
    for variable in last_of_each(&program.ext_vars) {
        let thunk = host.variable(&mut machine, "extvar", variable)?;
        let name = machine.intern_str(&variable.name);
        machine.add_ext_var(name, &thunk);
    }
    let mut arguments = Vec::new();
    for variable in last_of_each(&program.arguments) {
        let thunk = host.variable(&mut machine, "top-level-arg", variable)?;
        arguments.push((machine.intern_str(&variable.name), thunk));
    }
    let main = host.load(&mut machine, &program.file, program.text.as_bytes())?;
    let outcome = machine.eval_value(&main, &mut host).and_then(|value| {
        // What is no function takes no arguments, and nobody minds.
        if !value.is_function() {
            return Ok(value);
        }
        let function = machine.value_to_thunk(&value);
        machine.eval_call(&function, &[], &arguments, &mut host)
    });
    let text = outcome.and_then(|value| machine.manifest_json(&value, false));
    match text {
        Ok(text) if text.len() > OUTPUT_BYTES_MAX => {
            Err(JsonnetError::Exceeded(format!("the result has more than {OUTPUT_BYTES_MAX} bytes")))
        }
        Ok(text) => Ok(text),
        Err(error) => Err(host.failure.take().unwrap_or_else(|| {
            JsonnetError::Program(failure::of_evaluation(&error, machine.span_manager(), &host.sources))
        })),
    }
}

/// The variables by name, of equal names the last one.
fn last_of_each(variables: &[Variable]) -> impl Iterator<Item = &Variable> {
    variables
        .iter()
        .map(|variable| (variable.name.as_str(), variable))
        .collect::<BTreeMap<_, _>>()
        .into_values()
}

/// A text that was loaded, without what was put before it, for positions in messages.
struct Source {
    file: String,
    text: Bytes,
}

/// What the machine asks while it runs.
struct Host<'a, 'p> {
    imports: &'a mut dyn Imports,
    sources: HashMap<SourceId, Source>,
    loaded: HashMap<String, Thunk<'p>>,
    bytes_left: u64,
    /// Why an import failed; the machine only knows that it did.
    failure: Option<JsonnetError>,
}

impl<'a, 'p> Host<'a, 'p> {
    fn new(imports: &'a mut dyn Imports) -> Self {
        Self {
            imports,
            sources: HashMap::new(),
            loaded: HashMap::new(),
            bytes_left: SOURCE_BYTES_MAX,
            failure: None,
        }
    }

    fn variable(
        &mut self,
        machine: &mut Machine<'p>,
        what: &str,
        variable: &Variable,
    ) -> Result<Thunk<'p>, JsonnetError> {
        if variable.code {
            let file = format!("<{what}:{}>", variable.name);
            return self.load(machine, &file, variable.value.as_bytes());
        }
        Ok(machine.value_to_thunk(&Value::string(&variable.value)))
    }

    fn load(
        &mut self,
        machine: &mut Machine<'p>,
        file: &str,
        text: &[u8],
    ) -> Result<Thunk<'p>, JsonnetError> {
        self.spend(text.len())?;
        nesting::check(text).map_err(|why| JsonnetError::Exceeded(format!("{file}: {why}")))?;
        let whole = [library::PREFIX.as_bytes(), text].concat();
        let (context, source) = machine.span_manager_mut().insert_source_context(whole.len());
        let known = Source { file: file.to_owned(), text: Bytes::copy_from_slice(text) };
        self.sources.insert(source, known);
        machine.load_source(context, &whole, false, file).map_err(|error: LoadError| {
            JsonnetError::Program(failure::of_loading(&error, machine.span_manager(), &self.sources))
        })
    }

    /// The standard library as this file sees it.
    fn library(machine: &mut Machine<'p>, file: &str) -> Result<Thunk<'p>, JsonnetError> {
        let text = library::TEXT.as_bytes();
        let (context, _) = machine.span_manager_mut().insert_source_context(text.len());
        let failed = |_error| JsonnetError::Program("the standard library cannot be loaded".to_owned());
        machine.load_source(context, text, true, file).map_err(failed)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), JsonnetError> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.bytes_left.checked_sub(bytes));
        self.bytes_left = left.ok_or_else(|| {
            JsonnetError::Exceeded(format!(
                "the files of the program have more than {SOURCE_BYTES_MAX} bytes"
            ))
        })?;
        Ok(())
    }

    /// The name of the file that holds a span; empty for a variable.
    fn file_of(&self, machine: &Machine<'p>, span: SpanId) -> String {
        let (context, _, _): (SpanContextId, usize, usize) = machine.span_manager().get_span(span);
        let SpanContext::Source(source) = *machine.span_manager().get_context(context);
        self.sources.get(&source).map(|source| source.file.clone()).unwrap_or_default()
    }

    /// The file that an import means.
    fn find(&mut self, machine: &Machine<'p>, from: SpanId, path: &str) -> Result<Imported, JsonnetError> {
        let file = self.file_of(machine, from);
        let file = if file.starts_with('<') { "" } else { file.as_str() };
        self.imports.load(file, path).map_err(|why| {
            let place = failure::place(from, machine.span_manager(), &self.sources);
            JsonnetError::Program(format!("RUNTIME ERROR: couldn't open import {path:?}: {why}{place}"))
        })
    }

    fn noting<T>(&mut self, result: Result<T, JsonnetError>) -> Result<T, ImportError> {
        result.map_err(|error| {
            self.failure.get_or_insert(error);
            ImportError
        })
    }

    fn bytes(&mut self, machine: &Machine<'p>, from: SpanId, path: &str) -> Result<Bytes, JsonnetError> {
        let found = self.find(machine, from, path)?;
        self.spend(found.content.len())?;
        Ok(found.content)
    }
}

impl<'p> Callbacks<'p> for Host<'_, 'p> {
    fn import(
        &mut self,
        program: &mut Machine<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Thunk<'p>, ImportError> {
        if path == library::PATH {
            let library = Self::library(program, &self.file_of(program, from));
            return self.noting(library);
        }
        let found = self.find(program, from, path);
        let found = self.noting(found)?;
        if let Some(known) = self.loaded.get(&found.file) {
            return Ok(known.clone());
        }
        let loaded = self.load(program, &found.file, &found.content);
        let thunk = self.noting(loaded)?;
        self.loaded.insert(found.file, thunk.clone());
        Ok(thunk)
    }

    fn import_str(
        &mut self,
        program: &mut Machine<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<String, ImportError> {
        let bytes = self.bytes(program, from, path);
        let bytes = self.noting(bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn import_bin(
        &mut self,
        program: &mut Machine<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Vec<u8>, ImportError> {
        let bytes = self.bytes(program, from, path);
        self.noting(bytes).map(|bytes| bytes.to_vec())
    }

    // Traces are for whoever sits at a terminal, and nobody does.
    fn trace(&mut self, _program: &mut Machine<'p>, _message: &str, _stack: &[EvalStackTraceItem]) {}

    // None but those of our own library are registered (RND-241).
    fn native_call(
        &mut self,
        program: &mut Machine<'p>,
        _name: InternedStr<'p>,
        args: &[Value<'p>],
    ) -> Result<Value<'p>, NativeError> {
        let Some(text) = args.first().and_then(Value::to_string) else {
            self.failure
                .get_or_insert(JsonnetError::Program("RUNTIME ERROR: std.parseYaml wants a text".to_owned()));
            return Err(NativeError);
        };
        library::parse_yaml(program, &text).map_err(|why| {
            self.failure.get_or_insert(JsonnetError::Program(format!("RUNTIME ERROR: {why}")));
            NativeError
        })
    }
}

#[cfg(test)]
mod tests;
