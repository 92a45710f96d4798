//! Logging in and out, and who one is (API-48, API-52, API-53).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;

use super::context::Context;
use super::{request, unimplemented};
use crate::call::{Reply, Status};
use crate::session::Login;

/// `SessionCreateRequest`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Create {
    username: String,
    password: Secret<String>,
    token: Secret<String>,
}

pub(super) async fn call(context: &Context<'_>, method: &str, request: Value) -> Result<Reply, Status> {
    match method {
        "Create" => {
            let Create { username, password, token } = request::read(request)?;
            let outcome = context.parts.sessions.login(Login { username, password, token }).await;
            let token = outcome?;
            Ok(Reply { session: Some(token.clone()), ..Reply::value(json!({"token": token.expose()})) })
        }
        // The token is not given back by this; the cookie goes (API-52).
        "Delete" => Ok(Reply { session: Some(Secret::default()), ..Reply::value(json!({})) }),
        "GetUserInfo" => Ok(Reply::value(user_info(context))),
        _ => Err(unimplemented(method)),
    }
}

fn user_info(context: &Context<'_>) -> Value {
    match context.claims() {
        Some(claims) if context.is_logged_in() => json!({
            "loggedIn": true,
            "username": claims.username(),
            "iss": claims.text("iss"),
            "groups": claims.groups(context.world.scopes()),
        }),
        Some(claims) => json!({"loggedIn": false, "iss": claims.text("iss")}),
        None => json!({"loggedIn": false}),
    }
}
