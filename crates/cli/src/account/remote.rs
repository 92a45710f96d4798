//! Accounts by way of an API server (API-46, API-47, API-54..58, API-70).

use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::account::{Account, AccountToken, Capability};
use tiphys_api::secret::Secret;
use tiphys_object::access;

use crate::core::Remote;
use crate::failure::Failure;

async fn ask(server: &Remote, method: Method, more: &[&str], body: Option<&Value>) -> Result<Value, Failure> {
    server.api.call(method, more, (&[], body)).await
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An account as a server shows it.
fn read(value: &Value) -> Account {
    // Seconds are written as texts, as they may be large.
    let second = |token: &Value, name: &str| match token.get(name) {
        Some(Value::String(text)) => text.parse().unwrap_or_default(),
        other => other.and_then(Value::as_i64).unwrap_or_default(),
    };
    let token = |token: &Value| AccountToken {
        id: access::text(token, "id").to_owned(),
        iat: second(token, "issuedAt"),
        exp: second(token, "expiresAt"),
    };
    Account {
        name: access::text(value, "name").to_owned(),
        is_enabled: value.get("enabled").and_then(Value::as_bool).unwrap_or_default(),
        capabilities: items(value, "capabilities")
            .iter()
            .filter_map(Value::as_str)
            .filter_map(Capability::parse)
            .collect(),
        password: Secret::default(),
        password_since: None,
        tokens: items(value, "tokens").iter().map(token).collect(),
    }
}

/// All accounts that may be seen.
pub(super) async fn list(server: &Remote) -> Result<Vec<Account>, Failure> {
    let answer = ask(server, Method::GET, &["account"], None).await?;
    Ok(items(&answer, "items").iter().map(read).collect())
}

/// The account that is named, or whoever is logged in.
pub(super) async fn name(server: &Remote, named: &str) -> Result<String, Failure> {
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let info = user_info(server).await?;
    match access::text(&info, "username") {
        "" => Err(Failure::generic("nobody is logged in, so the account has to be named")
            .hint("`relogin`, or add `--account NAME`")),
        name => Ok(name.to_owned()),
    }
}

/// An account.
pub(super) async fn get(server: &Remote, named: &str) -> Result<Account, Failure> {
    let name = name(server, named).await?;
    Ok(read(&ask(server, Method::GET, &["account", &name], None).await?))
}

/// Who is logged in.
pub(super) async fn user_info(server: &Remote) -> Result<Value, Failure> {
    ask(server, Method::GET, &["session", "userinfo"], None).await
}

/// The same in lines (CLI-821).
pub(super) fn told(info: &Value) -> Vec<String> {
    let is_known = info.get("loggedIn").and_then(Value::as_bool).unwrap_or_default();
    let mut lines = vec![format!("Logged In: {is_known}")];
    if is_known {
        lines.push(format!("Username: {}", access::text(info, "username")));
        lines.push(format!("Issuer: {}", access::text(info, "iss")));
        let groups: Vec<&str> = items(info, "groups").iter().filter_map(Value::as_str).collect();
        lines.push(format!("Groups: {}", groups.join(",")));
    }
    lines
}

/// Whether something is allowed: the word of the server.
pub(super) async fn can_i(
    server: &Remote,
    (action, resource, subresource): (&str, &str, &str),
) -> Result<String, Failure> {
    let mut path = vec!["account", "can-i", resource, action];
    // What is behind is one path, whatever it holds.
    path.extend(subresource.split('/'));
    let answer = ask(server, Method::GET, &path, None).await?;
    Ok(access::text(&answer, "value").to_owned())
}

/// Sets a password; whoever does it says their own.
pub(super) async fn set_password(
    server: &Remote,
    name: &str,
    (current, new): (&Secret<String>, &Secret<String>),
) -> Result<(), Failure> {
    let body = json!({"name": name, "currentPassword": current.expose(), "newPassword": new.expose()});
    ask(server, Method::PUT, &["account", "password"], Some(&body)).await.map(drop)
}

/// Makes a token; the server finds an id where none is given.
pub(super) async fn create_token(
    server: &Remote,
    name: &str,
    (id, expires_in): (&str, i64),
) -> Result<Secret<String>, Failure> {
    let body = json!({"name": name, "id": id, "expiresIn": expires_in});
    let answer = ask(server, Method::POST, &["account", name, "token"], Some(&body)).await?;
    Ok(Secret::from(access::text(&answer, "token")))
}

/// Ends a token.
pub(super) async fn delete_token(server: &Remote, name: &str, id: &str) -> Result<(), Failure> {
    ask(server, Method::DELETE, &["account", name, "token", id], None).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_820_accounts_are_read_as_servers_write_them() {
        let account = read(&json!({"name": "ci", "enabled": true, "capabilities": ["apiKey", "login", "x"],
            "tokens": [{"id": "a", "issuedAt": "1700000000", "expiresAt": "0"}, {"id": "b", "issuedAt": 5}]}));
        assert_eq!(account.capabilities.len(), 2);
        let tokens: Vec<_> = account.tokens.iter().map(|token| (&*token.id, token.iat, token.exp)).collect();
        assert_eq!(tokens, [("a", 1_700_000_000, 0), ("b", 5, 0)]);
    }

    #[test]
    fn cli_821_who_is_logged_in() {
        assert_eq!(told(&json!({})), ["Logged In: false"]);
        let known = json!({"loggedIn": true, "username": "kim", "iss": "argocd", "groups": ["a", "b"]});
        assert_eq!(told(&known), ["Logged In: true", "Username: kim", "Issuer: argocd", "Groups: a,b"]);
    }
}
