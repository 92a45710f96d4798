//! What a token of an identity provider has to say before it counts (API-65).

use serde_json::{Map, Value};
use tiphys_service::jwt::seconds;

/// Seconds that the clock of a provider may be ahead of ours; a token that was just made must not be too new.
const CLOCK_SKEW_SECONDS: i64 = 300;

/// What is expected of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a> {
    /// Who issued it, to the letter.
    pub issuer: &'a str,
    /// For whom it may be meant.
    pub audiences: &'a [String],
    /// Whether one that is meant for nobody in particular counts.
    pub may_lack_audience: bool,
    /// What the request for it named; a token that is shown later was checked then.
    pub nonce: Option<&'a str>,
}

/// Why the claims of a token do not count. No text holds a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Another provider issued it.
    #[error("the token was issued by another provider")]
    Issuer,
    /// It stands for nobody.
    #[error("the token has no subject")]
    Subject,
    /// It is meant for somebody else.
    #[error(
        "the token is meant for another audience; allowedAudiences of oidc.config says which are accepted"
    )]
    Audience,
    /// It is the answer to another request.
    #[error("the token is the answer to another request")]
    Nonce,
    /// It has not begun.
    #[error("the token is not valid yet")]
    NotYet,
    /// It does not say when it ends.
    #[error("the token does not say when it ends")]
    Endless,
    /// It is over. Everything else about it is right.
    #[error("the token is expired")]
    Expired,
}

/// Whether claims whose signature is right count now.
///
/// # Errors
/// With the first thing that is wrong; that a token is over comes last.
pub fn check(
    claims: &Map<String, Value>,
    expected: &Expected<'_>,
    now_seconds: i64,
) -> Result<(), ClaimError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    if expected.issuer.is_empty() || text("iss") != expected.issuer {
        return Err(ClaimError::Issuer);
    }
    if text("sub").is_empty() {
        return Err(ClaimError::Subject);
    }
    let meant = audiences(claims).ok_or(ClaimError::Audience)?;
    let is_meant = if meant.is_empty() {
        expected.may_lack_audience
    } else {
        meant.iter().any(|one| expected.audiences.iter().any(|allowed| allowed == one))
    };
    if !is_meant {
        return Err(ClaimError::Audience);
    }
    if expected.nonce.is_some_and(|nonce| nonce.is_empty() || text("nonce") != nonce) {
        return Err(ClaimError::Nonce);
    }
    match claims.get("nbf") {
        None | Some(Value::Null) => {}
        Some(begins) => {
            let begins = seconds(begins).ok_or(ClaimError::NotYet)?;
            if begins.saturating_sub(CLOCK_SKEW_SECONDS) > now_seconds {
                return Err(ClaimError::NotYet);
            }
        }
    }
    let ends = claims.get("exp").and_then(seconds).ok_or(ClaimError::Endless)?;
    if now_seconds >= ends { Err(ClaimError::Expired) } else { Ok(()) }
}

/// For whom a token is meant; `None` when that cannot be read.
fn audiences(claims: &Map<String, Value>) -> Option<Vec<&str>> {
    match claims.get("aud") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(one)) if one.is_empty() => Some(Vec::new()),
        Some(Value::String(one)) => Some(vec![one]),
        Some(Value::Array(all)) => all.iter().map(Value::as_str).collect(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(changes: &Value, nonce: Option<&str>, may_lack_audience: bool) -> Result<(), ClaimError> {
        let mut claims = json!({"iss": "https://sso", "sub": "kim", "aud": "cd", "exp": 2_000, "nonce": "n"});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let audiences = ["cd".to_owned(), "cli".to_owned()];
        let expected = Expected { issuer: "https://sso", audiences: &audiences, may_lack_audience, nonce };
        check(claims.as_object().unwrap(), &expected, 1_000)
    }

    /// SEC-18: what is meant for somebody else is refused.
    #[test]
    fn api_65_a_token_is_from_the_provider_for_us_and_in_force() {
        for (changes, outcome) in [
            (json!({}), Ok(())),
            (json!({"aud": ["x", "cli"]}), Ok(())),
            (json!({"nbf": 1_299}), Ok(())),
            (json!({"exp": 1_001}), Ok(())),
            (json!({"exp": 1_000}), Err(ClaimError::Expired)),
            (json!({"exp": null}), Err(ClaimError::Endless)),
            (json!({"exp": "2000"}), Err(ClaimError::Endless)),
            (json!({"nbf": 1_301}), Err(ClaimError::NotYet)),
            (json!({"nbf": "x"}), Err(ClaimError::NotYet)),
            (json!({"iss": "https://sso/"}), Err(ClaimError::Issuer)),
            (json!({"iss": null}), Err(ClaimError::Issuer)),
            (json!({"sub": ""}), Err(ClaimError::Subject)),
            (json!({"sub": 5}), Err(ClaimError::Subject)),
            (json!({"aud": "other"}), Err(ClaimError::Audience)),
            (json!({"aud": ["other"]}), Err(ClaimError::Audience)),
            (json!({"aud": [5, "cd"]}), Err(ClaimError::Audience)),
            (json!({"aud": {"cd": true}}), Err(ClaimError::Audience)),
            (json!({"aud": null}), Err(ClaimError::Audience)),
            (json!({"aud": []}), Err(ClaimError::Audience)),
        ] {
            assert_eq!(checked(&changes, None, false), outcome, "{changes}");
        }
        for lacking in [json!({"aud": null}), json!({"aud": []}), json!({"aud": ""})] {
            assert_eq!(checked(&lacking, None, true), Ok(()), "{lacking}");
        }
        assert_eq!(checked(&json!({"aud": "other"}), None, true), Err(ClaimError::Audience));
    }

    #[test]
    fn api_65_a_token_answers_the_request_that_was_made() {
        assert_eq!(checked(&json!({}), Some("n"), false), Ok(()));
        assert_eq!(checked(&json!({}), Some("m"), false), Err(ClaimError::Nonce));
        assert_eq!(checked(&json!({"nonce": null}), Some("n"), false), Err(ClaimError::Nonce));
        assert_eq!(checked(&json!({"nonce": ""}), Some(""), false), Err(ClaimError::Nonce));
        let both = json!({"exp": 1, "aud": "other"});
        assert_eq!(checked(&both, None, false), Err(ClaimError::Audience), "that it is over comes last");
    }
}
