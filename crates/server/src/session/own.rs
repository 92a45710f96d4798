//! Tokens that the installation itself gives out (API-35..40).

use jiff::Timestamp;
use serde_json::{Map, Value};
use tiphys_api::account::{Account, AccountToken, Capability};
use tiphys_api::project::JwtToken;
use tiphys_api::secret::Secret;
use tiphys_service::jwt::{self, IssuedToken, Unverified, seconds};
use tiphys_service::project::token::random_id;

use super::{Session, invalid};
use crate::call::Status;
use crate::identity::Claims;
use crate::world::World;

/// Seconds before its end in which a session is renewed (API-40).
const RENEW_SECONDS: i64 = 300;
/// Seconds by which an account's token may be later than its entry: Argo CD reads the clock for each of them.
const ACCOUNT_LATE_SECONDS: i64 = 1;

/// A token of a session of an account.
///
/// # Errors
/// When there is no key to sign with.
pub(crate) fn login_token(
    world: &World,
    account: &str,
    lifetime_seconds: i64,
    now: Timestamp,
) -> Result<Secret<String>, Status> {
    let id = random_id().ok_or_else(|| Status::internal("the system gives no randomness"))?;
    let subject = format!("{account}:{}", Capability::Login.as_str());
    let key = world.signing_key();
    if key.is_empty() {
        return Err(Status::internal("the installation has no key to sign tokens with"));
    }
    let iat = now.as_second();
    let exp = if lifetime_seconds > 0 { iat.saturating_add(lifetime_seconds) } else { 0 };
    Ok(jwt::signed(&jwt::Claims { subject: &subject, id: &id, iat, exp }, &key))
}

/// Identifies the bearer of a token of the installation, for calls and for streams.
pub(super) fn identify(
    world: &World,
    token: Unverified<'_>,
    now: Timestamp,
    is_revoked: impl Fn(&Map<String, Value>) -> bool,
) -> Result<Session, Status> {
    let keys = world.verifying_keys();
    let claims = jwt::verify(token, &keys.iter().collect::<Vec<_>>(), now.as_second()).map_err(invalid)?;
    if is_revoked(&claims) {
        return Err(invalid("token is revoked, please re-login"));
    }
    let subject = jwt::Claims::of(&claims).subject.to_owned();
    let parts: Vec<&str> = subject.split(':').collect();
    if let &["proj", project, role] = parts.as_slice() {
        check_project(world, (project, role), &jwt::Claims::of(&claims))?;
        return Ok(Session { claims: Claims::new(claims), renewed_token: None });
    }
    account(world, claims, &parts, now)
}

/// Checks that a project lists the token of its role (API-38). Deviation: the reference compares only the id, so that
/// reusing the id makes a deleted token valid again, and falls back to the time of issue, so that a token of the same
/// second keeps a deleted one valid.
fn check_project(
    world: &World,
    (project, role): (&str, &str),
    token: &jwt::Claims<'_>,
) -> Result<(), Status> {
    let found = world.installation.projects.get(project);
    let stored = found.and_then(|project| project.status.jwt_tokens_by_role.get(role));
    let is_it = |stored: &JwtToken| {
        IssuedToken { id: &stored.id, iat: stored.iat, exp: stored.exp, late_max: 0 }.is(token)
    };
    let is_there = stored.is_some_and(|stored| stored.items.iter().any(is_it));
    if is_there { Ok(()) } else { Err(invalid("token does not exist in project")) }
}

/// Whether an account lists a token (API-39). Deviation: the reference compares only the id.
fn has_issued(account: &Account, token: &jwt::Claims<'_>) -> bool {
    let is_it = |stored: &AccountToken| {
        IssuedToken { id: &stored.id, iat: stored.iat, exp: stored.exp, late_max: ACCOUNT_LATE_SECONDS }
            .is(token)
    };
    account.tokens.iter().any(is_it)
}

/// Who bears a token of an account (API-39).
fn account(
    world: &World,
    mut claims: Map<String, Value>,
    parts: &[&str],
    now: Timestamp,
) -> Result<Session, Status> {
    let name = parts.first().copied().unwrap_or_default();
    let capability = if parts.get(1) == Some(&Capability::Login.as_str()) {
        Capability::Login
    } else {
        Capability::ApiKey
    };
    let account = world.account(name).map_err(invalid)?;
    if !account.is_enabled {
        return Err(invalid(format!("account {name} is disabled")));
    }
    if !account.has(capability) {
        return Err(invalid(format!("account {name} does not have {} capability", capability.as_str())));
    }
    let token = jwt::Claims::of(&claims);
    if token.id.is_empty() {
        return Err(invalid("token does not have an id"));
    }
    if capability == Capability::ApiKey && !has_issued(account, &token) {
        return Err(invalid(format!("account {name} does not have token with id {}", token.id)));
    }
    let issued = token.iat;
    if account.password_since.is_some_and(|changed| issued < changed.as_second()) {
        return Err(invalid("account password has changed since token issued"));
    }
    let ends = claims.get("exp").and_then(seconds);
    let renewed_token = match ends {
        Some(ends) if capability == Capability::Login && ends - now.as_second() < RENEW_SECONDS => {
            login_token(world, name, ends - issued, now).ok()
        }
        _ => None,
    };
    claims.insert("sub".to_owned(), name.into());
    Ok(Session { claims: Claims::new(claims), renewed_token })
}
