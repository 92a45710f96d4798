//! Tokens that were revoked before they expire (API-42, API-66).
//!
//! All processes of an installation share one Secret with digests of tokens' owners and ids and the tokens' expiry. A
//! digest does not reveal the token.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use tiphys_api::names::{PART_OF, PART_OF_LABEL};
use tiphys_installation::objects;
use tiphys_object::Object;

use crate::change::{Change, Sealed};
use crate::error::Error;
use crate::jwt;
use crate::managed;
use crate::store::{Record, Store};

/// The Secret.
pub const REVOKED_SECRET: &str = "tiphys-revoked-tokens";
/// Its one key.
const KEY: &str = "tokens";
/// Tokens that are stored. At about fifty bytes each they fit into a Secret.
const TOKENS_MAX: usize = 15_000;
/// Tokens of one owner that are stored. Owners are accounts, projects, and subjects of an identity provider.
const OWNER_TOKENS_MAX: usize = 1_000;
/// Stored bytes of the digests of an owner and of a token.
const OWNER_BYTES: usize = 6;
const DIGEST_BYTES: usize = 18;
/// Their lengths in the Secret, in base64.
const OWNER_LETTERS: usize = OWNER_BYTES / 3 * 4;
const KEY_LETTERS: usize = OWNER_LETTERS + DIGEST_BYTES / 3 * 4;

/// The tokens that do not count any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(BTreeMap<String, i64>);

/// Identifies a token by its issuer, its owner and its id, so that revoking it revokes no other owner's token with this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    owner: String,
    id: String,
    /// Id as stored by versions that did not store owners.
    former: String,
}

impl TokenKey {
    /// Reads the claims of a token. A token without an id is identified by its times and its session (API-66).
    pub fn of(claims: &Map<String, Value>) -> Self {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let subject = text("sub");
        // The owner of `<account>:<capability>` is the account; that of a project's role is the project.
        let parts: Vec<&str> = subject.split(':').collect();
        let owner = match parts.as_slice() {
            ["proj", project, _] => format!("proj:{project}"),
            [account, ..] if text("iss") == jwt::ISSUER => (*account).to_owned(),
            _ => subject.to_owned(),
        };
        let named = ["jti", "uti", "at_hash"].into_iter().map(text).find(|id| !id.is_empty());
        let id = named.map_or_else(
            || {
                let times = ["iat", "exp"].map(|name| claims.get(name).and_then(jwt::seconds));
                json!([subject, times, text("sid"), text("nonce")]).to_string()
            },
            |id| json!([id]).to_string(),
        );
        let owner = json!([text("iss"), owner]).to_string();
        Self { owner, id, former: named.unwrap_or_default().to_owned() }
    }

    /// The key in the Secret.
    fn stored(&self) -> String {
        let mut key = digest_of(&self.owner, OWNER_BYTES);
        key.push_str(&digest_of(&format!("{}\n{}", self.owner, self.id), DIGEST_BYTES));
        key
    }
}

fn digest_of(text: &str, bytes: usize) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    URL_SAFE_NO_PAD.encode(digest.as_ref().get(..bytes).unwrap_or_default())
}

