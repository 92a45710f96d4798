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
use tiphys_policy::permit::Own;

use crate::change::{Change, Sealed};
use crate::error::Error;
use crate::managed;
use crate::store::Store;

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

impl Revoked {
    /// Reads the Secret; what cannot be read of it is nothing.
    pub fn read(stored: Option<&Object>) -> Self {
        let text = stored.map(objects::decoded).unwrap_or_default().remove(KEY).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
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
pub fn plan_revoke(place: (&str, Option<&Object>), id: &str, ends_at: i64, now: i64) -> Change {
    let (namespace, stored) = place;
    let before = Revoked::read(stored);
    let mut after = before.clone();
    after.add(id, ends_at, now);
    if before == after {
        return Change::Keep;
    }
    let data = Map::from_iter([(KEY.to_owned(), managed::encoded(&json!(after.0).to_string()))]);
    match stored {
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
    }
}

/// Tells all processes that a token does not count any more.
///
/// # Errors
/// Those of the cluster.
pub async fn revoke(store: &Store, id: &str, ends_at: i64, now: i64) -> Result<(), Error> {
    let namespace = store.namespace();
    let plan = |stored: Option<&_>| Ok::<_, Error>(plan_revoke((namespace, stored), id, ends_at, now));
    store.settle_one(Own::Secret, REVOKED_SECRET, plan).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(change: &Change) -> Object {
        let Change::Create(manifest) = change else { panic!("{change:?}") };
        let mut value = manifest.expose().clone();
        value["metadata"]["uid"] = "u".into();
        value["metadata"]["resourceVersion"] = "1".into();
        Object::from_value(&value).unwrap()
    }

    #[test]
    fn api_42_tokens_that_were_given_back_are_known_until_they_end() {
        let object = stored(&plan_revoke(("argocd", None), "a", 100, 50));
        let revoked = Revoked::read(Some(&object));
        assert!(revoked.contains("a") && !revoked.contains("b"));
        assert_eq!(plan_revoke(("argocd", Some(&object)), "a", 100, 60), Change::Keep);
        let Change::Patch(_, patch) = plan_revoke(("argocd", Some(&object)), "b", 200, 150) else { panic!() };
        let text = patch.expose().to_string();
        assert!(!text.contains(&digest_of("a")), "{text}");
        assert_eq!(plan_revoke(("argocd", Some(&object)), "b", 50, 50), Change::Keep, "it has ended");
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
        assert_eq!(Revoked::read(None), Revoked::default());
    }
}
