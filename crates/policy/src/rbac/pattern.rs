//! The patterns of resources, actions and objects, compiled once (API-85..87).

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_go::glob::{Glob, GlobError};
use tiphys_go::regexp::Regexp;
use tiphys_go::steps::{Steps, TooManySteps};

use super::lines::{PolicyProblem, shown};
use super::vocabulary::{ACTIONS, Resource, bit_of};

/// What a compiled expression may take: most fit into the first, each is tried in turn.
const REGEXP_BYTES: [usize; 3] = [8 << 10, 64 << 10, 1 << 20];
/// What all expressions of a policy may take: eight thousand small ones.
const REGEXPS_BYTES_MAX: usize = 64 << 20;
/// Bytes that an expression reads in one step.
const REGEXP_STEP_BYTES: usize = 16;
/// Bytes of all globs that are more than literals and stars; each byte becomes an instruction.
const GLOBS_BYTES_MAX: usize = 1 << 20;

/// How the patterns of a policy are read (API-85, API-86).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatchMode {
    /// `glob`: the whole text, `*` crosses `/`.
    #[default]
    Glob,
    /// `regex`: anywhere in the text.
    Regex,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    shape: Shape,
    /// The known resources it matches, by their places in [`Resource::ALL`].
    resources: u16,
    /// The known actions it matches, by their places in [`ACTIONS`].
    actions: u16,
    /// What texts it matches begin with, up to and with their first `/`; the whole text where it has none. `None` when
    /// the pattern does not say.
    key: Option<SmolStr>,
}

#[derive(Debug)]
enum Shape {
    Glob(Glob),
    Regexp(Regexp),
}

/// One word of a request: a known one is a bit, for which patterns were asked when they were compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    text: &'a str,
    bit: u16,
}

impl<'a> Word<'a> {
    pub(super) fn resource(text: &'a str) -> Self {
        Self { text, bit: bit_of(Resource::ALL.into_iter().map(Resource::as_str), text) }
    }

    pub(super) fn action(text: &'a str) -> Self {
        Self { text, bit: bit_of(ACTIONS.into_iter(), text) }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The place of a known word as a bit; 0 for all others.
    pub(super) fn bit(&self) -> u16 {
        self.bit
    }

    /// Whether it may be among known words, given by their bits; of one that is not known nobody knows.
    pub(super) fn is_among(&self, known: u16) -> bool {
        self.bit == 0 || known & self.bit != 0
    }
}

impl Pattern {
    fn new(text: &str, shape: Shape) -> Self {
        let mut pattern = Self { shape, resources: 0, actions: 0, key: None };
        let mask = |words: &mut dyn Iterator<Item = &'static str>| {
            let matching = words.zip(0u32..).filter(|(word, _)| pattern.is_match_at_once(word));
            matching.fold(0, |mask, (_, at)| mask | 1 << at)
        };
        let resources = mask(&mut Resource::ALL.into_iter().map(Resource::as_str));
        let actions = mask(&mut ACTIONS.into_iter());
        pattern.resources = resources;
        pattern.actions = actions;
        if matches!(pattern.shape, Shape::Glob(_)) {
            pattern.key = glob_key(text);
        }
        pattern
    }

    fn is_match_at_once(&self, text: &str) -> bool {
        match &self.shape {
            Shape::Glob(glob) => glob.is_match(text),
            Shape::Regexp(regexp) => regexp.is_match(text),
        }
    }

    /// Whether a text matches. Expressions take time in proportion to the text, globs are counted.
    pub(super) fn is_match(&self, text: &str, steps: &mut Steps) -> Result<bool, TooManySteps> {
        match &self.shape {
            Shape::Glob(glob) => glob.is_match_within(text, steps),
            Shape::Regexp(regexp) => {
                steps.spend(text.len() / REGEXP_STEP_BYTES + 1)?;
                Ok(regexp.is_match(text))
            }
        }
    }

    /// The known resources that it matches, as bits of [`Word::bit`].
    pub(super) fn known_resources(&self) -> u16 {
        self.resources
    }

