//! Tokens of the installation itself: JSON Web Tokens signed with the key of its server (API-35..37).

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use tiphys_api::secret::Secret;

/// Who issues the tokens of an installation.
pub const ISSUER: &str = "argocd";
/// Bytes of a token that is looked at.
pub const TOKEN_BYTES_MAX: usize = 128 << 10;

/// Why a token does not count. No text holds a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is no token at all.
    #[error("token is malformed")]
    Malformed,
    /// It is signed in a way that is not accepted, or not at all.
    #[error("signing method is not accepted")]
    Algorithm,
    /// Its signature is not ours.
    #[error("signature is invalid")]
    Signature,
    /// It is over.
    #[error("token is expired")]
    Expired,
    /// It has not begun.
    #[error("token is not valid yet")]
    NotYet,
    /// It does not say when it was issued.
    #[error("token has no valid issue time")]
    NoIssueTime,
    /// It is somebody else's.
    #[error("token was issued by somebody else")]
    Issuer,
}

/// A token that was taken apart. Nothing of it is verified.
#[derive(Clone, Debug)]
pub struct Unverified<'t> {
    /// What is signed.
    signed: &'t str,
    signature: Vec<u8>,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

impl<'t> Unverified<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(token: &'t str) -> Result<Self, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let part = |text: &str| -> Option<Map<String, Value>> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
        };
        Ok(Self {
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_no_base64| TokenError::Malformed)?,
            header: part(header).ok_or(TokenError::Malformed)?,
            claims: part(claims).ok_or(TokenError::Malformed)?,
        })
    }

    /// Who says that it issued the token; good for finding out who is asked, and for nothing else.
    pub fn issuer(&self) -> &str {
        self.claims.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// How the token says that it is signed.
    pub fn algorithm(&self) -> &str {
        self.header.get("alg").and_then(Value::as_str).unwrap_or_default()
    }

    /// The key that the token says that it is signed with.
    pub fn key_id(&self) -> Option<&str> {
        self.header.get("kid").and_then(Value::as_str)
    }

    /// What is signed, and the signature.
    pub fn signed(&self) -> (&'t str, &[u8]) {
        (self.signed, &self.signature)
    }

    /// The claims, for whoever has verified the signature.
    pub fn into_claims(self) -> Map<String, Value> {
        self.claims
    }

    /// Whether the token is in force, with no leeway (API-37).
    ///
    /// # Errors
    /// When it is over, or has not begun.
    pub fn check_times(&self, now_seconds: i64) -> Result<(), TokenError> {
        let time = |name: &str| match self.claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => seconds(value).map(Some).ok_or(TokenError::Malformed),
        };
        if time("exp")?.is_some_and(|exp| now_seconds >= exp) {
            return Err(TokenError::Expired);
        }
        if time("nbf")?.is_some_and(|nbf| now_seconds < nbf) {
            return Err(TokenError::NotYet);
        }
        Ok(())
    }
}

/// A time of a claim in whole seconds.
pub fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.abs() < 1e15)?;
        format!("{:.0}", number.trunc()).parse().ok()
    })
}

fn key(secret: &Secret<String>) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes())
}

/// Signs claims.
pub fn sign(claims: &Value, secret: &Secret<String>) -> Secret<String> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let signature = hmac::sign(&key(secret), text.as_bytes());
    Secret::new(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
}

/// What a token of the installation says (API-35).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims<'a> {
    /// Whom it stands for.
    pub subject: &'a str,
    /// Its id.
    pub id: &'a str,
    /// Second it was made.
    pub iat: i64,
    /// Second it ends; 0 is never.
    pub exp: i64,
}

impl<'a> Claims<'a> {
    /// Reads the claims of a verified token; missing claims are empty.
    pub fn of(claims: &'a Map<String, Value>) -> Self {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let time = |name: &str| claims.get(name).and_then(seconds).unwrap_or(0);
        Self { subject: text("sub"), id: text("jti"), iat: time("iat"), exp: time("exp") }
    }
}

/// Entry of a list of issued tokens: those of a project's role, or of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedToken<'a> {
    /// Id; the decimal time of issue for tokens from before there were ids.
    pub id: &'a str,
    /// Second of issue.
    pub iat: i64,
    /// Second of expiry; 0 if it was not recorded.
    pub exp: i64,
    /// Seconds by which the token itself may be later than its entry.
    pub late_max: i64,
}

impl IssuedToken<'_> {
    /// Whether a token is the one of this entry. Comparing only the id would make a deleted token valid again when its id is
    /// reused (API-38, API-39).
    pub fn is(&self, token: &Claims<'_>) -> bool {
        let is_same_id = if token.id.is_empty() {
            self.id.is_empty() || self.id == token.iat.to_string()
        } else {
            self.id == token.id
        };
        let is_close = |stored: i64, found: i64| (0..=self.late_max).contains(&found.saturating_sub(stored));
        is_same_id && is_close(self.iat, token.iat) && (self.exp == 0 || is_close(self.exp, token.exp))
    }
}

