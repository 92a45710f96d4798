//! What was delivered, as the Application's annotation has it (NTF-400..405).

use std::collections::BTreeMap;

/// The annotation.
pub const NOTIFIED: &str = "notified.notifications.argoproj.io";
/// Entries that are kept (NTF-405).
const KEYS_MAX: usize = 100;

/// Unix seconds of deliveries by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notified(BTreeMap<String, i64>);

impl Notified {
    /// Reads the annotation; what cannot be read counts as nothing.
    #[must_use]
    pub fn read(annotation: Option<&str>) -> Self {
        Self(annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// The annotation; none when there is nothing to remember.
    #[must_use]
    pub fn annotation(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(&self.0).unwrap_or_default())
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<String, i64> {
        &self.0
    }

    /// Notes a delivery; false when it was noted before.
    pub(crate) fn set(&mut self, key: &str, at: i64) -> bool {
        if self.0.contains_key(key) {
            return false;
        }
        self.0.insert(key.to_owned(), at);
        true
    }

    /// Forgets a delivery.
    pub(crate) fn clear(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Forgets the oldest of more than a hundred.
    pub(crate) fn bound(&mut self) {
        let surplus = self.0.len().saturating_sub(KEYS_MAX);
        if surplus == 0 {
            return;
        }
        let mut by_age: Vec<(i64, String)> = self.0.iter().map(|(key, at)| (*at, key.clone())).collect();
        by_age.sort();
        for (_, key) in by_age.into_iter().take(surplus) {
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntf_405_the_oldest_of_more_than_a_hundred_goes() {
        let mut notified = Notified::default();
        for at in 0..101 {
            assert!(notified.set(&format!("k{at:03}"), at));
        }
        assert!(!notified.set("k000", 7));
        notified.bound();
        assert_eq!(notified.entries().len(), 100);
        assert!(!notified.entries().contains_key("k000"));
    }

    #[test]
    fn ntf_400_the_annotation_is_json_and_rubbish_is_nothing() {
        let notified = Notified::read(Some(r#"{"b":2,"a":1}"#));
        assert_eq!(notified.annotation().as_deref(), Some(r#"{"a":1,"b":2}"#));
        assert_eq!(Notified::read(Some("rubbish")).annotation(), None);
        assert_eq!(Notified::read(None).annotation(), None);
    }
}
