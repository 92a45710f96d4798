//! The first start of an installation: its key, and the password of its first account (API-46).
//!
//! The clear password is stored before the hash, marked as not yet in force; the mark goes when the hash is there.
//! So whoever starts next after a crash, or at the same time on another machine, goes on with the same password, and a
//! password that was once in force is never taken again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::json;
use tiphys_api::account::{ADMIN, secret_key};
use tiphys_api::names::{PART_OF, PART_OF_LABEL, SECRET};
use tiphys_api::secret::Secret;
use tiphys_installation::objects;
use tiphys_object::Object;
use tiphys_policy::permit::Own;

use super::password::{self, PasswordHash, SALT_BYTES};
use super::{AccountCallError, SIGNING_KEY, put, rfc_3339};
use crate::change::{Change, Sealed};
use crate::error::Error;
use crate::managed;
use crate::store::{Record, Store};

/// The Secret with the first password.
pub const INITIAL_SECRET: &str = "argocd-initial-admin-secret";
/// Letters of a first password.
const LETTERS: &[u8; 63] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";
/// Letters that a first password has.
const PASSWORD_LETTERS: usize = 16;
/// Marks a first password whose hash may not be stored yet.
const PENDING: &str = "tiphys.dev/pending";
const PASSWORD: &str = "password";

/// What chance gives a first start.
#[derive(Clone)]
pub struct Drawn {
    /// Bytes of the signing key.
    pub signing_key: [u8; 32],
    /// Bytes of the first password.
    pub password: [u8; 64],
    /// Salt of its hash.
    pub salt: [u8; SALT_BYTES],
}

impl std::fmt::Debug for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Drawn {
    /// Draws; `None` when the system gives no randomness.
    pub fn draw() -> Option<Self> {
        let mut drawn = Self { signing_key: [0; 32], password: [0; 64], salt: [0; SALT_BYTES] };
        aws_lc_rs::rand::fill(&mut drawn.signing_key).ok()?;
        aws_lc_rs::rand::fill(&mut drawn.password).ok()?;
        aws_lc_rs::rand::fill(&mut drawn.salt).ok()?;
        Some(drawn)
    }

    /// A password in which every letter is as likely as any other (SEC-12); `None` when too many bytes are out of
    /// range, which happens about never.
    fn password(&self) -> Option<Secret<String>> {
        let range = u8::try_from(LETTERS.len() * 4).ok()?;
        let letters = self.password.iter().filter(|byte| **byte < range);
        let letters = letters.filter_map(|byte| LETTERS.get(usize::from(*byte) % LETTERS.len()));
        let text: String = letters.take(PASSWORD_LETTERS).map(|letter| char::from(*letter)).collect();
        (text.len() == PASSWORD_LETTERS).then(|| Secret::new(text))
    }
}

/// What the clear password's Secret becomes: nothing where the account has a password or cannot be used.
///
/// # Errors
/// When chance was against us.
pub fn plan_initial(
    namespace: &str,
    (secret, initial): (Option<&Object>, Option<&Object>),
    is_admin_enabled: bool,
    drawn: &Drawn,
) -> Result<Change, AccountCallError> {
    if !is_admin_enabled || has(secret, &secret_key(ADMIN, PASSWORD)) || pending(initial).is_some() {
        return Ok(Change::Keep);
    }
    let password =
        drawn.password().ok_or(AccountCallError::Chance("no password could be drawn; start once more"))?;
    let data = json!({PASSWORD: managed::encoded(password.expose())});
    Ok(match initial {
        Some(object) => {
            managed::patch(object, json!({"metadata": {"annotations": {PENDING: "true"}}, "data": data}))
        }
        None => Change::Create(Sealed::new(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": INITIAL_SECRET,
                "namespace": namespace,
                "labels": {PART_OF_LABEL: PART_OF},
                "annotations": {PENDING: "true"},
            },
            "data": data,
        }))),
    })
}

/// The hash of the clear password that is not in force yet; `None` when there is none. Takes tens of milliseconds.
///
/// # Errors
/// When it cannot be hashed.
pub fn prepare(initial: Option<&Object>, drawn: &Drawn) -> Result<Option<PasswordHash>, AccountCallError> {
    pending(initial).map(|password| password::hash(&password, drawn.salt)).transpose()
}

/// What `argocd-secret` becomes: with a signing key, and with the hash of the first password.
pub fn plan_keys(
    (namespace, stored): (&str, Option<&Object>),
    password: Option<&PasswordHash>,
    drawn: &Drawn,
    now: Timestamp,
) -> Change {
    let mut data = Vec::new();
    if !has(stored, SIGNING_KEY) {
        data.push((SIGNING_KEY.to_owned(), STANDARD.encode(drawn.signing_key)));
    }
    if let Some(hash) = password
        && !has(stored, &secret_key(ADMIN, PASSWORD))
    {
        data.push((secret_key(ADMIN, PASSWORD), hash.as_str().to_owned()));
        data.push((secret_key(ADMIN, "passwordMtime"), rfc_3339(now)));
    }
    if data.is_empty() && stored.is_some() { Change::Keep } else { put((namespace, stored), data) }
}

/// Takes the mark off a clear password whose hash is stored.
pub fn plan_done(initial: Option<&Object>) -> Change {
    match initial {
        Some(object) if object.annotation(PENDING).is_some() => {
            managed::patch(object, json!({"metadata": {"annotations": {PENDING: null}}}))
        }
        _ => Change::Keep,
    }
}

/// Whether a key is there and not empty, whatever it holds: what cannot be read is not replaced.
fn has(secret: Option<&Object>, key: &str) -> bool {
    secret.map(objects::texts).unwrap_or_default().get(key).is_some_and(|text| !text.is_empty())
}

/// The clear password that is marked.
fn pending(initial: Option<&Object>) -> Option<Secret<String>> {
    let object = initial.filter(|object| object.annotation(PENDING).is_some())?;
    objects::decoded(object).remove(PASSWORD).filter(|text| !text.is_empty()).map(Secret::new)
}

/// Makes what the first start of an installation needs: the key that tokens are signed with, and a password of the
/// account `admin` (API-46). Does nothing where both are there; several starts at a time agree.
///
/// # Errors
/// Those of the cluster.
pub async fn first_start(store: &Store, is_admin_enabled: bool, now: Timestamp) -> Result<(), Error> {
    let drawn = Drawn::draw().ok_or(AccountCallError::Chance("the system gives no randomness"))?;
    let namespace = store.namespace();
    let secret = store.get(Own::Secret, SECRET).await?;
    let initial = store
        .settle_one(Record::Secret, INITIAL_SECRET, |initial| {
            plan_initial(namespace, (secret.as_deref(), initial), is_admin_enabled, &drawn)
                .map_err(Error::from)
        })
        .await?;
    let hashing = {
        let (initial, drawn) = (initial, drawn.clone());
        tokio::task::spawn_blocking(move || prepare(initial.as_deref(), &drawn))
    };
    let password =
        hashing.await.map_err(|_panic| AccountCallError::Chance("the first password cannot be stored"))??;
    let keys =
        |stored: Option<&_>| Ok::<_, Error>(plan_keys((namespace, stored), password.as_ref(), &drawn, now));
    store.settle_one(Record::Secret, SECRET, keys).await?;
    store.settle_one(Record::Secret, INITIAL_SECRET, |initial| Ok::<_, Error>(plan_done(initial))).await?;
    Ok(())
}
