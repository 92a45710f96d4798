//! Tokens that the installation itself gives out (API-35..40).

use jiff::Timestamp;
use serde_json::{Map, Value};
use tiphys_api::account::Capability;
use tiphys_api::secret::Secret;
use tiphys_service::jwt::{self, Unverified, seconds};
use tiphys_service::project::token::random_id;

use super::{Session, invalid};
use crate::call::Status;
use crate::identity::Claims;
use crate::world::World;

/// Seconds before its end in which a session is renewed (API-40).
const RENEW_SECONDS: i64 = 300;

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

/// Who bears a token of the installation.
pub(super) fn identify(
    world: &World,
    token: Unverified<'_>,
    now: Timestamp,
    is_revoked: impl Fn(&str) -> bool,
) -> Result<Session, Status> {
    let keys = world.verifying_keys();
    let claims = jwt::verify(token, &keys.iter().collect::<Vec<_>>(), now.as_second()).map_err(invalid)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (subject, id) = (text("sub"), text("jti"));
    if is_revoked(&id) && !id.is_empty() {
        return Err(invalid("token is revoked, please re-login"));
    }
    let parts: Vec<&str> = subject.split(':').collect();
    if let &["proj", project, role] = parts.as_slice() {
        check_project(world, (project, role), &id, issued_at(&claims))?;
        return Ok(Session { claims: Claims::new(claims), renewed_token: None });
    }
    account(world, claims, (&parts, &id), now)
}

fn issued_at(claims: &Map<String, Value>) -> i64 {
    claims.get("iat").and_then(seconds).unwrap_or(0)
}

/// Whether a token of a project's role is in its books (API-38). Deviation: the reference looks for the time when the
/// id is not found, so that a token made in the same second keeps a deleted one alive.
fn check_project(world: &World, (project, role): (&str, &str), id: &str, issued: i64) -> Result<(), Status> {
    let found = world.installation.projects.get(project);
    let books = found.and_then(|project| project.status.jwt_tokens_by_role.get(role));
    let tokens = books.map(|books| books.items.as_slice()).unwrap_or_default();
    // Books made before ids have the time instead.
    let is_there =
        tokens.iter().any(|token| if id.is_empty() { token.iat == issued } else { token.id == id });
    if is_there { Ok(()) } else { Err(invalid("token does not exist in project")) }
}

/// Whether a project's token is still in its books; tokens of others are in none.
pub(super) fn is_in_books(world: &World, claims: &Claims) -> bool {
    let subject = claims.text("sub");
    match subject.split(':').collect::<Vec<_>>().as_slice() {
        &["proj", project, role] if claims.text("iss") == jwt::ISSUER => {
            check_project(world, (project, role), claims.text("jti"), issued_at(claims.all())).is_ok()
        }
        _ => true,
    }
}

/// Who bears a token of an account (API-39).
fn account(
    world: &World,
    mut claims: Map<String, Value>,
    (parts, id): (&[&str], &str),
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
    if id.is_empty() {
        return Err(invalid("token does not have an id"));
    }
    if capability == Capability::ApiKey && !account.has_token(id) {
        return Err(invalid(format!("account {name} does not have token with id {id}")));
    }
    let issued = issued_at(&claims);
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
