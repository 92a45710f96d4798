//! Local accounts: what a call would change (API-46, API-47, API-54..57).
//!
//! Passwords and tokens are kept in `argocd-secret`; a change is made on the state that was read, so that no token is lost
//! to somebody else's.

mod first_start;
mod password;

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use tiphys_api::account::{
    Account, AccountError, AccountToken, Accounts as All, Capability, accounts, secret_key,
};
use tiphys_api::names;
use tiphys_api::secret::Secret;
use tiphys_installation::objects;
use tiphys_object::Object;
use tiphys_policy::permit::Own;

use crate::access::{Access, Action, Caller, Resource};
use crate::change::{Change, Sealed};
use crate::error::{Code, Error};
use crate::jwt::{self, Claims};
use crate::managed;
use crate::store::{Record, Store};

pub use first_start::{Drawn, INITIAL_SECRET, first_start, plan_done, plan_initial, plan_keys, prepare};
pub use password::{HASH_COST, PasswordHash, SALT_BYTES, hash, hashed, verify, verify_nobody};

/// What a password has to look like where the settings say nothing (API-56).
pub const PASSWORD_PATTERN: &str = "^.{8,32}$";
/// Setting with another pattern.
const PATTERN_KEY: &str = "passwordPattern";
/// Key that tokens are signed with.
const SIGNING_KEY: &str = "server.secretkey";

/// Why a call about an account fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountCallError {
    /// There is none with this name.
    #[error("account '{0}' does not exist")]
    NotFound(String),
    /// The accounts cannot be read.
    #[error(transparent)]
    Unreadable(#[from] AccountError),
    /// The password is not what the settings want.
    #[error("new password does not match the following expression: {0}")]
    Password(String),
    /// The settings want something that is no expression.
    #[error("argocd-cm: passwordPattern: {0}")]
    Pattern(String),
    /// The password cannot be hashed.
    #[error("the password cannot be stored: {0}")]
    Hash(&'static str),
    /// Without chance there are no passwords.
    #[error("{0}")]
    Chance(&'static str),
    /// The account has no tokens (API-57).
    #[error("account '{0}' does not have apiKey capability")]
    NoTokens(String),
    /// A token has the id already.
    #[error("account already has token with id '{0}'")]
    UsedTokenId(String),
    /// There is no such token.
    #[error("token with id '{0}' does not exist")]
    NoToken(String),
    /// A token cannot have ended before it begins.
    #[error("a token cannot expire in the past")]
    Expired,
    /// Nobody has made the key yet.
    #[error("server.secretkey is missing")]
    NoKey,
}

impl AccountCallError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) | Self::NoToken(_) => Code::NotFound,
            Self::Expired => Code::InvalidArgument,
            // The reference gives the last one no class, which makes it look like a failure of the server.
            Self::Unreadable(_) | Self::NoKey | Self::NoTokens(_) => Code::FailedPrecondition,
            // The reference gives these no class.
            Self::Password(_) | Self::Pattern(_) | Self::Hash(_) | Self::Chance(_) | Self::UsedTokenId(_) => {
                Code::Unknown
            }
        }
    }
}

/// A token that is asked for (API-57).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue<'a> {
    /// Whose.
    pub account: &'a str,
    /// Its id.
    pub id: &'a str,
    /// Seconds until it ends; 0 is never.
    pub expires_in: i64,
    /// The time.
    pub now: Timestamp,
}

/// Whether a password is what the settings want (API-56).
///
/// # Errors
/// When it is not, or nobody can tell.
pub fn check_password(settings: &BTreeMap<String, String>, password: &str) -> Result<(), AccountCallError> {
    let pattern = settings.get(PATTERN_KEY).map_or("", String::as_str);
    let pattern = if pattern.is_empty() { PASSWORD_PATTERN } else { pattern };
    let expression = tiphys_go::regexp::Regexp::new(pattern)
        .map_err(|error| AccountCallError::Pattern(error.to_string()))?;
    if expression.is_match(password) { Ok(()) } else { Err(AccountCallError::Password(pattern.to_owned())) }
}