/// The token that says this.
pub fn signed(claims: &Claims<'_>, key: &Secret<String>) -> Secret<String> {
    let Claims { subject, id, iat, exp } = claims;
    let mut members = json!({"iss": ISSUER, "sub": subject, "iat": iat, "nbf": iat, "jti": id});
    if *exp > 0
        && let Some(members) = members.as_object_mut()
    {
        members.insert("exp".to_owned(), (*exp).into());
    }
    sign(&members, key)
}

/// Verifies a token of the installation: signed with one of the keys, in force, issued here (API-37). `none` and keys
/// of any other kind are refused (SEC-15).
///
/// # Errors
/// When it does not count.
pub fn verify(
    token: Unverified<'_>,
    keys: &[&Secret<String>],
    now_seconds: i64,
) -> Result<Map<String, Value>, TokenError> {
    let algorithm = match token.algorithm() {
        "HS256" => hmac::HMAC_SHA256,
        "HS384" => hmac::HMAC_SHA384,
        "HS512" => hmac::HMAC_SHA512,
        _ => return Err(TokenError::Algorithm),
    };
    let (signed, signature) = token.signed();
    let is_ours = keys.iter().filter(|secret| !secret.is_empty()).any(|secret| {
        let key = hmac::Key::new(algorithm, secret.expose().as_bytes());
        hmac::verify(&key, signed.as_bytes(), signature).is_ok()
    });
    if !is_ours {
        return Err(TokenError::Signature);
    }
    token.check_times(now_seconds)?;
    if token.claims.get("iat").and_then(seconds).is_none() {
        return Err(TokenError::NoIssueTime);
    }
    if token.issuer() != ISSUER {
        return Err(TokenError::Issuer);
    }
    Ok(token.into_claims())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(token: &str, keys: &[&str], now: i64) -> Result<Map<String, Value>, TokenError> {
        let keys: Vec<Secret<String>> = keys.iter().map(|key| Secret::from(*key)).collect();
        verify(Unverified::read(token)?, &keys.iter().collect::<Vec<_>>(), now)
    }

    fn token(claims: &Value) -> String {
        sign(claims, &Secret::from("key")).expose().clone()
    }

    fn claims() -> Value {
        json!({"iss": "argocd", "sub": "kim:login", "iat": 1000, "nbf": 1000, "exp": 2000, "jti": "id"})
    }

    #[test]
    fn api_37_tokens_are_signed_in_force_and_ours() {
        let good = token(&claims());
        assert_eq!(verified(&good, &["key"], 1000).unwrap()["sub"], "kim:login");
        assert_eq!(verified(&good, &["new", "key"], 1999).unwrap()["jti"], "id", "API-43");
        assert_eq!(verified(&good, &["key"], 2000), Err(TokenError::Expired), "no leeway");
        assert_eq!(verified(&good, &["key"], 999), Err(TokenError::NotYet));
        assert_eq!(verified(&good, &["other"], 1500), Err(TokenError::Signature));
        assert_eq!(verified(&good, &[""], 1500), Err(TokenError::Signature), "no key is none");
        let without = |name: &str| {
            let mut claims = claims();
            claims.as_object_mut().unwrap().remove(name);
            verified(&token(&claims), &["key"], 1500).map(drop)
        };
        assert_eq!(without("exp"), Ok(()), "tokens may last for ever");
        assert_eq!(without("iat"), Err(TokenError::NoIssueTime));
        assert_eq!(without("iss"), Err(TokenError::Issuer));
        let odd = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            verified(&token(&claims), &["key"], 1500).map(drop)
        };
        assert_eq!(odd("iat", json!("1000")), Err(TokenError::NoIssueTime));
        assert_eq!(odd("exp", json!("never")), Err(TokenError::Malformed));
        assert_eq!(odd("exp", json!(1500.9)), Err(TokenError::Expired));
        assert_eq!(odd("iss", json!("https://sso")), Err(TokenError::Issuer));
    }

    #[test]
    fn sec_15_unsigned_tokens_and_foreign_methods_are_refused() {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        for algorithm in ["none", "None", "NONE", "", "RS256", "ES256", "HS1", "hs256"] {
            let body = format!("{}.{}", part(json!({"alg": algorithm})), part(claims()));
            let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key(&Secret::from("key")), body.as_bytes()));
            for token in [format!("{body}."), format!("{body}.{signature}")] {
                assert_eq!(verified(&token, &["key"], 1500), Err(TokenError::Algorithm), "{algorithm}");
            }
        }
        let good = token(&claims());
        let (body, _) = good.rsplit_once('.').unwrap();
        assert_eq!(verified(&format!("{body}."), &["key"], 1500), Err(TokenError::Signature));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let long = "a".repeat(TOKEN_BYTES_MAX + 1);
        for text in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", "e30.e30.!", "W10.e30.e30", "e30.e30", &long] {
            assert_eq!(verified(text, &["key"], 0), Err(TokenError::Malformed), "{text:.20}");
        }
        assert_eq!(verified("e30.e30.", &["key"], 0), Err(TokenError::Algorithm));
    }
}
