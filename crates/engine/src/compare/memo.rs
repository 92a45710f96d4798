//! What the last comparison found, so that an unchanged pair costs a look-up instead of a parse.

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::{Object, ResourceKey};

/// Objects one memo keeps; beyond it, results are computed again each time.
const ENTRIES_MAX: usize = 50_000;

/// Results of the last comparison of one application. Entries that a comparison does not use are dropped at its
/// end, so a memo is never larger than the application; use one memo per application.
#[derive(Debug, Default)]
pub struct DiffMemo {
    pairs: HashMap<ResourceKey, Entry<bool>>,
    defaulted: HashMap<Generated, Entry<Arc<Object>>>,
    comparison: u64,
}

/// A desired object as generated: objects without a name share their key.
type Generated = (ResourceKey, u64);

#[derive(Debug)]
struct Entry<T> {
    inputs: PairInputs,
    result: T,
    comparison: u64,
}

/// Everything the result of a pair depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PairInputs {
    /// Hash of the desired object.
    pub(super) target: u64,
    /// Hash of the live object.
    pub(super) live: u64,
    /// `resourceVersion` of the live object.
    pub(super) live_version: SmolStr,
    /// Hash of all rules and settings.
    pub(super) options: u64,
}

impl DiffMemo {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn begin(&mut self) {
        self.comparison = self.comparison.wrapping_add(1);
    }

    pub(super) fn end(&mut self) {
        let comparison = self.comparison;
        self.pairs.retain(|_, entry| entry.comparison == comparison);
        self.defaulted.retain(|_, entry| entry.comparison == comparison);
    }

    pub(super) fn pair(&mut self, key: &ResourceKey, inputs: &PairInputs) -> Option<bool> {
        let entry = self.pairs.get_mut(key).filter(|entry| entry.inputs == *inputs)?;
        entry.comparison = self.comparison;
        Some(entry.result)
    }

    pub(super) fn keep_pair(&mut self, key: &ResourceKey, inputs: PairInputs, modified: bool) {
        if self.pairs.len() < ENTRIES_MAX || self.pairs.contains_key(key) {
            let entry = Entry { inputs, result: modified, comparison: self.comparison };
            self.pairs.insert(key.clone(), entry);
        }
    }

    pub(super) fn defaulted(&mut self, generated: &Generated, options: u64) -> Option<Arc<Object>> {
        let entry = self.defaulted.get_mut(generated).filter(|entry| entry.inputs.options == options)?;
        entry.comparison = self.comparison;
        Some(Arc::clone(&entry.result))
    }

    pub(super) fn keep_defaulted(&mut self, generated: Generated, options: u64, object: &Arc<Object>) {
        if self.defaulted.len() < ENTRIES_MAX {
            let inputs =
                PairInputs { target: generated.1, live: 0, live_version: SmolStr::default(), options };
            let entry = Entry { inputs, result: Arc::clone(object), comparison: self.comparison };
            self.defaulted.insert(generated, entry);
        }
    }
}
