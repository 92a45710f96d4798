//! Text as Go has it: bytes, usually UTF-8, cheap to share.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes that fit without an allocation.
const INLINE_MAX: usize = 22;

/// An immutable text. Short ones are kept in place, long ones are shared, so that a copy never allocates.
///
/// Go's strings are bytes: cutting one in the middle of a character or decoding base64 gives texts that are no
/// UTF-8, and they have to survive until somebody encodes or prints them.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Inline { length: u8, bytes: [u8; INLINE_MAX] },
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
}

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self(Repr::Static(b""));

    /// A text that is part of the program.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Repr::Static(text.as_bytes()))
    }

    /// A text of these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_MAX
            && let Ok(length) = u8::try_from(bytes.len())
        {
            let mut place = [0; INLINE_MAX];
            for (to, from) in place.iter_mut().zip(bytes) {
                *to = *from;
            }
            return Self(Repr::Inline { length, bytes: place });
        }
        Self(Repr::Shared(Arc::from(bytes)))
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Repr::Static(bytes) => bytes,
            Repr::Shared(bytes) => bytes,
        }
    }

    /// The text, when it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// The text with every byte that is not UTF-8 replaced by U+FFFD.
    ///
    /// One replacement per byte, as Go's loops over strings see it.
    pub fn to_str(&self) -> Cow<'_, str> {
        to_str(self.as_bytes())
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

/// Reads bytes as Go reads the characters of a string: each byte that is not UTF-8 is one U+FFFD.
pub(crate) fn to_str(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(out)
}

impl Default for Text {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_bytes(&bytes)
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self::from_bytes(bytes)
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_str(), out)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.to_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_22_texts_are_bytes_of_any_length() {
        for length in [0, 1, INLINE_MAX, INLINE_MAX + 1, 100] {
            let bytes = vec![0xff; length];
            let text = Text::from(bytes.clone());
            assert_eq!((text.as_bytes(), text.len()), (bytes.as_slice(), length));
            assert_eq!(text.to_str().chars().count(), length, "each byte is one character");
        }
        assert_eq!(size_of::<Text>(), 24);
    }
}
