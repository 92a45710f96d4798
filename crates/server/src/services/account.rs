//! Accounts and their tokens (API-54..58).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_policy::rbac::{Request, Resource};
use tiphys_service::account::{Accounts, Issue, shown};
use tiphys_service::project::token::random_id;
use tiphys_service::{Access, Caller, Object, jwt};
use tiphys_wire::status::Code;

use super::context::Context;
use super::{request, unimplemented};
use crate::call::{Reply, Status};

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
    // One's own account is always there to be looked at and changed (API-54).
    let own = context.claims().and_then(|claims| claims.own_account());
    let asks = context.asks();
    let asks = |access: &Access<'_>| {
        if own.is_some_and(|own| access.object == Object::Name(own)) { Ok(()) } else { asks(access) }
    };
    let settings = context.world.installation.settings.cm();
    let accounts = Accounts::new(&context.parts.store, Caller::asking(&asks), settings);
    let answer = match method {
        "CanI" => can_i(context, &request::read(request)?)?,
        "ListAccounts" => {
            let found = accounts.list().await?;
            json!({"items": found.all.values().map(shown).collect::<Vec<_>>()})
        }
        "GetAccount" => {
            let Named { name, .. } = request::read(request)?;
            shown(&accounts.get(&name).await?)
        }
        "CreateToken" => create_token(context, &accounts, request::read(request)?).await?,
        "DeleteToken" => {
            let Named { name, id } = request::read(request)?;
            accounts.delete_token(&name, &id).await?;
            context.see_secret().await;
            json!({})
        }
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

async fn create_token(
    context: &Context<'_>,
    accounts: &Accounts<'_>,
    asked: CreateToken,
) -> Result<Value, Status> {
    let CreateToken { name, expires_in, id } = asked;
    let id = if id.is_empty() {
        random_id().ok_or_else(|| Status::internal("the system gives no randomness"))?
    } else {
        id
    };
    let issue = Issue { account: &name, id: &id, expires_in, now: context.parts.clock.now() };
    let token = accounts.create_token(&issue).await?;
    context.see_secret().await;
    Ok(json!({"token": token.expose()}))
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
    let now = context.parts.clock.now();
    // Who may was answered above: API-56 asks otherwise than the other calls.
    let settings = context.world.installation.settings.cm();
    let accounts = Accounts::new(&context.parts.store, Caller::operator(), settings);
    accounts.set_password(&target, &asked.new_password, now).await?;
    context.see_secret().await;
    Ok(json!({}))
}
