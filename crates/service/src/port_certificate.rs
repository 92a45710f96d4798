//! The certificate of the API's port, as `argocd-secret` keeps it (API-4).
//!
//! Only the keys `tls.crt` and `tls.key` are touched, and each write is decided on the state that it changes: of several
//! servers that start at once the first one's certificate is what all use.

use serde_json::json;
use tiphys_api::names::SECRET;
use tiphys_api::secret::Secret;
use tiphys_installation::objects;
use tiphys_object::Object;

use crate::account::put;
use crate::change::Change;
use crate::error::Error;
use crate::managed;
use crate::store::{Record, Store};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// A certificate with its key, both PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The certificate, and those that vouch for it.
    pub certificate: String,
    /// Its key.
    pub key: Secret<String>,
}

impl Pair {
    /// What is under the two keys; `None` unless both have something.
    pub fn read(look_up: impl Fn(&str) -> Option<Secret<String>>) -> Option<Self> {
        let text = |key: &str| look_up(key).filter(|text| !text.expose().is_empty());
        Some(Self { certificate: text(CERTIFICATE)?.expose().clone(), key: text(KEY)? })
    }

    /// That of a Secret.
    pub fn of(object: &Object) -> Option<Self> {
        let texts = objects::decoded(object);
        Self::read(|key| texts.get(key).map(|text| Secret::from(text.as_str())))
    }
}

/// What `argocd-secret` becomes so that it has a certificate: what it has stays, half of one is replaced.
pub fn plan_kept((namespace, stored): (&str, Option<&Object>), made: &Pair) -> Change {
    let texts = stored.map(objects::texts).unwrap_or_default();
    // Whatever they hold: what cannot be read is not replaced.
    if [CERTIFICATE, KEY].iter().all(|key| texts.get(*key).is_some_and(|text| !text.is_empty())) {
        return Change::Keep;
    }
    let entries = [(CERTIFICATE, made.certificate.as_str()), (KEY, made.key.expose())]
        .map(|(key, text)| (key, text.to_owned()));
    put((namespace, stored), entries.map(|(key, text)| (key.to_owned(), text)))
}

/// What `argocd-secret` becomes where the port has a Secret of its own: a key that nobody uses is not kept.
pub fn plan_dropped(stored: Option<&Object>) -> Change {
    let Some(stored) = stored else { return Change::Keep };
    let texts = objects::texts(stored);
    if [CERTIFICATE, KEY].iter().all(|key| !texts.contains_key(*key)) {
        return Change::Keep;
    }
    managed::patch(stored, json!({"data": {CERTIFICATE: null, KEY: null}}))
}

/// Keeps a certificate in `argocd-secret` unless one is there; answers with the one that is there then.
///
/// # Errors
/// Those of the cluster.
pub async fn keep(store: &Store, made: &Pair) -> Result<Option<Pair>, Error> {
    let plan = |stored: Option<&Object>| Ok::<_, Error>(plan_kept((store.namespace(), stored), made));
    Ok(store.settle_one(Record::Secret, SECRET, plan).await?.and_then(|object| Pair::of(&object)))
}

/// Takes the certificate out of `argocd-secret`.
///
/// # Errors
/// Those of the cluster.
pub async fn drop_kept(store: &Store) -> Result<(), Error> {
    store.settle_one(Record::Secret, SECRET, |stored| Ok::<_, Error>(plan_dropped(stored))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn secret(data: &Value) -> Object {
        Object::from_value(&json!({"apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": {"name": SECRET, "namespace": "argocd", "uid": "u", "resourceVersion": "7"}}))
        .unwrap()
    }

    fn pair(certificate: &str) -> Pair {
        Pair { certificate: certificate.to_owned(), key: Secret::from("k") }
    }

    #[test]
    fn api_4_a_certificate_is_kept_once_and_alone() {
        let (other, half) = (secret(&json!({"other": "eA=="})), secret(&json!({"tls.key": "eA=="})));
        for stored in [&other, &half] {
            let change = plan_kept(("argocd", Some(stored)), &pair("c"));
            let Change::Patch(seen, patch) = change else { panic!("{change:?}") };
            assert_eq!(seen.version, "7");
            let data = json!({"tls.crt": "Yw==", "tls.key": "aw=="});
            assert_eq!(*patch.expose(), json!({"metadata": {"resourceVersion": "7"}, "data": data}));
        }
        let both = secret(&json!({"tls.crt": "eA==", "tls.key": "eA=="}));
        assert_eq!(plan_kept(("argocd", Some(&both)), &pair("c")), Change::Keep);
        assert!(matches!(plan_kept(("argocd", None), &pair("c")), Change::Create(_)));
        assert_eq!(Pair::of(&both).map(|pair| pair.certificate).as_deref(), Some("x"));
        assert_eq!(Pair::of(&half), None);
        assert!(!format!("{:?}", pair("c")).contains("\"k\""), "a key does not print");
    }

    #[test]
    fn api_4_keys_that_nobody_uses_go_and_nothing_else() {
        for data in
            [json!({"tls.crt": "eA==", "other": "eA=="}), json!({"tls.crt": "eA==", "tls.key": "eA=="})]
        {
            let stored = secret(&data);
            let Change::Patch(_, patch) = plan_dropped(Some(&stored)) else { panic!("{data}") };
            assert_eq!(patch.expose()["data"], json!({"tls.crt": null, "tls.key": null}));
        }
        assert_eq!(plan_dropped(Some(&secret(&json!({"other": "eA=="})))), Change::Keep);
        assert_eq!(plan_dropped(None), Change::Keep);
    }
}
