//! Local accounts: who they are, and what a call would change (API-44..57).
//!
//! Accounts are declared in `argocd-cm`; their passwords and tokens are in `argocd-secret`. What is read here is data;
//! who may log in or change something is decided by the API server with it.

mod change;
mod first_start;
mod password;
mod shell;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tiphys_api::Settings;
use tiphys_api::secret::Secret;

use crate::error::Code;

pub use change::{plan_add_token, plan_delete_token, plan_password};
pub use first_start::{Drawn, INITIAL_SECRET, plan_done, plan_initial, plan_keys, prepare};
pub use shell::{add_token, delete_token, first_start, set_password};

pub use password::{HASH_COST, PasswordHash, SALT_BYTES, check_pattern, hash, verify, verify_nobody};

/// The account that is always there.
pub const ADMIN: &str = "admin";
/// How keys of accounts begin.
const PREFIX: &str = "accounts.";

/// What an account can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Logging in with a password.
    Login,
    /// Tokens.
    ApiKey,
}

impl Capability {
    /// The word in settings and tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::ApiKey => "apiKey",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Login, Self::ApiKey].into_iter().find(|it| it.as_str() == text)
    }
}

/// A token of an account, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountToken {
    /// Its id.
    #[serde(default)]
    pub id: String,
    /// When it was issued, in seconds.
    #[serde(default, rename = "iat")]
    pub issued_at: i64,
    /// When it ends, in seconds; 0 is never.
    #[serde(default, rename = "exp", skip_serializing_if = "is_zero")]
    pub expires_at: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// An account.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whether it can be used at all.
    pub is_enabled: bool,
    /// What for, in the order in which they are declared.
    pub capabilities: Vec<Capability>,
    /// The hash of its password; empty when it has none.
    pub password: Secret<String>,
    /// When the password was set.
    pub password_changed: Option<Timestamp>,
    /// Its tokens.
    pub tokens: Vec<AccountToken>,
}

impl Account {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_enabled: true,
            capabilities: Vec::new(),
            password: Secret::default(),
            password_changed: None,
            tokens: Vec::new(),
        }
    }

    /// Whether it can be used for this.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    fn add(&mut self, capability: Capability) {
        if !self.has(capability) {
            self.capabilities.push(capability);
        }
    }

    /// Whether the account has a token of this id.
    pub fn has_token(&self, id: &str) -> bool {
        self.tokens.iter().any(|token| token.id == id)
    }
}

/// The accounts of an installation.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    by_name: BTreeMap<String, Account>,
    problem: Option<String>,
    warnings: Vec<String>,
}

/// Why a call about accounts fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// There is none of this name.
    #[error("account '{0}' does not exist")]
    NotFound(String),
    /// Nobody knows which accounts there are.
    #[error("{0}")]
    Unreadable(String),
    /// The account cannot have tokens.
    #[error("account '{0}' does not have apiKey capability")]
    NoTokens(String),
    /// Another token has the id.
    #[error("account already has token with id '{0}'")]
    UsedTokenId(String),
    /// No token has the id.
    #[error("token with id '{0}' does not exist")]
    NoToken(String),
    /// A password is not as the settings want it.
    #[error("new password does not match the following expression: {0}")]
    Pattern(String),
    /// A password cannot be stored.
    #[error("{0}")]
    Password(&'static str),
    /// A token would end before it begins.
    #[error("expiration must not be negative")]
    Expiration,
}

impl AccountError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) | Self::NoToken(_) => Code::NotFound,
            Self::Pattern(_) | Self::Password(_) | Self::Expiration => Code::InvalidArgument,
            Self::Unreadable(_) | Self::NoTokens(_) | Self::UsedTokenId(_) => Code::Unknown,
        }
    }
}

impl Accounts {
    /// Reads the accounts that settings declare.
    pub fn read(settings: &Settings) -> Self {
        let mut accounts = Self::default();
        let mut admin = Account::new(ADMIN);
        admin.capabilities.push(Capability::Login);
        // A value that says neither changes nothing (API-45).
        admin.is_enabled =
            settings.cm().get("admin.enabled").and_then(|text| parse_bool(text)).unwrap_or(true);
        accounts.by_name.insert(ADMIN.to_owned(), admin);
        for (key, value) in settings.cm() {
            accounts.read_key(key, value);
        }
        for account in accounts.by_name.values_mut() {
            let warnings = &mut accounts.warnings;
            account.read_secret(|key| settings.secret(key), warnings);
        }
        accounts
    }

    fn read_key(&mut self, key: &str, value: &str) {
        let Some(rest) = key.strip_prefix(PREFIX) else { return };
        let mut parts = rest.split('.');
        let (name, suffix, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if name.is_empty() || more.is_some() || suffix.is_some_and(|suffix| suffix != "enabled") {
            self.warnings.push(format!("argocd-cm: {key}: is no setting of an account"));
            return;
        }
        let account = self.by_name.entry(name.to_owned()).or_insert_with(|| Account::new(name));
        if suffix.is_some() {
            match parse_bool(value) {
                Some(is_enabled) => account.is_enabled = is_enabled,
                None => self.problem = Some(format!("argocd-cm: {key}: {value:?} is neither true nor false")),
            }
            return;
        }
        for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match Capability::parse(word) {
                Some(capability) => account.add(capability),
                None => self.warnings.push(format!("argocd-cm: {key}: {word:?} is no capability")),
            }
        }
    }

    /// What has no effect, in words for the log.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// All accounts, by name.
    ///
    /// # Errors
    /// When nobody knows which there are (API-44).
    pub fn all(&self) -> Result<impl Iterator<Item = &Account>, AccountError> {
        match &self.problem {
            None => Ok(self.by_name.values()),
            Some(problem) => Err(AccountError::Unreadable(problem.clone())),
        }
    }

    /// One account.
    ///
    /// # Errors
    /// When there is none, or nobody knows.
    pub fn get(&self, name: &str) -> Result<&Account, AccountError> {
        if let Some(problem) = &self.problem {
            return Err(AccountError::Unreadable(problem.clone()));
        }
        self.by_name.get(name).ok_or_else(|| AccountError::NotFound(name.to_owned()))
    }

    /// Whether nobody can log in with a password.
    pub fn has_no_logins(&self) -> bool {
        !self.by_name.values().any(|account| account.is_enabled && account.has(Capability::Login))
    }
}

impl Account {
    fn read_secret(&mut self, secret: impl Fn(&str) -> Option<Secret<String>>, warnings: &mut Vec<String>) {
        let key = |what: &str| secret_key(&self.name, what);
        let text = |what: &str| secret(&key(what)).filter(|value| !value.is_empty());
        let mtime = text("passwordMtime");
        let changed = mtime.as_ref().and_then(|text| text.expose().trim().parse().ok());
        if mtime.is_some() && changed.is_none() {
            warnings.push(format!("argocd-secret: {}: is no time", key("passwordMtime")));
        }
        let tokens = match text("tokens").map(|text| serde_json::from_str(text.expose())) {
            None => Vec::new(),
            Some(Ok(tokens)) => tokens,
            Some(Err(_unreadable)) => {
                warnings.push(format!("argocd-secret: {}: is no list of tokens", key("tokens")));
                Vec::new()
            }
        };
        let password = text("password").unwrap_or_default();
        (self.password, self.password_changed, self.tokens) = (password, changed, tokens);
    }
}

/// The key of `argocd-secret` with something of an account.
pub(crate) fn secret_key(account: &str, what: &str) -> String {
    if account == ADMIN { format!("{ADMIN}.{what}") } else { format!("{PREFIX}{account}.{what}") }
}

/// As Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
