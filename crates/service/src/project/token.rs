//! Tokens of project roles (REP-164): what is stored of one, and what it says.

use jiff::Timestamp;
use tiphys_api::AppProject;
use tiphys_api::project::JwtToken;
use tiphys_api::secret::Secret;

use super::ProjectError;
use crate::jwt::{self, Claims};

/// A token that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue<'a> {
    /// Role it is for.
    pub role: &'a str,
    /// Id; nobody has used it.
    pub id: &'a str,
    /// Seconds until it ends; 0 is never.
    pub expires_in: i64,
    /// The time.
    pub now: Timestamp,
}

/// The project with the token in its books.
///
/// # Errors
/// When there is no such role, or the id was used.
pub fn plan_token(project: &AppProject, issue: &Issue<'_>) -> Result<AppProject, ProjectError> {
    let mut wanted = project.clone();
    let name = wanted.name().to_owned();
    let missing = || ProjectError::NoRole { project: name.clone(), role: issue.role.to_owned() };
    let role = wanted.spec.roles.iter_mut().find(|role| role.name == issue.role).ok_or_else(missing)?;
    let stored = wanted.status.jwt_tokens_by_role.get(issue.role).map(|tokens| tokens.items.as_slice());
    let mut known = role.jwt_tokens.iter().chain(stored.unwrap_or_default());
    if known.any(|token| token.id == issue.id) {
        return Err(ProjectError::UsedTokenId(issue.id.to_owned()));
    }
    role.jwt_tokens.push(entry(issue));
    Ok(wanted)
}

/// What is stored of a token.
pub fn entry(issue: &Issue<'_>) -> JwtToken {
    let iat = issue.now.as_second();
    let exp = if issue.expires_in > 0 { iat.saturating_add(issue.expires_in) } else { 0 };
    JwtToken { iat, exp, id: issue.id.to_owned() }
}

/// The token itself: a JWT, signed with the key of the installation's server.
pub fn signed(project: &str, issue: &Issue<'_>, key: &Secret<String>) -> Secret<String> {
    let JwtToken { iat, exp, id } = entry(issue);
    let subject = format!("proj:{project}:{}", issue.role);
    jwt::signed(&Claims { subject: &subject, id: &id, iat, exp }, key)
}

/// A random id in the form of a UUID; `None` when the system gives no randomness.
pub fn random_id() -> Option<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    let number = u128::from_be_bytes(bytes);
    // Version 4, variant 1 (RFC 9562).
    let number = (number & !(0xf << 76) | (4 << 76)) & !(3 << 62) | (2 << 62);
    let text = format!("{number:032x}");
    let mut id = String::with_capacity(36);
    for (at, letter) in text.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            id.push('-');
        }
        id.push(letter);
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    fn issue(id: &str, expires_in: i64) -> Issue<'_> {
        Issue { role: "ci", id, expires_in, now: Timestamp::from_second(1_000).unwrap() }
    }

    fn project() -> AppProject {
        serde_json::from_value(json!({"metadata": {"name": "demo"}, "spec": {"roles": [{"name": "ci",
            "jwtTokens": [{"iat": 1, "id": "old"}]}]}, "status": {"jwtTokensByRole": {"ci": {"items":
            [{"iat": 1, "id": "old"}, {"iat": 2, "id": "other"}]}}}}))
        .unwrap()
    }

    #[test]
    fn rep_164_a_token_is_noted_once() {
        let wanted = plan_token(&project(), &issue("new", 60)).unwrap();
        let noted = wanted.spec.roles[0].jwt_tokens.last().cloned().unwrap();
        assert_eq!((noted.iat, noted.exp, noted.id.as_str()), (1_000, 1_060, "new"));
        assert_eq!(entry(&issue("x", 0)).exp, 0, "never");
        for id in ["old", "other"] {
            let used = plan_token(&project(), &issue(id, 0)).unwrap_err();
            assert_eq!(used.to_string(), format!("Token id '{id}' has been used. "));
        }
        let stranger = plan_token(&project(), &Issue { role: "x", ..issue("a", 0) }).unwrap_err();
        assert_eq!(stranger.to_string(), "project 'demo' does not have role 'x'");
    }

    /// The signature is that of RFC 7515 with HMAC SHA-256: recomputed with another tool.
    #[test]
    fn rep_164_the_claims_and_their_signature() {
        let token = signed("demo", &issue("id", 60), &Secret::from("key"));
        let parts: Vec<&str> = token.expose().split('.').collect();
        let decode =
            |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
        assert_eq!(decode(parts[0]), json!({"alg": "HS256", "typ": "JWT"}));
        assert_eq!(
            decode(parts[1]),
            json!({"iss": "argocd", "sub": "proj:demo:ci", "iat": 1000, "nbf": 1000, "exp": 1060, "jti": "id"})
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        let text = format!("{}.{}", parts[0], parts[1]);
        hmac::verify(&key, text.as_bytes(), &URL_SAFE_NO_PAD.decode(parts[2]).unwrap()).unwrap();
        assert_eq!(format!("{token:?}"), "***");
    }

    #[test]
    fn rep_164_ids_are_random_uuids() {
        let (a, b) = (random_id().unwrap(), random_id().unwrap());
        assert_ne!(a, b);
        let parts: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(a.chars().nth(14), Some('4'));
    }
}
