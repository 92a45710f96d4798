//! Which application a mark on live objects stands for.

use std::collections::{BTreeSet, HashMap};

use smol_str::SmolStr;

use crate::app_key::AppKey;

/// An application that a mark stands for, and when it was created: of two with one digest the older one has it (TRK-55).
type Holder = (SmolStr, AppKey);

/// Marks by application.
#[derive(Default)]
pub(crate) struct Marks {
    holders: HashMap<SmolStr, AppKey>,
    /// Marks that stand for several applications, which two digests may.
    contested: HashMap<SmolStr, BTreeSet<Holder>>,
}

impl Marks {
    /// Whom a mark stands for.
    pub(crate) fn holder(&self, mark: &str) -> Option<&AppKey> {
        match self.contested.get(mark) {
            Some(holders) => holders.first().map(|(_, key)| key),
            None => self.holders.get(mark),
        }
    }

    /// Lets a mark stand for an application. `created` tells when an application was.
    pub(crate) fn add(&mut self, mark: &SmolStr, key: &AppKey, created: impl Fn(&AppKey) -> SmolStr) {
        if let Some(holders) = self.contested.get_mut(mark) {
            holders.insert((created(key), key.clone()));
            return;
        }
        match self.holders.get(mark) {
            None => {
                self.holders.insert(mark.clone(), key.clone());
            }
            Some(other) if other == key => {}
            Some(other) => {
                let both = [other.clone(), key.clone()].map(|key| (created(&key), key));
                self.holders.remove(mark);
                self.contested.insert(mark.clone(), both.into());
            }
        }
    }

    /// A mark no longer stands for an application.
    pub(crate) fn remove(&mut self, mark: &str, key: &AppKey) {
        if let Some(holders) = self.contested.get_mut(mark) {
            holders.retain(|(_, holder)| holder != key);
            if holders.len() < 2
                && let Some(holders) = self.contested.remove(mark)
            {
                self.holders.extend(holders.into_iter().map(|(_, last)| (mark.into(), last)));
            }
        } else if self.holders.get(mark) == Some(key) {
            self.holders.remove(mark);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.holders.clear();
        self.contested.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_55_of_two_applications_with_one_digest_the_older_has_it() {
        let created =
            |key: &AppKey| SmolStr::new(if key.name == "old" { "2026-01-01" } else { "2026-02-01" });
        let (old, new, third) = (AppKey::new("n", "old"), AppKey::new("n", "new"), AppKey::new("n", "z"));
        let mark = SmolStr::new("#d");
        let mut marks = Marks::default();
        for key in [&new, &third, &old, &old] {
            marks.add(&mark, key, created);
        }
        assert_eq!(marks.holder("#d"), Some(&old));
        marks.remove("#d", &old);
        assert_eq!(marks.holder("#d"), Some(&new), "by name among equally old ones");
        marks.remove("#d", &new);
        assert_eq!(marks.holder("#d"), Some(&third));
        marks.add(&mark, &old, created);
        assert_eq!(marks.holder("#d"), Some(&old), "who comes later may be older");
        marks.remove("#d", &old);
        marks.remove("#d", &third);
        assert_eq!(marks.holder("#d"), None);
    }
}