/// What setting a password changes.
///
/// # Errors
/// When there is no such account.
pub fn plan_password(
    (namespace, stored): (&str, Option<&Object>),
    settings: &BTreeMap<String, String>,
    (name, hash): (&str, &PasswordHash),
    now: Timestamp,
) -> Result<Change, AccountCallError> {
    find(settings, stored, name)?;
    Ok(put(
        (namespace, stored),
        [
            (secret_key(name, "password"), hash.as_str().to_owned()),
            (secret_key(name, "passwordMtime"), rfc_3339(now)),
        ],
    ))
}

/// What a new token changes.
///
/// # Errors
/// When the account has no tokens, or one with this id.
pub fn plan_token(
    (namespace, stored): (&str, Option<&Object>),
    settings: &BTreeMap<String, String>,
    issue: &Issue<'_>,
) -> Result<Change, AccountCallError> {
    let mut account = find(settings, stored, issue.account)?;
    if issue.expires_in < 0 {
        return Err(AccountCallError::Expired);
    }
    if !account.has(Capability::ApiKey) {
        return Err(AccountCallError::NoTokens(account.name));
    }
    if account.tokens.iter().any(|token| token.id == issue.id) {
        return Err(AccountCallError::UsedTokenId(issue.id.to_owned()));
    }
    account.tokens.insert(0, entry(issue));
    Ok(put_tokens((namespace, stored), &account))
}

/// What the end of a token changes.
///
/// # Errors
/// When there is none with this id.
pub fn plan_delete_token(
    (namespace, stored): (&str, Option<&Object>),
    settings: &BTreeMap<String, String>,
    (name, id): (&str, &str),
) -> Result<Change, AccountCallError> {
    let mut account = find(settings, stored, name)?;
    let before = account.tokens.len();
    account.tokens.retain(|token| token.id != id);
    if account.tokens.len() == before {
        return Err(AccountCallError::NoToken(id.to_owned()));
    }
    Ok(put_tokens((namespace, stored), &account))
}

fn entry(issue: &Issue<'_>) -> AccountToken {
    let iat = issue.now.as_second();
    let exp = if issue.expires_in > 0 { iat.saturating_add(issue.expires_in) } else { 0 };
    AccountToken { id: issue.id.to_owned(), iat, exp }
}

/// A time in whole seconds, as it is stored.
fn rfc_3339(now: Timestamp) -> String {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    tiphys_go::time::format(tiphys_go::time::RFC_3339, second, &TimeZone::UTC)
}

fn find(
    settings: &BTreeMap<String, String>,
    stored: Option<&Object>,
    name: &str,
) -> Result<Account, AccountCallError> {
    let mut all = accounts(settings, &decoded(stored))?.all;
    all.remove(name).ok_or_else(|| AccountCallError::NotFound(name.to_owned()))
}

fn decoded(stored: Option<&Object>) -> BTreeMap<String, String> {
    stored.map(objects::decoded).unwrap_or_default()
}

fn put_tokens(place: (&str, Option<&Object>), account: &Account) -> Change {
    // A list of texts and numbers is always JSON.
    let text = serde_json::to_string(&account.tokens).unwrap_or_else(|_| "[]".to_owned());
    put(place, [(secret_key(&account.name, "tokens"), text)])
}

/// Sets keys of `argocd-secret`; it is made where it is missing (API-46).
pub(crate) fn put(
    (namespace, stored): (&str, Option<&Object>),
    entries: impl IntoIterator<Item = (String, String)>,
) -> Change {
    let data: Map<String, Value> =
        entries.into_iter().map(|(key, text)| (key, managed::encoded(&text))).collect();
    match stored {
        Some(object) => managed::patch(object, json!({ "data": data })),
        None => Change::Create(Sealed::new(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": names::SECRET, "namespace": namespace,
                "labels": {names::PART_OF_LABEL: names::PART_OF, "app.kubernetes.io/name": names::SECRET}},
            "data": data,
        }))),
    }
}

