//! Regular expressions in Go's syntax (Go 1.26 `regexp`), run by the `regex` crate.
//!
//! Both engines are automata and agree on what matches first; they differ in what they let one write. A
//! pattern is read here by Go's rules and spelled anew (DEP-50). Groups lose their names on the way, because
//! Go allows `(?P<1>…)`; the replacement text is expanded here for the same reason.
//!
//! `\B` is the one escape that keeps Unicode's idea of a word; Go's is ASCII.
//!
//! Golden rows: `regexp.jsonl`.

mod expand;
mod translate;
mod weight;

use regex::{Regex, RegexBuilder};
pub use weight::compile_steps;
pub(crate) use weight::{STATES_OF_A_STEP, Weight, weigh};

/// Bytes of an expression: a class of three letters takes kilobytes before the program's size is looked at, and
/// some errors are found only by reading to the end.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;

/// A compiled expression may take this much memory, the automaton built while matching as much again.
const PROGRAM_BYTES_MAX: usize = 4 << 20;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Regexp {
    compiled: Regex,
    /// The names of the groups, the whole match first; most have none.
    names: Vec<String>,
    weight: Weight,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegexpError {
    /// Go's parser refuses it.
    #[error("error parsing regexp: {problem}: {part:?}")]
    Syntax {
        /// What is wrong.
        problem: &'static str,
        /// The part that is wrong.
        part: String,
    },
    /// It is longer than [`PATTERN_BYTES_MAX`].
    #[error("error parsing regexp: expression has more than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// The engine refuses it, mostly for its size.
    #[error("error parsing regexp: expression does not compile")]
    Engine(#[source] regex::Error),
}

impl RegexpError {
    /// Whether the expression may be a right one that is too long, or takes too much memory.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLong | Self::Engine(regex::Error::CompiledTooBig(_)))
    }
}

impl Regexp {
    /// Compiles an expression.
    pub fn new(pattern: &str) -> Result<Self, RegexpError> {
        Self::with_memory(pattern, PROGRAM_BYTES_MAX)
    }

    /// Compiles an expression that may take only so much memory, the automaton built while matching as much again:
    /// for those who keep many.
    pub fn with_memory(pattern: &str, bytes_max: usize) -> Result<Self, RegexpError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(RegexpError::TooLong);
        }
        let (spelled, names) = translate::translate(pattern)?;
        let compiled = RegexBuilder::new(&spelled)
            .size_limit(bytes_max)
            .dfa_size_limit(bytes_max)
            .build()
            .map_err(RegexpError::Engine)?;
        Ok(Self { compiled, names, weight: weigh(pattern) })
    }

    /// How much the expression weighs.
    pub(crate) fn weight(&self) -> Weight {
        self.weight
    }

    /// Steps of one search in a text of so many bytes, whatever is found: a step is about 40 ns of a processor.
    pub fn search_steps(&self, bytes: usize) -> usize {
        self.weight.search_steps(bytes)
    }

    /// Whether the expression matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }

    /// The groups of the first match, the whole match first; groups that took no part are empty.
    pub fn groups<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let captures = self.compiled.captures(text)?;
        Some(captures.iter().map(|group| group.map_or("", |group| group.as_str())).collect())
    }

    /// Every match of the expression, in order and without overlap.
    pub fn find_all<'r, 't>(&'r self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'r, 't> {
        self.compiled.find_iter(text).map(|found| found.as_str())
    }

    /// The text between the matches, as `Split` without limit gives it.
    pub fn split<'r, 't>(&'r self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'r, 't> {
        self.compiled.split(text)
    }

    /// The text between the matches as `Split` gives it, so many parts at most, and the number of matches that it
    /// looked at.
    pub(crate) fn split_go<'t>(
        &self,
        empty_pattern: bool,
        text: &'t str,
        most: usize,
    ) -> (Vec<&'t str>, usize) {
        if !empty_pattern && text.is_empty() {
            return (vec![""], 1);
        }
        let matches: Vec<_> = self.compiled.find_iter(text).take(most).collect();
        let (mut parts, mut begin, mut end) = (Vec::new(), 0, 0);
        for found in &matches {
            if parts.len() + 1 >= most {
                break;
            }
            end = found.start();
            if found.end() != 0 {
                parts.push(text.get(begin..end).unwrap_or_default());
            }
            begin = found.end();
        }
        if end != text.len() {
            parts.push(text.get(begin..).unwrap_or_default());
        }
        (parts, matches.len())
    }

    /// Replaces every match; `$1`, `${1}` and `${name}` in the replacement stand for groups, `$$` for `$`.
    pub fn replace_all(&self, text: &str, replacement: &str) -> String {
        let expanded = |captures: &regex::Captures<'_>| expand::expand(replacement, captures, &self.names);
        self.compiled.replace_all(text, expanded).into_owned()
    }

    /// Replaces every match by the text as it is.
    pub fn replace_all_literal(&self, text: &str, replacement: &str) -> String {
        self.compiled.replace_all(text, regex::NoExpand(replacement)).into_owned()
    }
}
