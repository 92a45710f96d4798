//! The keys of those who may sign (REP-86).

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::pgp::{KeyError, PublicKey, key_id, public_keys};

/// Why an entry counts for nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// Its name is no id of a key.
    #[error("'{0}' is not a valid GnuPG key ID")]
    Name(String),
    /// It cannot be read.
    #[error("the entry for key ID '{0}' cannot be read: {1}")]
    Key(String, KeyError),
    /// It holds several keys.
    #[error("the entry for key ID '{0}' holds {1} keys instead of one")]
    Several(String, usize),
    /// It holds another key.
    #[error("key parsed for entry with key ID '{0}' had different key ID '{1}'")]
    Different(String, String),
}

/// What `argocd-gpg-keys-cm` says: one key an entry. Entries that cannot be read count for nobody. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    keys: Arc<BTreeMap<String, PublicKey>>,
    problems: Arc<[EntryError]>,
    digest: [u8; 32],
}

impl Keyring {
    /// Reads the data of the `ConfigMap`.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let (mut keys, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, text) in data {
            match entry(name, text) {
                Ok(key) => drop(keys.insert(key.fingerprint.clone(), key)),
                Err(error) => problems.push(error),
            }
        }
        let mut digest = Sha256::new();
        for key in keys.values() {
            digest.update(u64::try_from(key.text().len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(key.text());
        }
        Self { keys: Arc::new(keys), problems: problems.into(), digest: digest.finalize().into() }
    }

    /// The keys, by fingerprint.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.values()
    }

    /// What is wrong with entries.
    pub fn problems(&self) -> &[EntryError] {
        &self.problems
    }

    /// Equal for equal keys.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// The key of an entry.
fn entry(name: &str, text: &str) -> Result<PublicKey, EntryError> {
    let wanted = key_id(name).ok_or_else(|| EntryError::Name(name.to_owned()))?;
    let mut found = public_keys(text).map_err(|error| EntryError::Key(name.to_owned(), error))?;
    match (found.pop(), found.len()) {
        (Some(key), 0) if key.key_id() == wanted => Ok(key),
        (Some(key), 0) => Err(EntryError::Different(name.to_owned(), key.key_id().to_owned())),
        (_, others) => Err(EntryError::Several(name.to_owned(), others + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pgp::tests::{ED25519, RSA};
    use super::*;

    #[test]
    fn rep_86_an_entry_is_one_key_with_its_id() {
        let rsa = public_keys(RSA).unwrap().remove(0);
        let ed25519 = public_keys(ED25519).unwrap().remove(0);
        let read = |entries: &[(&str, &str)]| {
            let entries = entries.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned()));
            Keyring::read(&entries.collect())
        };
        let good = read(&[(rsa.key_id(), RSA), (&ed25519.fingerprint.to_lowercase(), ED25519)]);
        assert_eq!((good.keys().count(), good.problems()), (2, &[][..]));
        let both = format!("{RSA}{ED25519}");
        let bad = read(&[(rsa.key_id(), ED25519), ("x", RSA), (ed25519.key_id(), &both)]);
        let mut texts: Vec<String> = bad.problems().iter().map(ToString::to_string).collect();
        texts.sort();
        let mut expected = [
            "'x' is not a valid GnuPG key ID".to_owned(),
            format!(
                "key parsed for entry with key ID '{}' had different key ID '{}'",
                rsa.key_id(),
                ed25519.key_id()
            ),
            format!("the entry for key ID '{}' holds 2 keys instead of one", ed25519.key_id()),
        ];
        expected.sort();
        assert_eq!(texts, expected);
        assert_eq!(bad.keys().count(), 0);
        assert_ne!(good.digest(), bad.digest());
        assert_eq!(read(&[(rsa.key_id(), RSA)]).digest(), read(&[(&rsa.fingerprint, RSA)]).digest());
    }
}
