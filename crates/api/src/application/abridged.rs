//! Copies of sources in a status: options that are too large are replaced by a digest, so that the status can be stored
//! (CTL-36).
//!
//! Such a copy identifies the source that it was made of and cannot be rendered: a rollback to it is refused. Argo CD
//! fails on one as well, because the replacement is neither a mapping of values nor a directory.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::ApplicationSource;
use super::source::HelmSource;
use crate::printable;

/// Start of the text that replaces options.
pub const OMITTED: &str = "tiphys.dev/omitted";
/// Bytes of JSON up to which the options of one tool are kept.
const OPTIONS_BYTES_MAX: usize = 2 << 10;
/// Bytes of every other text of a source.
const TEXT_BYTES_MAX: usize = 1 << 10;

impl ApplicationSource {
    /// Copy for a status, at most some 20 KiB large: options of more than 2 KiB are replaced by a digest of the whole
    /// source. A small source is its own copy.
    #[must_use]
    pub fn abridged(&self) -> Self {
        let mut copy = self.clone();
        let is_helm = omit(&mut copy.helm);
        let mut is_cut = omit(&mut copy.kustomize) | omit(&mut copy.directory) | omit(&mut copy.plugin);
        if json_bytes(&copy.unknown) > OPTIONS_BYTES_MAX {
            copy.unknown.clear();
            is_cut = true;
        }
        for text in [
            &mut copy.repo_url,
            &mut copy.path,
            &mut copy.target_revision,
            &mut copy.chart,
            &mut copy.r#ref,
            &mut copy.name,
            &mut copy.tag_prefix,
        ] {
            is_cut |= printable::cut(text, TEXT_BYTES_MAX);
        }
        if is_helm {
            copy.helm = Some(Box::new(HelmSource { values: self.digest(), ..HelmSource::default() }));
        }
        if is_cut {
            copy.path = self.digest();
        }
        copy
    }

    /// Whether options were replaced by a digest: the source cannot be rendered.
    pub fn is_abridged(&self) -> bool {
        let values = self.helm.as_ref().map_or("", |helm| helm.values.as_str());
        self.path.starts_with(OMITTED) || values.starts_with(OMITTED)
    }

    /// Whether this is a copy of another source, whole or abridged.
    pub fn is_copy_of(&self, source: &Self) -> bool {
        self == source || (self.is_abridged() && *self == source.abridged())
    }

    /// Text that replaces options: digest and size of the whole source.
    fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        let mut text = format!("{OMITTED} sha256:");
        for byte in Sha256::digest(&bytes) {
            // A string takes every write.
            let _written = write!(text, "{byte:02x}");
        }
        format!("{text} ({} bytes)", bytes.len())
    }
}

/// Whether copies were made of exactly these sources.
pub fn are_copies(copies: &[ApplicationSource], sources: &[ApplicationSource]) -> bool {
    copies.len() == sources.len() && copies.iter().zip(sources).all(|(copy, source)| copy.is_copy_of(source))
}

/// Removes options that are too large.
fn omit<T: Serialize>(options: &mut Option<T>) -> bool {
    let is_large = json_bytes(options) > OPTIONS_BYTES_MAX;
    if is_large {
        *options = None;
    }
    is_large
}

/// Bytes of a value as JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(value: serde_json::Value) -> ApplicationSource {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn ctl_36_a_small_source_is_its_own_copy() {
        let small = source(
            json!({"repoURL": "r", "path": "p", "helm": {"values": "a: 1", "valuesObject": {"b": 2}}}),
        );
        assert_eq!(small.abridged(), small);
        assert!(!small.is_abridged() && small.is_copy_of(&small));
    }

    #[test]
    fn ctl_36_large_options_become_a_digest_of_the_source() {
        let text = "x".repeat(100_000);
        for large in [
            json!({"repoURL": "r", "chart": "c", "targetRevision": "1", "helm": {"values": text}}),
            json!({"repoURL": "r", "helm": {"valuesObject": {"a": text}}}),
            json!({"repoURL": "r", "helm": {"parameters": vec![json!({"name": "a", "value": "b"}); 1_000]}}),
            json!({"repoURL": "r", "kustomize": {"patches": [{"patch": text}]}}),
            json!({"repoURL": "r", "directory": {"include": text}}),
            json!({"repoURL": "r", "plugin": {"env": [{"name": "a", "value": text}]}}),
            json!({"repoURL": "r", "path": text}),
            json!({"repoURL": "r", "ofTheFuture": text}),
        ] {
            let whole = source(large.clone());
            let copy = whole.abridged();
            assert!(copy.is_abridged() && json_bytes(&copy) < 2_000, "{large}");
            assert!(copy.is_copy_of(&whole) && !whole.is_copy_of(&copy));
            assert_eq!(copy.abridged(), copy, "abridging is idempotent");
            let mut other = whole.clone();
            other.name = "other".to_owned();
            assert!(!copy.is_copy_of(&other));
            assert_eq!((copy.repo_url.as_str(), &copy.chart), ("r", &whole.chart));
            let read = source(serde_json::to_value(&copy).unwrap());
            assert!(read.is_copy_of(&whole), "a stored copy is recognised");
            assert!(are_copies(std::slice::from_ref(&read), std::slice::from_ref(&whole)));
            assert!(!are_copies(&[read], &[]));
        }
    }

    #[test]
    fn ctl_36_a_copy_names_digest_and_size() {
        let whole = source(json!({"repoURL": "r", "helm": {"values": "x".repeat(5_000)}}));
        let values = whole.abridged().helm.unwrap().values;
        assert!(values.starts_with("tiphys.dev/omitted sha256:") && values.ends_with(" bytes)"), "{values}");
        assert_eq!(values.len(), "tiphys.dev/omitted sha256:".len() + 64 + " (5042 bytes)".len());
    }
}
