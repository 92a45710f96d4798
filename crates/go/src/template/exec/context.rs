//! What a run keeps beside its stacks.

use crate::live;
use crate::regexp::{Regexp, RegexpError};
use crate::template::environment::Environment;
use crate::template::error::{Failure, TemplateError};
use crate::template::functions::FunctionSet;
use crate::template::limits::{Budget, Limits};
use crate::template::parse::Parsed;
use crate::template::templates::Templates;
use crate::template::value::{Emptied, Text};
use std::collections::HashMap;
use std::rc::Rc;

/// Expressions that are kept; a compiled one may take megabytes.
const REGEXPS_MAX: usize = 64;
/// Memory that a compiled expression may take.
const REGEXP_BYTES_MAX: usize = 1 << 20;
/// Texts of `tpl` that are kept.
const PARSED_MAX: usize = 1_024;
/// Bytes of all texts that are kept; parsed they take some twenty times as much.
const PARSED_BYTES_ALL_MAX: usize = 256 << 10;
/// Bytes of a text that is kept.
const PARSED_BYTES_MAX: usize = 16 << 10;

/// The run, as functions see it.
pub(crate) struct Context<'e> {
    pub(crate) environment: &'e dyn Environment,
    pub(crate) budget: Budget,
    /// Maps that are emptied when the run ends, so that those that hold themselves go.
    pub(crate) emptied: Vec<Emptied>,
    /// How often templates are inside themselves.
    pub(crate) nested: HashMap<Text, u32>,
    functions: &'e FunctionSet,
    name: &'e Text,
    regexps: HashMap<Text, Rc<Regexp>>,
    parsed: HashMap<Text, Parsed>,
    parsed_bytes: usize,
}

impl<'e> Context<'e> {
    pub(crate) fn new(templates: &'e Templates, environment: &'e dyn Environment, limits: Limits) -> Self {
        Self {
            environment,
            budget: Budget::new(limits),
            emptied: Vec::new(),
            nested: HashMap::new(),
            functions: templates.functions(),
            name: templates.name(),
            regexps: HashMap::new(),
            parsed: HashMap::new(),
            parsed_bytes: 0,
        }
    }

    /// A compiled expression.
    pub(crate) fn regexp(&mut self, pattern: &Text) -> Result<Rc<Regexp>, RegexpError> {
        if let Some(regexp) = self.regexps.get(pattern) {
            return Ok(Rc::clone(regexp));
        }
        let text = std::str::from_utf8(pattern.as_bytes()).map_err(|error| {
            let rest = pattern.as_bytes().get(error.valid_up_to()..).unwrap_or_default();
            let part = String::from_utf8_lossy(rest).into_owned();
            RegexpError::Syntax { problem: "invalid UTF-8", part }
        })?;
        let regexp = Rc::new(Regexp::with_memory(text, REGEXP_BYTES_MAX)?);
        if self.regexps.len() >= REGEXPS_MAX || live::is_scarce() {
            self.regexps.clear();
        }
        self.regexps.insert(pattern.clone(), Rc::clone(&regexp));
        Ok(regexp)
    }

    /// Whether an expression is kept.
    pub(crate) fn is_compiled(&self, pattern: &Text) -> bool {
        self.regexps.contains_key(pattern)
    }

    /// Whether a text is kept.
    pub(crate) fn is_parsed(&self, text: &Text) -> bool {
        self.parsed.contains_key(text)
    }

    /// A text as a template of the set's name.
    pub(crate) fn parse(&mut self, text: &Text) -> Result<Parsed, TemplateError> {
        if let Some(parsed) = self.parsed.get(text) {
            return Ok(parsed.clone());
        }
        let parsed = Parsed::new(&self.name.to_str(), text.as_bytes(), self.functions)?;
        if text.len() <= PARSED_BYTES_MAX {
            let is_full = self.parsed.len() >= PARSED_MAX || self.parsed_bytes >= PARSED_BYTES_ALL_MAX;
            if is_full || live::is_scarce() {
                self.parsed.clear();
                self.parsed_bytes = 0;
            }
            self.parsed_bytes += text.len();
            self.parsed.insert(text.clone(), parsed.clone());
        }
        Ok(parsed)
    }

    /// Whether the run still is within its memory, and the caller wants it to go on.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        live::check()?;
        if self.environment.is_cancelled() {
            return Err(crate::template::limits::Exceeded::Cancelled.into());
        }
        Ok(())
    }
}
