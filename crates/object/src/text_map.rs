//! Labels or annotations: a small map of texts, sorted, in one allocation.

use smol_str::SmolStr;

/// A map of few texts by key. Nearly every object has two, most of one to five entries; a tree's first node
/// alone would take half a kilobyte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextMap {
    entries: Box<[(SmolStr, SmolStr)]>,
}

impl TextMap {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&SmolStr> {
        let found = self.entries.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
        self.entries.get(found).map(|(_, value)| value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &SmolStr)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl FromIterator<(SmolStr, SmolStr)> for TextMap {
    /// Of several values for one key the last one stays, as in JSON.
    fn from_iter<I: IntoIterator<Item = (SmolStr, SmolStr)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(&mut later.1, &mut earlier.1);
            }
            same
        });
        Self { entries: entries.into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_60_the_last_value_of_a_key_stays() {
        let entry = |key: &str, value: &str| (SmolStr::new(key), SmolStr::new(value));
        let map: TextMap =
            [entry("b", "1"), entry("a", "2"), entry("b", "3"), entry("b", "4")].into_iter().collect();
        assert_eq!(
            (map.get("a").unwrap(), map.get("b").unwrap(), map.get("c")),
            (&"2".into(), &"4".into(), None)
        );
        assert_eq!(map.iter().count(), 2);
    }
}
