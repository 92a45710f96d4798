//! Keys of those who sign commits: what a call would change, and what it shows (REP-86, API-180).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::names::GPG_KEYS_CONFIG_MAP;
use tiphys_api::trust::{KeyError, Keyring, PublicKey, key_id, public_keys};
use tiphys_object::Object;
use tiphys_policy::permit::Own;

use crate::access::{Access, Action, Caller, Resource};
use crate::change::Change;
use crate::config_map;
use crate::error::{Code, Error};
use crate::store::{Record, Store};

/// Why a call about keys fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpgKeyError {
    /// A key has no such id.
    #[error("'{0}' is not a valid GnuPG key ID")]
    InvalidId(String),
    /// There is none to show.
    #[error("no such key: {0}")]
    NotFound(String),
    /// There is none to remove.
    #[error("no such key configured: {0}")]
    NotConfigured(String),
    /// The text cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl GpgKeyError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) | Self::NotConfigured(_) => Code::NotFound,
            Self::InvalidId(_) | Self::Key(_) => Code::InvalidArgument,
        }
    }
}

/// What became of the keys of a text, by id (REP-86).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Those that were not there.
    pub created: Vec<String>,
    /// Those that were.
    pub skipped: Vec<String>,
}

/// The members of an answer; the key itself is only in that about one.
pub fn shown(key: &PublicKey, with_data: bool) -> Value {
    let mut value = json!({
        "keyID": key.key_id(),
        "fingerprint": key.fingerprint,
        "owner": key.owner,
        "subType": key.sub_type,
        "trust": "unknown",
    });
    if let (true, Some(members)) = (with_data, value.as_object_mut()) {
        members.insert("keyData".to_owned(), key.text().into());
    }
    value
}

/// What storing the keys of a text changes; one that is there stays as it is.
///
/// # Errors
/// When the text holds no public key, or something that is none.
pub fn plan_add(
    (namespace, stored): (&str, Option<&Object>),
    text: &str,
) -> Result<(Change, Added), GpgKeyError> {
    let present = config_map::data(stored);
    let (mut added, mut new) = (Added::default(), Map::new());
    for key in public_keys(text)? {
        let id = key.key_id().to_owned();
        if entry(&present, &id).is_some() || new.contains_key(&id) {
            added.skipped.push(id);
        } else {
            new.insert(id.clone(), key.text().into());
            added.created.push(id);
        }
    }
    let change = if new.is_empty() {
        Change::Keep
    } else {
        config_map::put(stored, (namespace, GPG_KEYS_CONFIG_MAP), &new)
    };
    Ok((change, added))
}

/// What removing a key changes; answers with its id.
///
/// # Errors
/// When there is no such id, or no such key.
pub fn plan_delete(
    (namespace, stored): (&str, Option<&Object>),
    wanted: &str,
) -> Result<(Change, String), GpgKeyError> {
    let id = key_id(wanted).ok_or_else(|| GpgKeyError::InvalidId(wanted.to_owned()))?;
    let present = config_map::data(stored);
    let name = entry(&present, &id).ok_or_else(|| GpgKeyError::NotConfigured(wanted.to_owned()))?;
    let gone = Map::from_iter([(name.clone(), Value::Null)]);
    Ok((config_map::put(stored, (namespace, GPG_KEYS_CONFIG_MAP), &gone), id))
}

/// The name of the entry of an id, in whatever case and length it is written (REP-86).
fn entry<'a>(present: &'a BTreeMap<String, String>, id: &str) -> Option<&'a String> {
    present.keys().find(|name| key_id(name).as_deref() == Some(id))
}

/// Calls about the keys of an installation.
#[derive(Clone, Copy, Debug)]
pub struct GpgKeys<'a> {
    store: &'a Store,
    caller: Caller<'a>,
}

impl<'a> GpgKeys<'a> {
    /// Calls of somebody.
    pub fn new(store: &'a Store, caller: Caller<'a>) -> Self {
        Self { store, caller }
    }

    fn may(&self, action: Action) -> Result<(), Error> {
        self.caller.may(&Access::named(Resource::GpgKeys, action, ""))
    }

