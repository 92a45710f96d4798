//! Which rules are for a kind (ENG-64).
//!
//! Rules and kinds are many, and their patterns are the tenant's: each kind is held against them once, and all of
//! it together has a budget.

use std::collections::HashMap;
use std::sync::Arc;

use tiphys_go::glob::Glob;
use tiphys_go::steps::{Steps, TooManySteps};
use tiphys_object::{GroupKind, Gvk};

/// Kinds that are remembered.
const KINDS_MAX: usize = 4_096;
/// Steps that the patterns of one application may take in one use of its rules.
const STEPS_MAX: u64 = 20_000_000;

/// What a group or kind is held against.
#[derive(Debug)]
pub(super) enum Pattern {
    Any,
    Exact(String),
    Glob(Box<Glob>),
    Nothing,
}

/// The pattern of one rule.
#[derive(Debug)]
pub(super) struct KindPattern {
    group: Pattern,
    kind: Pattern,
}

/// What is known of kinds.
#[derive(Debug)]
pub(super) struct Selection {
    /// Positions of the rules for a kind.
    known: HashMap<GroupKind, Arc<[usize]>>,
    steps: Steps,
}

impl Default for Selection {
    fn default() -> Self {
        Self { known: HashMap::new(), steps: Steps::new(STEPS_MAX) }
    }
}

impl Selection {
    /// For the rules of the operator, which are used for ever.
    pub(super) fn unlimited() -> Self {
        Self { known: HashMap::new(), steps: Steps::unlimited() }
    }

    /// Positions of the rules for a kind, and whether the budget ended before all could be held against it.
    pub(super) fn of<'a>(
        &mut self,
        gvk: &Gvk,
        rules: impl Iterator<Item = &'a KindPattern>,
    ) -> (Arc<[usize]>, Option<TooManySteps>) {
        let kind = gvk.group_kind();
        if let Some(found) = self.known.get(&kind) {
            return (Arc::clone(found), None);
        }
        let mut positions = Vec::new();
        let mut exceeded = None;
        for (position, rule) in rules.enumerate() {
            match rule.matches(&kind, &mut self.steps) {
                Ok(true) => positions.push(position),
                Ok(false) => {}
                Err(error) => exceeded = Some(error),
            }
        }
        let found: Arc<[usize]> = positions.into();
        if exceeded.is_none() && self.known.len() < KINDS_MAX {
            self.known.insert(kind, Arc::clone(&found));
        }
        (found, exceeded)
    }
}

impl KindPattern {
    pub(super) fn new(group: &str, kind: &str) -> Self {
        Self { group: Pattern::new(group), kind: Pattern::new(kind) }
    }

    fn matches(&self, kind: &GroupKind, steps: &mut Steps) -> Result<bool, TooManySteps> {
        Ok(self.kind.matches(&kind.kind, steps)? && self.group.matches(&kind.group, steps)?)
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        if text == "*" {
            Self::Any
        } else if !text.contains(['*', '?', '[', '{', '\\']) {
            Self::Exact(text.to_owned())
        } else {
            match Glob::new(text, &[]) {
                Ok(glob) => Self::Glob(Box::new(glob)),
                Err(error) => {
                    tracing::debug!(pattern = text, %error, "a pattern of ignoreDifferences matches nothing");
                    Self::Nothing
                }
            }
        }
    }

    fn matches(&self, text: &str, steps: &mut Steps) -> Result<bool, TooManySteps> {
        match self {
            Self::Any => Ok(true),
            Self::Exact(exact) => Ok(exact == text),
            Self::Glob(glob) => glob.is_match_within(text, steps),
            Self::Nothing => Ok(false),
        }
    }
}