/// The members of an answer; nothing in it opens a door (API-55).
pub fn shown(account: &Account) -> Value {
    let tokens: Vec<Value> = account
        .tokens
        .iter()
        .map(|token| {
            let mut members = json!({"id": token.id, "issuedAt": token.iat});
            if let (true, Some(members)) = (token.exp > 0, members.as_object_mut()) {
                members.insert("expiresAt".to_owned(), token.exp.into());
            }
            members
        })
        .collect();
    let capabilities: Vec<&str> = account.capabilities.iter().map(|it| it.as_str()).collect();
    json!({"name": account.name, "enabled": account.is_enabled, "capabilities": capabilities, "tokens": tokens})
}

/// Calls about the accounts of an installation. Who calls about their own account is told apart by the caller (API-54).
#[derive(Clone, Copy, Debug)]
pub struct Accounts<'a> {
    store: &'a Store,
    caller: Caller<'a>,
    /// `argocd-cm`.
    settings: &'a BTreeMap<String, String>,
}

impl<'a> Accounts<'a> {
    /// Calls of somebody.
    pub fn new(store: &'a Store, caller: Caller<'a>, settings: &'a BTreeMap<String, String>) -> Self {
        Self { store, caller, settings }
    }

    fn may(&self, action: Action, name: &str) -> Result<(), Error> {
        self.caller.may(&Access::named(Resource::Accounts, action, name))
    }

    /// All that the caller may see, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self) -> Result<All, Error> {
        let stored = self.store.get(Own::Secret, names::SECRET).await?;
        let mut all = accounts(self.settings, &decoded(stored.as_deref())).map_err(AccountCallError::from)?;
        all.all.retain(|name, _| self.may(Action::Get, name).is_ok());
        Ok(all)
    }

    /// One account.
    ///
    /// # Errors
    /// When there is none, or the caller may not see it.
    pub async fn get(&self, name: &str) -> Result<Account, Error> {
        self.may(Action::Get, name)?;
        let stored = self.store.get(Own::Secret, names::SECRET).await?;
        Ok(find(self.settings, stored.as_deref(), name)?)
    }

    /// Gives an account another password.
    ///
    /// # Errors
    /// When it is not what the settings want, or there is no such account.
    pub async fn set_password(
        &self,
        name: &str,
        password: &Secret<String>,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.may(Action::Update, name)?;
        check_password(self.settings, password.expose())?;
        // Nobody waits tens of milliseconds for somebody else's hash.
        let password = password.clone();
        let hashing = tokio::task::spawn_blocking(move || hashed(&password));
        let hash = hashing.await.map_err(|_panic| AccountCallError::Hash("its hash cannot be made"))??;
        let plan = |stored: Option<&Object>| {
            let place = (self.store.namespace(), stored);
            plan_password(place, self.settings, (name, &hash), now).map_err(Error::from)
        };
        self.store.settle_one(Record::Secret, names::SECRET, plan).await.map(drop)
    }

    /// Makes a token. Without the key of the server nothing is stored.
    ///
    /// # Errors
    /// Those of [`plan_token`], and when nobody can sign.
    pub async fn create_token(&self, issue: &Issue<'_>) -> Result<Secret<String>, Error> {
        self.may(Action::Update, issue.account)?;
        let plan = |stored: Option<&Object>| -> Result<(Change, Secret<String>), Error> {
            let change = plan_token((self.store.namespace(), stored), self.settings, issue)?;
            let key = decoded(stored).remove(SIGNING_KEY).filter(|key| !key.is_empty());
            let key = Secret::new(key.ok_or(AccountCallError::NoKey)?);
            let AccountToken { id, iat, exp } = entry(issue);
            let subject = format!("{}:{}", issue.account, Capability::ApiKey.as_str());
            Ok((change, jwt::signed(&Claims { subject: &subject, id: &id, iat, exp }, &key)))
        };
        Ok(self.store.settle_telling(Record::Secret, names::SECRET, plan).await?.1)
    }

    /// Ends a token.
    ///
    /// # Errors
    /// When there is none with this id.
    pub async fn delete_token(&self, name: &str, id: &str) -> Result<(), Error> {
        self.may(Action::Update, name)?;
        let plan = |stored: Option<&Object>| {
            let place = (self.store.namespace(), stored);
            plan_delete_token(place, self.settings, (name, id)).map_err(Error::from)
        };
        self.store.settle_one(Record::Secret, names::SECRET, plan).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
