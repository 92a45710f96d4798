//! Values that must not be shown (STY-110).

use std::fmt;
use std::hint;

/// A text that prints as `***`, is zeroed when dropped, and is read through [`Secret::expose`] only.
///
/// ```
/// # use tiphys_source::Secret;
/// let password = Secret::from("hunter2");
/// assert_eq!(format!("{password:?}"), "***");
/// assert_eq!(password.expose(), "hunter2");
/// ```
#[derive(Clone, Default)]
pub struct Secret<T: Wipe = String>(T);

/// A value that can be overwritten in place.
pub trait Wipe {
    /// Overwrites the bytes.
    fn wipe(&mut self);
    /// The bytes, for comparison.
    fn bytes(&self) -> &[u8];
}

impl Wipe for String {
    fn wipe(&mut self) {
        std::mem::take(self).into_bytes().wipe();
    }

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        self.fill(0);
        // Keeps the compiler from dropping the writes to memory that nobody reads again.
        hint::black_box(&mut *self);
        self.clear();
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

impl<T: Wipe> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.bytes().is_empty()
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

impl<T: Wipe> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: Wipe> PartialEq for Secret<T> {
    /// Takes the same time for all values of one length.
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (self.0.bytes(), other.0.bytes());
        let difference = left.iter().zip(right).fold(0_u8, |all, (a, b)| all | (a ^ b));
        left.len() == right.len() && hint::black_box(difference) == 0
    }
}

impl<T: Wipe> Eq for Secret<T> {}

impl<T: Wipe> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}
