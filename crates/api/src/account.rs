//! Local accounts: what `argocd-cm` and `argocd-secret` say of them (API-44, API-45).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::repository::parse_bool;
use crate::secret::Secret;

/// The built-in account.
pub const ADMIN: &str = "admin";
/// Tokens of one account that are read.
const TOKENS_MAX: usize = 10_000;

/// What an account may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Logging in with a password.
    Login,
    /// Tokens.
    ApiKey,
}

impl Capability {
    /// The word of the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::ApiKey => "apiKey",
        }
    }

    /// From the word of the settings.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Login, Self::ApiKey].into_iter().find(|known| known.as_str() == word)
    }
}

/// What is stored of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountToken {
    /// Its id.
    pub id: String,
    /// Second it was made.
    pub iat: i64,
    /// Second it ends; 0 is never.
    #[serde(default, skip_serializing_if = "is_never")]
    pub exp: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_never(second: &i64) -> bool {
    *second == 0
}

/// A local account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whether it may be used at all.
    pub is_enabled: bool,
    /// What for, in the order of the settings.
    pub capabilities: Vec<Capability>,
    /// Hash of its password; empty when it has none.
    pub password: Secret<String>,
    /// Since when it has this password.
    pub password_since: Option<Timestamp>,
    /// Its tokens, the newest first (API-55).
    pub tokens: Vec<AccountToken>,
}

impl Account {
    /// Whether it may be used for something.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// Whether it has a token of this id.
    pub fn has_token(&self, id: &str) -> bool {
        self.tokens.iter().any(|token| token.id == id)
    }
}

/// Why accounts cannot be read: then none can be looked up (API-44).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// A switch is no boolean.
    #[error("argocd-cm: {0} is not a boolean")]
    Enabled(String),
    /// The tokens of an account are no list; the text of the Secret is not shown.
    #[error("argocd-secret: {0} is not a list of tokens")]
    Tokens(String),
}

/// All accounts, and what of the settings says nothing about one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// By name.
    pub all: BTreeMap<String, Account>,
    /// In words for people.
    pub warnings: Vec<String>,
}

impl Accounts {
    /// Whether nobody can log in with a password.
    pub fn has_no_logins(&self) -> bool {
        !self.all.values().any(|account| account.is_enabled && account.has(Capability::Login))
    }
}

/// The key of `argocd-secret` that holds something of an account: `password`, `passwordMtime` or `tokens`.
pub fn secret_key(account: &str, what: &str) -> String {
    if account == ADMIN { format!("{ADMIN}.{what}") } else { format!("accounts.{account}.{what}") }
}

/// The accounts that the settings declare, with what the Secret holds of them.
///
/// # Errors
/// When a switch or a list of tokens cannot be read.
pub fn accounts(
    settings: &BTreeMap<String, String>,
    secret: &BTreeMap<String, String>,
) -> Result<Accounts, AccountError> {
    let mut found = Accounts::default();
    // Deviation of one kind only: what is no boolean leaves it on.
    let is_enabled = settings.get("admin.enabled").is_none_or(|text| parse_bool(text) != Some(false));
    let admin = Account { capabilities: vec![Capability::Login], is_enabled, ..account(ADMIN) };
    found.all.insert(ADMIN.to_owned(), admin);
    let declared =
        settings.iter().filter_map(|(key, text)| Some((key, key.strip_prefix("accounts.")?, text)));
    let (mut switches, mut unknown) = (Vec::new(), Vec::new());
    for (key, rest, text) in declared {
        match rest.split_once('.') {
            None if rest.is_empty() => unknown.push(key),
            None => declare(&mut found, rest, text),
            Some((name, "enabled")) => switches.push((key, name, text)),
            Some(_) => unknown.push(key),
        }
    }
    found
        .warnings
        .extend(unknown.iter().map(|key| format!("argocd-cm: {key} says nothing about an account")));
    for (key, name, text) in switches {
        let is_enabled = parse_bool(text).ok_or_else(|| AccountError::Enabled(key.clone()))?;
        if let Some(account) = found.all.get_mut(name) {
            account.is_enabled = is_enabled;
        }
    }
    for account in found.all.values_mut() {
        let stored = |what: &str| secret.get(&secret_key(&account.name, what)).map(String::as_str);
        account.password = stored("password").unwrap_or_default().into();
        let since = stored("passwordMtime").filter(|text| !text.is_empty());
        account.password_since = since.and_then(|text| text.trim().parse().ok());
        if since.is_some() && account.password_since.is_none() {
            let key = secret_key(&account.name, "passwordMtime");
            found.warnings.push(format!("argocd-secret: {key} is no time"));
        }
        account.tokens = tokens(&account.name, stored("tokens"))?;
    }
    Ok(found)
}