    /// The keys that count, and what is wrong with the others.
    ///
    /// # Errors
    /// When the cluster does not say.
    pub async fn list(&self) -> Result<Keyring, Error> {
        self.may(Action::Get)?;
        let stored = self.store.get(Own::Trust, GPG_KEYS_CONFIG_MAP).await?;
        Ok(Keyring::read(&config_map::data(stored.as_deref())))
    }

    /// One key.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(&self, wanted: &str) -> Result<PublicKey, Error> {
        let id = key_id(wanted).ok_or_else(|| GpgKeyError::InvalidId(wanted.to_owned()))?;
        let keyring = self.list().await?;
        let found = keyring.keys().find(|key| key.key_id() == id).cloned();
        Ok(found.ok_or_else(|| GpgKeyError::NotFound(wanted.to_owned()))?)
    }

    /// Stores the keys of a text.
    ///
    /// # Errors
    /// Those of [`plan_add`], and those of the cluster.
    pub async fn add(&self, text: &str) -> Result<Added, Error> {
        self.may(Action::Create)?;
        let namespace = self.store.namespace();
        let plan = |stored: Option<&_>| plan_add((namespace, stored), text).map_err(Error::from);
        Ok(self.store.settle_telling(Record::Trust, GPG_KEYS_CONFIG_MAP, plan).await?.1)
    }

    /// Removes a key; answers with its id.
    ///
    /// # Errors
    /// Those of [`plan_delete`], and those of the cluster.
    pub async fn delete(&self, wanted: &str) -> Result<String, Error> {
        self.may(Action::Delete)?;
        let namespace = self.store.namespace();
        let plan = |stored: Option<&_>| plan_delete((namespace, stored), wanted).map_err(Error::from);
        Ok(self.store.settle_telling(Record::Trust, GPG_KEYS_CONFIG_MAP, plan).await?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA: &str = include_str!("../../api/src/trust/testdata/rsa.asc");
    const ED25519: &str = include_str!("../../api/src/trust/testdata/ed25519.asc");

    fn id(text: &str) -> String {
        public_keys(text).unwrap()[0].key_id().to_owned()
    }

    fn config_map(name: &str, text: &str) -> Object {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {name: text},
            "metadata": {"name": "cm", "uid": "u", "resourceVersion": "7"}});
        Object::from_value(&value).unwrap()
    }

    #[test]
    fn rep_86_keys_that_are_there_are_skipped() {
        let both = format!("{ED25519}{RSA}{ED25519}");
        let (change, added) = plan_add(("argocd", None), &both).unwrap();
        assert_eq!(added.created, [id(ED25519), id(RSA)]);
        assert_eq!(added.skipped, [id(ED25519)]);
        let Change::Create(manifest) = change else { panic!() };
        let data = manifest.expose()["data"].as_object().unwrap();
        assert_eq!(data[&id(RSA)], RSA);
        let entries = data.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()));
        assert_eq!(Keyring::read(&entries.collect()).problems(), []);

        let stored = config_map(&id(RSA).to_lowercase(), RSA);
        let (change, added) = plan_add(("argocd", Some(&stored)), RSA).unwrap();
        assert_eq!((change, added.skipped), (Change::Keep, vec![id(RSA)]), "whatever case the id has");
        assert_eq!(plan_add(("argocd", None), "").unwrap_err().to_string(), "no PGP public key block found");
    }

    #[test]
    fn rep_86_a_key_is_removed_by_id_or_fingerprint() {
        let name = id(RSA).to_lowercase();
        let stored = config_map(&name, RSA);
        for wanted in [id(RSA), public_keys(RSA).unwrap()[0].fingerprint.clone(), name.clone()] {
            let (change, removed) = plan_delete(("argocd", Some(&stored)), &wanted).unwrap();
            assert_eq!(removed, id(RSA));
            let Change::Patch(_, patch) = change else { panic!() };
            assert_eq!(patch.expose()["data"], json!({&name: null}));
        }
        let error = |wanted: &str| plan_delete(("argocd", Some(&stored)), wanted).unwrap_err();
        let other = id(ED25519);
        assert_eq!(error(&other).to_string(), format!("no such key configured: {other}"));
        assert_eq!(error(&other).code(), Code::NotFound);
        assert_eq!(error("3AFDEB23").to_string(), "'3AFDEB23' is not a valid GnuPG key ID");
    }
}
