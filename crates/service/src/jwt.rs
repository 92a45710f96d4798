//! Tokens of an installation: JWT with the key of its server (API-35, REP-164).

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;

/// Who issues the tokens of an installation.
const ISSUER: &str = "argocd";

/// What a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claims<'a> {
    /// Whom it stands for.
    pub(crate) subject: &'a str,
    pub(crate) id: &'a str,
    /// Second it was made.
    pub(crate) iat: i64,
    /// Second it ends; 0 is never.
    pub(crate) exp: i64,
}

/// The token itself.
pub(crate) fn signed(claims: &Claims<'_>, key: &Secret<String>) -> Secret<String> {
    let Claims { subject, id, iat, exp } = claims;
    let mut members = json!({"iss": ISSUER, "sub": subject, "iat": iat, "nbf": iat, "jti": id});
    if *exp > 0
        && let Some(members) = members.as_object_mut()
    {
        members.insert("exp".to_owned(), (*exp).into());
    }
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&members));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.expose().as_bytes()), text.as_bytes());
    Secret::new(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
}