fn account(name: &str) -> Account {
    Account {
        name: name.to_owned(),
        is_enabled: true,
        capabilities: Vec::new(),
        password: Secret::default(),
        password_since: None,
        tokens: Vec::new(),
    }
}

fn declare(found: &mut Accounts, name: &str, text: &str) {
    let Accounts { all, warnings } = found;
    let declared = all.entry(name.to_owned()).or_insert_with(|| account(name));
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match Capability::parse(word) {
            Some(capability) if !declared.has(capability) => declared.capabilities.push(capability),
            Some(_) => {}
            None => warnings.push(format!("argocd-cm: accounts.{name}: there is no capability {word:?}")),
        }
    }
}

fn tokens(name: &str, text: Option<&str>) -> Result<Vec<AccountToken>, AccountError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(Vec::new()) };
    let unreadable = || AccountError::Tokens(secret_key(name, "tokens"));
    let read: Option<Vec<AccountToken>> = serde_json::from_str(text).map_err(|_invalid| unreadable())?;
    let mut tokens = read.unwrap_or_default();
    if tokens.len() > TOKENS_MAX {
        return Err(unreadable());
    }
    tokens.sort_by(|a, b| b.iat.cmp(&a.iat).then_with(|| a.id.cmp(&b.id)));
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn api_44_45_accounts_and_the_built_in_one() {
        let settings = map(&[
            ("accounts.kim", "apiKey, login"),
            ("accounts.kim.enabled", "false"),
            ("accounts.admin", "apiKey"),
            ("accounts.bot", "apiKey,fly"),
            ("accounts.a.b.c", "x"),
            ("admin.enabled", "maybe"),
            ("url", "x"),
        ]);
        let secret = map(&[
            ("accounts.kim.password", "hash"),
            ("accounts.kim.passwordMtime", "2026-08-01T10:00:00Z"),
            ("admin.tokens", r#"[{"id":"old","iat":1},{"id":"new","iat":2,"exp":3}]"#),
        ]);
        let Accounts { all, warnings } = accounts(&settings, &secret).unwrap();
        assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), ["admin", "bot", "kim"]);
        let kim = &all["kim"];
        assert_eq!(kim.capabilities, [Capability::ApiKey, Capability::Login]);
        assert!(!kim.is_enabled && kim.password.expose() == "hash" && kim.password_since.is_some());
        let admin = &all["admin"];
        assert!(admin.is_enabled && admin.has(Capability::Login) && admin.has(Capability::ApiKey));
        assert_eq!(
            admin.tokens.iter().map(|token| token.id.as_str()).collect::<Vec<_>>(),
            ["new", "old"],
            "API-55"
        );
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        let off = accounts(&map(&[("admin.enabled", "false")]), &map(&[])).unwrap();
        assert!(
            !off.all["admin"].is_enabled
                && off.has_no_logins()
                && !Accounts { all, warnings }.has_no_logins()
        );
        let odd = accounts(&map(&[]), &map(&[("admin.passwordMtime", "yesterday")])).unwrap();
        assert!(odd.all["admin"].password_since.is_none() && odd.warnings.len() == 1);
    }

    #[test]
    fn api_44_what_cannot_be_read_stops_every_look_up() {
        let error =
            accounts(&map(&[("accounts.kim", ""), ("accounts.kim.enabled", "x")]), &map(&[])).unwrap_err();
        assert_eq!(error.to_string(), "argocd-cm: accounts.kim.enabled is not a boolean");
        let secret = map(&[("admin.tokens", "hunter2")]);
        let error = accounts(&map(&[]), &secret).unwrap_err();
        assert_eq!(error.to_string(), "argocd-secret: admin.tokens is not a list of tokens");
        assert_eq!(accounts(&map(&[]), &map(&[("admin.tokens", "null")])).unwrap().all["admin"].tokens, []);
    }
}
