//! Changes of live objects from which nothing follows cause no comparison (CTL-95, CTL-96).
//!
//! What changed is noted with the application; its next round looks at those objects, and compares only when one of
//! them is another than at its last change. That happens with the round, not where events are taken in: an object
//! that takes long to look at holds up its own application alone.

use std::collections::{BTreeSet, HashMap};

use tiphys_object::ResourceKey;

/// Objects that are looked at one by one in a round; when more have changed, it compares.
const NOTED_MAX: usize = 256;
/// Objects of one application whose last state is remembered; beyond it, further ones are always a reason.
const KNOWN_MAX: usize = 10_000;

/// What is known of changes of an application's live objects.
#[derive(Debug, Default)]
pub(crate) struct LiveChanges {
    /// Changed since the last look.
    noted: BTreeSet<ResourceKey>,
    /// What objects were at their last change, in 64 bits each.
    known: HashMap<ResourceKey, u64>,
}

impl LiveChanges {
    /// Notes a change that is to be looked at; `false` when there are too many, and the application is to be
    /// compared anyway.
    pub(crate) fn note(&mut self, key: &ResourceKey) -> bool {
        if self.noted.len() >= NOTED_MAX && !self.noted.contains(key) {
            return false;
        }
        self.noted.insert(key.clone());
        true
    }

    /// The objects that changed since the last look.
    pub(crate) fn take_noted(&mut self) -> BTreeSet<ResourceKey> {
        std::mem::take(&mut self.noted)
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&mut self, key: &ResourceKey) {
        self.noted.remove(key);
        self.known.remove(key);
    }

    /// Takes note of what an object is now; says whether it was something else before, or not known.
    pub(crate) fn replace(&mut self, key: &ResourceKey, print: Option<u64>) -> bool {
        let Some(print) = print else {
            self.known.remove(key);
            return true;
        };
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(key) {
            return true;
        }
        self.known.insert(key.clone(), print) != Some(print)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ResourceKey {
        ResourceKey::new("", "ConfigMap", "n", name)
    }

    /// CTL-95: only another number is a reason; what is not known always is.
    #[test]
    fn ctl_95_a_known_number_is_no_reason() {
        let mut changes = LiveChanges::default();
        assert!(changes.replace(&key("a"), Some(1)), "never seen");
        assert!(!changes.replace(&key("a"), Some(1)));
        assert!(changes.replace(&key("a"), Some(2)));
        assert!(changes.replace(&key("a"), None));
        assert!(changes.replace(&key("a"), Some(2)), "it was not known meanwhile");
        changes.forget(&key("a"));
        assert!(changes.replace(&key("a"), Some(2)), "another object of that name");
    }

    /// INV-10: what is remembered has a bound, and beyond it every change is a reason.
    #[test]
    fn inv_10_changes_are_remembered_up_to_a_bound() {
        let mut changes = LiveChanges::default();
        let noted = (0..NOTED_MAX + 10).filter(|n| changes.note(&key(&n.to_string()))).count();
        assert_eq!(noted, NOTED_MAX);
        assert!(changes.note(&key("0")), "noted already");
        for n in 0..KNOWN_MAX + 10 {
            changes.replace(&key(&n.to_string()), Some(1));
        }
        assert_eq!(changes.known.len(), KNOWN_MAX);
        let beyond = key(&KNOWN_MAX.to_string());
        assert!(changes.replace(&beyond, Some(1)) && changes.replace(&beyond, Some(1)));
    }
}