    /// The known actions that it matches, as bits of [`Word::bit`].
    pub(super) fn known_actions(&self) -> u16 {
        self.actions
    }

    /// Known resources that it matches.
    pub(super) fn resources(&self) -> impl Iterator<Item = Resource> {
        let mask = self.resources;
        Resource::ALL.into_iter().zip(0u32..).filter(move |(_, at)| mask & 1 << at != 0).map(|(one, _)| one)
    }

    /// Known actions without a path that it matches.
    pub(super) fn actions(&self) -> impl Iterator<Item = &'static str> {
        let mask = self.actions;
        ACTIONS.into_iter().zip(0u32..).filter(move |(_, at)| mask & 1 << at != 0).map(|(one, _)| one)
    }

    /// The key of [`object_key`] that all texts it matches have, where they have one in common.
    pub(super) fn key(&self) -> Option<&SmolStr> {
        self.key.as_ref()
    }
}

/// What objects are looked up by: the first part with its `/`, or all where there is none.
pub(super) fn object_key(object: &str) -> &str {
    object.find('/').and_then(|at| object.get(..=at)).unwrap_or(object)
}

/// The key of all texts that a glob matches, where its literal beginning says it.
fn glob_key(pattern: &str) -> Option<SmolStr> {
    let literal = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
    (literal.contains('/') || literal.len() == pattern.len()).then(|| object_key(literal).into())
}

/// Compiles patterns, equal ones once, within the bounds of one policy.
#[derive(Debug)]
pub(super) struct Patterns {
    known: HashMap<(MatchMode, SmolStr), Option<Arc<Pattern>>>,
    regexps_bytes_left: usize,
    globs_bytes_left: usize,
}

/// Why there is no pattern.
#[derive(Debug)]
pub(super) enum NoPattern {
    /// It does not compile: the line it stands in never applies (API-85, API-86).
    Never,
    /// It is beyond a bound: the policy is not taken.
    TooLarge(PolicyProblem),
}

impl Default for Patterns {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            regexps_bytes_left: REGEXPS_BYTES_MAX,
            globs_bytes_left: GLOBS_BYTES_MAX,
        }
    }
}

impl Patterns {
    pub(super) fn get(&mut self, mode: MatchMode, text: &SmolStr) -> Result<Arc<Pattern>, NoPattern> {
        if let Some(known) = self.known.get(&(mode, text.clone())) {
            return known.clone().ok_or(NoPattern::Never);
        }
        let shape = match mode {
            MatchMode::Glob => self.glob(text)?,
            MatchMode::Regex => self.regexp(text)?,
        };
        let pattern = shape.map(|shape| Arc::new(Pattern::new(text, shape)));
        self.known.insert((mode, text.clone()), pattern.clone());
        pattern.ok_or(NoPattern::Never)
    }

    /// The glob; `None` when it never matches.
    fn glob(&mut self, text: &str) -> Result<Option<Shape>, NoPattern> {
        match Glob::new(text, &[]) {
            Ok(glob) => {
                if text.contains(['?', '[', '{']) {
                    self.globs_bytes_left =
                        (self.globs_bytes_left.checked_sub(text.len())).ok_or_else(|| {
                            too_large(
                                text,
                                format!("all such patterns together have more than {GLOBS_BYTES_MAX} bytes"),
                            )
                        })?;
                }
                Ok(Some(Shape::Glob(glob)))
            }
            Err(error @ GlobError::TooLong) => Err(too_large(text, error.to_string())),
            Err(_) => Ok(None),
        }
    }

    /// The expression; `None` when Go does not compile it.
    fn regexp(&mut self, text: &str) -> Result<Option<Shape>, NoPattern> {
        let mut last = String::new();
        for bytes in REGEXP_BYTES {
            match Regexp::with_memory(text, bytes) {
                Ok(regexp) => {
                    self.regexps_bytes_left = (self.regexps_bytes_left.checked_sub(bytes)).ok_or_else(|| {
                        too_large(
                            text,
                            format!("all expressions together take more than {REGEXPS_BYTES_MAX} bytes of memory"),
                        )
                    })?;
                    return Ok(Some(Shape::Regexp(regexp)));
                }
                Err(error) if error.is_too_large() => last = error.to_string(),
                Err(_) => return Ok(None),
            }
        }
        Err(too_large(text, last))
    }
}

