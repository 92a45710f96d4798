//! What is stored of passwords and tokens.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_api::names::SECRET;
use tiphys_installation::objects;
use tiphys_object::Object;

use super::password::PasswordHash;
use super::{AccountError, AccountToken, secret_key};
use crate::change::{Change, Sealed};
use crate::managed;

/// What a new password changes (API-56). Times are whole seconds.
pub fn plan_password(
    (namespace, stored): (&str, Option<&Object>),
    account: &str,
    password: &PasswordHash,
    now: Timestamp,
) -> Change {
    let entries = Map::from_iter([
        (secret_key(account, "password"), managed::encoded(password.as_str())),
        (secret_key(account, "passwordMtime"), managed::encoded(&whole_seconds(now))),
    ]);
    put(stored, namespace, &entries)
}

/// What a new token changes (API-57).
///
/// # Errors
/// When another one has its id.
pub fn plan_add_token(
    (namespace, stored): (&str, Option<&Object>),
    account: &str,
    token: AccountToken,
) -> Result<Change, AccountError> {
    let mut tokens = tokens(stored, account);
    if tokens.iter().any(|other| other.id == token.id) {
        return Err(AccountError::UsedTokenId(token.id));
    }
    tokens.push(token);
    Ok(put_tokens((namespace, stored), account, &tokens))
}

/// What removing a token changes (API-57).
///
/// # Errors
/// When there is none of this id.
pub fn plan_delete_token(
    (namespace, stored): (&str, Option<&Object>),
    account: &str,
    id: &str,
) -> Result<Change, AccountError> {
    let mut tokens = tokens(stored, account);
    let before = tokens.len();
    tokens.retain(|token| token.id != id);
    if tokens.len() == before {
        return Err(AccountError::NoToken(id.to_owned()));
    }
    Ok(put_tokens((namespace, stored), account, &tokens))
}

fn tokens(stored: Option<&Object>, account: &str) -> Vec<AccountToken> {
    let texts = stored.map(objects::decoded).unwrap_or_default();
    let text = texts.get(&secret_key(account, "tokens"));
    // What is no list has no token that anybody could use.
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn put_tokens(place: (&str, Option<&Object>), account: &str, tokens: &[AccountToken]) -> Change {
    let (namespace, stored) = place;
    let entry = (secret_key(account, "tokens"), managed::encoded(&json!(tokens).to_string()));
    put(stored, namespace, &Map::from_iter([entry]))
}

/// Sets entries of the installation's Secret; others stay.
pub(super) fn put(stored: Option<&Object>, namespace: &str, data: &Map<String, Value>) -> Change {
    match stored {
        Some(object) => managed::patch(object, json!({"data": data})),
        None => Change::Create(Sealed::new(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": SECRET,
                "namespace": namespace,
                "labels": {
                    tiphys_api::names::PART_OF_LABEL: tiphys_api::names::PART_OF,
                    "app.kubernetes.io/name": SECRET,
                },
            },
            "data": data,
        }))),
    }
}

/// RFC 3339 without fraction, in UTC.
pub(super) fn whole_seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
