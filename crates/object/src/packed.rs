//! Text of an object that is kept for long and read seldom, compressed (DEP-60).
//!
//! Objects of Kubernetes repeat the same names of members, and often themselves: the annotation of `kubectl apply` holds
//! the object a second time. Compressed with a dictionary of such names a text is a quarter of itself or less; reading it
//! back costs a few microseconds, far less than parsing it.

use std::borrow::Cow;
use std::sync::{LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// Members and values that objects have in common, the most common ones last. A change of this file changes nothing but
/// sizes: compressed texts live in memory only.
const DICTIONARY: &[u8] = include_bytes!("packed.txt");
/// The fastest of zstd's ordinary levels; higher ones take three times as long for a tenth less.
const LEVEL: i32 = 1;
/// Texts below this many bytes stay as they are.
const PACKED_MIN: usize = 256;
/// Idle coders that are kept; each has some hundred kilobytes.
const IDLE_MAX: usize = 2;

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));
static COMPRESSORS: Pool<Compressor<'static>> = Pool::new();
static DECOMPRESSORS: Pool<Decompressor<'static>> = Pool::new();

/// A text, as it is or compressed.
#[derive(Clone)]
pub struct PackedText(Form);

#[derive(Clone)]
enum Form {
    Plain(Bytes),
    Packed {
        bytes: Box<[u8]>,
        /// Of the text.
        len: u32,
        /// Of the text.
        hash: u64,
    },
}

impl PackedText {
    /// A text as it is.
    #[must_use]
    pub fn plain(text: Bytes) -> Self {
        Self(Form::Plain(text))
    }

    /// The same text compressed, where that makes it smaller.
    #[must_use]
    pub fn packed(self) -> Self {
        let Form::Plain(text) = &self.0 else { return self };
        match compress(text) {
            Some(bytes) => Self(Form::Packed {
                bytes,
                len: u32::try_from(text.len()).unwrap_or(u32::MAX),
                hash: xxhash_rust::xxh3::xxh3_64(text),
            }),
            None => self,
        }
    }

    /// Whether it is compressed.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed { .. })
    }

    /// The text. One that cannot be read back, which would be a fault of the memory, is empty, which is no JSON: whoever
    /// reads it gets an error and not an empty object (INV-1).
    #[must_use]
    pub fn text(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Form::Plain(text) => Cow::Borrowed(text),
            Form::Packed { bytes, len, .. } => Cow::Owned(decompress(bytes, *len).unwrap_or_default()),
        }
    }

    /// Its length in bytes, when it is not compressed.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Plain(text) => text.len(),
            Form::Packed { len, .. } => usize::try_from(*len).unwrap_or(usize::MAX),
        }
    }

    /// Whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes it takes in memory.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        match &self.0 {
            Form::Plain(text) => text.len(),
            Form::Packed { bytes, .. } => bytes.len(),
        }
    }

    /// Hash of the text: equal texts, equal hashes. Not for security.
    #[must_use]
    pub fn hash(&self) -> u64 {
        match &self.0 {
            Form::Plain(text) => xxhash_rust::xxh3::xxh3_64(text),
            Form::Packed { hash, .. } => *hash,
        }
    }
}

impl PartialEq for PackedText {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.text() == other.text()
    }
}

impl Eq for PackedText {}

impl std::fmt::Debug for PackedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the text: it may be a Secret's.
        write!(f, "PackedText({} of {} bytes)", self.stored_len(), self.len())
    }
}

/// Compressed, when that saves an eighth at least.
fn compress(text: &[u8]) -> Option<Box<[u8]>> {
    if text.len() < PACKED_MIN || u32::try_from(text.len()).is_err() {
        return None;
    }
    let make = || Compressor::with_prepared_dictionary(&ENCODER).ok();
    let packed = COMPRESSORS.with(make, |coder| coder.compress(text).ok())?;
    (packed.len() <= text.len() - text.len() / 8).then(|| packed.into_boxed_slice())
}

fn decompress(bytes: &[u8], len: u32) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    let make = || Decompressor::with_prepared_dictionary(&DECODER).ok();
    let text = DECOMPRESSORS.with(make, |coder| coder.decompress(bytes, len).ok())?;
    (text.len() == len).then_some(text)
}

/// Coders that are used again: making one costs more than using it.
struct Pool<T>(Mutex<Vec<T>>);

impl<T> Pool<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn with<R>(&self, make: impl FnOnce() -> Option<T>, run: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        // A coder is whole whenever it is here, whoever panicked.
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut coder = taken.or_else(make)?;
        let done = run(&mut coder);
        let mut idle = idle();
        if idle.len() < IDLE_MAX {
            idle.push(coder);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(text: &str) -> PackedText {
        PackedText::plain(Bytes::copy_from_slice(text.as_bytes())).packed()
    }

    /// DEP-60: an object of the usual kind is a fraction of its text, however short.
    #[test]
    fn dep_60_objects_are_kept_in_two_fifths_of_their_text() {
        let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"app.kubernetes.io/name":"web"},
            "name":"web-7","namespace":"shop","resourceVersion":"8812","uid":"5eb6deee-b6df-4507-b560-18f9689c8aeb"},
            "spec":{"progressDeadlineSeconds":600,"replicas":3,"selector":{"matchLabels":{"app.kubernetes.io/name":"web"}},
            "template":{"spec":{"containers":[{"image":"docker.io/library/nginx:1.29","imagePullPolicy":"IfNotPresent",
            "name":"web","resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}],"restartPolicy":"Always"}}}}"#;
        let packed = packed(text);
        assert_eq!(packed.text(), text.as_bytes());
        assert!(packed.stored_len() * 5 < packed.len() * 2, "{packed:?}");
    }

    #[test]
    fn small_texts_and_noise_stay_as_they_are() {
        assert!(matches!(packed("{}").0, Form::Plain(_)));
        let noise: String =
            (0..400_u32).map(|at| char::from(b'!' + u8::try_from(at * at * 7 % 89).unwrap())).collect();
        let kept = packed(&noise);
        assert_eq!(kept.text(), noise.as_bytes());
        assert!(kept.stored_len() <= noise.len());
    }

    /// INV-1: bytes that are no compressed text are an error for whoever reads JSON, never an empty object.
    #[test]
    fn inv_1_what_cannot_be_read_back_is_no_json() {
        let broken = PackedText(Form::Packed { bytes: Box::from(&b"rubbish"[..]), len: 300, hash: 0 });
        assert!(serde_json::from_slice::<serde_json::Value>(&broken.text()).is_err());
    }

    proptest! {
        #[test]
        fn texts_come_back_as_they_were(text in "[ -~äö\n]{0,2000}", times in 1_usize..4) {
            let text = text.repeat(times);
            let plain = PackedText::plain(Bytes::copy_from_slice(text.as_bytes()));
            let packed = plain.clone().packed();
            let back = packed.text();
            prop_assert_eq!(&back[..], text.as_bytes());
            prop_assert_eq!(packed.hash(), plain.hash());
            prop_assert_eq!(&packed, &plain);
        }
    }
}