fn too_large(pattern: &str, why: String) -> NoPattern {
    NoPattern::TooLarge(PolicyProblem::Pattern { pattern: shown(pattern), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(mode: MatchMode, pattern: &str, text: &str) -> bool {
        let found = Patterns::default().get(mode, &pattern.into());
        found.is_ok_and(|pattern| pattern.is_match(text, &mut Steps::unlimited()).unwrap())
    }

    #[test]
    fn api_85_globs_match_the_whole_text_across_slashes() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "a/b/c", true),
            ("**", "a/b", true),
            ("shop/*", "shop/ns/web", true),
            ("shop/*", "shop", false),
            ("*/*", "shop/", true),
            ("*/*", "shop", false),
            ("shop/web?", "shop/web1", true),
            ("shop/web?", "shop/web", false),
            ("shop/[abc]", "shop/b", true),
            ("shop/[!abc]", "shop/b", false),
            ("shop/[a-z]", "shop/q", true),
            ("shop/[a-z0-9]", "shop/q", false),
            ("{shop,ops}/*", "ops/x", true),
            (r"shop/\*", "shop/*", true),
            (r"shop/\*", "shop/x", false),
            ("Shop/*", "shop/x", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_match(MatchMode::Glob, pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn api_86_expressions_match_anywhere() {
        for (pattern, text, expected) in [
            ("shop/", "my-shop/web", true),
            ("^shop/", "my-shop/web", false),
            ("^(shop|ops)/.*$", "ops/web", true),
            ("", "anything", true),
            ("*", "anything", false),
            ("(", "(", false),
        ] {
            assert_eq!(is_match(MatchMode::Regex, pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn objects_are_looked_up_by_what_all_matches_begin_with() {
        for (pattern, key) in [
            ("shop/*", Some("shop/")),
            ("shop/ns/web", Some("shop/")),
            ("kim", Some("kim")),
            ("", Some("")),
            ("https://git/*", Some("https:/")),
            ("shop*", None),
            ("*/*", None),
            ("{shop,ops}/*", None),
            ("sh?p/*", None),
            (r"sh\op/*", None),
        ] {
            assert_eq!(glob_key(pattern).as_deref(), key, "{pattern}");
        }
        assert_eq!(object_key("shop/ns/web"), "shop/");
        assert_eq!(object_key("kim"), "kim");
    }

    /// A pattern that is too large is refused with the policy: left out, it would be a `deny` that is not there.
    #[test]
    fn sec_07_patterns_that_explode_are_refused() {
        let refused = |mode, pattern: &str| match Patterns::default().get(mode, &pattern.into()) {
            Err(NoPattern::TooLarge(problem)) => problem.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(refused(MatchMode::Glob, &"a".repeat(20_000)).contains("is too large"));
        assert!(refused(MatchMode::Regex, &"a{1000}".repeat(2_000)).contains("is too large"));
        assert!(refused(MatchMode::Regex, &"a".repeat(20_000)).contains("is too large"));
        // Many that are allowed alone.
        let together = |mode, pattern: &dyn Fn(usize) -> String| {
            let mut patterns = Patterns::default();
            let found = (0..10_000).find_map(|at| patterns.get(mode, &pattern(at).into()).err());
            assert!(matches!(found, Some(NoPattern::TooLarge(_))), "{found:?}");
        };
        together(MatchMode::Glob, &|at| format!("{}{at}", "?".repeat(10_000)));
        together(MatchMode::Regex, &|at| format!("{}{at}", "a{1000}".repeat(9)));
    }

    #[test]
    fn sec_07_a_match_takes_counted_steps() {
        let pattern = Patterns::default().get(MatchMode::Glob, &"*?a".repeat(1_000).into()).unwrap();
        assert!(pattern.is_match(&"a".repeat(10_000), &mut Steps::new(100_000)).is_err());
    }
}