/// Digest of the owner in a stored key; empty for keys of versions that did not store owners.
fn owner_of(key: &str) -> &str {
    if key.len() == KEY_LETTERS { key.get(..OWNER_LETTERS).unwrap_or_default() } else { "" }
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

    /// Whether a token was revoked.
    pub fn contains(&self, token: &TokenKey) -> bool {
        let former =
            || !token.former.is_empty() && self.0.contains_key(&digest_of(&token.former, DIGEST_BYTES));
        self.0.contains_key(&token.stored()) || former()
    }

    /// Adds a token, and removes expired ones. Beyond the bounds, the owner with the most tokens loses the one that expires
    /// first, so that repeated logouts of one owner evict no other owner's token.
    pub fn add(&mut self, token: &TokenKey, ends_at: i64, now: i64) {
        self.0.retain(|_, end| *end > now);
        if ends_at > now {
            self.0.insert(token.stored(), ends_at);
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for key in self.0.keys() {
            *counts.entry(owner_of(key)).or_default() += 1;
        }
        let Some((owner, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
        let is_former = owner.is_empty();
        if self.0.len() > TOKENS_MAX || (count > OWNER_TOKENS_MAX && !is_former) {
            let own = self.0.iter().filter(|(key, _)| owner_of(key) == owner);
            let first = own.min_by_key(|(_, end)| **end).map(|(key, _)| key.clone());
            first.and_then(|key| self.0.remove(&key));
        }
    }

    /// Takes what others know, too.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Plans the change that revokes a token.
///
/// # Errors
/// When the record cannot be read: writing another one would forget what it says.
pub fn plan_revoke(
    place: (&str, Option<&Object>),
    token: &TokenKey,
    ends_at: i64,
    now: i64,
) -> Result<Change, Unreadable> {
    let (namespace, stored) = place;
    let before = Revoked::read(stored)?;
    let mut after = before.clone();
    after.add(token, ends_at, now);
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
pub async fn revoke(store: &Store, token: &TokenKey, ends_at: i64, now: i64) -> Result<(), Error> {
    let namespace = store.namespace();
    let plan =
        |stored: Option<&_>| plan_revoke((namespace, stored), token, ends_at, now).map_err(Error::from);
    store.settle_one(Record::Secret, REVOKED_SECRET, plan).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::made;

    fn token(subject: &str, id: &str) -> TokenKey {
        TokenKey::of(json!({"iss": "argocd", "sub": subject, "jti": id}).as_object().unwrap())
    }

    fn kim(id: &str) -> TokenKey {
        token("kim:login", id)
    }

    fn plan(stored: Option<&Object>, id: &str, ends_at: i64, now: i64) -> Change {
        plan_revoke(("argocd", stored), &kim(id), ends_at, now).unwrap()
    }

    #[test]
    fn api_42_tokens_that_were_given_back_are_known_until_they_end() {
        let object = made(&plan(None, "a", 100, 50));
        let revoked = Revoked::read(Some(&object)).unwrap();
        assert!(revoked.contains(&kim("a")) && !revoked.contains(&kim("b")));
        assert_eq!(plan(Some(&object), "a", 100, 60), Change::Keep);
        let Change::Patch(_, patch) = plan(Some(&object), "b", 200, 150) else { panic!() };
        let text = patch.expose().to_string();
        assert!(!text.contains(&kim("a").stored()), "{text}");
        assert_eq!(plan(Some(&object), "b", 50, 50), Change::Keep, "it has ended");
    }

    /// Former versions stored digests of ids only.
    #[test]
    fn api_42_tokens_revoked_by_a_former_version_stay_revoked() {
        let mut revoked = Revoked::default();
        revoked.0.insert(digest_of("a", DIGEST_BYTES), 100);
        assert!(revoked.contains(&kim("a")) && !revoked.contains(&kim("b")));
        revoked.add(&kim("b"), 200, 150);
        assert!(!revoked.contains(&kim("a")), "it has ended");
    }

    /// Creators of tokens choose their ids.
    #[test]
    fn inv_16_revoking_a_token_revokes_no_other_callers_token() {
        let mut revoked = Revoked::default();
        revoked.add(&kim("x"), 200, 0);
        assert!(revoked.contains(&kim("x")));
        let of_provider = |claims: Value| TokenKey::of(claims.as_object().unwrap());
        for other in [
            token("bo:login", "x"),
            token("proj:shop:ci", "x"),
            of_provider(json!({"iss": "https://sso", "sub": "kim", "jti": "x"})),
            of_provider(json!({"iss": "argocd", "sub": "kim", "at_hash": "y"})),
        ] {
            assert!(!revoked.contains(&other), "{other:?}");
        }
        // Verification reduces the subject of an account to its name.
        assert!(revoked.contains(&token("kim", "x")));
    }

    #[test]
    fn api_66_a_token_is_known_by_its_first_id_or_by_its_times() {
        let key = |claims: Value| {
            let mut all = json!({"iss": "https://sso", "sub": "u1"});
            all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            TokenKey::of(all.as_object().unwrap())
        };
        let same = |a: Value, b: Value| key(a).stored() == key(b).stored();
        assert!(same(json!({"jti": "j", "uti": "u", "at_hash": "h"}), json!({"jti": "j", "iat": 1})));
        assert!(same(json!({"jti": "", "uti": "u", "at_hash": "h"}), json!({"uti": "u"})));
        assert!(same(json!({"jti": 5, "at_hash": "h"}), json!({"at_hash": "h"})));
        let times = json!({"iat": 1, "exp": 2});
        assert!(same(times.clone(), json!({"iat": 1, "exp": 2, "groups": ["asked for later"]})));
        for other in [
            json!({"iat": 2, "exp": 2}),
            json!({"iat": 1, "exp": 3}),
            json!({"iat": 1, "exp": 2, "sid": "s"}),
            json!({"iat": 1, "exp": 2, "sub": "u2"}),
            json!({"jti": "1"}),
        ] {
            assert!(!same(times.clone(), other.clone()), "{other}");
        }
    }

    #[test]
    fn api_42_their_number_has_a_bound() {
        let mut revoked = Revoked::default();
        revoked.add(&token("bo:login", "bo"), 50, 0);
        for number in 0..=OWNER_TOKENS_MAX {
            revoked.add(&kim(&number.to_string()), i64::try_from(number).unwrap() + 10, 0);
        }
        assert_eq!(revoked.0.len(), OWNER_TOKENS_MAX + 1);
        assert!(
            !revoked.contains(&kim("0")) && revoked.contains(&kim("1")) && revoked.contains(&kim("1000"))
        );
        assert!(revoked.contains(&token("bo:login", "bo")), "one owner's tokens take no other's place");
        // One owner has more tokens than each of the others.
        for number in 1..TOKENS_MAX {
            revoked.0.insert(token(&format!("a{number}:login"), "x").stored(), 20);
        }
        while revoked.0.len() > TOKENS_MAX {
            revoked.add(&kim("0"), 0, 0);
        }
        assert!(revoked.contains(&token("bo:login", "bo")) && revoked.contains(&token("a7:login", "x")));
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
            assert!(plan_revoke(("argocd", Some(&object)), &kim("b"), 200, 50).is_err());
        }
    }
}
