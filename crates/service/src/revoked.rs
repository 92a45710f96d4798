//! Tokens that were given back before they end (API-42, API-66).
//!
//! All processes of an installation read and write one Secret: digests of the ids of tokens, with the times when they
//! would have ended anyway. A digest tells nobody which token it was.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, json};
use tiphys_api::names::{PART_OF, PART_OF_LABEL};
use tiphys_installation::objects;
use tiphys_object::Object;

use crate::change::{Change, Sealed};
use crate::error::Error;
use crate::managed;
use crate::store::{Record, Store};

/// The Secret.
pub const REVOKED_SECRET: &str = "tiphys-revoked-tokens";
/// Its one key.
const KEY: &str = "tokens";
/// Tokens that are kept; those that end first make room. At about fifty bytes each they fit into a Secret.
const TOKENS_MAX: usize = 15_000;
/// Bytes of a digest that are kept.
const DIGEST_BYTES: usize = 18;

/// The tokens that do not count any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(BTreeMap<String, i64>);

/// What is stored of an id.
fn digest_of(id: &str) -> String {
    let digest = digest::digest(&digest::SHA256, id.as_bytes());
    URL_SAFE_NO_PAD.encode(digest.as_ref().get(..DIGEST_BYTES).unwrap_or_default())
}

/// Nobody knows which tokens were given back: that is not the same as none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Secret {REVOKED_SECRET} cannot be read, so nobody knows which tokens were given back ({0}); correct or delete it"
)]
pub struct Unreadable(pub String);

impl Revoked {
    /// Reads the Secret; without one, or without its key, no token was given back.
    ///
    /// # Errors
    /// When what it holds is no record.
    pub fn read(stored: Option<&Object>) -> Result<Self, Unreadable> {
        let Some(stored) = stored.filter(|stored| objects::texts(stored).contains_key(KEY)) else {
            return Ok(Self::default());
        };
        let text = objects::decoded(stored).remove(KEY);
        let text = text.ok_or_else(|| Unreadable(format!("{KEY} is no base64 of a text")))?;
        serde_json::from_str(&text).map(Self).map_err(|error| Unreadable(error.to_string()))
    }

    /// Whether no token is known to be given back.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a token of this id was given back.
    pub fn contains(&self, id: &str) -> bool {
        self.0.contains_key(&digest_of(id))
    }

    /// Takes one that was given back, and forgets those that have ended.
    pub fn add(&mut self, id: &str, ends_at: i64, now: i64) {
        self.0.retain(|_, end| *end > now);
        if ends_at > now {
            self.0.insert(digest_of(id), ends_at);
        }
        while self.0.len() > TOKENS_MAX {
            let first = self.0.iter().min_by_key(|(_, end)| **end).map(|(key, _)| key.clone());
            match first {
                Some(key) => drop(self.0.remove(&key)),
                None => break,
            }
        }
    }

    /// Takes what others know, too.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// What giving a token back changes.
///
/// # Errors
/// When the record cannot be read: writing another one would forget what it says.
pub fn plan_revoke(
    place: (&str, Option<&Object>),
    id: &str,
    ends_at: i64,
    now: i64,
) -> Result<Change, Unreadable> {
    let (namespace, stored) = place;
    let before = Revoked::read(stored)?;
    let mut after = before.clone();
    after.add(id, ends_at, now);
    if before == after {
        return Ok(Change::Keep);
    }
    let data = Map::from_iter([(KEY.to_owned(), managed::encoded(&json!(after.0).to_string()))]);
    Ok(match stored {
        Some(object) => managed::patch(object, json!({"data": data})),
        None => Change::Create(Sealed::new(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": REVOKED_SECRET,
                "namespace": namespace,
                "labels": {PART_OF_LABEL: PART_OF},
            },
            "data": data,
        }))),
    })
}

/// Tells all processes that a token does not count any more.
///
/// # Errors
/// Those of the cluster.
pub async fn revoke(store: &Store, id: &str, ends_at: i64, now: i64) -> Result<(), Error> {
    let namespace = store.namespace();
    let plan = |stored: Option<&_>| plan_revoke((namespace, stored), id, ends_at, now).map_err(Error::from);
    store.settle_one(Record::Secret, REVOKED_SECRET, plan).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::made;

    fn plan(stored: Option<&Object>, id: &str, ends_at: i64, now: i64) -> Change {
        plan_revoke(("argocd", stored), id, ends_at, now).unwrap()
    }

    #[test]
    fn api_42_tokens_that_were_given_back_are_known_until_they_end() {
        let object = made(&plan(None, "a", 100, 50));
        let revoked = Revoked::read(Some(&object)).unwrap();
        assert!(revoked.contains("a") && !revoked.contains("b"));
        assert_eq!(plan(Some(&object), "a", 100, 60), Change::Keep);
        let Change::Patch(_, patch) = plan(Some(&object), "b", 200, 150) else { panic!() };
        let text = patch.expose().to_string();
        assert!(!text.contains(&digest_of("a")), "{text}");
        assert_eq!(plan(Some(&object), "b", 50, 50), Change::Keep, "it has ended");
    }

    #[test]
    fn api_42_their_number_has_a_bound() {
        let mut revoked = Revoked::default();
        for number in 0..=TOKENS_MAX {
            revoked.0.insert(digest_of(&number.to_string()), i64::try_from(number).unwrap() + 10);
        }
        revoked.add("last", 1_000_000, 0);
        assert_eq!(revoked.0.len(), TOKENS_MAX);
        assert!(revoked.contains("last") && !revoked.contains("0") && revoked.contains("5"));
        assert_eq!(Revoked::read(None), Ok(Revoked::default()));
    }

    /// Error is not empty: a record that cannot be read does not say that no token was given back, and is not overwritten.
    #[test]
    fn api_42_a_record_that_cannot_be_read_is_not_an_empty_one() {
        let mut value = plan(None, "a", 100, 50);
        let Change::Create(manifest) = &mut value else { panic!() };
        for data in [json!({KEY: "%"}), json!({KEY: managed::encoded("[")})] {
            let mut broken = manifest.expose().clone();
            broken["data"] = data;
            let object = Object::from_value(&broken).unwrap();
            assert!(Revoked::read(Some(&object)).is_err());
            assert!(plan_revoke(("argocd", Some(&object)), "b", 200, 50).is_err());
        }
    }
}
