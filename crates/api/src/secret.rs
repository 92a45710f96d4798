//! Values that must not be shown: passwords, tokens, keys (STY-110).

use std::fmt;

use serde::{Deserialize, Deserializer};

/// Overwrites the memory of a value.
pub trait Wipe {
    /// Leaves nothing of the value behind.
    fn wipe(&mut self);
    /// The bytes that make the value.
    fn bytes(&self) -> &[u8];
}

impl Wipe for String {
    fn wipe(&mut self) {
        let mut bytes = std::mem::take(self).into_bytes();
        bytes.wipe();
    }

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        self.fill(0);
        // Keeps the compiler from dropping a write to memory that is freed next.
        std::hint::black_box(self.as_slice());
        self.clear();
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A value without `Display`, whose `Debug` prints `***`, compared in constant time and wiped when dropped.
///
/// ```
/// # use tiphys_api::secret::Secret;
/// let password = Secret::new("hunter2".to_owned());
/// assert_eq!(format!("{password:?}"), "***");
/// assert_eq!(password.expose(), "hunter2");
/// ```
#[derive(Clone, Default)]
pub struct Secret<T: Wipe = String>(T);

impl<T: Wipe> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.0.bytes().is_empty()
    }
}

impl<T: Wipe> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<T: Wipe> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: Wipe> PartialEq for Secret<T> {
    /// Takes time that depends on the lengths only.
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (self.0.bytes(), other.0.bytes());
        let difference = left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b));
        left.len() == right.len() && std::hint::black_box(difference) == 0
    }
}

impl<T: Wipe> Eq for Secret<T> {}

impl<'de, T: Wipe + Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

impl From<&str> for Secret<String> {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Secret<String> {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sty_110_secrets_do_not_print_and_compare_whole() {
        let secret = Secret::new("abc".to_owned());
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret, Secret::from("abc"));
        assert_ne!(secret, Secret::from("abd"));
        assert_ne!(secret, Secret::from("abcd"));
        assert_ne!(secret, Secret::from(""));
        assert!(Secret::<String>::default().is_empty());
    }

    #[test]
    fn sty_110_wiping_leaves_nothing() {
        let mut bytes = vec![1, 2, 3];
        bytes.wipe();
        assert!(bytes.is_empty());
    }
}
