//! Accounts and their tokens (API-54..58).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_policy::rbac::{Request, Resource};
use tiphys_service::account::{self, Account, AccountError, AccountToken, Capability};
use tiphys_service::jwt;
use tiphys_service::project::token::random_id;
use tiphys_wire::status::Code;

use super::context::Context;
use super::{request, unimplemented};
use crate::call::{Reply, Status};
use crate::session::own_token;

/// How old a token of an identity provider may be when a password is changed with it.
const FRESH_SECONDS: i64 = 300;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    id: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CreateToken {
    name: String,
    expires_in: i64,
    id: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UpdatePassword {
    new_password: Secret<String>,
    current_password: Secret<String>,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CanI {
    resource: String,
    action: String,
    subresource: String,
}

pub(super) async fn call(context: &Context<'_>, method: &str, request: Value) -> Result<Reply, Status> {
    let answer = match method {
        "CanI" => can_i(context, &request::read(request)?)?,
        "ListAccounts" => list(context)?,
        "GetAccount" => {
            let Named { name, .. } = request::read(request)?;
            may(context, "get", &name)?;
            shown(found(context, &name)?)
        }
        "CreateToken" => create_token(context, request::read(request)?).await?,
        "DeleteToken" => delete_token(context, request::read(request)?).await?,
        "UpdatePassword" => update_password(context, request::read(request)?).await?,
        _ => return Err(unimplemented(method)),
    };
    Ok(Reply::value(answer))
}

fn can_i(context: &Context<'_>, asked: &CanI) -> Result<Value, Status> {
    let request = Request { resource: &asked.resource, action: &asked.action, object: &asked.subresource };
    let answer = context.caller().can_i(&request, context.namespace());
    let answer = answer.map_err(|error| Status::invalid(error.to_string()))?;
    Ok(json!({"value": if answer { "yes" } else { "no" }}))
}

/// Whether the caller may look at or change an account: one's own always (API-54).
fn may(context: &Context<'_>, action: &str, name: &str) -> Result<(), Status> {
    if context.claims().is_some_and(|claims| claims.own_account() == Some(name)) {
        return Ok(());
    }
    context.check(Resource::Accounts, action, name)
}

fn found<'c>(context: &'c Context<'_>, name: &str) -> Result<&'c Account, Status> {
    Ok(context.world.accounts.get(name).map_err(tiphys_service::Error::from)?)
}

fn list(context: &Context<'_>) -> Result<Value, Status> {
    let all = context.world.accounts.all().map_err(tiphys_service::Error::from)?;
    let seen = all.filter(|account| may(context, "get", &account.name).is_ok());
    Ok(json!({"items": seen.map(shown).collect::<Vec<_>>()}))
}

fn shown(account: &Account) -> Value {
    let mut tokens: Vec<&AccountToken> = account.tokens.iter().collect();
    tokens.sort_by_key(|token| std::cmp::Reverse(token.issued_at));
    let tokens: Vec<Value> = tokens
        .iter()
        .map(|token| json!({"id": token.id, "issuedAt": token.issued_at, "expiresAt": token.expires_at}))
        .collect();
    let capabilities: Vec<&str> = account.capabilities.iter().map(|it| it.as_str()).collect();
    json!({"name": account.name, "enabled": account.is_enabled, "capabilities": capabilities, "tokens": tokens})
}

async fn create_token(context: &Context<'_>, asked: CreateToken) -> Result<Value, Status> {
    let CreateToken { name, expires_in, id } = asked;
    may(context, "update", &name)?;
    if expires_in < 0 {
        // Deviation (API-57): such a token would never end in the reference.
        return Err(tiphys_service::Error::from(AccountError::Expiration).into());
    }
    let id = if id.is_empty() {
        random_id().ok_or_else(|| Status::internal("the system gives no randomness"))?
    } else {
        id
    };
    let account = found(context, &name)?;
    if !account.has(Capability::ApiKey) {
        return Err(tiphys_service::Error::from(AccountError::NoTokens(name)).into());
    }
    let now = context.parts.clock.now();
    let subject = format!("{name}:{}", Capability::ApiKey.as_str());
    // Nothing is noted of a token that could not be signed.
    let token = own_token(&context.world, &subject, &id, expires_in, now)?;
    let issued_at = now.as_second();
    let expires_at = if expires_in > 0 { issued_at.saturating_add(expires_in) } else { 0 };
    let noted = AccountToken { id, issued_at, expires_at };
    account::add_token(&context.parts.store, &name, &noted).await?;
    Ok(json!({"token": token.expose()}))
}

async fn delete_token(context: &Context<'_>, asked: Named) -> Result<Value, Status> {
    let Named { name, id } = asked;
    may(context, "update", &name)?;
    found(context, &name)?;
    account::delete_token(&context.parts.store, &name, &id).await?;
    Ok(json!({}))
}

/// Changes a password, in the order of API-56.
async fn update_password(context: &Context<'_>, asked: UpdatePassword) -> Result<Value, Status> {
    let claims = context.claims();
    let caller = claims.map(|claims| claims.identifier().to_owned()).unwrap_or_default();
    let own = claims.and_then(|claims| claims.own_account()).map(str::to_owned);
    let is_local = claims.is_some_and(|claims| claims.text("iss") == jwt::ISSUER);
    if is_local && own.is_none() && asked.name.is_empty() {
        let text = format!("password can only be changed for local users, not user {caller:?}");
        return Err(Status::invalid(text));
    }
    let target = if asked.name.is_empty() { caller.clone() } else { asked.name.clone() };
    if target != caller || !is_local {
        context.check(Resource::Accounts, "update", &asked.name)?;
    }
    match (&own, claims) {
        (Some(own), _) => {
            let checked = context.parts.sessions.check_password(own, &asked.current_password).await;
            if checked.is_err() {
                return Err(Status::invalid("current password does not match"));
            }
        }
        (None, Some(claims)) if !is_local => {
            let issued = claims.all().get("iat").and_then(jwt::seconds).unwrap_or(0);
            if context.parts.clock.now().as_second() - issued > FRESH_SECONDS {
                let text = "SSO token is too old. Please use 'argocd relogin' to get a new token";
                return Err(Status::new(Code::Unknown, text));
            }
        }
        _ => {}
    }
    let pattern = context.world.setting("passwordPattern");
    account::check_pattern(&asked.new_password, Some(pattern)).map_err(tiphys_service::Error::from)?;
    found(context, &target)?;
    let now = context.parts.clock.now();
    account::set_password(&context.parts.store, &target, asked.new_password, now).await?;
    Ok(json!({}))
}
